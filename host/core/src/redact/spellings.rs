//! The spellings of one value that are searched for.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

use super::layers::{Layer, MARKS};
use crate::digest;

/// Returns every text that gives `value` away, each once.
pub(super) fn spellings(value: &[u8]) -> Vec<Vec<u8>> {
    let mut texts = vec![value.to_vec()];
    // What a form makes of blanks; everything else of it is a layer of percent-encoding.
    texts.push(value.iter().map(|byte| if *byte == b' ' { b'+' } else { *byte }).collect());
    // What is left of a value that looks escaped itself once a layer around it is undone.
    for marks in std::iter::once(MARKS).chain(MARKS.chunks(1)) {
        texts.extend(Layer::whole(value).peel(marks).map(|layer| layer.bytes().to_vec()));
    }
    // An apostrophe as shells have it between two of theirs, and what is left of the first of
    // these once a layer around it is undone.
    if value.contains(&b'\'') {
        let quotes: [&[u8]; 3] = [br"'\''", br#"'"'"'"#, b"'''"];
        let parts: Vec<&[u8]> = value.split(|byte| *byte == b'\'').collect();
        texts.extend(quotes.map(|quote| parts.join(quote)));
    }
    // Systems and protocols end lines in two ways, and a private key has many.
    let lines: Vec<&[u8]> = value.split(|byte| *byte == b'\n').collect();
    let lines: Vec<&[u8]> =
        lines.into_iter().map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
    if lines.len() > 1 {
        let ends: [&[u8]; 2] = [b"\n", b"\r\n"];
        texts.extend(ends.map(|end| lines.join(end)));
    }
    // UTF-16, in either order of its bytes.
    let wide: Vec<u8> = value.iter().flat_map(|byte| [*byte, 0]).collect();
    let wide = wide.strip_suffix(&[0]).filter(|_| value.is_ascii());
    texts.extend(wide.map(<[u8]>::to_vec));
    // UTF-32, in either order as well.
    let wider: Vec<u8> = value.iter().flat_map(|byte| [*byte, 0, 0, 0]).collect();
    texts.extend(wider.strip_suffix(&[0; 3]).filter(|_| value.is_ascii()).map(<[u8]>::to_vec));
    for bytes in std::iter::once(value).chain(wide) {
        for before in 0..3 {
            texts.push(inside_base64(before, bytes, |bytes| STANDARD_NO_PAD.encode(bytes)));
            texts.push(inside_base64(before, bytes, |bytes| URL_SAFE_NO_PAD.encode(bytes)));
        }
        texts.push(digest::hex(bytes).into_bytes());
    }
    texts.sort_unstable();
    texts.dedup();
    texts
}

/// Returns the characters that `value` alone decides in the base64 of any text that has it
/// behind `before` bytes (modulo three): those at its ends that it shares with its neighbours
/// are left out.
fn inside_base64(before: usize, value: &[u8], encode: impl Fn(&[u8]) -> String) -> Vec<u8> {
    let mut bytes = vec![0; before];
    bytes.extend_from_slice(value);
    let text = encode(&bytes).into_bytes();
    let first = (before * 8).div_ceil(6);
    let end = bytes.len() * 8 / 6;
    text.get(first..end).unwrap_or_default().to_vec()
}
