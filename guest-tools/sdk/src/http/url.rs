//! Addresses a request may name: `http` or `https`, a host, no user information.
//!
//! Strict RFC 3986 after the kindness every browser shows (spaces and non-ASCII letters are
//! percent-encoded). Whether an address may be reached is the host's to decide.

use fluent_uri::{Uri, UriRef};

use crate::error::ToolError;

/// Longer addresses are refused; servers rarely take more.
pub const URL_BYTES_MAX: usize = 8_192;

/// A checked address.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    uri: Uri<String>,
    /// Host and port as sent.
    pub(crate) authority: String,
    /// Whether the scheme is `https`.
    pub(crate) secure: bool,
}

impl Target {
    /// Reads an absolute address.
    pub(crate) fn parse(text: &str) -> Result<Self, ToolError> {
        let uri = Uri::parse(escape(text)?).map_err(|_| refuse(text, "is not a URL"))?;
        Self::check(uri, text)
    }

    /// Reads what a `Location` header says, relative to this address.
    pub(crate) fn join(&self, location: &str) -> Result<Self, ToolError> {
        let reference = UriRef::parse(escape(location)?)
            .map_err(|_| refuse(location, "is not a URL to be redirected to"))?;
        let uri = reference
            .resolve_against(&self.uri)
            .map_err(|_| refuse(location, "is not a URL to be redirected to"))?;
        Self::check(uri, location)
    }

    fn check(uri: Uri<String>, shown: &str) -> Result<Self, ToolError> {
        let secure = match uri.scheme().as_str().to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(refuse(shown, "is neither http:// nor https://")),
        };
        let authority = authority_of(&uri).map_err(|why| refuse(shown, why))?;
        Ok(Self { uri, authority, secure })
    }

    /// The address as text, without fragment.
    pub(crate) fn as_str(&self) -> &str {
        self.uri.as_str()
    }

    /// Path and query as sent; a missing path is `/`.
    pub(crate) fn path_with_query(&self) -> String {
        let path = self.uri.path().as_str();
        let path = if path.is_empty() { "/" } else { path };
        self.uri.query().map_or_else(|| path.to_owned(), |query| format!("{path}?{query}"))
    }

    /// Whether `other` has the same scheme, host and port.
    pub(crate) fn same_origin(&self, other: &Self) -> bool {
        self.origin() == other.origin()
    }

    fn origin(&self) -> (bool, String) {
        let authority = self.authority.to_ascii_lowercase();
        let default = if self.secure { ":443" } else { ":80" };
        let host = authority.strip_suffix(default).unwrap_or(&authority);
        (self.secure, host.to_owned())
    }
}

fn refuse(shown: &str, why: &str) -> ToolError {
    let shown: String = shown.chars().take(200).collect();
    ToolError::invalid_args(format!("{shown:?} {why}"))
}

/// Host and port, where they can be nothing else.
fn authority_of(uri: &Uri<String>) -> Result<String, &'static str> {
    let authority = uri.authority().ok_or("names no host")?;
    if authority.has_userinfo() {
        return Err("holds a user name; send credentials in a header");
    }
    let host = authority.host();
    if host.is_empty() {
        return Err("names no host");
    }
    if host.contains('%') {
        return Err("has a host name with characters outside ASCII; write it as xn--…");
    }
    match authority.port_to_u16() {
        Ok(None) => Ok(host.to_owned()),
        Ok(Some(0)) | Err(_) => Err("has an impossible port"),
        Ok(Some(port)) => Ok(format!("{host}:{port}")),
    }
}

/// `text` without its fragment, with everything RFC 3986 does not know percent-encoded.
fn escape(text: &str) -> Result<String, ToolError> {
    let text = text.trim();
    let text = text.split('#').next().unwrap_or(text);
    if text.len() > URL_BYTES_MAX {
        return Err(refuse(text, "is too long"));
    }
    if text.chars().any(char::is_control) {
        return Err(refuse(text, "holds control characters"));
    }
    let host_end = authority_end(text);
    let mut escaped = String::with_capacity(text.len());
    for (at, letter) in text.char_indices() {
        let plain = match letter {
            '[' | ']' => at < host_end,
            '%' => text.get(at + 1..at + 3).is_some_and(is_hex_pair),
            '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}' | ' ' => false,
            letter => letter.is_ascii(),
        };
        if plain {
            escaped.push(letter);
        } else {
            for byte in letter.encode_utf8(&mut [0; 4]).bytes() {
                escaped.push_str(&format!("%{byte:02X}"));
            }
        }
    }
    Ok(escaped)
}

fn is_hex_pair(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Where the host ends; only before it are brackets an IPv6 address.
fn authority_end(text: &str) -> usize {
    let Some(at) = text
        .find("//")
        .filter(|at| text.get(..*at).is_some_and(|s| s.is_empty() || s.ends_with(':')))
    else {
        return 0;
    };
    let start = at + 2;
    let rest = text.get(start..).unwrap_or_default();
    start + rest.find(['/', '?']).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(url: &str) -> (bool, String, String) {
        let target = Target::parse(url).unwrap();
        (target.secure, target.authority.clone(), target.path_with_query())
    }

    #[test]
    fn a_url_falls_into_its_parts() {
        let expect = |s: bool, a: &str, p: &str| (s, a.to_owned(), p.to_owned());
        assert_eq!(parts("http://example.com"), expect(false, "example.com", "/"));
        assert_eq!(parts("HTTPS://e.com:8443/a?b=c#d"), expect(true, "e.com:8443", "/a?b=c"));
        assert_eq!(parts("http://[::1]:80/"), expect(false, "[::1]:80", "/"));
        assert_eq!(parts("http://e.com?a[]=1"), expect(false, "e.com", "/?a%5B%5D=1"));
        assert_eq!(parts("http://e.com/ü b/100%"), expect(false, "e.com", "/%C3%BC%20b/100%25"));
        assert_eq!(parts("http://e.com:/x"), expect(false, "e.com", "/x"));
    }

    #[test]
    fn what_is_no_web_address_is_refused() {
        for url in [
            "", "example.com", "/x", "file:///etc/passwd", "gopher://x/", "http://", "http:///x",
            "http://u:p@e.com/", "http://good.com\\@evil.com/", "http://e.com:0/",
            "http://e.com:99999/", "http://bücher.de/", "http://a b/", "http://e.com/\r\nx: y",
            "http://e%2ecom/",
        ] {
            assert!(matches!(Target::parse(url), Err(ToolError::InvalidArgs(_))), "{url:?}");
        }
        assert!(Target::parse(&format!("http://e.com/{}", "a".repeat(9_000))).is_err());
    }

    #[test]
    fn a_redirect_resolves_against_where_it_came_from() {
        let base = Target::parse("https://e.com/a/b?c").unwrap();
        let go = |location: &str| base.join(location).map(|target| target.as_str().to_owned());
        assert_eq!(go("d").unwrap(), "https://e.com/a/d");
        assert_eq!(go("/d#frag").unwrap(), "https://e.com/d");
        assert_eq!(go("//f.org/x").unwrap(), "https://f.org/x");
        assert_eq!(go("http://f.org").unwrap(), "http://f.org");
        assert!(go("file:///etc/passwd").is_err());
        assert!(go("javascript:alert(1)").is_err());
    }

    #[test]
    fn an_origin_is_scheme_host_and_port() {
        let same =
            |a: &str, b: &str| Target::parse(a).unwrap().same_origin(&Target::parse(b).unwrap());
        assert!(same("https://e.com/a", "https://E.com:443/b"));
        assert!(!same("https://e.com", "http://e.com"));
        assert!(!same("http://e.com", "http://e.com:8080"));
        assert!(!same("http://e.com", "http://f.e.com"));
    }
}
