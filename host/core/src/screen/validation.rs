//! The form of arguments: characters that cannot be seen.

use crate::visible;

/// Reports characters that cannot be seen, reorder what can, or pass for a space.
pub(super) fn unusual(text: &str, see: &mut dyn FnMut(&'static str)) {
    let mut before = ' ';
    for c in text.chars() {
        if let Some(name) = name(c, before) {
            see(name);
        }
        before = c;
    }
}

fn name(c: char, before: char) -> Option<&'static str> {
    match c {
        ' '..='~' | '\n' | '\r' | '\t' => None,
        // Many scripts, and pictures made of several, are joined with these two.
        '\u{200c}' | '\u{200d}' if !before.is_ascii() => None,
        '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => Some("text direction overridden"),
        '\u{e0000}'..='\u{e007f}' => Some("invisible tag character"),
        '\u{115f}' | '\u{1160}' | '\u{180e}' | '\u{2800}' | '\u{3164}' | '\u{ffa0}' => {
            Some("invisible character")
        }
        '\u{85}' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' => {
            Some("unusual white space")
        }
        c if visible::is_invisible(c) => Some("invisible character"),
        c if c.is_control() => Some("control character"),
        _ => None,
    }
}
