//! Text from guests and upstreams, made safe to show: nothing in it can drive a terminal, forge
//! a line of a log, or hide.

use std::fmt::Write as _;

/// Returns `text` as one line: control and invisible characters as `\u{…}`.
pub fn line(text: &str) -> String {
    escape(text, |_| false)
}

/// Returns `text` with its line breaks and tabs, and every other control or invisible
/// character as `\u{…}`.
pub fn block(text: &str) -> String {
    escape(text, |c| matches!(c, '\n' | '\t'))
}

/// Returns a text of JSON that means the same, in which nothing drives a terminal or hides: whatever [`block`] would
/// not leave as it is stands as JSON's own escape.
pub fn json(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_plain(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // A text takes whatever is written to it.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    shown
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

/// Zero-width and bidirectional marks, what joins, formats or annotates without a sign of its own,
/// letters and patterns that are blank, and the tag characters that mirror ASCII: with the
/// [selectors](is_selector) what Unicode calls `Default_Ignorable_Code_Point`, and more.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
        | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e00ff}' | '\u{e01f0}'..='\u{e0fff}')
}

/// Variation selectors: ordinary behind a picture, and able to carry a text that nobody sees.
pub(crate) fn is_selector(c: char) -> bool {
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
    fn json_means_the_same_and_hides_nothing() {
        let value = serde_json::json!({"a\u{202e}": ["\u{e0041}\u{7f}\u{9b}\n\"", "ä\u{fe0f}"]});
        for text in [value.to_string(), format!("{value:#}")] {
            let shown = json(&text);
            assert!(shown.chars().all(is_plain), "{shown:?}");
            assert!(shown.contains("\\u202e") && shown.contains("\\udb40\\udc41"), "{shown}");
            assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap(), value);
        }
    }

    #[test]
    fn blank_letters_and_selectors_hide_nothing() {
        for code in [
            0x34f, 0x61c, 0x115f, 0x17b4, 0x17b5, 0x180b, 0x180e, 0x180f, 0x2800, 0x3164, 0xfe00,
            0xfe0f, 0xfff0, 0xfff9, 0xfffb, 0x1bca0, 0x1bca3, 0x1d173, 0x1d17a, 0xe0001, 0xe0080,
            0xe00ff, 0xe0100, 0xe01ef, 0xe01f0, 0xe0fff,
        ] {
            let hidden = char::from_u32(code).unwrap();
            assert_eq!(line(&hidden.to_string()), format!("\\u{{{code:x}}}"));
        }
    }
}
