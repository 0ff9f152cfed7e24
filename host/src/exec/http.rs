//! Runs a tool of a service: one request, and those that the service itself sends it on to.
//!
//! Each goes out through the one checked way, to the service that the operator named and nowhere else, so
//! that its token reaches nobody else. The token is put in when all checks have passed. The answer is wrapped
//! in an envelope that says how the request ended. What the service says back of a secret is masked before
//! anything is cut, as nobody recognises a part of one. Deliberately absent: anything of the caller but its
//! arguments and its name.

use std::sync::Arc;
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::{Buf as _, Bytes};
use clawhost_core::descriptor::{Credential, Granted, ServiceRequest};
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::json;
use clawhost_core::limits::REDIRECTS_MAX;
use clawhost_core::reply::ToolReply;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue,
    LOCATION,
};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Map, Value, json};
use tokio::time::timeout_at;
use url::Url;

use super::nobodys;
use super::wasm::sandbox;
use crate::gate::Admitted;
use crate::sandbox::{Cover, Masked, WayOut, mask};
use crate::secrets::SecretError;
use crate::upstream::fetch::{Unfetched, redirect};
use crate::upstream::http::{
    CheckedRequest, RequestLimits, ResponseBody, UpstreamError, sensitive,
};

/// Runs `admitted` as a request to the service that has the tool.
///
/// # Errors
/// -32010 where the service sends the request elsewhere, -32014 at the deadline, -32603 where the service
/// or the token is not there.
pub(super) async fn run(granted: &Granted, admitted: Admitted) -> Result<ToolReply, CallError> {
    let arguments = json::parse(admitted.arguments().as_bytes()).unwrap_or_default();
    let Value::Object(arguments) = arguments else {
        return Ok(failed("invalid_arguments", "the arguments are no object", None));
    };
    let request = match ServiceRequest::new(&granted.tool, arguments, admitted.principal()) {
        Ok(request) => request,
        Err(wrong) => return Ok(failed("invalid_arguments", &wrong.to_string(), None)),
    };
    let deadline = Instant::now() + admitted.timeout();
    let trip = Trip { granted, admitted: &admitted, way: admitted.resolved().sandbox().way_out() };
    match timeout_at(deadline.into(), trip.ask(request, deadline)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(trip.too_late()),
    }
}

/// One call's requests.
struct Trip<'a> {
    granted: &'a Granted,
    admitted: &'a Admitted,
    way: WayOut<'a>,
}

impl Trip<'_> {
    async fn ask(
        &self,
        mut request: ServiceRequest,
        deadline: Instant,
    ) -> Result<ToolReply, CallError> {
        let token = self.token().await?;
        for _ in 0..=REDIRECTS_MAX {
            let answer = self.send(&request, token.clone(), deadline).await?;
            // Why has an address in it, and with that arguments.
            match next(&request, &answer).map_err(|_| self.leads_away())? {
                Some(next) => request = next,
                None => return self.answer(answer, token.is_some()).await,
            }
        }
        Ok(failed("request_failed", "the service redirects without end", None))
    }

    async fn send(
        &self,
        request: &ServiceRequest,
        token: Option<(HeaderName, HeaderValue)>,
        deadline: Instant,
    ) -> Result<Response<ResponseBody>, CallError> {
        let rules = self.way.egress.ok_or_else(|| self.leads_away())?;
        let checked = CheckedRequest::new(Arc::clone(rules), plain(request).map_err(broken)?);
        let mut checked = checked
            .map_err(|denied| self.leads_away().with_internal(format!("{:?}", denied.reason())))?;
        if let Some((name, value)) = token {
            checked.open().1.headers_mut().insert(name, value);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let mut limits = RequestLimits::until(deadline);
        // A tool takes its time, and its call has a deadline.
        (limits.first_byte, limits.between_bytes) = (left, left);
        self.way.client.for_call().send(checked, &limits).await.map_err(|e| self.lost(&e))
    }

    /// Which token is missing is in the record, for the operator.
    fn untold(&self, error: &SecretError) -> CallError {
        let service = &self.granted.tool.service;
        let text = format!("the operator has to set the token for the service `{service}`");
        CallError::new(ErrorKind::Upstream, text)
            .with("stage", "secrets")
            .with_internal(error.to_string())
    }

    /// Looks the caller's token up, anew each time.
    async fn token(&self) -> Result<Option<(HeaderName, HeaderValue)>, CallError> {
        let principal = self.admitted.principal();
        let Some(credential) = self.granted.credential(principal) else {
            return Err(nobodys());
        };
        let (name, before, secret) = match credential {
            Credential::None => return Ok(None),
            Credential::Bearer { secret } => (AUTHORIZATION, "Bearer ", secret),
            Credential::Header { header, prefix, secret } => {
                (HeaderName::try_from(header).map_err(broken)?, prefix.as_str(), secret)
            }
        };
        let found = self.way.secrets.find(secret).await.map_err(|error| self.untold(&error))?;
        let unfit = || broken("no header can hold the token");
        Ok(Some((name, sensitive(before, found.expose()).ok_or_else(unfit)?)))
    }

    /// Reads an answer, to a request that carried a token where it `may_show` one.
    async fn answer(
        &self,
        answer: Response<ResponseBody>,
        may_show: bool,
    ) -> Result<ToolReply, CallError> {
        if may_show && let Some(cover) = Cover::of(&answer) {
            return Ok(failed("request_failed", covered(cover), None));
        }
        let status = answer.status();
        let most = self.admitted.resolved().grants().limits.output_bytes;
        let masked = mask(answer, self.way.secrets.redactor()).into_body();
        let body = Body::read(masked, most).await.map_err(|error| self.lost(&error))?;
        let (data, mut envelope) = body.said();
        if !status.is_success() {
            let code = format!("http_{}", status.as_u16());
            let text = format!("the service answers {}", status.as_u16());
            let mut reply = failed(&code, &text, Some(data));
            if let Some(Value::Object(own)) = &mut reply.structured {
                own.append(&mut envelope);
                own.insert("status_code".to_owned(), status.as_u16().into());
            }
            return Ok(reply);
        }
        envelope.insert("ok".to_owned(), true.into());
        envelope.insert("status_code".to_owned(), status.as_u16().into());
        envelope.insert("data".to_owned(), data);
        let structured = Some(Value::Object(envelope));
        Ok(ToolReply { structured, is_envelope: true, ..ToolReply::default() })
    }

    fn leads_away(&self) -> CallError {
        let service = &self.granted.tool.service;
        sandbox(
            self.admitted,
            &format!("`{service}` leads elsewhere, where its tools do not reach"),
        )
    }

    fn too_late(&self) -> CallError {
        CallError::too_late(&self.granted.tool.canonical(), self.admitted.timeout())
    }

    fn lost(&self, error: &UpstreamError) -> CallError {
        match error {
            UpstreamError::Denied(_) => self.leads_away(),
            UpstreamError::Deadline | UpstreamError::ReadTimeout => self.too_late(),
            other => {
                let text = format!("the service `{}` does not answer", self.granted.tool.service);
                CallError::new(ErrorKind::Upstream, text).with_internal(other.to_string())
            }
        }
    }
}

/// Makes the request as it is sent, but for what the host itself puts in.
fn plain(request: &ServiceRequest) -> Result<Request<Full<Bytes>>, http::Error> {
    let made = Request::builder()
        .method(request.method.as_str())
        .uri(&request.url)
        .header(ACCEPT, "application/json, text/plain;q=0.9, */*;q=0.1")
        .header(ACCEPT_ENCODING, "identity");
    match &request.body {
        None => made.body(Full::default()),
        Some(body) => made
            .header(CONTENT_TYPE, "application/json")
            .header(CONTENT_LENGTH, body.len())
            .body(Full::new(Bytes::from(body.clone()))),
    }
}

/// Returns the request that an answer asks for instead; an error where that is none of this very service,
/// and nothing where it asks for none.
fn next<B>(
    request: &ServiceRequest,
    answer: &Response<B>,
) -> Result<Option<ServiceRequest>, Unfetched> {
    let (status, headers) = (answer.status(), answer.headers());
    // One that does not say where is read as it is.
    if !headers.contains_key(LOCATION) {
        return Ok(None);
    }
    let from = Url::parse(&request.url).map_err(|error| Unfetched(error.to_string()))?;
    let Some(to) = redirect(&from, status, headers)? else { return Ok(None) };
    if to.origin() != from.origin() || !to.username().is_empty() || to.password().is_some() {
        return Err(Unfetched(format!("{from}: sends to another server")));
    }
    let repeats = matches!(status, StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT);
    // What a form's answer points at is looked at; anything else is asked again as it was.
    Ok(Some(if repeats || request.method == "GET" {
        ServiceRequest { url: to.into(), ..request.clone() }
    } else {
        ServiceRequest { method: "GET".to_owned(), url: to.into(), body: None }
    }))
}

/// What came of a body, and how long all of it is.
struct Body {
    kept: Vec<u8>,
    bytes: u64,
}

impl Body {
    /// Reads all of a body, and keeps at most `bytes_max` of it.
    async fn read(mut body: Masked<ResponseBody>, bytes_max: u64) -> Result<Self, UpstreamError> {
        let (mut kept, mut bytes) = (Vec::new(), 0);
        while let Some(frame) = body.frame().await {
            let Ok(mut data) = frame?.into_data() else { continue };
            bytes += data.remaining() as u64;
            let room = usize::try_from(bytes_max).unwrap_or(usize::MAX).saturating_sub(kept.len());
            data.truncate(room);
            kept.extend_from_slice(&data);
        }
        Ok(Self { kept, bytes })
    }

    /// Returns it as JSON, text, or bytes in words, and what else is to say of it.
    fn said(self) -> (Value, Map<String, Value>) {
        let mut also = Map::new();
        let is_cut = self.bytes > self.kept.len() as u64;
        if is_cut {
            also.insert("truncated".to_owned(), true.into());
            also.insert("original_bytes".to_owned(), self.bytes.into());
        }
        let text = match std::str::from_utf8(&self.kept) {
            Ok(text) => text,
            // A character that the cut went through.
            Err(error) if is_cut && error.error_len().is_none() => {
                let whole = self.kept.get(..error.valid_up_to()).unwrap_or_default();
                std::str::from_utf8(whole).unwrap_or_default()
            }
            Err(_) => {
                also.insert("encoding".to_owned(), "base64".into());
                return (STANDARD.encode(&self.kept).into(), also);
            }
        };
        let read = if is_cut { None } else { json::parse(text.as_bytes()).ok() };
        (read.unwrap_or_else(|| text.into()), also)
    }
}

/// Says why an answer is not read.
const fn covered(cover: Cover) -> &'static str {
    match cover {
        Cover::Compressed => {
            "the service answers compressed, so that its token could not be kept out of the answer"
        }
        Cover::Partial => {
            "the service answers in part, so that its token could not be kept out of the answer"
        }
    }
}

fn failed(code: &str, message: &str, details: Option<Value>) -> ToolReply {
    let mut error =
        Map::from_iter([("code".to_owned(), code.into()), ("message".to_owned(), message.into())]);
    if let Some(details) = details {
        error.insert("details".to_owned(), details);
    }
    ToolReply {
        structured: Some(json!({"ok": false, "error": error})),
        is_envelope: true,
        ..ToolReply::error("service-error", format!("{code}: {message}"))
    }
}

fn broken(error: impl std::fmt::Display) -> CallError {
    CallError::new(ErrorKind::Upstream, "the service cannot be asked")
        .with_internal(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent_on(method: &str, status: u16, to: Option<&str>) -> Option<(String, String)> {
        let (method, url) = (method.to_owned(), "http://a:1/x".to_owned());
        let request = ServiceRequest { method, url, body: Some("{}".to_owned()) };
        let mut answer = Response::builder().status(status);
        if let Some(to) = to {
            answer = answer.header(LOCATION, to);
        }
        let next = next(&request, &answer.body(()).unwrap());
        next.map_or(Some((String::new(), String::new())), |next| next.map(|n| (n.method, n.url)))
    }

    #[test]
    fn a_redirect_is_followed_within_the_service_only() {
        let there = |method: &str| Some((method.to_owned(), "http://a:1/y".to_owned()));
        assert_eq!(sent_on("POST", 303, Some("/y")), there("GET"));
        assert_eq!(sent_on("POST", 307, Some("y")), there("POST"));
        assert_eq!(sent_on("POST", 200, Some("/y")), None);
        assert_eq!(sent_on("GET", 302, None), None);
        for away in ["http://b:1/y", "https://a:1/y", "http://a:2/", "http://u@a:1/", "http://["] {
            assert_eq!(sent_on("GET", 302, Some(away)), Some(Default::default()), "{away}");
        }
    }

    fn said(kept: &[u8], bytes: u64) -> (Value, Map<String, Value>) {
        Body { kept: kept.to_vec(), bytes }.said()
    }

    #[test]
    fn a_body_is_json_text_or_bytes_and_a_cut_says_the_true_size() {
        assert_eq!(said(b"{\"a\": [1]}", 10).0, json!({"a": [1]}));
        assert_eq!(said(b"plain", 5), (json!("plain"), Map::new()));
        assert_eq!(said(b"", 0).0, json!(""));
        let (data, also) = said(b"\xff\x00", 2);
        assert_eq!((data, &also["encoding"]), (json!("/wA="), &json!("base64")));
        // `é` has two bytes, and one of them was kept.
        let (data, also) = said(b"[1, \"\xc3", 99);
        assert_eq!(data, json!("[1, \""));
        assert_eq!(Value::Object(also), json!({"truncated": true, "original_bytes": 99}));
    }
}
