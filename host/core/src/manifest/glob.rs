//! Patterns of paths: `*` and `?` inside a name, `**` for any directories between.
//!
//! A pattern stays inside its directory, and symbolic links are not followed down.

use std::path::{Path, PathBuf};

use regex::Regex;

use super::documents::Documents;
use crate::limits::GLOB_VISITS_MAX;

/// Says whether a path is a pattern.
pub(crate) fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

/// Says whether a pattern leaves its directory, or uses what this host does not know.
pub(crate) fn leaves(pattern: &str) -> bool {
    pattern.starts_with('/')
        || pattern.contains(['[', '\\'])
        || pattern.split('/').any(|part| part == "..")
}

/// Returns the files below `directory` that `pattern` matches, sorted; none where it would have
/// to look into too many directories.
pub(crate) fn expand(docs: &dyn Documents, directory: &Path, pattern: &str) -> Vec<PathBuf> {
    let segments = pattern.split('/').filter(|part| !matches!(*part, "" | "."));
    let segments: Vec<Step<'_>> = segments.map(step).collect();
    let mut walk = Walk { docs, files: Vec::new(), visits_left: GLOB_VISITS_MAX };
    walk.directory(directory, &segments);
    if walk.visits_left == 0 {
        return Vec::new();
    }
    walk.files.sort();
    walk.files.dedup();
    walk.files
}

struct Walk<'a> {
    docs: &'a dyn Documents,
    files: Vec<PathBuf>,
    visits_left: usize,
}

impl Walk<'_> {
    fn directory(&mut self, directory: &Path, segments: &[Step<'_>]) {
        let Some((segment, rest)) = segments.split_first() else {
            return;
        };
        self.visits_left = self.visits_left.saturating_sub(1);
        if self.visits_left == 0 {
            return;
        }
        let is_deep = segment.0 == "**";
        if is_deep {
            self.directory(directory, rest);
        }
        // A manifest in the current directory has an empty base, which nobody can list.
        let empty = directory.as_os_str().is_empty();
        let listed = if empty { Path::new(".") } else { directory };
        for entry in self.docs.list(listed).unwrap_or_default() {
            let path = directory.join(&entry.name);
            let name = entry.name.to_string_lossy();
            let hidden = name.starts_with('.');
            match entry.is_directory {
                true if is_deep && !hidden => self.directory(&path, segments),
                true if is_match(segment, &name) => self.directory(&path, rest),
                false if rest.is_empty() && is_match(segment, &name) => self.files.push(path),
                _ => {}
            }
        }
    }
}

/// One step of a pattern, and what matches names with it.
type Step<'a> = (&'a str, Option<Regex>);

fn step(text: &str) -> Step<'_> {
    (text, of_names(text))
}

/// Returns what matches the names that a pattern does.
pub(crate) fn of_names(pattern: &str) -> Option<Regex> {
    let names = regex::escape(pattern).replace(r"\*", ".*").replace(r"\?", ".");
    Regex::new(&format!("(?s)^{names}$")).ok()
}

/// Says whether `name` matches a step. Hidden files are matched by name only.
fn is_match((text, names): &Step<'_>, name: &str) -> bool {
    let is_hidden = name.starts_with('.') && !text.starts_with('.');
    !is_hidden && names.as_ref().is_some_and(|names| names.is_match(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_match_as_a_shell_does() {
        for (pattern, name, expected) in [
            ("*.yaml", "a.yaml", true),
            ("*.yaml", ".yaml", false),
            (".*", ".yaml", true),
            ("*", "", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "acb", false),
            ("?", "é", true),
            ("??", "a", false),
            ("a", "a", true),
            ("a", "ab", false),
        ] {
            assert_eq!(is_match(&step(pattern), name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn patterns_that_leave_the_directory_are_told_apart() {
        for pattern in ["/a/*", "../*", "a/../*", "a/[b]*", "a\\*"] {
            assert!(leaves(pattern), "{pattern}");
        }
        for pattern in ["*", "./a/*.yaml", "a/**/b..c*"] {
            assert!(!leaves(pattern), "{pattern}");
        }
    }
}
