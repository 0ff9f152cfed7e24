//! JSON files of other programs, such as the configuration of a client.
//!
//! Deliberately absent: what the protocol says of documents, as they are none; and their text in
//! what is told of them, as there may be credentials in it.

use serde_json::Value;

use crate::json::{self, JsonError, Stop};
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::manifest::node::{no_text, slip};

/// What is wrong with such a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct ForeignError {
    /// Line and column in characters, from 1; nothing where it is the whole file.
    pub at: Option<(usize, usize)>,
    /// What is wrong, in one line.
    pub reason: String,
    /// What would be right.
    pub help: &'static str,
}

/// Reads such a file, strictly.
///
/// # Errors
/// What is wrong with it, where, and what would be right.
pub fn read_json(bytes: &[u8]) -> Result<Value, ForeignError> {
    let whole = |reason: String, help| ForeignError { at: None, reason, help };
    if bytes.len() > DOCUMENT_BYTES_MAX {
        let reason = format!("the file has more than {DOCUMENT_BYTES_MAX} bytes");
        return Err(whole(reason, COPY_THE_PART));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(bytes, error))?;
    // Editors of Windows begin files with a byte order mark, which changes nothing of what is meant.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(whole("the file is empty".to_owned(), "name another file"));
    }
    json::parse(text.as_bytes()).map_err(|error| match error {
        JsonError::Ambiguous(stop) => {
            problem(text, &stop, "ambiguous JSON", "delete one: which is meant is not clear")
        }
        JsonError::Bound(stop) => problem(text, &stop, "this JSON is not read", COPY_THE_PART),
        JsonError::Syntax(stop) => {
            problem(text, &stop, "this is not JSON", mend(&stop, line(text, &stop)))
        }
        JsonError::Encoding => whole(error.to_string(), SAVE_AS_UTF8),
    })
}

const COPY_THE_PART: &str = "copy the part that is meant into a file of its own";
const SAVE_AS_UTF8: &str = "save the file as UTF-8";

fn not_utf8(bytes: &[u8], error: std::str::Utf8Error) -> ForeignError {
    let (line, column, reason) = no_text(bytes, error);
    ForeignError { at: Some((line, column)), reason, help: SAVE_AS_UTF8 }
}

fn line<'t>(text: &'t str, stop: &Stop) -> &'t str {
    text.lines().nth(stop.line.saturating_sub(1)).unwrap_or_default()
}

fn problem(text: &str, stop: &Stop, what: &str, help: &'static str) -> ForeignError {
    let line = line(text, stop);
    let before = line.floor_char_boundary(stop.column.saturating_sub(1));
    let column = line.get(..before).unwrap_or_default().chars().count() + 1;
    ForeignError { at: Some((stop.line, column)), reason: format!("{what}: {}", stop.reason), help }
}

/// Says what would be right.
fn mend(stop: &Stop, line: &str) -> &'static str {
    match stop.reason.as_str() {
        "expected value" if (stop.line, stop.column) == (1, 1) => {
            "name a JSON file: it begins with `{`"
        }
        "trailing comma" => "take the comma before this bracket out",
        reason if reason.starts_with("EOF") => "its end is missing: close every quote and bracket",
        _ => slip(line, true)
            .unwrap_or("look at the quotes, commas and brackets of this line and the one before"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_json_is_told_with_its_place_and_what_would_be_right() {
        for (text, place, reason, help) in [
            ("{\n  \"é\": 1,\n}", (3, 1), "trailing comma", "take the comma"),
            ("[1,]", (1, 4), "trailing comma", "take the comma"),
            ("claw: 1", (1, 1), "expected value", "begins with"),
            ("{\"a\": x}", (1, 7), "expected value", "commas"),
            ("{\n  // why\n}", (2, 3), "key must be a string", "no comments"),
            ("{\"é\": 1 \"b\": 2}", (1, 9), "expected `,` or `}`", "commas"),
            ("{\"a\": [1", (1, 8), "EOF while parsing a list", "end is missing"),
            ("{\"a\": 1", (1, 7), "EOF while parsing an object", "end is missing"),
            ("{\"a\": \"b", (1, 8), "EOF while parsing a string", "end is missing"),
            ("{\"a\":", (1, 5), "EOF while parsing a value", "end is missing"),
        ] {
            let error = read_json(text.as_bytes()).unwrap_err();
            assert_eq!(error.at, Some(place), "{text}");
            assert_eq!(error.reason, format!("this is not JSON: {reason}"));
            assert!(error.help.contains(help), "{text}: {}", error.help);
        }
    }

    #[test]
    fn what_is_no_text_or_not_clear_is_refused_and_a_mark_of_the_byte_order_is_not() {
        assert!(read_json("\u{feff}{}".as_bytes()).is_ok());
        for (bytes, at, reason) in [
            (
                "{\"a\": 1,\n \"a\": 2}".as_bytes(),
                Some((2, 4)),
                "ambiguous JSON: duplicate key \"a\"",
            ),
            (b"{\n\xff", Some((2, 1)), "line 2 is not UTF-8 text from character 1 on"),
            (b"", None, "the file is empty"),
            (
                &[b' '; DOCUMENT_BYTES_MAX + 1],
                None,
                &format!("the file has more than {DOCUMENT_BYTES_MAX} bytes"),
            ),
        ] {
            let error = read_json(bytes).unwrap_err();
            assert_eq!((error.at, &*error.reason), (at, reason));
        }
    }
}
