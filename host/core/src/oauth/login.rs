//! A person's way to the issuer and back: PKCE (RFC 7636), `resource` (RFC 8707), `iss` (RFC 9207).

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest as _, Sha256};
use url::Url;
use url::form_urlencoded;

use super::metadata::shown;

/// What a person's browser takes to the issuer.
#[derive(Debug, Clone, Copy)]
pub struct Login<'a> {
    /// Who asks.
    pub client_id: &'a str,
    /// Where the browser is sent back to, and nowhere else.
    pub redirect: &'a str,
    /// What is asked for; the issuer decides where this is empty.
    pub scopes: &'a [String],
    /// The server that the token is for.
    pub resource: &'a str,
    /// What nobody else knows, and comes back.
    pub state: &'a str,
    /// What nobody else knows, and only its hash goes along.
    pub verifier: &'a str,
}

impl Login<'_> {
    /// Returns the URL that a person opens.
    pub fn url(&self, endpoint: &Url) -> Url {
        let mut url = endpoint.clone();
        let challenge = BASE64_URL_SAFE_NO_PAD.encode(Sha256::digest(self.verifier));
        let scope = self.scopes.join(" ");
        let scope = Some(("scope", scope.as_str())).filter(|(_, scope)| !scope.is_empty());
        let pairs = [
            ("response_type", "code"),
            ("client_id", self.client_id),
            ("redirect_uri", self.redirect),
            ("resource", self.resource),
            ("state", self.state),
            ("code_challenge", challenge.as_str()),
            ("code_challenge_method", "S256"),
        ];
        url.query_pairs_mut().extend_pairs(pairs.into_iter().chain(scope));
        url
    }
}

/// What an answer that a browser brings has to carry.
#[derive(Debug, Clone, Copy)]
pub struct Expected<'a> {
    /// The one that was sent.
    pub state: &'a str,
    /// Who was asked.
    pub issuer: &'a str,
    /// It said that it says so.
    pub states_issuer: bool,
}

impl Expected<'_> {
    /// Returns the code that a query brings, or why there is none; nothing where the query is no
    /// answer to what was asked, whoever sent it.
    pub fn read(&self, query: &str) -> Option<Result<String, String>> {
        let once = |name: &str| {
            let mut named = form_urlencoded::parse(query.as_bytes()).filter(|(key, _)| key == name);
            named.next().map(|(_, value)| value.into_owned()).filter(|_| named.next().is_none())
        };
        if once("state").as_deref() != Some(self.state) {
            return None;
        }
        let issuer = once("iss");
        let is_its = match &issuer {
            Some(issuer) => issuer == self.issuer,
            None => !self.states_issuer,
        };
        if !is_its {
            let issuer = issuer.map_or_else(|| "nobody".to_owned(), |issuer| shown(&issuer));
            return Some(Err(format!("the answer is of {issuer}, and not of {}", self.issuer)));
        }
        let refused = once("error").map(|error| format!("the issuer refuses: {}", shown(&error)));
        let code = once("code").filter(|code| !code.is_empty());
        let none = || refused.clone().unwrap_or_else(|| "the issuer sends no code".to_owned());
        Some(code.filter(|_| refused.is_none()).ok_or_else(none))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATE: &str = "s-1";

    #[test]
    fn a_person_is_sent_with_a_hash_and_a_resource() {
        let login = Login {
            client_id: "me",
            redirect: "http://127.0.0.1:7/callback",
            scopes: &["read".to_owned(), "write".to_owned()],
            resource: "https://mcp.example/mcp",
            state: STATE,
            // The example of RFC 7636.
            verifier: "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
        };
        let endpoint = Url::parse("https://auth.example/go?tenant=1").unwrap();
        assert_eq!(
            login.url(&endpoint).as_str(),
            "https://auth.example/go?tenant=1&response_type=code&client_id=me&redirect_uri=http%3A%2F%2F127.0.0.1%3A7%2Fcallback&resource=https%3A%2F%2Fmcp.example%2Fmcp&state=s-1&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256&scope=read+write"
        );
        let none = Login { scopes: &[], ..login };
        assert!(!none.url(&endpoint).as_str().contains("scope"));
    }

    #[test]
    fn an_answer_has_the_state_and_is_of_the_issuer_that_was_asked() {
        let read = |query: &str, states_issuer| {
            let issuer = "https://auth.example";
            Expected { state: STATE, issuer, states_issuer }.read(query)
        };
        const ISS: &str = "iss=https%3A%2F%2Fauth.example";
        let code = Some(Ok("c 1".to_owned()));
        assert_eq!(read("state=s-1&code=c+1", false), code);
        assert_eq!(read(&format!("code=c%201&state=s-1&{ISS}"), true), code);
        for query in
            ["", "code=c", "state=s-2&code=c", "state=s-1&state=s-1&code=c", "state=S-1&code=c"]
        {
            assert_eq!(read(query, false), None, "{query}");
        }
        for (query, states_issuer, says) in [
            ("state=s-1&code=c", true, "the answer is of nobody"),
            (
                "state=s-1&code=c&iss=https%3A%2F%2Fevil.example",
                false,
                "is of https://evil.example",
            ),
            ("state=s-1&error=access_denied&code=c", false, "refuses: access_denied"),
            ("state=s-1&error=%1b%5B2J", false, "refuses: \\u{1b}[2J"),
            ("state=s-1&code=", false, "no code"),
            ("state=s-1&code=a&code=b", false, "no code"),
            ("state=s-1", false, "no code"),
        ] {
            let error = read(query, states_issuer).unwrap().unwrap_err();
            assert!(error.contains(says), "{query}: {error}");
        }
    }
}
