//! The one way out over HTTP: checked, pinned to a checked address, bounded in everything.
//!
//! A [`CheckedRequest`] can only be made by the egress rules; [`HttpClient::send`] looks its
//! name up once, has every answer checked, and connects to one of those addresses and no
//! other. Deliberately absent: following redirects (a redirect is a new request, checked like
//! the first), proxies (the environment is never read), cookies, decompression, connection
//! reuse, HTTP/2.

mod body;
mod checked;
mod connect;
mod error;
mod resolve;
#[cfg(test)]
pub(crate) mod tests;
mod tls;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clawhost_core::egress::TargetHost;
use clawhost_core::limits::{
    EGRESS_BODY_BYTES_MAX, EGRESS_CONNECT_MS, EGRESS_CONNECTIONS_MAX,
    EGRESS_CONNECTIONS_PER_CALL_MAX, EGRESS_READ_MS,
};
use http::header::{CONTENT_ENCODING, CONTENT_TYPE, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderValue, Response};
use http_body::Body;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout_at;
use zeroize::Zeroizing;

pub use body::ResponseBody;
pub use checked::CheckedRequest;
use checked::Route;
pub use error::UpstreamError;
pub use resolve::{Lookup, Resolver, SystemResolver};
pub use tls::TrustedRoots;
pub(crate) use tls::client_config;

/// Returns a header that nobody is to see: what it shows, and what stands before it; nothing where no
/// header can hold it.
pub(crate) fn sensitive(before: &str, shown: &str) -> Option<HeaderValue> {
    let text = Zeroizing::new(format!("{before}{shown}"));
    let mut header = HeaderValue::from_str(&text).ok()?;
    header.set_sensitive(true);
    Some(header)
}

/// Says whether a body comes as it is: in no coding that would hide a secret from the mask.
pub(crate) fn is_plain(headers: &HeaderMap) -> bool {
    let only = |name, plain: &str| {
        headers.get_all(name).iter().all(|value| {
            let mut codings = value.to_str().unwrap_or("unreadable").split(',').map(str::trim);
            codings.all(|it| it.is_empty() || it.eq_ignore_ascii_case(plain))
        })
    };
    only(CONTENT_ENCODING, "identity") && only(TRANSFER_ENCODING, "chunked")
}

/// Says whether a body is of that media type, whatever else is said of it.
pub(crate) fn is_of(headers: &HeaderMap, media_type: &str) -> bool {
    let kind = headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let essence = kind.unwrap_or_default().split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case(media_type)
}

/// Sends checked requests. Cheap to clone; clones share the bound on connections.
#[derive(Clone)]
pub struct HttpClient {
    shared: Arc<Shared>,
    share: Arc<Semaphore>,
}

struct Shared {
    resolver: Arc<dyn Resolver>,
    tls: tls::Connectors,
    connections: Arc<Semaphore>,
}

/// How long one request may take and how much it may bring.
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
    /// Bytes of the body, as sent.
    pub body_bytes_max: u64,
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
        }
    }
}

/// The right to one connection, of the call's share and of the host's.
#[derive(Debug)]
struct Permits {
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
        let shared = Shared { resolver, tls: tls::Connectors::new(roots), connections };
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
        let answer = connect::exchange(stream, request, permits, limits);
        within(limits.at_most(limits.first_byte), answer)
            .await
            .map_err(|_| limits.expired(UpstreamError::ReadTimeout))?
    }

    async fn connect(
        &self,
        route: &Route,
        limits: &RequestLimits,
        until: Instant,
    ) -> Result<(connect::Stream, Permits), UpstreamError> {
        let permits = within(until, self.permits())
            .await
            .map_err(|_| limits.expired(UpstreamError::ConnectionsBusy))??;
        let addresses = self.addresses(route).await?;
        let target = &route.target;
        let tcp = connect::dial(&addresses, target.port, until).await?;
        if !target.tls {
            return Ok((connect::Stream::Plain(tcp), permits));
        }
        let stream = self.shared.tls.connect(&target.host, tcp).await?;
        Ok((connect::Stream::Tls(Box::new(stream)), permits))
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
        Ok(route.rules.check_addresses(&found)?)
    }
}

impl RequestLimits {
    /// Returns when `wait` from now is over, or the deadline where that is earlier.
    fn at_most(&self, wait: Duration) -> Instant {
        Instant::now().checked_add(wait).map_or(self.deadline, |end| end.min(self.deadline))
    }

    /// Returns `error`, or that the whole request is out of time where that is so.
    fn expired(&self, error: UpstreamError) -> UpstreamError {
        if Instant::now() >= self.deadline { UpstreamError::Deadline } else { error }
    }
}

async fn within<F: Future>(
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
