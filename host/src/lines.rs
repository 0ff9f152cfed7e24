//! Lines from a stream, each bounded: a line that is too long costs nothing but its own answer.
//!
//! Deliberately absent: any look inside a line.

use std::io;

use clawhost_core::limits::LINE_BEGINNING_BYTES_MAX;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// One line of input, without its newline.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A line that was read whole.
    Text(Vec<u8>),
    /// A line beyond the bound, by how it begins, and its bytes in all. The rest of it has been skipped.
    TooLong(Vec<u8>, usize),
}

/// Reads lines of at most `bytes_max` bytes.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    reader: R,
    bytes_max: usize,
    ended: bool,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// Returns the lines of `reader`.
    pub(crate) const fn new(reader: R, bytes_max: usize) -> Self {
        Self { reader, bytes_max, ended: false }
    }

    /// Says whether the line that was returned last ended in a newline: what the stream ends in may be the beginning
    /// of one.
    pub(crate) const fn ended(&self) -> bool {
        self.ended
    }

    /// Returns what it reads from.
    pub(crate) const fn reader(&mut self) -> &mut R {
        &mut self.reader
    }

    /// Returns the next line, or nothing at the end. The last line needs no newline.
    ///
    /// Not cancel safe: a dropped future loses the part of a line it has read.
    ///
    /// # Errors
    /// What the stream says.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        // Lines that are there already would be read without a turn for anybody else.
        tokio::task::coop::consume_budget().await;
        let mut text = Vec::new();
        let (mut started, mut bytes) = (false, 0_usize);
        loop {
            let chunk = match self.reader.fill_buf().await {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if chunk.is_empty() {
                return Ok(started.then(|| self.finish(text, bytes)));
            }
            started = true;
            let mut parts = chunk.splitn(2, |byte| *byte == b'\n');
            let part = parts.next().unwrap_or_default();
            self.ended = parts.next().is_some();
            if bytes <= self.bytes_max {
                text.extend_from_slice(part);
            }
            bytes = bytes.saturating_add(part.len());
            if text.len() > self.bytes_max {
                text.truncate(LINE_BEGINNING_BYTES_MAX.min(self.bytes_max));
                text.shrink_to_fit();
            }
            let used = part.len() + usize::from(self.ended);
            self.reader.consume(used);
            if self.ended {
                return Ok(Some(self.finish(text, bytes)));
            }
        }
    }

    fn finish(&self, text: Vec<u8>, bytes: usize) -> Line {
        if bytes > self.bytes_max { Line::TooLong(text, bytes) } else { Line::Text(text) }
    }
}

/// Returns the one line that `reader` has to give.
///
/// # Errors
/// What the stream says; none within the bound is an error too.
pub(crate) async fn first_line<R: AsyncBufRead + Unpin>(
    reader: R,
    bytes_max: usize,
) -> io::Result<Vec<u8>> {
    match Lines::new(reader, bytes_max).next().await? {
        Some(Line::Text(text)) => Ok(text),
        Some(Line::TooLong(..)) => Err(io::Error::other("the answer is too long")),
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::BufReader;

    async fn all(input: &[u8], buffer: usize, bytes_max: usize) -> Vec<Line> {
        let mut lines = Lines::new(BufReader::with_capacity(buffer, input), bytes_max);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            found.push(line);
        }
        found
    }

    fn text(text: &str) -> Line {
        Line::Text(text.as_bytes().to_vec())
    }

    #[tokio::test]
    async fn lines_are_the_same_whatever_the_chunks() {
        for buffer in 1..9 {
            let found = all(b"one\n\ntwo\r\nlast", buffer, 5).await;
            assert_eq!(found, [text("one"), text(""), text("two\r"), text("last")]);
        }
    }

    #[tokio::test]
    async fn it_is_known_whether_a_line_ended() {
        let mut lines = Lines::new(BufReader::with_capacity(3, &b"one\nlast"[..]), 5);
        for (read, ended) in [("one", true), ("last", false)] {
            assert_eq!(lines.next().await.unwrap(), Some(text(read)));
            assert_eq!(lines.ended(), ended, "{read}");
        }
    }

    #[tokio::test]
    async fn lines_that_are_there_leave_others_their_turn() {
        let input = "\n".repeat(10_000);
        let mut turns = std::pin::pin!(async {
            for _ in 0..2 {
                tokio::task::yield_now().await;
            }
        });
        tokio::select! {
            biased;
            _ = all(input.as_bytes(), 65_536, 5) => panic!("it took all the time"),
            () = &mut turns => {}
        }
    }

    #[tokio::test]
    async fn a_long_line_is_skipped_once_and_the_next_one_is_whole() {
        for buffer in 1..9 {
            let found = all(b"12345\n123456\n1\n1234567", buffer, 5).await;
            let too_long = |bytes| Line::TooLong(b"12345".to_vec(), bytes);
            assert_eq!(found, [text("12345"), too_long(6), text("1"), too_long(7)]);
        }
    }
}
