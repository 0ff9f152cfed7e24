//! Finding where hunks belong, and putting their lines there.

use claw_tool::ToolError;

use super::parse::{FilePatch, Hunk, Line};

/// The content of a file after `patch`.
pub(crate) fn apply(patch: &FilePatch<'_>, content: &str) -> Result<String, ToolError> {
    let old: Vec<&str> = content.split_inclusive('\n').collect();
    let line_end = if content.contains("\r\n") { "\r\n" } else { "\n" };
    let mut new = New { text: String::with_capacity(content.len()), line_end };
    let mut done = 0;
    // How far lines have moved against the numbers of the patch so far.
    let mut moved = 0_isize;
    for (number, hunk) in patch.hunks.iter().enumerate() {
        let expected = hunk.before.saturating_add_signed(moved);
        let at = find(hunk, &old, done, expected).map_err(|why| {
            let number = number + 1;
            ToolError::invalid_args(format!("hunk {number} of {:?}: {why}", patch.path))
        })?;
        moved = at.cast_signed().saturating_sub(hunk.before.cast_signed());
        old.get(done..at).unwrap_or_default().iter().for_each(|line| new.keep(line));
        done = at;
        for line in &hunk.lines {
            match line {
                Line::Keep(_) => {
                    new.keep(old.get(done).unwrap_or(&""));
                    done += 1;
                }
                Line::Remove(_) => done += 1,
                Line::Add { text, is_end } => new.add(text, *is_end),
            }
        }
    }
    old.get(done..).unwrap_or_default().iter().for_each(|line| new.keep(line));
    Ok(new.text)
}

/// The line that `hunk` begins at: where it says to be, or the one place where its lines are.
fn find(hunk: &Hunk<'_>, old: &[&str], done: usize, expected: usize) -> Result<usize, String> {
    let wanted: Vec<&str> = hunk.old().map(plain).collect();
    let fits = |at: &usize| {
        let there = old.get(*at..at.saturating_add(wanted.len()));
        there.is_some_and(|there| there.iter().zip(&wanted).all(|(a, b)| plain(a) == *b))
    };
    if expected >= done && fits(&expected) {
        return Ok(expected);
    }
    if wanted.is_empty() {
        return Err(
            "it has no lines to be found by, and its line number is past the end".to_owned()
        );
    }
    let mut places = (done..old.len()).filter(fits);
    match (places.next(), places.next()) {
        (Some(at), None) => Ok(at),
        (None, _) => Err("its lines are not in the file; read it again".to_owned()),
        (Some(_), Some(_)) => {
            Err("its lines are in the file more than once; include more lines around".to_owned())
        }
    }
}

/// A line without its end.
fn plain(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

/// The new content, line by line.
struct New {
    text: String,
    line_end: &'static str,
}

impl New {
    fn keep(&mut self, line: &str) {
        self.end_line();
        self.text.push_str(line);
    }

    fn add(&mut self, line: &str, is_end: bool) {
        self.end_line();
        self.text.push_str(plain(line));
        if !is_end {
            self.text.push_str(self.line_end);
        }
    }

    /// What was the last line of the file needs an end once a line follows it.
    fn end_line(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push_str(self.line_end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse::parse;
    use super::*;

    fn patched(content: &str, hunks: &str) -> Result<String, String> {
        let text = format!("--- a/x\n+++ b/x\n{hunks}");
        let files = parse(&text).unwrap();
        apply(&files[0], content).map_err(|error| format!("{error:?}"))
    }

    #[test]
    fn hunks_replace_lines_where_they_say() {
        let hunks = "@@ -1,2 +1,2 @@\n a\n-b\n+B\n@@ -4 +4,2 @@\n-d\n+D\n+e\n";
        assert_eq!(patched("a\nb\nc\nd\n", hunks).unwrap(), "a\nB\nc\nD\ne\n");
        assert_eq!(patched("a\n", "@@ -1,0 +2 @@\n+b\n").unwrap(), "a\nb\n");
        assert_eq!(patched("a\n", "@@ -0,0 +1 @@\n+z\n").unwrap(), "z\na\n");
        assert_eq!(patched("", "@@ -0,0 +1,2 @@\n+a\n+b\n").unwrap(), "a\nb\n");
        assert_eq!(patched("a\n", "@@ -1 +0,0 @@\n-a\n").unwrap(), "");
    }

    #[test]
    fn a_wrong_line_number_is_forgiven_where_the_lines_are_there_once() {
        let hunks = "@@ -90,2 +90,2 @@\n c\n-d\n+D\n";
        assert_eq!(patched("a\nb\nc\nd\n", hunks).unwrap(), "a\nb\nc\nD\n");
        assert!(patched("c\nd\nc\nd\n", hunks).unwrap_err().contains("more than once"));
        assert!(patched("a\n", hunks).unwrap_err().contains("hunk 1"));
        assert!(patched("a\n", "@@ -9,0 +9 @@\n+b\n").unwrap_err().contains("past the end"));
        // What was shifted above shifts what stands below.
        let two = "@@ -3 +3 @@\n-x\n+y\n@@ -4 +4 @@\n-z\n+Z\n";
        assert_eq!(patched("0\n0\n0\nx\nz\nz\n", two).unwrap(), "0\n0\n0\ny\nZ\nz\n");
    }

    #[test]
    fn hunks_come_in_order_and_lines_are_whole() {
        let hunks = "@@ -2 +2 @@\n-b\n+B\n@@ -1 +1 @@\n-a\n+A\n";
        assert!(patched("a\nb\n", hunks).is_err());
        assert!(patched("ab\n", "@@ -1 +1 @@\n-a\n+A\n").is_err());
    }

    #[test]
    fn line_ends_stay_what_they_are() {
        assert_eq!(patched("a\r\nb\r\n", "@@ -1,2 +1,2 @@\n a\n-b\n+c\n").unwrap(), "a\r\nc\r\n");
        assert_eq!(patched("a\nb", "@@ -1 +1 @@\n-a\n+A\n").unwrap(), "A\nb");
        assert_eq!(patched("a", "@@ -1 +1,2 @@\n a\n+b\n").unwrap(), "a\nb\n");
        let end = "@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n";
        assert_eq!(patched("a\n", end).unwrap(), "b");
    }
}
