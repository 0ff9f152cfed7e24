//! The log, on standard error, which never waits for whoever reads it.
//!
//! Guests write lines too, and a client that starts the host may never read its standard error:
//! a line that finds no room is dropped rather than holding the call that wrote it. No line shows a
//! secret that the host has handed out.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::io::{self, IsTerminal as _, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use clawhost_core::visible;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::debug_fn;

use crate::secrets::Secrets;

/// Lines that wait to be written.
const LINES_WAITING_MAX: usize = 1_024;
/// How long the end of the process waits for the last lines.
const FLUSH_WAIT: Duration = Duration::from_millis(200);

static LOG: OnceLock<SyncSender<Message>> = OnceLock::new();
static SECRETS: OnceLock<Secrets> = OnceLock::new();

enum Message {
    Line(Vec<u8>),
    Flush(SyncSender<()>),
}

/// Starts logging: what `filter` says, more with `-v`; `CLAWHOST_LOG` overrides both. With `CLAWHOST_LOG_FORMAT=json`
/// each line is an object with its time.
pub(super) fn start(verbose: u8, filter: &str) {
    let default = match verbose {
        0 => filter,
        1 => "info",
        _ => "debug",
    };
    let wanted = std::env::var_os("CLAWHOST_LOG");
    let filter = wanted.map(|wanted| EnvFilter::try_new(wanted.to_string_lossy()));
    let is_wrong = matches!(filter, Some(Err(_)));
    let filter = filter.and_then(Result::ok).unwrap_or_else(|| EnvFilter::new(default));
    let (sender, receiver) = sync_channel(LINES_WAITING_MAX);
    if std::thread::Builder::new().name("log".to_owned()).spawn(|| write_all(receiver)).is_err() {
        return;
    }
    let writer = Lossy(LOG.get_or_init(|| sender).clone());
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(move || writer.clone())
        .with_ansi(has_colours())
        .with_target(false);
    let format = std::env::var("CLAWHOST_LOG_FORMAT").unwrap_or_default();
    // A second subscriber in one process (tests) is refused; the first stays.
    drop(match format.as_str() {
        "json" => log.json().flatten_event(true).try_init(),
        _ => log.fmt_fields(fields()).without_time().try_init(),
    });
    if !["", "json", "text"].contains(&format.as_str()) {
        tracing::warn!("CLAWHOST_LOG_FORMAT has to be `json` or `text`: this is text");
    }
    if is_wrong {
        tracing::error!(
            "CLAWHOST_LOG has to be a level, or `target=level` with commas: it is not heeded"
        );
    }
}

/// Says whether standard error is a terminal that wants colours.
pub(super) fn has_colours() -> bool {
    io::stderr().is_terminal()
        && wants_colours(
            std::env::var_os("TERM").as_deref(),
            std::env::var_os("NO_COLOR").as_deref(),
        )
}

fn wants_colours(term: Option<&OsStr>, no_color: Option<&OsStr>) -> bool {
    term.is_none_or(|term| term != "dumb") && no_color.is_none_or(OsStr::is_empty)
}

/// Writes what a line says, made visible: it may quote a guest, a server or the name of a file.
fn fields() -> impl for<'w> FormatFields<'w> + 'static {
    let fields = debug_fn(|to, field, value| {
        let value = visible::line(&format!("{value:?}"));
        match field.name() {
            "message" => write!(to, "{value}"),
            name => write!(to, "{name}={value}"),
        }
    });
    fields.delimited(" ")
}

/// Takes these secrets out of every line from now on. A process has one host, and the first stays.
pub(super) fn redact(secrets: Secrets) {
    let _ = SECRETS.set(secrets);
}

/// Waits, a little, until what was logged is written.
pub(super) fn flush() {
    let (done, written) = sync_channel(1);
    if LOG.get().is_some_and(|log| log.try_send(Message::Flush(done)).is_ok()) {
        // A reader that does not read must not keep the process.
        let _ = written.recv_timeout(FLUSH_WAIT);
    }
}

fn write_all(lines: Receiver<Message>) {
    for message in lines {
        match message {
            // Nobody is left to tell where standard error is closed.
            Message::Line(line) => drop(io::stderr().write_all(&shown(&line, SECRETS.get()))),
            Message::Flush(done) => {
                let _ = done.try_send(());
            }
        }
    }
}

fn shown<'l>(line: &'l [u8], secrets: Option<&Secrets>) -> Cow<'l, [u8]> {
    match secrets {
        Some(secrets) => secrets.redactor().bytes(line),
        None => Cow::Borrowed(line),
    }
}

#[derive(Clone)]
struct Lossy(SyncSender<Message>);

impl Write for Lossy {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let _ = self.0.try_send(Message::Line(line.to_vec()));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_no_secret_that_was_handed_out() {
        let secrets = Secrets::of_environment(|_| Some("hidden-value".into()));
        secrets.learn(["TOKEN"]);
        let line = b"WARN \x1b[2mgot\x1b[0m hidden-value\n";
        assert_eq!(*shown(line, Some(&secrets)), *b"WARN \x1b[2mgot\x1b[0m [redacted:TOKEN]\n");
        assert_eq!(*shown(line, None), *line);
    }

    #[test]
    fn a_dumb_terminal_has_no_colours_and_an_empty_wish_is_none() {
        let wants = |term: Option<&str>, no_color: Option<&str>| {
            wants_colours(term.map(OsStr::new), no_color.map(OsStr::new))
        };
        assert!(wants(Some("xterm"), None) && wants(None, Some("")));
        assert!(!wants(Some("dumb"), None) && !wants(Some("xterm"), Some("1")));
    }

    #[test]
    fn what_a_line_quotes_forges_no_other() {
        let (sender, lines) = sync_channel(1);
        let writer = Lossy(sender);
        let log = tracing_subscriber::fmt().fmt_fields(fields()).without_time();
        let log = log.with_target(false).with_ansi(false).with_writer(move || writer.clone());
        tracing::subscriber::with_default(log.finish(), || {
            tracing::warn!(tool = "a b", "refused: {}", "a\nWARN b\u{202e}\u{1b}[2J");
        });
        let Ok(Message::Line(line)) = lines.recv() else { panic!("nothing was logged") };
        let expected = " WARN refused: a\\u{a}WARN b\\u{202e}\\u{1b}[2J tool=\"a b\"\n";
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }

    #[test]
    fn a_line_that_finds_no_room_is_dropped_and_nobody_waits() {
        let (sender, unread) = sync_channel(1);
        let mut log = Lossy(sender);
        for _ in 0..10 {
            assert_eq!(log.write(b"line").unwrap(), 4);
        }
        assert_eq!(unread.try_iter().count(), 1);
    }
}
