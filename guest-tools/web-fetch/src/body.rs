//! A body as text that fits a result.

use claw_tool::json::{bytes_of, fitting};

/// What a body became.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decoded {
    /// The text.
    pub(crate) text: String,
    /// Whether bytes that are not UTF-8 were replaced.
    pub(crate) replaced: bool,
    /// Whether the text ends before the body does.
    pub(crate) cut: bool,
}

/// Decodes `body`, ending where its JSON form would pass `json_bytes_max`.
pub(crate) fn decode(body: Vec<u8>, json_bytes_max: usize) -> Decoded {
    match String::from_utf8(body) {
        Ok(mut text) => {
            let end = fitting(&text, json_bytes_max);
            let cut = end < text.len();
            text.truncate(end);
            Decoded { text, replaced: false, cut }
        }
        Err(error) => decode_lossily(error.as_bytes(), json_bytes_max),
    }
}

/// Piece by piece, because replacing can treble the size.
fn decode_lossily(body: &[u8], json_bytes_max: usize) -> Decoded {
    let mut decoded = Decoded { text: String::new(), replaced: true, cut: false };
    let mut left = json_bytes_max;
    for chunk in body.utf8_chunks() {
        let end = if chunk.invalid().is_empty() { "" } else { "\u{FFFD}" };
        for piece in [chunk.valid(), end] {
            let fits = fitting(piece, left);
            let (kept, rest) = piece.split_at_checked(fits).unwrap_or((piece, ""));
            decoded.text.push_str(kept);
            left -= kept.chars().map(bytes_of).sum::<usize>().min(left);
            if !rest.is_empty() {
                return Decoded { cut: true, ..decoded };
            }
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(body: &[u8], max: usize) -> (String, bool, bool) {
        let Decoded { text, replaced, cut } = decode(body.to_vec(), max);
        (text, replaced, cut)
    }

    #[test]
    fn text_stays_text() {
        assert_eq!(decoded("grün".as_bytes(), 100), ("grün".to_owned(), false, false));
        assert_eq!(decoded(b"", 0), (String::new(), false, false));
    }

    #[test]
    fn wrong_bytes_are_replaced() {
        assert_eq!(decoded(b"a\xffb", 100), ("a\u{FFFD}b".to_owned(), true, false));
        assert_eq!(decoded(b"a\xff\xffb", 4), ("a\u{FFFD}".to_owned(), true, true));
    }

    #[test]
    fn the_json_form_is_what_is_bounded() {
        assert_eq!(decoded(b"a\"b", 3), ("a\"".to_owned(), false, true));
        assert_eq!(decoded(b"\0\0", 6), ("\0".to_owned(), false, true));
        assert_eq!(decoded("öö".as_bytes(), 3), ("ö".to_owned(), false, true));
        for max in 0..20 {
            let text = decode(b"a\x01\"\n\xff\xc3\xb6".to_vec(), max).text;
            let json: usize = text.chars().map(bytes_of).sum();
            assert!(json <= max, "{max}: {text:?}");
        }
    }
}
