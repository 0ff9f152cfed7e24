//! Filters: which kinds of texts are looked for at which boundary, and what happens with them.

use std::collections::BTreeMap;

use super::{Action, personal, secrets};

/// The check for credentials.
pub const SECRET_SCANNING: &str = "secret-scanning";
/// The check for data about people.
pub const PERSONAL_DATA: &str = "personal-data";
/// The check for addresses inside of a network.
pub const INTERNAL_ENDPOINTS: &str = "internal-endpoints";

/// All kinds of one check, in one word.
const CLASSES: [(&str, &str); 3] =
    [("secrets", SECRET_SCANNING), ("pii", PERSONAL_DATA), ("internal", INTERNAL_ENDPOINTS)];

/// Where a text passes from one side to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Boundary {
    /// Arguments, on their way to a tool. They are refused or reported; the tool never gets
    /// others than the caller sent.
    Arguments,
    /// Results and errors, on their way to the caller.
    Result,
    /// Arguments and results, on their way into the record and to telemetry.
    Record,
    /// What is to be remembered, on its way into a store.
    Memory,
}

table! {
    /// Returns the word that documents have for it.
    pub ALL, pub Boundary::word: &'static str {
        Arguments: "arguments", Result: "result", Record: "record", Memory: "memory",
    }
}

/// One filter: these kinds, at these boundaries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// What is looked for: kinds as [`kinds_of`] returns them.
    pub kinds: Vec<&'static str>,
    /// Where.
    pub boundaries: Vec<Boundary>,
    /// What happens with it. In arguments, `Redact` takes it out of the record only.
    pub action: Action,
}

/// Returns the kinds that a document means by `word`: those of a class, or the one of that name.
/// None where it means nothing.
pub fn kinds_of(word: &str) -> Vec<&'static str> {
    let class = CLASSES.iter().find(|(class, _)| *class == word);
    let is = |(check, name): &(&str, &str)| {
        class.map_or_else(|| word_of(name) == word, |(_, of)| of == check)
    };
    kinds().filter(is).map(|(_, name)| name).collect()
}

/// Returns every word that [`kinds_of`] knows: classes first, then kinds.
pub fn kind_words() -> Vec<String> {
    let classes = CLASSES.iter().map(|(class, _)| (*class).to_owned());
    classes.chain(kinds().map(|(_, name)| word_of(name))).collect()
}

/// Returns every kind, and the check that finds it; each once.
fn kinds() -> impl Iterator<Item = (&'static str, &'static str)> {
    let secrets = secrets::names().map(|name| (SECRET_SCANNING, name));
    secrets.chain(personal::KINDS)
}

/// Returns the check that finds a kind.
pub(super) fn check_of(kind: &str) -> &'static str {
    personal::KINDS
        .iter()
        .find(|(_, name)| *name == kind)
        .map_or(SECRET_SCANNING, |(check, _)| check)
}

/// Documents write kinds as they write all names: `aws-access-key-id`.
fn word_of(name: &str) -> String {
    name.to_ascii_lowercase().replace(' ', "-")
}

/// An action, and the policy that asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CheckAction {
    pub(super) action: Action,
    pub(super) policy: String,
}

impl CheckAction {
    /// Keeps the strictest of the actions, and the first policy that asks for it.
    pub(super) fn strictest(kept: &mut Option<Self>, policy: &str, action: Option<Action>) {
        if let Some(action) = action
            && kept.as_ref().is_none_or(|kept| action > kept.action)
        {
            *kept = Some(Self { action, policy: policy.to_owned() });
        }
    }
}

/// What is looked for at one boundary.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Wanted(BTreeMap<&'static str, CheckAction>);

impl Wanted {
    /// Returns everything there is, for whoever only asks what a text holds.
    pub(super) fn all_of(word: &str) -> Self {
        let mut wanted = Self::default();
        kinds_of(word).iter().for_each(|kind| wanted.add(kind, "", Action::Redact));
        wanted
    }

    pub(super) fn add(&mut self, kind: &'static str, policy: &str, action: Action) {
        let mut kept = self.0.remove(kind);
        CheckAction::strictest(&mut kept, policy, Some(action));
        self.0.extend(kept.map(|asked| (kind, asked)));
    }

    pub(super) fn has(&self, kind: &str) -> bool {
        self.0.contains_key(kind)
    }

    pub(super) fn get(&self, kind: &str) -> Option<&CheckAction> {
        self.0.get(kind)
    }

    /// Says whether what is found of that kind has to be taken out: blocked, it is not shown either.
    pub(super) fn hides(&self, kind: &str) -> bool {
        self.get(kind).is_some_and(|asked| asked.action >= Action::Redact)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_word_means_kinds_and_no_two_the_same() {
        let words = kind_words();
        assert_eq!(words.iter().collect::<BTreeSet<_>>().len(), words.len());
        assert!(words.iter().all(|word| !kinds_of(word).is_empty()), "{words:?}");
        assert_eq!(kinds_of("email"), ["email"]);
        assert_eq!(kinds_of("aws-access-key-id"), ["AWS access key id"]);
        assert_eq!(kinds_of("e-mail"), [""; 0]);
        assert!(kinds_of("secrets").len() >= 22);
        assert_eq!(kinds().count(), kinds_of("secrets").len() + personal::KINDS.len());
    }

    #[test]
    fn the_strictest_action_counts_and_its_first_policy_is_named() {
        let mut wanted = Wanted::default();
        for (policy, action) in
            [("a", Action::Warn), ("b", Action::Block), ("c", Action::Block), ("d", Action::Log)]
        {
            wanted.add("email", policy, action);
        }
        assert_eq!(
            wanted.get("email"),
            Some(&CheckAction { action: Action::Block, policy: "b".to_owned() })
        );
        assert!(!wanted.has("phone"));
    }
}
