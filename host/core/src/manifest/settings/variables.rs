//! The environment variables that stand for keys of the runtime file.

use std::fmt;
use std::path::Path;

use super::reader::Reader;
use super::shapes::FILE_VERSION;
use crate::manifest::node::{self, Entry, Node, Place, Value};
use crate::manifest::problem::{Source, nearest};
use crate::manifest::shape::shown;

/// One environment variable and the key it sets, after which it is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// The key, with dots.
    pub key: &'static str,
    /// How its value is read.
    pub form: Form,
}

impl Variable {
    /// Returns its name: `CLAWHOST_HTTP_ADDRESS` for `http.address`.
    pub fn name(&self) -> String {
        format!("{PREFIX}{}", self.key.to_ascii_uppercase().replace('.', "_"))
    }
}

/// How the value of a variable is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Texts with commas between them.
    List,
    /// A mapping in JSON or YAML.
    Mapping,
    /// A whole number.
    Number,
    /// The value as it is.
    Text,
}

/// Every variable, by name. An empty value says nothing.
pub const VARIABLES: &[Variable] = &[
    Variable { key: "agents", form: Form::List },
    Variable { key: "audit.syslog", form: Form::Text },
    Variable { key: "audit.webhook", form: Form::Text },
    Variable { key: "http.address", form: Form::Text },
    Variable { key: "http.allowed_hosts", form: Form::List },
    Variable { key: "http.allowed_origins", form: Form::List },
    Variable { key: "limits.arguments_bytes_max", form: Form::Number },
    Variable { key: "limits.calls_running_max", form: Form::Number },
    Variable { key: "limits.calls_waiting_max", form: Form::Number },
    Variable { key: "limits.reply_bytes_max", form: Form::Number },
    Variable { key: "limits.shutdown_grace_ms", form: Form::Number },
    Variable { key: "profiles", form: Form::Mapping },
    Variable { key: "providers", form: Form::Mapping },
    Variable { key: "registries", form: Form::List },
    Variable { key: "state", form: Form::Text },
    Variable { key: "tools.directory", form: Form::Text },
    Variable { key: "tools.replace_builtins", form: Form::List },
];

/// Prefix of every variable of this host.
const PREFIX: &str = "CLAWHOST_";
/// Variables that something else than a key uses: the command line, the log, the build.
const OTHER_VARIABLES: [&str; 4] =
    ["CLAWHOST_CONFIG", "CLAWHOST_LOG", "CLAWHOST_SYSROOT_DIR", "CLAWHOST_WASM_TARGETS"];
/// What a cluster sets by itself for a service that is called `clawhost`.
const CLUSTER_PREFIXES: [&str; 2] = ["CLAWHOST_PORT", "CLAWHOST_SERVICE_"];

impl Reader {
    /// Reads one variable; what is none of this host's is left alone.
    pub(super) fn variable(&mut self, name: &str, value: &str) {
        if !name.starts_with(PREFIX) || value.is_empty() {
            return;
        }
        // Without its text: a value may be a secret, and diagnostics show their source.
        self.source = Source::new(Path::new(name), "");
        match VARIABLES.iter().find(|variable| variable.name() == name) {
            Some(variable) => self.known_variable(*variable, value),
            None if is_somebody_elses(name) => {}
            None => {
                let known: Vec<String> = VARIABLES.iter().map(Variable::name).collect();
                let unset = "unset it: every variable that starts with CLAWHOST_ has to be known";
                let help = nearest(name, known.iter().map(String::as_str))
                    .map_or_else(|| unset.to_owned(), |near| format!("did you mean `{near}`?"));
                let reason = format!("the variable `{}` is unknown", shown(name));
                self.refuse(Place::START, reason, help);
            }
        }
    }

    /// Reads a variable as if its key stood in a file of its own.
    fn known_variable(&mut self, variable: Variable, value: &str) {
        let Some(mut tree) = self.variable_value(variable, value) else {
            return;
        };
        for key in variable.key.rsplit('.') {
            tree = map(vec![entry(key, tree)]);
        }
        if let Value::Map(entries) = &mut tree.value {
            entries.push(entry("version", node_of(Value::Number(FILE_VERSION.into()))));
        }
        self.take(&tree, Path::new(""));
    }

    fn variable_value(&mut self, variable: Variable, value: &str) -> Option<Node> {
        let items = value.split(',').map(str::trim).filter(|item| !item.is_empty());
        match variable.form {
            Form::List if variable.key == "agents" => {
                Some(list(items.map(|name| map(vec![entry("name", text(name))]))))
            }
            // `name=url`; without `=` the table says that the URL is missing.
            Form::List if variable.key == "registries" => Some(list(items.map(registry))),
            Form::List => Some(list(items.map(text))),
            Form::Text => Some(text(value)),
            Form::Mapping | Form::Number => {
                match node::parse(Path::new(&variable.name()), value.as_bytes()) {
                    Ok((_, node)) => Some(node),
                    Err(problem) => {
                        let help = format!("write {}", variable.form);
                        self.refuse(Place::START, problem.reason, help);
                        None
                    }
                }
            }
        }
    }
}

fn node_of(value: Value) -> Node {
    Node { at: Place::START, value }
}

fn entry(key: &str, node: Node) -> Entry {
    Entry { key: key.to_owned(), at: Place::START, node }
}

fn map(entries: Vec<Entry>) -> Node {
    node_of(Value::Map(entries))
}

fn list(items: impl Iterator<Item = Node>) -> Node {
    node_of(Value::List(items.collect()))
}

fn registry(item: &str) -> Node {
    match item.split_once('=') {
        Some((name, url)) => map(vec![entry("name", text(name)), entry("url", text(url))]),
        None => map(vec![entry("name", text(item))]),
    }
}

fn text(text: &str) -> Node {
    node_of(Value::Text(text.to_owned()))
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::List => "a list with commas",
            Self::Mapping => "a mapping in JSON or YAML",
            Self::Number => "a whole number",
            Self::Text => "a text",
        })
    }
}

fn is_somebody_elses(name: &str) -> bool {
    OTHER_VARIABLES.contains(&name)
        || CLUSTER_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}
