//! Text inside of text, in base64.
//!
//! Deliberately absent: base64 in base64, base64 that is wrapped into lines (each line is read
//! alone), and what begins in the middle of a group of four.

use std::ops::Range;

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::DecodePaddingMode::RequireNone;
use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};

/// Less is no text that anything is found in.
const ENCODED_BYTES_MIN: usize = 16;

const LENIENT: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_allow_trailing_bits(true)
    .with_decode_padding_mode(RequireNone);
static USUAL: GeneralPurpose = GeneralPurpose::new(&STANDARD, LENIENT);
static OF_ADDRESSES: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, LENIENT);

/// Shows `see` every text in `text` that is base64 of a text, and where it stands.
pub(super) fn texts(text: &str, see: &mut dyn FnMut(Range<usize>, &str)) {
    let mut start = 0;
    for run in text.as_bytes().chunk_by(|one, next| is_base64(*one) == is_base64(*next)) {
        let end = start + run.len();
        if run.len() >= ENCODED_BYTES_MIN
            && run.first().is_some_and(|byte| is_base64(*byte))
            && let Some(inner) = decoded(run)
        {
            let rest = text.as_bytes().get(end..).unwrap_or_default();
            let padding = rest.iter().take(2).take_while(|byte| **byte == b'=').count();
            see(start..end + padding, &inner);
        }
        start = end;
    }
}

const fn is_base64(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_')
}

/// Returns the text that `run` encodes, if it is one.
fn decoded(run: &[u8]) -> Option<String> {
    // One character more than groups of four have says nothing.
    let run = run.get(..run.len() - usize::from(run.len() % 4 == 1))?;
    let is_url = run.iter().any(|byte| matches!(byte, b'-' | b'_'));
    let engine = if is_url { &OF_ADDRESSES } else { &USUAL };
    let is_plain = |byte: &u8| !byte.is_ascii_control() || byte.is_ascii_whitespace();
    // Most of what looks like base64 is none, which shows at once.
    let begins = engine.decode(run.get(..ENCODED_BYTES_MIN)?).ok()?;
    let inner = begins.iter().all(is_plain).then(|| engine.decode(run).ok()).flatten()?;
    String::from_utf8(inner).ok().filter(|inner| inner.bytes().all(|byte| is_plain(&byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::{STANDARD as PADDED, URL_SAFE_NO_PAD};

    fn found(text: &str) -> Vec<(String, String)> {
        let mut found = Vec::new();
        texts(text, &mut |at, inner| found.push((text[at].to_owned(), inner.to_owned())));
        found
    }

    #[test]
    fn text_is_found_with_its_padding_and_in_both_alphabets() {
        for inner in ["mail me: a@b.test", "käse und brot?>", "one two three 4"] {
            for encoded in [PADDED.encode(inner), URL_SAFE_NO_PAD.encode(inner)] {
                for text in [encoded.clone(), format!("x:\"{encoded}\", y")] {
                    assert_eq!(found(&text), [(encoded.clone(), inner.to_owned())]);
                }
            }
        }
    }

    #[test]
    fn what_is_no_text_is_left_alone() {
        let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        let picture = PADDED.encode(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01");
        for text in ["", "a short word", "a_rather_long_name_of_a_function", digest, &picture] {
            assert_eq!(found(text), [], "{text}");
        }
    }
}
