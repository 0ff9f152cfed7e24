//! One MCP server that is a program, over streamable HTTP, for hosts that can be told a URL only.
//!
//! It is a transport and no gate: whoever may ask may ask for anything, and the host that bridges it applies
//! policy. Its clients share one process; what it said to `initialize` is said to each of them again, as of the
//! older revision that a client asks for, and each has a session of its own, which lasts as long as the process or
//! until its client ends it. What the process says unasked is for all who listen; what it says of a request is for
//! whoever sent that. Deliberately absent: events that are sent again.

mod call;
mod sessions;
mod wrapped;

pub use wrapped::{WrapOptions, serve_wrapped};
