//! What a guest says on the side: log lines and its standard output and error.
//!
//! Bounded, kept with the call, shown to the operator and never to the model.

use clawhost_core::limits::{GUEST_LOG_BYTES_MAX, GUEST_LOG_LINE_BYTES_MAX, GUEST_LOG_LINES_MAX};
use clawhost_core::{truncate, visible};
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;

/// The lines and streams of one call.
#[derive(Debug, Clone)]
pub struct CallLog {
    tool: String,
    lines: u32,
    /// The last line at level error: a panic's text, when the call ends in a trap.
    last_error: Option<String>,
    streams: MemoryOutputPipe,
}

impl CallLog {
    /// Returns an empty log for a call of `tool`.
    pub fn new(tool: &str) -> Self {
        Self {
            tool: tool.to_owned(),
            lines: 0,
            last_error: None,
            streams: MemoryOutputPipe::new(GUEST_LOG_BYTES_MAX),
        }
    }

    /// Returns the pipe that captures standard output and error.
    pub fn streams(&self) -> MemoryOutputPipe {
        self.streams.clone()
    }

    /// Takes one line of the log interface; lines past the limit are counted and dropped.
    pub fn line(&mut self, level: tracing::Level, message: &str) {
        self.lines = self.lines.saturating_add(1);
        if self.lines > GUEST_LOG_LINES_MAX {
            return;
        }
        let message = visible::line(truncate::text(message, GUEST_LOG_LINE_BYTES_MAX));
        let tool = self.tool.as_str();
        match level {
            tracing::Level::ERROR => tracing::error!(tool, "{message}"),
            tracing::Level::WARN => tracing::warn!(tool, "{message}"),
            tracing::Level::INFO => tracing::info!(tool, "{message}"),
            tracing::Level::DEBUG => tracing::debug!(tool, "{message}"),
            tracing::Level::TRACE => tracing::trace!(tool, "{message}"),
        }
        if level == tracing::Level::ERROR {
            self.last_error = Some(message);
        }
    }

    /// Returns what explains a trap best: the last error line, else the end of the streams.
    pub fn explanation(&self) -> Option<String> {
        if let Some(line) = &self.last_error {
            return Some(line.clone());
        }
        let streams = self.streams.contents();
        let text = String::from_utf8_lossy(&streams);
        let text = text.trim();
        (!text.is_empty()).then(|| visible::line(truncate::text(text, GUEST_LOG_LINE_BYTES_MAX)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_made_visible_and_the_last_error_explains_a_trap() {
        let mut log = CallLog::new("t");
        log.line(tracing::Level::ERROR, "panicked\u{1b}[2J\nforged\u{202e} line");
        assert_eq!(log.explanation().unwrap(), "panicked\\u{1b}[2J\\u{a}forged\\u{202e} line");
    }

    #[test]
    fn lines_past_the_limit_are_dropped() {
        let mut log = CallLog::new("t");
        for _ in 0..GUEST_LOG_LINES_MAX {
            log.line(tracing::Level::ERROR, "first");
        }
        log.line(tracing::Level::ERROR, "too late");
        assert_eq!(log.explanation().unwrap(), "first");
    }
}
