//! What a document may hold, as data: closed tables that one checker walks.
//!
//! A table names each key once, with its type and bounds, so a kind's file reads like the
//! protocol's own page. Every mismatch is reported with its place; nothing is skipped.

#[cfg(test)]
pub(crate) mod tests;
mod words;

use std::fmt::Display;
use std::net::SocketAddr;
use std::path::Path;

use self::words::{add, found, instead, no_such_key, told};
pub(crate) use self::words::{expected, shown, shown_sentence};
pub(crate) use self::words::{wrong_name, wrong_url};
use super::node::{self, Entry, Node, Place, Value, duration, pasted};
use super::problem::{Problems, choices, nearest};
use crate::grants::is_secret_name;
use crate::uri::Kind;

/// The type of a value.
#[derive(Debug)]
pub(crate) enum Shape {
    /// An address of this machine and a port, to listen on.
    Address,
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
    /// What is checked and has no effect in this version.
    Idle {
        /// What it is.
        of: &'static Self,
        /// More about that, for a note.
        remark: &'static str,
    },
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
    /// The name of a document, or of something in the runtime file.
    Name,
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
    /// The name of a document of some kind, or its address.
    Ref(Kind),
    /// The name of a secret: never its value.
    Secret,
    /// One of a few texts, not all of which this version serves.
    Served {
        /// Those that it does.
        now: &'static [&'static str],
        /// Those that it does not.
        later: &'static [&'static str],
        /// What to write instead of these.
        help: &'static str,
    },
    /// A mapping; the `kind` beside it tells its keys.
    Spec,
    /// A text.
    Text {
        /// How many characters it needs at least.
        min: usize,
    },
    /// A web address that a server may be reached under.
    Url,
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
    ([$($now:literal)|+, later $($later:literal)|+, $help:literal]) => {
        Shape::Served { now: &[$($now),+], later: &[$($later),+], help: $help }
    };
    ([$($choice:literal)|+]) => { Shape::OneOf(&[$($choice),+]) };
    ([+ $of:tt]) => { Shape::List { of: &shape!($of), min: 1 } };
    ([$of:tt]) => { Shape::List { of: &shape!($of), min: 0 } };
    ((idle $of:tt $($remark:literal)?)) => {
        Shape::Idle { of: &shape!($of), remark: concat!($($remark)?) }
    };
    (($of:expr)) => { $of };
    ($of:ident) => { $of };
}
pub(crate) use shape;

/// A whole number that this host bounds.
pub(crate) const fn up_to(max: u64) -> Shape {
    Shape::Int { min: 0, max }
}

pub(crate) const ADDRESS: Shape = Shape::Address;
pub(crate) const ANY: Shape = Shape::Any;
pub(crate) const COUNT: Shape = up_to(u64::MAX);
pub(crate) const DURATION: Shape = Shape::Duration;
pub(crate) const FLAG: Shape = Shape::Flag;
pub(crate) const NAME: Shape = Shape::Name;
pub(crate) const NUMBER: Shape = Shape::Real { max: f64::MAX };
pub(crate) const OBJECT: Shape = Shape::OpenRecord(&[]);
pub(crate) const PATH: Shape = Shape::Path;
pub(crate) const POSITIVE: Shape = Shape::Int { min: 1, max: u64::MAX };
pub(crate) const SECRET: Shape = Shape::Secret;
pub(crate) const SHARE: Shape = Shape::Real { max: 1.0 };
pub(crate) const STRING: Shape = Shape::Text { min: 0 };
pub(crate) const STRINGS: Shape = Shape::List { of: &STRING, min: 0 };
pub(crate) const TEXT: Shape = Shape::Text { min: 1 };
pub(crate) const URL: Shape = Shape::Url;

/// Says where the value of a secret belongs, whose name stands under `key`.
fn secret_value(key: &str) -> String {
    format!("values do not stand in documents: `clawhost secrets set NAME`, then `{key}: NAME`")
}

/// Reads a file that has to be of one shape as a whole; nothing where it is not, which is reported.
pub(crate) fn parsed(
    report: &mut Problems,
    file: &Path,
    bytes: &[u8],
    shape: &Shape,
) -> Option<Node> {
    let root = node::parse(file, bytes).map_err(|problem| report.push(*problem)).ok()?;
    check(report, &root, shape, "").then_some(root)
}

/// Checks `node` against `shape`, reports every mismatch, and says whether there was none, so that
/// the rest can be checked. `path` is how the value is reached, for messages; empty at the
/// document's root.
///
/// What the protocol has and this version does not serve is reported too, and is no mismatch.
pub(crate) fn check(report: &mut Problems, node: &Node, shape: &Shape, path: &str) -> bool {
    let mut walk = Walk { report, fits: true };
    walk.value(node, shape, path);
    walk.fits
}

struct Walk<'a> {
    report: &'a mut Problems,
    fits: bool,
}

impl Walk<'_> {
    fn mismatch(&mut self, at: &Place, reason: String, help: impl Into<String>) {
        self.fits = false;
        self.report.invalid(at, reason, help);
    }

    fn unserved(&mut self, node: &Node, what: impl Display, help: &str) {
        self.report.invalid(&node.at, format!("`{what}` is not served by this version"), help);
    }

    /// Says that nothing more can be reported; the rest then counts as unfit.
    fn is_full(&mut self) -> bool {
        let is_full = self.report.is_full();
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
            (Shape::Idle { of, .. }, _) => self.value(node, of, path),
            (Shape::Served { later, help, .. }, Value::Text(text))
                if later.contains(&text.as_str()) =>
            {
                self.unserved(node, format_args!("{path}: {text}"), help);
            }
            (Shape::Served { now, later: [], help }, Value::Text(text))
                if !now.contains(&text.as_str()) =>
            {
                self.mismatch(&node.at, format!("`{path}` is `{}`", shown(text)), *help);
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
                self.mismatch(&node.at, reason, "write the path out, without `~` and `$`");
            }
            (Shape::Address | Shape::Name | Shape::Secret | Shape::Url, Value::Text(text))
                if !text.is_empty() =>
            {
                self.text(&node.at, text, shape, path);
            }
            _ if scalar_fits(node, shape) => {}
            _ => self.wrong(node, shape, path),
        }
    }

    /// What is wrong with a text is no mismatch of shapes: the rest can be checked all the same.
    fn text(&mut self, at: &Place, text: &str, shape: &Shape, path: &str) {
        match shape {
            Shape::Secret if !is_secret_name(text) => {
                let reason = format!("`{path}` is no name of a secret");
                let help = "write the name, not the value: letters, digits, `_`, `-` and `.`, as in `clawhost secrets set NAME`";
                self.report.invalid(&at.hidden(), reason, help);
            }
            Shape::Address if text.parse::<SocketAddr>().is_err() => {
                let help = format!("write {}", expected(shape, path));
                self.report.invalid(at, format!("`{path}` is no socket address"), help);
            }
            Shape::Url => {
                if let Some((is, help)) = wrong_url(text) {
                    self.report.url(at, text, format!("`{path}` {is}"), help);
                }
            }
            Shape::Name => {
                if let Some((reason, help)) = wrong_name(text) {
                    self.report.invalid(at, reason, help);
                }
            }
            _ => {}
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
            self.mismatch(&node.at, reason, help);
        }
        for (index, item) in items.iter().enumerate() {
            self.value(item, of, &format!("{path}[{index}]"));
        }
    }

    fn one_of(&mut self, node: &Node, text: &str, known: &'static [&'static str], path: &str) {
        if !known.contains(&text) {
            let reason = format!("`{path}` is `{}`", shown(text));
            self.mismatch(&node.at, reason, choices(text, known.iter().copied()));
        }
    }

    fn unknown(&mut self, entries: &[Entry], fields: &'static [Field], path: &str) {
        let is_unknown = |entry: &&Entry| !fields.iter().any(|field| field.name == entry.key);
        for Entry { key, at, .. } in entries.iter().filter(is_unknown) {
            if self.is_full() {
                return;
            }
            let reason = format!("unknown key `{}`{}", shown(key), inside(path));
            let home = fields.iter().find(|of| keys(told(of.shape, entries)).contains(&&**key));
            let beside = fields.iter().find(|field| matches!(field.shape, Shape::Secret));
            let choices = choices(key, possible(fields));
            match (nearest(key, possible(fields)), home) {
                (Some(_), _) => self.mismatch(at, reason, choices),
                (_, Some(home)) => {
                    self.mismatch(at, reason, format!("put it under `{}:`", home.name));
                }
                // The name of an entry of a list is no part of its spec, and stands among its keys.
                _ if path.ends_with("].inline") && nearest(key, ["name"]).is_some() => {
                    self.mismatch(at, reason, "did you mean `name`?");
                }
                _ if let Some(field) = beside => {
                    let help = no_such_key(path, &choices) + "; " + &secret_value(field.name);
                    self.mismatch(&at.hidden(), reason, help);
                }
                _ => self.mismatch(at, reason, no_such_key(path, &choices)),
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
                self.mismatch(at, reason, format!("did you mean `{near}`?"));
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
                    let node = Node { at: at.clone(), value: Value::Null };
                    self.value(&node, told(field.shape, entries), &join(path, field.name));
                }
                Some(entry) => self.value(&entry.node, field.shape, &join(path, field.name)),
                None if field.required && !is_misspelt(field, entries, fields) => {
                    let reason = format!("`{}` is missing", join(path, field.name));
                    self.mismatch(&node.at, reason, add(field, entries));
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
        let plain = || instead(node, shape, path);
        // Somewhere inside, as `key: value` with another space is one text.
        let words = node.as_text().into_iter().flat_map(|text| text.split(':'));
        let help = words.filter_map(pasted).next().map_or_else(plain, str::to_owned);
        self.mismatch(&node.at, reason, help);
    }
}

/// Calls `visit` with every value of which a shape tells what it is, and the keys that lead there.
pub(crate) fn each<'n>(
    node: &'n Node,
    shape: &'static Shape,
    path: &str,
    visit: &mut dyn FnMut(&'n Node, &'static Shape, &str),
) {
    visit(node, shape, path);
    match (shape, &node.value) {
        (Shape::Idle { of, .. }, _) => each(node, of, path, visit),
        (Shape::List { of, .. }, Value::List(items)) => {
            items.iter().for_each(|item| each(item, of, path, visit));
        }
        (Shape::Record(fields), _) => {
            for field in *fields {
                let below = node.entry(field.name).map(|entry| &entry.node);
                let path = join(path, field.name);
                below.into_iter().for_each(|node| each(node, field.shape, &path, visit));
            }
        }
        _ => {}
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
        Shape::Idle { of, .. } => keys(of),
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
        (Shape::Path | Shape::Ref(_), Value::Text(text)) => !text.is_empty(),
        (Shape::Spec, Value::Map(_)) => true,
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
