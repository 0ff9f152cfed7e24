//! Saying who asks: Basic credentials, or a token that they are exchanged for.
//!
//! Credentials go to the registry itself, to its own host for a token, and to the `token_url` that
//! the operator wrote: a registry cannot name somebody else who gets them.

use bytes::Bytes;
use clawhost_core::json;
use clawhost_core::limits::{OCI_TOKEN_BYTES_MAX, REGISTRY_REASON_BYTES_MAX, SECRET_BYTES_MAX};
use clawhost_core::package::Challenge;
use clawhost_core::truncate;
use http::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use url::Url;

use super::{Registry, Trouble};
use crate::upstream::fetch::{self, Answer, Ask, found, own, public};
use crate::upstream::http::sensitive;

impl Registry<'_> {
    /// Returns what to send to a registry that has just answered 401.
    pub(super) async fn authorize(&self, answer: &Answer) -> Result<HeaderValue, Trouble> {
        let challenge =
            answer.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        match challenge.and_then(Challenge::read) {
            Some(Challenge::Basic) => self.basic().await?.ok_or_else(|| self.nobody()),
            Some(Challenge::Bearer { realm, service }) => self.token(&realm, service).await,
            None => {
                let host = &self.reference.registry;
                Err(Trouble::Server(format!(
                    "{host} wants to know who asks, in a way that is neither Basic nor Bearer"
                )))
            }
        }
    }

    /// Exchanges the account, or nobody's, for a token.
    async fn token(&self, realm: &str, service: Option<String>) -> Result<HeaderValue, Trouble> {
        let host = &self.reference.registry;
        let shown = truncate::text(realm, REGISTRY_REASON_BYTES_MAX);
        let none = || Trouble::Server(format!("{host} gives no token at {shown:?}"));
        let mut url = Url::parse(realm).map_err(|_| none())?;
        let is_declared = self.settings.token_url.as_deref() == Some(realm);
        let is_own = is_declared || url.origin() == self.base.origin();
        let basic = self.basic().await?;
        if basic.is_some() && !is_own {
            let reason = format!("{host} wants the account to be sent to {shown:?}");
            let hint = "if that is right, name this URL as `token_url` of the registry under `oci` in clawhost.yaml";
            return Err(Trouble::Refused { reason, hint });
        }
        let rules = if is_own { own(&url)? } else { public(&url)? };
        let service = service.iter().map(|service| ("service", service.as_str()));
        url.query_pairs_mut().extend_pairs(service.chain([("scope", self.scope.as_str())]));
        let mut ask = Ask::get(url.clone(), OCI_TOKEN_BYTES_MAX);
        ask.headers.extend(basic.map(|basic| (AUTHORIZATION, basic)));
        let answer = self.web.send(rules, ask).await?;
        let body = found(&url, answer).await?.ok_or_else(none)?;
        token_of(&body).and_then(|token| sensitive("Bearer ", &token)).ok_or_else(none)
    }

    /// Returns the account as a header; nothing where there is none.
    async fn basic(&self) -> Result<Option<HeaderValue>, Trouble> {
        let Some((user, secret)) = &self.settings.account else { return Ok(None) };
        let secret = self.secrets.find(secret).await;
        let secret = secret.map_err(|error| Trouble::Server(error.to_string()))?;
        Ok(fetch::basic(user, secret.expose()))
    }

    fn nobody(&self) -> Trouble {
        let reason = format!("{} wants to know who asks", self.reference.registry);
        let hint = "name `user` and `secret` of the registry under `oci` in clawhost.yaml";
        Trouble::Refused { reason, hint }
    }
}

/// Returns the token of an answer, under either of its names.
fn token_of(body: &Bytes) -> Option<String> {
    let body = json::parse(body).ok()?;
    let token = ["token", "access_token"].into_iter().find_map(|key| body.get(key)?.as_str());
    let fits = |token: &&str| !token.is_empty() && token.len() <= SECRET_BYTES_MAX;
    token.filter(fits).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_has_one_of_two_names() {
        let token = |text: &'static str| token_of(&Bytes::from_static(text.as_bytes()));
        assert_eq!(token(r#"{"token": "a", "expires_in": 300}"#).as_deref(), Some("a"));
        assert_eq!(token(r#"{"access_token": "b"}"#).as_deref(), Some("b"));
        for text in
            ["", "{}", r#"{"token": ""}"#, r#"{"token": 1}"#, r#"{"token":"a","token":"b"}"#]
        {
            assert_eq!(token(text), None, "{text}");
        }
        assert_eq!(sensitive("Bearer ", "a\r\nHost: x"), None);
        assert!(sensitive("Bearer ", "a").is_some_and(|value| value.is_sensitive()));
    }
}
