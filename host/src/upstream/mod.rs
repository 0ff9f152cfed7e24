//! Outgoing connections, and nothing else opens one.
//!
//! Deliberately absent: deciding where a connection may go. `core::egress` does that, and
//! what it did not check cannot be sent.

pub(crate) mod fetch;
pub mod http;
pub mod mcp;
pub(crate) mod oauth;
pub(crate) mod post;
pub mod provider;
