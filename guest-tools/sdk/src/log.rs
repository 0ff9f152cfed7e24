//! Lines for the host's log, tied to the call. Never shown to the model.

use crate::bindings::claw::host::log::{Level, log};

/// Logs something only a developer of the tool wants to see.
pub fn debug(message: &str) {
    log(Level::Debug, message);
}

/// Logs what happened.
pub fn info(message: &str) {
    log(Level::Info, message);
}

/// Logs something odd that did not stop the tool.
pub fn warn(message: &str) {
    log(Level::Warn, message);
}

/// Logs what went wrong.
pub fn error(message: &str) {
    log(Level::Error, message);
}
