//! What a document may hold, as data: closed tables that one checker walks.
//!
//! A table names each key once, with its type and bounds, so a kind's file reads like the
//! protocol's own page. Every mismatch is reported with its place; nothing is skipped.

use std::fmt::Display;

use super::node::{Entry, Node, Place, Value, duration};
use super::problem::{Report, choices};

/// The type of a value.
#[derive(Debug)]
pub(crate) enum Shape {
    /// Anything at all.
    Any,
    /// What stands for a primitive in a Claw: its forms are checked where it is resolved.
    Entry,
    /// A mapping with free keys and values of one shape.
    Dict(&'static Self),
    /// A span of time such as `90s`, `5m`, `24h` or `30d`.
    Duration,
    /// `true` or `false`.
    Flag,
    /// A whole number.
    Int {
        /// The least it may be.
        min: u64,
    },
    /// A key that exists and that this version does not serve: any value is refused.
    Later {
        /// What to do instead.
        help: &'static str,
    },
    /// A list.
    List {
        /// What its items are.
        of: &'static Self,
        /// How many it needs at least.
        min: usize,
    },
    /// One of a few texts.
    OneOf(&'static [&'static str]),
    /// `true` or `false`, of which this version does not serve the first.
    Off {
        /// What to do instead.
        help: &'static str,
    },
    /// A mapping whose known keys have shapes and whose other keys are free.
    OpenRecord(&'static [Field]),
    /// A number.
    Real {
        /// The most it may be; the least is 0.
        max: f64,
    },
    /// A mapping with these keys and no others.
    Record(&'static [Field]),
    /// One of a few texts, not all of which this version serves.
    Served {
        /// Those that it does.
        now: &'static [&'static str],
        /// Those that it does not.
        later: &'static [&'static str],
        /// What to write instead of these.
        help: &'static str,
    },
    /// A text.
    Text {
        /// How many characters it needs at least.
        min: usize,
    },
}

/// One key of a record.
#[derive(Debug)]
pub(crate) struct Field {
    name: &'static str,
    required: bool,
    shape: &'static Shape,
}

/// A key that may be left out.
pub(crate) const fn opt(name: &'static str, shape: &'static Shape) -> Field {
    Field { name, required: false, shape }
}

/// A key that must be there.
pub(crate) const fn req(name: &'static str, shape: &'static Shape) -> Field {
    Field { name, required: true, shape }
}

pub(crate) const ANY: Shape = Shape::Any;
pub(crate) const COUNT: Shape = Shape::Int { min: 0 };
pub(crate) const DURATION: Shape = Shape::Duration;
pub(crate) const FLAG: Shape = Shape::Flag;
pub(crate) const NUMBER: Shape = Shape::Real { max: f64::MAX };
pub(crate) const OBJECT: Shape = Shape::OpenRecord(&[]);
pub(crate) const POSITIVE: Shape = Shape::Int { min: 1 };
pub(crate) const SHARE: Shape = Shape::Real { max: 1.0 };
pub(crate) const STRING: Shape = Shape::Text { min: 0 };
pub(crate) const STRINGS: Shape = Shape::List { of: &STRING, min: 0 };
pub(crate) const TEXT: Shape = Shape::Text { min: 1 };

/// Checks `node` against `shape`, reports every mismatch, and says whether there was none, so that
/// the rest can be checked. `path` is how the value is reached, for messages; empty at the
/// document's root.
///
/// What the protocol has and this version does not serve is reported too, and is no mismatch.
pub(crate) fn check(report: &mut Report<'_>, node: &Node, shape: &Shape, path: &str) -> bool {
    let mut walk = Walk { report, fits: true };
    walk.value(node, shape, path);
    walk.fits
}

struct Walk<'a, 'b> {
    report: &'a mut Report<'b>,
    fits: bool,
}

impl Walk<'_, '_> {
    fn mismatch(&mut self, at: Place, reason: String, help: impl Into<String>) {
        self.fits = false;
        self.report.invalid(at, reason, help);
    }

    fn unserved(&mut self, node: &Node, what: impl Display, help: &str) {
        self.report.invalid(node.at, format!("`{what}` is not served by this version"), help);
    }

    /// Says that nothing more can be reported; the rest then counts as unfit.
    fn is_full(&mut self) -> bool {
        let is_full = self.report.problems.is_full();
        self.fits = self.fits && !is_full;
        is_full
    }

    fn value(&mut self, node: &Node, shape: &Shape, path: &str) {
        if self.is_full() {
            return;
        }
        match (shape, &node.value) {
            (Shape::Any | Shape::Entry, _)
            | (Shape::Flag | Shape::Off { .. }, Value::Flag(false)) => {}
            (Shape::Flag, Value::Flag(true)) => {}
            (Shape::Off { help }, Value::Flag(true)) => {
                self.unserved(node, format_args!("{path}: true"), help);
            }
            (Shape::Later { help }, _) => self.unserved(node, path, help),
            (Shape::Dict(of), Value::Map(entries)) => self.dict(entries, of, path),
            (Shape::List { of, min }, Value::List(items)) => {
                self.list(node, items, (of, *min), path)
            }
            (Shape::Served { later, help, .. }, Value::Text(text))
                if later.contains(&text.as_str()) =>
            {
                self.unserved(node, format_args!("{path}: {text}"), help);
            }
            (Shape::OneOf(known) | Shape::Served { now: known, .. }, Value::Text(text)) => {
                self.one_of(node, text, known, path);
            }
            (Shape::OpenRecord(fields), Value::Map(entries)) => {
                self.fields(node, entries, fields, path);
            }
            (Shape::Record(fields), Value::Map(entries)) => {
                self.unknown(entries, fields, path);
                self.fields(node, entries, fields, path);
            }
            _ if scalar_fits(node, shape) => {}
            _ => self.wrong(node, shape, path),
        }
    }

    fn dict(&mut self, entries: &[Entry], of: &Shape, path: &str) {
        for entry in entries {
            self.value(&entry.node, of, &join(path, &entry.key));
        }
    }

    fn list(&mut self, node: &Node, items: &[Node], (of, min): (&Shape, usize), path: &str) {
        if items.len() < min {
            let reason = format!("`{path}` is empty");
            self.mismatch(node.at, reason, "at least one entry is needed");
        }
        for (index, item) in items.iter().enumerate() {
            self.value(item, of, &format!("{path}[{index}]"));
        }
    }

    fn one_of(&mut self, node: &Node, text: &str, known: &'static [&'static str], path: &str) {
        if !known.contains(&text) {
            let reason = format!("`{path}` is `{}`", shown(text));
            let help = choices(text, known.iter().copied());
            self.mismatch(node.at, reason, help);
        }
    }

    fn unknown(&mut self, entries: &[Entry], fields: &'static [Field], path: &str) {
        for entry in entries {
            if self.is_full() {
                return;
            }
            if !fields.iter().any(|field| field.name == entry.key) {
                let reason = format!("unknown key `{}`{}", shown(&entry.key), inside(path));
                let help = choices(&entry.key, possible(fields));
                self.mismatch(entry.at, reason, help);
            }
        }
    }

    fn fields(&mut self, node: &Node, entries: &[Entry], fields: &'static [Field], path: &str) {
        for field in fields {
            match entries.iter().find(|entry| entry.key == field.name) {
                Some(Entry { at, node, .. })
                    if matches!(
                        (&node.value, field.shape),
                        (Value::Null, _) | (_, Shape::Later { .. })
                    ) =>
                {
                    // An empty value has no place of its own, and of an unserved key none counts.
                    let node = Node { at: *at, value: Value::Null };
                    self.value(&node, field.shape, &join(path, field.name));
                }
                Some(entry) => self.value(&entry.node, field.shape, &join(path, field.name)),
                None if field.required => {
                    let reason = format!("`{}` is missing", join(path, field.name));
                    let help = format!("add `{}:` with {}", field.name, expected(field.shape));
                    self.mismatch(node.at, reason, help);
                }
                None => {}
            }
        }
    }

    fn wrong(&mut self, node: &Node, shape: &Shape, path: &str) {
        let reason = match (path, &node.value) {
            ("", Value::Null) => "the document is empty".to_owned(),
            ("", _) => format!("the document is {}", found(node)),
            (path, _) => format!("`{path}` is {}", found(node)),
        };
        self.mismatch(node.at, reason, format!("write {}", expected(shape)));
    }
}

/// Returns the keys that may be written.
fn possible(fields: &'static [Field]) -> impl Iterator<Item = &'static str> + Clone {
    fields
        .iter()
        .filter(|field| !matches!(field.shape, Shape::Later { .. }))
        .map(|field| field.name)
}

fn scalar_fits(node: &Node, shape: &Shape) -> bool {
    match (shape, &node.value) {
        (Shape::Duration, Value::Text(text)) => duration(text).is_some(),
        (Shape::Int { min }, Value::Number(number)) => number.as_u64().is_some_and(|n| n >= *min),
        (Shape::Real { max }, Value::Number(number)) => {
            number.as_f64().is_some_and(|n| n >= 0.0 && n <= *max)
        }
        (Shape::Text { min }, Value::Text(text)) => text.chars().count() >= *min,
        _ => false,
    }
}

fn found(node: &Node) -> String {
    match &node.value {
        Value::Flag(flag) => format!("{flag}"),
        Value::Number(number) => format!("the number {number}"),
        Value::Text(text) if text.is_empty() => "an empty text".to_owned(),
        Value::Text(text) => format!("the text `{}`", shown(text)),
        Value::List(_) | Value::Map(_) | Value::Null => node.describe().to_owned(),
    }
}

fn expected(shape: &Shape) -> String {
    match shape {
        Shape::Any => "a value".to_owned(),
        Shape::Entry => "a path, a claw:// address, or `inline:` and its spec".to_owned(),
        Shape::Dict(_) | Shape::OpenRecord(_) => "a mapping".to_owned(),
        Shape::Duration => "a time such as 90s, 5m, 24h or 30d".to_owned(),
        Shape::Flag | Shape::Off { .. } => "true or false".to_owned(),
        Shape::Later { .. } => "nothing".to_owned(),
        Shape::Int { min } => format!("a whole number of {min} or more"),
        Shape::List { of, .. } => format!("a list, each entry {}", expected(of)),
        Shape::OneOf(known) | Shape::Served { now: known, .. } => {
            format!("one of: {}", known.join(", "))
        }
        Shape::Real { max } if *max < f64::MAX => format!("a number from 0 to {max}"),
        Shape::Real { .. } => "a number of 0 or more".to_owned(),
        Shape::Record(fields) => {
            let names: Vec<&str> = possible(fields).collect();
            format!("a mapping with the keys {}", names.join(", "))
        }
        Shape::Text { .. } => "a text (quote it if it looks like a number)".to_owned(),
    }
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { shown(key) } else { format!("{path}.{}", shown(key)) }
}

fn inside(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" in `{path}`") }
}

/// Keeps a quoted text readable and on one line.
pub(crate) fn shown(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    let cut: String = text.chars().take(SHOWN_CHARS_MAX).flat_map(char::escape_debug).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() { format!("{cut}…") } else { cut }
}

/// Keeps another library's sentence on one line, and harmless.
pub(crate) fn shown_sentence(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 300;
    text.chars().take(SHOWN_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::super::node;
    use super::super::problem::{DocumentError, Problems};
    use super::*;
    use std::path::Path;

    const INNER: Shape =
        Shape::Record(&[req("n", &POSITIVE), opt("mode", &Shape::OneOf(&["on", "off"]))]);
    const OUTER: Shape = Shape::Record(&[
        opt("inner", &INNER),
        opt("share", &SHARE),
        opt("age", &DURATION),
        opt("names", &Shape::List { of: &TEXT, min: 1 }),
        opt("labels", &Shape::Dict(&STRING)),
        opt("kept", &Shape::Served { now: &["here"], later: &["there"], help: "write `here`" }),
        opt("sealed", &Shape::Off { help: "leave it out" }),
        opt("more", &Shape::Later { help: "take it out" }),
    ]);

    fn problems(text: &str) -> Vec<String> {
        let (source, node) = node::parse(Path::new("t.yaml"), text.as_bytes()).unwrap();
        let mut problems = Problems::default();
        check(&mut problems.of(&source), &node, &OUTER, "");
        match problems.finish(Some(())) {
            Ok(()) => Vec::new(),
            Err(list) => list.iter().map(DocumentError::one_line).collect(),
        }
    }

    #[test]
    fn what_fits_is_accepted() {
        let text = "inner: {n: 1, mode: off}\nshare: 0.5\nage: 30d\nnames: [a]\nlabels: {x: y}\n";
        assert_eq!(problems(text), Vec::<String>::new());
        assert_eq!(problems("share: 1"), Vec::<String>::new());
    }

    #[test]
    fn every_mismatch_is_reported_with_its_place() {
        let text = "innr: 1\ninner: {mode: onn}\nshare: 2\nage: soon\nnames: []\nlabels: {x: 1}\n";
        assert_eq!(
            problems(text),
            [
                "t.yaml:1:1: unknown key `innr` (did you mean `inner`? possible here: inner, share, age, names, labels, kept, sealed)",
                "t.yaml:2:8: `inner.n` is missing (add `n:` with a whole number of 1 or more)",
                "t.yaml:2:15: `inner.mode` is `onn` (did you mean `on`? possible here: on, off)",
                "t.yaml:3:8: `share` is the number 2 (write a number from 0 to 1)",
                "t.yaml:4:6: `age` is the text `soon` (write a time such as 90s, 5m, 24h or 30d)",
                "t.yaml:5:8: `names` is empty (at least one entry is needed)",
                "t.yaml:6:13: `labels.x` is the number 1 (write a text (quote it if it looks like a number))",
            ]
        );
    }

    #[test]
    fn what_is_not_served_is_reported_and_fits() {
        let text = "kept: there\nsealed: true\nmore: [1]\n";
        let (source, node) = node::parse(Path::new("t.yaml"), text.as_bytes()).unwrap();
        let mut all = Problems::default();
        assert!(check(&mut all.of(&source), &node, &OUTER, ""));
        assert_eq!(
            problems(text),
            [
                "t.yaml:1:7: `kept: there` is not served by this version (write `here`)",
                "t.yaml:2:9: `sealed: true` is not served by this version (leave it out)",
                "t.yaml:3:1: `more` is not served by this version (take it out)",
            ]
        );
        assert_eq!(problems("kept: here\nsealed: false\n"), Vec::<String>::new());
        assert_eq!(problems("kept: where"), ["t.yaml:1:7: `kept` is `where` (write `here`)"]);
    }

    #[test]
    fn the_wrong_kind_of_value_is_reported_once() {
        assert_eq!(problems("[1]").len(), 1);
        assert_eq!(problems("inner: 5").len(), 1);
        assert_eq!(
            problems("inner:\nshare: 1\n"),
            ["t.yaml:1:1: `inner` is nothing (write a mapping with the keys n, mode)"]
        );
        assert_eq!(
            problems("age: 10 d"),
            ["t.yaml:1:6: `age` is the text `10 d` (write a time such as 90s, 5m, 24h or 30d)"]
        );
    }
}
