//! What a program prints, as far as it is kept.

use std::cell::RefCell;

/// Bytes kept of each stream: both, as JSON, leave half of a reply to the result.
const STREAM_BYTES_MAX: usize = 16_384;

/// The end of what was printed before a failure that is shown with its message.
const SHOWN_BYTES_MAX: usize = 1_024;

/// The bytes of a message that are shown: the host shows four times as much at most.
const MESSAGE_BYTES_MAX: usize = 2_048;

/// The two streams of a program. Printing goes on when they are full, and is only counted.
#[derive(Debug, Default)]
pub struct Output {
    stdout: RefCell<Stream>,
    stderr: RefCell<Stream>,
}

#[derive(Debug, Default)]
struct Stream {
    kept: String,
    bytes: u64,
}

impl Output {
    /// Takes what a program prints.
    pub fn print(&self, text: &str) {
        self.stdout.borrow_mut().push(text);
    }

    /// Takes what a program prints as a warning or an error.
    pub fn print_error(&self, text: &str) {
        self.stderr.borrow_mut().push(text);
    }

    /// Returns `message` and what was printed last before it, both bounded.
    pub(crate) fn after(&self, message: &str) -> String {
        let stdout = self.stdout.borrow();
        let message = message.get(..message.floor_char_boundary(MESSAGE_BYTES_MAX)).unwrap_or("");
        if stdout.kept.is_empty() {
            return message.to_owned();
        }
        let start = stdout.kept.len().saturating_sub(SHOWN_BYTES_MAX);
        let end = stdout.kept.get(stdout.kept.ceil_char_boundary(start)..).unwrap_or("");
        format!("{message}\nprinted before: {end}")
    }

    /// Hands out both streams, and the true size of each that is not whole.
    pub(crate) fn finish(&self) -> ([String; 2], [Option<u64>; 2]) {
        let streams = [self.stdout.take(), self.stderr.take()];
        let sizes = streams.each_ref().map(Stream::cut_from);
        (streams.map(|stream| stream.kept), sizes)
    }
}

impl Stream {
    fn push(&mut self, text: &str) {
        let is_whole = self.bytes == self.kept.len() as u64;
        self.bytes = self.bytes.saturating_add(text.len() as u64);
        // After a gap nothing is kept: what follows would seem to belong to what precedes.
        if is_whole {
            let left = STREAM_BYTES_MAX - self.kept.len();
            self.kept.push_str(text.get(..text.floor_char_boundary(left)).unwrap_or(""));
        }
    }

    fn cut_from(&self) -> Option<u64> {
        (self.bytes > self.kept.len() as u64).then_some(self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_is_cut_on_a_character_border_and_its_true_size_told() {
        let output = Output::default();
        output.print(&"a".repeat(STREAM_BYTES_MAX - 1));
        output.print("é");
        output.print("z");
        output.print_error("warned");
        let ([stdout, stderr], sizes) = output.finish();
        assert_eq!((stdout.len(), stderr.as_str()), (STREAM_BYTES_MAX - 1, "warned"));
        assert!(stdout.ends_with('a'));
        assert_eq!(sizes, [Some(STREAM_BYTES_MAX as u64 + 2), None]);
    }

    #[test]
    fn a_failure_shows_what_was_printed_last() {
        let output = Output::default();
        assert_eq!(output.after("it failed"), "it failed");
        output.print("first");
        output.print(&"é".repeat(SHOWN_BYTES_MAX));
        let shown = output.after(&"x".repeat(9_999));
        assert!(shown.len() < MESSAGE_BYTES_MAX + SHOWN_BYTES_MAX + 64, "{}", shown.len());
        assert!(shown.ends_with("éé") && !shown.contains("first"));
    }
}
