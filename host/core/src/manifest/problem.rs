//! What is wrong with a document: where, why, and what would be right.
//!
//! A reader never stops at the first problem: it reports and goes on, so that one run shows
//! all there is to mend.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;

use super::node::Place;
use crate::limits::MANIFEST_PATTERNS_BYTES_MAX;
use crate::visible;

/// One problem of one document.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DocumentError {
    /// The protocol's code: -32060 for an invalid document, -32061 for something not found.
    pub code: i32,
    /// The document, as it was named on the way in.
    pub file: String,
    /// Line of the offending key or value, from 1; 1 where the document has no such place.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, in one line.
    pub reason: String,
    /// What would be right, where that is known.
    pub help: Option<String>,
    #[serde(skip)]
    at: Place,
}

/// The document is not what the protocol allows.
pub const MANIFEST_INVALID: i32 = -32060;
/// The document refers to something that does not exist.
pub const PRIMITIVE_NOT_FOUND: i32 = -32061;

/// JSON-RPC's own code for parameters that do not fit.
pub(crate) const INVALID_PARAMS: i32 = -32602;

impl DocumentError {
    pub(crate) fn new(
        at: &Place,
        code: i32,
        reason: impl Into<String>,
        help: impl Into<String>,
    ) -> Self {
        let (file, at) = (at.source.file.to_string(), at.clone());
        // Both may quote a document, or what a server says.
        let (reason, help) = (visible::line(&reason.into()), Some(visible::line(&help.into())));
        Self { code, file, line: at.line, column: at.column, reason, help, at }
    }

    /// Returns it without the text around it: there may be a secret in that.
    #[must_use]
    pub(crate) fn hidden(self) -> Self {
        Self { at: self.at.hidden(), ..self }
    }

    /// Returns it as one of `file`, which was read in place of its own.
    #[must_use]
    pub fn in_file(self, file: &Path) -> Self {
        let source = Source::new(file, &self.at.source.text);
        Self { file: source.file.clone(), at: Place { source, ..self.at }, ..self }
    }

    /// Returns the problem as one line: `file:line:column: reason (help)`.
    pub fn one_line(&self) -> String {
        let help = self.help.as_ref().map(|help| format!(" ({help})")).unwrap_or_default();
        format!("{}:{}:{}: {}{help}", self.file, self.line, self.column, self.reason)
    }

    /// Returns the document that it is in.
    pub(super) fn source(&self) -> &Source {
        &self.at.source
    }

    /// Returns where it begins in the text of its document and how long it is, which is to the end of its line
    /// at most: a mapping's own span is its whole body.
    pub(super) fn span(&self) -> (usize, usize) {
        let (text, at) = (&self.at.source.text, &self.at);
        let begin = text.floor_char_boundary(at.offset_bytes);
        let end = text.floor_char_boundary(begin.saturating_add(at.len_bytes));
        let span = text.get(begin..end).unwrap_or_default();
        (begin, span.lines().next().unwrap_or_default().trim_end().len())
    }

    /// Returns a problem of `file` as a whole: it could not be read, say.
    pub fn whole_file(file: &Path, reason: impl Into<String>, help: Option<&str>) -> Self {
        let at = Place::start(&Source::new(file, ""));
        let whole = Self::new(&at, MANIFEST_INVALID, reason, "");
        Self { help: help.map(visible::line), ..whole }
    }
}

impl fmt::Display for DocumentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

impl std::error::Error for DocumentError {}

/// A document's name and text, shared by all that was read from it.
#[derive(Debug, PartialEq, Eq, Default)]
pub(crate) struct Source {
    pub(crate) file: String,
    pub(crate) text: String,
    /// It is a variable, which has no text around it.
    pub(crate) is_variable: bool,
}

impl Source {
    pub(crate) fn variable(name: &str) -> Arc<Self> {
        Arc::new(Self { file: visible::line(name), is_variable: true, ..Self::default() })
    }

    pub(crate) fn new(file: &Path, text: &str) -> Arc<Self> {
        // A file may be called anything, a line of another problem too.
        let file = visible::line(&file.display().to_string());
        Arc::new(Self { file, text: text.to_owned(), is_variable: false })
    }
}

impl Place {
    /// Returns the problem that what stands here is not what this host allows.
    pub(crate) fn invalid(
        &self,
        reason: impl Into<String>,
        help: impl Into<String>,
    ) -> DocumentError {
        DocumentError::new(self, MANIFEST_INVALID, reason, help)
    }

    /// Returns the problem that what stands here refers to something that does not exist.
    pub(crate) fn missing(
        &self,
        reason: impl Into<String>,
        help: impl Into<String>,
    ) -> DocumentError {
        DocumentError::new(self, PRIMITIVE_NOT_FOUND, reason, help)
    }
}

/// Collects the problems of one load.
#[derive(Debug)]
pub(crate) struct Problems {
    list: Vec<DocumentError>,
    /// Bytes that the patterns of documents may still compile to: how long a load may take.
    pub(crate) pattern_bytes_left: u64,
}

impl Default for Problems {
    fn default() -> Self {
        Self { list: Vec::new(), pattern_bytes_left: MANIFEST_PATTERNS_BYTES_MAX }
    }
}

/// More problems than this help nobody, and a hostile document could make millions.
const PROBLEMS_SHOWN_MAX: usize = 100;
/// What is wrong, or would be right, in one problem: it may name all that is possible.
const PROBLEM_TEXT_BYTES_MAX: usize = 1_024;

impl Problems {
    /// Reports that what stands at `at` is not what the protocol (or this host) allows.
    pub(crate) fn invalid(
        &mut self,
        at: &Place,
        reason: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.push(at.invalid(reason, help));
    }

    /// Reports that what stands at `at` refers to something that does not exist.
    pub(crate) fn missing(
        &mut self,
        at: &Place,
        reason: impl Into<String>,
        help: impl Into<String>,
    ) {
        self.push(at.missing(reason, help));
    }

    /// Reports a wrong address, which is not shown where there may be a password in it.
    pub(crate) fn url(&mut self, at: &Place, text: &str, reason: String, help: String) {
        let at = if text.contains('@') { &at.hidden() } else { at };
        self.invalid(at, reason, help);
    }

    pub(crate) fn push(&mut self, mut problem: DocumentError) {
        if !self.is_full() {
            cut(&mut problem.reason);
            problem.help.iter_mut().for_each(cut);
            self.list.push(problem);
        }
    }

    /// Says that no problem is taken any more: looking for others is of no use.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= PROBLEMS_SHOWN_MAX
    }

    /// Says that nothing was reported since there were `before` problems, though it could be.
    pub(crate) fn none_since(&self, before: usize) -> bool {
        self.count() == before && !self.is_full()
    }

    pub(crate) fn count(&self) -> usize {
        self.list.len()
    }

    /// Returns `value` if nothing was reported, else all problems: file by file in the order in
    /// which they were met, and from top to bottom in each.
    pub(crate) fn finish<T>(mut self, value: Option<T>) -> Result<T, Vec<DocumentError>> {
        match value {
            Some(value) if self.list.is_empty() => Ok(value),
            _ => {
                self.sort();
                let last = self.list.last().filter(|_| self.is_full());
                let more = last.map(|last| there_may_be_more(&last.file));
                self.list.extend(more);
                Err(self.list)
            }
        }
    }

    fn sort(&mut self) {
        let mut files: Vec<String> = Vec::new();
        for problem in &self.list {
            if !files.contains(&problem.file) {
                files.push(problem.file.clone());
            }
        }
        let rank = |problem: &DocumentError| files.iter().position(|file| *file == problem.file);
        self.list.sort_by_key(|problem| (rank(problem), problem.line, problem.column));
    }
}

fn there_may_be_more(file: &str) -> DocumentError {
    let reason = format!("only the first {PROBLEMS_SHOWN_MAX} problems are shown");
    DocumentError::whole_file(Path::new(file), reason, Some("mend these: there may be more"))
}

/// Bounds a text that is shown, and ends up in replies.
pub(crate) fn cut(text: &mut String) {
    if text.len() > PROBLEM_TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(PROBLEM_TEXT_BYTES_MAX));
        text.push('…');
    }
}

/// Says why a file could not be read.
pub(crate) fn why(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
        _ => error.to_string(),
    }
}

/// Returns the one of `known` that `wrong` is probably a misspelling of.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const COMPARED_CHARS_MAX: usize = 64;
    let short = |text: &str| -> String {
        text.chars().take(COMPARED_CHARS_MAX).flat_map(char::to_lowercase).collect()
    };
    let limit = (wrong.chars().count() / 3).clamp(1, 3);
    known
        .into_iter()
        .map(|candidate| (strsim::levenshtein(&short(wrong), &short(candidate)), candidate))
        .filter(|(distance, known)| {
            // What has only its unit left out is meant as well.
            *distance <= limit || (wrong.len() > limit + 1 && known.starts_with(wrong))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns "did you mean …?" and the whole list, as a help text.
pub(crate) fn choices<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    // Nobody is told to write an empty value, which is to leave the key out.
    let mut list: Vec<&str> = known.into_iter().filter(|one| !one.is_empty()).collect();
    let meant = nearest(wrong, list.iter().copied());
    list.dedup_by(|one, other| one.eq_ignore_ascii_case(other));
    if let [only] = list.as_slice() {
        return format!("write `{only}`");
    }
    let list = list.join(", ");
    match meant {
        Some(right) => format!("did you mean `{right}`? possible here: {list}"),
        None if list.is_empty() => "nothing is possible here".to_owned(),
        None => format!("write one of: {list}"),
    }
}

/// How many names are shown of many that are possible.
const NEAR_SHOWN_MAX: usize = 5;

/// As [`choices`], with the nearest few of many tools' names.
pub(crate) fn near<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str> + Clone) -> String {
    let mut list: Vec<&str> = known.clone().into_iter().collect();
    list.sort_by_key(|name| (strsim::levenshtein(wrong, name), *name));
    list.dedup();
    list.truncate(NEAR_SHOWN_MAX);
    let meant = nearest(wrong, known).map(|right| format!("did you mean `{right}`? "));
    let meant = meant.unwrap_or_default();
    format!("{meant}the nearest are: {}; `clawhost tools` lists all", list.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_files_name_forges_no_line() {
        let source = Source::new(Path::new("a\n\tclaw.yaml:1:1: fine"), "");
        let line = DocumentError::new(&Place::start(&source), 0, "wrong", "mend it").one_line();
        assert_eq!(line, "a\\u{a}\\u{9}claw.yaml:1:1: fine:1:1: wrong (mend it)");
    }

    #[test]
    fn problems_are_bounded_in_number_and_length_and_the_last_says_so() {
        let mut problems = Problems::default();
        let source = Source::new(Path::new("t.yaml"), "");
        for _ in 0..PROBLEMS_SHOWN_MAX + 50 {
            problems.invalid(&Place::start(&source), "é".repeat(5_000), "é".repeat(5_000));
        }
        assert!(!problems.none_since(problems.count()));
        let list = problems.finish(Some(())).unwrap_err();
        assert_eq!(list.len(), PROBLEMS_SHOWN_MAX + 1);
        assert!(list.last().unwrap().reason.starts_with("only the first 100 problems"));
        assert!(list.iter().all(|problem| problem.one_line().len() < 3_000));
    }

    #[test]
    fn a_misspelling_is_recognised_and_a_stranger_is_not() {
        let known = ["description", "input_schema", "timeout_ms"];
        assert_eq!(nearest("descripton", known), Some("description"));
        assert_eq!(nearest("timeoutms", known), Some("timeout_ms"));
        assert_eq!(nearest("timeout", known), Some("timeout_ms"));
        assert_eq!(nearest("colour", known), None);
    }

    #[test]
    fn an_empty_value_is_no_choice() {
        assert_eq!(choices("xml", ["", "json"]), "write `json`");
        assert_eq!(choices("x", ["", "http", "pipe"]), "write one of: http, pipe");
        assert_eq!(
            choices("pip", ["", "http", "pipe"]),
            "did you mean `pipe`? possible here: http, pipe"
        );
    }
}
