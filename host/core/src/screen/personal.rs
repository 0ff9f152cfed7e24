//! Data about people, and addresses inside of a network: shapes that a regular expression finds,
//! judged by what they say and by what stands around them.
//!
//! A card's number has to pass Luhn's sum and an account's its own; a number that is part of a
//! longer word, id, version or time is none. Every expression is matched in time linear in the
//! text. Deliberately absent: names and postal addresses of people, for which there is no shape;
//! numbers of a country that are written without their prefix, but for North America's and those
//! that stand behind a word such as `phone`.

mod address;
mod number;

use std::borrow::Cow;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::filters::{INTERNAL_ENDPOINTS, PERSONAL_DATA, Wanted};
use super::find::See;

pub(super) const EMAIL: &str = "email";
pub(super) const PHONE: &str = "phone";
pub(super) const SSN: &str = "ssn";
pub(super) const CARD: &str = "card";
pub(super) const IBAN: &str = "iban";
pub(super) const IP: &str = "ip";
pub(super) const PRIVATE_IP: &str = "private ip";
pub(super) const INTERNAL_HOST: &str = "internal host";
pub(super) const LOCAL_PORT: &str = "local port";

/// What is found here, and the check that it belongs to.
pub(super) const KINDS: [(&str, &str); 9] = [
    (PERSONAL_DATA, EMAIL),
    (PERSONAL_DATA, PHONE),
    (PERSONAL_DATA, SSN),
    (PERSONAL_DATA, CARD),
    (PERSONAL_DATA, IBAN),
    (PERSONAL_DATA, IP),
    (INTERNAL_ENDPOINTS, PRIVATE_IP),
    (INTERNAL_ENDPOINTS, INTERNAL_HOST),
    (INTERNAL_ENDPOINTS, LOCAL_PORT),
];

/// Something that an expression matched, in its text: what it is, if it is anything.
type Judge = fn(&str, Range<usize>) -> Option<(&'static str, Range<usize>)>;

/// One shape.
struct Shape {
    kinds: &'static [&'static str],
    regex: &'static str,
    judge: Judge,
    /// Where the whole is nothing, what begins further on in it may be.
    inner: bool,
}

const SHAPES: [Shape; 10] = [
    Shape {
        kinds: &[EMAIL],
        regex: r"[A-Za-z0-9._%+'-]+@(?:[A-Za-z0-9-]+\.)+[A-Za-z]{2,24}",
        judge: address::email,
        inner: false,
    },
    Shape {
        kinds: &[PHONE],
        regex: r"\+[1-9][0-9]{0,3}(?:[ .()/-]{0,2}[0-9]{1,12}){1,7}",
        judge: number::international,
        inner: false,
    },
    Shape {
        kinds: &[PHONE],
        regex: r"(?:1[ .-])?(?:\([2-9][0-9]{2}\)[ .-]?|[2-9][0-9]{2}[ .-])[0-9]{3}[ .-][0-9]{4}",
        judge: number::american,
        inner: true,
    },
    Shape {
        kinds: &[PHONE],
        regex: r#"(?i)(?:phone|telephone|tel|mobile|cell|fax|whatsapp)(?:[ _-]?(?:number|num|nr|no))?[.]?["']?[ :=#]{1,4}["']?\(?[0-9][0-9 ().-]{7,18}"#,
        judge: number::named_phone,
        inner: false,
    },
    Shape { kinds: &[SSN], regex: r"[0-9]{3}-[0-9]{2}-[0-9]{4}", judge: number::ssn, inner: true },
    Shape {
        kinds: &[SSN],
        regex: r#"(?i)(?:ssn|social[ _]security(?:[ _](?:number|no))?)[.]?["']?[ :=#]{1,4}["']?[0-9]{3}[ -]?[0-9]{2}[ -]?[0-9]{4}"#,
        judge: number::ssn,
        inner: false,
    },
    Shape {
        kinds: &[CARD],
        regex: r"[0-9](?:[ -]?[0-9]){12,18}",
        judge: number::card,
        inner: true,
    },
    Shape {
        kinds: &[IBAN],
        regex: r"[A-Z]{2}[0-9]{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?",
        judge: number::iban,
        inner: true,
    },
    Shape {
        kinds: &[IP, PRIVATE_IP, LOCAL_PORT],
        regex: r"(?i)(?:localhost|\[::1\]|[0-9]{1,3}(?:\.[0-9]{1,3}){3}|[0-9a-f]{0,4}(?::[0-9a-f]{0,4}){2,7})(?::[0-9]{2,5})?",
        judge: address::ip,
        inner: true,
    },
    Shape {
        kinds: &[INTERNAL_HOST],
        regex: r"(?i)(?:[a-z0-9][a-z0-9-]*\.)+(?:internal|intranet|svc|cluster\.local)",
        judge: address::host,
        inner: false,
    },
];

static REGEXES: LazyLock<Vec<(Regex, &Shape)>> = LazyLock::new(|| {
    let compiled = |shape: &'static Shape| Regex::new(shape.regex).ok().map(|regex| (regex, shape));
    SHAPES.iter().filter_map(compiled).collect()
});

/// Reports everything that is `wanted` in `text`.
pub(super) fn search(text: &str, wanted: &Wanted, see: &mut See<'_>) {
    for (regex, shape) in REGEXES.iter() {
        if !shape.kinds.iter().any(|kind| wanted.has(kind)) {
            continue;
        }
        let mut from = 0;
        while let Some(found) = regex.find_at(text, from) {
            let judged = (shape.judge)(text, found.range());
            from = match &judged {
                Some((_, at)) => at.end.max(found.start() + 1),
                None if shape.inner => found.start() + first_word(found.as_str()),
                None => found.end(),
            };
            if let Some((name, at)) = judged.filter(|(name, _)| wanted.has(name)) {
                see(at.clone(), name, text.get(at).unwrap_or_default());
            }
        }
    }
}

/// Returns the length of the first word of a match, all of which is ASCII.
fn first_word(found: &str) -> usize {
    found.bytes().take_while(u8::is_ascii_alphanumeric).count().max(1)
}

/// Returns what makes two spellings of `said` the same value of that kind.
pub(super) fn plain<'t>(kind: &str, said: &'t str) -> Cow<'t, str> {
    match kind {
        PHONE | SSN | CARD | IBAN => said.chars().filter(char::is_ascii_alphanumeric).collect(),
        EMAIL | INTERNAL_HOST => Cow::Owned(said.to_ascii_lowercase()),
        _ => Cow::Borrowed(said),
    }
}

/// Says whether neither side of `at` goes on as a word, an id or a number does.
fn stands_alone(text: &str, at: &Range<usize>) -> bool {
    let before = text.get(..at.start).unwrap_or_default().bytes().next_back();
    let joins =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/' | b'+');
    !before.is_some_and(joins) && ends(text, at.end)
}

/// Says whether what ends at `end` ends there: a full stop or a dash may follow, but no more of
/// the word behind it.
fn ends(text: &str, end: usize) -> bool {
    let mut after = text.get(end..).unwrap_or_default().bytes();
    match after.next() {
        Some(b'.' | b'-' | b'+' | b'@') => {
            !after.next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        }
        Some(byte) => !byte.is_ascii_alphanumeric() && byte != b'_',
        None => true,
    }
}

/// Returns the last word before `start`, in lower case, whatever stands between the two.
fn word_before(text: &str, start: usize) -> String {
    let near = text.get(text.floor_char_boundary(start.saturating_sub(WORD_NEAR_BYTES))..start);
    let mut words = near.unwrap_or_default().rsplit(|c: char| !c.is_ascii_alphabetic() && c != '_');
    words.find(|word| !word.is_empty()).unwrap_or_default().to_ascii_lowercase()
}

/// A word that says what a number is stands no further away.
const WORD_NEAR_BYTES: usize = 24;

#[cfg(test)]
mod tests;
