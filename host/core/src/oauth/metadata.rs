//! Documents about a server (RFC 9728) and about the issuer of its tokens (RFC 8414, OpenID Connect
//! Discovery).

use serde_json::Value;
use url::Url;

use crate::egress::parse_url;
use crate::manifest::{McpAuth, McpGrant};
use crate::{json, truncate, visible};

/// Bytes of what somebody says that are repeated.
const SHOWN_BYTES_MAX: usize = 200;

/// Returns where `server` may say who gives tokens for it: for its own path, then for all of it.
pub fn resource_urls(server: &Url) -> Vec<Url> {
    let path = server.path().trim_end_matches('/');
    let own = Some(path).filter(|path| !path.is_empty());
    let paths = own.into_iter().chain([""]);
    paths.map(|path| at(server, &format!("/.well-known/oauth-protected-resource{path}"))).collect()
}

/// Returns where `issuer` may say what it does, in the order of MCP's authorization.
pub fn authority_urls(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
    }
    paths.iter().map(|path| at(issuer, path)).collect()
}

fn at(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    url.set_path(path);
    url.set_query(None);
    url
}

/// Reads what is said of `server`, and returns the name under which tokens for it are asked for.
///
/// # Errors
/// It is about another server, or `issuer` is nobody whose tokens the server takes.
pub fn resource(document: &[u8], server: &Url, issuer: &str) -> Result<String, String> {
    let said = object(document, "the server")?;
    let name = text(&said, "resource").unwrap_or_default();
    if !parse_url(name).is_ok_and(|of| covers(&of, server)) {
        return Err(format!("the server's metadata is about another one: {}", shown(name)));
    }
    let issuers = texts(&said, "authorization_servers");
    let is_it = |one: &&&str| one.trim_end_matches('/') == issuer.trim_end_matches('/');
    if !issuers.iter().any(|one| is_it(&one)) {
        let issuers = shown(&issuers.join(", "));
        return Err(format!("the server takes tokens of {issuers}, and `auth.issuer` is {issuer}"));
    }
    Ok(name.to_owned())
}

/// Says whether `of` is the server's own address, or one above it.
fn covers(of: &Url, server: &Url) -> bool {
    let path = of.path().trim_end_matches('/');
    let below = server.path().strip_prefix(path);
    of.origin() == server.origin()
        && of.fragment().is_none()
        && (of.query().is_none() || of.query() == server.query())
        && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// What an issuer says of itself, as far as it is used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authority {
    /// Where a person logs in; only of an issuer that people log in to.
    pub authorization: Option<Url>,
    /// Where tokens are asked for.
    pub token: Url,
    /// Where clients register themselves.
    pub registration: Option<Url>,
    /// It says who it is when it sends a person back (RFC 9207).
    pub states_issuer: bool,
    /// A client's secret goes into the body of a request, as it is taken nowhere else.
    pub secret_in_body: bool,
}

impl Authority {
    /// Reads what the issuer of `auth` says of itself.
    ///
    /// # Errors
    /// It is another one, names an address that nothing secret may go to, or, where people log in,
    /// does not say that it does PKCE with `S256`.
    pub fn read(document: &[u8], auth: &McpAuth) -> Result<Self, String> {
        let said = object(document, "the issuer")?;
        let issuer = text(&said, "issuer").unwrap_or_default();
        if issuer != auth.issuer {
            let own = &auth.issuer;
            return Err(format!("what is at {own} calls itself {}", shown(issuer)));
        }
        let base = parse_url(issuer).map_err(|denied| denied.to_string())?;
        let place = |key| place(&said, key, &base);
        let needed = |key| place(key)?.ok_or_else(|| format!("the issuer names no `{key}`"));
        let is_login = auth.grant == McpGrant::AuthorizationCode;
        if is_login && !texts(&said, "code_challenge_methods_supported").contains(&"S256") {
            return Err("the issuer does not say that it does PKCE with `S256`, without which nobody should log in".to_owned());
        }
        let ways = texts(&said, "token_endpoint_auth_methods_supported");
        let states_issuer = said.get("authorization_response_iss_parameter_supported");
        Ok(Self {
            authorization: is_login.then(|| needed("authorization_endpoint")).transpose()?,
            token: needed("token_endpoint")?,
            registration: place("registration_endpoint")?,
            states_issuer: states_issuer == Some(&Value::Bool(true)),
            secret_in_body: ways.contains(&"client_secret_post")
                && !ways.contains(&"client_secret_basic"),
        })
    }
}

/// Returns the URL under `key`: encrypted, or where the operator allows the issuer not to be.
fn place(said: &Value, key: &str, issuer: &Url) -> Result<Option<Url>, String> {
    let Some(address) = text(said, key) else { return Ok(None) };
    let url = parse_url(address).ok();
    let is_safe = |url: &Url| url.scheme() == "https" || url.origin() == issuer.origin();
    let url = url.filter(|url| is_safe(url) && url.fragment().is_none());
    let unsafe_ = || format!("the issuer's `{key}` is no safe address: {}", shown(address));
    url.map(Some).ok_or_else(unsafe_)
}

/// Reads the JSON object that `who` sent.
pub(super) fn object(document: &[u8], who: &str) -> Result<Value, String> {
    let said = json::parse(document).ok().filter(Value::is_object);
    said.ok_or_else(|| format!("{who} sent no JSON object"))
}

pub(super) fn text<'v>(said: &'v Value, key: &str) -> Option<&'v str> {
    said.get(key).and_then(Value::as_str)
}

fn texts<'v>(said: &'v Value, key: &str) -> Vec<&'v str> {
    let list = said.get(key).and_then(Value::as_array);
    list.into_iter().flatten().filter_map(Value::as_str).collect()
}

pub(super) fn shown(text: &str) -> String {
    visible::line(truncate::text(text, SHOWN_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::auth;
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn all(urls: &[Url]) -> Vec<&str> {
        urls.iter().map(Url::as_str).collect()
    }

    #[test]
    fn metadata_is_looked_for_where_the_specifications_have_it() {
        const AT: &str = "https://a.example/.well-known";
        let of = |text: &str| resource_urls(&url(text));
        let root = format!("{AT}/oauth-protected-resource");
        assert_eq!(all(&of("https://a.example/?x=1")), [&root]);
        assert_eq!(all(&of("https://a.example/mcp/?x=1")), [&format!("{root}/mcp"), &root]);
        let (oauth, openid) = ("oauth-authorization-server", "openid-configuration");
        let of = |text: &str| authority_urls(&url(text));
        assert_eq!(
            all(&of("https://a.example")),
            [format!("{AT}/{oauth}"), format!("{AT}/{openid}")]
        );
        let tenant = format!("https://a.example/t/.well-known/{openid}");
        assert_eq!(
            all(&of("https://a.example/t")),
            [format!("{AT}/{oauth}/t"), format!("{AT}/{openid}/t"), tenant]
        );
    }

    #[test]
    fn a_server_is_the_one_it_says_and_takes_tokens_of_the_named_issuer() {
        let server = url("https://mcp.example/team/mcp");
        let read = |name: &str, issuers: Value| {
            let document = json!({"resource": name, "authorization_servers": issuers});
            resource(document.to_string().as_bytes(), &server, "https://auth.example")
        };
        let named = json!(["https://other.example", "https://auth.example/"]);
        for name in
            ["https://mcp.example/team/mcp", "https://mcp.example", "https://mcp.example/team/"]
        {
            assert_eq!(read(name, named.clone()).as_deref(), Ok(name));
        }
        for name in [
            "",
            "https://mcp.example/team/m",
            "https://mcp.example/other",
            "https://evil.example/team/mcp",
            "http://mcp.example/team/mcp",
            "https://mcp.example:8443/team/mcp",
            "https://mcp.example/team/mcp#x",
            "https://mcp.example/team/mcp?x=1",
            "https://u:p@mcp.example/team/mcp",
        ] {
            assert!(read(name, named.clone()).unwrap_err().contains("another one"), "{name}");
        }
        for issuers in
            [json!([]), json!("https://auth.example"), json!(["https://auth.example.evil"])]
        {
            let error = read("https://mcp.example", issuers).unwrap_err();
            assert!(error.contains("`auth.issuer` is https://auth.example"), "{error}");
        }
        assert!(resource(b"[]", &server, "x").unwrap_err().contains("no JSON object"));
    }

    /// What an issuer says, with a change.
    fn said(key: &str, value: Value) -> Result<Authority, String> {
        let mut said = json!({
            "issuer": "https://auth.example",
            "authorization_endpoint": "https://login.example/go?tenant=1",
            "token_endpoint": "https://auth.example/token",
            "code_challenge_methods_supported": ["plain", "S256"],
        });
        said[key] = value;
        Authority::read(said.to_string().as_bytes(), &auth())
    }

    #[test]
    fn an_issuer_says_where_it_is_asked_and_how() {
        let plain = said("x", json!(1)).unwrap();
        assert_eq!(plain.token.as_str(), "https://auth.example/token");
        assert!(!plain.states_issuer && !plain.secret_in_body && plain.registration.is_none());
        let iss = "authorization_response_iss_parameter_supported";
        assert!(said(iss, json!(true)).unwrap().states_issuer);
        let ways = "token_endpoint_auth_methods_supported";
        assert!(said(ways, json!(["client_secret_post"])).unwrap().secret_in_body);
        assert!(
            !said(ways, json!(["client_secret_post", "client_secret_basic"]))
                .unwrap()
                .secret_in_body
        );
    }

    #[test]
    fn an_issuer_that_is_another_or_unsafe_is_refused() {
        let pkce = "code_challenge_methods_supported";
        for (key, value, says) in [
            ("issuer", json!("https://evil.example"), "calls itself https://evil.example"),
            ("issuer", json!("https://auth.example/"), "calls itself"),
            ("issuer", json!("\u{1b}[2J"), "calls itself \\u{1b}[2J"),
            ("issuer", Value::Null, "calls itself"),
            (pkce, Value::Null, "PKCE"),
            (pkce, json!(["plain"]), "PKCE"),
            ("token_endpoint", Value::Null, "names no `token_endpoint`"),
            ("token_endpoint", json!("http://auth.example/token"), "no safe address"),
            ("token_endpoint", json!("file:///etc/passwd"), "no safe address"),
            ("token_endpoint", json!("https://u:p@auth.example/"), "no safe address"),
            ("authorization_endpoint", json!("javascript:alert(1)"), "no safe address"),
            ("authorization_endpoint", json!("http://127.0.0.1/"), "no safe address"),
            ("registration_endpoint", json!("http://169.254.169.254/"), "no safe address"),
        ] {
            let error = said(key, value).unwrap_err();
            assert!(error.contains(says), "{key}: {error}");
        }
        let machine = McpAuth { grant: McpGrant::ClientCredentials, ..auth() };
        let document =
            json!({"issuer": "https://auth.example", "token_endpoint": "https://auth.example/t"});
        let read = Authority::read(document.to_string().as_bytes(), &machine).unwrap();
        assert_eq!(read.authorization, None);
    }
}
