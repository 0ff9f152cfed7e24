//! Reading a unified diff.

use claw_tool::ToolError;

/// Hunks of all files of one patch.
const HUNKS_MAX: usize = 1_000;

/// What a header says of a file that is not there.
const NO_FILE: &str = "/dev/null";

/// What a patch does to one file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FilePatch<'a> {
    /// The file.
    pub(crate) path: &'a str,
    /// There is no file yet.
    pub(crate) creates: bool,
    /// There will be none.
    pub(crate) deletes: bool,
    pub(crate) hunks: Vec<Hunk<'a>>,
}

/// Lines that are replaced by others.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Hunk<'a> {
    /// Where it says to stand: lines of the old file before it.
    pub(crate) before: usize,
    /// Lines of the old file it says to have.
    old_lines: usize,
    pub(crate) lines: Vec<Line<'a>>,
}

/// One line of a hunk, without its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// It is there and stays.
    Keep(&'a str),
    /// It is there and goes.
    Remove(&'a str),
    /// It comes.
    Add {
        text: &'a str,
        /// The file ends with it, without a line end.
        is_end: bool,
    },
}

/// Reads the patches of all files.
pub(crate) fn parse(text: &str) -> Result<Vec<FilePatch<'_>>, ToolError> {
    let mut parser = Parser { files: Vec::new(), hunks: 0 };
    let mut lines = text.lines().enumerate().peekable();
    while let Some((number, line)) = lines.next() {
        let next = lines.peek().map_or("", |(_, line)| line);
        let taken = match (line.strip_prefix("--- "), next.strip_prefix("+++ ")) {
            (Some(old), Some(new)) => {
                lines.next();
                parser.file(old, new)
            }
            _ => parser.line(line),
        };
        taken.map_err(|why| {
            ToolError::invalid_args(format!("line {} of patch_text: {why}", number + 1))
        })?;
    }
    match parser.files.iter().find(|file| file.hunks.is_empty() && !file.creates) {
        Some(file) => {
            Err(ToolError::invalid_args(format!("the patch has no hunk for {:?}", file.path)))
        }
        None if parser.files.is_empty() => Err(ToolError::invalid_args(
            "patch_text holds no file: write `--- a/name` and `+++ b/name` above its hunks",
        )),
        None => Ok(parser.files),
    }
}

struct Parser<'a> {
    files: Vec<FilePatch<'a>>,
    hunks: usize,
}

impl<'a> Parser<'a> {
    fn file(&mut self, old: &'a str, new: &'a str) -> Result<(), &'static str> {
        let (old, new) = (name(old), name(new));
        let (creates, deletes) = (old == NO_FILE, new == NO_FILE);
        // git writes a/ and b/ before the names, others do not.
        let (old, new) = match (old.strip_prefix("a/"), new.strip_prefix("b/")) {
            (Some(old), Some(new)) => (old, new),
            (Some(old), None) if deletes => (old, new),
            (None, Some(new)) if creates => (old, new),
            _ => (old, new),
        };
        let path = match (creates, deletes) {
            (true, true) => return Err("both names are /dev/null"),
            (true, false) => new,
            (false, true) => old,
            (false, false) if old == new => new,
            (false, false) => return Err("the two names differ, and files are not renamed"),
        };
        self.files.push(FilePatch { path, creates, deletes, hunks: Vec::new() });
        Ok(())
    }

    fn line(&mut self, line: &'a str) -> Result<(), &'static str> {
        if line.starts_with("@@") {
            return self.hunk(line);
        }
        if self.files.is_empty() && line.starts_with("*** Begin Patch") {
            return Err(
                "this is no unified diff: write `--- a/name` and `+++ b/name` above each file's hunks",
            );
        }
        for unknown in ["rename ", "copy ", "GIT binary patch", "Binary files "] {
            if line.starts_with(unknown) {
                return Err("renames, copies and binary patches are not applied");
            }
        }
        // What stands above the first hunk of a file is for people.
        let Some(hunk) = self.files.last_mut().and_then(|file| file.hunks.last_mut()) else {
            return Ok(());
        };
        match line.chars().next() {
            Some(' ') => hunk.lines.push(Line::Keep(line.get(1..).unwrap_or_default())),
            Some('-') => hunk.lines.push(Line::Remove(line.get(1..).unwrap_or_default())),
            Some('+') => {
                let text = line.get(1..).unwrap_or_default();
                hunk.lines.push(Line::Add { text, is_end: false });
            }
            Some('\\') => {
                if let Some(Line::Add { is_end, .. }) = hunk.lines.last_mut() {
                    *is_end = true;
                }
            }
            // An empty line whose space was lost, unless the hunk has all it says to have.
            None if hunk.old_count() < hunk.old_lines => hunk.lines.push(Line::Keep("")),
            None => {}
            Some(_) if line.starts_with("diff ") || line.starts_with("index ") => {}
            Some(_) if is_mode(line) => {}
            Some(_) => return Err("a line of a hunk starts with a space, `-` or `+`"),
        }
        Ok(())
    }

    fn hunk(&mut self, line: &str) -> Result<(), &'static str> {
        const WRONG: &str = "write a hunk's header as `@@ -1,3 +1,4 @@`";
        let file = self.files.last_mut().ok_or("a hunk stands before the first file")?;
        self.hunks += 1;
        if self.hunks > HUNKS_MAX {
            return Err("the patch has more than 1000 hunks");
        }
        let old = line.strip_prefix("@@ -").ok_or(WRONG)?.split(' ').next().ok_or(WRONG)?;
        let (start, count) = old.split_once(',').unwrap_or((old, "1"));
        let start: usize = start.parse().map_err(|_| WRONG)?;
        let old_lines: usize = count.parse().map_err(|_| WRONG)?;
        // A hunk without old lines names the line it comes after.
        let before = if old_lines == 0 { start } else { start.saturating_sub(1) };
        file.hunks.push(Hunk { before, old_lines, lines: Vec::new() });
        Ok(())
    }
}

impl<'a> Hunk<'a> {
    /// The lines that have to be there.
    pub(crate) fn old(&self) -> impl Iterator<Item = &'a str> {
        self.lines.iter().filter_map(|line| match line {
            Line::Keep(text) | Line::Remove(text) => Some(*text),
            Line::Add { .. } => None,
        })
    }

    fn old_count(&self) -> usize {
        self.old().count()
    }
}

/// A name in a header: what stands before a tab is it, the rest is a time.
fn name(header: &str) -> &str {
    header.split('\t').next().unwrap_or(header).trim_end()
}

fn is_mode(line: &str) -> bool {
    ["new file mode ", "deleted file mode ", "old mode ", "new mode ", "similarity index "]
        .iter()
        .any(|known| line.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_writes_is_read() {
        let text = "diff --git a/x b/x\nindex 1..2 100644\n--- a/x\t2026\n+++ b/x\n@@ -2,2 +2,3 @@ fn f\n a\n-b\n+c\n+d\n\\ No newline at end of file\ndiff --git a/y b/y\nnew file mode 100644\n--- /dev/null\n+++ b/y\n@@ -0,0 +1 @@\n+--- z\n--- a/old\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n";
        let files = parse(text).unwrap();
        let names: Vec<_> = files.iter().map(|f| (f.path, f.creates, f.deletes)).collect();
        assert_eq!(names, [("x", false, false), ("y", true, false), ("old", false, true)]);
        let end = Line::Add { text: "d", is_end: true };
        let add = |text| Line::Add { text, is_end: false };
        assert_eq!(files[0].hunks[0].before, 1);
        assert_eq!(files[0].hunks[0].lines, [Line::Keep("a"), Line::Remove("b"), add("c"), end]);
        assert_eq!(files[1].hunks[0].lines, [add("--- z")]);
    }

    #[test]
    fn what_cannot_be_meant_is_refused_with_its_line() {
        let file = "--- a/x\n+++ b/x\n";
        for (text, says) in [
            (String::new(), "holds no file"),
            ("@@ -1 +1 @@\n+a\n".to_owned(), "line 1"),
            (format!("{file}@@ nonsense @@\n"), "line 3"),
            (format!("{file}@@ -1 +1 @@\na\n"), "line 4"),
            ("--- a/x\n+++ b/y\n@@ -1 +1 @@\n".to_owned(), "renamed"),
            ("--- /dev/null\n+++ /dev/null\n".to_owned(), "/dev/null"),
            ("diff --git a/x b/y\nrename from x\n".to_owned(), "not applied"),
            ("*** Begin Patch\n*** Update File: x\n@@\n-a\n".to_owned(), "no unified diff"),
            (file.to_owned(), "no hunk"),
            (format!("{file}{}", "@@ -1 +1 @@\n".repeat(1_001)), "1000 hunks"),
        ] {
            match parse(&text) {
                Err(ToolError::InvalidArgs(why)) => assert!(why.contains(says), "{why}"),
                other => panic!("{text:?}: {other:?}"),
            }
        }
    }
}
