//! The inert interfaces of `claw:host`: log, progress, cancellation.

use super::bindings::claw::host::{cancellation, log, progress};
use super::state::CallState;

impl log::Host for CallState {
    async fn log(&mut self, level: log::Level, message: String) {
        let level = match level {
            log::Level::Trace => tracing::Level::TRACE,
            log::Level::Debug => tracing::Level::DEBUG,
            log::Level::Info => tracing::Level::INFO,
            log::Level::Warn => tracing::Level::WARN,
            log::Level::Error => tracing::Level::ERROR,
        };
        self.log.line(level, &message);
    }
}

impl progress::Host for CallState {
    async fn report(&mut self, progress: f64, total: Option<f64>, message: Option<String>) {
        if let Some(forward) = self.progress.as_mut().filter(|it| it.is_due(progress)) {
            let message = message.map(|text| self.log.short_line(&text));
            forward.report(progress, total, message);
        }
    }
}

impl cancellation::Host for CallState {
    /// A cancelled call is dropped from outside, so a guest that still runs was not.
    async fn is_cancelled(&mut self) -> bool {
        false
    }
}
