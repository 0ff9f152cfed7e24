//! Notes that outlive a call: `MEMORY.md` in the granted folder.

use crate::error::ToolError;
use crate::fs;

/// Where the notes are, relative to the granted folder.
pub const FILE: &str = "MEMORY.md";

/// The most the notes may hold: what a model can still make use of, and then some.
pub const NOTES_BYTES_MAX: usize = 1_048_576;

/// Reads all notes; there being none yet is not an error.
///
/// # Errors
/// Those of [`fs::read_to_string`], except `file-not-found`.
pub fn load() -> Result<String, ToolError> {
    match fs::read_to_string(FILE) {
        Err(ToolError::FileNotFound(_)) => Ok(String::new()),
        other => other,
    }
}

/// Replaces all notes.
///
/// # Errors
/// Those of [`fs::write`], and `execution-failed` above [`NOTES_BYTES_MAX`].
pub fn save(notes: &str) -> Result<(), ToolError> {
    if notes.len() > NOTES_BYTES_MAX {
        return Err(ToolError::failed(format!(
            "the notes would have {} bytes; the limit is {NOTES_BYTES_MAX}: overwrite them with a shorter version",
            notes.len()
        )));
    }
    fs::write(FILE, notes.as_bytes())
}

/// The paragraphs (parts between blank lines) that hold `query`, whatever its case.
#[must_use]
pub fn search<'a>(notes: &'a str, query: &str) -> Vec<&'a str> {
    let query = query.to_lowercase();
    paragraphs(notes).into_iter().filter(|text| text.to_lowercase().contains(&query)).collect()
}

/// `notes` with `more` as a new paragraph at the end.
#[must_use]
pub fn appended(notes: &str, more: &str) -> String {
    let notes = notes.trim_end();
    if notes.is_empty() { more.to_owned() } else { format!("{notes}\n\n{more}") }
}

fn paragraphs(notes: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    let mut offset = 0;
    for line in notes.split_inclusive('\n') {
        if line.trim().is_empty() {
            found.extend(notes.get(start..offset));
            start = offset + line.len();
        }
        offset += line.len();
    }
    found.extend(notes.get(start..));
    found.into_iter().map(str::trim_end).filter(|text| !text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_finds_whole_paragraphs_whatever_the_case() {
        let notes = "# Tea\nGreen.\n\nCoffee: black\r\n \t\r\nÄpfel\n";
        assert_eq!(search(notes, "GREEN"), ["# Tea\nGreen."]);
        assert_eq!(search(notes, "äPFEL"), ["Äpfel"]);
        assert_eq!(search(notes, "black"), ["Coffee: black"]);
        assert!(search(notes, "milk").is_empty());
        assert!(search("", "").is_empty());
    }

    #[test]
    fn appending_leaves_one_blank_line_between() {
        assert_eq!(appended("", "a"), "a");
        assert_eq!(appended("a\n", "b"), "a\n\nb");
        assert_eq!(appended("a\n\n\n", "b"), "a\n\nb");
    }
}
