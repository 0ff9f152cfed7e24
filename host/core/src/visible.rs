//! Text from guests and upstreams, made safe to show: nothing in it can drive a terminal, forge
//! a line of a log, or hide.

/// Returns `text` as one line: control and invisible characters as `\u{…}`.
pub fn line(text: &str) -> String {
    escape(text, |_| false)
}

/// Returns `text` with its line breaks and tabs, and every other control or invisible
/// character as `\u{…}`.
pub fn block(text: &str) -> String {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

fn escape(text: &str, keep: fn(char) -> bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if (c.is_control() && !keep(c)) || is_invisible(c) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Zero-width and bidirectional marks, and the tag characters that mirror ASCII.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}'
        | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_drives_a_terminal_or_hides_is_made_visible() {
        assert_eq!(
            line("a\u{1b}[2J\nb\u{202e}\u{e0041}c"),
            "a\\u{1b}[2J\\u{a}b\\u{202e}\\u{e0041}c"
        );
        assert_eq!(block("a\n\tb\r\u{7}ä"), "a\n\tb\\u{d}\\u{7}ä");
    }
}
