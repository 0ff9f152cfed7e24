//! What a document may hold, as data: closed tables that one checker walks.
//!
//! A table names each key once, with its type and bounds, so a kind's file reads like the
//! protocol's own page. Every mismatch is reported with its place; nothing is skipped.

use super::node::{Entry, Node, Value};
use super::problem::{Problems, Source, choices};

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
    /// A key that exists and has no effect in this version: any value is refused.
    Later,
    /// A list.
    List {
        /// What its items are.
        of: &'static Self,
        /// How many it needs at least.
        min: usize,
    },
    /// One of a few texts.
    OneOf(&'static [&'static str]),
    /// A mapping whose known keys have shapes and whose other keys are free.
    OpenRecord(&'static [Field]),
    /// A number.
    Real {
        /// The most it may be; the least is 0.
        max: f64,
    },
    /// A mapping with these keys and no others.
    Record(&'static [Field]),
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

/// Checks `node` against `shape` and reports every mismatch. `path` is how the value is
/// reached, for messages; empty at the document's root.
pub(crate) fn check(
    source: &Source,
    node: &Node,
    shape: &Shape,
    path: &str,
    problems: &mut Problems,
) -> bool {
    let before = problems.count();
    Walk { source, problems }.value(node, shape, path);
    problems.count() == before
}

struct Walk<'a> {
    source: &'a Source,
    problems: &'a mut Problems,
}

impl Walk<'_> {
    fn value(&mut self, node: &Node, shape: &Shape, path: &str) {
        match (shape, &node.value) {
            (Shape::Any | Shape::Entry, _) | (Shape::Flag, Value::Flag(_)) => {}
            (Shape::Later, _) => {
                let reason = format!("`{path}` is not served by this version");
                self.problems.invalid(self.source, node.at, reason, "take it out");
            }
            (Shape::Dict(of), Value::Map(entries)) => self.dict(entries, of, path),
            (Shape::List { of, min }, Value::List(items)) => {
                self.list(node, items, (of, *min), path)
            }
            (Shape::OneOf(known), Value::Text(text)) => self.one_of(node, text, known, path),
            (Shape::OpenRecord(fields), Value::Map(entries)) => {
                self.fields(node, entries, fields, path);
            }
            (Shape::Record(fields), Value::Map(entries)) => {
                self.unknown(entries, fields, path);
                self.fields(node, entries, fields, path);
            }
            (_, Value::Map(_) | Value::List(_) | Value::Null) => self.wrong(node, shape, path),
            (_, Value::Flag(_) | Value::Number(_) | Value::Text(_)) => {
                if !scalar_fits(node, shape) {
                    self.wrong(node, shape, path);
                }
            }
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
            self.problems.invalid(self.source, node.at, reason, "at least one entry is needed");
        }
        for (index, item) in items.iter().enumerate() {
            self.value(item, of, &format!("{path}[{index}]"));
        }
    }

    fn one_of(&mut self, node: &Node, text: &str, known: &'static [&'static str], path: &str) {
        if !known.contains(&text) {
            let reason = format!("`{path}` is `{}`", shown(text));
            let help = choices(text, known.iter().copied());
            self.problems.invalid(self.source, node.at, reason, help);
        }
    }

    fn unknown(&mut self, entries: &[Entry], fields: &'static [Field], path: &str) {
        for entry in entries {
            if !fields.iter().any(|field| field.name == entry.key) {
                let reason = format!("unknown key `{}`{}", shown(&entry.key), inside(path));
                let help = choices(&entry.key, possible(fields));
                self.problems.invalid(self.source, entry.at, reason, help);
            }
        }
    }

    fn fields(&mut self, node: &Node, entries: &[Entry], fields: &'static [Field], path: &str) {
        for field in fields {
            match entries.iter().find(|entry| entry.key == field.name) {
                Some(Entry { at, node: Node { value: Value::Null, .. }, .. }) => {
                    // An empty value has no place of its own: point at its key.
                    let node = Node { at: *at, value: Value::Null };
                    self.value(&node, field.shape, &join(path, field.name));
                }
                Some(entry) => self.value(&entry.node, field.shape, &join(path, field.name)),
                None if field.required => {
                    let reason = format!("`{}` is missing", join(path, field.name));
                    let help = format!("add `{}:` with {}", field.name, expected(field.shape));
                    self.problems.invalid(self.source, node.at, reason, help);
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
        self.problems.invalid(self.source, node.at, reason, format!("write {}", expected(shape)));
    }
}

/// Returns the keys that may be written.
fn possible(fields: &'static [Field]) -> impl Iterator<Item = &'static str> + Clone {
    fields.iter().filter(|field| !matches!(field.shape, Shape::Later)).map(|field| field.name)
}

fn scalar_fits(node: &Node, shape: &Shape) -> bool {
    match (shape, &node.value) {
        (Shape::Duration, Value::Text(text)) => is_duration(text),
        (Shape::Int { min }, Value::Number(number)) => number.as_u64().is_some_and(|n| n >= *min),
        (Shape::Real { max }, Value::Number(number)) => {
            number.as_f64().is_some_and(|n| n >= 0.0 && n <= *max)
        }
        (Shape::Text { min }, Value::Text(text)) => text.chars().count() >= *min,
        _ => false,
    }
}

/// Says whether `text` is a number followed by one of `s`, `m`, `h`, `d`.
fn is_duration(text: &str) -> bool {
    const DIGITS_MAX: usize = 9;
    let digits = text.trim_end_matches(['s', 'm', 'h', 'd']);
    text.len() == digits.len() + 1
        && (1..=DIGITS_MAX).contains(&digits.len())
        && digits.bytes().all(|b| b.is_ascii_digit())
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
        Shape::Flag => "true or false".to_owned(),
        Shape::Later => "nothing".to_owned(),
        Shape::Int { min } => format!("a whole number of {min} or more"),
        Shape::List { of, .. } => format!("a list, each entry {}", expected(of)),
        Shape::OneOf(known) => format!("one of: {}", known.join(", ")),
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
    ]);

    fn problems(text: &str) -> Vec<String> {
        let (source, node) = node::parse(Path::new("t.yaml"), text.as_bytes()).unwrap();
        let mut problems = Problems::default();
        check(&source, &node, &OUTER, "", &mut problems);
        match problems.finish(Some(())) {
            Ok(()) => Vec::new(),
            Err(list) => list.iter().map(DocumentError::one_line).collect(),
        }
    }

    use super::super::problem::DocumentError;

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
                "t.yaml:1:1: unknown key `innr` (did you mean `inner`? possible here: inner, share, age, names, labels)",
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
