//! Patterns of paths: `*` and `?` inside a name, `**` for any directories between.
//!
//! A pattern stays inside its directory, and symbolic links are not followed down.

use std::path::{Path, PathBuf};

use super::documents::Documents;

/// Directories one pattern may look into.
const GLOB_VISITS_MAX: usize = 10_000;

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
    let segments: Vec<&str> = segments.collect();
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
    fn directory(&mut self, directory: &Path, segments: &[&str]) {
        let Some((segment, rest)) = segments.split_first() else {
            return;
        };
        self.visits_left = self.visits_left.saturating_sub(1);
        if self.visits_left == 0 {
            return;
        }
        if *segment == "**" {
            self.directory(directory, rest);
        }
        // A manifest in the current directory has an empty base, which nobody can list.
        let empty = directory.as_os_str().is_empty();
        let listed = if empty { Path::new(".") } else { directory };
        for entry in self.docs.list(listed).unwrap_or_default() {
            let path = directory.join(&entry.name);
            let hidden = entry.name.starts_with('.');
            match *segment {
                "**" if entry.is_directory && !hidden => self.directory(&path, segments),
                "**" => {}
                part if !wildcard(part, &entry.name) => {}
                _ if entry.is_directory => self.directory(&path, rest),
                _ if rest.is_empty() => self.files.push(path),
                _ => {}
            }
        }
    }
}

/// Says whether `name` matches a pattern of `*` and `?`. Hidden files are matched by name only.
fn wildcard(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let name: Vec<char> = name.chars().collect();
    // Reachable positions in `name` after each pattern character.
    let mut reached = vec![false; name.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    for part in pattern.chars() {
        let mut next = vec![false; name.len() + 1];
        let mut before = false;
        for (index, slot) in next.iter_mut().enumerate() {
            let here = reached.get(index).copied().unwrap_or(false);
            let step = index.checked_sub(1).and_then(|at| Some((reached.get(at)?, name.get(at)?)));
            *slot = match part {
                '*' => here || before,
                '?' => step.is_some_and(|(reached, _)| *reached),
                wanted => step.is_some_and(|(reached, is)| *reached && *is == wanted),
            };
            before = *slot;
        }
        reached = next;
    }
    reached.last().copied().unwrap_or(false)
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
            assert_eq!(wildcard(pattern, name), expected, "{pattern} {name}");
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
