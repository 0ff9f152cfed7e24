//! `clawhost import`: from an MCP client's configuration to a runtime file and a sandbox for each
//! server.
//!
//! Deliberately absent: starting anything, and writing secrets into a file: their values stay where
//! they are, and the commands that store them are printed without them.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use clawhost_core::error::exit;
use clawhost_core::grants::{is_secret_name, is_variable_name};
use clawhost_core::limits::DOCUMENT_BYTES_MAX;
use clawhost_core::screen::is_credential;
use clawhost_core::{json, visible};
use serde_json::{Map, Value, json};

use super::fail::Fail;
use super::show;
use crate::regular;

/// Make documents of an MCP client's configuration
///
/// Reads `{"mcpServers": …}` as Claude Desktop, Cursor and others have it, or the `{"servers": …}` of VS
/// Code, and makes a runtime file with these servers and a sandbox document for each. Credentials are
/// replaced by the names of secrets; the commands that store them are printed. Without --out, the
/// files are printed and nothing is written; a file that is there is never overwritten.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: clawhost import claude_desktop_config.json --out tools && clawhost run tools"
)]
pub(super) struct ImportArgs {
    /// The client's configuration
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Write the files into this folder, which is made
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What is made of a configuration.
#[derive(Debug, Default)]
struct Made {
    /// Names and contents.
    files: Vec<(String, String)>,
    servers: Map<String, Value>,
    /// What is left for a person to do.
    todo: Vec<String>,
}

/// Folders whose programs every jail may run.
const SYSTEM: [&str; 4] = ["/usr", "/bin", "/sbin", "/lib"];
/// Programs that fetch what they run, which a sandbox without a network cannot.
const FETCHERS: [&str; 6] = ["npx", "uvx", "bunx", "pipx", "docker", "podman"];
/// Endings of names whose values are secrets, whatever they look like.
const SECRET_ENDINGS: [&str; 7] =
    ["TOKEN", "SECRET", "PASSWORD", "API_KEY", "APIKEY", "ACCESS_KEY", "PRIVATE_KEY"];

pub(super) fn run(args: &ImportArgs) -> Result<u8, Fail> {
    let made = read(&args.file)?;
    match &args.out {
        None => made.files.iter().for_each(|(name, text)| show::line(&format!("# {name}\n{text}"))),
        Some(folder) => {
            write(folder, &made.files)?;
            for (name, _) in &made.files {
                show::line(&format!("wrote {}", folder.join(name).display()));
            }
        }
    }
    // Standard output is the documents' alone.
    made.todo.iter().for_each(|one| eprintln!("{}", visible::line(one)));
    Ok(exit::OK)
}

fn read(file: &Path) -> Result<Made, Fail> {
    let wrong = |reason: String| {
        let hint = "give the JSON file of an MCP client, with `mcpServers` or `servers`";
        Fail::usage(format!("{}: {reason}", file.display()), hint)
    };
    let bytes =
        regular::read(file, DOCUMENT_BYTES_MAX as u64).map_err(|error| wrong(error.to_string()))?;
    let value = json::parse(&bytes).map_err(|error| wrong(error.to_string()))?;
    let servers = ["mcpServers", "servers"].iter().find_map(|key| value.get(key)?.as_object());
    let servers = servers.ok_or_else(|| wrong("it names no MCP servers".to_owned()))?;
    let mut made = Made::default();
    for (name, server) in servers {
        made.server(name, server);
    }
    let runtime = json!({"version": 1, "tools": {"mcp_servers": made.servers}});
    made.files.insert(0, ("clawhost.yaml".to_owned(), yaml(&runtime)));
    Ok(made)
}

/// Writes all files, or none where one is there already.
fn write(folder: &Path, files: &[(String, String)]) -> Result<(), Fail> {
    let failed =
        |error: std::io::Error| Fail::new(exit::UPSTREAM, format!("{}: {error}", folder.display()));
    if let Some((name, _)) =
        files.iter().find(|(name, _)| folder.join(name).symlink_metadata().is_ok())
    {
        let path = folder.join(name);
        return Err(Fail::usage(
            format!("{} is there already", path.display()),
            "name another folder",
        ));
    }
    std::fs::create_dir_all(folder).map_err(failed)?;
    for (name, text) in files {
        let file = std::fs::OpenOptions::new().write(true).create_new(true).open(folder.join(name));
        file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
            .map_err(failed)?;
    }
    Ok(())
}

impl Made {
    fn server(&mut self, given: &str, server: &Value) {
        let name = self.free(&safe(given));
        if name != given {
            self.todo.push(format!("`{given}` is called `{name}` here"));
        }
        let text = |key: &str| server.get(key).and_then(Value::as_str).unwrap_or_default();
        let (command, url) = (text("command"), text("url"));
        let mut entry = Map::new();
        let mut secrets = Vec::new();
        if !command.is_empty() {
            let args = server.get("args").and_then(Value::as_array).cloned().unwrap_or_default();
            let args: Vec<&str> = args.iter().filter_map(Value::as_str).collect();
            entry.insert("command".to_owned(), json!(command));
            entry.insert("args".to_owned(), json!(args));
            let env = self.values(&name, server.get("env"), "env", &mut secrets);
            entry.insert("env".to_owned(), env);
            self.sandbox(&name, command, &args);
            entry.insert("sandbox".to_owned(), json!(name));
            self.note_arguments(&name, command, &args);
        } else if !url.is_empty() {
            entry.insert("url".to_owned(), json!(url));
            let headers = self.values(&name, server.get("headers"), "header", &mut secrets);
            entry.insert("headers".to_owned(), headers);
        } else {
            return self
                .todo
                .push(format!("`{given}` has neither `command` nor `url`, and was left out"));
        }
        if !secrets.is_empty() {
            entry.insert("secrets".to_owned(), Value::Array(secrets));
        }
        entry.retain(|_, value| !value.as_object().is_some_and(Map::is_empty));
        entry.insert("internal_only".to_owned(), json!(false));
        self.servers.insert(name, Value::Object(entry));
    }

    /// Returns `name`, or the first number behind it that nobody has.
    fn free(&self, name: &str) -> String {
        let alike = |one: &str| one.to_ascii_lowercase().replace('_', "-");
        let taken = |name: &str| self.servers.keys().any(|other| alike(other) == alike(name));
        if !taken(name) {
            return name.to_owned();
        }
        (2..).map(|number| format!("{name}-{number}")).find(|name| !taken(name)).unwrap_or_default()
    }

    /// Returns what is no secret of a mapping; the secrets go where they belong, by name.
    fn values(
        &mut self,
        server: &str,
        given: Option<&Value>,
        place: &str,
        secrets: &mut Vec<Value>,
    ) -> Value {
        let mut plain = Map::new();
        for (key, value) in given.and_then(Value::as_object).into_iter().flatten() {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            if !is_secret(key, &text) {
                plain.insert(key.clone(), json!(text));
                continue;
            }
            let name = match is_secret_name(key) && is_variable_name(key) {
                true => key.clone(),
                false => format!("{server}-{}", safe(key)),
            };
            secrets.push(json!({"name": name, place: key}));
            let whole = if place == "header" { " (all of the header's value)" } else { "" };
            self.todo.push(format!("run: clawhost secrets set {name}{whole}"));
        }
        Value::Object(plain)
    }

    /// Writes the sandbox of a program: the folders that its command line names, its own to read.
    fn sandbox(&mut self, name: &str, command: &str, args: &[&str]) {
        let mut mounts: Vec<(PathBuf, &str)> = Vec::new();
        for argument in args.iter().map(Path::new).filter(|path| path.is_absolute()) {
            if argument.is_dir() {
                mounts.push((argument.to_owned(), "rw"));
            } else if let Some(folder) = argument.parent().filter(|folder| folder.is_dir()) {
                mounts.push((folder.to_owned(), "ro"));
            }
        }
        if let Some(folder) = own_folder(Path::new(command)) {
            mounts.push((folder, "ro"));
        }
        let is_system = |path: &Path| SYSTEM.iter().any(|system| path.starts_with(system));
        mounts.retain(|(path, _)| !is_system(path) && path.parent().is_some());
        mounts.sort();
        mounts.dedup_by(|one, first| one.0 == first.0);
        let mounts: Vec<Value> = mounts
            .iter()
            .map(|(path, may)| json!({"path": path.display().to_string(), "permissions": may}))
            .collect();
        let files = match mounts.is_empty() {
            true => json!({"mode": "deny"}),
            false => json!({"mode": "scoped", "mount_paths": mounts}),
        };
        let document = json!({
            "claw": "0.3.0",
            "kind": "Sandbox",
            "metadata": {"name": name},
            "spec": {
                "level": "process",
                "capabilities": {"network": {"mode": "deny"}, "filesystem": files},
            },
        });
        self.files.push((format!("{name}-sandbox.yaml"), yaml(&document)));
    }

    fn note_arguments(&mut self, name: &str, command: &str, args: &[&str]) {
        let program =
            Path::new(command).file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if FETCHERS.contains(&program) {
            self.todo.push(format!("`{name}`: `{program}` fetches what it runs, and its sandbox has no network and runs nothing that it wrote: install the server into a folder, name its program as `command`, and mount the folder `ro` in {name}-sandbox.yaml"));
        }
        if let Some(argument) = args.iter().find(|text| is_credential("", text)) {
            let begin: String = argument.chars().take_while(|c| *c != '=').take(24).collect();
            let begin = if argument.contains('=') { begin } else { "one of them".to_owned() };
            self.todo.push(format!("`{name}`: an argument looks like a credential ({begin}): give it by `env` or a file, if the server can take it so"));
        }
    }
}

/// Returns the folder of a program that lies outside of the system: that of a whole environment where it
/// is in its `bin`.
fn own_folder(command: &Path) -> Option<PathBuf> {
    let folder = command.parent().filter(|_| command.is_absolute())?;
    match folder.file_name().is_some_and(|name| name == "bin" || name == ".bin") {
        true => folder.parent().map(Path::to_owned),
        false => Some(folder.to_owned()),
    }
}

fn is_secret(key: &str, text: &str) -> bool {
    let name = key.to_ascii_uppercase().replace('-', "_");
    let is_reference = text.starts_with("${");
    !text.is_empty()
        && (is_reference
            || name == "AUTHORIZATION"
            || SECRET_ENDINGS.iter().any(|ending| name.ends_with(ending))
            || is_credential(key, text))
}

/// Returns `name` as a server, or part of a secret, may be called.
fn safe(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let mapped: String = name.chars().map(plain).collect();
    let parts: Vec<&str> = mapped.split('-').filter(|part| !part.is_empty()).collect();
    // Room for the number of a second one of that name.
    let short: String = parts.join("-").chars().take(28).collect();
    let short = short.trim_end_matches('-');
    if short.is_empty() { "server".to_owned() } else { short.to_owned() }
}

/// Returns `value` as YAML, every text quoted as JSON would have it.
fn yaml(value: &Value) -> String {
    let mut text = String::new();
    block(value, 0, &mut text);
    text
}

fn block(value: &Value, depth: usize, text: &mut String) {
    let Value::Object(object) = value else { return };
    for (key, value) in object {
        let indent = "  ".repeat(depth);
        let key = if is_variable_name(key) { key.clone() } else { json!(key).to_string() };
        // Writing to a text cannot fail.
        let _ = match value {
            Value::Object(inner) if !inner.is_empty() => {
                let _ = writeln!(text, "{indent}{key}:");
                block(value, depth + 1, text);
                Ok(())
            }
            other => writeln!(text, "{indent}{key}: {other}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use clawhost_core::manifest::Settings;

    use super::*;

    fn made(config: &Value) -> (Made, Settings) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("client.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let made = read(&file).unwrap_or_else(|fail| panic!("{fail:?}"));
        let (name, text) = &made.files[0];
        let settings = Settings::read(Some((Path::new(name), text.as_bytes())), []);
        let settings = settings.unwrap_or_else(|errors| panic!("{}\n{text}", errors[0].one_line()));
        (made, settings)
    }

    #[test]
    fn both_forms_become_a_runtime_file_that_is_read() {
        for key in ["mcpServers", "servers"] {
            let config = json!({key: {"My Server!": {"command": "srv", "args": ["-y"], "env": {"A": "b: #c"}}, "web": {"type": "http", "url": "https://x.example/mcp"}}});
            let (made, settings) = made(&config);
            let names: Vec<_> = settings.tools.mcp_servers.keys().collect();
            assert_eq!(names, ["my-server", "web"]);
            assert!(settings.tools.mcp_servers.values().all(|one| !one.server.internal_only));
            assert_eq!(
                made.files.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
                ["clawhost.yaml", "my-server-sandbox.yaml"]
            );
        }
    }

    #[test]
    fn secrets_are_named_and_never_written() {
        let token = format!("ghp_{}", "a1B2".repeat(9));
        let config = json!({"mcpServers": {
            "gh": {"command": "srv", "env": {"GITHUB_TOKEN": "hunter2", "OTHER": token, "PLAIN": "x", "FROM": "${input:key}"}},
            "web": {"url": "https://x.example/", "headers": {"Authorization": "Bearer hunter2", "X-Team": "t"}},
        }});
        let (made, settings) = made(&config);
        let all = format!("{made:?}");
        assert!(!all.contains("hunter2") && !all.contains("ghp_"), "{all}");
        let secrets = |name: &str| {
            settings.tools.mcp_servers[name].server.secrets().map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(secrets("gh"), ["FROM", "GITHUB_TOKEN", "OTHER"]);
        assert_eq!(secrets("web"), ["Authorization"]);
        assert!(made.todo.contains(&"run: clawhost secrets set GITHUB_TOKEN".to_owned()));
    }

    #[test]
    fn folders_of_the_command_line_are_mounted_and_fetching_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display().to_string();
        let config = json!({"mcpServers": {"fs": {"command": "npx", "args": ["-y", "pkg", path]}}});
        let (made, _) = made(&config);
        assert!(
            made.files[1].1.contains(&format!("\"path\":\"{path}\",\"permissions\":\"rw\"")),
            "{made:?}"
        );
        assert!(made.todo[0].contains("fetches what it runs"));
        assert_eq!(own_folder(Path::new("/opt/x/bin/srv")), Some(PathBuf::from("/opt/x")));
        assert_eq!(own_folder(Path::new("srv")), None);
    }

    #[test]
    fn nothing_is_overwritten_and_names_stay_apart() {
        let folder = tempfile::tempdir().unwrap();
        let files = [("a.yaml".to_owned(), "1".to_owned()), ("b.yaml".to_owned(), "2".to_owned())];
        std::fs::write(folder.path().join("b.yaml"), "mine").unwrap();
        assert!(write(folder.path(), &files).is_err());
        assert!(!folder.path().join("a.yaml").exists());
        let config = json!({"mcpServers": {"a b": {"command": "x"}, "a_b": {"command": "y"}, "\u{1b}": {"command": "z"}}});
        let (_, settings) = made(&config);
        let names: Vec<_> = settings.tools.mcp_servers.keys().collect();
        assert_eq!(names, ["a-b", "a-b-2", "server"]);
    }
}
