//! Built-in tools over the notes in `MEMORY.md`: `memory_read`, `memory_write`.

use claw_tool::json::{Room, fitting_reply_end};
use claw_tool::{ToolError, memory};

/// Arguments of `memory_read`.
#[claw_tool::input]
struct MemoryRead {
    /// Text to look for, whatever its case; only paragraphs that contain it are returned.
    /// Leave it out to read everything.
    #[serde(default)]
    query: Option<String>,
}

/// What was remembered.
#[claw_tool::output]
struct Remembered {
    /// All notes, or the latest, where these are more than a reply holds; present where no query was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// Bytes of all notes, where `content` has only the latest, or of the one paragraph in `matches`, where
    /// that is only its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<usize>,
    /// The query, where one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    /// The paragraphs that contain the query, in the order they were written; the latest of them,
    /// where these are more than a reply holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    matches: Option<Vec<String>>,
    /// How many paragraphs matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<usize>,
}

/// Arguments of `memory_write`.
#[claw_tool::input]
struct MemoryWrite {
    /// The text to remember, as Markdown.
    content: String,
    /// "append" adds a paragraph at the end; "overwrite" replaces everything.
    #[serde(default)]
    mode: Mode,
}

// Plain comments here: variants without documentation make the shortest schema.
#[claw_tool::input]
#[derive(Default, Clone, Copy, claw_tool::serde::Serialize)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Append,
    Overwrite,
}

/// What was written.
#[claw_tool::output]
struct Written {
    /// Bytes the notes have now.
    bytes: usize,
}

fn memory_read(args: &MemoryRead) -> Result<Remembered, ToolError> {
    let notes = memory::load()?;
    Ok(match &args.query {
        None => {
            let told = latest(&notes);
            let size = (told.len() < notes.len()).then_some(notes.len());
            let content = Some(told.to_owned());
            Remembered { content, size, query: None, matches: None, count: None }
        }
        Some(query) => found(&notes, query),
    })
}

/// Returns the end of `notes` that a reply holds: what was remembered last counts most. It begins with a
/// paragraph, or else a line, where that does not cost half of it.
fn latest(notes: &str) -> &str {
    let fits = fitting_reply_end(notes);
    let end = notes.get(notes.len() - fits..).unwrap_or_default();
    if fits == notes.len() {
        return end;
    }
    let behind = |gap: &str| end.split_once(gap).map(|(_, rest)| rest);
    let mut starts = ["\n\n", "\n"].into_iter().filter_map(behind);
    starts.find(|rest| rest.len() * 2 >= fits).unwrap_or(end)
}

fn found(notes: &str, query: &str) -> Remembered {
    let all = memory::search(notes, query);
    let (mut room, mut size) = (Room::default(), None);
    // It is in the reply as well.
    room.takes(&query);
    let mut matches: Vec<_> = all.iter().rev().copied().take_while(|it| room.takes(it)).collect();
    if let (true, Some(last)) = (matches.is_empty(), all.last()) {
        let told = latest(last);
        size = (told.len() < last.len()).then_some(last.len());
        matches.push(told);
    }
    matches.reverse();
    Remembered {
        content: None,
        size,
        query: Some(query.to_owned()),
        count: Some(all.len()),
        matches: Some(matches.into_iter().map(str::to_owned).collect()),
    }
}

fn memory_write(args: &MemoryWrite) -> Result<Written, ToolError> {
    let bytes = match args.mode {
        Mode::Append if args.content.trim().is_empty() => {
            return Err(ToolError::invalid_args("content is blank; there is nothing to remember"));
        }
        Mode::Append => memory::append(&args.content)?,
        Mode::Overwrite => {
            memory::save(&args.content)?;
            args.content.len()
        }
    };
    Ok(Written { bytes })
}

claw_tool::export! {
    /// Reads the notes kept in MEMORY.md across conversations. Give a query to get only the
    /// paragraphs that contain it; without one, all notes are returned. Of more than a reply holds
    /// (about 32 KB) the latest are; a query that fewer paragraphs contain finds earlier ones.
    memory_read [read_only, idempotent, closed_world],
    /// Writes to the notes kept in MEMORY.md across conversations. By default the content is
    /// added as a new paragraph at the end; mode "overwrite" replaces everything.
    memory_write [destructive, closed_world],
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(count: usize) -> String {
        let notes = (0..count).map(|number| format!("note {number} {}", "x".repeat(40)));
        notes.collect::<Vec<_>>().join("\n\n")
    }

    #[test]
    fn of_long_notes_the_latest_are_told_from_a_paragraph_on() {
        assert_eq!(latest("a\n\nb"), "a\n\nb");
        let all = notes(2_000);
        let told = latest(&all);
        assert!(all.ends_with(told) && told.starts_with("note ") && told.len() > 25_000);
        let lines = "a line\n".repeat(20_000);
        assert!(latest(&lines).starts_with("a line\n"));
        let long = format!("{}\n\nlast", "é".repeat(100_000));
        assert!(latest(&long).len() > 20_000, "a short last paragraph is not all");
    }

    #[test]
    fn of_many_paragraphs_that_match_the_latest_are_told_and_all_counted() {
        let few = found(&notes(3), "NOTE 1");
        assert_eq!((few.count, few.matches.unwrap().len()), (Some(1), 1));
        let many = found(&notes(2_000), "note");
        let matches = many.matches.unwrap();
        assert!(matches.len() < 2_000 && matches[0].starts_with("note 1"), "{}", matches.len());
        assert!(matches.last().unwrap().starts_with("note 1999 "));
        assert_eq!(many.count, Some(2_000));
        let long = found(&"y".repeat(100_000), "y");
        assert_eq!((long.count, long.matches.unwrap().len()), (Some(1), 1));
        assert_eq!((long.size, many.size), (Some(100_000), None));
        // A long query takes room of its own.
        let paragraphs = format!("{}\n\n", "z".repeat(3_000)).repeat(20);
        let of = |query: &str| found(&paragraphs, query).matches.unwrap().len();
        assert!(of("z") > of(&"z".repeat(3_000)));
    }
}
