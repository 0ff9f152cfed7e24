//! What is made of each server of a client's configuration.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clawhost_core::manifest::{McpEndpoint, builtin_profiles};
use serde_json::{Map, Value, json};

use crate::jail;

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
    /// The home folder, which is no server's, without links. Nothing is granted where nobody knows it.
    pub(super) home: Option<PathBuf>,
    /// The workspace that the configuration is of, where it is of one.
    pub(super) workspace: Option<PathBuf>,
}

/// What an entry may call its address.
const ADDRESSES: [&str; 3] = ["url", "serverUrl", "httpUrl"];

/// What of any entry is read, beside what makes it a program or an address.
const READ: [&str; 2] = ["disabled", "type"];

/// A key that is read only as what it should be, how to tell, and what that is called.
type Form = (&'static str, fn(&Value) -> bool, &'static str);

const FORMS: [Form; 3] = [
    ("args", Value::is_array, "list"),
    ("env", Value::is_object, "mapping"),
    ("headers", Value::is_object, "mapping"),
];

/// Why nothing is made of a server, and what would be right.
pub(super) type Unmade = (String, &'static str);

const FROM_NPM: &str =
    "(`npm install --prefix DIR PACKAGE`), write its program, `DIR/node_modules/.bin/NAME`,";
const FROM_PYPI: &str =
    "(`python3 -m venv DIR`, `DIR/bin/pip install PACKAGE`), write its program, `DIR/bin/NAME`,";

/// Programs that fetch what they run, which a sandbox without a network cannot, and how to do without.
const FETCHERS: [(&str, &str); 6] = [
    ("npx", FROM_NPM),
    ("bunx", FROM_NPM),
    ("uvx", FROM_PYPI),
    ("pipx", FROM_PYPI),
    ("docker", "itself, without a container, write its program"),
    ("podman", "itself, without a container, write its program"),
];

impl Made {
    /// Takes in one server.
    pub(super) fn server(&mut self, given: &str, server: &Value) {
        let servers: Vec<&str> = self.servers.keys().map(String::as_str).collect();
        let name = apart(&safe(given), &servers);
        if name != given {
            self.todo.push(format!("`{given}` is called `{name}` here"));
        }
        match self.located(server).and_then(|server| self.entry(&name, &server)) {
            Ok(entry) => drop(self.servers.insert(name, entry)),
            Err((reason, help)) => {
                self.todo.push(format!("`{given}` was left out: {reason}: {help}"));
            }
        }
    }

    fn entry(&mut self, name: &str, server: &Value) -> Result<Value, Unmade> {
        require_readable(server)?;
        let text = |key: &str| server.get(key)?.as_str().filter(|text| !text.is_empty());
        let url = ADDRESSES.iter().find_map(|key| Some((*key, text(key)?)));
        let (entry, read) = match (text("command"), url) {
            (Some(command), _) => {
                (self.program(name, command, server)?, ["args", "command", "env"])
            }
            (None, Some((key, url))) => {
                (self.address(name, url, server)?, [key, "headers", "headers"])
            }
            (None, None) => {
                let reason = "it has neither a `command` nor a `url` that is a text";
                return Err((reason.to_owned(), "a server is one or the other"));
            }
        };
        self.note_unread(name, server, &read);
        Ok(entry)
    }

    /// Tells what of an entry is nowhere in what was made of it.
    fn note_unread(&mut self, name: &str, server: &Value, read: &[&str]) {
        let keys = server.as_object().into_iter().flatten().map(|(key, _)| key.as_str());
        let unread = keys.filter(|key| !READ.contains(key) && !read.contains(key));
        let unread: Vec<String> = unread.map(|key| format!("`{key}`")).collect();
        if !unread.is_empty() {
            let unread = unread.join(", ");
            self.todo.push(format!(
                "`{name}`: nothing was made of {unread}: see whether the server does without"
            ));
        }
    }

    fn program(&mut self, name: &str, command: &str, server: &Value) -> Result<Value, Unmade> {
        let args = arguments(server)?;
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut secrets = Vec::new();
        let env = self.values(name, server.get("env"), "env", &mut secrets);
        let (started, words) = self.command_line(name, command, &args, &mut secrets);
        let paths = words.iter().map(String::as_str).chain(env.values().filter_map(Value::as_str));
        self.sandbox(name, command, &paths.collect::<Vec<_>>());
        self.note_program(name, command);
        // Behind a shell, documents still mean the program.
        let is_hidden = started != command && Path::new(command).is_absolute();
        let endpoint = if is_hidden { json!(format!("stdio://{command}")) } else { json!([]) };
        let entry = json!({"command": started, "args": words, "env": env, "endpoint": endpoint, "sandbox": self.sandbox_name(name)});
        Ok(finished(entry, secrets))
    }

    /// Returns the entry of a server behind an address, or what is wrong with that.
    fn address(&mut self, name: &str, url: &str, server: &Value) -> Result<Value, Unmade> {
        let mut secrets = Vec::new();
        let headers = self.values(name, server.get("headers"), "header", &mut secrets);
        let url = self.url(name, url, &mut secrets);
        McpEndpoint::parse(&url)?;
        if server.get("type").is_some_and(|kind| kind == "sse") {
            self.todo.push(format!("`{name}` speaks the older event stream (SSE), which is not spoken here: name its newer address as `url`"));
        }
        self.sandbox(name, "", &[]);
        let entry = json!({"url": url, "headers": headers, "sandbox": self.sandbox_name(name)});
        Ok(finished(entry, secrets))
    }

    /// Returns what the sandbox of a server is called: as the server, unless a sandbox that is there anyway has
    /// that name, or that of another server.
    pub(super) fn sandbox_name(&self, name: &str) -> String {
        let own = builtin_profiles(Path::new("/")).unwrap_or_default();
        let made = self.servers.values().filter_map(|server| server.get("sandbox")?.as_str());
        apart(name, &own.keys().map(String::as_str).chain(made).collect::<Vec<_>>())
    }

    /// Says why a program cannot be started as its client does: one that fetches what it runs, or that a client
    /// finds where this host does not look.
    fn note_program(&mut self, name: &str, command: &str) {
        let program = Path::new(command).file_name().and_then(|name| name.to_str());
        let fetcher = FETCHERS.iter().find(|(fetcher, _)| program == Some(*fetcher));
        if let Some((fetcher, how)) = fetcher {
            self.todo.push(format!("`{name}`: `{fetcher}` fetches what it runs, and its sandbox has no network and runs nothing that it wrote: install the server once {how} as `command`, and import that"));
        } else if !Path::new(command).is_absolute() && jail::find(command).is_none() {
            let not_found = jail::not_found(command);
            self.todo.push(format!("`{name}`: {not_found} as `command` and mount its folder `ro` in {name}-sandbox.yaml"));
        }
    }
}

/// Refuses an entry that its client does not start, or of which a part would be taken for none.
fn require_readable(server: &Value) -> Result<(), Unmade> {
    let given = |key: &str| server.get(key).filter(|value| !value.is_null());
    if given("disabled").is_some_and(|value| *value != json!(false)) {
        return Err(("it is disabled".to_owned(), "take `disabled` out to have it"));
    }
    for (key, is_read, form) in FORMS {
        if given(key).is_some_and(|value| !is_read(value)) {
            return Err((format!("`{key}` is no {form}"), "write it as its client documents it"));
        }
    }
    Ok(())
}

/// Returns the arguments of a program; what is no text is written as its client would.
fn arguments(server: &Value) -> Result<Vec<String>, Unmade> {
    let given = server.get("args").and_then(Value::as_array).into_iter().flatten();
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        _ => Err(("an argument is neither text nor a number".to_owned(), "write it as text")),
    };
    given.map(text).collect()
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

/// Returns `name`, or it with the first number that makes it none of `taken`.
fn apart(name: &str, taken: &[&str]) -> String {
    let alike = |one: &str| one.to_ascii_lowercase().replace('_', "-");
    let is_free = |name: &String| !taken.iter().any(|other| alike(other) == alike(name));
    let numbered = (2_u32..).map(|number| format!("{name}-{number}"));
    std::iter::once(name.to_owned()).chain(numbered).find(is_free).unwrap_or_default()
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
