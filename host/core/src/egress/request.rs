//! Which methods and headers a guest may send.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::denied::{EgressDenied, Reason};

/// The methods a guest may use. `CONNECT` would make a tunnel, `TRACE` echoes credentials.
pub const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// Headers that say where a message ends, who is asked or how it is forwarded: the host's own.
const FORBIDDEN: [&str; 9] = [
    "connection", "expect", "host", "http2-settings", "keep-alive", "te", "trailer",
    "transfer-encoding", "upgrade",
];

/// Returns whether a guest may not set the header `name` (any case).
///
/// `Content-Length` is not among them: [`check_request`] says what it may look like.
pub fn is_forbidden_header(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    FORBIDDEN.contains(&name.as_str()) || name.starts_with("proxy-")
}

/// Decides on the method and the headers of a request.
///
/// `Content-Length` may appear once, as decimal digits: whoever sends the body must hold it to
/// that length, so that nothing is left over for a second message.
///
/// # Errors
/// Refuses methods outside [`METHODS`], headers of [`is_forbidden_header`], names that are no
/// token, and values with a control character other than a tab.
pub fn check_request<'a>(
    method: &str,
    headers: impl IntoIterator<Item = (&'a str, &'a [u8])>,
) -> Result<(), EgressDenied> {
    if !METHODS.contains(&method) {
        return Err(EgressDenied::new(Reason::Method, method));
    }
    let mut lengths = 0_usize;
    for (name, value) in headers {
        lengths += usize::from(name.eq_ignore_ascii_case("content-length"));
        if !header_is_fine(name, value) || lengths > 1 {
            return Err(EgressDenied::new(Reason::Header, name));
        }
    }
    Ok(())
}

/// Returns `text` as it can stand in any part of an address, for nothing but itself: with all but unreserved
/// characters (RFC 3986, section 2.3) encoded.
pub fn percent_encoded(text: &str) -> String {
    const RESERVED: &AsciiSet =
        &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
    utf8_percent_encode(text, RESERVED).to_string()
}

fn header_is_fine(name: &str, value: &[u8]) -> bool {
    let is_length = name.eq_ignore_ascii_case("content-length");
    let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    is_token(name)
        && !is_forbidden_header(name)
        && value.iter().all(|byte| *byte == b'\t' || !byte.is_ascii_control())
        && (!is_length || digits)
}

fn is_token(name: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    !name.is_empty() && name.chars().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(method: &str, headers: &[(&str, &str)]) -> Option<Reason> {
        let headers = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
        check_request(method, headers).err().map(|denied| denied.reason())
    }

    #[test]
    fn ordinary_requests_pass() {
        for method in METHODS {
            assert_eq!(reason(method, &[("Accept", "*/*"), ("authorization", "Bearer x")]), None);
        }
        assert_eq!(reason("POST", &[("content-length", "12")]), None);
    }

    #[test]
    fn other_methods_are_refused() {
        for method in ["CONNECT", "TRACE", "get", "", "GET / HTTP/1.1\r\nX: y", "PROPFIND"] {
            assert_eq!(reason(method, &[]), Some(Reason::Method), "{method:?}");
        }
    }

    #[test]
    fn n15_headers_of_the_host_and_split_messages_are_refused() {
        for (name, value) in [
            ("Host", "evil.test"),
            ("hOsT", "evil.test"),
            ("Connection", "close"),
            ("Transfer-Encoding", "chunked"),
            ("TE", "trailers"),
            ("Trailer", "X"),
            ("Upgrade", "websocket"),
            ("Proxy-Authorization", "Basic x"),
            ("proxy-connection", "keep-alive"),
            ("Keep-Alive", "1"),
            ("Expect", "100-continue"),
            ("x", "a\r\nHost: evil"),
            ("x", "a\nb"),
            ("x", "a\0b"),
            ("x\r\nHost", "evil"),
            ("x y", "z"),
            ("x:", "z"),
            ("", "z"),
            ("Content-Length", "+5"),
            ("Content-Length", "5, 6"),
            ("Content-Length", ""),
        ] {
            assert_eq!(
                reason("GET", &[(name, value)]),
                Some(Reason::Header),
                "{name:?}: {value:?}"
            );
        }
        let twice = [("content-length", "5"), ("Content-Length", "5")];
        assert_eq!(reason("POST", &twice), Some(Reason::Header));
    }
}
