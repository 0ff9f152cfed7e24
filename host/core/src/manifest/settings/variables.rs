//! The environment variables that stand for keys of the runtime file.

use std::path::Path;

use super::mcp::{MCP_PREFIXES, is_mcp_variable};
use super::reader::Reader;
use super::shapes::{FILE, FILE_VERSION};
use crate::manifest::node::{self, Entry, Node, Place, Value};
use crate::manifest::problem::{Source, nearest};
use crate::manifest::shape::{self, Shape, expected, shown};

/// Prefix of every variable of this host.
const PREFIX: &str = "CLAWHOST_";
/// Variables that something else than a key uses: the command line, the log, the build.
const OTHER_VARIABLES: [&str; 5] = [
    "CLAWHOST_CONFIG", "CLAWHOST_LOG", "CLAWHOST_LOG_FORMAT", "CLAWHOST_SYSROOT_DIR",
    "CLAWHOST_WASM_TARGETS",
];
/// What else these variables may begin with, in this order.
const ALIASES: [(&str, &str); 3] = [
    ("CRUVERO_COMPOSITE_", "CLAWHOST_COMPOSITES_"),
    ("CRUVERO_IMMUNE_", "CLAWHOST_IMMUNE_"),
    ("CRUVERO_TOOL_CONTRACT_", "CLAWHOST_CONTRACTS_"),
];
/// What a cluster sets by itself for a service that is called `clawhost`.
const CLUSTER_PREFIXES: [&str; 2] = ["CLAWHOST_PORT", "CLAWHOST_SERVICE_"];

/// A key that has a variable, with dots, and what belongs there.
type Key = (String, &'static Shape);

/// Says whether a variable of this name may be one of this host's: all that [`super::Settings::read`]
/// looks at begins like it.
pub fn is_own_variable(name: &[u8]) -> bool {
    let aliases = ALIASES.into_iter().map(|(alias, _)| alias);
    let mut prefixes = aliases.chain(MCP_PREFIXES).chain([PREFIX]);
    prefixes.any(|prefix| name.starts_with(prefix.as_bytes()))
}

/// Returns every key that has a variable: each value, and what holds others by name or in a list.
fn keys() -> Vec<Key> {
    let mut keys = Vec::new();
    shape::values(&FILE, "", &mut keys);
    keys.retain(|(key, _)| key != "version");
    keys
}

/// Returns the variable of a key: `CLAWHOST_HTTP_ADDRESS` for `http.address`.
pub(super) fn name(key: &str) -> String {
    format!("{PREFIX}{}", key.to_ascii_uppercase().replace('.', "_"))
}

impl Reader {
    /// Reads one variable; what is none of this host's is left alone, and so is an empty value.
    pub(super) fn variable(&mut self, variable: &str, value: &str) {
        let aliased =
            |(alias, own): (&str, &str)| Some([own, variable.strip_prefix(alias)?].concat());
        let own = ALIASES.into_iter().find_map(aliased);
        let own = own.as_deref().unwrap_or(variable);
        if !own.starts_with(PREFIX) || value.is_empty() || is_mcp_variable(own) {
            return;
        }
        // Problems name the variable that was set, whatever else it stands for.
        let at = start(variable);
        let keys = keys();
        match keys.iter().find(|(key, _)| name(key) == own) {
            Some(key) => self.known_variable(key, value, &at),
            None if is_somebody_elses(own) => {}
            None => {
                let known: Vec<String> = keys.iter().map(|(key, _)| name(key)).collect();
                let unset = "unset it: every variable that starts like it has to be known";
                let help = nearest(own, known.iter().map(String::as_str))
                    .map_or_else(|| unset.to_owned(), |near| format!("did you mean `{near}`?"));
                let reason = format!("the variable `{}` is unknown", shown(variable));
                self.refuse(&at, reason, help);
            }
        }
    }

    /// Reads a variable as if its key stood in a file of its own, and puts it in the place of the file's.
    fn known_variable(&mut self, key: &Key, value: &str, at: &Place) {
        let Some(value) = self.variable_value(key, value, at) else { return };
        let path: Vec<&str> = key.0.split('.').collect();
        let mut alone = map(vec![entry("version", node_of(Value::Number(FILE_VERSION.into())))]);
        alone.put(&path, value);
        alone.stands_in(&at.source);
        if self.fits(&alone) {
            let value = alone.get(&path).cloned().unwrap_or_default();
            self.root.put(&path, value);
        }
    }

    /// Reads a text as it is, a list with commas between its items, all else as JSON or YAML.
    fn variable_value(&mut self, (key, shape): &Key, value: &str, at: &Place) -> Option<Node> {
        let items = value.split(',').map(str::trim).filter(|item| !item.is_empty());
        match (key.as_str(), shape) {
            ("agents", _) => Some(list(items.map(|name| map(vec![entry("name", text(name))])))),
            // `name=url`; without `=` the table says that the URL is missing.
            ("registries", _) => Some(list(items.map(registry))),
            (_, Shape::List { .. }) => Some(list(items.map(text))),
            (_, Shape::Text { .. } | Shape::Path | Shape::Address) => Some(text(value)),
            _ => match node::parse(Path::new(&name(key)), value.as_bytes()) {
                Ok(node) => Some(node),
                Err(problem) => {
                    let help = format!("write {}, as JSON or YAML", expected(shape, key));
                    self.refuse(at, problem.reason, help);
                    None
                }
            },
        }
    }
}

/// Returns where a variable stands. Without its text: a value may be a secret, and diagnostics show their
/// source.
pub(super) fn start(variable: &str) -> Place {
    Place::start(&Source::variable(variable))
}

pub(super) fn node_of(value: Value) -> Node {
    Node { at: Place { line: 1, column: 1, ..Place::default() }, value }
}

pub(super) fn entry(key: &str, node: Node) -> Entry {
    Entry { key: key.to_owned(), at: Place::default(), node }
}

pub(super) fn map(entries: Vec<Entry>) -> Node {
    node_of(Value::Map(entries))
}

pub(super) fn list(items: impl Iterator<Item = Node>) -> Node {
    node_of(Value::List(items.collect()))
}

fn registry(item: &str) -> Node {
    match item.split_once('=') {
        Some((name, url)) => map(vec![entry("name", text(name)), entry("url", text(url))]),
        None => map(vec![entry("name", text(item))]),
    }
}

pub(super) fn text(text: &str) -> Node {
    node_of(Value::Text(text.to_owned()))
}

fn is_somebody_elses(name: &str) -> bool {
    OTHER_VARIABLES.contains(&name)
        || CLUSTER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
