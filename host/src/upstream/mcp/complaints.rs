//! What a server that is a program writes to standard error: a few lines of it for the log and, the
//! first and the last ones, for the reason why it ended. Without secrets, and safe to show.
//!
//! A secret may have many lines. So what is searched is never a line alone, but as much before it, or
//! behind it, as the longest secret has.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use clawhost_core::limits::{
    BRIDGE_COMPLAINT_BYTES_MAX, BRIDGE_COMPLAINTS_MAX, BRIDGE_COMPLAINTS_MS, SECRET_BYTES_MAX,
};
use clawhost_core::redact::Redactor;
use clawhost_core::visible;
use tokio::process::ChildStderr;
use tracing::info;

use super::flood::{self, Allowance, Bounded};
use crate::lines::Line;
use crate::secrets::Secrets;

/// Lines that are shown of the beginning, where the cause of the others often stands.
const FIRST_MAX: usize = 3;
/// Lines that are shown of the end.
const LAST_MAX: usize = 5;
/// Bytes that are kept of the end: the lines that are shown, and a secret that ends in them.
const KEPT_BYTES_MAX: usize = SECRET_BYTES_MAX + LAST_MAX * BRIDGE_COMPLAINT_BYTES_MAX;

/// Lines of a program's standard error.
pub(super) type ErrorLines = Bounded<ChildStderr>;

/// Hears what one program complains of.
#[derive(Debug)]
pub(super) struct Complaints {
    server: String,
    secrets: Secrets,
    first: Text,
    last: Text,
    allowance: Allowance,
    since: Instant,
    logged: u32,
}

/// Lines as they came.
#[derive(Debug, Default)]
struct Text {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Lines that came before these.
    dropped: usize,
    /// The last of them came whole.
    ended: bool,
}

impl Text {
    fn push(&mut self, line: &[u8], ended: bool) {
        // An empty line takes room as well.
        self.bytes += line.len() + 1;
        self.lines.push_back(line.to_owned());
        self.ended = ended;
    }

    fn drop_oldest(&mut self) {
        let Some(dropped) = self.lines.pop_front() else { return };
        self.bytes -= dropped.len() + 1;
        self.dropped += 1;
    }

    /// Returns the lines without secrets, nor the beginning of one at the end.
    fn shown(&self, redactor: &Redactor) -> Vec<String> {
        let lines: Vec<&[u8]> = self.lines.iter().map(Vec::as_slice).collect();
        let mut text = lines.join(&b'\n');
        // What ended so goes on in no secret of one line: its last letters may be shown, whatever begins with them.
        if self.ended {
            text.push(b'\n');
        }
        let text = redactor.begun(&text);
        String::from_utf8_lossy(&text).lines().map(visible::line).collect()
    }
}

/// Says whether a line is more than one of the calls that led to an error, as Node.js lists them.
fn tells(line: &str) -> bool {
    let text = line.trim_start();
    let is_frame = text.len() < line.len() && text.starts_with("at ");
    !text.is_empty() && !is_frame
}

impl Complaints {
    /// Hears the server of that name.
    pub(super) fn of(server: &str, secrets: Secrets) -> Self {
        let (first, last) = (Text::default(), Text::default());
        let server = server.to_owned();
        let (allowance, since) = (Allowance::new(), Instant::now());
        Self { server, secrets, first, last, allowance, since, logged: 0 }
    }

    /// Returns the lines of `errors`.
    pub(super) fn lines(errors: ChildStderr) -> ErrorLines {
        flood::bounded(errors, BRIDGE_COMPLAINT_BYTES_MAX)
    }

    /// Reads to the end, and says whether what came was a flood.
    pub(super) async fn read(&mut self, lines: &mut Option<ErrorLines>) -> bool {
        while let Some(open) = lines {
            let text = match open.next().await {
                Ok(Some(Line::Text(text))) => text,
                Ok(Some(Line::TooLong(..))) => b"(a line that is too long)".to_vec(),
                Ok(None) if flood::is_flood(open) => return true,
                Ok(None) | Err(_) => {
                    *lines = None;
                    return false;
                }
            };
            self.allowance.count(open, text.len(), false);
            self.hear(&text, open.ended());
        }
        false
    }

    fn hear(&mut self, line: &[u8], ended: bool) {
        let line = line.trim_ascii_end();
        if self.first.lines.len() < FIRST_MAX || self.first.bytes < SECRET_BYTES_MAX {
            self.first.push(line, ended);
        }
        self.last.push(line, ended);
        while self.last.bytes > KEPT_BYTES_MAX {
            self.last.drop_oldest();
        }
        if self.is_due() {
            let shown = self.last.shown(&self.secrets.redactor());
            info!(server = self.server, "{}", shown.last().map_or("", String::as_str));
        }
    }

    /// Says whether another line may go to the log.
    fn is_due(&mut self) -> bool {
        if self.since.elapsed() >= Duration::from_millis(BRIDGE_COMPLAINTS_MS) {
            (self.since, self.logged) = (Instant::now(), 0);
        }
        self.logged = self.logged.saturating_add(1);
        self.logged <= BRIDGE_COMPLAINTS_MAX
    }

    /// Returns what it said first and last, to be added to a sentence.
    pub(super) fn last_words(&self) -> String {
        let redactor = self.secrets.redactor();
        let mut lines = self.last.shown(&redactor);
        lines.retain(|line| tells(line));
        // What the beginning has and the end does not.
        let first = if self.last.dropped > 0 || lines.len() > FIRST_MAX + LAST_MAX {
            let first = self.first.shown(&redactor).into_iter();
            first.filter(|line| tells(line)).take(FIRST_MAX).collect()
        } else {
            Vec::new()
        };
        let kept = if first.is_empty() { FIRST_MAX + LAST_MAX } else { LAST_MAX };
        lines.drain(..lines.len().saturating_sub(kept));
        let mut text = String::new();
        if !first.is_empty() {
            text.push_str(&format!("; it said first: {}", first.join(" / ")));
        }
        if !lines.is_empty() {
            text.push_str(&format!("; it said last: {}", lines.join(" / ")));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "-----BEGIN KEY-----\nAAAA1111\nBBBB2222\nCCCC3333\nDDDD4444\nEEEE5555\nFFFF6666\n-----END KEY-----";

    fn heard(lines: &str) -> Complaints {
        let secrets = Secrets::none();
        secrets.hide("KEY", KEY).unwrap();
        let mut complaints = Complaints::of("s", secrets);
        for line in lines.split_inclusive('\n') {
            complaints.hear(line.as_bytes(), line.ends_with('\n'));
        }
        complaints
    }

    #[test]
    fn a_secret_of_many_lines_is_taken_out_wherever_it_stands() {
        let many = "\nx".repeat(20);
        for text in [
            format!("wrong key: {KEY}"),
            format!("wrong key: {KEY}{many}"),
            format!("{many}\nwrong key: {KEY}\nbye"),
            // What ends within it shows none of it either.
            format!("x\n{}", KEY.split_at(60).0),
            format!("x\n{}", KEY.split_at(56).0),
        ] {
            let said = heard(&text).last_words();
            assert!(!said.contains("1111") && !said.contains("6666"), "{text}: {said}");
        }
        let said = heard(&format!("{many}\nwrong key: {KEY}\nbye")).last_words();
        assert!(said.ends_with("x / wrong key: [redacted:KEY] / bye"), "{said}");
    }

    #[test]
    fn a_line_that_ended_is_shown_whole_whatever_secrets_begin_with() {
        // In a spelling of its own the secret begins with a 2.
        assert!(heard("port 8082\n").last_words().ends_with("port 8082"));
        assert!(heard("port 8082").last_words().ends_with("port 808"));
    }

    #[test]
    fn empty_lines_without_an_end_take_no_more_room_than_others() {
        let complaints = heard(&"\n".repeat(1_000_000));
        assert!(complaints.first.lines.len() <= SECRET_BYTES_MAX);
        assert!(complaints.last.lines.len() <= KEPT_BYTES_MAX);
    }

    #[test]
    fn the_first_lines_are_told_as_well_as_the_last() {
        let lines: Vec<String> = (0..2_000).map(|n| format!("{n}\u{1b}")).collect();
        let said = heard(&lines.join("\n")).last_words();
        let first = "; it said first: 0\\u{1b} / 1\\u{1b} / 2\\u{1b}; it said last: 1995";
        assert!(said.starts_with(first) && said.ends_with("1999\\u{1b}"), "{said}");
        assert_eq!(heard("a\nb").last_words(), "; it said last: a / b");
        assert_eq!(heard("").last_words(), "");
    }

    #[test]
    fn an_error_is_told_and_not_the_calls_that_led_to_it() {
        let calls = "    at resolve (node:internal/modules/esm/resolve:873:9)\n".repeat(20);
        let text = format!("node:873\n  throw e;\n\nError: no package\n{calls}\nNode.js v20\n");
        let said = heard(&text).last_words();
        assert_eq!(said, "; it said last: node:873 /   throw e; / Error: no package / Node.js v20");
    }
}
