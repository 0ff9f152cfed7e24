//! JSON files that are none of this host's documents, such as the configuration of a client.
//!
//! Their text is never shown: there may be credentials in it.

use std::path::Path;

use serde_json::Value;

use super::Place;
use super::parse::{not_utf8, slip};
use crate::json::{self, JsonError, Stop};
use crate::limits::DOCUMENT_BYTES_MAX;
use crate::manifest::problem::{DocumentError, MANIFEST_INVALID, Source};

/// Reads a JSON file, strictly.
///
/// # Errors
/// What is wrong with it, where, and what would be right.
pub fn read_json(file: &Path, bytes: &[u8]) -> Result<Value, Box<DocumentError>> {
    let whole = |reason: String, help| DocumentError::whole_file(file, reason, Some(help));
    if bytes.len() > DOCUMENT_BYTES_MAX {
        let reason = format!("the file has more than {DOCUMENT_BYTES_MAX} bytes");
        return Err(Box::new(whole(reason, "copy the part that is meant into a file of its own")));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| not_utf8(file, bytes, error))?;
    // Editors of Windows begin files with a byte order mark, which changes nothing of what is meant.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim().is_empty() {
        return Err(Box::new(whole("the file is empty".to_owned(), "name another file")));
    }
    json::parse(text.as_bytes()).map_err(|error| {
        Box::new(match error {
            JsonError::Ambiguous(stop) => problem(
                file,
                text,
                &stop,
                "ambiguous JSON",
                "delete one: which is meant is not clear",
            ),
            JsonError::Syntax(stop) => {
                problem(file, text, &stop, "this is not JSON", mend(&stop, line(text, &stop)))
            }
            JsonError::Encoding => whole(error.to_string(), "save the file as UTF-8"),
        })
    })
}

fn line<'t>(text: &'t str, stop: &Stop) -> &'t str {
    text.lines().nth(stop.line.saturating_sub(1)).unwrap_or_default()
}

fn problem(file: &Path, text: &str, stop: &Stop, what: &str, help: &str) -> DocumentError {
    let line = line(text, stop);
    let before = line.floor_char_boundary(stop.column.saturating_sub(1));
    let column = line.get(..before).unwrap_or_default().chars().count() + 1;
    let at = Place { line: stop.line, column, ..Place::start(&Source::new(file, "")) };
    DocumentError::new(&at, MANIFEST_INVALID, format!("{what}: {}", stop.reason), help)
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
    fn what_is_no_json_is_told_with_its_place_and_what_would_be_right_and_is_not_shown() {
        for (text, place, reason, help) in [
            ("", (1, 1), "the file is empty", "name another"),
            ("{\n  \"é\": 1,\n}", (3, 1), "this is not JSON: trailing comma", "take the comma"),
            ("claw: 1", (1, 1), "this is not JSON: expected value", "begins with"),
            ("{\n  // why\n}", (2, 3), "this is not JSON: key must be a string", "no comments"),
            ("{\"é\": 1 \"b\": 2}", (1, 9), "this is not JSON: expected `,` or `}`", "commas"),
            ("{\"a\": [1", (1, 8), "this is not JSON: EOF while parsing a list", "end is missing"),
            ("{\"a\": 1,\n \"a\": 2}", (2, 4), "ambiguous JSON: duplicate key \"a\"", "delete one"),
        ] {
            let error = read_json(Path::new("x.json"), text.as_bytes()).unwrap_err();
            assert_eq!((error.line, error.column), place, "{text}: {}", error.one_line());
            assert_eq!((&*error.file, &*error.reason), ("x.json", reason));
            assert!(error.help.as_ref().unwrap().contains(help), "{}", error.one_line());
            assert!(miette::Diagnostic::source_code(&*error).is_none());
        }
        assert!(read_json(Path::new("x.json"), "\u{feff}{}".as_bytes()).is_ok());
        let error = read_json(Path::new("x.json"), b"{\n\xff").unwrap_err();
        assert_eq!(
            (error.line, &*error.reason),
            (2, "line 2 is not UTF-8 text from character 1 on")
        );
        let error = read_json(Path::new("x.json"), &[b' '; DOCUMENT_BYTES_MAX + 1]).unwrap_err();
        assert!(error.reason.contains("more than"), "{}", error.reason);
    }
}
