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
        if !(keep(c) || (is_plain(c) && !matches!(c, '\n' | '\t'))) {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Says whether a character shows what it is: line breaks and tabs do.
pub fn is_plain(c: char) -> bool {
    matches!(c, '\n' | '\t') || !(c.is_control() || is_invisible(c) || is_selector(c))
}

/// Zero-width and bidirectional marks, letters and patterns that are blank, and the tag characters
/// that mirror ASCII.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{feff}'
        | '\u{ffa0}' | '\u{e0000}'..='\u{e007f}')
}

/// Variation selectors: ordinary behind a picture, and able to carry a text that nobody sees.
fn is_selector(c: char) -> bool {
    matches!(c, '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
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

    #[test]
    fn blank_letters_and_selectors_hide_nothing() {
        for code in [0x61c, 0x3164, 0x2800, 0x180e, 0x115f, 0xfe00, 0xfe0f, 0xe0100, 0xe01ef] {
            let hidden = char::from_u32(code).unwrap();
            assert_eq!(line(&hidden.to_string()), format!("\\u{{{code:x}}}"));
        }
    }
}
