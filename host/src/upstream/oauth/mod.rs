//! OAuth 2.1 for MCP servers: a small client over the one checked way out.
//!
//! The operator names the issuer, and only that is asked. What it names in turn lies at its own address or
//! is public and encrypted; nothing is redirected. A token goes to the one server it was asked for.
//! What may be said, [`clawhost_core::oauth`] decides.
//!
//! Deliberately absent: more scopes than the operator wrote, tokens that are not bearer tokens, a
//! browser (a URL is printed and never passed to a program), and the client of an SDK, which would
//! connect by itself.

mod issuer;
mod login;
mod store;
#[cfg(test)]
mod tests;
mod tokens;

pub(crate) use issuer::challenged;
pub(crate) use login::Pasted;
pub(crate) use tokens::{NoToken, Tokens};
