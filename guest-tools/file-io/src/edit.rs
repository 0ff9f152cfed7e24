//! Replacing text that occurs exactly once.

use claw_tool::ToolError;

/// Occurrences are counted up to here: beyond it the exact number helps nobody.
const COUNTED_MAX: usize = 1_000;

/// Refuses a search text that could never occur exactly once.
pub(crate) fn check(old_text: &str) -> Result<(), ToolError> {
    if old_text.is_empty() {
        return Err(ToolError::invalid_args("old_text is empty; give the text to replace"));
    }
    Ok(())
}

/// `content` with the one occurrence of `old` replaced by `new`.
pub(crate) fn replace_once(content: &str, old: &str, new: &str) -> Result<String, ToolError> {
    check(old)?;
    match count(content, old) {
        0 => Err(ToolError::invalid_args(format!(
            "old_text does not occur in the file{}",
            hint(content, old)
        ))),
        1 => Ok(content.replacen(old, new, 1)),
        COUNTED_MAX => Err(several(&format!("at least {COUNTED_MAX}"))),
        more => Err(several(&more.to_string())),
    }
}

fn several(count: &str) -> ToolError {
    ToolError::invalid_args(format!(
        "old_text occurs {count} times; include more of the lines around it so that it occurs once"
    ))
}

/// How often `old` occurs, overlapping occurrences included, at most [`COUNTED_MAX`].
fn count(content: &str, old: &str) -> usize {
    let step = old.chars().next().map_or(1, char::len_utf8);
    let mut rest = content;
    let mut found = 0;
    while found < COUNTED_MAX
        && let Some(at) = rest.find(old)
    {
        found += 1;
        rest = rest.get(at + step..).unwrap_or_default();
    }
    found
}

/// Line ends are the one difference nobody sees.
fn hint(content: &str, old: &str) -> &'static str {
    if content.contains("\r\n") && content.replace("\r\n", "\n").contains(old) {
        "; its lines end with CR LF, and those of old_text do not"
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(content: &str, old: &str) -> String {
        match replace_once(content, old, "x") {
            Err(ToolError::InvalidArgs(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn exactly_one_occurrence_is_replaced() {
        assert_eq!(replace_once("a b c", "b", "bb").unwrap(), "a bb c");
        assert_eq!(replace_once("a\r\nb\r\n", "a\r\nb", "c").unwrap(), "c\r\n");
        assert_eq!(replace_once("äöü", "ö", "").unwrap(), "äü");
    }

    #[test]
    fn none_and_several_are_refused_with_the_count() {
        assert!(refused("abc", "d").contains("does not occur"));
        assert!(refused("a b a", "a").contains("2 times"));
        assert!(refused("aaa", "aa").contains("2 times"), "overlapping occurrences count");
        assert!(refused(&"a".repeat(5_000), "a").contains("at least 1000"));
        assert!(refused("ööö", "öö").contains("2 times"));
    }

    #[test]
    fn an_empty_old_text_is_refused() {
        assert!(refused("abc", "").contains("empty"));
    }

    #[test]
    fn other_line_ends_are_pointed_out() {
        assert!(refused("a\r\nb", "a\nb").contains("CR LF"));
    }
}
