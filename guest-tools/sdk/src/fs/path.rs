//! Paths as a tool receives them, made plain before the host sees them.
//!
//! This is courtesy, not the wall: it gives clear errors for paths that can never be right.
//! The host checks every step of every path again, symbolic links included.

use crate::error::ToolError;

/// A relative path without `.`, `..`, empty steps or NUL; empty means the root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plain(Vec<String>);

impl Plain {
    /// Resolves `path` by its text alone.
    pub(crate) fn parse(path: &str) -> Result<Self, ToolError> {
        let refuse = |why| Err(ToolError::InvalidPath(format!("{path:?} {why}")));
        if path.is_empty() {
            return refuse("is empty; \".\" is the folder itself");
        }
        if path.contains('\0') {
            return refuse("holds a NUL character");
        }
        if path.starts_with('/') {
            return refuse("is absolute; use a path relative to the granted folder");
        }
        let mut steps = Vec::new();
        for step in path.split('/') {
            match step {
                "" | "." => {}
                ".." if steps.pop().is_none() => return refuse("leaves the granted folder"),
                ".." => {}
                name => steps.push(name.to_owned()),
            }
        }
        Ok(Self(steps))
    }

    /// The path below `mount`, a guest name such as `/` or `/data`; `None` where it is elsewhere.
    pub(crate) fn below(&self, mount: &str) -> Option<Below> {
        let mut rest = self.0.as_slice();
        let mut depth = 0;
        for step in mount.split('/').filter(|step| !step.is_empty() && *step != ".") {
            let (first, others) = rest.split_first()?;
            if first != step {
                return None;
            }
            rest = others;
            depth += 1;
        }
        Some(Below { depth, steps: rest.to_vec() })
    }

    /// The name of a mount directly inside this directory, if `mount` is one.
    pub(crate) fn child_mount(&self, mount: &str) -> Option<String> {
        let inside = Self::parse(mount.trim_start_matches('/')).ok()?;
        let (last, parents) = inside.0.split_last()?;
        (parents == self.0).then(|| last.clone())
    }
}

/// A path below a mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Below {
    /// How many steps the mount's own name has: the longest match wins.
    pub(crate) depth: usize,
    steps: Vec<String>,
}

impl Below {
    /// The path as the host takes it; `.` is the mount itself.
    pub(crate) fn text(&self) -> String {
        if self.steps.is_empty() { ".".to_owned() } else { self.steps.join("/") }
    }

    /// The path of what is called `name` in this directory, as the host takes it.
    pub(crate) fn inside(&self, name: &str) -> String {
        let steps = self.steps.iter().map(String::as_str);
        steps.chain([name]).collect::<Vec<_>>().join("/")
    }

    /// The path that a link here leads to by its text `target`. Where steps up lead, the host knows.
    pub(crate) fn linked(&self, target: &str) -> Self {
        let parents = self.steps.split_last().map_or(&[][..], |(_, parents)| parents);
        let more = target.split('/').filter(|step| !step.is_empty()).map(str::to_owned);
        Self { depth: self.depth, steps: parents.iter().cloned().chain(more).collect() }
    }

    /// Each directory above the last step, outermost first.
    pub(crate) fn parents(&self) -> impl Iterator<Item = String> {
        let parents = self.steps.split_last().map_or(&[][..], |(_, parents)| parents);
        parents.iter().scan(String::new(), |so_far, step| {
            if !so_far.is_empty() {
                so_far.push('/');
            }
            so_far.push_str(step);
            Some(so_far.clone())
        })
    }

    /// A name beside the last step, for a file that is there for a while as `what` says.
    pub(crate) fn beside(&self, what: &str) -> Option<String> {
        let (last, parents) = self.steps.split_last()?;
        // Names may have 255 bytes on every common file system: leave room for the rest.
        let stem: String = last.chars().take(STEM_CHARS_MAX).collect();
        let name = format!(".{stem}.{what}");
        Some(parents.iter().cloned().chain([name]).collect::<Vec<_>>().join("/"))
    }
}

/// At most four bytes each, so 240 of a file name's 255 bytes.
const STEM_CHARS_MAX: usize = 60;

#[cfg(test)]
mod tests {
    use super::*;

    fn text(path: &str, mount: &str) -> Option<String> {
        Plain::parse(path).unwrap().below(mount).map(|below| below.text())
    }

    #[test]
    fn paths_that_leave_or_are_no_paths_are_refused() {
        for path in ["", "/", "/etc/passwd", "..", "a/../..", "nope/../../x", "a\0b", "./../x"] {
            assert!(matches!(Plain::parse(path), Err(ToolError::InvalidPath(_))), "{path:?}");
        }
    }

    #[test]
    fn the_longest_mount_takes_the_path() {
        assert_eq!(text("./a//b/../c", "/"), Some("a/c".to_owned()));
        assert_eq!(text("data/x", "/data"), Some("x".to_owned()));
        assert_eq!(text("data", "/data"), Some(".".to_owned()));
        assert_eq!(text("database/x", "/data"), None);
        assert_eq!(text(".", "/data"), None);
        assert_eq!(Plain::parse("data/x").unwrap().below("/data").unwrap().depth, 1);
    }

    #[test]
    fn parents_come_outermost_first() {
        let below = Plain::parse("a/b/c.txt").unwrap().below("/").unwrap();
        assert_eq!(below.parents().collect::<Vec<_>>(), ["a", "a/b"]);
        assert_eq!(below.beside("part-0").unwrap(), "a/b/.c.txt.part-0");
        assert_eq!(below.inside("d"), "a/b/c.txt/d");
        assert_eq!(below.linked("../d//e").text(), "a/b/../d/e");
        assert_eq!(below.linked("d").beside("part-0").unwrap(), "a/b/.d.part-0");
        assert_eq!(Plain::parse(".").unwrap().below("/").unwrap().inside("d"), "d");
    }

    #[test]
    fn a_mount_shows_in_the_directory_that_holds_it() {
        let root = Plain::parse(".").unwrap();
        assert_eq!(root.child_mount("/data"), Some("data".to_owned()));
        assert_eq!(root.child_mount("/"), None);
        assert_eq!(root.child_mount("/a/b"), None);
    }
}
