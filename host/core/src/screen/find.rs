//! One search for every kind: in a text, in every text that a reader may see in it, and in the
//! texts that it holds in base64.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use super::encoded;
use super::filters::Wanted;
use super::fold::is_ignorable;
use super::tokens::Tokens;
use super::{personal, secrets};
use crate::redact::read;
use crate::reply::marked;

/// A value that is no longer is read together with the name that it stands under.
const SHORT_BYTES_MAX: usize = 64;

/// Something that was found: where, of which kind, and what to write in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) at: Range<usize>,
    pub(super) name: &'static str,
    pub(super) marker: String,
}

/// Is told where something is, of which kind, and what it is.
pub(super) type See<'a> = dyn FnMut(Range<usize>, &'static str, &str) + 'a;

/// Returns what is `wanted` in `text`, which stands under the name `key`: in order, apart from
/// each other, each with its marker.
pub(super) fn find(key: Option<&str>, text: &str, wanted: &Wanted, tokens: &Tokens) -> Vec<Hit> {
    let under = key.and_then(|key| secrets::under(key, text)).filter(|name| wanted.has(name));
    if let Some(name) = under {
        return vec![Hit { at: 0..text.len(), name, marker: tokens.marker(name, text) }];
    }
    let named = key.filter(|key| key.len().max(text.len()) <= SHORT_BYTES_MAX);
    let shown = named.map_or(Cow::Borrowed(text), |key| Cow::Owned(format!("{key}: {text}")));
    apart(everywhere(&shown, shown.len() - text.len(), wanted, tokens), wanted)
}

/// Returns everything that is found in what `shown` has from `start` on, and in each of its
/// layers: most is the same in all of them, and is one.
fn everywhere(shown: &str, start: usize, wanted: &Wanted, tokens: &Tokens) -> Vec<Hit> {
    let (mut hits, mut known) = (Vec::new(), HashSet::new());
    read(shown.as_bytes(), false, |layer| {
        search(&as_text(layer.bytes()), wanted, &mut |at, name, said| {
            let at = layer.source(at);
            // What lies in the name is found in the name.
            let Some(from) = at.start.checked_sub(start) else { return };
            if known.insert((at.start, at.end, name)) {
                let marker = tokens.marker(name, &personal::plain(name, said));
                hits.push(Hit { at: from..at.end - start, name, marker });
            }
        });
    });
    hits
}

/// Returns the bytes `part` of `text` with a marker in the place of each of `hits`.
pub(super) fn replace(text: &str, part: Range<usize>, hits: &[Hit]) -> String {
    marked(text, part, hits, |hit| &hit.at, |hit| &hit.marker)
}

fn search(text: &str, wanted: &Wanted, see: &mut See<'_>) {
    seen(text, wanted, see);
    encoded::texts(text, &mut |at, inner| {
        seen(inner, wanted, &mut |_, name, said| see(at.clone(), name, said));
    });
}

/// Searches what is seen of `text`: characters that show nothing are left out.
fn seen(text: &str, wanted: &Wanted, see: &mut See<'_>) {
    if text.is_ascii() || !text.contains(is_ignorable) {
        plain(text, wanted, see);
        return;
    }
    let (shown, hidden) = without_ignorable(text);
    plain(&shown, wanted, &mut |at, name, said| see(place(&hidden, at), name, said));
}

fn plain(text: &str, wanted: &Wanted, see: &mut See<'_>) {
    secrets::search(text, wanted, see);
    personal::search(text, wanted, see);
}

/// Returns `bytes` as text of the same length: what is none of it is something that nobody looks for.
fn as_text(bytes: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| '\u{1a}'));
    }
    Cow::Owned(text)
}

/// Sorts, and joins what overlaps: the kind with the strictest action stands for all of it.
fn apart(mut hits: Vec<Hit>, wanted: &Wanted) -> Vec<Hit> {
    hits.sort_by_key(|hit| (hit.at.start, hit.at.end));
    let action = |hit: &Hit| wanted.get(hit.name).map(|asked| asked.action);
    let mut kept: Vec<Hit> = Vec::new();
    for hit in hits {
        match kept.last_mut().filter(|last| hit.at.start < last.at.end) {
            None => kept.push(hit),
            Some(last) => {
                let at = last.at.start..last.at.end.max(hit.at.end);
                if action(&hit) > action(last) {
                    *last = hit;
                }
                last.at = at;
            }
        }
    }
    kept
}

/// Returns `text` without what cannot be seen, and where in it how many bytes are missing.
fn without_ignorable(text: &str) -> (String, Vec<(usize, usize)>) {
    let mut seen = String::with_capacity(text.len());
    let mut hidden: Vec<(usize, usize)> = Vec::new();
    let mut missing = 0;
    for c in text.chars() {
        if !is_ignorable(c) {
            seen.push(c);
            continue;
        }
        missing += c.len_utf8();
        match hidden.last_mut().filter(|(at, _)| *at == seen.len()) {
            Some(last) => last.1 = missing,
            None => hidden.push((seen.len(), missing)),
        }
    }
    (seen, hidden)
}

/// Returns where a part of the text without what cannot be seen is in the whole text.
fn place(hidden: &[(usize, usize)], at: Range<usize>) -> Range<usize> {
    let before = |many: usize| many.checked_sub(1).and_then(|last| hidden.get(last));
    let missing = |many: usize| before(many).map_or(0, |(_, missing)| *missing);
    let starts = hidden.partition_point(|(place, _)| *place <= at.start);
    let ends = hidden.partition_point(|(place, _)| *place < at.end);
    at.start + missing(starts)..at.end + missing(ends)
}

#[cfg(test)]
mod tests;
