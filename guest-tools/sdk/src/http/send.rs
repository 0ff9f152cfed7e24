//! One exchange over `wasi:http`.

use super::{Request, Response};
use crate::bindings::wasi::http::outgoing_handler::handle;
use crate::bindings::wasi::http::types::{
    ErrorCode, Fields, HeaderError, IncomingResponse, Method, OutgoingBody, OutgoingRequest,
    Scheme, http_error_code,
};
use crate::bindings::wasi::io::streams::{InputStream, StreamError};
use crate::error::ToolError;

/// Bytes of a body moved by one host call when reading.
const READ_BYTES: u64 = 65_536;

/// Bytes of a body moved by one host call when writing: what the interface allows.
const WRITE_BYTES: usize = 4_096;

/// Sends `request`, and reads at most `body_bytes_max` bytes of the answer's body.
pub(super) fn send(request: &Request, body_bytes_max: usize) -> Result<Response, ToolError> {
    let outgoing = outgoing(request)?;
    // A request without a body must not have one, or it would be sent in chunks.
    let body = if request.body.is_empty() { None } else { Some(outgoing.body().map_err(used)?) };
    let pending = handle(outgoing, None).map_err(|code| explain(request, code))?;
    if let Some(body) = body {
        write(request, body)?;
    }
    pending.subscribe().block();
    let incoming = pending.get().ok_or_else(unanswered)?.map_err(used)?;
    let incoming = incoming.map_err(|code| explain(request, code))?;
    receive(request, &incoming, body_bytes_max)
}

fn outgoing(request: &Request) -> Result<OutgoingRequest, ToolError> {
    let outgoing = OutgoingRequest::new(fields(request)?);
    let scheme = if request.target.secure { Scheme::Https } else { Scheme::Http };
    outgoing
        .set_method(&method(&request.method))
        .and_then(|()| outgoing.set_scheme(Some(&scheme)))
        .and_then(|()| outgoing.set_authority(Some(&request.target.authority)))
        .and_then(|()| outgoing.set_path_with_query(Some(&request.target.path_with_query())))
        .map_err(|()| ToolError::invalid_args("the host takes neither this method nor this URL"))?;
    Ok(outgoing)
}

fn fields(request: &Request) -> Result<Fields, ToolError> {
    let fields = Fields::new();
    let given = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    for (name, value) in given.chain(length(request)) {
        fields.append(name, value.as_bytes()).map_err(|error| {
            ToolError::invalid_args(match error {
                HeaderError::Forbidden => format!("the header {name:?} is not the caller's to set"),
                _ => format!("the header {name:?} has a name or value that cannot be sent"),
            })
        })?;
    }
    Ok(fields)
}

/// Some servers wait for a body, or refuse, where a method that has one does not say that it is
/// empty.
fn length(request: &Request) -> Option<(&'static str, &'static str)> {
    const NAME: &str = "content-length";
    let has_body = matches!(request.method.as_str(), "POST" | "PUT" | "PATCH");
    let is_given = request.headers.iter().any(|(name, _)| name == NAME);
    (has_body && request.body.is_empty() && !is_given).then_some((NAME, "0"))
}

fn method(name: &str) -> Method {
    match name {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" => Method::Put,
        "DELETE" => Method::Delete,
        "OPTIONS" => Method::Options,
        "PATCH" => Method::Patch,
        other => Method::Other(other.to_owned()),
    }
}

fn write(request: &Request, body: OutgoingBody) -> Result<(), ToolError> {
    let stream = body.write().map_err(used)?;
    for chunk in request.body.chunks(WRITE_BYTES) {
        if stream.blocking_write_and_flush(chunk).is_err() {
            // The answer, where there is one, says why better than the broken stream does.
            return Ok(());
        }
    }
    drop(stream);
    OutgoingBody::finish(body, None).map_err(|code| explain(request, code))
}

fn receive(
    request: &Request,
    incoming: &IncomingResponse,
    body_bytes_max: usize,
) -> Result<Response, ToolError> {
    let body = incoming.consume().map_err(used)?;
    let stream = body.stream().map_err(used)?;
    let (read, truncated) = read(request, &stream, body_bytes_max)?;
    Ok(Response {
        url: request.target.as_str().to_owned(),
        status: incoming.status(),
        headers: incoming.headers().entries(),
        body: read,
        truncated,
    })
}

/// Reads until the end or the limit; an endless body costs no more than the limit.
fn read(request: &Request, stream: &InputStream, max: usize) -> Result<(Vec<u8>, bool), ToolError> {
    let mut body = Vec::new();
    loop {
        match stream.blocking_read(READ_BYTES) {
            Ok(chunk) => body.extend(chunk),
            Err(StreamError::Closed) => return Ok((body, false)),
            Err(StreamError::LastOperationFailed(error)) => {
                let code = http_error_code(&error).unwrap_or(ErrorCode::HttpResponseIncomplete);
                return Err(explain(request, code));
            }
        }
        if body.len() > max {
            body.truncate(max);
            return Ok((body, true));
        }
    }
}

fn used(_: ()) -> ToolError {
    ToolError::failed("the host gave a part of the exchange away twice")
}

fn unanswered() -> ToolError {
    ToolError::failed("the host ended the exchange without an answer")
}

/// The host's reason, in words for the model.
fn explain(request: &Request, code: ErrorCode) -> ToolError {
    let whom = &request.target.authority;
    match code {
        ErrorCode::DestinationIpProhibited | ErrorCode::HttpRequestDenied => {
            ToolError::denied(format!("requests to {whom} are not allowed"))
        }
        ErrorCode::DnsTimeout
        | ErrorCode::ConnectionTimeout
        | ErrorCode::ConnectionReadTimeout
        | ErrorCode::ConnectionWriteTimeout
        | ErrorCode::HttpResponseTimeout => {
            ToolError::Timeout(format!("{whom} did not answer in time"))
        }
        ErrorCode::HttpRequestMethodInvalid => ToolError::invalid_args("the method cannot be sent"),
        ErrorCode::HttpRequestUriInvalid | ErrorCode::HttpRequestUriTooLong => {
            ToolError::invalid_args("the URL cannot be sent")
        }
        other => ToolError::failed(format!("request to {whom} failed: {}", reason(&other))),
    }
}

fn reason(code: &ErrorCode) -> &'static str {
    match code {
        ErrorCode::DnsError(_) | ErrorCode::DestinationNotFound => "the host name has no address",
        ErrorCode::DestinationUnavailable | ErrorCode::DestinationIpUnroutable => {
            "it cannot be reached"
        }
        ErrorCode::ConnectionRefused => "it refused the connection",
        ErrorCode::ConnectionTerminated | ErrorCode::HttpResponseIncomplete => {
            "the connection ended before the answer did"
        }
        ErrorCode::ConnectionLimitReached => "too many connections",
        ErrorCode::TlsProtocolError
        | ErrorCode::TlsCertificateError
        | ErrorCode::TlsAlertReceived(_) => "no secure connection could be made",
        ErrorCode::HttpProtocolError => "its answer is not HTTP",
        ErrorCode::HttpResponseHeaderSectionSize(_) | ErrorCode::HttpResponseHeaderSize(_) => {
            "its headers are too large"
        }
        ErrorCode::HttpResponseBodySize(_) => "its answer is too large",
        ErrorCode::LoopDetected => "it redirects in a loop",
        _ => "the exchange broke off",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_body_is_told_where_one_is_expected() {
        let request = |method: &str| Request::new(method, "http://e.com").unwrap();
        for method in ["POST", "put", "PATCH"] {
            assert_eq!(length(&request(method)), Some(("content-length", "0")), "{method}");
        }
        for method in ["GET", "HEAD", "DELETE", "OPTIONS"] {
            assert_eq!(length(&request(method)), None, "{method}");
        }
        assert_eq!(length(&request("POST").header("Content-Length", "0")), None);
        assert_eq!(length(&request("POST").body("a")), None);
    }
}
