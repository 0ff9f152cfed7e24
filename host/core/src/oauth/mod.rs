//! OAuth 2.1 for MCP servers: what a server, the issuer of its tokens and a browser may say.
//!
//! The operator names the issuer. What others say is held against that: it may select among what the
//! operator wrote and never adds to it. Nothing here repeats a token, a code, or the words of an issuer.
//!
//! Deliberately absent: requests, time, randomness, and where tokens are kept.

mod login;
mod metadata;
mod token;

pub use self::login::{Expected, Login};
pub use self::metadata::{Authority, authority_urls, resource, resource_urls};
pub use self::token::{Granted, refusal, registered};

#[cfg(test)]
mod tests {
    use crate::manifest::{McpAuth, McpGrant};

    /// What an operator may write.
    pub(super) fn auth() -> McpAuth {
        McpAuth {
            issuer: "https://auth.example".to_owned(),
            grant: McpGrant::AuthorizationCode,
            client_id: Some("me".to_owned()),
            secret: None,
            scopes: Vec::new(),
        }
    }
}
