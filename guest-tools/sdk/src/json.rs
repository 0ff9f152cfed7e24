//! How long text gets as JSON, for tools that cut what would not fit a result.

use crate::reply::RESULT_BYTES_MAX;

/// What one text of a result may take as JSON: room is left for everything else.
pub const TEXT_JSON_BYTES_MAX: usize = RESULT_BYTES_MAX - 65_536;

/// How many bytes of `text` have a JSON form of at most `json_bytes_max` bytes.
#[must_use]
pub fn fitting(text: &str, json_bytes_max: usize) -> usize {
    let mut left = json_bytes_max;
    for (at, letter) in text.char_indices() {
        match left.checked_sub(bytes_of(letter)) {
            Some(rest) => left = rest,
            None => return at,
        }
    }
    text.len()
}

/// Bytes of one character inside a JSON string.
#[must_use]
pub fn bytes_of(letter: char) -> usize {
    match letter {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}
