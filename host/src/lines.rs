//! Lines from a stream, each bounded: a line that is too long costs nothing but its own answer.
//!
//! Deliberately absent: any look inside a line.

use std::{io, mem};

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
    /// What is kept of the line that has begun.
    text: Vec<u8>,
    /// Its bytes in all, where one has begun.
    bytes: Option<usize>,
}

impl<R: AsyncBufRead + Unpin> Lines<R> {
    /// Returns the lines of `reader`.
    pub(crate) const fn new(reader: R, bytes_max: usize) -> Self {
        Self { reader, bytes_max, ended: false, text: Vec::new(), bytes: None }
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
    /// Cancel safe: the part of a line that a dropped future has read is there for the next.
    ///
    /// # Errors
    /// What the stream says.
    pub(crate) async fn next(&mut self) -> io::Result<Option<Line>> {
        // Lines that are there already would be read without a turn for anybody else.
        tokio::task::coop::consume_budget().await;
        loop {
            let chunk = match self.reader.fill_buf().await {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if chunk.is_empty() {
                return Ok(self.finish());
            }
            let mut parts = chunk.splitn(2, |byte| *byte == b'\n');
            let part = parts.next().unwrap_or_default();
            self.ended = parts.next().is_some();
            let before = self.bytes.unwrap_or_default();
            if before <= self.bytes_max {
                self.text.extend_from_slice(part);
            }
            self.bytes = Some(before.saturating_add(part.len()));
            if self.text.len() > self.bytes_max {
                self.text.truncate(LINE_BEGINNING_BYTES_MAX.min(self.bytes_max));
                self.text.shrink_to_fit();
            }
            let used = part.len() + usize::from(self.ended);
            self.reader.consume(used);
            if self.ended {
                return Ok(self.finish());
            }
        }
    }

    /// Returns the line that has begun.
    fn finish(&mut self) -> Option<Line> {
        let (text, bytes) = (mem::take(&mut self.text), self.bytes.take()?);
        Some(if bytes > self.bytes_max { Line::TooLong(text, bytes) } else { Line::Text(text) })
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
    use futures_util::FutureExt as _;
    use tokio::io::{AsyncWriteExt as _, BufReader};

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
    async fn a_line_that_was_given_up_halfway_is_whole_for_who_reads_on() {
        let (mut near, far) = tokio::io::duplex(64);
        let mut lines = Lines::new(BufReader::new(far), 11);
        near.write_all(b"half").await.unwrap();
        assert!(lines.next().now_or_never().is_none());
        near.write_all(b" a line\nnext").await.unwrap();
        assert_eq!(lines.next().await.unwrap(), Some(text("half a line")));
        assert!(lines.next().now_or_never().is_none());
        drop(near);
        assert_eq!(lines.next().await.unwrap(), Some(text("next")));
        assert!(!lines.ended() && lines.next().await.unwrap().is_none());
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
