//! The form of arguments: their size, and characters that cannot be seen.

use std::io::{self, Write};

use serde_json::Value;

use crate::visible;

/// Counts bytes and keeps none.
#[derive(Default)]
struct Counter(u64);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len() as u64);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the size of `value` as serialised JSON; what cannot be serialised has no size that
/// would do.
pub(super) fn bytes(value: &Value) -> u64 {
    let mut counter = Counter::default();
    match serde_json::to_writer(&mut counter, value) {
        Ok(()) => counter.0,
        Err(_) => u64::MAX,
    }
}

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
