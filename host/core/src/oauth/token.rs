//! Answers of an issuer to a client.

use serde_json::Value;

use super::metadata::{object, text};
use crate::limits::SECRET_BYTES_MAX;

/// What an issuer gives.
#[derive(Clone, PartialEq, Eq)]
pub struct Granted {
    /// The token that a server takes.
    pub access: String,
    /// What the next one is asked for with.
    pub refresh: Option<String>,
    /// How long it is good for, in seconds, where the issuer says.
    pub seconds: Option<u64>,
    /// What it is good for, where that is not what was asked for.
    pub scope: Option<String>,
}

shows!(Granted { seconds });

impl Granted {
    /// Reads the answer to a request for a token.
    ///
    /// # Errors
    /// It has none, one that could not be sent, or one that is more than a bearer token.
    pub fn read(body: &[u8]) -> Result<Self, String> {
        let said = object(body, "the issuer")?;
        let kind = text(&said, "token_type").unwrap_or_default();
        if !kind.eq_ignore_ascii_case("bearer") {
            return Err("the issuer gives a token of another type than `Bearer`".to_owned());
        }
        let token = |key| text(&said, key).filter(|token| is_token(token)).map(str::to_owned);
        let access = token("access_token").ok_or("the issuer gives no token that can be sent")?;
        let seconds = said.get("expires_in").and_then(Value::as_u64);
        let scope = text(&said, "scope").map(str::to_owned);
        Ok(Self { access, refresh: token("refresh_token"), seconds, scope })
    }
}

/// Reads the answer to a registration: the client's id.
///
/// # Errors
/// It has none.
pub fn registered(body: &[u8]) -> Result<String, String> {
    let said = object(body, "the issuer")?;
    let id = text(&said, "client_id").filter(|id| is_token(id));
    id.map(str::to_owned).ok_or_else(|| "the issuer registers and gives no `client_id`".to_owned())
}

/// Returns the code of a refusal (RFC 6749, 5.2), which could repeat nothing that was sent.
pub fn refusal(body: &[u8]) -> Option<String> {
    let said = object(body, "").ok()?;
    let is_code = |code: &&str| {
        code.len() <= CODE_BYTES_MAX && code.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')
    };
    text(&said, "error").filter(is_code).map(str::to_owned)
}

/// The longest that is registered has 28.
const CODE_BYTES_MAX: usize = 40;

/// Says whether it can stand in a header.
fn is_token(text: &str) -> bool {
    (1..=SECRET_BYTES_MAX).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_graphic())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_is_taken_with_what_is_said_of_it() {
        let body = br#"{"access_token":"a-1","token_type":"bearer","expires_in":60,"refresh_token":"r-1","scope":"x y","id_token":"z"}"#;
        let granted = Granted::read(body).unwrap();
        assert_eq!((&*granted.access, granted.refresh.as_deref()), ("a-1", Some("r-1")));
        assert_eq!((granted.seconds, granted.scope.as_deref()), (Some(60), Some("x y")));
        assert!(!format!("{granted:?}").contains("a-1"));
    }

    #[test]
    fn what_is_no_bearer_token_is_refused_and_not_repeated() {
        let long = "x".repeat(SECRET_BYTES_MAX + 1);
        for (token, kind) in [
            ("hunter2", "DPoP"),
            ("hunter2", "mac"),
            ("hunter2", ""),
            ("hunter2\\r\\nHost: x", "Bearer"),
            ("hunter2 x", "Bearer"),
            ("", "Bearer"),
            (long.as_str(), "Bearer"),
        ] {
            let body = format!(r#"{{"access_token":"{token}","token_type":"{kind}"}}"#);
            let error = Granted::read(body.as_bytes()).unwrap_err();
            assert!(!error.contains("hunter2"), "{error}");
        }
        for body in
            [&b""[..], b"{}", b"access_token=a", br#"{"access_token":"a","access_token":"b"}"#]
        {
            assert!(Granted::read(body).is_err());
        }
    }

    #[test]
    fn only_the_code_of_a_refusal_is_repeated() {
        let code = |text: &str| refusal(text.as_bytes());
        let body = r#"{"error":"invalid_grant","error_description":"hunter2 is no token"}"#;
        assert_eq!(code(body).as_deref(), Some("invalid_grant"));
        for text in ["", "<html>", r#"{"error":"Hunter2"}"#, r#"{"error":"a b"}"#, r#"{"error":1}"#]
        {
            assert_eq!(code(text), None, "{text}");
        }
        assert_eq!(registered(br#"{"client_id":"me"}"#).as_deref(), Ok("me"));
        assert!(registered(br#"{"client_id":""}"#).is_err());
    }
}
