//! `wasi:http` for guests: every request of every component goes through the egress rules of
//! its call and out through [`HttpClient`]. Placeholders of secrets become values after every
//! check that needs no look-up, just before the request is sent; every answer to a call that has
//! placeholders is masked, and refused where it is compressed or a part, which would hide values.
//!
//! Deliberately absent: the engine's own sender (compiled out, so nothing can fall through to
//! it), redirects (the guest follows them, and each hop is a request checked like the first),
//! and incoming requests.

use std::collections::BTreeSet;
use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use clawhost_core::egress::{EgressDenied, EgressRules, Reason, is_forbidden_header};
use clawhost_core::limits::{EGRESS_ORIGINS_MAX, EGRESS_REQUESTS_MAX, EGRESS_VIOLATIONS_MAX};
use clawhost_core::redact::Redactor;
use clawhost_core::violation::Violation;
use http::header::{ACCEPT_ENCODING, IF_RANGE, RANGE};
use http::uri::Authority;
use http::{HeaderValue, Request, Response};
use http_body::Body;
use http_body_util::BodyExt as _;
use parking_lot::Mutex;
use wasmtime::component::Linker;
use wasmtime_wasi_http::{
    Error, ForbiddenHeaderFilter, RequestOptions, WasiBody, WasiHttpHooks, WasiHttpView,
};

use super::masked::{self, Cover};
use super::secrets::CallSecrets;
use crate::recording::Tape;
use crate::secrets::SecretError;
use crate::upstream::http::{CheckedRequest, HttpClient, RequestLimits, UpstreamError};

/// Bytes of a request's body that are taken out of a guest at once.
const BODY_CHUNK_BYTES_MAX: usize = 65_536;

/// The HTTP capability of one call.
#[derive(Debug)]
pub struct HttpCtx {
    /// What may be sent, and with what; nothing where no network is granted.
    way: Option<(Arc<EgressRules>, HttpClient)>,
    requests_left: u32,
    deadline: Instant,
    violations: Violations,
    /// Methods and origins of what was let out.
    reached: BTreeSet<String>,
    secrets: Option<Arc<CallSecrets>>,
    tape: Tape,
}

/// What the engine wants back: the answer, and the work that goes on beside it (none: the
/// answer's body drives its own connection).
type Sent = Result<(Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>), Error>;

/// Links `wasi:http`: the types and the outgoing handler.
///
/// # Errors
/// Only where the linker already has them.
pub fn add_to_linker<T: WasiHttpView + 'static>(linker: &mut Linker<T>) -> wasmtime::Result<()> {
    wasmtime_wasi_http::p2::add_only_http_to_linker_async(linker)
}

impl HttpCtx {
    /// Returns the capability that `rules` grant (nothing where there are none) until
    /// `deadline`.
    pub fn new(rules: Option<Arc<EgressRules>>, client: &HttpClient, deadline: Instant) -> Self {
        Self {
            way: rules.map(|rules| (rules, client.for_call())),
            requests_left: EGRESS_REQUESTS_MAX,
            deadline,
            violations: Violations::default(),
            reached: BTreeSet::new(),
            secrets: None,
            tape: Tape::default(),
        }
    }

    /// Has `tape` keep what is requested and answered, or answer it.
    pub(super) fn taped(self, tape: Tape) -> Self {
        Self { tape, ..self }
    }

    /// Sends the secrets of the call where they belong.
    pub(super) fn with_secrets(self, secrets: Option<Arc<CallSecrets>>) -> Self {
        Self { secrets, ..self }
    }

    /// Sets when every request has to be over; for those sent from now on.
    pub const fn set_deadline(&mut self, deadline: Instant) {
        self.deadline = deadline;
    }

    /// Returns what the guest tried and was refused, in full, for the audit record: the first
    /// [`EGRESS_VIOLATIONS_MAX`] and a count of the rest.
    pub fn violations(&self) -> Vec<Violation> {
        self.violations.list()
    }

    /// Says whether the exchange that was begun last broke off, which another attempt may not.
    pub fn broke_off(&self) -> bool {
        self.violations.0.lock().broke_off
    }

    /// Returns where requests were let out to, as `GET https://example.com`, for the audit record: the
    /// first [`EGRESS_ORIGINS_MAX`] of them.
    pub fn reached(&self) -> impl Iterator<Item = &str> {
        self.reached.iter().map(String::as_str)
    }

    fn admit(
        &mut self,
        request: Request<WasiBody>,
    ) -> Result<(CheckedRequest<WasiBody>, HttpClient), EgressDenied> {
        let uri = request.uri().to_string();
        let Some((rules, client)) = &self.way else {
            return Err(EgressDenied::new(Reason::Host, format!("no network is granted: {uri}")));
        };
        let Some(left) = self.requests_left.checked_sub(1) else {
            let limit = format!("more than {EGRESS_REQUESTS_MAX} requests: {uri}");
            return Err(EgressDenied::new(Reason::Host, limit));
        };
        self.requests_left = left;
        let authority = request.uri().authority().map_or("", Authority::as_str);
        let scheme = request.uri().scheme_str().unwrap_or_default();
        let origin = format!("{} {scheme}://{authority}", request.method());
        let checked = CheckedRequest::new(Arc::clone(rules), request)?;
        if self.reached.len() < EGRESS_ORIGINS_MAX {
            self.reached.insert(origin);
        }
        Ok((checked, client.clone()))
    }

    /// Puts secrets into an admitted request, and returns what masks them in its answer, which
    /// is asked for as it can be masked: whole and not compressed.
    fn fill(
        &self,
        request: &mut CheckedRequest<WasiBody>,
    ) -> Result<Option<Arc<Redactor>>, SecretError> {
        let Some(secrets) = &self.secrets else {
            return Ok(None);
        };
        secrets.fill(request)?;
        let mask = secrets.mask()?;
        if mask.is_some() {
            let headers = request.open().1.headers_mut();
            headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
            // A server may always answer these with the whole.
            headers.remove(RANGE);
            headers.remove(IF_RANGE);
        }
        Ok(mask)
    }

    fn limits(&self, options: Option<RequestOptions>) -> RequestLimits {
        let defaults = RequestLimits::until(self.deadline);
        let options = options.unwrap_or_default();
        let choose = |asked: Option<Duration>, default| asked.unwrap_or(default);
        RequestLimits {
            connect: choose(options.connect_timeout, defaults.connect),
            first_byte: choose(options.first_byte_timeout, defaults.first_byte),
            between_bytes: choose(options.between_bytes_timeout, defaults.between_bytes),
            ..defaults
        }
    }

    /// Sends a request out, past every check.
    fn pass(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        let limits = self.limits(options);
        let violations = self.violations.clone();
        let body = violations.begun();
        let (mut request, client) = match self.admit(request) {
            Ok(admitted) => admitted,
            Err(denied) => return Box::new(ready(Err(violations.refuse(&denied)))),
        };
        let mask = match self.fill(&mut request) {
            Ok(mask) => mask,
            Err(error) => return Box::new(ready(Err(unfilled(&error)))),
        };
        Box::new(async move {
            let watched = move |error| body.seen(error);
            let answer = client.send(request, &limits).await;
            let answer = answer.map(|answer| answer.map(|body| body.map_err(watched)));
            let answer = answer.map_err(|error| violations.explain(error))?;
            let Some(redactor) = mask else { return Ok(into_wasi(answer)) };
            match Cover::of(&answer) {
                Some(Cover::Compressed) => Err(compressed()),
                Some(Cover::Partial) => Err(partial()),
                None => Ok(into_wasi(masked::mask(answer, redactor))),
            }
        })
    }
}

impl WasiHttpHooks for HttpCtx {
    fn forbidden_header_filter(&mut self) -> ForbiddenHeaderFilter {
        Arc::new(|name| is_forbidden_header(name.as_str()))
    }

    // The checked request sets it, from the URL that was checked.
    fn set_host_header(&mut self) -> bool {
        false
    }

    fn p2_outgoing_body_chunk_size(&mut self) -> usize {
        BODY_CHUNK_BYTES_MAX
    }

    fn send_request(
        &mut self,
        request: Request<WasiBody>,
        options: Option<RequestOptions>,
        _processed: Box<dyn Future<Output = Result<(), Error>> + Send>,
    ) -> Box<dyn Future<Output = Sent> + Send> {
        if self.tape.is_off() {
            return self.pass(request, options);
        }
        let asked = format!("{} {}", request.method(), request.uri());
        if self.tape.plays() {
            let answer = self.tape.answered(&asked);
            return Box::new(async move { Ok((answer.await?, drained(request.into_body()))) });
        }
        let track = self.tape.request(asked);
        let sent = Pin::from(self.pass(request, options));
        Box::new(async move {
            let Some(track) = track else { return sent.await };
            let (answer, work) = sent.await.inspect_err(|_| track.lost())?;
            Ok((track.kept(answer), work))
        })
    }
}

/// Takes what a guest still sends, as a server would.
fn drained(mut body: WasiBody) -> Box<dyn Future<Output = Result<(), Error>> + Send> {
    Box::new(async move {
        while body.frame().await.is_some() {}
        Ok(())
    })
}

/// An answer in which a secret could not be masked.
fn compressed() -> Error {
    tracing::warn!("an answer was refused: it is compressed, so no secret can be masked in it.");
    Error::HttpResponseContentCoding(None)
}

/// An answer in which the pieces of a secret could not be masked.
fn partial() -> Error {
    tracing::warn!("an answer was refused: it is a part, so no secret can be masked in it.");
    Error::HttpProtocolError
}

fn into_wasi(
    response: Response<impl Body<Data = Bytes, Error = UpstreamError> + Send + 'static>,
) -> (Response<WasiBody>, Box<dyn Future<Output = Result<(), Error>> + Send>) {
    let response = response.map(|body| body.map_err(error_code).boxed_unsync());
    (response, Box::new(ready(Ok(()))))
}

/// What was refused and what broke off, shared with the requests that are still on their way.
#[derive(Debug, Clone, Default)]
struct Violations(Arc<Mutex<Refused>>);

#[derive(Debug, Default)]
struct Refused {
    first: Vec<Violation>,
    more: u64,
    broke_off: bool,
}

impl Violations {
    fn list(&self) -> Vec<Violation> {
        let refused = self.0.lock();
        let more = (refused.more > 0).then(|| format!("and {} more requests", refused.more));
        refused.first.iter().cloned().chain(more.map(Violation::from)).collect()
    }

    /// Begins an exchange, and returns what is to see how it goes on.
    fn begun(&self) -> Self {
        self.0.lock().broke_off = false;
        self.clone()
    }

    /// Notes where `error` is one that passes.
    fn seen(&self, error: UpstreamError) -> UpstreamError {
        if passes(&error) {
            self.0.lock().broke_off = true;
        }
        error
    }

    /// Records `denied`, and returns what the guest sees of it.
    fn refuse(&self, denied: &EgressDenied) -> Error {
        let mut refused = self.0.lock();
        if refused.first.len() < EGRESS_VIOLATIONS_MAX {
            refused.first.push(denied.violation());
        } else {
            refused.more = refused.more.saturating_add(1);
        }
        denial_code(denied.reason())
    }

    /// Records `error` if it is a refusal, and returns what the guest sees of it.
    fn explain(&self, error: UpstreamError) -> Error {
        match error {
            UpstreamError::Denied(denied) => self.refuse(&denied),
            other => error_code(self.seen(other)),
        }
    }
}

/// Says whether a request that failed like this may get an answer when it is made again. Too large an answer,
/// or a certificate that is not trusted, is so the next time as well, and the end of the call's time is final.
const fn passes(error: &UpstreamError) -> bool {
    match error {
        UpstreamError::Connect(_)
        | UpstreamError::ConnectTimeout
        | UpstreamError::ConnectionsBusy
        | UpstreamError::Incomplete
        | UpstreamError::Lookup(_)
        | UpstreamError::Protocol(_)
        | UpstreamError::ReadTimeout
        | UpstreamError::Tls(_) => true,
        UpstreamError::BodyTooLarge { .. }
        | UpstreamError::Deadline
        | UpstreamError::Denied(_)
        | UpstreamError::HeadersTooLarge
        | UpstreamError::RequestBody(_)
        | UpstreamError::TlsCertificate(_) => false,
    }
}

/// A request that cannot be sent as it was meant; names the secret and why.
fn unfilled(error: &SecretError) -> Error {
    tracing::warn!("a request was not sent: {error}.");
    Error::InternalError(Some("a secret of the request cannot be had".to_owned()))
}

const fn denial_code(reason: Reason) -> Error {
    match reason {
        Reason::Address => Error::DestinationIpProhibited,
        Reason::Malformed => Error::HttpRequestUriInvalid,
        Reason::Method => Error::HttpRequestMethodInvalid,
        Reason::Header | Reason::Host | Reason::Port | Reason::Scheme | Reason::UserInfo => {
            Error::HttpRequestDenied
        }
    }
}

/// Returns the code a guest sees: what failed, without the system's own words for it.
fn error_code(error: UpstreamError) -> Error {
    tracing::debug!(%error, "an outgoing request failed.");
    match error {
        UpstreamError::BodyTooLarge { bytes_max } => Error::HttpResponseBodySize(Some(bytes_max)),
        UpstreamError::Connect(_) => Error::ConnectionRefused,
        UpstreamError::ConnectTimeout => Error::ConnectionTimeout,
        UpstreamError::ConnectionsBusy => Error::ConnectionLimitReached,
        UpstreamError::Deadline => Error::HttpResponseTimeout,
        UpstreamError::Denied(denied) => denial_code(denied.reason()),
        UpstreamError::HeadersTooLarge => Error::HttpResponseHeaderSectionSize(None),
        UpstreamError::Incomplete => Error::HttpResponseIncomplete,
        UpstreamError::Lookup(_) => Error::DnsError { rcode: None, info_code: None },
        UpstreamError::Protocol(_) => Error::HttpProtocolError,
        UpstreamError::ReadTimeout => Error::ConnectionReadTimeout,
        UpstreamError::RequestBody(_) => Error::HttpRequestBodySize(None),
        UpstreamError::Tls(_) => Error::TlsProtocolError,
        UpstreamError::TlsCertificate(_) => Error::TlsCertificateError,
    }
}

#[cfg(test)]
mod tests;
