//! A document as a tree in which every key and value knows its place.
//!
//! Deliberately absent: any knowledge of what a document should hold; that is `shape`.

mod json;
mod parse;

use std::fmt;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde::Deserialize;
use serde::de::{self, DeserializeOwned, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

use super::problem::Source;
use crate::limits::DOCUMENT_TEXT_BYTES_MAX;

pub(crate) use self::json::{from_json, pointer};
pub(crate) use self::parse::{no_text, parse, pasted, slip};

/// Where something stands, and in which document.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Place {
    pub(crate) source: Arc<Source>,
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) offset_bytes: usize,
    pub(crate) len_bytes: usize,
}

impl Place {
    /// Returns the beginning of a document.
    pub(crate) fn start(source: &Arc<Source>) -> Self {
        Self { source: Arc::clone(source), line: 1, column: 1, ..Self::default() }
    }

    /// Returns what stands there; nothing where the document's text is not known.
    pub(crate) fn text(&self) -> &str {
        let end = self.offset_bytes.saturating_add(self.len_bytes);
        self.source.text.get(self.offset_bytes..end).unwrap_or_default().trim()
    }

    /// Returns the same place, whose text is not shown.
    pub(crate) fn hidden(&self) -> Self {
        Self { source: Source::new(Path::new(&*self.source.file), ""), ..self.clone() }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // What came over a wire has no file, and its lines are no lines: see `from_json`.
        if self.source.file.is_empty() {
            return f.write_str("an entry before it");
        }
        write!(f, "{}:{}", self.source.file, self.line)
    }
}

/// A value and its place.
#[derive(Debug, Clone, Default)]
pub(crate) struct Node {
    pub(crate) at: Place,
    pub(crate) value: Value,
}

#[derive(Debug, Clone, Default)]
pub(crate) enum Value {
    Flag(bool),
    List(Vec<Node>),
    Map(Vec<Entry>),
    #[default]
    Null,
    Number(serde_json::Number),
    Text(String),
}

/// One key of a mapping with its value.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) at: Place,
    pub(crate) node: Node,
}

/// The source of what is being read: the reader of YAML knows none.
static NOWHERE: LazyLock<Arc<Source>> = LazyLock::new(Arc::default);

impl From<serde_saphyr::Location> for Place {
    fn from(location: serde_saphyr::Location) -> Self {
        let whole = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        Self {
            line: whole(location.line()),
            column: whole(location.column()),
            offset_bytes: whole(location.span().byte_offset().unwrap_or(0)),
            len_bytes: whole(location.span().byte_len().unwrap_or(0)),
            source: Arc::clone(&NOWHERE),
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { at: Place::from(spanned.referenced), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Flag(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Number(number.into()))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Value, E> {
        serde_json::Number::from_f64(number)
            .map(Value::Number)
            .ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Value, E> {
        if text.len() > DOCUMENT_TEXT_BYTES_MAX {
            return Err(E::custom(parse::too_long()));
        }
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = access.next_element()? {
            list.push(node);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = access.next_key::<Spanned<String>>()? {
            let node = access.next_value()?;
            entries.push(Entry { key: key.value, at: Place::from(key.defined), node });
        }
        Ok(Value::Map(entries))
    }
}

/// What checks look up in a tree that already has the right shape.
impl Node {
    pub(crate) fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries().iter().find(|entry| entry.key == key)
    }

    /// Returns the value at a path of keys, if all of them are there.
    pub(crate) fn get(&self, path: &[&str]) -> Option<&Self> {
        path.iter().try_fold(self, |node, key| node.entry(key).map(|entry| &entry.node))
    }

    /// Returns what a key holds; nothing where it is not there.
    pub(crate) fn below(&self, key: &str) -> &Self {
        static NOTHING: LazyLock<Node> = LazyLock::new(Node::default);
        self.get(&[key]).unwrap_or(&NOTHING)
    }

    /// Puts `node` at a path, and makes the mappings that lead there.
    pub(crate) fn put(&mut self, path: &[&str], node: Self) {
        let [key, rest @ ..] = path else {
            *self = node;
            return;
        };
        if !matches!(self.value, Value::Map(_)) {
            self.value = Value::Map(Vec::new());
        }
        let Value::Map(entries) = &mut self.value else { return };
        let known = entries.iter().position(|entry| entry.key == *key);
        let index = known.unwrap_or_else(|| {
            let (key, at) = ((*key).to_owned(), node.at.clone());
            entries.push(Entry { key, at, node: Self::default() });
            entries.len() - 1
        });
        let Some(inner) = entries.get_mut(index) else { return };
        if rest.is_empty() {
            inner.at = node.at.clone();
        }
        inner.node.put(rest, node);
    }

    /// Takes the key at the end of a path out, where it is there.
    pub(crate) fn without(&mut self, path: &[&str]) {
        let (Value::Map(entries), [key, rest @ ..]) = (&mut self.value, path) else { return };
        match rest {
            [] => entries.retain(|entry| entry.key != *key),
            _ => {
                let inner = entries.iter_mut().filter(|entry| entry.key == *key);
                inner.for_each(|entry| entry.node.without(rest));
            }
        }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        if let Value::Map(entries) = &self.value { entries } else { &[] }
    }

    pub(crate) fn items(&self) -> &[Self] {
        if let Value::List(list) = &self.value { list } else { &[] }
    }

    /// Returns the items of the list at a path; none where there is no list.
    pub(crate) fn list(&self, path: &[&str]) -> &[Self] {
        self.get(path).map(Self::items).unwrap_or_default()
    }

    /// Returns what is at a path: each item where that is a list.
    pub(crate) fn each(&self, path: &[&str]) -> &[Self] {
        let node = self.get(path);
        match node.map(|node| &node.value) {
            Some(Value::List(items)) => items,
            _ => node.map(std::slice::from_ref).unwrap_or_default(),
        }
    }

    /// Returns the value that a JSON pointer (RFC 6901) leads to.
    pub(crate) fn pointed(&self, pointer: &str) -> Option<&Self> {
        pointer.split('/').skip(1).try_fold(self, |node, part| match &node.value {
            Value::List(items) => items.get(part.parse::<usize>().ok()?),
            _ => Some(&node.entry(&part.replace("~1", "/").replace("~0", "~"))?.node),
        })
    }

    /// Returns the place of the value at a path, else of this one.
    pub(crate) fn place(&self, path: &[&str]) -> &Place {
        &self.get(path).unwrap_or(self).at
    }

    /// Says which document it stands in.
    pub(crate) fn stands_in(&mut self, source: &Arc<Source>) {
        self.at.source = Arc::clone(source);
        match &mut self.value {
            Value::List(items) => items.iter_mut().for_each(|item| item.stands_in(source)),
            Value::Map(entries) => {
                for entry in entries {
                    entry.at.source = Arc::clone(source);
                    entry.node.stands_in(source);
                }
            }
            _ => {}
        }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    pub(crate) fn text(&self, path: &[&str]) -> Option<&str> {
        self.get(path)?.as_text()
    }

    pub(crate) fn flag(&self, path: &[&str]) -> Option<bool> {
        self.read(path)
    }

    pub(crate) fn number(&self, path: &[&str]) -> Option<u64> {
        self.read(path)
    }

    /// Returns the number at a path, whole or not.
    pub(crate) fn real(&self, path: &[&str]) -> Option<f64> {
        self.read(path)
    }

    /// Returns the span of time at a path, such as `30d`.
    pub(crate) fn duration(&self, path: &[&str]) -> Option<Duration> {
        duration(self.text(path)?)
    }

    /// Returns the value at a path as a type that is written as the protocol has it.
    pub(crate) fn read<T: DeserializeOwned>(&self, path: &[&str]) -> Option<T> {
        serde_json::from_value(self.get(path)?.to_json()).ok()
    }

    /// Returns the texts of a list; other items are left out (the shape allows none).
    pub(crate) fn texts<'a>(
        &'a self,
        path: &[&str],
    ) -> impl Iterator<Item = (&'a Self, &'a str)> + use<'a> {
        self.list(path).iter().filter_map(|item| Some((item, item.as_text()?)))
    }

    /// Says what it is, for messages.
    pub(crate) fn describe(&self) -> &'static str {
        match &self.value {
            Value::Flag(_) => "true or false",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
            Value::Null => "nothing",
            Value::Number(_) => "a number",
            Value::Text(_) => "a text",
        }
    }

    /// Returns the value without places.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        use serde_json::Value as Json;
        match &self.value {
            Value::Flag(flag) => Json::Bool(*flag),
            Value::List(list) => Json::Array(list.iter().map(Self::to_json).collect()),
            Value::Map(entries) => Json::Object(
                entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect(),
            ),
            Value::Null => Json::Null,
            Value::Number(number) => Json::Number(number.clone()),
            Value::Text(text) => Json::String(text.clone()),
        }
    }
}

/// Reads a number followed by one of `s`, `m`, `h`, `d`.
pub fn duration(text: &str) -> Option<Duration> {
    const DIGITS_MAX: usize = 9;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3_600,
        "d" => 86_400,
        _ => return None,
    };
    let fits = digits.len() <= DIGITS_MAX && digits.bytes().all(|b| b.is_ascii_digit());
    let count: u64 = digits.parse().ok().filter(|_| fits)?;
    Some(Duration::from_secs(count.saturating_mul(seconds)))
}
