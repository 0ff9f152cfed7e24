//! What a record says beside what every line has.

use std::borrow::Cow;

use clawhost_core::redact::Redactor;
use serde_json::Value;

/// Facts by their names, which are the host's own. They are few, and a record sorts them.
#[derive(Debug, Clone)]
pub struct Facts(Vec<(&'static str, Value)>);

/// As many as there are of most calls at their end, so that they do not grow in steps.
const ROOM: usize = 20;

impl Default for Facts {
    fn default() -> Self {
        Self(Vec::with_capacity(ROOM))
    }
}

impl Facts {
    /// Sets a fact; one of the same name makes room for it.
    pub fn set(&mut self, name: &'static str, fact: impl Into<Value>) {
        let fact = fact.into();
        match self.0.iter_mut().find(|(other, _)| *other == name) {
            Some((_, old)) => *old = fact,
            None => self.0.push((name, fact)),
        }
    }

    /// Returns a fact.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(other, _)| *other == name).map(|(_, fact)| fact)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&'static str, &Value)> {
        self.0.iter().map(|(name, fact)| (*name, fact))
    }

    /// Returns how long they are as JSON.
    pub(super) fn bytes(&self) -> usize {
        let long =
            |(name, fact): (&str, &Value)| name.len() + r#""":,"#.len() + fact.to_string().len();
        // Two braces, and one comma less.
        1 + self.iter().map(long).sum::<usize>()
    }

    /// Returns them without what `redactor` knows.
    pub(super) fn without_secrets(&self, redactor: &Redactor) -> Cow<'_, Self> {
        if !redactor.is_in(self.iter().map(|(_, fact)| fact)) {
            return Cow::Borrowed(self);
        }
        let clean = self.iter().map(|(name, fact)| (name, redactor.json(fact.clone())));
        Cow::Owned(Self(clean.collect()))
    }
}

impl<F: Into<Value>> FromIterator<(&'static str, F)> for Facts {
    fn from_iter<I: IntoIterator<Item = (&'static str, F)>>(facts: I) -> Self {
        let mut all = Self::default();
        all.extend(facts);
        all
    }
}

impl<F: Into<Value>> Extend<(&'static str, F)> for Facts {
    fn extend<I: IntoIterator<Item = (&'static str, F)>>(&mut self, facts: I) {
        facts.into_iter().for_each(|(name, fact)| self.set(name, fact));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fact_is_there_once_and_without_what_is_secret() {
        let mut facts: Facts = [("tool", "sesame-opens-it"), ("call", "1")].into_iter().collect();
        facts.set("call", 2);
        let redactor = Redactor::new([("door", b"sesame-opens-it".as_slice())]).unwrap();
        let clean = facts.without_secrets(&redactor);
        assert_eq!(clean.bytes(), r#"{"tool":"[redacted:door]","call":2}"#.len());
        let clean: Vec<_> = clean.iter().collect();
        assert_eq!(clean, [("tool", &Value::from("[redacted:door]")), ("call", &Value::from(2))]);
    }
}
