//! Built-in tools over HTTP: `web_fetch`, `http_get`, `web_search`.
//!
//! This component decides nothing about addresses: the host checks every request it sends.
//! Deliberately absent: unpacking. Bodies are asked for as they are, and one that comes compressed
//! all the same stays so, with a warning: a bomb is as large as what was sent.

mod body;
mod search;

use std::collections::BTreeMap;

use body::Decoded;
use claw_tool::ToolError;
use claw_tool::http::{Request, Response};
use claw_tool::json::TEXT_JSON_BYTES_MAX;
use search::web_search;

/// The largest body that is read (10 MiB).
const BODY_BYTES_MAX: usize = 10_485_760;

/// A content type is shown up to here.
const CONTENT_TYPE_CHARS_MAX: usize = 256;

/// Arguments of `web_fetch`.
#[claw_tool::input]
struct WebFetch {
    /// The address, http:// or https://.
    url: String,
    /// The HTTP method.
    #[serde(default = "get")]
    method: String,
    /// Headers to send, by name.
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// Arguments of `http_get`.
#[claw_tool::input]
struct HttpGet {
    /// The address, http:// or https://.
    url: String,
    /// Headers to send, by name.
    #[serde(default)]
    headers: BTreeMap<String, String>,
}

/// What the server answered.
#[claw_tool::output]
struct Fetched {
    /// The HTTP status; an error status is a result like any other.
    status: u16,
    /// The content type the server named; empty where it named none.
    content_type: String,
    /// The body as text.
    body: String,
    /// The address that answered, after redirects.
    url: String,
    /// Bytes of the body that were read.
    bytes: usize,
    /// Present, and true, where the body goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
    /// How many bytes are read of a body, where it has more.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_bytes: Option<usize>,
    /// What to know about the body, such as that it was not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

fn web_fetch(args: &WebFetch) -> Result<Fetched, ToolError> {
    fetch(&args.method, &args.url, &args.headers)
}

fn http_get(args: &HttpGet) -> Result<Fetched, ToolError> {
    fetch("GET", &args.url, &args.headers)
}

fn fetch(
    method: &str,
    url: &str,
    headers: &BTreeMap<String, String>,
) -> Result<Fetched, ToolError> {
    let mut request = Request::new(method, url)?;
    for (name, value) in headers {
        request = request.header(name, value);
    }
    let defaults = [("user-agent", "clawhost"), ("accept", "*/*"), ("accept-encoding", "identity")];
    for (name, value) in defaults {
        request = request.default_header(name, value);
    }
    Ok(fetched(request.send_following(BODY_BYTES_MAX)?))
}

fn get() -> String {
    "GET".to_owned()
}

fn fetched(response: Response) -> Fetched {
    let content_type = response.header("content-type").unwrap_or_default();
    let content_type = content_type.chars().take(CONTENT_TYPE_CHARS_MAX).collect();
    let encoding = response.header("content-encoding").map(str::to_owned);
    let bytes = response.body.len();
    let decoded = body::decode(response.body, TEXT_JSON_BYTES_MAX);
    let goes_on = response.truncated;
    Fetched {
        status: response.status,
        content_type,
        url: response.url,
        bytes,
        truncated: (goes_on || decoded.cut).then_some(true),
        limit_bytes: goes_on.then_some(BODY_BYTES_MAX),
        warning: warning(goes_on, &decoded, encoding.as_deref()),
        body: decoded.text,
    }
}

fn warning(goes_on: bool, decoded: &Decoded, encoding: Option<&str>) -> Option<String> {
    let mut parts = Vec::new();
    if goes_on {
        parts.push(format!("the body goes on beyond {BODY_BYTES_MAX} bytes and was cut"));
    }
    if decoded.cut {
        parts.push(format!(
            "as JSON the text takes more than {TEXT_JSON_BYTES_MAX} bytes and was cut there"
        ));
    }
    if decoded.replaced {
        parts.push("the body is not UTF-8 text; other bytes were replaced".to_owned());
    }
    if let Some(encoding) = encoding.filter(|name| !name.eq_ignore_ascii_case("identity")) {
        let encoding: String = encoding.chars().take(32).collect();
        parts.push(format!("the body is compressed ({encoding:?}) and was not unpacked"));
    }
    (!parts.is_empty()).then(|| parts.join("; "))
}

claw_tool::export! {
    /// Fetches a web page or calls a web API and returns status, content type and body as
    /// text. Follows up to 5 redirects. Bodies over 10 MiB are cut. Private networks are
    /// blocked unless they were allowed.
    web_fetch [destructive, open_world],
    /// Gets a web page or the answer of a web API: status, content type and body as text.
    /// Follows up to 5 redirects. Bodies over 10 MiB are cut. The operator may have narrowed
    /// the hosts that can be reached.
    http_get [read_only, idempotent, open_world],
    /// Searches the web with the operator's search service and returns titles, addresses and
    /// short descriptions.
    web_search [read_only, open_world],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_says_all_there_is_to_know() {
        let of = |goes_on, replaced, encoding| {
            let decoded = Decoded { text: String::new(), replaced, cut: false };
            warning(goes_on, &decoded, encoding)
        };
        assert_eq!(of(false, false, None), None);
        assert_eq!(of(false, false, Some("identity")), None);
        let all = of(true, true, Some("gzip")).unwrap();
        assert!(all.contains("was cut") && all.contains("UTF-8") && all.contains("gzip"), "{all}");
    }

    #[test]
    fn text_that_is_too_long_as_json_is_not_said_to_be_a_long_body() {
        let answer = fetched(Response {
            url: "http://e.com/".to_owned(),
            status: 200,
            headers: Vec::new(),
            body: vec![0; BODY_BYTES_MAX / 5],
            truncated: false,
        });
        assert_eq!((answer.truncated, answer.limit_bytes), (Some(true), None));
        let why = answer.warning.unwrap();
        assert!(why.contains("as JSON") && !why.contains("goes on"), "{why}");
    }

    #[test]
    fn a_plain_answer_has_no_extras() {
        let answer = fetched(Response {
            url: "http://e.com/".to_owned(),
            status: 404,
            headers: vec![("content-type".to_owned(), b"text/plain".to_vec())],
            body: b"gone".to_vec(),
            truncated: false,
        });
        assert_eq!((answer.status, answer.bytes, answer.body.as_str()), (404, 4, "gone"));
        assert_eq!(answer.content_type, "text/plain");
        assert!(answer.truncated.is_none() && answer.warning.is_none());
    }
}
