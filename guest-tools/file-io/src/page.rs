//! One piece of a file, as text that fits a reply: what the host would cut off could not be asked
//! for again.

use claw_tool::json::{REPLY_TEXT_BYTES_MAX, fitting_reply};
use claw_tool::{ToolError, fs};

/// The most that one piece has: a reply holds it twice.
const PIECE_BYTES_MAX: usize = REPLY_TEXT_BYTES_MAX / 2;

/// The least that a caller may ask for: the longest character, so that each piece gets further.
const LIMIT_BYTES_MIN: usize = 4;

/// A piece that ends between two characters.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Page {
    /// Its text.
    pub(crate) text: String,
    /// Where the next one begins.
    pub(crate) next: u64,
}

/// Returns how many bytes to read where `asked` were asked for.
pub(crate) fn limit(asked: u64) -> Result<usize, ToolError> {
    match usize::try_from(asked).unwrap_or(usize::MAX) {
        0 => Ok(PIECE_BYTES_MAX),
        asked if asked < LIMIT_BYTES_MIN => Err(ToolError::invalid_args(format!(
            "limit is under {LIMIT_BYTES_MIN} bytes, and one character may be that long"
        ))),
        asked => Ok(asked.min(PIECE_BYTES_MAX)),
    }
}

/// Cuts `bytes`, which stand at `offset` of a file of `size` bytes, behind the last character that
/// is whole and fits.
pub(crate) fn cut(path: &str, bytes: Vec<u8>, offset: u64, size: u64) -> Result<Page, ToolError> {
    let ends = offset.saturating_add(bytes.len() as u64) >= size;
    let mut text = match String::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) if error.utf8_error().error_len().is_none() && !ends => {
            let whole = error.utf8_error().valid_up_to();
            let mut bytes = error.into_bytes();
            bytes.truncate(whole);
            String::from_utf8(bytes).unwrap_or_default()
        }
        Err(error) => {
            let wrong = offset.saturating_add(error.utf8_error().valid_up_to() as u64);
            return Err(fs::no_text(path, wrong));
        }
    };
    text.truncate(fitting_reply(&text));
    let next = offset.saturating_add(text.len() as u64);
    Ok(Page { text, next })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_are_together_the_whole() {
        let whole = "aé€𝄞\n".repeat(3);
        for limit in 4..=whole.len() {
            let (mut read, mut offset) = (String::new(), 0);
            while offset < whole.len() {
                let end = whole.len().min(offset + limit);
                let piece = whole.as_bytes()[offset..end].to_vec();
                let page = cut("f", piece, offset as u64, whole.len() as u64).unwrap();
                assert!(page.next > offset as u64, "{limit}");
                read += &page.text;
                offset = usize::try_from(page.next).unwrap();
            }
            assert_eq!(read, whole, "{limit}");
        }
    }

    #[test]
    fn what_is_no_text_is_named_by_its_offset() {
        let why = |bytes: &[u8], offset, size| match cut("f", bytes.to_vec(), offset, size) {
            Err(ToolError::ExecutionFailed(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(why(b"a\xffb", 10, 20).contains("offset 11"));
        assert!(why(b"\xa9b", 1, 20).contains("offset 1"), "the middle of a character");
        assert!(why(b"a\xc3", 0, 2).contains("offset 1"), "a file that ends within one");
    }

    #[test]
    fn a_piece_fits_a_reply_whatever_it_holds() {
        for (byte, in_reply) in [(b'a', 2), (b'"', 6), (b'\n', 5), (1, 13)] {
            let page = cut("f", vec![byte; PIECE_BYTES_MAX], 0, 1 << 30).unwrap();
            assert_eq!(page.text.len(), REPLY_TEXT_BYTES_MAX / in_reply, "{byte}");
        }
    }

    #[test]
    fn a_limit_is_at_least_a_character_and_at_most_a_reply() {
        assert!(limit(3).is_err());
        assert_eq!(limit(4).unwrap(), 4);
        for much in [0, u64::MAX] {
            assert_eq!(limit(much).unwrap(), PIECE_BYTES_MAX);
        }
    }
}
