//! The runtime file `clawhost.yaml`: everything that is not a CKP document.
//!
//! Closed and versioned like the documents, read by the same machinery. Each key also has an
//! environment variable ([`VARIABLES`]); where both say something, the variable wins.
//! Deliberately absent: finding the file and reading the environment, which the host does.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use super::node::{self, Entry, Node, Place, Value};
use super::problem::{DocumentError, Problems, Source, nearest};
use super::sandbox::tidy;
use super::shape::{self, POSITIVE, STRING, STRINGS, Shape, TEXT, opt, req, shown};
use super::{Manifest, Profile};
use crate::limits::{
    ARGUMENTS_BYTES_MAX, CALLS_RUNNING_MAX, CALLS_WAITING_MAX, REPLY_BYTES_MAX, SHUTDOWN_GRACE_MS,
    TOOL_NAME_BYTES_MAX,
};
use crate::uri::is_declared_name;

/// What the runtime file says; a file that is absent says nothing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Settings {
    /// Where tools come from.
    pub tools: ToolSettings,
    /// Bounds of the host as a whole.
    pub limits: LimitSettings,
    /// The state folder.
    pub state: Option<PathBuf>,
    /// The HTTP front.
    pub http: HttpSettings,
    /// Who may call; each has a token of its own.
    pub agents: Vec<AgentSettings>,
    /// What sandbox profiles get beside their documents, by name.
    pub profiles: BTreeMap<String, ProfileSettings>,
}

/// `tools`: where tools come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolSettings {
    /// The drop-in directory.
    pub directory: Option<PathBuf>,
    /// Built-in tools that a dropped-in tool of the same name replaces.
    pub replace_builtins: BTreeSet<String>,
}

/// `limits`: bounds of the host as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LimitSettings {
    /// Arguments of one call, in bytes of JSON; at most the host's own bound.
    pub arguments_bytes_max: usize,
    /// Calls that run at the same time.
    pub calls_running_max: usize,
    /// Calls that may wait for a place.
    pub calls_waiting_max: usize,
    /// A reply, in bytes of JSON; at most the host's own bound.
    pub reply_bytes_max: usize,
    /// Time running calls have to end when the host is asked to stop, in milliseconds.
    pub shutdown_grace_ms: u64,
}

/// `http`: the HTTP front.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HttpSettings {
    /// Where to listen.
    pub address: Option<SocketAddr>,
    /// Values of `Host` to accept beside the address itself: `name` or `name:port`.
    pub allowed_hosts: Vec<String>,
    /// Values of `Origin` to accept: `scheme://name[:port]`.
    pub allowed_origins: Vec<String>,
}

/// One of `agents`: somebody who may call tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentSettings {
    /// The name of its token.
    pub name: String,
}

/// One of `profiles`: what a sandbox profile gets beside its document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileSettings {
    /// The environment of guests and processes.
    pub env: BTreeMap<String, String>,
    /// Ports that may be reached instead of the web's.
    pub ports: Option<Vec<u16>>,
    source: Source,
    at: Place,
}

const LATER: Shape = Shape::Later;

const TOOLS: Shape = Shape::Record(&[
    opt("directory", &TEXT),
    opt("replace_builtins", &STRINGS),
    opt("exec", &LATER),
    opt("http_get", &LATER),
    opt("mcp_servers", &LATER),
    opt("web_search", &LATER),
]);

const LIMITS: Shape = Shape::Record(&[
    opt("arguments_bytes_max", &POSITIVE),
    opt("calls_running_max", &POSITIVE),
    opt("calls_waiting_max", &POSITIVE),
    opt("reply_bytes_max", &POSITIVE),
    opt("shutdown_grace_ms", &POSITIVE),
]);

const HTTP: Shape = Shape::Record(&[
    opt("address", &TEXT),
    opt("allowed_hosts", &STRINGS),
    opt("allowed_origins", &STRINGS),
]);

const PROFILE: Shape = Shape::Record(&[
    opt("env", &Shape::Dict(&STRING)),
    opt(
        "ports",
        &Shape::List {
            of: &POSITIVE,
            min: 1,
        },
    ),
    opt("fuel_per_ms", &LATER),
    opt("oversize", &LATER),
    opt("record", &LATER),
    opt("secrets", &LATER),
    opt("signature", &LATER),
]);

const PROFILES: Shape = Shape::Dict(&PROFILE);

const AGENTS: Shape = Shape::List {
    of: &Shape::Record(&[req("name", &TEXT)]),
    min: 0,
};

const FILE: Shape = Shape::Record(&[
    req("version", &POSITIVE),
    opt("agents", &AGENTS),
    opt("http", &HTTP),
    opt("limits", &LIMITS),
    opt("profiles", &PROFILES),
    opt("state", &TEXT),
    opt("tools", &TOOLS),
    opt("composites", &LATER),
    opt("contracts", &LATER),
    opt("immune", &LATER),
    opt("providers", &LATER),
    opt("registries", &LATER),
    opt("registry", &LATER),
    opt("store", &LATER),
]);

/// The version of the runtime file's format.
const FILE_VERSION: u64 = 1;

/// The most each bound may be set to, and its default.
const BOUNDS: [(&str, u64, u64); 5] = [
    (
        "arguments_bytes_max",
        ARGUMENTS_BYTES_MAX as u64,
        ARGUMENTS_BYTES_MAX as u64,
    ),
    ("calls_running_max", 1_000, CALLS_RUNNING_MAX as u64),
    ("calls_waiting_max", 100_000, CALLS_WAITING_MAX as u64),
    (
        "reply_bytes_max",
        REPLY_BYTES_MAX as u64,
        REPLY_BYTES_MAX as u64,
    ),
    ("shutdown_grace_ms", 600_000, SHUTDOWN_GRACE_MS),
];

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

impl Settings {
    /// Reads the runtime file (if there is one) and the variables that belong to it.
    ///
    /// `file` is its path and bytes; relative paths in it start at its directory, relative
    /// paths in variables are left as they are.
    ///
    /// # Errors
    /// Every unknown or unserved key, wrong value and unknown `CLAWHOST_…` variable.
    pub fn read(
        file: Option<(&Path, &[u8])>,
        variables: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Self, Vec<DocumentError>> {
        let mut reader = Reader::default();
        if let Some((path, bytes)) = file {
            reader.file(path, bytes);
        }
        for (name, value) in variables {
            reader.variable(&name, &value);
        }
        reader.problems.finish(Some(reader.settings))
    }

    /// Gives the manifest's profiles what the runtime file has for them.
    ///
    /// # Errors
    /// Profiles that the manifest does not have, and ports for one without network.
    pub fn apply(&self, manifest: &mut Manifest) -> Result<(), Vec<DocumentError>> {
        let mut problems = Problems::default();
        for (name, settings) in &self.profiles {
            let names: Vec<String> = manifest.profiles.keys().cloned().collect();
            match manifest.profiles.get_mut(name) {
                Some(profile) => settings.apply(profile, &mut problems),
                None => {
                    let reason = format!("there is no sandbox profile `{}`", shown(name));
                    let help = super::problem::choices(name, names.iter().map(String::as_str));
                    problems.missing(&settings.source, settings.at, reason, help);
                }
            }
        }
        problems.finish(Some(()))
    }
}

impl ProfileSettings {
    fn apply(&self, profile: &mut Profile, problems: &mut Problems) {
        profile.env.clone_from(&self.env);
        match (&self.ports, &mut profile.network) {
            (Some(ports), Some(rules)) => rules.ports.clone_from(ports),
            (Some(_), None) => {
                let reason = format!(
                    "`ports` for the profile `{}`, which has no network",
                    profile.name
                );
                let help = "give its document `network.mode: allowlist`, or leave `ports` out";
                problems.invalid(&self.source, self.at, reason, help);
            }
            (None, _) => {}
        }
    }
}

impl Default for LimitSettings {
    fn default() -> Self {
        Self {
            arguments_bytes_max: ARGUMENTS_BYTES_MAX,
            calls_running_max: CALLS_RUNNING_MAX,
            calls_waiting_max: CALLS_WAITING_MAX,
            reply_bytes_max: REPLY_BYTES_MAX,
            shutdown_grace_ms: SHUTDOWN_GRACE_MS,
        }
    }
}

#[derive(Default)]
struct Reader {
    settings: Settings,
    problems: Problems,
}

impl Reader {
    fn file(&mut self, path: &Path, bytes: &[u8]) {
        let (source, root) = match node::parse(path, bytes) {
            Ok(read) => read,
            Err(problem) => return self.problems.push(*problem),
        };
        if !shape::check(&source, &root, &FILE, "", &mut self.problems) {
            return;
        }
        self.check_version(&source, &root);
        let base = path.parent().unwrap_or_else(|| Path::new(""));
        self.take(&source, &root, base);
    }

    fn check_version(&mut self, source: &Source, root: &Node) {
        let Some(version) = root.get(&["version"]) else {
            return;
        };
        if root.number(&["version"]) != Some(FILE_VERSION) {
            let help = format!("this host reads `version: {FILE_VERSION}`");
            self.problems.invalid(
                source,
                version.at,
                "the runtime file has another version",
                help,
            );
        }
    }

    fn variable(&mut self, name: &str, value: &str) {
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

    /// Takes over every key that a checked tree has.
    fn take(&mut self, source: &Source, root: &Node, base: &Path) {
        if let Some(state) = root.text(&["state"]) {
            self.settings.state = Some(tidy(&base.join(state)));
        }
        if let Some(directory) = root.text(&["tools", "directory"]) {
            self.settings.tools.directory = Some(tidy(&base.join(directory)));
        }
        self.take_names(source, root);
        self.take_limits(source, root);
        self.take_http(source, root);
        self.take_agents(source, root);
        if let Some(profiles) = root.get(&["profiles"]) {
            self.settings.profiles.clear();
            profiles
                .entries()
                .iter()
                .for_each(|entry| self.take_profile(source, entry));
        }
    }

    fn take_names(&mut self, source: &Source, root: &Node) {
        if root.get(&["tools", "replace_builtins"]).is_none() {
            return;
        }
        let mut names = BTreeSet::new();
        for (node, name) in root.texts(&["tools", "replace_builtins"]) {
            let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'_';
            if name.is_empty() || name.len() > TOOL_NAME_BYTES_MAX || !name.bytes().all(fits) {
                let reason = format!("`{}` is no tool name", shown(name));
                self.problems.invalid(
                    source,
                    node.at,
                    reason,
                    "write a built-in tool's name: `read_file`",
                );
            }
            names.insert(name.to_owned());
        }
        self.settings.tools.replace_builtins = names;
    }

    fn take_limits(&mut self, source: &Source, root: &Node) {
        for (key, ceiling, _) in BOUNDS {
            let path = ["limits", key];
            let (Some(number), Some(node)) = (root.number(&path), root.get(&path)) else {
                continue;
            };
            if number > ceiling {
                let reason = format!("`limits.{key}` is {number}");
                self.problems.invalid(
                    source,
                    node.at,
                    reason,
                    format!("the most it may be is {ceiling}"),
                );
            } else {
                self.settings.limits.set(key, number);
            }
        }
    }

    fn take_http(&mut self, source: &Source, root: &Node) {
        if let Some(node) = root.get(&["http", "address"]) {
            match node.as_text().unwrap_or_default().parse() {
                Ok(address) => self.settings.http.address = Some(address),
                Err(_) => {
                    let help = "write an address and a port: 127.0.0.1:8080 or [::1]:8080";
                    self.problems.invalid(
                        source,
                        node.at,
                        "`http.address` is no socket address",
                        help,
                    );
                }
            }
        }
        if root.get(&["http", "allowed_hosts"]).is_some() {
            let help = "write `name` or `name:port`";
            self.settings.http.allowed_hosts =
                self.take_list(source, root, "allowed_hosts", help, is_host);
        }
        if root.get(&["http", "allowed_origins"]).is_some() {
            let help = "write `https://name` or `https://name:port`, without a path";
            self.settings.http.allowed_origins =
                self.take_list(source, root, "allowed_origins", help, is_origin);
        }
    }

    fn take_list(
        &mut self,
        source: &Source,
        root: &Node,
        key: &str,
        help: &str,
        fits: fn(&str) -> bool,
    ) -> Vec<String> {
        let items = root.texts(&["http", key]);
        let checked = items.inspect(|(node, text)| {
            if !fits(text) {
                let reason = format!("`{}` does not belong into `http.{key}`", shown(text));
                self.problems.invalid(source, node.at, reason, help);
            }
        });
        checked.map(|(_, text)| text.to_owned()).collect()
    }

    fn take_agents(&mut self, source: &Source, root: &Node) {
        let Some(agents) = root.get(&["agents"]) else {
            return;
        };
        self.settings.agents.clear();
        for agent in agents.items() {
            let name = agent.text(&["name"]).unwrap_or_default().to_owned();
            let at = agent.get(&["name"]).map_or(agent.at, |node| node.at);
            let reason = format!("the agent name `{}`", shown(&name));
            if !is_declared_name(&name) {
                let help = "1 to 63 letters, digits and hyphens, the first a letter or digit";
                self.problems
                    .invalid(source, at, format!("{reason} is not allowed"), help);
            }
            if self.settings.agents.iter().any(|other| other.name == name) {
                self.problems.invalid(
                    source,
                    at,
                    format!("{reason} is there twice"),
                    "name each agent once",
                );
            }
            self.settings.agents.push(AgentSettings { name });
        }
    }

    fn take_profile(&mut self, source: &Source, entry: &Entry) {
        let ports = entry
            .node
            .get(&["ports"])
            .map(|ports| self.take_ports(source, ports));
        let mut env = BTreeMap::new();
        for variable in entry
            .node
            .get(&["env"])
            .map(Node::entries)
            .unwrap_or_default()
        {
            let value = variable.node.as_text().unwrap_or_default();
            if !is_variable(&variable.key) || value.contains('\0') {
                let reason = format!("`{}` is no environment variable", shown(&variable.key));
                let help =
                    "letters, digits and `_`, the first no digit; the value without a zero byte";
                self.problems.invalid(source, variable.at, reason, help);
            }
            env.insert(variable.key.clone(), value.to_owned());
        }

        let settings = ProfileSettings {
            env,
            ports,
            source: source.clone(),
            at: entry.at,
        };
        self.settings.profiles.insert(entry.key.clone(), settings);
    }

    fn take_ports(&mut self, source: &Source, ports: &Node) -> Vec<u16> {
        let mut list = Vec::new();
        for node in ports.items() {
            match node.number(&[]).map(u16::try_from) {
                Some(Ok(port)) => list.push(port),
                _ => self.problems.invalid(
                    source,
                    node.at,
                    "not a port",
                    "write a number from 1 to 65535",
                ),
            }
        }
        list
    }
}

impl LimitSettings {
    fn set(&mut self, key: &str, number: u64) {
        let size = usize::try_from(number).unwrap_or(usize::MAX);
        match key {
            "arguments_bytes_max" => self.arguments_bytes_max = size,
            "calls_running_max" => self.calls_running_max = size,
            "calls_waiting_max" => self.calls_waiting_max = size,
            "reply_bytes_max" => self.reply_bytes_max = size,
            _ => self.shutdown_grace_ms = number,
        }
    }
}

fn is_somebody_elses(name: &str) -> bool {
    OTHER_VARIABLES.contains(&name)
        || CLUSTER_PREFIXES
            .iter()
            .any(|prefix| name.starts_with(prefix))
}

fn is_host(text: &str) -> bool {
    let parsed = url::Url::parse(&format!("http://{text}/"));
    !text.is_empty()
        && !text.contains(['/', '@', '?', '#', '*', '\\'])
        && parsed.is_ok_and(|url| url.host_str().is_some() && url.path() == "/")
}

fn is_origin(text: &str) -> bool {
    let parsed = url::Url::parse(text);
    parsed.is_ok_and(|url| url.origin().is_tuple() && url.origin().ascii_serialization() == text)
}

fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, variables: &[(&str, &str)]) -> Result<Settings, Vec<String>> {
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let file = (!text.is_empty()).then_some((Path::new("conf/clawhost.yaml"), text.as_bytes()));
        Settings::read(file, variables)
            .map_err(|list| list.iter().map(DocumentError::one_line).collect())
    }

    const FULL: &str = r#"version: 1
state: ./state
tools:
  directory: ../tools
  replace_builtins: [read_file]
limits:
  calls_running_max: 8
  shutdown_grace_ms: 100
http:
  address: 127.0.0.1:7000
  allowed_hosts: [tools.example.com, "tools.example.com:8443"]
  allowed_origins: ["https://console.example.com"]
agents:
  - name: claude
profiles:
  network: { ports: [443, 8443], env: { LANG: C } }
"#;

    #[test]
    fn every_key_is_read() {
        let settings = read(FULL, &[]).unwrap();
        assert_eq!(settings.state.as_deref(), Some(Path::new("conf/state")));
        assert_eq!(
            settings.tools.directory.as_deref(),
            Some(Path::new("conf/../tools"))
        );
        assert!(settings.tools.replace_builtins.contains("read_file"));
        assert_eq!(settings.limits.calls_running_max, 8);
        assert_eq!(settings.limits.calls_waiting_max, CALLS_WAITING_MAX);
        assert_eq!(
            settings.http.address,
            Some("127.0.0.1:7000".parse().unwrap())
        );
        assert_eq!(settings.http.allowed_hosts.len(), 2);
        assert_eq!(
            settings.agents,
            [AgentSettings {
                name: "claude".to_owned()
            }]
        );
        let network = &settings.profiles["network"];
        assert_eq!(network.ports.as_deref(), Some(&[443, 8443][..]));
        assert_eq!(network.env["LANG"], "C");
    }

    #[test]
    fn nothing_said_is_the_default() {
        assert_eq!(read("", &[]).unwrap(), Settings::default());
        assert_eq!(
            read("version: 1", &[("CLAWHOST_STATE", ""), ("PATH", "/bin")]).unwrap(),
            Settings::default()
        );
    }

    #[test]
    fn every_key_has_a_variable_and_variables_win() {
        let settings = read(
            FULL,
            &[
                ("CLAWHOST_AGENTS", "one, two"),
                ("CLAWHOST_HTTP_ADDRESS", "[::1]:1"),
                ("CLAWHOST_HTTP_ALLOWED_HOSTS", "a.example"),
                ("CLAWHOST_HTTP_ALLOWED_ORIGINS", "https://a.example"),
                ("CLAWHOST_LIMITS_ARGUMENTS_BYTES_MAX", "1"),
                ("CLAWHOST_LIMITS_CALLS_RUNNING_MAX", "2"),
                ("CLAWHOST_LIMITS_CALLS_WAITING_MAX", "3"),
                ("CLAWHOST_LIMITS_REPLY_BYTES_MAX", "4"),
                ("CLAWHOST_LIMITS_SHUTDOWN_GRACE_MS", "5"),
                ("CLAWHOST_PROFILES", "{\"none\": {\"env\": {\"A\": \"b\"}}}"),
                ("CLAWHOST_STATE", "there"),
                ("CLAWHOST_TOOLS_DIRECTORY", "/tools"),
                ("CLAWHOST_TOOLS_REPLACE_BUILTINS", "web_fetch,exec_shell"),
            ],
        )
        .unwrap();
        let names: Vec<_> = settings
            .agents
            .iter()
            .map(|agent| agent.name.as_str())
            .collect();
        assert_eq!(names, ["one", "two"]);
        assert_eq!(settings.http.address, Some("[::1]:1".parse().unwrap()));
        assert_eq!(settings.http.allowed_hosts, ["a.example"]);
        assert_eq!(settings.http.allowed_origins, ["https://a.example"]);
        let LimitSettings {
            arguments_bytes_max,
            calls_running_max,
            calls_waiting_max,
            reply_bytes_max,
            shutdown_grace_ms,
        } = settings.limits;
        let limits = (
            arguments_bytes_max,
            calls_running_max,
            calls_waiting_max,
            reply_bytes_max,
            shutdown_grace_ms,
        );
        assert_eq!(limits, (1, 2, 3, 4, 5));
        assert_eq!(settings.profiles.keys().collect::<Vec<_>>(), ["none"]);
        assert_eq!(settings.state.as_deref(), Some(Path::new("there")));
        assert_eq!(
            settings.tools.directory.as_deref(),
            Some(Path::new("/tools"))
        );
        assert_eq!(settings.tools.replace_builtins.len(), 2);
    }

    #[test]
    fn unknown_unserved_and_wrong_things_are_refused_where_they_stand() {
        for (text, expected) in [
            ("state: x", "conf/clawhost.yaml:1:1: `version` is missing"),
            ("version: 2", ":1:10: the runtime file has another version"),
            (
                "version: 1\nsate: x",
                ":2:1: unknown key `sate` (did you mean `state`?",
            ),
            (
                "version: 1\nregistries: []",
                ":2:13: `registries` is not served by this version",
            ),
            (
                "version: 1\ntools: {mcp_servers: []}",
                "`tools.mcp_servers` is not served",
            ),
            (
                "version: 1\nprofiles: {none: {secrets: []}}",
                "`profiles.none.secrets` is not served",
            ),
            (
                "version: 1\nhttp: {address: localhost}",
                "`http.address` is no socket address",
            ),
            (
                "version: 1\nhttp: {allowed_hosts: ['*']}",
                "`*` does not belong into `http.allowed_hosts`",
            ),
            (
                "version: 1\nhttp: {allowed_origins: ['https://a/']}",
                "`https://a/` does not belong",
            ),
            (
                "version: 1\nhttp: {allowed_origins: ['null']}",
                "`null` does not belong",
            ),
            (
                "version: 1\nlimits: {calls_running_max: 0}",
                "`limits.calls_running_max` is the number 0",
            ),
            (
                "version: 1\nlimits: {calls_running_max: 1001}",
                "the most it may be is 1000",
            ),
            (
                "version: 1\nagents: [{name: a}, {name: a}]",
                "the agent name `a` is there twice",
            ),
            (
                "version: 1\nagents: [{name: a_b}]",
                "the agent name `a_b` is not allowed",
            ),
            (
                "version: 1\nprofiles: {none: {ports: [70000]}}",
                "not a port",
            ),
            (
                "version: 1\nprofiles: {none: {env: {1A: x}}}",
                "`1A` is no environment variable",
            ),
            (
                "version: 1\nprofiles: {none: {env: {A: 1}}}",
                "`profiles.none.env.A` is the number 1",
            ),
        ] {
            let problems = read(text, &[]).unwrap_err();
            assert!(
                problems.iter().any(|line| line.contains(expected)),
                "{text}: {problems:#?}"
            );
        }
    }

    #[test]
    fn unknown_variables_are_refused_but_not_a_clusters() {
        let problems = read("", &[("CLAWHOST_HTTP_ADRESS", "x")]).unwrap_err();
        assert!(
            problems[0].contains("did you mean `CLAWHOST_HTTP_ADDRESS`?"),
            "{problems:?}"
        );
        assert!(read("", &[("CLAWHOST_LIMITS_CALLS_RUNNING_MAX", "many")]).is_err());
        assert!(read("", &[("CLAWHOST_PROFILES", "{")]).is_err());
        let cluster = [
            ("CLAWHOST_SERVICE_HOST", "10.0.0.1"),
            ("CLAWHOST_PORT_80_TCP", "x"),
            ("CLAWHOST_LOG", "debug"),
        ];
        assert_eq!(read("", &cluster).unwrap(), Settings::default());
    }

    #[test]
    fn every_bounds_default_is_its_settings_default() {
        let mut limits = LimitSettings::default();
        for (key, ceiling, default) in BOUNDS {
            assert!(default <= ceiling, "{key}");
            limits.set(key, default);
        }
        assert_eq!(limits, LimitSettings::default());
    }
}
