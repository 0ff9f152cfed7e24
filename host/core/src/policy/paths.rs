//! Which arguments are paths, and where they lead.
//!
//! Paths are taken as the tool sees them: `/` is the first granted folder, `/<name>` another one,
//! and a relative path starts at `/`. They are resolved by their text alone, and compared byte by
//! byte, component by component.
//!
//! Deliberately absent: looking at any file. A symbolic link inside a granted folder can lead to
//! another place inside it, and names that differ in case can be one file where the system says
//! so: a rule about paths is a rule about words. The wall is the sandbox, whose `denied_paths`
//! are told by the file itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ptr;

use serde_json::Value;

use crate::limits::{PATH_BYTES_MAX, POLICY_PATHS_MAX};
use crate::schema::percent_decoded;

/// Stands for a path that has no place below `/`: it climbs past it or past `~`, is too long, or holds what
/// tools read differently (a NUL, a control character, a backslash, `file:` at its start). It
/// lies in no folder; a rule that tightens takes it for one that lies in its own.
pub const NOWHERE: &str = "..";

/// Values of a schema's `format` that make a property a path.
const FORMATS: [&str; 3] = ["directory-path", "file-path", "path"];

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

/// A folder as tools see it, in canonical form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder(String);

impl Folder {
    /// Reads a folder that a policy names.
    ///
    /// # Errors
    /// A sentence that says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        match canonical(text) {
            _ if text.is_empty() => Err("it is empty; `/` is the whole".to_owned()),
            _ if text.len() > PATH_BYTES_MAX => Err(format!("it is over {PATH_BYTES_MAX} bytes")),
            path if path != NOWHERE => Ok(Self(path)),
            _ if is_file_address(text) => Err("it is an address, and no path".to_owned()),
            _ if text.contains(is_strange) => {
                Err("it holds a backslash or a control character".to_owned())
            }
            _ => Err("its `..` leads out of `/`".to_owned()),
        }
    }

    /// Says whether `path`, in canonical form, is this folder or lies in it.
    pub fn holds(&self, path: &str) -> bool {
        is_below(path, &self.0)
    }

    /// Says whether a call about `path`, in canonical form, may reach into this folder: the path
    /// lies in it, or is a folder above it that a tool reads whole, or leads [`NOWHERE`].
    pub fn meets(&self, path: &str) -> bool {
        path == NOWHERE || self.holds(path) || is_below(&self.0, path)
    }

    /// Returns it as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Says whether `path` is `folder` or lies in it, both in canonical form.
fn is_below(path: &str, folder: &str) -> bool {
    let rest = path.strip_prefix(folder.trim_end_matches('/'));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

impl fmt::Display for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The names of arguments that are paths: those that say so themselves, and those that the
/// schemas of one tool declare.
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
/// slash. A path by another name and without a slash (`{"output": "a"}`) is not seen.
///
/// A text whose name ends in `command`, `script`, `code`, `args` or their like leads [`NOWHERE`]
/// beside a path: nobody can say by the words where a command reaches.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathNames(BTreeSet<String>);

impl PathNames {
    /// Returns the names for a tool with these schemas: its own and, where it has one, that of
    /// its document.
    pub fn of<'a>(schemas: impl IntoIterator<Item = &'a Value>) -> Self {
        let mut names = Self::default();
        schemas.into_iter().for_each(|schema| names.add(schema));
        names
    }

    /// Adds the names that one more schema of the tool declares.
    pub fn add(&mut self, schema: &Value) {
        let parts = SchemaParts::of(schema).formatted();
        find_formatted(schema, &parts, &mut self.0);
    }

    /// Returns every path in `arguments`, at any depth, in canonical form; below the name of a
    /// path every text is one. Without a path by name there is none: what only looks like one is
    /// no reason to take the call for one about that place. More than [`POLICY_PATHS_MAX`] paths
    /// end in one that leads [`NOWHERE`].
    pub fn paths(&self, arguments: &Value) -> Vec<String> {
        let mut found = Found { formatted: &self.0, named: false, paths: Vec::new() };
        found.collect(arguments, Role::Other);
        if found.named { found.paths } else { Vec::new() }
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

/// The paths of a call, and whether any of them is one by its name.
struct Found<'a> {
    formatted: &'a BTreeSet<String>,
    named: bool,
    paths: Vec<String>,
}

impl Found<'_> {
    fn collect(&mut self, value: &Value, role: Role) {
        match value {
            Value::String(text) => self.text(text, role),
            Value::Array(items) => items.iter().for_each(|item| self.collect(item, role)),
            Value::Object(entries) => {
                for (name, value) in entries {
                    self.text(name, Role::Other);
                    self.collect(value, self.role(name, role));
                }
            }
            Value::Bool(_) | Value::Null | Value::Number(_) => {}
        }
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

    fn text(&mut self, text: &str, role: Role) {
        self.named |= role == Role::Path;
        let counts = match role {
            Role::Command | Role::Path => true,
            Role::Content => false,
            Role::Other => looks_like_path(text),
        };
        if !counts || self.paths.len() > POLICY_PATHS_MAX {
            return;
        }
        let unknown = role == Role::Command || self.paths.len() == POLICY_PATHS_MAX;
        self.paths.push(if unknown { NOWHERE.to_owned() } else { canonical(text) });
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

fn is_file_address(text: &str) -> bool {
    text.trim_start().get(..5).is_some_and(|start| start.eq_ignore_ascii_case("file:"))
}

/// Finds the names that any part of a schema declares to be paths, of which these `parts` have the format.
fn find_formatted(schema: &Value, parts: &BTreeSet<Part>, found: &mut BTreeSet<String>) {
    match schema {
        Value::Array(items) => items.iter().for_each(|item| find_formatted(item, parts, found)),
        Value::Object(entries) => {
            for (key, value) in entries {
                if let ("properties", Value::Object(properties)) = (key.as_str(), value) {
                    let paths = properties.iter();
                    let paths = paths.filter(|(_, part)| parts.contains(&ptr::from_ref(*part)));
                    found.extend(paths.map(|(name, _)| name.clone()));
                }
                find_formatted(value, parts, found);
            }
        }
        Value::Bool(_) | Value::Null | Value::Number(_) | Value::String(_) => {}
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

/// Says whether many programs read the first step of a path as another path.
fn is_stand_in(step: &str) -> bool {
    step.trim_start().starts_with(['~', '$'])
}

fn is_strange(c: char) -> bool {
    c == '\\' || c.is_control()
}

/// Resolves `.`, `..` and empty steps by the text alone; [`NOWHERE`] where that leads nowhere.
fn canonical(text: &str) -> String {
    if text.len() > PATH_BYTES_MAX || text.contains(is_strange) || is_file_address(text) {
        return NOWHERE.to_owned();
    }
    let mut steps: Vec<&str> = Vec::new();
    for step in text.split('/') {
        match step {
            "" | "." => {}
            // Above a home or what a variable holds lies what nobody can say.
            ".." if steps.pop().is_none_or(|step| steps.is_empty() && is_stand_in(step)) => {
                return NOWHERE.to_owned();
            }
            ".." => {}
            name => steps.push(name),
        }
    }
    format!("/{}", steps.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn found(arguments: &Value) -> Vec<String> {
        PathNames::default().paths(arguments)
    }

    #[test]
    fn paths_are_resolved_by_their_text() {
        for (text, expected) in [
            ("a.txt", "/a.txt"),
            ("/a/b", "/a/b"),
            ("./a//b/./c/", "/a/b/c"),
            ("a/../b", "/b"),
            ("", "/"),
            (".", "/"),
            ("/", "/"),
            ("..", NOWHERE),
            ("a/../../a", NOWHERE),
            ("/..", NOWHERE),
            ("~/../a", NOWHERE),
            (" $HOME/../a", NOWHERE),
            ("a/~/../b", "/a/b"),
            ("a\0b", NOWHERE),
            ("a/..\\..\\b", NOWHERE),
            ("a\nb", NOWHERE),
            ("...", "/..."),
            ("file:///docs/a", NOWHERE),
            (" FILE:docs/a", NOWHERE),
            ("file", "/file"),
            ("%2e%2e/x", "/%2e%2e/x"),
        ] {
            assert_eq!(canonical(text), expected, "{text:?}");
        }
        assert_eq!(canonical(&"a/".repeat(PATH_BYTES_MAX)), NOWHERE);
    }

    #[test]
    fn a_folder_holds_itself_and_what_is_below_and_nothing_that_only_begins_alike() {
        let docs = Folder::parse("./docs/").unwrap();
        assert_eq!(docs.as_str(), "/docs");
        assert!(docs.holds("/docs") && docs.holds("/docs/a") && docs.holds("/docs/a/b"));
        for other in ["/", "/documents", "/docs-old/a", "/a/docs", NOWHERE, "/Docs/a"] {
            assert!(!docs.holds(other), "{other}");
        }
        for met in ["/", "/docs", "/docs/a", NOWHERE] {
            assert!(docs.meets(met), "{met}");
        }
        assert!(!docs.meets("/doc") && !docs.meets("/docs-old") && !docs.meets("/a"));
        let all = Folder::parse("/").unwrap();
        assert!(all.holds("/") && all.holds("/a") && !all.holds(NOWHERE));
        for wrong in ["", "..", "/../etc", "a\\b", "a\0"] {
            assert!(Folder::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn names_that_say_so_are_paths() {
        for name in [
            "path",
            "file_path",
            "filePath",
            "PATH",
            "output-dir",
            "outputDir",
            "workingDirectory",
            "cwd",
            "source",
            "To",
            "fileName",
            "folder_name",
            "FILE_NAMES_FILE",
            "old_path",
            "path2",
            "paths",
            "srcFiles",
            "X.file",
            "outfile",
            "root",
            "filePathList",
        ] {
            assert_eq!(found(&json!({name: "a"})), ["/a"], "{name}");
        }
        for name in [
            "pathology",
            "filter",
            "content",
            "profile",
            "profileName",
            "query",
            "tofu",
            "",
            "_",
            "directive",
            "list",
            "checklist",
            "rootless",
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
            let names = PathNames::of([&json!({}), &schema]);
            assert_eq!(names.paths(&json!({"x": "a", "y": "b"})), ["/a"], "{schema}");
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
            assert_eq!(PathNames::of([&schema]).paths(&arguments), [""; 0], "{schema}");
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

    proptest! {
        #[test]
        fn what_lies_within_has_no_step_that_leaves(text in "[a-c./\\\\\u{0}é]{0,24}") {
            let path = canonical(&text);
            if Folder::parse("/a").unwrap().holds(&path) {
                prop_assert!(path == "/a" || path.starts_with("/a/"));
                prop_assert!(path.split('/').skip(1).all(|step| !["", ".", ".."].contains(&step)));
            }
            prop_assert!(path == NOWHERE || canonical(&path) == path);
        }
    }
}
