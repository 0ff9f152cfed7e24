//! Telemetry: what happened, for those who watch the host from outside.
//!
//! Turning it on changes nothing else. [`Telemetry::emit`] neither blocks nor fails: an exporter
//! that is slow, dead or mad loses its own events, which are counted, and nobody waits for it.
//! Deliberately absent: the audit log, which loses nothing and is a module of its own.

mod emit;
mod event;
mod exporter;
mod metrics;
mod otlp;
mod record;
#[cfg(test)]
mod tests;
mod trace;

pub use self::emit::Telemetry;
pub use self::event::{CallEvent, Event, Stage};
pub(crate) use self::record::bounded;
pub use self::trace::{TRACEPARENT, TraceParent};
