//! Built-in tool: `web_fetch`, one HTTP request with its redirects.
//!
//! This component decides nothing about addresses: the host checks every request it sends.

mod body;

use std::collections::BTreeMap;

use claw_tool::http::{Request, Response};
use claw_tool::{RESULT_BYTES_MAX, ToolError};

/// The largest body that is read (10 MiB).
const BODY_BYTES_MAX: usize = 10_485_760;

/// What a result may have, less room for everything that is not the body.
const BODY_JSON_BYTES_MAX: usize = RESULT_BYTES_MAX - 65_536;

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
    /// The limit, where the body was truncated.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit_bytes: Option<usize>,
    /// What to know about the body, such as that it was not text.
    #[serde(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

fn web_fetch(args: &WebFetch) -> Result<Fetched, ToolError> {
    let mut request = Request::new(&args.method, &args.url)?;
    for (name, value) in &args.headers {
        request = request.header(name, value);
    }
    let request = request.default_header("user-agent", "clawhost").default_header("accept", "*/*");
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
    let decoded = body::decode(response.body, BODY_JSON_BYTES_MAX);
    let truncated = response.truncated || decoded.cut;
    Fetched {
        status: response.status,
        content_type,
        url: response.url,
        bytes,
        truncated: truncated.then_some(true),
        limit_bytes: truncated.then_some(BODY_BYTES_MAX),
        warning: warning(truncated, decoded.replaced, encoding.as_deref()),
        body: decoded.text,
    }
}

fn warning(truncated: bool, replaced: bool, encoding: Option<&str>) -> Option<String> {
    let mut parts = Vec::new();
    if truncated {
        parts.push(format!("the body goes on beyond {BODY_BYTES_MAX} bytes and was cut"));
    }
    if replaced {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_says_all_there_is_to_know() {
        assert_eq!(warning(false, false, None), None);
        assert_eq!(warning(false, false, Some("identity")), None);
        let all = warning(true, true, Some("gzip")).unwrap();
        assert!(all.contains("was cut") && all.contains("UTF-8") && all.contains("gzip"), "{all}");
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
