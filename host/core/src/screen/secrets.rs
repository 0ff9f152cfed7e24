//! What looks like a credential: tokens with a known beginning, private keys, passwords in
//! addresses, and values that stand under a name such as `password`.
//!
//! One search finds all beginnings; each hit is then judged by the characters around it, and no
//! character is looked at more than a few times. Characters that cannot be seen are left out
//! first. Deliberately absent: long random-looking text under no telling name (digests look the
//! same), values of a few characters, and every place of a name that follows itself often.

mod judge;
mod table;

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use self::judge::Judge;
use self::table::{BEGINNINGS, Beginning, Kind};
use super::Counts;
use super::fold::is_ignorable;

/// Returns how many kinds of credentials there are, as an author counts them.
pub(crate) fn patterns() -> usize {
    SEARCH.beginnings.len()
}

/// Something that looks like a credential: where, and of which kind.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Secret {
    at: Range<usize>,
    name: &'static str,
}

/// Beginnings searched for at once: the text of each, and its row.
struct Search {
    automaton: AhoCorasick,
    beginnings: Vec<(&'static str, &'static Beginning)>,
}

static SEARCH: LazyLock<Search> = LazyLock::new(build);

#[expect(clippy::expect_used, reason = "the table is constant, and the tests build it")]
fn build() -> Search {
    let texts = |row: &'static Beginning| row.texts.split('|').map(move |text| (text, row));
    let beginnings: Vec<_> = BEGINNINGS.iter().flat_map(texts).collect();
    let mut builder = AhoCorasick::builder();
    let builder = builder
        .ascii_case_insensitive(true)
        .match_kind(MatchKind::Standard)
        .kind(Some(AhoCorasickKind::ContiguousNFA));
    let automaton = builder.build(beginnings.iter().map(|(text, _)| text));
    Search { automaton: automaton.expect("the table is small"), beginnings }
}

/// Counts the credentials in `text`, which stands under the name `key`; kinds that were counted
/// often enough are not looked for.
pub(super) fn see(key: Option<&str>, text: &str, counts: &mut Counts) {
    find(key, text, Some(counts));
}

/// Returns `text` with a marker in the place of every credential; nothing where there is none.
pub(super) fn redact(key: Option<&str>, text: &str) -> Option<String> {
    let found = find(key, text, None);
    if found.is_empty() {
        return None;
    }
    let mut redacted = String::with_capacity(text.len());
    let mut done = 0;
    for Secret { at, name } in found {
        redacted.push_str(text.get(done..at.start).unwrap_or_default());
        redacted.push_str(&format!("[redacted: {name}]"));
        done = at.end;
    }
    redacted.push_str(text.get(done..).unwrap_or_default());
    Some(redacted)
}

/// Returns every credential in `text`, in order and apart from each other; with `counts`, it
/// counts them, and leaves out kinds that were counted often enough.
fn find(key: Option<&str>, text: &str, mut counts: Option<&mut Counts>) -> Vec<Secret> {
    if let Some(name) = key.and_then(|key| under(key, text)) {
        counts.iter_mut().for_each(|counts| counts.see(name));
        return vec![Secret { at: 0..text.len(), name }];
    }
    if text.is_ascii() || !text.contains(is_ignorable) {
        return search(&mut Judge::new(text), text, counts);
    }
    let (seen, hidden) = without_ignorable(text);
    let found = search(&mut Judge::new(&seen), &seen, counts);
    found.into_iter().map(|secret| Secret { at: place(&hidden, secret.at), ..secret }).collect()
}

fn search(judge: &mut Judge<'_>, text: &str, mut counts: Option<&mut Counts>) -> Vec<Secret> {
    let mut found: Vec<Secret> = Vec::new();
    for hit in SEARCH.automaton.find_overlapping_iter(text) {
        let Some((begins, row)) = SEARCH.beginnings.get(hit.pattern().as_usize()) else { continue };
        // What lies in something found is not looked at again.
        let is_new = found.last().is_none_or(|last| hit.start() >= last.at.end);
        // The search knows no case; tokens do.
        let is_case = !matches!(row.kind, Kind::Token(_)) || text.get(hit.range()) == Some(*begins);
        let is_wanted = counts.as_ref().is_none_or(|counts| !counts.is_full(row.name));
        if is_new && is_case && is_wanted {
            let Some(at) = judge.extent(&row.kind, hit.range()) else { continue };
            found.push(Secret { at, name: row.name });
            counts.iter_mut().for_each(|counts| counts.see(row.name));
        }
    }
    found
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

/// Says whether a value is a credential because of the name it stands under.
fn under(key: &str, value: &str) -> Option<&'static str> {
    let ends = |(text, row): &&(&str, &Beginning)| {
        let Kind::Assigned { strict } = row.kind else { return false };
        let start = key.len().checked_sub(text.len()).unwrap_or(key.len());
        let end = key.get(start..).unwrap_or_default();
        end.eq_ignore_ascii_case(text)
            && (!strict || judge::is_strict(key, start..key.len(), value))
    };
    let (_, row) = SEARCH.beginnings.iter().find(ends)?;
    judge::is_value(value).then_some(row.name)
}

#[cfg(test)]
mod tests;
