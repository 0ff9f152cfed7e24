//! How much a server that is a program may write that nobody asked for: bytes, and lines, of which each has
//! its cost however short it is.

use std::time::{Duration, Instant};

use clawhost_core::limits::{BRIDGE_LINE_BYTES_MIN, BRIDGE_UNASKED_BYTES_MAX, BRIDGE_UNASKED_MS};
use tokio::io::{AsyncRead, AsyncReadExt as _, BufReader, Take};

use crate::lines::Lines;

/// The lines of a stream, which end where it does, or where it was a flood.
pub(super) type Bounded<R> = Lines<BufReader<Take<R>>>;

/// Returns the lines of `stream`, each of at most `bytes_max` bytes.
pub(super) fn bounded<R: AsyncRead + Unpin>(stream: R, bytes_max: usize) -> Bounded<R> {
    Lines::new(BufReader::new(stream.take(BRIDGE_UNASKED_BYTES_MAX)), bytes_max)
}

/// Says of lines that have ended whether they were a flood.
pub(super) fn is_flood<R: AsyncRead + Unpin>(lines: &mut Bounded<R>) -> bool {
    lines.reader().get_ref().limit() == 0
}

/// Counts what one stream brings.
#[derive(Debug)]
pub(super) struct Allowance {
    since: Instant,
}

impl Allowance {
    /// Begins to count.
    pub(super) fn new() -> Self {
        Self { since: Instant::now() }
    }

    /// Counts a line of so many bytes, which somebody has waited for where it is `wanted`.
    pub(super) fn count<R>(&mut self, lines: &mut Bounded<R>, bytes: usize, wanted: bool)
    where
        R: AsyncRead + Unpin,
    {
        let input = lines.reader().get_mut();
        if self.since.elapsed() >= Duration::from_millis(BRIDGE_UNASKED_MS) {
            input.set_limit(BRIDGE_UNASKED_BYTES_MAX);
            self.since = Instant::now();
        } else if wanted {
            // An answer does not count, and forgives nothing beside it.
            input.set_limit(input.limit().saturating_add(bytes as u64));
        } else {
            let more = BRIDGE_LINE_BYTES_MIN.saturating_sub(bytes);
            input.set_limit(input.limit().saturating_sub(more as u64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::Line;

    /// Bytes that may still be written.
    const LEFT_BYTES: usize = 1 << 20;

    /// Returns how many lines of `bytes` bytes come through, of those that twice as much takes.
    async fn come_through(bytes: usize, wanted: bool) -> usize {
        let line = format!("{}\n", "x".repeat(bytes));
        let input = line.repeat(2 * LEFT_BYTES / BRIDGE_LINE_BYTES_MIN.max(line.len()));
        let mut lines = bounded(input.as_bytes(), bytes);
        lines.reader().get_mut().set_limit(LEFT_BYTES as u64);
        let (mut allowance, mut count) = (Allowance::new(), 0);
        while let Some(Line::Text(text)) = lines.next().await.unwrap() {
            allowance.count(&mut lines, text.len(), wanted);
            count += 1;
        }
        assert_eq!(is_flood(&mut lines), !wanted);
        count
    }

    #[tokio::test]
    async fn a_line_counts_however_short_it_is() {
        // What was read at once is heard.
        let most = LEFT_BYTES / BRIDGE_LINE_BYTES_MIN + 8_192;
        let short = come_through(0, false).await;
        assert!(short <= most, "{short}");
        let long = come_through(1_023, false).await;
        assert!((1_000..=1_024).contains(&long), "{long}");
    }

    #[tokio::test]
    async fn an_answer_does_not_count() {
        assert_eq!(come_through(1_023, true).await, 2_048);
    }

    #[tokio::test]
    async fn an_answer_that_is_too_long_does_not_count_either() {
        const LINE_BYTES: usize = 65_536;
        let input = format!("{}\n", "x".repeat(LINE_BYTES)).repeat(2 * LEFT_BYTES / LINE_BYTES);
        let mut lines = bounded(input.as_bytes(), 1_024);
        lines.reader().get_mut().set_limit(LEFT_BYTES as u64);
        let (mut allowance, mut count) = (Allowance::new(), 0);
        while let Some(Line::TooLong(_, bytes)) = lines.next().await.unwrap() {
            allowance.count(&mut lines, bytes, true);
            count += 1;
        }
        assert_eq!((count, is_flood(&mut lines)), (2 * LEFT_BYTES / LINE_BYTES, false));
    }
}
