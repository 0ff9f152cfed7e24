//! Built-in tools over the notes in `MEMORY.md`: `memory_read`, `memory_write`.

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
    /// All notes; present where no query was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    /// The query, where one was given.
    #[serde(skip_serializing_if = "Option::is_none")]
    query: Option<String>,
    /// The paragraphs that contain the query, in the order they were written.
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
        None => Remembered { content: Some(notes), query: None, matches: None, count: None },
        Some(query) => found(&notes, query),
    })
}

fn found(notes: &str, query: &str) -> Remembered {
    let matches: Vec<_> = memory::search(notes, query).into_iter().map(str::to_owned).collect();
    Remembered {
        content: None,
        query: Some(query.to_owned()),
        count: Some(matches.len()),
        matches: Some(matches),
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
    /// paragraphs that contain it; without one, all notes are returned.
    memory_read [read_only, idempotent, closed_world],
    /// Writes to the notes kept in MEMORY.md across conversations. By default the content is
    /// added as a new paragraph at the end; mode "overwrite" replaces everything.
    memory_write [destructive, closed_world],
}
