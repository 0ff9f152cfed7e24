//! Calls of other tools, through the same gate as every call. Needs a profile that grants them.

pub use crate::bindings::claw::host::tools::{CallError, Tool, call, call_all, list};
