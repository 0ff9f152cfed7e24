//! What is made of each server of a client's configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clawhost_core::manifest::{McpEndpoint, builtin_profiles};
use serde_json::{Map, Value, json};

/// What is made of a configuration.
#[derive(Debug, Default)]
pub(super) struct Made {
    /// Names and contents.
    pub(super) files: Vec<(String, String)>,
    pub(super) servers: Map<String, Value>,
    /// What is left for a person to do or to know.
    pub(super) todo: Vec<String>,
    /// Digests of what is behind the names of secrets that were given so far.
    pub(super) digests: BTreeMap<String, String>,
    /// The home folder, which is no server's.
    pub(super) home: Option<PathBuf>,
}

/// Programs that fetch what they run, which a sandbox without a network cannot.
const FETCHERS: [&str; 6] = ["npx", "uvx", "bunx", "pipx", "docker", "podman"];

impl Made {
    /// Takes in one server.
    pub(super) fn server(&mut self, given: &str, server: &Value) {
        let name = self.free(&safe(given));
        if name != given {
            self.todo.push(format!("`{given}` is called `{name}` here"));
        }
        let text = |key: &str| server.get(key).and_then(Value::as_str).unwrap_or_default();
        let entry = match (text("command"), text("url")) {
            ("", "") => {
                let text = format!("`{given}` has neither `command` nor `url`, and was left out");
                return self.todo.push(text);
            }
            ("", url) => match self.address(&name, url, server) {
                Ok(entry) => entry,
                Err((reason, help)) => {
                    return self.todo.push(format!("`{given}` was left out: {reason}: {help}"));
                }
            },
            (command, _) => self.program(&name, command, server),
        };
        self.servers.insert(name, entry);
    }

    fn program(&mut self, name: &str, command: &str, server: &Value) -> Value {
        let args = server.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
        let args: Vec<&str> = args.iter().filter_map(Value::as_str).collect();
        let mut secrets = Vec::new();
        let env = self.values(name, server.get("env"), "env", &mut secrets);
        let (started, words) = self.command_line(name, command, &args, &mut secrets);
        let paths = words.iter().map(String::as_str).chain(env.values().filter_map(Value::as_str));
        self.sandbox(name, command, &paths.collect::<Vec<_>>());
        self.note_fetcher(name, command);
        // Behind a shell, documents still mean the program.
        let is_hidden = started != command && Path::new(command).is_absolute();
        let endpoint = if is_hidden { json!(format!("stdio://{command}")) } else { json!([]) };
        let entry = json!({"command": started, "args": words, "env": env, "endpoint": endpoint, "sandbox": name});
        finished(entry, secrets)
    }

    /// Returns the entry of a server behind an address, or what is wrong with that.
    fn address(
        &mut self,
        name: &str,
        url: &str,
        server: &Value,
    ) -> Result<Value, (String, &'static str)> {
        let mut secrets = Vec::new();
        let headers = self.values(name, server.get("headers"), "header", &mut secrets);
        let url = self.url(name, url, &mut secrets);
        McpEndpoint::parse(&url)?;
        if server.get("type").is_some_and(|kind| kind == "sse") {
            self.todo.push(format!("`{name}` speaks the older event stream (SSE), which is not spoken here: name its newer address as `url`"));
        }
        self.sandbox(name, "", &[]);
        let entry = json!({"url": url, "headers": headers, "sandbox": name});
        Ok(finished(entry, secrets))
    }

    /// Returns `name`, or the first number behind it that nobody has: no other server, and no sandbox
    /// that is there anyway.
    fn free(&self, name: &str) -> String {
        let alike = |one: &str| one.to_ascii_lowercase().replace('_', "-");
        let own = builtin_profiles(Path::new("/")).unwrap_or_default();
        let names = || own.keys().chain(self.servers.keys());
        let taken = |name: &str| names().any(|other| alike(other) == alike(name));
        if !taken(name) {
            return name.to_owned();
        }
        (2..).map(|number| format!("{name}-{number}")).find(|name| !taken(name)).unwrap_or_default()
    }

    fn note_fetcher(&mut self, name: &str, command: &str) {
        let program = Path::new(command).file_name().and_then(|name| name.to_str());
        if let Some(program) = program.filter(|program| FETCHERS.contains(program)) {
            self.todo.push(format!("`{name}`: `{program}` fetches what it runs, and its sandbox has no network and runs nothing that it wrote: install the server into a folder, name its program as `command`, and mount the folder `ro` in {name}-sandbox.yaml"));
        }
    }
}

/// Adds the rest of an entry, and leaves out what is empty.
fn finished(mut entry: Value, secrets: Vec<Value>) -> Value {
    if let Value::Object(entry) = &mut entry {
        entry.insert("secrets".to_owned(), Value::Array(secrets));
        entry.insert("internal_only".to_owned(), json!(false));
        entry.retain(|_, value| *value != json!({}) && *value != json!([]));
    }
    entry
}

/// Returns `name` as a server, or part of a secret, may be called.
pub(super) fn safe(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let mapped: String = name.chars().map(plain).collect();
    let parts: Vec<&str> = mapped.split('-').filter(|part| !part.is_empty()).collect();
    // Room for the number of a second one of that name.
    let short: String = parts.join("-").chars().take(28).collect();
    let short = short.trim_end_matches('-');
    if short.is_empty() { "server".to_owned() } else { short.to_owned() }
}
