//! Guest paths, taken apart.
//!
//! Bytes are never normalised: `%2e`, a fullwidth dot or a division slash is part of a name.

use clawhost_core::limits::PATH_BYTES_MAX;
use rustix::io::Errno;

use super::fault::Fault;

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// Into, or at, an entry. Never empty, `.`, `..`, and without `/` or NUL.
    Name(String),
    /// To the directory above.
    Up,
}

/// A path as steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PathParts {
    /// The steps, last one first.
    pub(super) reversed: Vec<Part>,
    /// The path ends in `/` or `.`, so it can only mean a directory.
    pub(super) dir_only: bool,
}

/// Takes a relative path apart.
pub(super) fn parse(path: &str) -> Result<PathParts, Fault> {
    check(path)?;
    let reversed: Vec<Part> = path.rsplit('/').filter_map(part).collect();
    let last = path.rsplit('/').next();
    Ok(PathParts { reversed, dir_only: matches!(last, None | Some("" | "." | "..")) })
}

/// Says whether a guest may make a symbolic link to `target`: relative, and never upwards, so
/// that it stays beneath whatever directory it is moved to.
pub(super) fn is_link_target(target: &str) -> bool {
    check(target).is_ok() && target.split('/').all(|part| part != "..")
}

fn check(path: &str) -> Result<(), Fault> {
    if path.len() > PATH_BYTES_MAX {
        return Err(Errno::NAMETOOLONG.into());
    }
    if path.is_empty() {
        return Err(Errno::NOENT.into());
    }
    if path.contains('\0') {
        return Err(Errno::INVAL.into());
    }
    if path.starts_with('/') {
        return Err(Fault::Outside);
    }
    Ok(())
}

fn part(text: &str) -> Option<Part> {
    match text {
        "" | "." => None,
        ".." => Some(Part::Up),
        name => Some(Part::Name(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str) -> Vec<String> {
        let parts = parse(path).unwrap().reversed;
        let text = |part: &Part| match part {
            Part::Name(name) => name.clone(),
            Part::Up => "..".to_owned(),
        };
        parts.iter().rev().map(text).collect()
    }

    #[test]
    fn only_slash_separates_and_only_dots_are_special() {
        assert_eq!(names("a//./b/../c"), ["a", "b", "..", "c"]);
        for literal in ["%2e%2e%2fx", "．．／x", "..\u{2215}x", "..\\x", "...", "a\u{301}", ".. "]
        {
            assert_eq!(names(literal), [literal]);
        }
    }

    #[test]
    fn a_trailing_slash_or_dot_means_a_directory() {
        for path in ["a/", "a/.", "a/..", ".", "a//"] {
            assert!(parse(path).unwrap().dir_only, "{path}");
        }
        assert!(!parse("a/b").unwrap().dir_only);
    }

    #[test]
    fn what_is_no_relative_path_is_refused() {
        assert_eq!(parse(""), Err(Errno::NOENT.into()));
        assert_eq!(parse("a\0b"), Err(Errno::INVAL.into()));
        assert_eq!(parse("/a"), Err(Fault::Outside));
        assert_eq!(parse(&"a/".repeat(2_049)), Err(Errno::NAMETOOLONG.into()));
    }

    #[test]
    fn links_only_point_down() {
        assert!(is_link_target("a/b") && is_link_target("..."));
        for bad in ["", "/", "/etc", "..", "a/../b", "a/..", "../a", "a\0"] {
            assert!(!is_link_target(bad), "{bad:?}");
        }
    }
}
