//! Asking the server whose tokens it takes, and the issuer for them.

use std::time::{Duration, Instant};

use bytes::Bytes;
use clawhost_core::egress::EgressRules;
use clawhost_core::limits::{OAUTH_ANSWER_BYTES_MAX, OAUTH_MS};
use clawhost_core::oauth::{self, Authority, Granted};
use clawhost_core::package::bearer;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderValue, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use serde_json::json;
use url::{Url, form_urlencoded};

use super::{NoToken, Tokens};
use crate::secrets::Secret;
use crate::upstream::fetch::{Answer, Ask, Unfetched, Web, basic, body, own, public};

const FORM: HeaderValue = HeaderValue::from_static("application/x-www-form-urlencoded");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// Refusals of what an issuer was shown, which it repeats until a person logs in (RFC 6749, section 5.2).
const FINAL: [&str; 3] = ["invalid_client", "invalid_grant", "unauthorized_client"];
/// Asks a server anything, so that it says who may ask.
const PING: &str = r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#;

impl Tokens {
    /// Returns what the issuer says of itself, and the way out for as long as that takes.
    pub(super) async fn authority(&self) -> Result<(Web, Authority), String> {
        let until = Instant::now() + Duration::from_millis(OAUTH_MS);
        let web = Web { client: self.client.clone(), until };
        for url in oauth::authority_urls(&self.issuer()?) {
            if let Some(document) = self.get(&web, url).await? {
                return Ok((web, Authority::read(&document, &self.auth)?));
            }
        }
        Err(format!("{} does not say what it does, nor is it an issuer", self.auth.issuer))
    }

    /// Returns the name under which tokens for the server are asked for.
    pub(super) async fn resource(&self, web: &Web) -> Result<String, String> {
        let named = self.named_by_the_server(web).await?;
        for url in named.into_iter().chain(oauth::resource_urls(&self.url)) {
            if let Some(document) = self.get(web, url).await? {
                return oauth::resource(&document, &self.url, &self.auth.issuer);
            }
        }
        // Servers of 2025-03-26 say nothing; who gives tokens for them the operator has written.
        Ok(self.url.as_str().trim_end_matches('/').to_owned())
    }

    /// Returns where the server says that its metadata is: at its own address, or nowhere.
    async fn named_by_the_server(&self, web: &Web) -> Result<Option<Url>, String> {
        let mut ask = posted(self.url.clone(), JSON, PING.into());
        ask.headers.insert(ACCEPT, HeaderValue::from_static("application/json, text/event-stream"));
        let answer = web.send(self.rules(&self.url)?, ask).await.map_err(said)?;
        let Some(named) = challenged(answer.headers(), "resource_metadata") else {
            return Ok(None);
        };
        let url = Url::parse(&named).ok().filter(|url| url.origin() == self.url.origin());
        url.map(Some).ok_or_else(|| "the server says that its metadata is elsewhere".to_owned())
    }

    /// Asks for a token with `form`, as the client `id`. A person has to log in anew where the issuer refuses what it was
    /// shown, and for nothing else that goes wrong.
    pub(super) async fn grant(
        &self,
        web: &Web,
        authority: &Authority,
        id: &str,
        form: &[(&str, &str)],
    ) -> Result<Granted, NoToken> {
        let secret = match &self.auth.secret {
            Some(name) => Some(self.secrets.find(name).await.map_err(|error| error.to_string())?),
            None => None,
        };
        let (body, header) = shown(authority, id, secret.as_ref(), form);
        let mut ask = posted(authority.token.clone(), FORM, body.into());
        ask.headers.extend(header.map(|header| (AUTHORIZATION, header)));
        Ok(Granted::read(&self.asked(web, ask).await?)?)
    }

    /// Registers this host as a client that is sent back to `redirect`; returns its id.
    pub(super) async fn register(
        &self,
        web: &Web,
        authority: &Authority,
        redirect: &str,
    ) -> Result<String, String> {
        let none = "the issuer registers nobody: ask it for a `client_id`, and write that";
        let url = authority.registration.clone().ok_or(none)?;
        let client = json!({
            "client_name": "clawhost", "redirect_uris": [redirect], "response_types": ["code"],
            "grant_types": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_method": "none", "application_type": "native",
        });
        let ask = posted(url, JSON, client.to_string().into());
        oauth::registered(&self.asked(web, ask).await.map_err(|none| none.reason)?)
    }

    /// Sends a request to the issuer, and returns what it gives.
    async fn asked(&self, web: &Web, ask: Ask) -> Result<Bytes, NoToken> {
        let url = ask.url.clone();
        let answer = web.send(self.rules(&url)?, ask).await.map_err(said)?;
        let status = answer.status();
        let body = body(&url, answer).await.map_err(said)?;
        if matches!(status, StatusCode::OK | StatusCode::CREATED) {
            return Ok(body);
        }
        let code = oauth::refusal(&body);
        let is_final = |code: &String| FINAL.contains(&code.as_str());
        let wants_login = status.is_client_error() && code.as_ref().is_some_and(is_final);
        let code = code.unwrap_or_else(|| format!("HTTP status {}", status.as_u16()));
        Err(NoToken { reason: format!("the issuer refuses: {code}"), wants_login })
    }

    /// Fetches a document; nothing where none is there, however that is said.
    async fn get(&self, web: &Web, url: Url) -> Result<Option<Bytes>, String> {
        let mut ask = Ask::get(url.clone(), OAUTH_ANSWER_BYTES_MAX);
        ask.headers.insert(ACCEPT, JSON);
        let answer: Answer = web.send(self.rules(&url)?, ask).await.map_err(said)?;
        match answer.status() {
            StatusCode::OK => body(&url, answer).await.map(Some).map_err(said),
            status if status.is_client_error() => Ok(None),
            status => Err(format!("{url}: the server answers {}", status.as_u16())),
        }
    }

    /// The rules for a URL: the operator has written that it is the server's or the issuer's, or it is public.
    fn rules(&self, url: &Url) -> Result<EgressRules, String> {
        let is_own = url.origin() == self.url.origin() || url.origin() == self.issuer()?.origin();
        if is_own { own(url) } else { public(url) }.map_err(said)
    }

    fn issuer(&self) -> Result<Url, String> {
        Url::parse(&self.auth.issuer).map_err(|error| error.to_string())
    }
}

/// Returns a parameter of what a server wants from those who have to say who they are.
pub(crate) fn challenged(headers: &HeaderMap, name: &str) -> Option<String> {
    let all = headers.get_all(WWW_AUTHENTICATE).iter();
    all.filter_map(|value| value.to_str().ok()).find_map(|value| bearer(value, name))
}

/// Returns the body of a request for a token and, where the client has a secret that goes there, a header.
fn shown(
    authority: &Authority,
    id: &str,
    secret: Option<&Secret>,
    form: &[(&str, &str)],
) -> (String, Option<HeaderValue>) {
    let mut fields = form_urlencoded::Serializer::new(String::new());
    fields.extend_pairs(form);
    if let Some(secret) = secret.filter(|_| !authority.secret_in_body) {
        // RFC 6749, 2.3.1.
        let escaped =
            |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
        return (fields.finish(), basic(&escaped(id), &escaped(secret.expose())));
    }
    fields.append_pair("client_id", id);
    fields.extend_pairs(secret.map(|secret| ("client_secret", secret.expose())));
    (fields.finish(), None)
}

fn posted(url: Url, kind: HeaderValue, body: Bytes) -> Ask {
    let mut ask = Ask::get(url, OAUTH_ANSWER_BYTES_MAX);
    (ask.method, ask.body) = (Method::POST, body);
    ask.headers.insert(CONTENT_TYPE, kind);
    ask.headers.insert(ACCEPT, JSON);
    ask
}

fn said(Unfetched(reason): Unfetched) -> String {
    reason
}
