//! How long text gets as JSON, for tools that cut what would not fit a result or a reply.

use serde::Serialize;

use crate::reply::RESULT_BYTES_MAX;

/// What one text of a result may take as JSON: room is left for everything else.
pub const TEXT_JSON_BYTES_MAX: usize = RESULT_BYTES_MAX - 65_536;

/// What one text of a result may take in a reply that the host does not cut, where it says nothing
/// else about the size of replies: room is left for the other fields.
pub const REPLY_TEXT_BYTES_MAX: usize = 65_000;

/// How many bytes of `text` have a JSON form of at most `json_bytes_max` bytes.
#[must_use]
pub fn fitting(text: &str, json_bytes_max: usize) -> usize {
    fitting_by(text, json_bytes_max, bytes_of)
}

/// How many bytes of `text` a reply holds whole. A structured result is there twice: as JSON, and
/// as a text that holds that JSON.
#[must_use]
pub fn fitting_reply(text: &str) -> usize {
    fitting_by(text, REPLY_TEXT_BYTES_MAX, |letter| bytes_of(letter) + bytes_in_text_of(letter))
}

/// How many bytes of the end of `text` a reply holds whole, as [`fitting_reply`] says it of its beginning.
#[must_use]
pub fn fitting_reply_end(text: &str) -> usize {
    let mut left = REPLY_TEXT_BYTES_MAX;
    for (at, letter) in text.char_indices().rev() {
        match left.checked_sub(bytes_of(letter) + bytes_in_text_of(letter)) {
            Some(rest) => left = rest,
            None => return text.len() - at - letter.len_utf8(),
        }
    }
    text.len()
}

/// What is left of a reply for the items of a list: the host does not cut a list that fits.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    bytes: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self { bytes: REPLY_TEXT_BYTES_MAX }
    }
}

impl Room {
    /// Takes what `item` takes in a reply, which holds it twice, and says whether there is so much.
    pub fn takes(&mut self, item: &impl Serialize) -> bool {
        let json = serde_json::to_string(item).unwrap_or_default();
        // Each with the comma behind it.
        let bytes = json.len() + json.chars().map(bytes_of).sum::<usize>() + 2;
        let left = self.bytes.checked_sub(bytes);
        self.bytes = left.unwrap_or(0);
        left.is_some()
    }
}

fn fitting_by(text: &str, bytes_max: usize, bytes_of: fn(char) -> usize) -> usize {
    let mut left = bytes_max;
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

/// Bytes of one character inside a JSON string inside another: an escape is escaped again.
fn bytes_in_text_of(letter: char) -> usize {
    match letter {
        '"' | '\\' => 4,
        other if other.is_ascii_control() && other != '\u{7f}' => bytes_of(other) + 1,
        other => other.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_is_as_long_as_it_is_written() {
        for letter in ('\0'..='\u{ff}').chain(['€', '𝄞']) {
            let json = serde_json::to_string(&letter).unwrap();
            let in_text = serde_json::to_string(&json).unwrap();
            // Its own quotes, and their escapes and the quotes around them.
            let bytes = (json.len() - 2, in_text.len() - 6);
            assert_eq!((bytes_of(letter), bytes_in_text_of(letter)), bytes, "{letter:?}");
        }
    }

    #[test]
    fn as_much_of_the_end_of_a_text_fits_as_of_its_beginning() {
        for letter in ["a", "é", "\"", "\n", "\u{1}"] {
            let text = letter.repeat(REPLY_TEXT_BYTES_MAX);
            assert_eq!(fitting_reply_end(&text), fitting_reply(&text), "{letter:?}");
        }
        assert_eq!(fitting_reply_end("aé"), 3);
    }

    #[test]
    fn items_that_there_is_room_for_fit_a_reply_and_fill_it() {
        for item in ["a".to_owned(), "\"\n\u{1}é".repeat(20)] {
            let mut room = Room::default();
            let items: Vec<_> = std::iter::repeat_n(&item, REPLY_TEXT_BYTES_MAX)
                .take_while(|item| room.takes(*item))
                .collect();
            let json = serde_json::to_string(&items).unwrap();
            let bytes = json.len() + serde_json::to_string(&json).unwrap().len();
            let most = REPLY_TEXT_BYTES_MAX + "[]\"[]\"".len();
            assert!(bytes <= most && bytes > most - 600, "{item:?}: {bytes}");
            assert!(!room.takes(&""), "what has no room is the last");
        }
    }
}
