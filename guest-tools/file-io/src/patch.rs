//! `apply_patch`: a unified diff of several files, applied as a whole or not at all.
//!
//! The files are named beside the diff as well, so that rules about paths see them. Numbers of
//! lines are hints: what a hunk takes away has to be there, at that line or exactly once.
//!
//! Deliberately absent: renames, modes and binary patches of git, and fuzz.

mod apply;
mod parse;

use std::collections::BTreeSet;

use claw_tool::{ToolError, fs};
use parse::FilePatch;

/// Files one patch may change.
const FILES_MAX: usize = 100;
/// Bytes of all files of one patch, before and after: each is held in memory until all are known.
const BYTES_MAX: usize = 16_777_216;

/// Arguments of `apply_patch`.
#[claw_tool::input]
pub(crate) struct ApplyPatch {
    /// Every file that the patch names, relative to the workspace.
    paths: Vec<String>,
    /// The patch as a unified diff: `--- a/old`, `+++ b/new`, `@@ -1,3 +1,4 @@`, and lines that
    /// start with a space, `-` or `+`. `/dev/null` stands for a file that is not there.
    patch_text: String,
}

/// What was changed.
#[claw_tool::output]
pub(crate) struct Patched {
    /// Each file of the patch, in its order.
    files: Vec<PatchedFile>,
}

/// One file of a patch.
#[claw_tool::output]
struct PatchedFile {
    /// The file.
    path: String,
    /// What became of it.
    change: Done,
    /// Bytes the file has now.
    bytes: usize,
}

/// What became of a file.
#[claw_tool::output]
#[serde(rename_all = "lowercase")]
#[derive(Clone, Copy)]
enum Done {
    /// It was there, and has another content now.
    Changed,
    /// It was made.
    Created,
    /// It was removed.
    Deleted,
}

pub(crate) fn apply_patch(args: &ApplyPatch) -> Result<Patched, ToolError> {
    let patches = parse::parse(&args.patch_text)?;
    check_paths(&patches, &args.paths)?;
    let held = fs::hold(patches.iter().map(|patch| patch.path))?;
    let mut bytes_left = BYTES_MAX;
    let contents: Vec<Content> =
        patches.iter().map(|patch| content(patch, &mut bytes_left)).collect::<Result<_, _>>()?;
    let changes: Vec<fs::Change<'_>> = patches.iter().zip(&contents).map(change).collect();
    fs::change_all(&held, &changes)?;
    Ok(Patched { files: changes.iter().map(patched).collect() })
}

/// What one file holds before and after; none where there is none.
struct Content {
    before: Option<String>,
    after: Option<String>,
}

fn content(patch: &FilePatch<'_>, bytes_left: &mut usize) -> Result<Content, ToolError> {
    let before = if patch.creates { None } else { Some(fs::read_to_string(patch.path)?) };
    let after = apply::apply(patch, before.as_deref().unwrap_or_default())?;
    let bytes = before.as_ref().map_or(0, String::len) + after.len();
    let too_much = || ToolError::failed(format!("the files have more than {BYTES_MAX} bytes"));
    *bytes_left = bytes_left.checked_sub(bytes).ok_or_else(too_much)?;
    if patch.deletes && !after.is_empty() {
        return Err(ToolError::invalid_args(format!(
            "{:?} holds more than the patch takes away, so it is not removed",
            patch.path
        )));
    }
    Ok(Content { before, after: (!patch.deletes).then_some(after) })
}

fn change<'a>((patch, content): (&FilePatch<'a>, &'a Content)) -> fs::Change<'a> {
    let bytes = |text: &'a Option<String>| text.as_deref().map(str::as_bytes);
    fs::Change { path: patch.path, before: bytes(&content.before), after: bytes(&content.after) }
}

fn patched(change: &fs::Change<'_>) -> PatchedFile {
    let done = match (change.before, change.after) {
        (None, _) => Done::Created,
        (Some(_), Some(_)) => Done::Changed,
        (Some(_), None) => Done::Deleted,
    };
    let bytes = change.after.map_or(0, <[u8]>::len);
    PatchedFile { path: change.path.to_owned(), change: done, bytes }
}

/// The files of the patch and those that were named are the same, each once.
fn check_paths(patches: &[FilePatch<'_>], paths: &[String]) -> Result<(), ToolError> {
    if patches.len() > FILES_MAX {
        return Err(ToolError::invalid_args(format!(
            "the patch is of more than {FILES_MAX} files"
        )));
    }
    // One file has one name here, or its changes would be made over one another.
    let is_plain = |path: &str| path.split('/').all(|step| !matches!(step, "" | "." | ".."));
    if let Some(patch) = patches.iter().find(|patch| !is_plain(patch.path)) {
        let why =
            format!("{:?} is not written as src/name, without `.`, `..` and `//`", patch.path);
        return Err(ToolError::InvalidPath(why));
    }
    let mut found = BTreeSet::new();
    if let Some(twice) = patches.iter().find(|patch| !found.insert(patch.path)) {
        let why = format!("the patch has {:?} twice; put its hunks together", twice.path);
        return Err(ToolError::invalid_args(why));
    }
    let named: BTreeSet<&str> = paths.iter().map(String::as_str).collect();
    if let Some(path) = found.symmetric_difference(&named).next() {
        let why = if named.contains(path) { "is not in the patch" } else { "is not in `paths`" };
        return Err(ToolError::invalid_args(format!("{path:?} {why}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_files_are_those_of_the_patch() {
        let text =
            "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+c\n";
        let patches = parse::parse(text).unwrap();
        let check = |paths: &[&str]| {
            let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
            check_paths(&patches, &paths).is_ok()
        };
        assert!(check(&["y", "x"]));
        for wrong in [&["x"][..], &["x", "y", "z"], &["x", "./y"], &[]] {
            assert!(!check(wrong), "{wrong:?}");
        }
        let text = text.repeat(2);
        let twice = parse::parse(&text).unwrap();
        assert!(check_paths(&twice, &["x".to_owned(), "y".to_owned()]).is_err());
    }
}
