//! Which later calls an approval covers: a person may answer once for many calls.
//!
//! Deliberately absent: who was asked, when a lease ends and where it is kept.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::{LEASE_PATTERN_BYTES_MAX, LEASE_PATTERNS_MAX};

/// The calls of one tool that a lease covers, by their arguments.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Covers {
    /// Every call, whatever its arguments.
    Any,
    /// The call with this digest of tool and arguments, and no other.
    Exactly(String),
    /// Calls in which each named top-level argument fits its pattern, in which `*` stands for any
    /// text on one line without `; & | $ ( ) \ < >` and the backtick. Arguments that are not named
    /// may be anything.
    Matching(BTreeMap<String, String>),
}

impl Covers {
    /// Returns what `pairs` of argument and pattern cover.
    ///
    /// # Errors
    /// Why there is no such lease: no pair at all, too many or too long ones, one named twice.
    pub fn matching(pairs: impl IntoIterator<Item = (String, String)>) -> Result<Self, String> {
        let mut patterns = BTreeMap::new();
        for (argument, pattern) in pairs {
            if argument.len() + pattern.len() > LEASE_PATTERN_BYTES_MAX {
                return Err(format!("a pattern may have {LEASE_PATTERN_BYTES_MAX} bytes"));
            }
            if let Some(twice) = patterns.insert(argument.clone(), pattern) {
                return Err(format!("`{argument}` is there twice, first as `{twice}`"));
            }
        }
        match patterns.len() {
            0 => Err("no argument is named".to_owned()),
            count if count > LEASE_PATTERNS_MAX => {
                Err(format!("{count} arguments are named; at most {LEASE_PATTERNS_MAX} can be"))
            }
            _ => Ok(Self::Matching(patterns)),
        }
    }

    /// Says whether a call with `digest` and `arguments` is covered.
    pub fn covers(&self, digest: &str, arguments: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Exactly(only) => only == digest,
            Self::Matching(patterns) => patterns.iter().all(|(name, pattern)| {
                arguments.get(name).is_some_and(|value| fits(pattern, value))
            }),
        }
    }
}

impl fmt::Display for Covers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any arguments"),
            Self::Exactly(_) => f.write_str("exactly the arguments that were approved"),
            Self::Matching(patterns) => {
                let pairs: Vec<_> =
                    patterns.iter().map(|(name, pattern)| format!("{name}={pattern}")).collect();
                f.write_str(&pairs.join(", "))
            }
        }
    }
}

/// Text is held against the pattern as it is, everything else as its JSON.
fn fits(pattern: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => fits_text(pattern, text),
        other => fits_text(pattern, &other.to_string()),
    }
}

/// A `*` never stands for a step up, nor for the end of a command: `/a/*` is about what lies below
/// `/a`, and `ls *` about one `ls`.
fn fits_text(pattern: &str, text: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    if text.split(['/', '\\']).any(|part| part == "..") {
        return false;
    }
    text.strip_prefix(start).is_some_and(|text| fits_rest(rest, text))
}

/// Says whether a star may stand for `text`.
fn is_plain(text: &str) -> bool {
    !text.contains(|c: char| {
        c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') || ";&|$()\\`<>".contains(c)
    })
}

/// Takes the first place for each part between stars: if any places fit, these do.
fn fits_rest(pattern: &str, mut text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(end) = parts.next_back() else {
        return true;
    };
    for part in parts {
        match text.split_once(part) {
            Some((star, after)) if is_plain(star) => text = after,
            _ => return false,
        }
    }
    text.strip_suffix(end).is_some_and(is_plain)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn matching(pairs: &[(&str, &str)]) -> Covers {
        Covers::matching(pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))).unwrap()
    }

    #[test]
    fn stars_stand_for_any_text_and_nothing_else_does() {
        let fitting = [
            ("*", ""),
            ("*", "a"),
            ("a*", "a"),
            ("*a", "ba"),
            ("a*c", "abbc"),
            ("a*b*c", "abxbc"),
            ("**", "x"),
            ("a?", "a?"),
            ("", ""),
            ("/a/*", "/a/b/c"),
            ("..", ".."),
        ];
        for (pattern, text) in fitting {
            assert!(fits_text(pattern, text), "{pattern} {text}");
        }
        let not = [
            ("a", "ab"),
            ("a*", "ba"),
            ("*a", "ab"),
            ("a*a", "a"),
            ("a*b*c", "acb"),
            ("", "a"),
            ("a?", "ab"),
            ("/a/*", "/b"),
            ("/a/*", "/a/../b"),
            ("*", ".."),
            ("*", "a\\..\\b"),
        ];
        for (pattern, text) in not {
            assert!(!fits_text(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn a_star_stays_within_one_command() {
        for end in ["; rm", "&& rm", "| sh", "$(rm)", "`rm`", "> a", "< a", "\nrm", "\r", "\\rm"] {
            assert!(!fits_text("ls *", &format!("ls . {end}")), "{end:?}");
            assert!(!fits_text("ls * .", &format!("ls {end} .")), "{end:?}");
        }
        assert!(fits_text("ls *", "ls -l 'a b' c.txt"));
        // What the operator wrote out is meant.
        assert!(fits_text("ls * | wc *", "ls a | wc -l"));
        assert!(!fits_text("ls * | wc *", "ls a | wc -l | sh"));
    }

    #[test]
    fn a_lease_reads_as_it_was_written() {
        assert_eq!(matching(&[("path", "a*"), ("n", "1")]).to_string(), "n=1, path=a*");
        assert_eq!(Covers::Any.to_string(), "any arguments");
    }

    #[test]
    fn every_named_argument_has_to_be_there_and_to_fit() {
        let lease = matching(&[("path", "/a/*"), ("depth", "2")]);
        assert!(lease.covers("", &json!({"path": "/a/b", "depth": 2, "other": 1})));
        for arguments in [
            json!({"path": "/a/b"}),
            json!({"path": "/a/b", "depth": 3}),
            json!({"path": "/b", "depth": 2}),
            json!({"path": ["/a/b"], "depth": 2}),
            json!(null),
        ] {
            assert!(!lease.covers("", &arguments), "{arguments}");
        }
    }

    #[test]
    fn an_exact_lease_covers_one_digest_and_an_open_one_all() {
        let exactly = Covers::Exactly("d".to_owned());
        assert!(exactly.covers("d", &json!({})) && !exactly.covers("e", &json!({})));
        assert!(Covers::Any.covers("e", &json!({})));
    }

    #[test]
    fn patterns_are_bounded_and_unambiguous() {
        let pair = |name: &str, pattern: &str| (name.to_owned(), pattern.to_owned());
        assert!(Covers::matching([]).is_err());
        assert!(Covers::matching([pair("a", "b"), pair("a", "c")]).is_err());
        assert!(Covers::matching([pair("a", &"x".repeat(LEASE_PATTERN_BYTES_MAX))]).is_err());
        let many = (0..=LEASE_PATTERNS_MAX).map(|i| pair(&i.to_string(), "*"));
        assert!(Covers::matching(many).is_err());
    }

    #[test]
    fn what_is_kept_reads_back() {
        for lease in [Covers::Any, Covers::Exactly("d".to_owned()), matching(&[("a", "*")])] {
            let text = serde_json::to_string(&lease).unwrap();
            assert_eq!(serde_json::from_str::<Covers>(&text).unwrap(), lease, "{text}");
        }
    }
}
