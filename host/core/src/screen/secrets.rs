//! What looks like a credential: tokens with a known beginning, private keys, passwords in
//! addresses, and values that stand under a name such as `password`.
//!
//! One search finds all beginnings; each hit is then judged by the characters around it, and no
//! character is looked at more than a few times. Deliberately absent: long random-looking text under no telling name (digests look the
//! same), values of a few characters, and every place of a name that follows itself often.

mod judge;
mod table;

use std::collections::BTreeSet;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};

use self::judge::Judge;
use self::table::{BEGINNINGS, Beginning, Kind};
use super::filters::Wanted;
use super::find::See;

/// Returns how many kinds of credentials there are, as an author counts them.
pub(crate) fn patterns() -> usize {
    SEARCH.beginnings.len()
}

/// Returns the kinds of credentials, each once.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    BEGINNINGS.iter().map(|row| row.name).collect::<BTreeSet<_>>().into_iter()
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

/// Reports every credential in `text` that is `wanted`, in order and apart from each other.
pub(super) fn search(text: &str, wanted: &Wanted, see: &mut See<'_>) {
    if BEGINNINGS.iter().any(|row| wanted.has(row.name)) {
        judged(&mut Judge::new(text), text, wanted, see);
    }
}

fn judged(judge: &mut Judge<'_>, text: &str, wanted: &Wanted, see: &mut See<'_>) {
    let mut done = 0;
    for hit in SEARCH.automaton.find_overlapping_iter(text) {
        let Some((begins, row)) = SEARCH.beginnings.get(hit.pattern().as_usize()) else { continue };
        // The search knows no case; tokens do.
        let is_case = !matches!(row.kind, Kind::Token(_)) || text.get(hit.range()) == Some(*begins);
        // What lies in something found is not looked at again.
        if hit.start() >= done && is_case && wanted.has(row.name) {
            let Some(at) = judge.extent(&row.kind, hit.range()) else { continue };
            done = at.end;
            see(at.clone(), row.name, text.get(at).unwrap_or_default());
        }
    }
}

/// Says whether a value is a credential because of the name it stands under.
pub(super) fn under(key: &str, value: &str) -> Option<&'static str> {
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
