//! `filters`: what is looked for where beside what policies ask for, and what happens with it. The
//! protocol's policies have no place for it.

use super::reader::Reader;
use crate::manifest::node::{Entry, Node};
use crate::manifest::problem::choices;
use crate::manifest::shape::{shown, wrong_name};
use crate::screen::{Action, Boundary, Filter, kind_words, kinds_of};

impl Reader {
    pub(super) fn take_filters(&mut self, filters: &Node) -> Vec<(String, Filter)> {
        let read = |entry: &Entry| (entry.key.clone(), self.take_filter(entry));
        filters.entries().iter().map(read).collect()
    }

    fn take_filter(&mut self, entry: &Entry) -> Filter {
        let node = &entry.node;
        if let Some((reason, help)) = wrong_name(&entry.key) {
            self.refuse(&entry.at, reason, help);
        }
        let kinds =
            node.texts(&["kinds"]).flat_map(|(at, word)| self.take_kind(at, word)).collect();
        let named = |(_, word): (_, &str)| Boundary::ALL.into_iter().find(|own| own.word() == word);
        let boundaries = node.texts(&["boundaries"]).filter_map(named).collect();
        let filter = Filter { kinds, boundaries, action: action(node) };
        if filter.action != Action::Redact && filter.boundaries.contains(&Boundary::Record) {
            let reason = "what is recorded has happened: it can be masked, and nothing else";
            let help = "write `action: redact`, or leave `record` out of this filter";
            self.refuse(node.place(&["action"]), reason, help);
        }
        filter
    }

    fn take_kind(&mut self, at: &Node, word: &str) -> Vec<&'static str> {
        let kinds = kinds_of(word);
        if kinds.is_empty() {
            let words = kind_words();
            let reason = format!("nothing that is looked for is called `{}`", shown(word));
            self.refuse(&at.at, reason, choices(word, words.iter().map(String::as_str)));
        }
        kinds
    }
}

/// What is no other action is the strictest.
fn action(node: &Node) -> Action {
    match node.text(&["action"]) {
        Some("redact") => Action::Redact,
        Some("warn") => Action::Warn,
        _ => Action::Block,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::read_body as settings;
    use super::*;

    #[test]
    fn a_filter_has_kinds_boundaries_and_an_action() {
        let text = "filters: { people: { kinds: [email, internal], boundaries: [result, record], action: redact }, keys: { kinds: [aws-access-key-id], boundaries: [arguments], action: block } }";
        let filters = settings(text, &[]).unwrap().filters;
        let of = |name: &str| filters.iter().find(|(it, _)| it == name).unwrap();
        let (keys, people) = (of("keys"), of("people"));
        assert_eq!(keys.1.kinds, ["AWS access key id"]);
        assert_eq!(
            (keys.1.action, &keys.1.boundaries[..]),
            (Action::Block, &[Boundary::Arguments][..])
        );
        assert_eq!(people.1.kinds, ["email", "private ip", "internal host", "local port"]);
        assert_eq!(people.1.boundaries, [Boundary::Result, Boundary::Record]);
        let variable =
            ("CLAWHOST_FILTERS", "{x: {kinds: [pii], boundaries: [memory], action: warn}}");
        assert_eq!(settings("", &[variable]).unwrap().filters[0].1.action, Action::Warn);
    }

    #[test]
    fn an_unknown_kind_is_refused_with_the_list_and_a_record_is_only_masked() {
        let text = "filters: { a: { kinds: [e-mail], boundaries: [result], action: warn } }";
        let error = settings(text, &[]).unwrap_err();
        assert!(
            ["`e-mail`", "email", "pii", "iban"].iter().all(|it| error.contains(it)),
            "{error}"
        );
        let text = "filters: { a: { kinds: [email], boundaries: [record], action: block } }";
        assert!(settings(text, &[]).unwrap_err().contains("masked"));
        for wrong in ["kinds: []", "boundaries: []", "boundaries: [screen]", "action: ignore"] {
            let rest = ["kinds: [email]", "boundaries: [result]", "action: warn"];
            let key = wrong.split(':').next().unwrap();
            let rest = rest.iter().filter(|part| !part.starts_with(key)).copied();
            let text = rest.chain([wrong]).collect::<Vec<_>>().join(", ");
            assert!(settings(&format!("filters: {{ a: {{ {text} }} }}"), &[]).is_err(), "{text}");
        }
    }
}
