//! Names of tools as language models see them: one table of a catalog, from the names that we know to
//! names that every provider takes, and back.
//!
//! A service's tool is `service.tool` to us, which no provider takes. The way back is a look-up in the table
//! and never a change of text. Deliberately absent: what a name that nobody has may have meant.

use std::collections::{BTreeMap, BTreeSet};

use sha1::{Digest as _, Sha1};

use crate::digest;
use crate::limits::TOOL_NAME_BYTES_MAX;

/// The longest name that the table makes: documents and addresses take no longer one, models one more.
const MADE_BYTES_MAX: usize = TOOL_NAME_BYTES_MAX - 1;
/// Hexadecimal digits of a digest that tell a name from others that would look like it.
const HASH_DIGITS: usize = 8;
/// What a name is called of which nothing can be kept.
const NAMELESS: &str = "managed_tool";

/// The names of the tools of one catalog, or of one request.
#[derive(Debug, Clone, Default)]
pub struct Names {
    rows: BTreeMap<String, Row>,
    taken: BTreeSet<String>,
}

#[derive(Debug, Clone)]
struct Row {
    presented: String,
    /// What the tool would be called if others were there: models remember it from other days.
    hashed: String,
}

/// Two tools would have the same name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{canonical}` has no name of its own: `{presented}` is another tool's")]
pub struct NameCollision {
    /// The tool that has none.
    pub canonical: String,
    /// The name that another one has.
    pub presented: String,
}

impl Names {
    /// Returns the table of the tools called `canonical`, none of which is presented as one of `taken`:
    /// the names of tools that are not ours.
    ///
    /// A name that every provider takes stays as it is. Of any other, each other character becomes `_`. Where
    /// that is too long or another tool's, it is cut and digits of a digest stand at its end.
    ///
    /// # Errors
    /// The first tool that nothing tells from another one.
    pub fn new<'a>(
        canonical: impl IntoIterator<Item = &'a str>,
        taken: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, NameCollision> {
        let canonical: BTreeSet<&str> = canonical.into_iter().collect();
        let taken: BTreeSet<String> = taken.into_iter().map(str::to_owned).collect();
        let mut plain_counts = BTreeMap::<String, usize>::new();
        for name in canonical.iter().filter(|name| !is_safe(name)) {
            *plain_counts.entry(plain(name)).or_default() += 1;
        }
        let is_own = |name: &str| {
            plain_counts.get(name) == Some(&1)
                && name.len() <= MADE_BYTES_MAX
                && !canonical.contains(name)
        };
        let mut table = Self { rows: BTreeMap::new(), taken };
        let mut presented = table.taken.clone();
        for name in &canonical {
            let row = table.row(name, is_own);
            if !presented.insert(row.presented.clone()) {
                let canonical = (*name).to_owned();
                return Err(NameCollision { canonical, presented: row.presented });
            }
            table.rows.insert((*name).to_owned(), row);
        }
        Ok(table)
    }

    fn row(&self, name: &str, is_own: impl Fn(&str) -> bool) -> Row {
        let (plain, hashed) = (plain(name), hashed(name));
        let as_it_is = if is_safe(name) {
            Some(name.to_owned())
        } else {
            Some(plain).filter(|name| is_own(name))
        };
        let presented = as_it_is.filter(|name| !self.taken.contains(name));
        Row { presented: presented.unwrap_or_else(|| hashed.clone()), hashed }
    }

    /// Returns what a model sees of the tool `canonical`.
    pub fn presented(&self, canonical: &str) -> Option<&str> {
        self.rows.get(canonical).map(|row| row.presented.as_str())
    }

    /// Returns the tool that a model means: by our name, by the one it was shown, or by the one with digits
    /// that it may have been shown when other tools were there. A name of a tool that is not ours is never
    /// taken for one that is, and one that may mean two tools means none.
    pub fn canonical(&self, returned: &str) -> Option<&str> {
        if self.taken.contains(returned) {
            return None;
        }
        let own = self.rows.get_key_value(returned).map(|(name, _)| name.as_str());
        own.or_else(|| self.only(|row| row.presented == returned))
            .or_else(|| self.only(|row| row.hashed == returned))
    }

    fn only(&self, is_it: impl Fn(&Row) -> bool) -> Option<&str> {
        let mut found = self.rows.iter().filter(|(_, row)| is_it(row));
        let (name, _) = found.next()?;
        found.next().is_none().then_some(name.as_str())
    }

    /// Returns our name and the presented one of each tool, ordered by ours.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.rows.iter().map(|(name, row)| (name.as_str(), row.presented.as_str()))
    }
}

/// Says whether every provider takes `name` as it is.
fn is_safe(name: &str) -> bool {
    (1..=TOOL_NAME_BYTES_MAX).contains(&name.len()) && name.chars().all(is_plain)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn plain(name: &str) -> String {
    let mapped: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    match mapped.trim_matches('_') {
        "" => NAMELESS.to_owned(),
        kept => kept.to_owned(),
    }
}

/// Returns the plain form, cut, with digits of SHA-1 at its end: other hosts of such tools have the same, and
/// nothing is kept safe by it.
fn hashed(name: &str) -> String {
    let mut made = plain(name);
    made.truncate(MADE_BYTES_MAX - HASH_DIGITS - 1);
    made.push('_');
    made.extend(digest::hex(&Sha1::digest(name.as_bytes())).chars().take(HASH_DIGITS));
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(canonical: &[&str], taken: &[&str]) -> Names {
        Names::new(canonical.iter().copied(), taken.iter().copied()).unwrap()
    }

    #[test]
    fn names_are_plain_where_they_can_be_and_hashed_where_two_would_be_alike() {
        let names = table(&["trading-api.get_market_context", "read_file", "a.b_c", "a_b.c"], &[]);
        let rows: Vec<_> = names.iter().collect();
        let expected = [
            ("a.b_c", "a_b_c_90cb0f83"),
            ("a_b.c", "a_b_c_8091cffd"),
            ("read_file", "read_file"),
            ("trading-api.get_market_context", "trading-api_get_market_context"),
        ];
        assert_eq!(rows, expected);
        // Another tool's own name is not taken either.
        assert_ne!(table(&["a.b", "a_b"], &[]).presented("a.b"), Some("a_b"));
        assert_eq!(table(&["a.b", "a_b"], &[]).presented("a_b"), Some("a_b"));
        let nothing_left = table(&["日本"], &[]);
        assert_eq!(nothing_left.presented("日本"), Some(NAMELESS));
    }

    #[test]
    fn a_returned_name_means_one_tool_or_none() {
        let names = table(&["trading-api.get_market_context", "a.b_c", "a_b.c"], &[]);
        for returned in [
            "trading-api.get_market_context",
            "trading-api_get_market_context",
            "trading-api_get_market_context_28a4e0c2",
        ] {
            assert_eq!(names.canonical(returned), Some("trading-api.get_market_context"));
        }
        assert_eq!(names.canonical("a_b_c_90cb0f83"), Some("a.b_c"));
        for returned in ["a_b_c", "trading-api_get_market_contex", ""] {
            assert_eq!(names.canonical(returned), None, "{returned}");
        }
    }

    #[test]
    fn a_name_of_somebody_else_s_tool_is_neither_presented_nor_taken_for_ours() {
        let names = table(&["svc.read", "read"], &["svc_read", "read"]);
        assert_eq!(names.presented("svc.read"), Some(hashed("svc.read").as_str()));
        assert_eq!(names.canonical("svc_read"), None);
        assert_eq!(names.canonical("read"), None);
        assert_eq!(names.canonical(&hashed("read")), Some("read"));
        let all = ["svc_read".to_owned(), hashed("svc.read")];
        let clash = Names::new(["svc.read"], all.iter().map(String::as_str)).unwrap_err();
        assert_eq!(clash.presented, hashed("svc.read"));
    }

    #[test]
    fn no_name_is_longer_than_providers_take() {
        let long = format!("svc.{}", "x".repeat(200));
        let other = format!("{long}y");
        let names = table(&[&long, &other], &[]);
        for (_, presented) in names.iter() {
            assert_eq!(presented.len(), MADE_BYTES_MAX);
            assert!(is_safe(presented));
        }
        let safe = "x".repeat(TOOL_NAME_BYTES_MAX);
        assert_eq!(table(&[&safe], &[]).presented(&safe), Some(safe.as_str()));
    }
}
