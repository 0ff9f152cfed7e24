//! The client: what a checked request waits for, and within which bounds it is answered.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clawhost_core::egress::{EgressDenied, TargetHost};
use clawhost_core::limits::{
    EGRESS_BODY_BYTES_MAX, EGRESS_CONNECT_MS, EGRESS_CONNECTIONS_MAX,
    EGRESS_CONNECTIONS_PER_CALL_MAX, EGRESS_READ_MS,
};
use http::Response;
use http_body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout_at;

use super::checked::Route;
use super::connect::{Stream, dial, exchange};
use super::tls::Connectors;
use super::{CheckedRequest, Resolver, ResponseBody, SystemResolver, TrustedRoots, UpstreamError};

/// Sends checked requests. Cheap to clone; clones share the bound on connections.
#[derive(Clone)]
pub struct HttpClient {
    shared: Arc<Shared>,
    share: Arc<Semaphore>,
}

struct Shared {
    resolver: Arc<dyn Resolver>,
    tls: Connectors,
    connections: Arc<Semaphore>,
}

/// How long one request may take, and how much it may send and bring.
#[derive(Debug, Clone, Copy)]
pub struct RequestLimits {
    /// Waiting for a free connection, looking the name up, connecting and the TLS handshake.
    pub connect: Duration,
    /// From the request's first byte to the end of the answer's headers.
    pub first_byte: Duration,
    /// Between two pieces of the answer's body while somebody waits for one.
    pub between_bytes: Duration,
    /// When all of it has to be over, body included.
    pub deadline: Instant,
    /// Bytes of the answer's body, as sent.
    pub body_bytes_max: u64,
    /// Bytes of the request's own body.
    pub sent_bytes_max: u64,
}

impl RequestLimits {
    /// Returns the default limits of a request that has to be over at `deadline`.
    pub const fn until(deadline: Instant) -> Self {
        Self {
            connect: Duration::from_millis(EGRESS_CONNECT_MS),
            first_byte: Duration::from_millis(EGRESS_READ_MS),
            between_bytes: Duration::from_millis(EGRESS_READ_MS),
            deadline,
            body_bytes_max: EGRESS_BODY_BYTES_MAX,
            sent_bytes_max: EGRESS_BODY_BYTES_MAX,
        }
    }

    /// Returns when `wait` from now is over, or the deadline where that is earlier.
    pub(super) fn at_most(&self, wait: Duration) -> Instant {
        Instant::now().checked_add(wait).map_or(self.deadline, |end| end.min(self.deadline))
    }

    /// Returns `error`, or that the whole request is out of time where that is so.
    pub(super) fn expired(&self, error: UpstreamError) -> UpstreamError {
        if Instant::now() >= self.deadline { UpstreamError::Deadline } else { error }
    }
}

/// The right to one connection, of the call's share and of the host's.
#[derive(Debug)]
pub(super) struct Permits {
    _of_call: OwnedSemaphorePermit,
    _of_host: OwnedSemaphorePermit,
}

impl HttpClient {
    /// Returns a client that asks the system's resolver and trusts Mozilla's root certificates.
    pub fn system() -> Self {
        Self::new(Arc::new(SystemResolver::new()), TrustedRoots::Mozilla)
    }

    /// Returns a client that asks `resolver` and trusts `roots`, with bounds of its own.
    pub fn new(resolver: Arc<dyn Resolver>, roots: TrustedRoots) -> Self {
        let connections = Arc::new(Semaphore::new(EGRESS_CONNECTIONS_MAX));
        let shared = Shared { resolver, tls: Connectors::new(roots), connections };
        let share = Arc::new(Semaphore::new(EGRESS_CONNECTIONS_PER_CALL_MAX));
        Self { shared: Arc::new(shared), share }
    }

    /// Returns a client for one call, with a share of the connections that is the call's own.
    #[must_use]
    pub fn for_call(&self) -> Self {
        let share = Arc::new(Semaphore::new(EGRESS_CONNECTIONS_PER_CALL_MAX));
        Self { shared: Arc::clone(&self.shared), share }
    }

    /// Sends `request` and returns the answer's head, whatever its status, with its body still
    /// to be read. Dropping either closes the connection.
    ///
    /// # Errors
    /// An address that is not allowed, or whatever went wrong on the way; see
    /// [`UpstreamError`].
    pub async fn send<B>(
        &self,
        request: CheckedRequest<B>,
        limits: &RequestLimits,
    ) -> Result<Response<ResponseBody>, UpstreamError>
    where
        B: Body<Data = Bytes> + Send + 'static,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (request, route) = request.into_parts();
        let until = limits.at_most(limits.connect);
        let (stream, permits) = within(until, self.connect(&route, limits, until))
            .await
            .map_err(|_| limits.expired(UpstreamError::ConnectTimeout))??;
        let answer = exchange(stream, request, permits, limits);
        within(limits.at_most(limits.first_byte), answer)
            .await
            .map_err(|_| limits.expired(UpstreamError::ReadTimeout))?
    }

    async fn connect(
        &self,
        route: &Route,
        limits: &RequestLimits,
        until: Instant,
    ) -> Result<(Stream, Permits), UpstreamError> {
        let permits = within(until, self.permits())
            .await
            .map_err(|_| limits.expired(UpstreamError::ConnectionsBusy))??;
        let addresses = self.addresses(route).await?;
        let target = &route.target;
        let tcp = dial(&addresses, target.port, until).await?;
        if !target.tls {
            return Ok((Stream::Plain(tcp), permits));
        }
        let stream = self.shared.tls.connect(&target.host, tcp).await?;
        Ok((Stream::Tls(Box::new(stream)), permits))
    }

    async fn permits(&self) -> Result<Permits, UpstreamError> {
        let acquire = |semaphore: &Arc<Semaphore>| Arc::clone(semaphore).acquire_owned();
        // The call's own share first: who waits for it takes nothing from others.
        let of_call = acquire(&self.share).await;
        let of_host = acquire(&self.shared.connections).await;
        match (of_call, of_host) {
            (Ok(_of_call), Ok(_of_host)) => Ok(Permits { _of_call, _of_host }),
            _ => Err(UpstreamError::ConnectionsBusy),
        }
    }

    /// Returns the addresses to connect to: looked up once, each of them checked.
    async fn addresses(&self, route: &Route) -> Result<Vec<IpAddr>, UpstreamError> {
        let found = match &route.target.host {
            TargetHost::Address(ip) => vec![*ip],
            TargetHost::Name(name) => {
                self.shared.resolver.resolve(name).await.map_err(UpstreamError::Lookup)?
            }
        };
        if found.is_empty() {
            return Err(UpstreamError::Lookup(std::io::ErrorKind::NotFound.into()));
        }
        let behind = |denied: EgressDenied| match &route.target.host {
            TargetHost::Address(_) => denied,
            TargetHost::Name(name) => denied.behind(name),
        };
        Ok(route.rules.check_addresses(&found).map_err(behind)?)
    }
}

pub(super) async fn within<F: Future>(
    until: Instant,
    future: F,
) -> Result<F::Output, tokio::time::error::Elapsed> {
    timeout_at(until.into(), future).await
}

impl fmt::Debug for HttpClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let free = self.shared.connections.available_permits();
        f.debug_struct("HttpClient").field("connections_free", &free).finish_non_exhaustive()
    }
}
