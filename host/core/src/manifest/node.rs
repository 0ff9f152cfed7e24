//! A document as a tree in which every key and value knows its place.
//!
//! serde-saphyr does the reading: it bounds depth, nodes and alias expansion, and refuses
//! duplicate keys. JSON is read the same way, being YAML. Deliberately absent: any knowledge
//! of what a document should hold; that is `shape`.

use std::fmt;
use std::path::Path;

use serde::Deserialize;
use serde::de::{self, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::budget::BudgetBreach;
use serde_saphyr::{DuplicateKeyPolicy, Error, MergeKeyPolicy, Spanned};

use super::problem::{DocumentError, MANIFEST_INVALID, Source};
use super::shape::shown;
use crate::limits::DOCUMENT_BYTES_MAX;

/// Nesting of one document. The reader recurses, at up to 38 KiB of stack a level in an
/// unoptimised build, and threads have 2 MiB; schemas are the deepest thing in a document.
const DOCUMENT_DEPTH_MAX: usize = 32;
/// Values in one document, so that a small file cannot make a large tree.
const DOCUMENT_NODES_MAX: usize = 100_000;
/// Values made by all aliases of one document together.
const ALIAS_NODES_MAX: usize = 1_000;
/// One text in a document; with [`ALIAS_NODES_MAX`] it bounds what aliases can blow up.
const TEXT_BYTES_MAX: usize = 65_536;

/// Where something stands in its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) offset_bytes: usize,
    pub(crate) len_bytes: usize,
}

impl Place {
    pub(crate) const START: Self = Self { line: 1, column: 1, offset_bytes: 0, len_bytes: 0 };
}

/// A value and its place.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) at: Place,
    pub(crate) value: Value,
}

#[derive(Debug, Clone)]
pub(crate) enum Value {
    Flag(bool),
    List(Vec<Node>),
    Map(Vec<Entry>),
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

/// Reads one document.
pub(crate) fn parse(file: &Path, bytes: &[u8]) -> Result<(Source, Node), Box<DocumentError>> {
    let whole =
        |reason: String, help| Box::new(DocumentError::whole_file(file, reason, Some(help)));
    if bytes.len() > DOCUMENT_BYTES_MAX {
        let reason = format!("the document has more than {DOCUMENT_BYTES_MAX} bytes");
        return Err(whole(reason, "split it"));
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        whole(format!("the document is not UTF-8: {error}"), "save it as UTF-8")
    })?;
    let source = Source::new(file, text);
    match serde_saphyr::from_str_with_options::<Node>(text, options()) {
        Ok(node) => Ok((source, node)),
        Err(error) => Err(Box::new(syntax_problem(&source, &error))),
    }
}

fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DOCUMENT_DEPTH_MAX,
            flow_nesting_limit: DOCUMENT_DEPTH_MAX,
            max_nodes: DOCUMENT_NODES_MAX,
            max_events: DOCUMENT_NODES_MAX.saturating_mul(2),
            max_documents: 1,
            max_aliases: ALIAS_NODES_MAX,
            max_anchors: ALIAS_NODES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: ALIAS_NODES_MAX,
            max_replay_stack_depth: 8,
        },
        duplicate_keys: DuplicateKeyPolicy::Error,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    }
}

fn syntax_problem(source: &Source, error: &serde_saphyr::Error) -> DocumentError {
    let place = error.location().map_or(Place::START, place_of);
    let place = if place.line == 0 { Place::START } else { place };
    let (reason, help) = explain(error.without_snippet());
    source.problem(place, MANIFEST_INVALID, reason, Some(help.to_owned()))
}

/// Says in this project's words what the reader refused.
fn explain(error: &Error) -> (String, &'static str) {
    match error {
        Error::AliasError { error, .. } => explain(error),
        Error::AliasExpansionLimitExceeded { .. }
        | Error::AliasReplayLimitExceeded { .. }
        | Error::AliasReplayStackDepthExceeded { .. } => {
            (format!("aliases make more than {ALIAS_NODES_MAX} values"), "write the values out")
        }
        Error::Budget { breach: BudgetBreach::Depth { .. }, .. } => too_deep(),
        Error::Budget { breach: BudgetBreach::Documents { .. }, .. }
        | Error::MultipleDocuments { .. } => {
            ("a second document in one file".to_owned(), "put each document into a file of its own")
        }
        Error::Budget { .. } => {
            (format!("more than {DOCUMENT_NODES_MAX} values"), "split the document")
        }
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_ref().map(|key| format!(" `{}`", shown(key))).unwrap_or_default();
            (format!("the key{key} is there twice"), "write each key once")
        }
        Error::MergeKeyNotAllowed { .. } => {
            ("a merge key `<<`".to_owned(), "write the values out: YAML 1.2 has no merge keys")
        }
        Error::UnsupportedTag { tag, .. } => {
            (format!("the tag `{}`", shown(tag)), "leave the tag out: documents hold plain values")
        }
        other => match syntax_message(other) {
            // The scanner's own bound on brackets, which has no variant of its own.
            bound if bound == "recursion limit exceeded" => too_deep(),
            message => (message, "write one YAML or JSON document"),
        },
    }
}

fn too_deep() -> (String, &'static str) {
    (format!("nested deeper than {DOCUMENT_DEPTH_MAX} levels"), "nest less")
}

/// Returns the reader's own sentence without the place, which is shown beside it.
fn syntax_message(error: &Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or("the document cannot be read");
    shown(line.split(" at line ").next().unwrap_or(line))
}

fn place_of(location: serde_saphyr::Location) -> Place {
    let whole = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    Place {
        line: whole(location.line()),
        column: whole(location.column()),
        offset_bytes: whole(location.span().byte_offset().unwrap_or(0)),
        len_bytes: whole(location.span().byte_len().unwrap_or(0)),
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { at: place_of(spanned.referenced), value: spanned.value })
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
        if text.len() > TEXT_BYTES_MAX {
            return Err(E::custom(format!("a text may have {TEXT_BYTES_MAX} bytes")));
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
            entries.push(Entry { key: key.value, at: place_of(key.defined), node });
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

    pub(crate) fn entries(&self) -> &[Entry] {
        if let Value::Map(entries) = &self.value { entries } else { &[] }
    }

    pub(crate) fn items(&self) -> &[Self] {
        if let Value::List(list) = &self.value { list } else { &[] }
    }

    pub(crate) fn as_text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    pub(crate) fn text(&self, path: &[&str]) -> Option<&str> {
        self.get(path)?.as_text()
    }

    pub(crate) fn flag(&self, path: &[&str]) -> Option<bool> {
        match self.get(path)?.value {
            Value::Flag(flag) => Some(flag),
            _ => None,
        }
    }

    pub(crate) fn number(&self, path: &[&str]) -> Option<u64> {
        match &self.get(path)?.value {
            Value::Number(number) => number.as_u64(),
            _ => None,
        }
    }

    /// Returns the texts of a list; other items are left out (the shape allows none).
    pub(crate) fn texts<'a>(
        &'a self,
        path: &[&str],
    ) -> impl Iterator<Item = (&'a Self, &'a str)> + use<'a> {
        let items = self.get(path).map(Self::items).unwrap_or_default();
        items.iter().filter_map(|item| Some((item, item.as_text()?)))
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Node, Box<DocumentError>> {
        parse(Path::new("t.yaml"), text.as_bytes()).map(|(_, node)| node)
    }

    fn refused(text: &str) -> DocumentError {
        *read(text).unwrap_err()
    }

    #[test]
    fn the_deepest_allowed_nesting_leaves_a_threads_stack_room() {
        const STACK_BYTES: usize = 1_536 * 1_024;
        let deep = |levels: usize| format!("a: {}{}", "[".repeat(levels), "]".repeat(levels));
        let read_deep = move || read(&deep(DOCUMENT_DEPTH_MAX - 1)).map(|node| node.to_json());
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(read_deep).unwrap();
        thread.join().unwrap().unwrap();
        assert_eq!(refused(&deep(DOCUMENT_DEPTH_MAX)).reason, "nested deeper than 32 levels");
        assert_eq!(refused(&deep(100_000)).reason, "nested deeper than 32 levels");
    }

    #[test]
    fn every_key_and_value_knows_its_place() {
        let node = read("a: 1\nb:\n  - x: true\n    y: \"t\"\n").unwrap();
        let b = node.entry("b").unwrap();
        assert_eq!((b.at.line, b.at.column), (2, 1));
        let item = &b.node.items()[0];
        assert_eq!((item.at.line, item.at.column), (3, 5));
        let y = item.entry("y").unwrap();
        assert_eq!((y.at.line, y.at.column, y.at.offset_bytes), (4, 5, 24));
        assert_eq!((y.node.at.line, y.node.at.column), (4, 8));
        assert_eq!(node.to_json(), serde_json::json!({"a": 1, "b": [{"x": true, "y": "t"}]}));
    }

    #[test]
    fn json_is_read_the_same_way() {
        let node = read("{\"a\": [1, 2.5, null, \"no\"],\n \"b\": {\"c\": false}}").unwrap();
        assert_eq!(
            node.to_json(),
            serde_json::json!({"a": [1, 2.5, null, "no"], "b": {"c": false}})
        );
        assert_eq!(node.get(&["b", "c"]).unwrap().at.line, 2);
    }

    #[test]
    fn only_true_and_false_are_booleans() {
        let node = read("a: no\nb: on\nc: true\n").unwrap();
        assert_eq!(node.to_json(), serde_json::json!({"a": "no", "b": "on", "c": true}));
    }

    #[test]
    fn duplicate_keys_are_refused_with_their_line() {
        assert_eq!(refused("a: 1\nb: 2\na: 3\n").line, 3);
        assert_eq!(refused("{\"a\": 1,\n \"a\": 2}").line, 2);
    }

    #[test]
    fn a_second_document_a_merge_key_and_a_strange_tag_are_refused() {
        refused("a: 1\n---\nb: 2\n");
        refused("a: &a {x: 1}\nb:\n  <<: *a\n");
        refused("a: !ruby/object:Gem {}\n");
    }

    #[test]
    fn bombs_are_refused_quickly() {
        let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let item = format!("*a{}", level - 1);
            bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![item; 10].join(", ")));
        }
        refused(&bomb);
        refused(&"[".repeat(10_000));
        refused(&"a:\n".repeat(3).replace("a:", "- - - - - - - - - -").repeat(10_000));
        let large = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 500].join(", "));
        refused(&large);
        refused(&"x".repeat(DOCUMENT_BYTES_MAX + 1));
    }

    #[test]
    fn what_is_not_utf8_is_refused() {
        assert!(parse(Path::new("t.yaml"), b"a: \xff").is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_panic_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(Path::new("t.yaml"), &bytes);
        }

        #[test]
        fn no_yaml_like_text_panics_the_reader(text in "[a-c:\\-\\[\\]{},&*!|>'\"# \n\t?~<0-9.]{0,120}") {
            if let Err(problem) = parse(Path::new("t.yaml"), text.as_bytes()) {
                let _ = problem.one_line();
            }
        }
    }
}
