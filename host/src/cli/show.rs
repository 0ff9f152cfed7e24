//! Printing: tables for people, JSON for programs, and what a tool may touch in words.

use std::borrow::Cow;
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::OnceLock;

use clawhost_core::error::exit;
use clawhost_core::grants::Grants;
use clawhost_core::visible;
use comfy_table::{ContentArrangement, Table, presets};
use serde_json::Value;

use super::fail::Fail;

/// How much of a digest people are shown: enough to tell it from others.
const DIGEST_SHOWN_BYTES: usize = "sha256:".len() + 12;
/// Tables are never narrower than this.
const COLUMNS_MIN: u16 = 80;

/// Why standard output did not take all that was printed.
static UNWRITTEN: OnceLock<String> = OnceLock::new();

/// Prints text to standard output: as it is into a pipe, made safe on a terminal, as much of
/// what is shown was written by others.
pub(super) fn line(text: &str) {
    let mut out = io::stdout().lock();
    let shown =
        if out.is_terminal() { Cow::Owned(visible::block(text)) } else { Cow::Borrowed(text) };
    written(writeln!(out, "{shown}"));
}

/// Remembers why standard output took no more. A closed pipe is the reader's wish, not an error.
pub(super) fn written(outcome: io::Result<()>) {
    if let Err(error) = outcome
        && error.kind() != ErrorKind::BrokenPipe
    {
        // The first reason is the one that counts.
        let _ = UNWRITTEN.set(error.to_string());
    }
}

/// Fails where not all that a verb printed was [`written`]: whoever reads the rest would take it for the whole.
pub(super) fn whole(code: u8) -> Result<u8, Fail> {
    written(io::stdout().flush());
    match UNWRITTEN.get() {
        Some(why) => Err(Fail::new(exit::UPSTREAM, format!("standard output: {why}"))),
        None => Ok(code),
    }
}

/// Prints a JSON value, indented. What would hide or drive a terminal is escaped as JSON has it, into a pipe too:
/// a program reads the same, and a person may be behind it.
pub(super) fn json(value: &Value) {
    line(&visible::json(&format!("{value:#}")));
}

/// Prints what a verb came to, as JSON or in words, and ends it well.
pub(super) fn done(
    as_json: bool,
    value: impl FnOnce() -> Value,
    words: impl FnOnce() -> String,
) -> Result<u8, Fail> {
    if as_json {
        json(&value())
    } else {
        line(&words())
    }
    Ok(exit::OK)
}

/// Returns a table of these rows, or `nothing` where there are none.
pub(super) fn rows<R: IntoIterator<Item = String>>(
    header: &[&str],
    rows: impl IntoIterator<Item = R>,
    nothing: &str,
) -> String {
    let mut table = table(header);
    table.add_rows(rows);
    if table.is_empty() { nothing.to_owned() } else { table.trim_fmt() }
}

/// Returns an empty table under `header`; into a pipe, a row is a line of its full length and nothing else.
pub(super) fn table(header: &[&str]) -> Table {
    let mut table = Table::new();
    let lines = match io::stdout().is_terminal() {
        true => presets::UTF8_HORIZONTAL_ONLY,
        false => presets::NOTHING,
    };
    table.load_style(lines).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(header);
    // Some terminals say they have no columns; one letter a line helps nobody.
    if table.width().is_some_and(|columns| columns < COLUMNS_MIN) {
        table.set_width(COLUMNS_MIN);
    }
    table
}

/// Shortens a digest for people. Programs get all of it.
pub(super) fn short(digest: &str) -> &str {
    digest.get(..DIGEST_SHOWN_BYTES).unwrap_or(digest)
}

/// Says in words what a tool may touch.
pub(super) fn touches(grants: &Grants) -> String {
    grants.touches(near)
}

/// Shortens a path below the current directory.
pub(super) fn near(path: &Path) -> String {
    near_to(&std::env::current_dir().unwrap_or_default(), path)
}

/// Below the root is everything, and what begins with `..` is beside this folder.
fn near_to(here: &Path, path: &Path) -> String {
    match path.strip_prefix(here) {
        Ok(below) if here.parent().is_some() => {
            let dot = if below.starts_with("..") { "" } else { "./" };
            format!("{dot}{}", below.display())
        }
        _ => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_shortened_where_that_is_shorter() {
        for (here, path, said) in [
            ("/a/b", "/a/b/c", "./c"),
            ("/a/b", "/a/b/../c", "../c"),
            ("/a/b", "/x", "/x"),
            ("/", "/a/b", "/a/b"),
            ("", "/a/b", "/a/b"),
        ] {
            assert_eq!(near_to(Path::new(here), Path::new(path)), said, "{here} {path}");
        }
    }

    #[test]
    fn no_line_of_a_table_ends_in_blanks() {
        let cells = [["short", "a longer cell"], ["a longer cell", "short"]];
        let text = rows(&["one", "two"], cells.map(|row| row.map(str::to_owned)), "");
        assert!(
            text.lines().count() >= 3 && text.lines().all(|line| line == line.trim_end()),
            "{text:?}"
        );
    }
}
