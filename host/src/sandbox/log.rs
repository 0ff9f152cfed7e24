//! What a guest says on the side: log lines and its standard output and error.
//!
//! Bounded, freed of every secret that was handed out, and shown to the operator, never to the
//! model. Log lines appear as they come, each at
//! its own level; one past its bound is cut, and those past [`GUEST_LOG_LINES_MAX`] are dropped.
//! Once, when the call ends, how many were dropped is logged at level info, and what was written to
//! the streams at level debug: the first lines, as many, of the first [`GUEST_LOG_BYTES_MAX`] bytes.

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use clawhost_core::limits::{
    ERROR_TEXT_BYTES_MAX, GUEST_LOG_BYTES_MAX, GUEST_LOG_LINE_BYTES_MAX, GUEST_LOG_LINES_MAX,
};
use clawhost_core::{truncate, visible};
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;

use crate::secrets::Secrets;

/// The lines and streams of one call; logs the streams when it is dropped, which is when the
/// call ends.
#[derive(Debug)]
pub struct CallLog {
    tool: Arc<str>,
    lines: u32,
    /// The last line at level error: a panic's text, when the call ends in a trap.
    last_error: Option<String>,
    /// What it writes to its streams, from when it is first given any.
    streams: OnceLock<MemoryOutputPipe>,
    secrets: Secrets,
}

impl CallLog {
    /// Returns an empty log for a call of `tool`, in which none of `secrets` is shown.
    pub fn new(tool: impl Into<Arc<str>>, secrets: Secrets) -> Self {
        Self { tool: tool.into(), lines: 0, last_error: None, streams: OnceLock::new(), secrets }
    }

    /// Returns the pipe that captures standard output and error.
    pub fn streams(&self) -> MemoryOutputPipe {
        self.streams.get_or_init(|| MemoryOutputPipe::new(GUEST_LOG_BYTES_MAX)).clone()
    }

    fn written(&self) -> Bytes {
        self.streams.get().map(MemoryOutputPipe::contents).unwrap_or_default()
    }

    /// Takes one line of the log interface; lines past the limit are counted and dropped.
    pub fn line(&mut self, level: tracing::Level, message: &str) {
        self.lines = self.lines.saturating_add(1);
        if self.lines > GUEST_LOG_LINES_MAX {
            return;
        }
        let message = visible::line(&self.short_line(message));
        let tool = &*self.tool;
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

    /// Returns what explains a trap best: the last error line, else the end of what the streams
    /// took, where a panic's text stands.
    pub fn explanation(&self) -> Option<String> {
        if let Some(line) = &self.last_error {
            return Some(line.clone());
        }
        let streams = self.written();
        let text = String::from_utf8_lossy(&streams);
        let text = self.redacted(&text);
        let text = text.trim();
        (!text.is_empty()).then(|| visible::line(tail(text, GUEST_LOG_LINE_BYTES_MAX)))
    }

    /// Returns what a call that failed says of why, without secrets and not longer than an error may be.
    pub(crate) fn short(&self, why: &str) -> String {
        self.secrets.short(why, ERROR_TEXT_BYTES_MAX)
    }

    /// Returns what a guest says beside its answer, without secrets and not longer than a line may be.
    pub(super) fn short_line(&self, text: &str) -> String {
        self.secrets.short(text, GUEST_LOG_LINE_BYTES_MAX)
    }

    /// Returns `text` without the secrets that were handed out so far.
    fn redacted<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.secrets.redactor().text(text)
    }

    fn log_streams(&self) {
        let streams = self.written();
        let tool = &*self.tool;
        let text = String::from_utf8_lossy(&streams);
        for line in self.redacted(&text).lines().take(GUEST_LOG_LINES_MAX as usize) {
            let line = visible::line(truncate::text(line, GUEST_LOG_LINE_BYTES_MAX));
            tracing::debug!(tool, "wrote: {line}");
        }
    }
}

impl Drop for CallLog {
    fn drop(&mut self) {
        let dropped = self.lines.saturating_sub(GUEST_LOG_LINES_MAX);
        if dropped > 0 {
            tracing::info!(tool = &*self.tool, dropped, "log lines past the limit");
        }
        if tracing::enabled!(tracing::Level::DEBUG) {
            self.log_streams();
        }
    }
}

/// Returns the last `bytes_max` bytes of `text`, from a character border on.
fn tail(text: &str, bytes_max: usize) -> &str {
    let from = text.len().saturating_sub(bytes_max);
    let start = (from..=text.len()).find(|at| text.is_char_boundary(*at));
    start.and_then(|start| text.get(start..)).unwrap_or("")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::Mutex;
    use wasmtime_wasi::p2::OutputStream as _;

    fn written(text: &str) -> CallLog {
        let log = CallLog::new("t", Secrets::none());
        log.streams().write(text.to_owned().into()).unwrap();
        log
    }

    #[test]
    fn the_end_of_the_streams_explains_a_trap() {
        let explanation = written(&format!("{}ä\npanicked", "ö".repeat(5_000))).explanation();
        let explanation = explanation.unwrap();
        assert!(explanation.ends_with("ä\\u{a}panicked"), "{explanation}");
        assert!(explanation.starts_with('ö') && explanation.len() < 5_000);
        assert_eq!(written(" \n").explanation(), None);
        assert_eq!(tail("aö", 1), "");
    }

    #[derive(Clone, Default)]
    struct Shown(Arc<Mutex<Vec<u8>>>);

    impl Write for Shown {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_streams_and_the_number_of_dropped_lines_are_logged_when_the_call_ends() {
        let shown = Shown::default();
        let writer = shown.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_writer(move || writer.clone())
            .with_ansi(false);
        tracing::subscriber::with_default(subscriber.finish(), || {
            let mut log = written("first\nsecond\u{1b}[2J");
            for _ in 0..GUEST_LOG_LINES_MAX + 3 {
                log.line(tracing::Level::TRACE, "flood");
            }
        });
        let text = String::from_utf8(shown.0.lock().unwrap().clone()).unwrap();
        assert!(text.contains("wrote: second\\u{1b}[2J") && text.contains("dropped=3"), "{text}");
    }

    #[test]
    fn control_characters_are_made_visible_and_the_last_error_explains_a_trap() {
        let mut log = CallLog::new("t", Secrets::none());
        log.line(tracing::Level::ERROR, "panicked\u{1b}[2J\nforged\u{202e} line");
        assert_eq!(log.explanation().unwrap(), "panicked\\u{1b}[2J\\u{a}forged\\u{202e} line");
    }

    #[test]
    fn no_secret_is_logged_or_explains_a_trap() {
        let secrets = Secrets::of_environment(|_| Some("hidden-value".into()));
        let mut log = CallLog::new("t", secrets.clone());
        log.streams().write("panicked at hidden-value".to_owned().into()).unwrap();
        secrets.learn(["TOKEN"]);
        assert_eq!(log.explanation().unwrap(), "panicked at [redacted:TOKEN]");
        let cut = "x".repeat(GUEST_LOG_LINE_BYTES_MAX - 6);
        log.line(tracing::Level::ERROR, &format!("{cut}hidden-value"));
        assert_eq!(log.explanation().unwrap(), format!("{cut}[redac"));
    }

    #[test]
    fn of_a_long_line_no_more_is_searched_than_may_be_left_of_it() {
        let secrets = Secrets::none();
        secrets.hide("T", "abcdefgh").unwrap();
        let mut log = CallLog::new("t", secrets);
        // Eighty-one bytes each, of which thirteen are left.
        let escaped = "\\U00000061\\U00000062\\U00000063\\U00000064\\U00000065\\U00000066\\U00000067\\U00000068 ";
        log.line(tracing::Level::ERROR, &escaped.repeat(1_000));
        let shown = log.explanation().unwrap();
        assert_eq!(shown, "[redacted:T] ".repeat(4 * GUEST_LOG_LINE_BYTES_MAX / escaped.len()));
    }

    #[test]
    fn lines_past_the_limit_are_dropped() {
        let mut log = CallLog::new("t", Secrets::none());
        for _ in 0..GUEST_LOG_LINES_MAX {
            log.line(tracing::Level::ERROR, "first");
        }
        log.line(tracing::Level::ERROR, "too late");
        assert_eq!(log.explanation().unwrap(), "first");
    }
}
