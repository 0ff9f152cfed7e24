//! The one way out over HTTP: checked, pinned to a checked address, bounded in everything.
//!
//! A [`CheckedRequest`] can only be made by the egress rules; [`HttpClient::send`] looks its
//! name up once, has every answer checked, and connects to one of those addresses and no
//! other. Deliberately absent: following redirects (a redirect is a new request, checked like
//! the first), proxies (the environment is never read), cookies, decompression, connection
//! reuse, HTTP/2.

mod body;
mod checked;
mod client;
mod connect;
mod error;
mod headers;
mod resolve;
#[cfg(test)]
pub(crate) mod tests;
mod tls;

pub use body::ResponseBody;
pub use checked::CheckedRequest;
pub use client::{HttpClient, RequestLimits};
pub use error::UpstreamError;
pub(crate) use headers::{is_of, is_plain, retry_after, sensitive};
pub use resolve::{Lookup, Resolver, SystemResolver};
pub use tls::TrustedRoots;
pub(crate) use tls::client_config;
