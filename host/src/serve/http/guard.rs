//! Who may speak at all: the name the client used, the page it comes from, the token it holds.
//!
//! Checked before a body is read, the same on every path. Deliberately absent: what a role may do
//! (`routes` says that), and any hint about which part of a token was wrong.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use clawhost_core::limits::HTTP_HEADER_BYTES_MAX;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::{Response, StatusCode, Uri};

use super::HttpOptions;
use super::routes::Body;

/// A request that gets no further.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Denied {
    pub(super) status: StatusCode,
    /// A sentence for whoever reads it.
    pub(super) text: String,
    pub(super) header: Option<(HeaderName, HeaderValue)>,
}

/// What a request comes to.
pub(super) type Answered = Result<Response<Body>, Denied>;

impl Denied {
    pub(super) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self { status, text: text.into(), header: None }
    }

    fn with(self, name: HeaderName, value: &'static str) -> Self {
        Self { header: Some((name, HeaderValue::from_static(value))), ..self }
    }

    /// Returns the answer to a method that is not among those of `allow`.
    pub(super) fn method(allow: &'static str) -> Self {
        let text = format!("only {allow} is served here");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, text).with(header::ALLOW, allow)
    }
}

/// Headers that say one thing or nothing: a proxy and this host must not read different ones.
const SINGLE_HEADERS: [HeaderName; 14] = [
    header::AUTHORIZATION,
    header::CONTENT_LENGTH,
    header::CONTENT_TYPE,
    header::HOST,
    header::ORIGIN,
    header::TRANSFER_ENCODING,
    HeaderName::from_static("claw-session"),
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("mcp-method"),
    HeaderName::from_static("mcp-name"),
    HeaderName::from_static("mcp-protocol-version"),
    HeaderName::from_static("mcp-session-id"),
    header::CONTENT_ENCODING,
    API_KEY,
];

/// Where clients of language models may have their token instead.
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// The names and pages a server answers.
#[derive(Debug)]
pub(super) struct Guard {
    authorities: BTreeSet<String>,
    origins: BTreeSet<String>,
}

impl Guard {
    /// Returns the guard of a server that listens on `address`.
    pub(super) fn new(options: &HttpOptions, address: SocketAddr) -> Self {
        let port = address.port();
        let mut authorities = BTreeSet::new();
        for name in own_names(address.ip()) {
            authorities.insert(format!("{name}:{port}"));
            authorities.extend((port == 80).then_some(name));
        }
        for name in options.allowed_hosts.iter().map(|name| name.to_ascii_lowercase()) {
            // A name without a port is this host behind any proxy, and on its own port.
            authorities.extend(is_bare(&name).then(|| format!("{name}:{port}")));
            authorities.insert(name);
        }
        let mut origins: BTreeSet<_> =
            options.allowed_origins.iter().map(|origin| origin.to_ascii_lowercase()).collect();
        origins.extend(authorities.iter().map(|authority| format!("http://{authority}")));
        Self { authorities, origins }
    }

    /// Checks the name the client used and the page it comes from.
    ///
    /// # Errors
    /// 431 for headers beyond the bound, 415 for a body that is packed, 400 for ones that can be read in two ways, 403 for a
    /// foreign name or page: a page that had its name point at this machine ends here.
    pub(super) fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<(), Denied> {
        let bytes = |(name, value): (&HeaderName, &HeaderValue)| name.as_str().len() + value.len();
        if headers.iter().map(bytes).sum::<usize>() > HTTP_HEADER_BYTES_MAX {
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            let text = format!("headers may have {HTTP_HEADER_BYTES_MAX} bytes together");
            return Err(Denied::new(status, text));
        }
        for name in &SINGLE_HEADERS {
            if headers.get_all(name).iter().count() > 1 {
                let text = format!("the header {name} came more than once");
                return Err(Denied::new(StatusCode::BAD_REQUEST, text));
            }
        }
        let coding = text_of(headers, &header::CONTENT_ENCODING)?.unwrap_or("identity");
        if !coding.eq_ignore_ascii_case("identity") {
            let text = "a body is read as it is: send it without a Content-Encoding";
            return Err(Denied::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text));
        }
        let host = text_of(headers, &header::HOST)?
            .ok_or_else(|| Denied::new(StatusCode::BAD_REQUEST, "there is no Host header"))?;
        let foreign_target = uri.authority().is_some_and(|a| !self.knows(a.as_str()));
        if foreign_target || !self.knows(host) {
            return Err(Denied::new(StatusCode::FORBIDDEN, "this Host is not served here"));
        }
        match text_of(headers, &header::ORIGIN)? {
            Some(origin) if !self.origins.contains(&origin.to_ascii_lowercase()) => {
                Err(Denied::new(StatusCode::FORBIDDEN, "pages of this Origin may not call"))
            }
            _ => Ok(()),
        }
    }

    fn knows(&self, authority: &str) -> bool {
        self.authorities.contains(&authority.to_ascii_lowercase())
    }
}

/// Loopback names are answered on loopback addresses, and where the server listens on all.
fn own_names(ip: IpAddr) -> Vec<String> {
    let own = match ip {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    let mut names = vec![own];
    if ip.is_loopback() || ip.is_unspecified() {
        names.extend(["localhost", "127.0.0.1", "[::1]"].map(str::to_owned));
    }
    names
}

/// Says whether a name has no port. The colons of an IPv6 address are inside brackets.
fn is_bare(name: &str) -> bool {
    name.rsplit_once(':').is_none_or(|(_, rest)| rest.ends_with(']'))
}

fn text_of<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Denied> {
    let Some(value) = headers.get(name) else {
        return Ok(None);
    };
    value.to_str().map(Some).map_err(|_| {
        Denied::new(StatusCode::BAD_REQUEST, format!("the header {name} is not plain text"))
    })
}

/// Returns the bearer token of a request. Another scheme is a wrong token, not a missing one.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().unwrap_or_default();
    match value.split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Some(token.trim()),
        _ => Some(""),
    }
}

pub(super) fn bearer_or_key(headers: &HeaderMap) -> Option<&str> {
    let key = || headers.get(API_KEY).map(|key| key.to_str().unwrap_or_default());
    bearer(headers).or_else(key)
}

pub(super) fn no_token() -> Denied {
    Denied::new(StatusCode::UNAUTHORIZED, "a bearer token is needed")
        .with(header::WWW_AUTHENTICATE, "Bearer realm=\"clawhost\"")
}

pub(super) fn wrong_token() -> Denied {
    let challenge = "Bearer realm=\"clawhost\", error=\"invalid_token\"";
    Denied::new(StatusCode::UNAUTHORIZED, "this token is not known here")
        .with(header::WWW_AUTHENTICATE, challenge)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard(address: &str, hosts: &[&str]) -> Guard {
        let address = address.parse().unwrap();
        let mut options = HttpOptions::new(address);
        options.allowed_hosts = hosts.iter().map(|host| (*host).to_owned()).collect();
        Guard::new(&options, address)
    }

    fn status(guard: &Guard, headers: &[(&str, &str)]) -> Option<u16> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        guard.check(&Uri::from_static("/mcp"), &map).err().map(|denied| denied.status.as_u16())
    }

    #[test]
    fn only_this_server_s_names_are_answered() {
        let guard = guard("127.0.0.1:7433", &["claw.example", "other.example:443"]);
        for host in [
            "localhost:7433", "LOCALHOST:7433", "claw.example", "127.0.0.1:7433", "[::1]:7433",
            "claw.example:7433", "other.example:443",
        ] {
            assert_eq!(status(&guard, &[("host", host)]), None, "{host}");
        }
        for host in [
            "localhost", "localhost:1", "evil.example:7433", "localhost.evil.example:7433",
            "other.example:7433", "", "127.0.0.1:7433@evil.example",
        ] {
            assert_eq!(status(&guard, &[("host", host)]), Some(403), "{host}");
        }
        let coded = |coding| [("host", "localhost:7433"), ("content-encoding", coding)];
        assert_eq!(status(&guard, &coded("gzip")), Some(415));
        assert_eq!(status(&guard, &coded("Identity")), None);
        assert_eq!(status(&guard, &[]), Some(400));
        assert_eq!(status(&guard, &[("host", "localhost:7433"), ("host", "x")]), Some(400));
    }

    #[test]
    fn a_foreign_target_is_refused_even_with_a_good_host() {
        let guard = guard("127.0.0.1:7433", &[]);
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, "localhost:7433".parse().unwrap());
        let foreign = Uri::from_static("http://evil.example/mcp");
        assert_eq!(guard.check(&foreign, &headers).unwrap_err().status, StatusCode::FORBIDDEN);
        let own = Uri::from_static("http://localhost:7433/mcp");
        assert_eq!(guard.check(&own, &headers), Ok(()));
    }

    #[test]
    fn only_this_server_s_own_pages_may_call() {
        let guard = guard("127.0.0.1:7433", &[]);
        let origin = |origin| status(&guard, &[("host", "localhost:7433"), ("origin", origin)]);
        assert_eq!(origin("http://localhost:7433"), None);
        for foreign in
            ["null", "https://localhost:7433", "http://localhost", "http://evil.example", ""]
        {
            assert_eq!(origin(foreign), Some(403), "{foreign}");
        }
    }

    #[test]
    fn a_bearer_token_is_found_and_another_scheme_is_a_wrong_one() {
        let of = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            bearer(&headers).map(str::to_owned)
        };
        assert_eq!(of("Bearer abc"), Some("abc".to_owned()));
        assert_eq!(of("bearer abc "), Some("abc".to_owned()));
        assert_eq!(of("Basic abc"), Some(String::new()));
        assert_eq!(of("abc"), Some(String::new()));
        assert_eq!(bearer(&HeaderMap::new()), None);
    }
}
