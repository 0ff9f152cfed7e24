//! What a record says beside what every line has.

use std::borrow::Cow;
use std::ops::Range;

use clawhost_core::digest;
use clawhost_core::redact::{self, Redactor};
use serde_json::Value;

/// Facts by their names, which are the host's own, in the order in which a record has them.
#[derive(Debug, Clone)]
pub struct Facts {
    facts: Vec<(&'static str, Kept)>,
    /// What may hold a secret of all that was ever set, one piece after the other: that each had a place of its own,
    /// and was copied from it to be searched, took longer than all else that is done with facts.
    texts: String,
}

#[derive(Debug, Clone)]
enum Kept {
    /// Where among the texts it is.
    Text(Range<usize>),
    Other(Value),
}

/// One fact.
#[derive(Debug, Clone, PartialEq)]
pub enum Fact<'f> {
    /// A text, as most are.
    Text(Cow<'f, str>),
    /// Anything else.
    Other(Cow<'f, Value>),
}

/// As many as there are of most calls at their end, so that they do not grow in steps.
const ROOM: usize = 20;
/// As many bytes as their texts have.
const TEXTS_ROOM_BYTES: usize = 1_024;

impl Default for Facts {
    fn default() -> Self {
        Self { facts: Vec::with_capacity(ROOM), texts: String::with_capacity(TEXTS_ROOM_BYTES) }
    }
}

impl Facts {
    /// Sets a fact; one of the same name makes room for it.
    pub fn set<'f>(&mut self, name: &'static str, fact: impl Into<Fact<'f>>) {
        let kept = self.keep(fact.into());
        match self.place(name) {
            Ok(at) => self.facts.splice(at..=at, [(name, kept)]).for_each(drop),
            Err(at) => self.facts.insert(at, (name, kept)),
        }
    }

    fn keep(&mut self, fact: Fact<'_>) -> Kept {
        let start = self.texts.len();
        match fact {
            Fact::Text(text) => {
                redact::gather_text(&text, &mut self.texts);
                Kept::Text(start..start + text.len())
            }
            Fact::Other(value) => {
                redact::gather(&value, &mut self.texts);
                Kept::Other(value.into_owned())
            }
        }
    }

    /// Returns a fact.
    pub fn get(&self, name: &str) -> Option<Fact<'_>> {
        let (_, kept) = self.facts.get(self.place(name).ok()?)?;
        Some(self.fact(kept))
    }

    /// Returns a fact that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match &self.facts.get(self.place(name).ok()?)?.1 {
            Kept::Text(at) => self.texts.get(at.clone()),
            Kept::Other(_) => None,
        }
    }

    /// Returns where a fact is, or would be.
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.facts.binary_search_by_key(&name, |(other, _)| other)
    }

    fn fact<'f>(&'f self, kept: &'f Kept) -> Fact<'f> {
        match kept {
            Kept::Text(at) => Fact::Text(self.texts.get(at.clone()).unwrap_or_default().into()),
            Kept::Other(value) => Fact::Other(Cow::Borrowed(value)),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, Fact<'_>)> {
        self.facts.iter().map(|(name, kept)| (*name, self.fact(kept)))
    }

    /// Returns how long they are as JSON.
    pub(super) fn bytes(&self) -> usize {
        let mut all = Vec::new();
        for (name, fact) in self.iter() {
            all.push(b',');
            fact.append(name, &mut all);
        }
        // Two braces, and one comma less.
        1 + all.len()
    }

    /// Returns them without what `redactor` knows.
    pub(super) fn without_secrets(&self, redactor: &Redactor) -> Cow<'_, Self> {
        if !redactor.is_in_gathered(&self.texts) {
            return Cow::Borrowed(self);
        }
        Cow::Owned(self.iter().map(|(name, fact)| (name, redactor.json(fact.into()))).collect())
    }
}

impl Fact<'_> {
    /// Appends it to an object in canonical form, under its name.
    pub(super) fn append(&self, name: &str, object: &mut Vec<u8>) {
        match self {
            Fact::Text(text) => digest::append_text(object, name, text),
            Fact::Other(value) => digest::append_member(object, name, value),
        }
    }
}

impl From<Fact<'_>> for Value {
    fn from(fact: Fact<'_>) -> Self {
        match fact {
            Fact::Text(text) => text.into(),
            Fact::Other(value) => value.into_owned(),
        }
    }
}

impl<'f> From<&'f str> for Fact<'f> {
    fn from(text: &'f str) -> Self {
        Self::Text(text.into())
    }
}

impl From<String> for Fact<'_> {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<Value> for Fact<'_> {
    fn from(value: Value) -> Self {
        match value {
            Value::String(text) => text.into(),
            other => Self::Other(Cow::Owned(other)),
        }
    }
}

/// Lets what is no text be a fact.
macro_rules! others {
    ($($kind:ty),*) => {
        $(impl From<$kind> for Fact<'_> {
            fn from(fact: $kind) -> Self {
                Value::from(fact).into()
            }
        })*
    };
}

others!(bool, i32, i64, u32, u64, usize, Vec<Value>, Vec<&str>);

impl<'f, F: Into<Fact<'f>>> FromIterator<(&'static str, F)> for Facts {
    fn from_iter<I: IntoIterator<Item = (&'static str, F)>>(facts: I) -> Self {
        let mut all = Self::default();
        all.extend(facts);
        all
    }
}

impl<'f, F: Into<Fact<'f>>> Extend<(&'static str, F)> for Facts {
    fn extend<I: IntoIterator<Item = (&'static str, F)>>(&mut self, facts: I) {
        facts.into_iter().for_each(|(name, fact)| self.set(name, fact));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_fact_is_there_once_in_its_order_and_without_what_is_secret() {
        let mut facts: Facts = [("tool", "sesame-opens-it"), ("call", "1")].into_iter().collect();
        facts.set("call", 2);
        let redactor = Redactor::new([("door", b"sesame-opens-it".as_slice())]).unwrap();
        let clean = facts.without_secrets(&redactor);
        assert_eq!(clean.bytes(), r#"{"call":2,"tool":"[redacted:door]"}"#.len());
        let clean: Vec<(&str, Value)> =
            clean.iter().map(|(name, fact)| (name, fact.into())).collect();
        assert_eq!(clean, [("call", json!(2)), ("tool", json!("[redacted:door]"))]);
    }

    /// Also where it is a number, lies deep, or is a short word between others.
    #[test]
    fn a_secret_is_found_in_whatever_is_a_fact() {
        let redactor =
            Redactor::new([("pin", b"4815162342".as_slice()), ("word", b"xyzzy")]).unwrap();
        let secret: [Fact<'_>; 4] = [
            4_815_162_342_u64.into(),
            json!({"a": ["4815162342"]}).into(),
            "xyzzy".into(),
            "a xyzzy b".into(),
        ];
        for fact in secret {
            let facts: Facts = [("a", "b".into()), ("call", fact.clone()), ("d", "e".into())]
                .into_iter()
                .collect();
            let clean = facts.without_secrets(&redactor);
            let shown = Value::from(clean.get("call").unwrap()).to_string();
            assert!(shown.contains("[redacted:"), "{shown}");
            assert_eq!((clean.text("a"), clean.text("d")), (Some("b"), Some("e")));
        }
        let facts: Facts = [("a", "xyz"), ("b", "zy")].into_iter().collect();
        assert!(matches!(facts.without_secrets(&redactor), Cow::Borrowed(_)));
    }
}
