//! What a record says beside what every line has.

use std::borrow::Cow;

use clawhost_core::redact::Redactor;
use serde_json::Value;

/// Facts by their names, which are the host's own, in the order in which a record has them.
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
        let at = self.place(name).unwrap_or_else(|at| {
            self.0.insert(at, (name, Value::Null));
            at
        });
        if let Some((_, old)) = self.0.get_mut(at) {
            *old = fact.into();
        }
    }

    /// Returns a fact.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.place(name).ok().and_then(|at| self.0.get(at)).map(|(_, fact)| fact)
    }

    /// Returns where a fact is, or would be.
    fn place(&self, name: &str) -> Result<usize, usize> {
        self.0.binary_search_by_key(&name, |(other, _)| other)
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
    fn a_fact_is_there_once_in_its_order_and_without_what_is_secret() {
        let mut facts: Facts = [("tool", "sesame-opens-it"), ("call", "1")].into_iter().collect();
        facts.set("call", 2);
        let redactor = Redactor::new([("door", b"sesame-opens-it".as_slice())]).unwrap();
        let clean = facts.without_secrets(&redactor);
        assert_eq!(clean.bytes(), r#"{"call":2,"tool":"[redacted:door]"}"#.len());
        let clean: Vec<_> = clean.iter().collect();
        assert_eq!(clean, [("call", &Value::from(2)), ("tool", &Value::from("[redacted:door]"))]);
    }
}
