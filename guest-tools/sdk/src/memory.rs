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
    require_size(notes.len())?;
    fs::write(FILE, notes.as_bytes())
}

/// Adds a paragraph at the end, and returns how many bytes there are now. Paragraphs that other
/// calls add at the same time stay, each by itself.
///
/// # Errors
/// Those of [`load`] and [`fs::append`], and `execution-failed` above [`NOTES_BYTES_MAX`].
pub fn append(paragraph: &str) -> Result<usize, ToolError> {
    let notes = load()?;
    let added = added(&notes, paragraph);
    let bytes = notes.len() + added.len();
    require_size(bytes)?;
    fs::append(FILE, added.as_bytes())?;
    Ok(bytes)
}

fn require_size(bytes: usize) -> Result<(), ToolError> {
    if bytes <= NOTES_BYTES_MAX {
        return Ok(());
    }
    Err(ToolError::failed(format!(
        "the notes would have {bytes} bytes; the limit is {NOTES_BYTES_MAX}: overwrite them with a shorter version"
    )))
}

/// What is written for a paragraph. It ends with a blank line too: another call may have seen the same `notes`, and
/// what that one adds comes right after.
fn added(notes: &str, paragraph: &str) -> String {
    format!("{}{paragraph}{}", gap_after(notes), gap_after(paragraph))
}

/// What makes one blank line between `notes` and more, where there is none yet.
fn gap_after(notes: &str) -> &'static str {
    match notes {
        "" => "",
        _ if notes.ends_with("\n\n") => "",
        _ if notes.ends_with('\n') => "\n",
        _ => "\n\n",
    }
}

/// The paragraphs (parts between blank lines) that hold `query`, whatever its case.
#[must_use]
pub fn search<'a>(notes: &'a str, query: &str) -> Vec<&'a str> {
    let query = query.to_lowercase();
    paragraphs(notes).into_iter().filter(|text| text.to_lowercase().contains(&query)).collect()
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
    fn paragraphs_that_are_added_to_the_same_notes_at_once_stay_two() {
        for notes in ["", "a", "a\n", "a\n\n"] {
            let both = ["b", "c\n"].map(|paragraph| added(notes, paragraph)).concat();
            let all = format!("{notes}{both}");
            assert!(paragraphs(&all).ends_with(&["b", "c"]), "{all:?}");
        }
    }

    #[test]
    fn a_paragraph_begins_after_a_blank_line() {
        let after = ["", "a", "a\n", "a\n\n"].map(|notes| format!("{notes}{}b", gap_after(notes)));
        assert_eq!(after, ["b", "a\n\nb", "a\n\nb", "a\n\nb"]);
    }
}
