//! A person logs in: a URL to open, and an answer that a browser brings to this machine (RFC 8252), or
//! that is pasted where the browser is on another.

use std::io;
use std::net::Ipv4Addr;
use std::time::Duration;

use clawhost_core::limits::{
    OAUTH_CALLBACK_BYTES_MAX, OAUTH_CALLBACK_MS, OAUTH_CALLBACKS_MAX, OAUTH_LOGIN_MS,
};
use clawhost_core::oauth::{Expected, Granted, Login};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::io::{AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use url::Url;

use super::Tokens;
use super::store::StoredLogin;
use crate::lines::{Line, Lines};
use crate::random;

/// Lines of a request that are read.
const LINES_MAX: usize = 100;

/// Where an answer is pasted.
pub(crate) type Pasted = Box<dyn AsyncRead + Send + Unpin>;

/// What a browser brings: a code, or why there is none.
type Brought = Result<String, String>;

impl Tokens {
    /// Lets a person log in at the URL that `show` shows, and keeps what that gives. The answer is the first
    /// line of `pasted`, where there is such a thing. Returns what it is good for, where that is not what was
    /// asked for.
    ///
    /// # Errors
    /// Whatever keeps somebody from logging in, for the operator.
    pub(crate) async fn login(
        &self,
        show: impl FnOnce(&Url),
        pasted: Option<Pasted>,
    ) -> Result<Option<String>, String> {
        let (web, authority) = self.authority().await?;
        let resource = self.resource(&web).await?;
        let endpoint = authority.authorization.as_ref().ok_or("nobody logs in for this server")?;
        let (listener, redirect) = listen().await.map_err(plain)?;
        let client_id = match &self.auth.client_id {
            Some(id) => id.clone(),
            None => self.register(&web, &authority, &redirect).await?,
        };
        let login = Login {
            client_id: &client_id,
            redirect: &redirect,
            scopes: &self.auth.scopes,
            resource: &resource,
            state: &random_text()?,
            verifier: &random_text()?,
        };
        show(&login.url(endpoint));
        let (issuer, states_issuer) = (self.auth.issuer.as_str(), authority.states_issuer);
        let expected = Expected { state: login.state, issuer, states_issuer };
        let patience = Duration::from_millis(OAUTH_LOGIN_MS);
        let brought = async {
            match pasted {
                Some(input) => read_pasted(input, &redirect, expected).await,
                None => brought(listener, expected).await,
            }
        };
        let brought = timeout(patience, brought).await;
        let code = brought.map_err(|_| "nobody has logged in in time")?.map_err(plain)??;
        let granted = self.exchanged(&login, &code).await?;
        let scope = granted.scope.clone().filter(|scope| *scope != login.scopes.join(" "));
        let stored = StoredLogin::new(self, &client_id, resource.clone(), granted);
        let turn = self.turn().await?;
        self.keep(&stored).await?;
        drop(turn);
        self.hide(&stored)?;
        Ok(scope)
    }

    /// Exchanges a code. A person takes longer than the issuer may, which is asked anew what it does.
    async fn exchanged(&self, login: &Login<'_>, code: &str) -> Result<Granted, String> {
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", login.redirect),
            ("code_verifier", login.verifier),
            ("resource", login.resource),
        ];
        let (web, authority) = self.authority().await?;
        let granted = self.grant(&web, &authority, login.client_id, &form).await;
        granted.map_err(|none| none.reason)
    }
}

/// Returns where a browser is waited for on this machine, and its address.
#[expect(clippy::disallowed_methods, reason = "a browser of this machine comes back here")]
async fn listen() -> io::Result<(TcpListener, String)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let redirect = format!("http://127.0.0.1:{}/callback", listener.local_addr()?.port());
    Ok((listener, redirect))
}

/// Reads the address at which a browser ended that could not go on.
async fn read_pasted(input: Pasted, redirect: &str, expected: Expected<'_>) -> io::Result<Brought> {
    let line = Lines::new(BufReader::new(input), OAUTH_CALLBACK_BYTES_MAX).next().await?;
    let Some(Line::Text(line)) = line else { return Ok(Err("no address was pasted".to_owned())) };
    let address = String::from_utf8_lossy(&line);
    let query = address.trim().strip_prefix(redirect).and_then(|rest| rest.strip_prefix('?'));
    let other = || Err(format!("this is no answer to this login: that begins with {redirect}?"));
    Ok(query.and_then(|query| expected.read(query)).unwrap_or_else(other))
}

/// Waits for the one answer among all that connects.
async fn brought(listener: TcpListener, expected: Expected<'_>) -> io::Result<Brought> {
    let mut asking = FuturesUnordered::new();
    loop {
        tokio::select! {
            taken = listener.accept(), if asking.len() < OAUTH_CALLBACKS_MAX => {
                let limit = Duration::from_millis(OAUTH_CALLBACK_MS);
                asking.push(timeout(limit, answer(taken?.0, expected)));
            }
            Some(asked) = asking.next() => if let Ok(Ok(Some(brought))) = asked {
                return Ok(brought);
            }
        }
    }
}

/// Reads one request, and says what becomes of it. Nothing that it says is repeated.
async fn answer(mut stream: TcpStream, expected: Expected<'_>) -> io::Result<Option<Brought>> {
    let (reader, mut writer) = stream.split();
    let mut lines = Lines::new(BufReader::new(reader), OAUTH_CALLBACK_BYTES_MAX);
    let mut first = None;
    for _ in 0..LINES_MAX {
        match lines.next().await? {
            Some(Line::Text(line)) if line.trim_ascii().is_empty() => break,
            Some(Line::Text(line)) => drop(first.get_or_insert(line)),
            Some(Line::TooLong(..)) | None => return Ok(None),
        }
    }
    let first = String::from_utf8(first.unwrap_or_default()).unwrap_or_default();
    let query = first.strip_prefix("GET /callback?").and_then(|rest| rest.split(' ').next());
    let brought = query.and_then(|query| expected.read(query));
    let (status, text) = match &brought {
        Some(Ok(_)) => ("200 OK", "clawhost goes on: this page can be closed."),
        Some(Err(_)) => ("400 Bad Request", "This is no login: clawhost says why."),
        None => ("404 Not Found", "Nothing is here."),
    };
    let answer = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncache-control: no-store\r\nreferrer-policy: no-referrer\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
        text.len()
    );
    // A browser that does not read has brought it all the same.
    drop(writer.write_all(answer.as_bytes()).await);
    drop(writer.shutdown().await);
    Ok(brought)
}

/// Returns what nobody can guess: 64 digits, as a verifier may have (RFC 7636, 4.1).
fn random_text() -> Result<String, String> {
    random::hex::<32>().map_err(plain)
}

fn plain(error: impl std::fmt::Display) -> String {
    error.to_string()
}
