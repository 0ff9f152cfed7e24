//! Reading a text as whoever decodes it will: percent-encoding, backslash escapes and HTML
//! entities undone, with every byte's place in the original kept.

use std::borrow::Cow;
use std::ops::Range;

/// What begins an escape.
pub(super) const MARKS: &[u8] = b"%\\&";
/// The longest escape: an entity of ten digits. Two units of UTF-16 are one byte shorter.
const ESCAPE_BYTES_MAX: usize = 13;

/// A text without none, one or several of its layers of escapes.
pub(crate) struct Layer<'t> {
    bytes: Cow<'t, [u8]>,
    /// From this decoded byte on, bytes stand in the original from that place on, one for one.
    /// In order of both.
    jumps: Vec<(usize, usize)>,
    /// Where the decoded bytes end in an escape the rest of which may be yet to come.
    open: Option<usize>,
}

/// One escape: what it stands for, and its own length.
struct Escape {
    bytes: [u8; 4],
    decoded_len: usize,
    len: usize,
}

impl<'t> Layer<'t> {
    /// Returns `text` as it is.
    pub(super) fn whole(text: &'t [u8]) -> Self {
        Self { bytes: Cow::Borrowed(text), jumps: vec![(0, 0)], open: None }
    }

    /// Undoes the escapes that begin with one of `marks`, or returns none where there are none;
    /// places are still those of the original.
    pub(super) fn peel(&self, marks: &[u8]) -> Option<Layer<'static>> {
        let mut next = Layer { bytes: Cow::Owned(Vec::new()), jumps: vec![(0, 0)], open: None };
        let mut at = 0;
        while let Some(rest) = self.bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let plain = rest.iter().position(|byte| marks.contains(byte));
            let plain = plain.unwrap_or(rest.len());
            next.bytes.to_mut().extend_from_slice(rest.get(..plain).unwrap_or_default());
            at += plain;
            at += next.take_escape(rest.get(plain..).unwrap_or_default(), at);
        }
        let changed = next.jumps.len() > 1 || next.open.is_some();
        next.jumps = self.jumps_through(&next);
        changed.then_some(next)
    }

    /// Leaves out an escape at the end that may go on.
    pub(super) fn leave_open(&mut self) {
        let kept = self.open.unwrap_or(self.bytes.len());
        self.bytes.to_mut().truncate(kept);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns where the decoded bytes `at` stand in the original.
    pub(crate) fn source(&self, at: Range<usize>) -> Range<usize> {
        self.place(at.start)..self.place(at.end)
    }

    pub(super) fn place(&self, at: usize) -> usize {
        let behind = self.jumps.partition_point(|(decoded, _)| *decoded <= at);
        let jump = behind.checked_sub(1).and_then(|index| self.jumps.get(index));
        jump.map_or(at, |(decoded, source)| source + (at - decoded))
    }

    /// The places of `next`, which was made from this layer, in the original: one more jump
    /// for each of this layer's that lies inside a stretch of the next.
    fn jumps_through(&self, next: &Layer<'_>) -> Vec<(usize, usize)> {
        let mut jumps = Vec::new();
        for (index, (decoded, from)) in next.jumps.iter().enumerate() {
            // Where the text ends in an escape, the place behind it is a jump as well.
            let behind = next.bytes.len() + 1;
            let end = next.jumps.get(index + 1).map_or(behind, |(end, _)| *end);
            jumps.push((*decoded, self.place(*from)));
            let inside = *from + 1..*from + (end - decoded);
            let first = self.jumps.partition_point(|(at, _)| *at < inside.start);
            let own = self.jumps.iter().skip(first).take_while(|(at, _)| inside.contains(at));
            jumps.extend(own.map(|(at, source)| (decoded + (at - from), *source)));
        }
        jumps
    }

    /// Takes what stands at the start of `rest`, which begins with a mark of escapes (or is
    /// empty), and returns its length; a mark that escapes nothing stands for itself.
    fn take_escape(&mut self, rest: &[u8], at: usize) -> usize {
        let Some(first) = rest.first() else {
            return 0;
        };
        let escape = escape(rest);
        let is_open = if escape.is_some() { may_grow(rest) } else { may_go_on(rest) };
        if self.open.is_none() && is_open {
            self.open = Some(self.bytes.len());
        }
        let Some(escape) = escape else {
            self.bytes.to_mut().push(*first);
            return 1;
        };
        // What is before it stands one for one up to here, so that one jump for each is enough.
        self.bytes.to_mut().extend(escape.bytes.iter().take(escape.decoded_len));
        self.jumps.push((self.bytes.len(), at + escape.len));
        escape.len
    }
}

/// Returns whether `text`, which begins with a mark and is no escape, could become one.
fn may_go_on(text: &[u8]) -> bool {
    let inside = |byte: &u8| byte.is_ascii_alphanumeric() || b"#{\\".contains(byte);
    text.len() < ESCAPE_BYTES_MAX && text.iter().skip(1).all(inside)
}

/// Returns whether `text`, which begins with an escape, could become another one: octal digits
/// are one to three.
fn may_grow(text: &[u8]) -> bool {
    text.len() < 4 && text.starts_with(b"\\") && text.iter().skip(1).all(is_octal)
}

const fn is_octal(byte: &u8) -> bool {
    matches!(*byte, b'0'..=b'7')
}

fn escape(text: &[u8]) -> Option<Escape> {
    match text {
        [b'%', high, low, ..] => Some(byte(digit(*high)? << 4 | digit(*low)?, 3)),
        [b'\\', b'x', high, low, ..] => Some(byte(digit(*high)? << 4 | digit(*low)?, 4)),
        [b'\\', b'u', rest @ ..] => unicode(rest),
        [b'\\', b'U', digits @ ..] => character(number(digits.get(..8)?)?, 10),
        [b'\\', b'0'..=b'7', ..] => octal(text.get(1..)?),
        [b'\\', other, ..] => Some(byte(short(*other)?, 2)),
        [b'&', rest @ ..] => entity(rest),
        _ => None,
    }
}

/// `\n` and its like; whatever is no letter or digit stands for itself.
fn short(letter: u8) -> Option<u8> {
    match letter {
        b'a' => Some(7),
        b'b' => Some(8),
        b'e' => Some(27),
        b'f' => Some(12),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        b'v' => Some(11),
        other => (other.is_ascii_punctuation() || other == b' ').then_some(other),
    }
}

/// A byte in one to three octal digits, as shells and C have it. `\0` before fewer than two more
/// stands alone, as Rust and JavaScript have it.
fn octal(digits: &[u8]) -> Option<Escape> {
    let count = digits.iter().take(3).take_while(|digit| is_octal(digit)).count();
    let len = if digits.starts_with(b"0") && count < 3 { 1 } else { count };
    let add = |sum: u16, digit: &u8| sum << 3 | u16::from(digit - b'0');
    let value = digits.iter().take(len).fold(0, add);
    Some(byte(u8::try_from(value).ok()?, len + 1))
}

/// `\u` with four digits, two of these for a character beyond them, or with digits in braces.
fn unicode(rest: &[u8]) -> Option<Escape> {
    if let [b'{', digits @ ..] = rest {
        let len = digits.iter().position(|byte| *byte == b'}').filter(|len| *len <= 6)?;
        return character(number(digits.get(..len)?)?, len + 4);
    }
    let unit = number(rest.get(..4)?)?;
    match (unit, rest.get(4..10)) {
        (0xd800..=0xdbff, Some([b'\\', b'u', digits @ ..])) => {
            let low = number(digits)?.checked_sub(0xdc00).filter(|low| *low < 0x400)?;
            character(0x10000 + ((unit - 0xd800) << 10) + low, 12)
        }
        _ => character(unit, 6),
    }
}

/// The name or number of an HTML entity, up to its semicolon: those that escaping makes.
fn entity(rest: &[u8]) -> Option<Escape> {
    let len = rest.iter().take(ESCAPE_BYTES_MAX - 1).position(|byte| *byte == b';')?;
    let code = match rest.get(..len)? {
        b"amp" => u32::from(b'&'),
        b"apos" => u32::from(b'\''),
        b"gt" => u32::from(b'>'),
        b"lt" => u32::from(b'<'),
        b"quot" => u32::from(b'"'),
        [b'#', b'x' | b'X', digits @ ..] if digits.len() <= 8 => number(digits)?,
        [b'#', digits @ ..] => std::str::from_utf8(digits).ok()?.parse().ok()?,
        _ => return None,
    };
    character(code, len + 2)
}

fn character(number: u32, len: usize) -> Option<Escape> {
    let character = char::from_u32(number)?;
    let mut bytes = [0; 4];
    let decoded_len = character.encode_utf8(&mut bytes).len();
    Some(Escape { bytes, decoded_len, len })
}

fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |sum, byte| Some(sum << 4 | u32::from(digit(*byte)?)))
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

const fn byte(value: u8, len: usize) -> Escape {
    Escape { bytes: [value, 0, 0, 0], decoded_len: 1, len }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_escape_is_remembered_once() {
        let text = br"%25\u0041&amp;x".repeat(100);
        let layer = Layer::whole(&text).peel(MARKS).unwrap();
        assert_eq!(layer.bytes(), b"%A&x".repeat(100));
        assert_eq!(layer.jumps.len(), 1 + 300);
        let places: Vec<usize> = (0..=8).map(|at| layer.place(at)).collect();
        assert_eq!(places, [0, 3, 9, 14, 15, 18, 24, 29, 30]);
    }
}
