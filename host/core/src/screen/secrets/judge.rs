//! Whether what follows a beginning is a credential, and how far it reaches.

use std::collections::BTreeMap;
use std::ops::Range;

use super::table::{Alphabet, Kind};

/// A value under a telling name is no shorter: shorter ones are words and examples.
const VALUE_BYTES_MIN: usize = 8;
/// Nor longer: that is a text.
const VALUE_BYTES_MAX: usize = 256;
/// A token behind an authentication scheme is no shorter.
const BEARER_BYTES_MIN: usize = 20;
/// Bits of each character of something random: `hunter2hunter2` has 2.8, English words 3 to
/// 3.5 but no digits, sixteen random letters and digits nearly 4.
const VALUE_BITS_MIN: f64 = 2.5;
/// The same for a token that begins like an ordinary word.
const RANDOM_BITS_MIN: f64 = 3.5;
/// The last line of a block lies no further away than this.
const BLOCK_BYTES_MAX: usize = 65_536;
/// White space between a name, its `=` and its value is no longer.
const GAP_BYTES_MAX: usize = 8;

/// Returns where the credential is that begins with `hit`, if it is one.
pub(super) fn extent(kind: &Kind, text: &str, hit: Range<usize>) -> Option<Range<usize>> {
    match *kind {
        Kind::Assigned => assigned(text, hit.end),
        Kind::Bearer => bearer(text, hit),
        Kind::Block => block(text, hit),
        Kind::Jwt => jwt(text, hit.start),
        Kind::Token { of, least, most, random } => token(text, hit, of, least..=most, random),
        Kind::Url => url(text, hit.end),
    }
}

fn token(
    text: &str,
    hit: Range<usize>,
    of: Alphabet,
    long: std::ops::RangeInclusive<usize>,
    random: bool,
) -> Option<Range<usize>> {
    if is_inside_word(text, hit.start, of) {
        return None;
    }
    let rest = run(text, hit.end, |byte| of.has(byte));
    let looks_random = || bits(rest) >= RANDOM_BITS_MIN && has_digit(rest);
    let is_one = long.contains(&rest.len()) && !is_example(rest) && (!random || looks_random());
    is_one.then_some(hit.start..hit.end + rest.len())
}

fn bearer(text: &str, hit: Range<usize>) -> Option<Range<usize>> {
    if is_inside_word(text, hit.start, Alphabet::Words) {
        return None;
    }
    let is_token = |byte: u8| Alphabet::Dotted.has(byte) || matches!(byte, b'+' | b'=' | b'~');
    let token = run(text, hit.end, is_token);
    let is_one =
        token.len() >= BEARER_BYTES_MIN && has_digit(token) && bits(token) >= VALUE_BITS_MIN;
    is_one.then_some(hit.end..hit.end + token.len())
}

fn block(text: &str, hit: Range<usize>) -> Option<Range<usize>> {
    let line = run(text, hit.end, |byte| {
        byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b' '
    });
    let begun = hit.end + line.len();
    let is_one = line.ends_with("PRIVATE KEY") && text.get(begun..)?.starts_with("-----");
    if !is_one {
        return None;
    }
    let near = text.get(begun..text.floor_char_boundary(begun.saturating_add(BLOCK_BYTES_MAX)))?;
    // Cut off or too long, all of it that is near goes.
    let end = near.find("-----END ").map_or(near.len(), |last| {
        let label = near.get(last + 9..).unwrap_or_default();
        last + 9 + label.find("-----").map_or(0, |end| end + 5)
    });
    Some(hit.start..begun + end)
}

fn jwt(text: &str, start: usize) -> Option<Range<usize>> {
    let is_part = |byte: u8| Alphabet::Dashed.has(byte) || byte == b'.';
    if is_preceded_by(text, start, is_part) {
        return None;
    }
    let token = run(text, start, is_part).trim_end_matches('.');
    let mut parts = token.split('.');
    let head = parts.next().is_some_and(|part| part.starts_with("eyJ") && part.len() >= 12);
    let body = parts.next().is_some_and(|part| part.starts_with("eyJ") && part.len() >= 8);
    let seal = parts.next().is_some_and(|part| part.len() >= 16);
    (head && body && seal && parts.next().is_none()).then_some(start..start + token.len())
}

/// A password of an address ends at its last `@` before the path.
fn url(text: &str, start: usize) -> Option<Range<usize>> {
    let authority =
        run(text, start, |byte| byte.is_ascii_graphic() && !b"/?#\"'<>\\`".contains(&byte));
    let user = authority.get(..authority.rfind('@')?)?;
    let (name, password) = user.split_once(':')?;
    let at = start + name.len() + 1;
    is_value(password).then_some(at..at + password.len())
}

/// `name = "value"`, in the ways that programs, files and JSON inside of text write it.
fn assigned(text: &str, end: usize) -> Option<Range<usize>> {
    let rest = text.get(end..)?;
    let quoted = skip(rest, |byte| matches!(byte, b'"' | b'\'' | b'\\' | b'`'));
    let spaced = skip(quoted, |byte| matches!(byte, b' ' | b'\t'));
    let joined = spaced.strip_prefix([':', '='])?;
    let joined = joined.strip_prefix(['=', '>']).unwrap_or(joined);
    let opened = skip(joined, |byte| matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'\\' | b'`'));
    let start = text.len() - opened.len();
    let is_value_byte =
        |byte: u8| !byte.is_ascii_whitespace() && !b"\"'`\\,;<>(){}[]&".contains(&byte);
    // One more than may be: names that follow each other are not read to the end each time.
    let near = text.get(..text.floor_char_boundary(start + VALUE_BYTES_MAX + 1))?;
    let value = run(near, start, is_value_byte);
    is_value(value).then_some(start..start + value.len())
}

/// Says whether what stands under a telling name is a credential rather than a word about one.
pub(super) fn is_value(value: &str) -> bool {
    (VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&value.len())
        && !value.contains(char::is_whitespace)
        && has_digit(value)
        && value.contains(|c: char| c.is_alphabetic())
        && bits(value) >= VALUE_BITS_MIN
        && !value.starts_with(['$', '<', '{', '%', '[', '/', '.', '~'])
        && !value.contains("://")
        && !is_example(value)
}

/// Examples of documents say so.
fn is_example(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    ["example", "xxxx", "****", "placeholder", "redacted", "your_", "your-", "changeme"]
        .iter()
        .any(|word| lower.contains(word))
}

/// Skips a few bytes; where there are more, the text is of another kind.
fn skip(text: &str, of: impl Fn(u8) -> bool) -> &str {
    let skipped = text.bytes().take(GAP_BYTES_MAX).take_while(|byte| of(*byte)).count();
    text.get(skipped..).unwrap_or_default()
}

/// Returns the longest text from `start` on whose bytes are all `of` that kind.
fn run(text: &str, start: usize, of: impl Fn(u8) -> bool) -> &str {
    let rest = text.as_bytes().get(start..).unwrap_or_default();
    let len = rest.iter().take_while(|byte| of(**byte)).count();
    text.get(start..start + len).unwrap_or_default()
}

/// A beginning in the middle of a word is none: this also keeps a long word from being
/// looked at once for each place in it.
fn is_inside_word(text: &str, start: usize, of: Alphabet) -> bool {
    is_preceded_by(text, start, |byte| of.has(byte) || byte.is_ascii_alphanumeric())
}

fn is_preceded_by(text: &str, start: usize, is: impl Fn(u8) -> bool) -> bool {
    let before = start.checked_sub(1).and_then(|at| text.as_bytes().get(at));
    before.is_some_and(|byte| is(*byte))
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

/// Returns Shannon's entropy of the bytes, in bits each.
fn bits(text: &str) -> f64 {
    let mut counts: BTreeMap<u8, u32> = BTreeMap::new();
    text.bytes().for_each(|byte| *counts.entry(byte).or_default() += 1);
    let all: f64 = counts.values().copied().map(f64::from).sum();
    counts
        .values()
        .copied()
        .map(|count| f64::from(count) / all)
        .map(|share| -share * share.log2())
        .sum()
}
