//! `search_files`: names by a pattern, contents by a text or a regular expression.
//!
//! Bounded in entries, bytes and matches, each search says when it ended before the whole was
//! seen. Folders are walked with a list instead of recursion, so that no depth is too deep.

use std::rc::Rc;

use claw_tool::fs::{self, Kind};
use claw_tool::json::Room;
use claw_tool::{ToolError, log};
use regex_lite::{Regex, RegexBuilder};

use crate::glob::{COMPILED_BYTES_MAX, Glob};

/// Entries one search looks at.
const ENTRIES_MAX: usize = 100_000;
/// Bytes one search reads: seconds of work where the text is an expression.
const BYTES_MAX: u64 = 67_108_864;
/// The longest text or expression to look for.
const TEXT_BYTES_MAX: usize = 4_096;
/// A longer line is searched in parts of this size.
const LINE_BYTES_MAX: usize = 1_048_576;
/// Bytes read at once; a zero byte in the first of them means that a file is no text.
const PIECE_BYTES: usize = 65_536;
/// A line is shown up to here.
const SHOWN_CHARS_MAX: usize = 300;

/// Arguments of `search_files`.
#[claw_tool::input]
pub(crate) struct SearchFiles {
    /// The directory to search, relative to the workspace; all below it is searched.
    #[serde(default = "here")]
    path: String,
    /// Only files whose name matches: `*.rs` is about the name, `src/**/*.rs` about the path below
    /// `path`. `*`, `?`, `**`, `[a-z]`, `[!a-z]` and `{a,b}` have their usual meaning.
    #[serde(default)]
    glob: Option<String>,
    /// Text to find in the files, line by line. Without it, files are found by name alone.
    #[serde(default)]
    text: Option<String>,
    /// Whether `text` is a regular expression. It has no look-around and no back-references, and
    /// its classes (`\w`, `\d`) and `ignore_case` are about ASCII.
    #[serde(default)]
    regex: bool,
    /// Whether `text` is found in any case.
    #[serde(default)]
    ignore_case: bool,
    /// Matches to return at most; fewer, where a reply holds no more.
    #[serde(default = "matches_default")]
    #[schemars(range(min = 1, max = 1_000))]
    limit: usize,
}

/// What a search found.
#[claw_tool::output]
pub(crate) struct Found {
    /// Files, or lines of files, in the order of their paths.
    matches: Vec<Match>,
    /// Present where the search ended early: at which bound.
    #[serde(skip_serializing_if = "Option::is_none")]
    incomplete: Option<String>,
    /// Files and folders that could not be read, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<u64>,
}

/// One match.
#[claw_tool::output]
struct Match {
    /// The file, relative to the workspace.
    path: String,
    /// The line, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// The line's text, at most 300 characters of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

fn here() -> String {
    ".".to_owned()
}

const fn matches_default() -> usize {
    100
}

pub(crate) fn search_files(args: &SearchFiles) -> Result<Found, ToolError> {
    let glob = args.glob.as_deref().map(Glob::parse).transpose()?;
    let text = args.text.as_deref().map(|text| Wanted::parse(text, args)).transpose()?.map(Rc::new);
    if glob.is_none() && text.is_none() {
        return Err(ToolError::invalid_args("give a glob, a text, or both"));
    }
    // A folder that is not there is an error; one further down that cannot be read is counted.
    drop(fs::names(&args.path)?);
    let mut search = Search {
        glob,
        text,
        limit: args.limit,
        entries_left: ENTRIES_MAX,
        bytes_left: BYTES_MAX,
        room: Room::default(),
        found: Found { matches: Vec::new(), incomplete: None, unreadable: None },
    };
    search.walk(&args.path);
    Ok(search.found)
}

/// What a line has to hold.
enum Wanted {
    Expression(Regex),
    Text(String),
    /// A text in lower case.
    TextInAnyCase(String),
}

impl Wanted {
    fn parse(text: &str, args: &SearchFiles) -> Result<Self, ToolError> {
        if text.is_empty() || text.len() > TEXT_BYTES_MAX {
            return Err(ToolError::invalid_args("text: give 1 to 4096 bytes to look for"));
        }
        match (args.regex, args.ignore_case) {
            (false, false) => return Ok(Self::Text(text.to_owned())),
            (false, true) => return Ok(Self::TextInAnyCase(text.to_lowercase())),
            (true, _) => {}
        }
        let mut builder = RegexBuilder::new(text);
        builder.case_insensitive(args.ignore_case).size_limit(COMPILED_BYTES_MAX);
        builder.build().map(Self::Expression).map_err(|error| {
            ToolError::invalid_args(format!("text is no expression that can be used: {error}"))
        })
    }

    fn is_in(&self, line: &str) -> bool {
        match self {
            Self::Expression(regex) => regex.is_match(line),
            Self::Text(text) => line.contains(text.as_str()),
            Self::TextInAnyCase(text) => line.to_lowercase().contains(text.as_str()),
        }
    }
}

struct Search {
    glob: Option<Glob>,
    text: Option<Rc<Wanted>>,
    limit: usize,
    entries_left: usize,
    bytes_left: u64,
    room: Room,
    found: Found,
}

impl Search {
    /// Visits everything below `start`, folder by folder in the order of their paths.
    fn walk(&mut self, start: &str) {
        // Paths below `start`, the next one last.
        let mut pending = vec![(String::new(), Kind::Directory)];
        while let Some((below, kind)) = pending.pop() {
            if self.found.incomplete.is_some() {
                return;
            }
            let path = joined(start, &below);
            match kind {
                Kind::Directory => pending.extend(self.folder(&path, &below)),
                Kind::File => self.file(path, &below),
                Kind::Link | Kind::Other => {}
            }
        }
    }

    /// Returns what a folder holds, the first name last.
    fn folder(&mut self, path: &str, below: &str) -> Vec<(String, Kind)> {
        let mut inside = Vec::new();
        let read = fs::names(path).and_then(|mut names| {
            while let Some(name) = names.next_name()? {
                let Some(left) = self.entries_left.checked_sub(1) else {
                    self.ended(format!("more than {ENTRIES_MAX} entries"));
                    break;
                };
                self.entries_left = left;
                inside.push((joined(below, &name.name), name.kind));
            }
            self.unreadable(names.unreadable);
            Ok(())
        });
        if read.is_err() {
            self.unreadable(1);
        }
        inside.sort_unstable_by(|a, b| b.0.cmp(&a.0));
        inside
    }

    fn file(&mut self, path: String, below: &str) {
        if self.glob.as_ref().is_some_and(|glob| !glob.matches(below)) {
            return;
        }
        let Some(text) = self.text.clone() else {
            return self.matched(Match { path, line: None, text: None });
        };
        if let Err(why) = self.contents(&path, &text) {
            log::debug(&format!("{path:?} was not searched: {why:?}"));
            self.unreadable(1);
        }
    }

    /// Searches one file, piece by piece.
    fn contents(&mut self, path: &str, text: &Wanted) -> Result<(), ToolError> {
        let file = fs::open(path)?;
        let mut lines = Lines::default();
        let mut offset = 0;
        while self.found.incomplete.is_none() {
            if self.bytes_left == 0 {
                self.ended(format!("more than {BYTES_MAX} bytes"));
                break;
            }
            let piece = file.read_at(offset, PIECE_BYTES)?;
            let is_binary = offset == 0 && piece.contains(&0);
            let ends = piece.len() < PIECE_BYTES;
            offset = offset.saturating_add(piece.len() as u64);
            self.bytes_left = self.bytes_left.saturating_sub(piece.len() as u64);
            if is_binary {
                break;
            }
            lines.take(&piece, ends, |number, line| {
                let line = String::from_utf8_lossy(line);
                let line = line.trim_end_matches('\r');
                if self.found.incomplete.is_none() && text.is_in(line) {
                    let text = Some(line.chars().take(SHOWN_CHARS_MAX).collect());
                    self.matched(Match { path: path.to_owned(), line: Some(number), text });
                }
            });
            if ends {
                break;
            }
        }
        Ok(())
    }

    fn matched(&mut self, found: Match) {
        if self.found.matches.len() == self.limit {
            return self.ended(format!("more than {} matches", self.limit));
        }
        if !self.room.takes(&found) {
            return self.ended("more matches than a reply holds".to_owned());
        }
        self.found.matches.push(found);
    }

    fn ended(&mut self, why: String) {
        self.found.incomplete.get_or_insert(why);
    }

    fn unreadable(&mut self, count: u64) {
        if count > 0 {
            *self.found.unreadable.get_or_insert(0) += count;
        }
    }
}

/// `below` as a path from where `start` is; a `.` is not written out.
fn joined(start: &str, below: &str) -> String {
    let start = start.trim_end_matches('/');
    match (start, below) {
        (start, "") => start.to_owned(),
        ("" | ".", below) => below.to_owned(),
        (start, below) => format!("{start}/{below}"),
    }
}

/// Splits pieces of a file into its lines, and counts them.
#[derive(Default)]
struct Lines {
    /// The beginning of a line whose end was not seen yet.
    open: Vec<u8>,
    ended: u64,
}

impl Lines {
    /// Calls `visit` for each line that `piece` ends; for what is left too, where it is the last.
    fn take(&mut self, piece: &[u8], is_last: bool, mut visit: impl FnMut(u64, &[u8])) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            let number = self.ended + 1;
            let Some(line) = part.strip_suffix(b"\n") else {
                self.open.extend_from_slice(part);
                if self.open.len() >= LINE_BYTES_MAX {
                    visit(number, &self.open);
                    self.open.clear();
                }
                continue;
            };
            if self.open.is_empty() {
                visit(number, line);
            } else {
                self.open.extend_from_slice(line);
                visit(number, &self.open);
                self.open.clear();
            }
            self.ended = number;
        }
        if is_last && !self.open.is_empty() {
            visit(self.ended + 1, &self.open);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_a_file_is_cut() {
        let whole = b"one\n\ntwo\r\nthree";
        for size in 1..=whole.len() {
            let (mut lines, mut seen) = (Lines::default(), Vec::new());
            let mut pieces = whole.chunks(size).peekable();
            while let Some(piece) = pieces.next() {
                lines.take(piece, pieces.peek().is_none(), |number, line| {
                    seen.push((number, line.to_vec()));
                });
            }
            let expected: [(u64, &[u8]); 4] = [(1, b"one"), (2, b""), (3, b"two\r"), (4, b"three")];
            assert_eq!(seen, expected.map(|(n, line)| (n, line.to_vec())), "{size}");
        }
    }

    #[test]
    fn an_endless_line_is_held_in_parts() {
        let (mut lines, mut parts) = (Lines::default(), 0);
        for _ in 0..64 {
            lines.take(&[b'a'; PIECE_BYTES], false, |number, line| {
                assert_eq!(number, 1);
                assert!(line.len() < LINE_BYTES_MAX + PIECE_BYTES);
                parts += 1;
            });
        }
        assert_eq!(parts, 4);
    }

    #[test]
    fn paths_are_told_from_the_workspace() {
        for (start, below, path) in [
            (".", "", "."),
            (".", "a/b", "a/b"),
            ("src", "", "src"),
            ("src/", "a", "src/a"),
            ("", "a", "a"),
        ] {
            assert_eq!(joined(start, below), path);
        }
    }

    fn args(text: &str, regex: bool) -> SearchFiles {
        SearchFiles {
            path: here(),
            glob: None,
            text: Some(text.to_owned()),
            regex,
            ignore_case: true,
            limit: 1,
        }
    }

    #[test]
    fn a_text_is_taken_as_it_is_and_an_expression_as_one() {
        let is_in = |text: &str, regex, line| {
            Wanted::parse(text, &args(text, regex)).is_ok_and(|wanted| wanted.is_in(line))
        };
        assert!(is_in("a.b", false, "xA.By") && is_in("ÄB", false, "äb"));
        assert!(!is_in("a.b", false, "acb"));
        assert!(is_in("^a.b$", true, "aCb") && !is_in("^a.b$", true, "xacb"));
        for bad in ["(", r"\1", "(?=a)", &"x".repeat(5_000)] {
            assert!(Wanted::parse(bad, &args(bad, true)).is_err(), "{bad}");
        }
    }

    #[test]
    fn f32_expression_bombs_are_refused_or_match_in_linear_time() {
        for bomb in
            ["(a+)+$", "(a|a)*$", "(a|aa)+b", "(.*)*x", r"\w{50000}", "((a{100}){100}){100}"]
        {
            if let Ok(wanted) = Wanted::parse(bomb, &args(bomb, true)) {
                wanted.is_in(&"a".repeat(20_000));
            }
        }
    }
}
