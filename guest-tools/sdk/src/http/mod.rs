//! HTTP requests. Needs a profile that grants the network.
//!
//! The host checks every request's address, each redirect's included, and keeps nothing
//! between requests: deliberately no cookies, no cache, no connection to hold.

mod redirect;
mod send;
mod url;

use crate::error::ToolError;
use url::Target;
pub use url::URL_BYTES_MAX;

/// Redirects [`Request::send_following`] takes at most, of a request's own accord.
pub const REDIRECTS_MAX: usize = 5;

/// A request, built step by step.
#[derive(Debug, Clone)]
pub struct Request {
    target: Target,
    method: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// What a server answered.
#[derive(Debug, Clone)]
pub struct Response {
    /// The address that answered, after redirects.
    pub url: String,
    /// The status code; an error status is a response like any other.
    pub status: u16,
    /// Names in lower case, in the order they came.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body as it was sent (never decompressed), up to the limit the caller set.
    pub body: Vec<u8>,
    /// Whether the body went on beyond the limit.
    pub truncated: bool,
}

impl Request {
    /// Starts a request to an `http://` or `https://` address.
    ///
    /// # Errors
    /// `invalid-args` where `url` or `method` is none.
    pub fn new(method: &str, url: &str) -> Result<Self, ToolError> {
        let method = method.trim().to_ascii_uppercase();
        if method.is_empty()
            || !method.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'-')
        {
            return Err(ToolError::invalid_args(format!("{method:?} is not an HTTP method")));
        }
        if method == "CONNECT" || method == "TRACE" {
            return Err(ToolError::invalid_args(format!("{method} requests are not made")));
        }
        Ok(Self { target: Target::parse(url)?, method, headers: Vec::new(), body: Vec::new() })
    }

    /// Adds a header; the host refuses the ones it sets itself, such as `Host`.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_ascii_lowercase(), value.to_owned()));
        self
    }

    /// Adds a header where the request does not have it yet.
    #[must_use]
    pub fn default_header(self, name: &str, value: &str) -> Self {
        if self.headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name)) {
            return self;
        }
        self.header(name, value)
    }

    /// Sets the body.
    #[must_use]
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Sends one request and reads at most `body_bytes_max` bytes of the answer's body. A
    /// redirect is returned as it is.
    ///
    /// # Errors
    /// `permission-denied` where the host refuses the address, `timeout`, `invalid-args` for
    /// headers that cannot be sent, else `execution-failed`.
    pub fn send(&self, body_bytes_max: usize) -> Result<Response, ToolError> {
        send::send(self, body_bytes_max)
    }

    /// Like [`send`](Self::send), and follows up to [`REDIRECTS_MAX`] redirects. What was
    /// meant for one origin (credentials, cookies, any header that is not common to all
    /// requests) does not go to another.
    ///
    /// # Errors
    /// Those of [`send`](Self::send), for each request, and `execution-failed` for one
    /// redirect too many.
    pub fn send_following(&self, body_bytes_max: usize) -> Result<Response, ToolError> {
        let mut request = self.clone();
        for _ in 0..=REDIRECTS_MAX {
            let response = request.send(body_bytes_max)?;
            match redirect::next(&request, &response)? {
                Some(next) => request = next,
                None => return Ok(response),
            }
        }
        Err(ToolError::failed(format!("more than {REDIRECTS_MAX} redirects")))
    }
}

impl Response {
    /// The first header of that name, where it is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name))?;
        std::str::from_utf8(value).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_is_a_word_and_opens_no_tunnel() {
        assert_eq!(Request::new("get", "http://e.com").unwrap().method, "GET");
        for method in [
            "", "G T", "G
X: y", "CONNECT", "trace",
        ] {
            assert!(Request::new(method, "http://e.com").is_err(), "{method:?}");
        }
    }

    #[test]
    fn a_default_header_yields_to_a_given_one() {
        let request = Request::new("GET", "http://e.com").unwrap().header("Accept", "a/b");
        assert_eq!(request.default_header("accept", "*/*").headers.len(), 1);
    }
}
