//! Patterns of file names: `*.rs`, `src/**/*.{c,h}`, `[a-c]?`.
//!
//! A pattern is turned into a regular expression, which matches in time linear in the name
//! whatever the pattern is; its length and the expression's size are bounded.

use claw_tool::ToolError;
use regex_lite::{Regex, RegexBuilder};

/// The longest pattern.
const GLOB_BYTES_MAX: usize = 1_024;

/// The largest compiled pattern or expression.
pub(crate) const COMPILED_BYTES_MAX: usize = 1_048_576;

/// A pattern of paths relative to where a search starts.
#[derive(Debug)]
pub(crate) struct Glob {
    regex: Regex,
    /// Without a slash it is about the last name of a path alone.
    names_only: bool,
}

impl Glob {
    pub(crate) fn parse(text: &str) -> Result<Self, ToolError> {
        let refuse = |why: &str| Err(ToolError::invalid_args(format!("glob: {why}")));
        if text.is_empty() || text.len() > GLOB_BYTES_MAX {
            return refuse("give a pattern of 1 to 1024 bytes, such as *.rs or src/**/*.{c,h}");
        }
        let Some(source) = translate(text) else {
            return refuse("a bracket or brace is not closed; put a \\ before one that is meant");
        };
        let mut builder = RegexBuilder::new(&source);
        match builder.size_limit(COMPILED_BYTES_MAX).build() {
            Ok(regex) => Ok(Self { regex, names_only: !text.contains('/') }),
            Err(_) => refuse("the pattern is too large, or a range in it is empty"),
        }
    }

    pub(crate) fn matches(&self, path: &str) -> bool {
        let name = if self.names_only { path.rsplit('/').next().unwrap_or(path) } else { path };
        self.regex.is_match(name)
    }
}

/// The pattern as a regular expression; nothing where a bracket or brace is not closed.
fn translate(text: &str) -> Option<String> {
    let mut source = String::from(r"(?s)\A");
    let mut braces = 0_usize;
    let mut rest = text.trim_start_matches("./");
    while let Some(letter) = rest.chars().next() {
        rest = rest.get(letter.len_utf8()..)?;
        match letter {
            '*' if rest.starts_with("*/") => {
                rest = rest.get(2..)?;
                // Said twice it means the same.
                while let Some(again) = rest.strip_prefix("**/") {
                    rest = again;
                }
                source.push_str("(?:[^/]+/)*");
            }
            '*' if rest.starts_with('*') => {
                rest = rest.trim_start_matches('*');
                source.push_str(".*");
            }
            '*' => source.push_str("[^/]*"),
            '?' => source.push_str("[^/]"),
            '[' => rest = class(rest, &mut source)?,
            '{' => {
                braces += 1;
                source.push_str("(?:");
            }
            '}' if braces > 0 => {
                braces -= 1;
                source.push(')');
            }
            ',' if braces > 0 => source.push('|'),
            '\\' => {
                let next = rest.chars().next()?;
                rest = rest.get(next.len_utf8()..)?;
                push_escaped(next, &mut source);
            }
            other => push_escaped(other, &mut source),
        }
    }
    source.push_str(r"\z");
    (braces == 0).then_some(source)
}

/// Takes a class such as `[a-z]` or `[!0-9]` over, and returns what stands behind it.
fn class<'a>(text: &'a str, source: &mut String) -> Option<&'a str> {
    let negated = text.strip_prefix(['!', '^']);
    let inside = negated.unwrap_or(text);
    // A `]` right at the beginning is one of the characters.
    let end = inside.char_indices().skip(1).find(|(_, letter)| *letter == ']')?.0;
    source.push_str(if negated.is_some() { "[^/" } else { "[" });
    for letter in inside.get(..end)?.chars() {
        if letter == '-' { source.push('-') } else { push_escaped(letter, source) }
    }
    source.push(']');
    inside.get(end + 1..)
}

fn push_escaped(letter: char, source: &mut String) {
    source.push_str(&regex_lite::escape(letter.encode_utf8(&mut [0; 4])));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(glob: &str, yes: &[&str], no: &[&str]) {
        let parsed = Glob::parse(glob).unwrap();
        for path in yes {
            assert!(parsed.matches(path), "{glob} should match {path:?}");
        }
        for path in no {
            assert!(!parsed.matches(path), "{glob} should not match {path:?}");
        }
    }

    #[test]
    fn a_pattern_without_a_slash_is_about_the_last_name() {
        check("*.rs", &["a.rs", "src/b.rs", ".rs"], &["a.rsx", "a.rs/b", "ars"]);
        check("Makefile", &["Makefile", "x/Makefile"], &["makefile", "xMakefile"]);
        check("a?c", &["abc", "aöc", "x/a.c"], &["ac", "abbc"]);
    }

    #[test]
    fn a_pattern_with_a_slash_is_about_the_whole_path() {
        check("src/*.rs", &["src/a.rs"], &["a.rs", "x/src/a.rs", "src/x/a.rs"]);
        check("./src/**/*.rs", &["src/a.rs", "src/x/y/a.rs"], &["lib/a.rs"]);
        check("**/test/**", &["test/a", "a/b/test/c/d"], &["tests/a", "test"]);
    }

    #[test]
    fn classes_braces_and_escapes_are_what_they_are_in_a_shell() {
        check("[a-c]x", &["ax", "cx"], &["dx", "-x"]);
        check("[!a-c]x", &["dx"], &["ax", "x"]);
        check("[]x]", &["]", "x"], &["a"]);
        check("*.{c,h,{cc,hh}}", &["a.c", "a.h", "a.hh"], &["a.o", "a."]);
        check(r"\*\[a]", &["*[a]"], &["x[a]", r"\*[a]"]);
        check("a+(b)|.^$", &["a+(b)|.^$"], &["aab"]);
        check("a,b}", &["a,b}"], &[]);
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for glob in ["", "[", "[a", "{a", "a\\", "[z-a]", &"a".repeat(1_025)] {
            assert!(Glob::parse(glob).is_err(), "{glob:?}");
        }
    }

    #[test]
    fn f32_pattern_bombs_are_refused_or_match_at_once() {
        let bombs = ["**/".repeat(341), "{a,".repeat(300), "{".repeat(10_000), "*a".repeat(512)];
        for bomb in bombs {
            if let Ok(glob) = Glob::parse(&bomb) {
                glob.matches(&"a/b".repeat(1_000));
            }
        }
        assert!(Glob::parse(&"{a,b}".repeat(200)).unwrap().matches(&"a".repeat(200)));
    }
}
