//! The environment variables that stand for keys of the runtime file.

use std::path::Path;

use super::reader::Reader;
use super::shapes::{FILE, FILE_VERSION};
use crate::manifest::node::{self, Entry, Node, Place, Value};
use crate::manifest::problem::{Source, nearest};
use crate::manifest::shape::{self, shown};

/// One environment variable and the key it sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The key, with dots.
    pub key: &'static str,
    /// How its value is read.
    pub form: &'static str,
}

const LIST: &str = "a list with commas";
const NUMBER: &str = "a number";
const PLAIN: &str = "a text";
const MAPPING: &str = "a mapping in JSON or YAML";

/// Every variable, by name. An empty value says nothing.
pub const VARIABLES: &[Variable] = &[
    Variable {
        name: "CLAWHOST_AGENTS",
        key: "agents",
        form: LIST,
    },
    Variable {
        name: "CLAWHOST_HTTP_ADDRESS",
        key: "http.address",
        form: PLAIN,
    },
    Variable {
        name: "CLAWHOST_HTTP_ALLOWED_HOSTS",
        key: "http.allowed_hosts",
        form: LIST,
    },
    Variable {
        name: "CLAWHOST_HTTP_ALLOWED_ORIGINS",
        key: "http.allowed_origins",
        form: LIST,
    },
    Variable {
        name: "CLAWHOST_LIMITS_ARGUMENTS_BYTES_MAX",
        key: "limits.arguments_bytes_max",
        form: NUMBER,
    },
    Variable {
        name: "CLAWHOST_LIMITS_CALLS_RUNNING_MAX",
        key: "limits.calls_running_max",
        form: NUMBER,
    },
    Variable {
        name: "CLAWHOST_LIMITS_CALLS_WAITING_MAX",
        key: "limits.calls_waiting_max",
        form: NUMBER,
    },
    Variable {
        name: "CLAWHOST_LIMITS_REPLY_BYTES_MAX",
        key: "limits.reply_bytes_max",
        form: NUMBER,
    },
    Variable {
        name: "CLAWHOST_LIMITS_SHUTDOWN_GRACE_MS",
        key: "limits.shutdown_grace_ms",
        form: NUMBER,
    },
    Variable {
        name: "CLAWHOST_PROFILES",
        key: "profiles",
        form: MAPPING,
    },
    Variable {
        name: "CLAWHOST_STATE",
        key: "state",
        form: PLAIN,
    },
    Variable {
        name: "CLAWHOST_TOOLS_DIRECTORY",
        key: "tools.directory",
        form: PLAIN,
    },
    Variable {
        name: "CLAWHOST_TOOLS_REPLACE_BUILTINS",
        key: "tools.replace_builtins",
        form: LIST,
    },
];

/// Prefix of every variable of this host.
const PREFIX: &str = "CLAWHOST_";
/// Variables that something else than a key uses.
const OTHER_VARIABLES: [&str; 2] = ["CLAWHOST_CONFIG", "CLAWHOST_LOG"];
/// What a cluster sets by itself for a service that is called `clawhost`.
const CLUSTER_PREFIXES: [&str; 2] = ["CLAWHOST_PORT", "CLAWHOST_SERVICE_"];

impl Reader {
    /// Reads one variable; what is none of this host's is left alone.
    pub(super) fn variable(&mut self, name: &str, value: &str) {
        if !name.starts_with(PREFIX) || value.is_empty() {
            return;
        }
        let source = Source::new(Path::new(name), value);
        match VARIABLES.iter().find(|variable| variable.name == name) {
            Some(variable) => self.known_variable(*variable, &source, value),
            None if is_somebody_elses(name) => {}
            None => {
                let near = nearest(name, VARIABLES.iter().map(|variable| variable.name));
                let help = near.map_or_else(
                    || {
                        "unset it: every variable that starts with CLAWHOST_ has to be known"
                            .to_owned()
                    },
                    |near| format!("did you mean `{near}`?"),
                );
                let reason = format!("the variable `{}` is unknown", shown(name));
                self.problems.invalid(&source, Place::START, reason, help);
            }
        }
    }

    /// Reads a variable as if its key stood in a file of its own.
    fn known_variable(&mut self, variable: Variable, source: &Source, value: &str) {
        let Some(mut tree) = self.variable_value(variable, source, value) else {
            return;
        };
        for key in variable.key.rsplit('.') {
            let entry = Entry {
                key: key.to_owned(),
                at: Place::START,
                node: tree,
            };
            tree = Node {
                at: Place::START,
                value: Value::Map(vec![entry]),
            };
        }
        let version = Node {
            at: Place::START,
            value: Value::Number(FILE_VERSION.into()),
        };
        if let Value::Map(entries) = &mut tree.value {
            entries.push(Entry {
                key: "version".to_owned(),
                at: Place::START,
                node: version,
            });
        }
        if shape::check(source, &tree, &FILE, "", &mut self.problems) {
            self.take(source, &tree, Path::new(""));
        }
    }

    fn variable_value(&mut self, variable: Variable, source: &Source, value: &str) -> Option<Node> {
        let text = |text: &str| Node {
            at: Place::START,
            value: Value::Text(text.to_owned()),
        };
        let items = || {
            value
                .split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
        };
        let node = match variable.form {
            LIST if variable.key == "agents" => {
                let agent = |name: &str| Entry {
                    key: "name".to_owned(),
                    at: Place::START,
                    node: text(name),
                };
                let agents = items().map(|name| Node {
                    at: Place::START,
                    value: Value::Map(vec![agent(name)]),
                });
                Node {
                    at: Place::START,
                    value: Value::List(agents.collect()),
                }
            }
            LIST => Node {
                at: Place::START,
                value: Value::List(items().map(text).collect()),
            },
            PLAIN => text(value),
            _ => match node::parse(Path::new(variable.name), value.as_bytes()) {
                Ok((_, node)) => node,
                Err(problem) => {
                    self.problems.push(source.problem(
                        Place::START,
                        problem.code,
                        problem.reason,
                        problem.help,
                    ));
                    return None;
                }
            },
        };
        Some(node)
    }
}

fn is_somebody_elses(name: &str) -> bool {
    OTHER_VARIABLES.contains(&name)
        || CLUSTER_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}
