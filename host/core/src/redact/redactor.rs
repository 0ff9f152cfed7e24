//! Where known secrets are in a text.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use aho_corasick::{AhoCorasick, AhoCorasickKind, BuildError, Input, Match};

use super::apply;
use super::layers::Layer;
use super::reading::read;
use super::spellings::spellings;
use crate::limits::{REDACT_VALUE_BYTES, REDACT_WORD_BYTES};
use crate::truncate;

/// Bytes at the end of a pattern that are searched for first: so few that the table of them is small, and more than
/// other texts have by chance. How a value begins may be common: keys do with who gave them out.
const END_BYTES: usize = 5;
/// How many times more of a text is searched than is to be left of it: a spelling may be longer than its marker.
const SHORT_TIMES: usize = 4;

/// Knows secret values, and takes them out of what it is given.
///
/// The default knows none and changes nothing.
#[derive(Default)]
pub struct Redactor {
    automata: Option<Automata>,
    /// What each pattern of the automaton stands for.
    patterns: Vec<Pattern>,
    /// The patterns themselves, the start of which may be the end of a part of a stream.
    texts: Vec<Vec<u8>>,
    /// What is written in the place of each secret.
    pub(super) markers: Vec<String>,
    /// Whether a secret could be spelled as a JSON number.
    pub(super) numeric: bool,
}

/// Finds the patterns of a redactor, in two steps.
struct Automata {
    /// Finds where a pattern may end: many times faster, and most texts have no such place.
    ends: AhoCorasick,
    whole: AhoCorasick,
    /// The length of the longest pattern, in bytes.
    longest: usize,
}

impl Automata {
    fn of(texts: &[Vec<u8>]) -> Result<Self, BuildError> {
        let mut builder = AhoCorasick::builder();
        builder.ascii_case_insensitive(true);
        let end = |text: &Vec<u8>| text.len().saturating_sub(END_BYTES);
        let ends = builder.build(texts.iter().map(|text| text.get(end(text)..).unwrap_or(text)))?;
        // The others are faster, and many times larger for values as long as keys are.
        let whole = builder.kind(Some(AhoCorasickKind::ContiguousNFA)).build(texts)?;
        Ok(Self { ends, longest: whole.max_pattern_len(), whole })
    }

    /// Returns where patterns are. Overlapping: where two values overlap, neither may leave its end behind.
    fn hits<'b>(&'b self, bytes: &'b [u8]) -> impl Iterator<Item = Match> + 'b {
        let first = self.ends.find(bytes).map(|end| end.end().saturating_sub(self.longest));
        let rest = first.map(|first| Input::new(bytes).range(first..));
        rest.into_iter().flat_map(|rest| self.whole.find_overlapping_iter(rest))
    }
}

#[derive(Debug, Clone, Copy)]
struct Pattern {
    secret: usize,
    whole_word: bool,
}

/// Bytes of a text that are a secret, and which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Found {
    pub(super) at: Range<usize>,
    pub(super) secret: usize,
}

/// Why there is no redactor for these values.
#[derive(Debug, Clone, thiserror::Error)]
#[error("the secrets are too many or too long to be searched for")]
pub struct TooMuch;

impl Redactor {
    /// Returns a redactor that knows these secrets: the name to show in the place of each, and
    /// its value. A name may have several values.
    ///
    /// # Errors
    /// Together they are longer than can be searched for; far above every bound of the host.
    pub fn new<'a>(
        secrets: impl IntoIterator<Item = (&'a str, &'a [u8])>,
    ) -> Result<Self, TooMuch> {
        let mut made = Self::default();
        for (name, value) in secrets {
            made.add(name, value);
        }
        if !made.texts.is_empty() {
            made.automata = Some(Automata::of(&made.texts).map_err(|_| TooMuch)?);
        }
        Ok(made)
    }

    fn add(&mut self, name: &str, value: &[u8]) {
        if value.len() < REDACT_WORD_BYTES {
            return;
        }
        let secret = self.markers.len();
        self.markers.push(format!("[redacted:{name}]"));
        self.numeric |= value.iter().all(|byte| b"0123456789.eE+-".contains(byte));
        if value.len() < REDACT_VALUE_BYTES {
            self.texts.push(value.to_vec());
            self.patterns.push(Pattern { secret, whole_word: true });
            return;
        }
        for text in spellings(value) {
            self.texts.push(text);
            self.patterns.push(Pattern { secret, whole_word: false });
        }
    }

    /// Returns whether it knows no secret, so that there is nothing to do.
    pub const fn is_empty(&self) -> bool {
        self.automata.is_none()
    }

    /// Returns `text` with `[redacted:NAME]` in the place of every secret.
    pub fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        self.changed(text).map_or(Cow::Borrowed(text), Cow::Owned)
    }

    /// Returns the beginning of `text` with `[redacted:NAME]` in the place of every secret, cut to `bytes_max`: in that
    /// order, as nothing recognises a part of one. However long the text is, no more of it is searched than that takes.
    pub fn short(&self, text: &str, bytes_max: usize) -> String {
        let part = truncate::text(text, bytes_max.saturating_mul(SHORT_TIMES));
        let (found, end) = match part.len() < text.len() {
            true => self.find_begun(part.as_bytes()),
            false => (self.find(part.as_bytes()), part.len()),
        };
        let shown = 0..part.floor_char_boundary(end);
        truncate::text(&apply::redacted(part, shown, &found, &self.markers), bytes_max).to_owned()
    }

    /// As [`Redactor::bytes`], for the beginning of a text: without what at its end may be the start of a secret.
    pub fn begun(&self, part: &[u8]) -> Vec<u8> {
        let (found, end) = self.find_begun(part);
        apply::to_bytes(part.get(..end).unwrap_or(part), &found, &self.markers)
    }

    /// As [`Redactor::text`], for bytes that may be no text.
    pub fn bytes<'b>(&self, bytes: &'b [u8]) -> Cow<'b, [u8]> {
        let found = self.find(bytes);
        if found.is_empty() {
            return Cow::Borrowed(bytes);
        }
        Cow::Owned(apply::to_bytes(bytes, &found, &self.markers))
    }

    /// Writes `*` over every secret in `bytes`, whose length stays as it is.
    pub fn mask(&self, bytes: &mut [u8]) {
        for found in self.find(bytes) {
            bytes.get_mut(found.at).unwrap_or_default().fill(b'*');
        }
    }

    /// Returns how many bytes at the end of a part of a stream may be the start of a secret whose
    /// rest is yet to come, in any spelling.
    pub fn unfinished(&self, part: &[u8]) -> usize {
        let mut waits = 0;
        if !self.is_empty() {
            read(part, true, |layer| {
                let kept = layer.bytes().len() - self.start_at_end(layer.bytes());
                waits = waits.max(part.len().saturating_sub(layer.place(kept)));
            });
        }
        waits
    }

    /// Returns where secrets are in the beginning of a text, and how much of it is no start of another. That is
    /// looked for in the text as it came: one may go on where another ends.
    fn find_begun(&self, part: &[u8]) -> (Vec<Found>, usize) {
        let whole = part.len().saturating_sub(self.unfinished(part));
        let mut found = self.find(part);
        found.retain(|found| found.at.start < whole);
        let end = found.last().map_or(whole, |last| last.at.end.max(whole));
        (found, end)
    }

    /// Returns the length of the longest start of a pattern that `bytes` end in.
    fn start_at_end(&self, bytes: &[u8]) -> usize {
        let start_of = |text: &Vec<u8>| {
            let longest = bytes.len().min(text.len().saturating_sub(1));
            let tail = |len| bytes.get(bytes.len() - len..).unwrap_or_default();
            let starts = |len: &usize| {
                text.get(..*len).is_some_and(|start| start.eq_ignore_ascii_case(tail(*len)))
            };
            (1..=longest).rev().find(starts)
        };
        self.texts.iter().filter_map(start_of).max().unwrap_or(0)
    }

    /// Returns where the secrets are: in order, apart from each other.
    pub(super) fn find(&self, bytes: &[u8]) -> Vec<Found> {
        let mut found = Vec::new();
        let Some(automata) = &self.automata else {
            return found;
        };
        read(bytes, false, |layer| self.search(automata, layer, &mut found));
        merge(found)
    }

    fn search(&self, automata: &Automata, layer: &Layer<'_>, found: &mut Vec<Found>) {
        let bytes = layer.bytes();
        for hit in automata.hits(bytes) {
            let Some(pattern) = self.patterns.get(hit.pattern().as_usize()) else {
                continue;
            };
            let text = self.texts.get(hit.pattern().as_usize()).map(Vec::as_slice);
            let same = || text == bytes.get(hit.range()) && is_whole_word(bytes, &hit.range());
            if !pattern.whole_word || same() {
                let at = layer.source(hit.range());
                note(found, Found { at, secret: pattern.secret });
            }
        }
    }
}

/// Says nothing of the values.
impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("values", &self.markers.len()).finish_non_exhaustive()
    }
}

fn is_whole_word(bytes: &[u8], at: &Range<usize>) -> bool {
    let word = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    let before = at.start.checked_sub(1).and_then(|index| bytes.get(index));
    !word(before) && !word(bytes.get(at.end))
}

/// Adds `next`; where it overlaps the last one, joins them at once, so that a text of nothing but
/// hits needs no room for each.
fn note(found: &mut Vec<Found>, next: Found) {
    match found.last_mut() {
        Some(last) if next.at.start <= last.at.end && last.at.start <= next.at.end => {
            last.at = last.at.start.min(next.at.start)..last.at.end.max(next.at.end);
        }
        _ => found.push(next),
    }
}

/// Sorts, and joins what overlaps or touches: the first secret's name stands for all of it.
fn merge(mut found: Vec<Found>) -> Vec<Found> {
    found.sort_by_key(|found| (found.at.start, found.at.end));
    let mut merged: Vec<Found> = Vec::new();
    for next in found {
        match merged.last_mut() {
            Some(last) if next.at.start <= last.at.end => {
                last.at.end = last.at.end.max(next.at.end);
            }
            _ => merged.push(next),
        }
    }
    merged
}
