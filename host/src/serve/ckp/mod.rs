//! The Claw Kernel Protocol 0.3.0 as a tool host speaks it: sessions, tools, memory, swarms.
//!
//! One [`ClawSession`] is one connection on standard input, or one `Claw-Session` over HTTP. It says in
//! which order requests are checked: the method and what it needs (-32601), the shape of its
//! parameters (-32602), the session's state (-32600), then what they name. `claw.initialize` looks
//! at its parameters, the version, the state and the manifest, in that order, so that a wrong one
//! never harms the session that runs. Requests are answered as they end, in any order.
//!
//! The host's own manifest is the base of every session. The manifest a client sends narrows it:
//! see [`clawhost_core::manifest::SessionManifest`]. Results carry what the protocol names and
//! nothing besides, except `_meta` where a result was cut or failed.
//!
//! Notifications go out only where nobody can take them for an answer by surprise: a heartbeat
//! every 30 seconds unless the base Claw says otherwise, reports of progress and what comes from a
//! swarm only where the client asked for them in its capabilities
//! (`{"tools": {"progress": true}, "swarm": {"events": true}}`).
//!
//! A session narrows its own calls only. MCP on the same connection is a dialect of its own, with
//! no session manifest: its calls pass the host's policies alone and do not end with the session.
//! On standard input a shutdown waits for them too, as for every call of the host, before it says
//! `drained`.
//!
//! Members of parameters that the protocol does not name are passed over, except in the `context`
//! of a call: a narrowing that is misspelt would not narrow.
//!
//! A notification that names a method which wants an answer is not carried out: nobody could hear
//! what became of it.
//!
//! Deliberately absent: bytes and lines, which belong to the transports; any way to a tool beside
//! the gate; and the A2A profile's `claw.task.*`, which are answered with -32601.

mod approve;
mod content;
mod heartbeat;
mod initialize;
mod life;
mod memory;
mod method;
mod notice;
mod session;
mod shutdown;
mod swarm;
mod tool;

pub(crate) use self::approve::operator;
pub(crate) use self::notice::Notice;
pub(crate) use self::session::{Answer, Authority, ClawSession};

#[cfg(test)]
mod tests;
