//! Built-in tools over the granted folder: `read_file`, `write_file`, `edit_file`,
//! `list_directory`.

mod edit;

use claw_tool::{ToolError, fs};

/// Arguments of `read_file`.
#[claw_tool::input]
struct ReadFile {
    /// The file, relative to the workspace.
    path: String,
}

/// What a file holds.
#[claw_tool::output]
struct FileContent {
    /// The whole text of the file.
    content: String,
}

/// Arguments of `write_file`.
#[claw_tool::input]
struct WriteFile {
    /// The file, relative to the workspace. Missing folders on the way are made.
    path: String,
    /// The whole new content; what was there is replaced.
    content: String,
}

/// What was written.
#[claw_tool::output]
struct Written {
    /// The file, as it was given.
    path: String,
    /// Bytes the file has now.
    bytes: usize,
}

/// Arguments of `edit_file`.
#[claw_tool::input]
struct EditFile {
    /// The file, relative to the workspace.
    path: String,
    /// The text to replace, exactly as it is in the file. It must occur exactly once: include
    /// lines around it until it does.
    old_text: String,
    /// The text to put in its place.
    new_text: String,
}

/// Arguments of `list_directory`.
#[claw_tool::input]
struct ListDirectory {
    /// The directory, relative to the workspace; "." is the workspace itself.
    path: String,
}

/// What a directory holds.
#[claw_tool::output]
struct Listing {
    /// Its immediate children, sorted by name.
    entries: Vec<Entry>,
    /// Present, and true, where there are more entries than could be listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
}

/// One entry of a directory.
#[claw_tool::output]
struct Entry {
    /// Its name, without the directory.
    name: String,
    /// Whether it is a directory.
    is_dir: bool,
    /// Bytes of a file; 0 for a directory.
    size: u64,
}

fn read_file(args: &ReadFile) -> Result<FileContent, ToolError> {
    Ok(FileContent { content: fs::read_to_string(&args.path)? })
}

fn write_file(args: &WriteFile) -> Result<Written, ToolError> {
    fs::write(&args.path, args.content.as_bytes())?;
    Ok(Written { path: args.path.clone(), bytes: args.content.len() })
}

fn edit_file(args: &EditFile) -> Result<Written, ToolError> {
    edit::check(&args.old_text)?;
    let content = fs::read_to_string(&args.path)?;
    let edited = edit::replace_once(&content, &args.old_text, &args.new_text)?;
    fs::write(&args.path, edited.as_bytes())?;
    Ok(Written { path: args.path.clone(), bytes: edited.len() })
}

fn list_directory(args: &ListDirectory) -> Result<Listing, ToolError> {
    let listing = fs::list(&args.path)?;
    let entry = |e: fs::Entry| Entry { name: e.name, is_dir: e.is_dir, size: e.size };
    Ok(Listing {
        entries: listing.entries.into_iter().map(entry).collect(),
        truncated: listing.truncated.then_some(true),
    })
}

claw_tool::export! {
    /// Reads a UTF-8 text file of the workspace and returns its whole content.
    read_file [read_only, idempotent, closed_world],
    /// Writes a text file of the workspace: makes it, with missing folders on the way, or
    /// replaces its whole content. To change part of a file, use edit_file.
    write_file [destructive, idempotent, closed_world],
    /// Replaces one piece of text in a file of the workspace. old_text must occur exactly
    /// once, otherwise nothing is changed and the answer says how often it occurs.
    edit_file [destructive, closed_world],
    /// Lists the immediate children of a directory of the workspace, sorted by name, with
    /// their sizes.
    list_directory [read_only, idempotent, closed_world],
}
