//! What looks like a credential: tokens with a known beginning, private keys, passwords in
//! addresses, and values that stand under a name such as `password`.
//!
//! One search finds all beginnings; each hit is then judged by the characters around it, and no
//! character is looked at more than a few times. Deliberately absent: long random-looking text
//! under no telling name (digests look the same), and values of a few characters.

mod judge;
mod table;

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use self::table::{BEGINNINGS, Beginning, Kind};

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

/// Reports every credential in `text`, which stands under the name `key`.
pub(super) fn see(key: Option<&str>, text: &str, see: &mut dyn FnMut(&'static str)) {
    find(key, text).into_iter().for_each(|secret| see(secret.name));
}

/// Returns `text` with a marker in the place of every credential; nothing where there is none.
pub(super) fn redact(key: Option<&str>, text: &str) -> Option<String> {
    let found = find(key, text);
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

/// Returns every credential in `text`, in order and apart from each other.
fn find(key: Option<&str>, text: &str) -> Vec<Secret> {
    if let Some(name) = key.and_then(|key| under(key, text)) {
        return vec![Secret { at: 0..text.len(), name }];
    }
    let mut found: Vec<Secret> = Vec::new();
    for hit in SEARCH.automaton.find_overlapping_iter(text) {
        let beginning = SEARCH.beginnings.get(hit.pattern().as_usize());
        // What lies in something found is not looked at again.
        let is_new = found.last().is_none_or(|last| hit.start() >= last.at.end);
        let judged = |(begins, row): &(&str, &Beginning)| judge(begins, row, text, hit.range());
        found.extend(beginning.filter(|_| is_new).and_then(judged));
    }
    found
}

fn judge(begins: &str, row: &Beginning, text: &str, hit: Range<usize>) -> Option<Secret> {
    // The search knows no case; tokens do.
    if matches!(row.kind, Kind::Token { .. }) && text.get(hit.clone()) != Some(begins) {
        return None;
    }
    Some(Secret { at: judge::extent(&row.kind, text, hit)?, name: row.name })
}

/// Says whether a value is a credential because of the name it stands under.
fn under(key: &str, value: &str) -> Option<&'static str> {
    let ends = |(text, row): &&(&str, &Beginning)| {
        matches!(row.kind, Kind::Assigned) && {
            let end = key.len().checked_sub(text.len()).and_then(|at| key.get(at..));
            end.is_some_and(|end| end.eq_ignore_ascii_case(text))
        }
    };
    let (_, row) = SEARCH.beginnings.iter().find(ends)?;
    judge::is_value(value).then_some(row.name)
}

#[cfg(test)]
mod tests;
