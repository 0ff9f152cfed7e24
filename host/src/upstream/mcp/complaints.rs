//! What a server that is a program writes to standard error: a few lines of it for the log and,
//! the last ones, for the reason why it ended. Without secrets, and safe to show.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use clawhost_core::limits::{
    BRIDGE_COMPLAINT_BYTES_MAX, BRIDGE_COMPLAINTS_MAX, BRIDGE_COMPLAINTS_MS,
};
use clawhost_core::visible;
use tokio::io::BufReader;
use tokio::process::ChildStderr;
use tracing::debug;

use crate::lines::{Line, Lines};
use crate::secrets::Secrets;

/// Lines that are kept for the reason of an end.
const LAST_MAX: usize = 5;

/// Lines of a program's standard error.
pub(super) type ErrorLines = Lines<BufReader<ChildStderr>>;

/// Hears what one program complains of.
#[derive(Debug)]
pub(super) struct Complaints {
    server: String,
    secrets: Secrets,
    last: VecDeque<Vec<u8>>,
    since: Instant,
    logged: u32,
}

impl Complaints {
    /// Hears the server of that name.
    pub(super) fn of(server: &str, secrets: Secrets) -> Self {
        let (server, last) = (server.to_owned(), VecDeque::new());
        Self { server, secrets, last, since: Instant::now(), logged: 0 }
    }

    /// Returns the lines of `errors`.
    pub(super) fn lines(errors: ChildStderr) -> ErrorLines {
        Lines::new(BufReader::new(errors), BRIDGE_COMPLAINT_BYTES_MAX)
    }

    /// Reads to the end.
    pub(super) async fn read(&mut self, lines: &mut Option<ErrorLines>) {
        while let Some(open) = lines {
            match open.next().await {
                Ok(Some(Line::Text(text))) => self.hear(&text),
                Ok(Some(Line::TooLong)) => self.hear(b"(a line that is too long)"),
                Ok(None) | Err(_) => *lines = None,
            }
        }
    }

    fn hear(&mut self, line: &[u8]) {
        let line = line.trim_ascii_end();
        if self.is_due() {
            debug!(server = self.server, "{}", self.shown(line));
        }
        if self.last.len() == LAST_MAX {
            self.last.pop_front();
        }
        self.last.push_back(line.to_owned());
    }

    fn shown(&self, line: &[u8]) -> String {
        visible::line(&self.secrets.redactor().text(&String::from_utf8_lossy(line)))
    }

    /// Says whether another line may go to the log.
    fn is_due(&mut self) -> bool {
        if self.since.elapsed() >= Duration::from_millis(BRIDGE_COMPLAINTS_MS) {
            (self.since, self.logged) = (Instant::now(), 0);
        }
        self.logged = self.logged.saturating_add(1);
        self.logged <= BRIDGE_COMPLAINTS_MAX
    }

    /// Returns what it said last, to be added to a sentence.
    pub(super) fn last_words(&self) -> String {
        if self.last.is_empty() {
            return String::new();
        }
        let lines: Vec<String> = self.last.iter().map(|line| self.shown(line)).collect();
        format!("; it said last: {}", lines.join(" / "))
    }
}
