//! The token of a server: kept as long as it is good, and asked for anew by one of those who want it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clawhost_core::limits::OAUTH_PAUSE_MS;
use clawhost_core::manifest::{McpAuth, McpGrant};
use http::header::HeaderValue;
use tokio::sync::Mutex;
use url::Url;

use super::store::StoredLogin;
use crate::clock::now_ms;
use crate::secrets::Secrets;
use crate::upstream::http::{HttpClient, sensitive};

/// The tokens of one server, whoever asks it.
pub(crate) struct Tokens {
    /// The operator's name for the server.
    pub(super) server: String,
    pub(super) url: Url,
    pub(super) auth: McpAuth,
    pub(super) client: HttpClient,
    pub(super) secrets: Secrets,
    held: Mutex<HeldToken>,
}

/// What is known at the moment.
#[derive(Default)]
struct HeldToken {
    token: Option<Token>,
    /// When it failed last to get one, and why.
    failed: Option<(Instant, NoToken)>,
}

/// Why there is no token.
#[derive(Debug, Clone)]
pub(crate) struct NoToken {
    /// For the operator.
    pub(crate) reason: String,
    /// A person has to log in.
    pub(crate) wants_login: bool,
}

impl From<String> for NoToken {
    fn from(reason: String) -> Self {
        Self { reason, wants_login: false }
    }
}

/// A token as it is sent.
#[derive(Clone)]
pub(super) struct Token {
    header: HeaderValue,
    /// Until when it is used.
    until_ms: Option<i64>,
}

impl Token {
    pub(super) fn new(access: &str, until_ms: Option<i64>) -> Result<Self, String> {
        let header = sensitive("Bearer ", access).ok_or("the token cannot be sent in a header")?;
        Ok(Self { header, until_ms })
    }

    fn is_good(&self, refused: Option<&HeaderValue>) -> bool {
        refused != Some(&self.header) && self.until_ms.is_none_or(|until| now_ms() < until)
    }
}

impl HeldToken {
    fn header(&self, refused: Option<&HeaderValue>) -> Option<HeaderValue> {
        let good = self.token.as_ref().filter(|token| token.is_good(refused));
        good.map(|token| token.header.clone())
    }
}

impl Tokens {
    /// Returns the tokens that `auth` is about for the server at `url`. Nothing is asked yet.
    ///
    /// # Errors
    /// `url` is none.
    pub(crate) fn new(
        server: &str,
        url: &str,
        auth: &McpAuth,
        client: &HttpClient,
        secrets: Secrets,
    ) -> Result<Self, String> {
        let url = Url::parse(url).map_err(|error| error.to_string())?;
        let (server, auth, held) = (server.to_owned(), auth.clone(), Mutex::default());
        Ok(Self { server, url, auth, client: client.for_call(), secrets, held })
    }

    /// Returns what to send: the token that is there, or another where that is over or was `refused`.
    /// Of many that want another at the same time, one asks.
    ///
    /// # Errors
    /// [`NoToken`].
    pub(crate) async fn header(
        self: &Arc<Self>,
        refused: Option<&HeaderValue>,
    ) -> Result<HeaderValue, NoToken> {
        let good = self.held.lock().await.header(refused);
        if let Some(header) = good {
            return Ok(header);
        }
        // A task of its own: what the issuer gives has to be kept, whoever has gone by then.
        let (this, refused) = (Arc::clone(self), refused.cloned());
        let renewing = tokio::spawn(async move { this.renewed(refused.as_ref()).await });
        renewing.await.map_err(|error| error.to_string())?
    }

    /// Remembers that the server does not take what its issuer has just given.
    pub(crate) async fn fail(&self, reason: &str) {
        self.held.lock().await.failed = Some((Instant::now(), reason.to_owned().into()));
    }

    async fn renewed(&self, refused: Option<&HeaderValue>) -> Result<HeaderValue, NoToken> {
        let mut held = self.held.lock().await;
        if let Some(header) = held.header(refused) {
            return Ok(header);
        }
        let pause = Duration::from_millis(OAUTH_PAUSE_MS);
        if let Some((_, none)) = held.failed.as_ref().filter(|(at, _)| at.elapsed() < pause) {
            return Err(none.clone());
        }
        let token = match self.auth.grant {
            McpGrant::AuthorizationCode => self.refreshed(refused).await,
            // No person can help a machine.
            McpGrant::ClientCredentials => {
                self.of_a_machine().await.map_err(|none| NoToken { wants_login: false, ..none })
            }
        };
        let token = token.inspect_err(|none| {
            held.failed = Some((Instant::now(), none.clone()));
        })?;
        let header = token.header.clone();
        *held = HeldToken { token: Some(token), failed: None };
        Ok(header)
    }

    /// Takes what a login, or another host, has kept; or asks for the next with what belongs to it.
    async fn refreshed(&self, refused: Option<&HeaderValue>) -> Result<Token, NoToken> {
        let turn = self.turn().await?;
        let stored = self.stored().await?;
        let token = stored.token()?;
        if token.is_good(refused) {
            self.hide(&stored)?;
            return Ok(token);
        }
        let over = || self.no_login("the login is over");
        let refresh = stored.refresh.as_ref().ok_or_else(over)?;
        let form = [
            ("grant_type", "refresh_token"),
            ("refresh_token", refresh.as_str()),
            ("resource", &stored.resource),
        ];
        let (web, authority) = self.authority().await?;
        let granted = self.grant(&web, &authority, &stored.client_id, &form).await;
        let granted = granted.map_err(|none| match none.wants_login {
            true => self.no_login(&none.reason),
            false => none,
        })?;
        let stored = stored.followed_by(granted);
        if let Err(reason) = self.keep(&stored).await {
            // It counts all the same, for as long as it is good.
            tracing::warn!("the tokens of `{}` cannot be kept: {reason}", self.server);
        }
        drop(turn);
        self.hide(&stored)?;
        Ok(stored.token()?)
    }

    async fn of_a_machine(&self) -> Result<Token, NoToken> {
        let (web, authority) = self.authority().await?;
        let (resource, scope) = (self.resource(&web).await?, self.auth.scopes.join(" "));
        let mut form = vec![("grant_type", "client_credentials"), ("resource", &*resource)];
        form.extend(Some(("scope", &*scope)).filter(|(_, scope)| !scope.is_empty()));
        let id = self.auth.client_id.as_deref().unwrap_or_default();
        let granted = self.grant(&web, &authority, id, &form).await?;
        let stored = StoredLogin::new(self, id, resource, granted);
        self.hide(&stored)?;
        Ok(stored.token()?)
    }

    pub(super) fn no_login(&self, why: &str) -> NoToken {
        let reason = format!("{why}: run `clawhost secrets login {}`", self.server);
        NoToken { reason, wants_login: true }
    }
}

clawhost_core::shows!(Tokens { server });
