//! What a login gives, in the operator's store of secrets: one secret for each server, `oauth.<server>`.

use std::fs::File;

use clawhost_core::grants::LOGIN_PREFIX;
use clawhost_core::limits::OAUTH_EARLY_MS;
use clawhost_core::oauth::Granted;
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::tokens::Token;
use super::{NoToken, Tokens};
use crate::clock::now_ms;
use crate::state::{PrivateFileError, SecretStore};

/// Tokens, and what they are of.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StoredLogin {
    /// Who gave them.
    issuer: String,
    /// To whom.
    pub(super) client_id: String,
    /// The address that they are sent to.
    url: String,
    /// The name under which they were asked for.
    pub(super) resource: String,
    access: Zeroizing<String>,
    pub(super) refresh: Option<Zeroizing<String>>,
    /// Until when the first is used.
    until_ms: Option<i64>,
}

impl StoredLogin {
    pub(super) fn new(of: &Tokens, client_id: &str, resource: String, granted: Granted) -> Self {
        let empty = Self {
            issuer: of.auth.issuer.clone(),
            client_id: client_id.to_owned(),
            url: of.url.to_string(),
            resource,
            access: Zeroizing::default(),
            refresh: None,
            until_ms: None,
        };
        empty.followed_by(granted)
    }

    /// Returns what counts once `granted` was given for these.
    pub(super) fn followed_by(self, granted: Granted) -> Self {
        let until = |seconds: u64| {
            let ms = i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX);
            now_ms().saturating_add(ms - OAUTH_EARLY_MS.min(ms / 2))
        };
        Self {
            access: granted.access.into(),
            refresh: granted.refresh.map(Zeroizing::new).or(self.refresh),
            until_ms: granted.seconds.map(until),
            ..self
        }
    }

    pub(super) fn token(&self) -> Result<Token, String> {
        Token::new(&self.access, self.until_ms)
    }

    /// Says whether they are of the issuer, the client and the address that the runtime file has now.
    fn is_of(&self, tokens: &Tokens) -> bool {
        self.issuer == tokens.auth.issuer
            && self.url == tokens.url.as_str()
            && tokens.auth.client_id.as_ref().is_none_or(|id| *id == self.client_id)
    }
}

impl Tokens {
    /// Returns the name of the secret.
    pub(crate) fn secret(&self) -> String {
        format!("{LOGIN_PREFIX}{}", self.server)
    }

    /// Waits until nobody else asks for tokens of this server, in whatever process.
    pub(super) async fn turn(&self) -> Result<File, String> {
        self.in_store(|store, name| store.turn(name)).await
    }

    /// Returns what was kept.
    pub(super) async fn stored(&self) -> Result<StoredLogin, NoToken> {
        let text = self.in_store(|store, name| store.get(name)).await?;
        let text = text.ok_or_else(|| self.no_login("nobody is logged in"))?;
        // What a reader says may quote what it read.
        let stored: Option<StoredLogin> = serde_json::from_str(&text).ok();
        let of_another = || self.no_login("the login was for something else");
        stored.filter(|stored| stored.is_of(self)).ok_or_else(of_another)
    }

    /// Keeps what was given, before it is used.
    pub(super) async fn keep(&self, stored: &StoredLogin) -> Result<(), String> {
        let text = Zeroizing::new(serde_json::to_string(stored).map_err(|e| e.to_string())?);
        self.in_store(move |store, name| store.set(name, text)).await.map(drop)
    }

    /// Lets none of it be shown.
    pub(super) fn hide(&self, stored: &StoredLogin) -> Result<(), String> {
        let name = self.secret();
        let hide = |name: &str, value: &str| {
            self.secrets.hide(name, value).map_err(|error| error.to_string())
        };
        hide(&name, &stored.access)?;
        let refresh = stored.refresh.as_ref();
        refresh.map_or(Ok(()), |refresh| hide(&format!("{name}.refresh"), refresh))
    }

    /// Does something with the secret, off the threads that serve.
    async fn in_store<T: Send + 'static>(
        &self,
        work: impl FnOnce(&SecretStore, &str) -> Result<T, PrivateFileError> + Send + 'static,
    ) -> Result<T, String> {
        let store = self.secrets.store().cloned().ok_or("there is no store of secrets")?;
        let name = self.secret();
        let done = tokio::task::spawn_blocking(move || work(&store, &name)).await;
        done.map_err(|error| error.to_string())?.map_err(|error| error.to_string())
    }
}
