//! What a document may hold, as data: closed tables that one checker walks.
//!
//! A table names each key once, with its type and bounds, so a kind's file reads like the
//! protocol's own page. Every mismatch is reported with its place; nothing is skipped.

#[cfg(test)]
pub(crate) mod tests;
mod words;

use std::fmt::Display;

pub(crate) use self::words::{expected, shown, shown_sentence};
use self::words::{found, only, quotes};
use super::node::{Entry, Node, Place, Value, duration, pasted};
use super::problem::{Report, choices, nearest};
use crate::uri::Kind;

/// The type of a value.
#[derive(Debug)]
pub(crate) enum Shape {
    /// Anything at all.
    Any,
    /// What stands for a primitive in a Claw: its forms are checked where it is resolved.
    Entry(Kind),
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
        /// The most it may be.
        max: u64,
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
    /// A mapping whose known keys have shapes and whose other keys are free, unless they are
    /// probably meant as a known one.
    OpenRecord(&'static [Field]),
    /// A number.
    Real {
        /// The most it may be; the least is 0.
        max: f64,
    },
    /// A path of this machine, written out: nothing in it is expanded.
    Path,
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

/// Writes a shape, or a const that is one, in the words of `kinds`.
macro_rules! shape {
    (@ [$($done:tt)*]) => { Shape::Record(&[$($done)*]) };
    (@ [$($done:tt)*] ..) => { Shape::OpenRecord(&[$($done)*]) };
    (@ [$($done:tt)*] $name:ident ! : $of:tt $(, $($rest:tt)*)?) => {
        shape!(@ [$($done)* req(stringify!($name), &shape!($of)),] $($($rest)*)?)
    };
    (@ [$($done:tt)*] $name:ident : $of:tt $(, $($rest:tt)*)?) => {
        shape!(@ [$($done)* opt(stringify!($name), &shape!($of)),] $($($rest)*)?)
    };
    ($vis:vis $name:ident = $of:tt) => { $vis const $name: Shape = shape!($of); };
    ({ $($fields:tt)* }) => { shape!(@ [] $($fields)*) };
    ([$($choice:literal)|+]) => { Shape::OneOf(&[$($choice),+]) };
    ([+ $of:tt]) => { Shape::List { of: &shape!($of), min: 1 } };
    ([$of:tt]) => { Shape::List { of: &shape!($of), min: 0 } };
    (($of:expr)) => { $of };
    ($of:ident) => { $of };
}
pub(crate) use shape;

/// A whole number that this host bounds.
pub(crate) const fn up_to(max: u64) -> Shape {
    Shape::Int { min: 0, max }
}

pub(crate) const ANY: Shape = Shape::Any;
pub(crate) const COUNT: Shape = up_to(u64::MAX);
pub(crate) const DURATION: Shape = Shape::Duration;
pub(crate) const FLAG: Shape = Shape::Flag;
pub(crate) const NUMBER: Shape = Shape::Real { max: f64::MAX };
pub(crate) const OBJECT: Shape = Shape::OpenRecord(&[]);
pub(crate) const PATH: Shape = Shape::Path;
pub(crate) const POSITIVE: Shape = Shape::Int { min: 1, max: u64::MAX };
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
            (Shape::Any | Shape::Entry(_), _)
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
                self.misspelt(entries, fields, path);
                self.fields(node, entries, fields, path);
            }
            (Shape::Record(fields), Value::Map(entries)) => {
                self.unknown(entries, fields, path);
                self.fields(node, entries, fields, path);
            }
            (Shape::Path, Value::Text(text)) if is_unexpanded(text) => {
                let reason = format!("`{path}` is `{}`, which is not expanded", shown(text));
                self.mismatch(node.at, reason, "write the path out");
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
            let help = format!("add at least one entry: {}", expected(of, path));
            self.mismatch(node.at, reason, help);
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
                let is_near = nearest(&entry.key, possible(fields)).is_some();
                if !is_near && fields.iter().any(|field| field.name == "secret_ref") {
                    self.fits = false;
                    self.report.secret_value(entry.at, reason);
                    continue;
                }
                self.mismatch(entry.at, reason, choices(&entry.key, possible(fields)));
            }
        }
    }

    /// A free key beside known ones: what was meant as a known one would silently do nothing.
    fn misspelt(&mut self, entries: &[Entry], fields: &'static [Field], path: &str) {
        let names = fields.iter().map(|field| field.name);
        for Entry { key, at, .. } in entries {
            let near = nearest(key, names.clone());
            if let Some(near) = near.filter(|_| !names.clone().any(|name| name == key)) {
                let reason = format!("unknown key `{}`{}", shown(key), inside(path));
                self.mismatch(*at, reason, format!("did you mean `{near}`?"));
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
                None if field.required && !is_misspelt(field, entries, fields) => {
                    let reason = format!("`{}` is missing", join(path, field.name));
                    let help = match only(field.shape) {
                        Some(value) => format!("add `{}: {value}`", field.name),
                        None => {
                            let value = expected(field.shape, field.name);
                            format!("add `{}:` with {value}", field.name)
                        }
                    };
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
            (path, Value::Null) => format!("`{path}` has no value"),
            (path, _) => format!("`{path}` is {}", found(node)),
        };
        let plain = || format!("write {}{}", expected(shape, path), quotes(node, shape));
        // Somewhere inside, as `key: value` with another space is one text.
        let words = node.as_text().into_iter().flat_map(|text| text.split(':'));
        let help = words.filter_map(pasted).next().map_or_else(plain, str::to_owned);
        self.mismatch(node.at, reason, help);
    }
}

/// Adds the way to every value of the mappings of fixed keys, and what belongs there.
pub(crate) fn values(shape: &'static Shape, path: &str, into: &mut Vec<(String, &'static Shape)>) {
    match shape {
        Shape::Record(fields) => {
            let path = if path.is_empty() { String::new() } else { format!("{path}.") };
            fields.iter().for_each(|of| values(of.shape, &format!("{path}{}", of.name), into));
        }
        Shape::Later { .. } => {}
        _ => into.push((path.to_owned(), shape)),
    }
}

/// Says whether a key that is missing is there under a name that is nearly its own.
fn is_misspelt(field: &Field, entries: &[Entry], fields: &'static [Field]) -> bool {
    entries.iter().any(|entry| nearest(&entry.key, possible(fields)) == Some(field.name))
}

/// Returns the keys that a mapping of this shape may hold.
pub(crate) fn keys(shape: &'static Shape) -> Vec<&'static str> {
    match shape {
        Shape::Record(fields) | Shape::OpenRecord(fields) => possible(fields).collect(),
        _ => Vec::new(),
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
        (Shape::Int { min, max }, Value::Number(number)) => {
            number.as_u64().is_some_and(|n| n >= *min && n <= *max)
        }
        (Shape::Real { max }, Value::Number(number)) => {
            number.as_f64().is_some_and(|n| n >= 0.0 && n <= *max)
        }
        (Shape::Path, Value::Text(text)) => !text.is_empty(),
        (Shape::Text { min }, Value::Text(text)) => text.chars().count() >= *min,
        _ => false,
    }
}

/// Says whether a shell would make another path of this one.
fn is_unexpanded(path: &str) -> bool {
    let is_variable =
        |rest: &str| rest.starts_with(|c: char| c == '{' || c == '_' || c.is_ascii_alphabetic());
    path.starts_with('~') || path.split('$').skip(1).any(is_variable)
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() { shown(key) } else { format!("{path}.{}", shown(key)) }
}

fn inside(path: &str) -> String {
    if path.is_empty() { String::new() } else { format!(" in `{path}`") }
}
