//! Clients of MCP servers: programs in the jail, and servers behind HTTP.
//!
//! A [`Server`] is one process or one session, kept going by a task of its own: it is started
//! anew when it ends, first soon and then ever later, and left alone for a while when it keeps
//! ending. Nothing a server says is believed: messages are bounded and strict, ids are this host's
//! own and are never reused, requests of the server itself are refused unless the operator has them
//! passed on, and text is handed on as what it is, for others to judge.
//!
//! The client is one of ours, over the lines that the host's own framer reads: a request, an
//! answer, a notification are all it needs of JSON-RPC, and every queue and table has an end.
//!
//! Deliberately absent: tasks, and shared sessions: who shares a [`Server`] shares its credentials.

mod complaints;
mod credentials;
mod failure;
mod flood;
mod handshake;
mod message;
mod mirror;
mod offers;
mod pipe;
mod plan;
mod questions;
mod relay;
mod reply;
mod resources;
mod server;
mod session;
mod supervise;
#[cfg(test)]
mod tests;
mod tools;
mod waiting;
mod web;

pub use failure::SERVER_ERROR;
pub use offers::{ServerOffers, State};
pub use plan::{Endpoint, ServerParts, ServerPlan};
pub use questions::INPUT_REQUIRED;
pub use relay::Restart;
pub(crate) use relay::{NoResult, PROGRESS_TOKEN, ProgramLife};
pub use server::Server;
