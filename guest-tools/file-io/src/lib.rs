//! Built-in tools over the granted folder: `read_file`, `write_file`, `edit_file`,
//! `list_directory`, `search_files`, `apply_patch`.

mod edit;
mod glob;
mod page;
mod patch;
mod search;

use claw_tool::json::Room;
use claw_tool::{ToolError, fs};

/// Entries of a directory that one call looks at: no reply holds as many.
const ENTRIES_MAX: usize = 1_000;

/// Arguments of `read_file`.
#[claw_tool::input]
struct ReadFile {
    /// The file, relative to the workspace.
    path: String,
    /// The byte to start at: 0, or the next_offset of the piece before.
    #[serde(default)]
    offset: u64,
    /// Bytes to read at most; 0, like any number above it, means as much as a reply holds: 32500
    /// bytes, and fewer where many have to be escaped.
    #[serde(default)]
    limit: u64,
}

/// What a file holds.
#[claw_tool::output]
struct FileContent {
    /// The text of the file, or of the piece that was asked for.
    content: String,
    /// Present where the file goes on: the offset of the next piece.
    #[serde(skip_serializing_if = "Option::is_none")]
    next_offset: Option<u64>,
    /// Bytes of the whole file, where it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
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
    /// Leave out names up to and including this one: the last name of the page before.
    #[serde(default)]
    after: Option<String>,
    /// Entries to return at most; fewer, where a reply holds no more.
    #[serde(default = "entries_default")]
    #[schemars(range(min = 1, max = 10_000))]
    limit: usize,
}

/// What a directory holds.
#[claw_tool::output]
struct Listing {
    /// Its immediate children, sorted by name.
    entries: Vec<Entry>,
    /// Present, and true, where more names come after these: ask again with `after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
    /// Entries of the whole directory, where these are not all.
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<u64>,
    /// Entries whose names are not UTF-8 and cannot be shown, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    unreadable: Option<u64>,
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
    let limit = page::limit(args.limit)?;
    let file = fs::open(&args.path)?;
    let bytes = file.read_at(args.offset, limit)?;
    let page = page::cut(&args.path, bytes, args.offset, file.size)?;
    let next_offset = (page.next < file.size).then_some(page.next);
    Ok(FileContent { content: page.text, next_offset, size: next_offset.map(|_| file.size) })
}

fn write_file(args: &WriteFile) -> Result<Written, ToolError> {
    // An edit that has read the file would write over this.
    let _held = fs::hold([args.path.as_str()])?;
    fs::write(&args.path, args.content.as_bytes())?;
    Ok(Written { path: args.path.clone(), bytes: args.content.len() })
}

fn edit_file(args: &EditFile) -> Result<Written, ToolError> {
    edit::check(&args.old_text)?;
    let held = fs::hold([args.path.as_str()])?;
    let content = fs::read_to_string(&args.path)?;
    let edited = edit::replace_once(&content, &args.old_text, &args.new_text)?;
    fs::replace(&held, &args.path, content.as_bytes(), edited.as_bytes())?;
    Ok(Written { path: args.path.clone(), bytes: edited.len() })
}

fn entries_default() -> usize {
    fs::ENTRIES_MAX
}

fn list_directory(args: &ListDirectory) -> Result<Listing, ToolError> {
    let listing = fs::list(&args.path, args.after.as_deref(), args.limit.min(ENTRIES_MAX))?;
    let entry = |e: fs::Entry| Entry { name: e.name, is_dir: e.is_dir, size: e.size };
    let (mut room, found) = (Room::default(), listing.entries.len());
    let entries = listing.entries.into_iter().map(entry);
    let entries: Vec<_> = entries.take_while(|entry| room.takes(entry)).collect();
    let more = listing.more || entries.len() < found;
    Ok(Listing {
        entries,
        truncated: more.then_some(true),
        total: more.then_some(listing.total),
        unreadable: (listing.unreadable > 0).then_some(listing.unreadable),
    })
}

use patch::apply_patch;
use search::search_files;

claw_tool::export! {
    /// Reads a UTF-8 text file of the workspace and returns its whole content; of a file that is
    /// longer than a reply (about 32 KB), one piece and, as `next_offset`, where the next one
    /// begins.
    read_file [read_only, idempotent, closed_world],
    /// Writes a text file of the workspace: makes it, with missing folders on the way, or
    /// replaces its whole content. To change part of a file, use edit_file.
    write_file [destructive, idempotent, closed_world],
    /// Replaces one piece of text in a file of the workspace. old_text must occur exactly
    /// once, otherwise nothing is changed and the answer says how often it occurs.
    edit_file [destructive, closed_world],
    /// Lists the immediate children of a directory of the workspace, sorted by name, with
    /// their sizes. A large directory comes in pages: `after` is the last name of the page
    /// before.
    list_directory [read_only, idempotent, closed_world],
    /// Searches the files below a directory of the workspace: names by a glob pattern, contents
    /// line by line for a text or a regular expression. Symbolic links are not followed, and
    /// files with a zero byte near their beginning are not searched.
    search_files [read_only, idempotent, closed_world],
    /// Applies a unified diff to files of the workspace, all of it or nothing: changes files,
    /// makes new ones (from /dev/null) and removes others (to /dev/null). A hunk is looked for
    /// by its lines: where its line numbers are wrong, its lines must occur exactly once.
    apply_patch [destructive, closed_world],
}
