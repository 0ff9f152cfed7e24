//! Both dialects over HTTP, and the operator's look at the host.
//!
//! `/mcp` (streamable HTTP) takes an agent's token, `/claw` one or the operator's credential, each
//! for its own part, and `/status` the operator's credential only. `/v1` takes an agent's token too, where the
//! host serves completions.
//! Every request passes `guard` before anything reads its body. Deliberately absent: TLS (put a
//! proxy in front for anything but loopback), HTTP/2, cookies, CORS.

mod admission;
mod body;
mod claw;
mod console;
mod guard;
mod held;
mod metrics;
mod routes;
mod seats;
mod server;
mod sessions;
mod wrap;

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "its clients connect to the server under test")]
mod tests;

pub use self::metrics::serve_metrics;
pub use self::server::{BoundServer, HttpOptions, serve_http};
pub use self::wrap::{WrapOptions, serve_wrapped};
