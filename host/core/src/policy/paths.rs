//! Which arguments of a call are paths, and the places that they lead to.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::ptr;

use serde_json::{Map, Value};

use super::places::{NOWHERE, PathReader, canonical, is_file_address};
use crate::limits::POLICY_PATHS_MAX;
use crate::schema::percent_decoded;

/// Values of a schema's `format` that make a property a path.
const FORMATS: [&str; 3] = ["directory-path", "file-path", "path"];

/// Where a schema has parts that others refer to, or for entries of any name.
const WITHOUT_PLACE: [&str; 5] =
    ["$defs", "additionalProperties", "definitions", "patternProperties", "unevaluatedProperties"];

/// Last words of the names of arguments that are paths in any schema, in lower case: `path`,
/// `file_path`, `outputDir` and `working-directory` are; `pathology` and `filter` are not.
const LAST_WORDS: &str = "basedir cwd dir directories directory dirs file filename filenames \
                          filepath filepaths files folder folders infile outdir outfile path \
                          paths root rootdir workdir";

/// What `file_name`, `dirName` and their like are the names of.
const NAMED: &str = "dir directory file folder path";

/// Names that are paths only as a whole: the two ends of copying and moving.
const WHOLE_NAMES: &str = "dest destination dst from source src target to";

/// Last words of the names of arguments that are what goes into a file: their slashes are those
/// of sentences and programs.
pub(super) const CONTENT_WORDS: &str = "body content contents message text";

/// Last words of the names of arguments that hold what is run, which reaches whatever it names in
/// whatever way. `script_path` is a path.
const COMMAND_WORDS: &str = "args argv cmd code command commandline commands script scripts";

/// Which arguments of one tool are paths, and how it reads them: the one answer to what a call reaches
/// by its words.
///
/// A name says so itself that is `source`, `destination`, `src`, `dst`, `dest`, `from`, `to` or
/// `target`, or whose last word is `path`, `file`, `filename`, `filepath`, `dir`, `directory`,
/// `folder`, `cwd`, `root`, `workdir`, `basedir`, `rootdir`, `outdir`, `outfile`, `infile` or the
/// plural of one, or whose last words are such a thing and `name` or `list`. A schema declares a
/// property by the `format` `path`, `file-path` or `directory-path`, behind a `$ref` as well.
///
/// Where a call has such a path, every other text that looks like one counts as well, and so does
/// every name of an entry: one that holds `/` or `\`, begins with `~` or `file:`, or is `..`. An
/// `http` or `https` address does not, nor do texts whose name ends in `content`, `contents`,
/// `text`, `body` or `message`. So `{"path": "docs/a", "kind": "text/plain"}` does not lie within
/// `/docs`: a rule that allows it has to do without the condition, or the tool without the
/// slash. A path by another name and without a slash (`{"output": "a"}`) is not seen. A text that is
/// JSON itself counts as a text and as what it holds.
///
/// A text whose name ends in `command`, `script`, `code`, `args` or their like leads [`NOWHERE`]
/// beside a path: nobody can say by the words where a command reaches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolPaths {
    /// The names that schemas give the format of a path.
    formatted: BTreeSet<String>,
    /// The names that schemas declare, each in its place: elsewhere it is the caller's own.
    declared: Names,
    /// Those that schemas declare for whatever refers to them, or is below any name.
    anywhere: BTreeSet<String>,
    /// Any name counts as declared.
    any: bool,
    reader: PathReader,
}

/// Names of properties, each with those below it: the items of a list have the place of the list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Names(BTreeMap<String, Self>);

impl ToolPaths {
    /// Returns those of a tool with these schemas: its own and, where it has one, that of its
    /// document.
    pub fn of<'a>(schemas: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut paths = Self::default();
        schemas.into_iter().for_each(|schema| paths.add(schema));
        paths
    }

    /// Adds what one more schema of the tool declares.
    pub fn add(&mut self, schema: &Value) {
        let parts = SchemaParts::of(schema).formatted();
        each_properties(schema, &mut |properties: &Map<String, Value>| {
            let is_path = |(_, part): &(&String, &Value)| parts.contains(&ptr::from_ref(*part));
            let paths = properties.iter().filter(is_path);
            self.formatted.extend(paths.map(|(name, _)| name.clone()));
        });
        match refers_to_itself(schema) {
            true => add_names(schema, &mut self.anywhere),
            false => self.declared.add(schema, &mut self.anywhere),
        }
    }

    /// Returns them for a tool that reads paths so.
    #[must_use]
    pub fn read_by(self, reader: PathReader) -> Self {
        Self { reader, ..self }
    }

    /// Returns them for a tool that hands its arguments on to another tool, which declares them.
    #[must_use]
    pub fn handed_on(self) -> Self {
        Self { any: true, ..self }
    }

    /// Returns them with the names as well that `other` gives the format of a path: a session's own words
    /// about the tool.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.formatted.extend(other.formatted.iter().cloned());
        all.anywhere.extend(other.formatted.iter().cloned());
        all
    }

    /// Returns every place that a call with these `arguments` names, at any depth, in canonical form; below
    /// the name of a path every text is one, unless it is an entry beside one of that name. Without a
    /// path by a name that the tool declares there is none, which no rule that relaxes matches, and every one
    /// that tightens: any caller may add a name, and what only looks like a path is no reason to take the
    /// call for one about that place. More than [`POLICY_PATHS_MAX`] texts end in one that leads [`NOWHERE`].
    pub fn of_call(&self, arguments: &Value) -> Vec<String> {
        if !self.names_path(arguments, Role::Other, Some(&self.declared)) {
            return Vec::new();
        }
        let mut found = Found { of: self, packed: false, texts: 0, places: Vec::new() };
        found.collect(arguments, Role::Other);
        found.places
    }

    /// Returns the places that a path of the tool's may lead to, in canonical form.
    pub fn of_path(&self, path: &str) -> Vec<String> {
        let readings = self.reader.readings(path);
        readings.iter().flat_map(|reading| self.reader.places(reading, true)).collect()
    }

    /// Says whether a text is a path by a name that the tool declares in that place, which is within `declared`.
    fn names_path(&self, value: &Value, role: Role, declared: Option<&Names>) -> bool {
        match value {
            Value::String(_) => role == Role::Path,
            Value::Array(items) => items.iter().any(|item| self.names_path(item, role, declared)),
            Value::Object(entries) => {
                let above = self.above(entries, role);
                entries.iter().any(|(name, value)| {
                    let (own, below) =
                        (self.role(name, above), declared.and_then(|of| of.0.get(name)));
                    let is_declared =
                        || self.any || below.is_some() || self.anywhere.contains(name);
                    let counts = own != Role::Path || role == Role::Path || is_declared();
                    counts && self.names_path(value, own, below)
                })
            }
            Value::Bool(_) | Value::Null | Value::Number(_) => false,
        }
    }

    /// Returns what the entries of an object stand below. One of `files` that has a `path` says itself which
    /// of them are paths: its `content` is none.
    fn above(&self, entries: &Map<String, Value>, role: Role) -> Role {
        let is_entry = || entries.keys().any(|it| self.role(it, Role::Other) == Role::Path);
        if role == Role::Path && is_entry() { Role::Other } else { role }
    }

    fn role(&self, name: &str, above: Role) -> Role {
        if above == Role::Path || self.formatted.contains(name) || is_path_name(name) {
            return Role::Path;
        }
        let last = words(name).pop().unwrap_or_default();
        let is_one_of = |list: &str| list.split(' ').any(|word| word == last);
        if above == Role::Command || is_one_of(COMMAND_WORDS) {
            return Role::Command;
        }
        if is_one_of(CONTENT_WORDS) { Role::Content } else { Role::Other }
    }
}

/// What the name of an argument makes of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Command,
    Content,
    Other,
    Path,
}

/// The places of a call.
struct Found<'a> {
    of: &'a ToolPaths,
    /// What is looked at stands in a text.
    packed: bool,
    /// How many texts count.
    texts: usize,
    places: Vec<String>,
}

impl Found<'_> {
    fn collect(&mut self, value: &Value, role: Role) {
        match value {
            Value::String(text) => self.text(text, role),
            Value::Array(items) => items.iter().for_each(|item| self.collect(item, role)),
            Value::Object(entries) => {
                let above = self.of.above(entries, role);
                for (name, value) in entries {
                    self.text(name, Role::Other);
                    self.collect(value, self.of.role(name, above));
                }
            }
            Value::Bool(_) | Value::Null | Value::Number(_) => {}
        }
    }

    fn text(&mut self, text: &str, role: Role) {
        if role == Role::Content || self.texts > POLICY_PATHS_MAX {
            return;
        }
        if role == Role::Command {
            return self.add(vec![NOWHERE.to_owned()]);
        }
        self.json(text, role);
        let (of, is_named) = (self.of, role != Role::Other);
        for reading in of.reader.readings(text) {
            if is_named || looks_like_path(&reading) {
                self.add(of.reader.places(&reading, is_named));
            }
        }
    }

    /// Looks into a text that is JSON itself, which some tools take for what it holds. What is packed twice has
    /// backslashes before its quotes, with which the whole text leads [`NOWHERE`].
    fn json(&mut self, text: &str, role: Role) {
        if self.packed || !text.trim_start().starts_with(['{', '[', '"']) {
            return;
        }
        if let Ok(value) = serde_json::from_str::<Value>(text) {
            self.packed = true;
            self.collect(&value, role);
            self.packed = false;
        }
    }

    /// Adds the places of one more text; where there are too many, nobody can say where they lead.
    fn add(&mut self, places: Vec<String>) {
        self.texts += 1;
        match self.texts.cmp(&(POLICY_PATHS_MAX + 1)) {
            Ordering::Less => self.places.extend(places),
            Ordering::Equal => self.places.push(NOWHERE.to_owned()),
            Ordering::Greater => {}
        }
    }
}

/// Says whether a text could be meant as a path, whatever its name.
fn looks_like_path(text: &str) -> bool {
    let is_path = text.contains(['/', '\\']) || text == ".." || text.starts_with('~');
    // An address whose steps climb out of it is none.
    let is_address = || {
        let path = canonical(text).to_ascii_lowercase();
        path.starts_with("/http:/") || path.starts_with("/https:/")
    };
    is_file_address(text) || (is_path && !is_address())
}

/// Shows `see` the properties that any part of a schema declares.
fn each_properties(schema: &Value, see: &mut impl FnMut(&Map<String, Value>)) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| each_properties(item, see)),
        Value::Object(entries) => {
            if let Some(Value::Object(properties)) = entries.get("properties") {
                see(properties);
            }
            entries.values().for_each(|value| each_properties(value, see));
        }
        Value::Bool(_) | Value::Null | Value::Number(_) | Value::String(_) => {}
    }
}

fn add_names(schema: &Value, names: &mut BTreeSet<String>) {
    each_properties(schema, &mut |properties| names.extend(properties.keys().cloned()));
}

impl Names {
    /// Adds what a schema declares here and below, and to `anywhere` what of it has no place of its own.
    fn add(&mut self, schema: &Value, anywhere: &mut BTreeSet<String>) {
        match schema {
            Value::Array(items) => items.iter().for_each(|item| self.add(item, anywhere)),
            Value::Object(entries) => {
                for (key, value) in entries {
                    match (key.as_str(), value) {
                        ("properties", Value::Object(properties)) => {
                            for (name, part) in properties {
                                self.0.entry(name.clone()).or_default().add(part, anywhere);
                            }
                        }
                        (key, value) if WITHOUT_PLACE.contains(&key) => add_names(value, anywhere),
                        (_, value) => self.add(value, anywhere),
                    }
                }
            }
            Value::Bool(_) | Value::Null | Value::Number(_) | Value::String(_) => {}
        }
    }
}

/// Says whether parts of a schema have another place as well than where they stand, which are not those that it
/// keeps for that.
fn refers_to_itself(schema: &Value) -> bool {
    let kept = ["#/$defs/", "#/definitions/"];
    match schema {
        Value::Array(items) => items.iter().any(refers_to_itself),
        Value::Object(entries) => entries.iter().any(|(key, value)| match (key.as_str(), value) {
            ("$ref" | "$dynamicRef", Value::String(to)) => {
                !kept.iter().any(|it| to.starts_with(it))
            }
            (_, value) => refers_to_itself(value),
        }),
        Value::Bool(_) | Value::Null | Value::Number(_) | Value::String(_) => false,
    }
}

/// Where a part of a schema stands in memory, which says which part it is.
type Part = *const Value;

/// The parts of a schema. Each is looked at once, however often others refer to it.
#[derive(Default)]
struct SchemaParts {
    /// Those that say themselves that they have the format of a path.
    own: Vec<Part>,
    /// Of each part, those that have what it has: it is an alternative or the items of one, and others refer to it.
    users: BTreeMap<Part, Vec<Part>>,
}

impl SchemaParts {
    fn of(root: &Value) -> Self {
        let mut parts = Self::default();
        parts.add(root, root);
        parts
    }

    fn add(&mut self, root: &Value, part: &Value) {
        match part {
            Value::Array(items) => items.iter().for_each(|item| self.add_to(root, part, item)),
            Value::Object(entries) => {
                for (key, value) in entries {
                    match (key.as_str(), value) {
                        ("format", Value::String(format)) if FORMATS.contains(&format.as_str()) => {
                            self.own.push(ptr::from_ref(part));
                        }
                        ("$ref", Value::String(reference)) => {
                            let target = referred(root, reference);
                            target.into_iter().for_each(|target| self.uses(part, target));
                        }
                        // What its properties are, and what it gives a name, it is not itself. Names are no keywords.
                        ("$defs" | "definitions" | "properties", Value::Object(named)) => {
                            named.values().for_each(|inner| self.add(root, inner));
                        }
                        _ => self.add_to(root, part, value),
                    }
                }
            }
            Value::Bool(_) | Value::Null | Value::Number(_) | Value::String(_) => {}
        }
    }

    fn add_to(&mut self, root: &Value, part: &Value, inner: &Value) {
        self.uses(part, inner);
        self.add(root, inner);
    }

    fn uses(&mut self, part: &Value, other: &Value) {
        self.users.entry(ptr::from_ref(other)).or_default().push(ptr::from_ref(part));
    }

    /// Returns those that have the format of a path, by themselves or by another.
    fn formatted(self) -> BTreeSet<Part> {
        let (mut all, mut next) = (BTreeSet::new(), self.own);
        while let Some(part) = next.pop() {
            if all.insert(part) {
                next.extend(self.users.get(&part).into_iter().flatten());
            }
        }
        all
    }
}

/// Returns what a reference leads to; nothing where it leads out of the schema.
fn referred<'a>(root: &'a Value, reference: &str) -> Option<&'a Value> {
    root.pointer(&percent_decoded(reference.strip_prefix('#')?)?)
}

fn is_path_name(name: &str) -> bool {
    if WHOLE_NAMES.split(' ').any(|whole| whole.eq_ignore_ascii_case(name)) {
        return true;
    }
    let words = words(name);
    match words.as_slice() {
        [.., of, last] if matches!(last.as_str(), "list" | "name" | "names") => {
            NAMED.split(' ').any(|it| it == of)
        }
        [.., last] => LAST_WORDS.split(' ').any(|word| word == last),
        [] => false,
    }
}

/// Returns the words of `snake_case`, `kebab-case` and `camelCase` alike, in lower case.
pub(super) fn words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut before = ' ';
    for c in name.chars().filter(|c| !c.is_numeric()) {
        if !c.is_alphabetic() {
            before = ' ';
            continue;
        }
        let hump = c.is_uppercase() && before.is_lowercase();
        match words.last_mut().filter(|_| before != ' ' && !hump) {
            Some(word) => word.extend(c.to_lowercase()),
            None => words.push(c.to_lowercase().collect()),
        }
        before = c;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Returns the places of a call of a tool that declares all that it is given.
    fn found(arguments: &Value) -> Vec<String> {
        declaring(arguments).of_call(arguments)
    }

    fn declaring(arguments: &Value) -> ToolPaths {
        let mut paths = ToolPaths::default();
        add_all(arguments, &mut paths.anywhere);
        paths
    }

    fn add_all(value: &Value, names: &mut BTreeSet<String>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| add_all(item, names)),
            Value::Object(entries) => {
                names.extend(entries.keys().cloned());
                entries.values().for_each(|value| add_all(value, names));
            }
            Value::Bool(_) | Value::Null | Value::Number(_) | Value::String(_) => {}
        }
    }

    #[test]
    fn names_that_say_so_are_paths() {
        for name in [
            "path", "file_path", "filePath", "PATH", "output-dir", "outputDir", "workingDirectory",
            "cwd", "source", "To", "fileName", "folder_name", "FILE_NAMES_FILE", "old_path",
            "path2", "paths", "srcFiles", "X.file", "outfile", "root", "filePathList",
        ] {
            assert_eq!(found(&json!({name: "a"})), ["/a"], "{name}");
        }
        for name in [
            "pathology", "filter", "content", "profile", "profileName", "query", "tofu", "", "_",
            "directive", "list", "checklist", "rootless",
        ] {
            assert_eq!(found(&json!({name: "a"})), [""; 0], "{name}");
        }
    }

    #[test]
    fn a_format_makes_any_name_a_path_wherever_the_schema_says_it() {
        for schema in [
            json!({"properties": {"x": {"format": "path"}}}),
            json!({"properties": {"x": {"items": {"format": "file-path"}}}}),
            json!({"properties": {"x": {"anyOf": [{"type": "null"}, {"format": "directory-path"}]}}}),
            json!({"allOf": [{"$defs": {"in": {"properties": {"x": {"format": "path"}}}}}]}),
            json!({"properties": {"x": {"$ref": "#/$defs/p"}}, "$defs": {"p": {"format": "path"}}}),
            json!({"properties": {"x": {"items": {"$ref": "#/%24defs/a"}}}, "$defs": {
                "a": {"anyOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}]}, "b": {"format": "path"},
            }}),
        ] {
            // Of several schemas each counts.
            let names = ToolPaths::of([&json!({}), &schema]);
            assert_eq!(names.of_call(&json!({"x": "a", "y": "b"})), ["/a"], "{schema}");
        }
        for schema in [
            json!({"properties": {"x": {"format": "uri"}}}),
            json!({"properties": {"x": {"properties": {"z": {"format": "path"}}}}}),
            json!({"format": "path"}),
            json!({"properties": {"x": {"$ref": "#/$defs/p"}}, "$defs": {"p": {"properties": {"z": {"format": "path"}}}}}),
            json!({"properties": {"x": {"$ref": "other#/$defs/p"}}, "$defs": {"p": {"format": "path"}}}),
            json!({"properties": {"x": {"$ref": "#"}}, "$defs": {"p": {"format": "path"}}}),
            json!({"properties": {"properties": {"properties": {"z": {"format": "path"}}}}}),
            json!([null, 1, true]),
        ] {
            let arguments = json!({"x": "a", "properties": {"x": "a"}});
            assert_eq!(ToolPaths::of([&schema]).of_call(&arguments), [""; 0], "{schema}");
        }
    }

    #[test]
    fn every_text_below_a_path_is_one() {
        let arguments =
            json!({"jobs": [{"path": {"old": "a", "new": ["b", 1, "c/../.."]}, "mode": "x"}]});
        let mut all = found(&arguments);
        all.sort();
        assert_eq!(all, ["..", "/a", "/b"]);
    }

    #[test]
    fn what_stands_beside_the_path_of_a_list_s_entry_is_none_for_that() {
        for (entry, expected) in [
            (json!({"path": "a", "content": "b/c\n", "mode": "text"}), &["/a"][..]),
            (json!({"path": "a", "mode": "b/c"}), &["/a", "/b/c"]),
            (json!({"path": "a", "script": "b"}), &[NOWHERE, "/a"]),
            (json!({"content": "b"}), &["/b"]),
        ] {
            let mut all = found(&json!({"files": [entry]}));
            all.sort();
            assert_eq!(all, expected, "{entry}");
        }
    }

    #[test]
    fn an_argument_that_the_tool_does_not_declare_makes_no_call_one_about_a_place() {
        let inner = json!({"items": {"properties": {"file": {}}}});
        let open = json!({"additionalProperties": true, "type": "object"});
        let known =
            json!({"properties": {"files": {}, "path": {}, "items": inner, "headers": open}});
        let known = ToolPaths::of([&known]);
        for (arguments, expected) in [
            (json!({"path": "a"}), &["/a"][..]),
            (json!({"items": [{"file": "a"}]}), &["/a"]),
            (json!({"items": [{"folder": "a"}]}), &[]),
            // Below a path by a declared name every text is one, whatever the entries are called.
            (json!({"files": {"x": {"folder": "a"}}}), &["/a"]),
            (json!({"folder": "a"}), &[]),
            (json!({"headers": {"folder": "a"}, "items": [{"x": {"cwd": ["a"]}}]}), &[]),
            // Nor where the schema has the name for something else.
            (json!({"headers": {"path": "a", "x": {"path": "a", "file": "a"}}}), &[]),
            (json!({"file": "a", "items": {"items": {"file": "a"}}}), &[]),
            // Beside a path, what is not declared counts too.
            (json!({"path": "a", "folder": "b", "headers": {"cwd": "c"}}), &["/a", "/b", "/c"]),
        ] {
            let mut all = known.of_call(&arguments);
            all.sort();
            assert_eq!(all, expected, "{arguments}");
        }
        for none in [json!({"properties": {}}), json!({"type": "object"}), json!({}), open] {
            let all = ToolPaths::of([&none]).of_call(&json!({"path": "a"}));
            assert_eq!(all, [""; 0], "{none}");
        }
        for reference in [
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"properties": {"path": {}}}}}),
            json!({"allOf": [{"type": "object"}, {"properties": {"path": {}}}]}),
            json!({"if": {}, "then": {"dependentSchemas": {"x": {"properties": {"path": {}}}}}}),
        ] {
            let all = ToolPaths::of([&reference]).of_call(&json!({"path": "a"}));
            assert_eq!(all, ["/a"], "{reference}");
        }
        for of_any in [
            json!({"properties": {"jobs": {"items": {"$ref": "#/$defs/a"}}}, "$defs": {"a": {"properties": {"path": {}}}}}),
            json!({"properties": {"jobs": {"$ref": "#/$defs/b/properties/c"}}, "$defs": {
                "b": {"properties": {"c": {"properties": {"path": {}}}}},
            }}),
            json!({"properties": {"path": {}, "jobs": {"items": {"$ref": "#"}}}}),
            json!({"additionalProperties": {"items": {"properties": {"path": {}}}}}),
            json!({"patternProperties": {"^j": {"items": {"properties": {"path": {}}}}}}),
        ] {
            let all = ToolPaths::of([&of_any]).of_call(&json!({"jobs": [{"path": "a"}]}));
            assert_eq!(all, ["/a"], "{of_any}");
        }
        assert_eq!(ToolPaths::default().handed_on().of_call(&json!({"x": {"path": "a"}})), ["/a"]);
        // A session's word adds a path and takes none.
        let session = ToolPaths::of([&json!({"properties": {"x": {"format": "path"}}})]);
        assert_eq!(ToolPaths::default().and(&session).of_call(&json!({"x": "a"})), ["/a"]);
        assert_eq!(ToolPaths::default().and(&session).of_call(&json!({"path": "a"})), [""; 0]);
        let both = known.and(&session).of_call(&json!({"path": "a", "x": "b"}));
        assert_eq!(both, ["/a", "/b"]);
    }

    #[test]
    fn a_text_that_is_json_counts_as_what_it_holds() {
        let packed = json!({"old": "b/c", "deeper": "[\"d/../../e\"]", "content": "f/g"});
        let text = packed.to_string();
        let all = found(&json!({"path": "a", "options": text}));
        for place in ["/a", "/b/c", NOWHERE] {
            assert!(all.iter().any(|one| one == place), "{place}: {all:?}");
        }
        assert!(!all.iter().any(|one| one == "/f/g"), "{all:?}");
        assert!(found(&json!({"paths": " [\"a\", \"b\"]"})).contains(&"/b".to_owned()));
        // What is packed twice is not followed, as deep as it may be.
        let mut deep = "x".to_owned();
        for _ in 0..9 {
            deep = Value::from(vec![deep]).to_string();
        }
        assert_eq!(found(&json!({"path": "a", "x": deep})), ["/a", NOWHERE, NOWHERE]);
        // No word of the caller's makes it a call about a place.
        assert_eq!(found(&json!({"options": "{\"path\": \"a/b\"}"})), [""; 0]);
    }

    #[test]
    fn what_a_server_reads_in_other_texts_counts_as_in_paths() {
        let server = PathReader::Server { folders: Vec::new(), jailed: true };
        let server = declaring(&json!({"path": ""})).read_by(server);
        for (text, expected) in [
            ("secret%2fx", Some("secret/x")),
            ("%2e%2e", Some(NOWHERE)),
            (" '..'", Some(NOWHERE)),
            ("a, b", None),
            ("https://host.test/a%20b, https://host.test/c", None),
        ] {
            let all = server.of_call(&json!({"path": "/a", "x": text}));
            assert_eq!(all.get(1).map(String::as_str), expected, "{text}: {all:?}");
        }
    }

    #[test]
    fn beside_a_path_every_text_that_looks_like_one_counts() {
        for (text, expected) in [
            ("../../etc/passwd", NOWHERE),
            ("/etc/passwd", "/etc/passwd"),
            ("docs/b", "/docs/b"),
            ("a\\b", NOWHERE),
            ("..", NOWHERE),
            ("~", "/~"),
            ("~root", "/~root"),
            ("file:secret", NOWHERE),
            ("ftp://host.test/a", "/ftp:/host.test/a"),
            ("https://host.test/../../../../etc", NOWHERE),
            ("http://host.test/../../etc", "/etc"),
        ] {
            for other in [
                json!({"path": "docs/a", "location": text}),
                json!({"path": "docs/a", "jobs": [{"output": [text]}]}),
                json!({"path": "docs/a", "edits": {text: 1}}),
                json!({"path": "docs/a", "content": {"base": text}}),
                json!({"path": {"docs/a": null, text: "docs/a"}}),
            ] {
                let mut all = found(&other);
                all.retain(|path| path != "/docs/a");
                assert_eq!(all, [expected], "{other}");
            }
            // It is no reason to take a call for one about a place.
            assert_eq!(found(&json!({"output": text})), [""; 0], "{text}");
        }
        for text in ["", "a.txt", "a..b", "1", "https://host.test/a/../b", "HTTP://host.test/"] {
            assert_eq!(found(&json!({"path": "docs/a", "x": text})), ["/docs/a"], "{text}");
        }
        for name in ["content", "new_text", "messageBody"] {
            assert_eq!(found(&json!({"path": "docs/a", name: "and/or </p>"})), ["/docs/a"]);
        }
    }

    #[test]
    fn what_is_run_beside_a_path_leads_nowhere() {
        for more in [
            json!({"command": "ls"}),
            json!({"shellCommand": "cat docs/a"}),
            json!({"args": ["-x", "a"]}),
            json!({"script": {"main": "open(x)"}}),
        ] {
            let mut both = more.clone();
            both["files"] = json!([{"path": "docs/a"}]);
            let all = found(&both);
            let unknown = all.iter().filter(|path| *path == NOWHERE).count();
            assert!(unknown > 0 && unknown + 1 == all.len(), "{both}: {all:?}");
            assert_eq!(found(&more), [""; 0], "{more}");
        }
        assert_eq!(found(&json!({"script_path": "a", "encode": "x"})), ["/a"]);
    }

    #[test]
    fn too_many_paths_lead_nowhere() {
        let at_most = vec!["a"; POLICY_PATHS_MAX];
        assert!(!found(&json!({"paths": at_most})).contains(&NOWHERE.to_owned()));
        let too_many = vec!["a"; 10 * POLICY_PATHS_MAX];
        let all = found(&json!({"paths": too_many, "file": "b"}));
        assert_eq!(all.len(), POLICY_PATHS_MAX + 1);
        assert_eq!(all.iter().filter(|path| *path == NOWHERE).count(), 1);
    }
}
