//! `clawhost import`: from an MCP client's configuration to a runtime file and a sandbox for each
//! server.
//!
//! Deliberately absent: starting anything, and writing secrets into a file: their values stay where
//! they are, and the commands that store them are printed without them.

mod credentials;
mod folders;
mod made;
mod variables;
mod yaml;

use std::path::{Path, PathBuf};

use clap::Args;
use clawhost_core::error::exit;
use clawhost_core::foreign::{ForeignError, read_json};
use serde_json::json;

use self::made::Made;
use self::yaml::yaml;
use super::fail::{Blame as _, Fail};
use super::{setup, show};

/// What would be right where nothing can be made of a file.
const CLIENT_FILE: &str = "name the JSON file of an MCP client, `{\"mcpServers\": {\"NAME\": {\"command\": …}}}` or with `servers`";

/// Make documents of an MCP client's configuration
///
/// Reads `{"mcpServers": …}` as Claude Desktop, Cursor and others have it, or the `{"servers": …}` of VS
/// Code, and makes a runtime file with these servers and a sandbox document for each. Credentials are
/// replaced by the names of secrets; the commands that store them are printed, and so is whatever nothing was
/// made of. `${workspaceFolder}` is the folder that has the `.vscode` or `.cursor` which FILE lies in. Without
/// --out, the files are printed and nothing is written; a file that is there is never overwritten.
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
    /// Say which files would be written, and write none
    #[arg(long, requires = "out")]
    dry_run: bool,
}

pub(super) fn run(args: &ImportArgs) -> Result<u8, Fail> {
    let made = read(&args.file)?;
    match &args.out {
        None => made.files.iter().for_each(|(name, text)| show::line(&format!("# {name}\n{text}"))),
        Some(folder) => {
            require_free(folder, &made.files)?;
            if !args.dry_run {
                write(folder, &made.files)?;
            }
            let verb = if args.dry_run { "would write" } else { "wrote" };
            for (name, _) in &made.files {
                show::line(&format!("{verb} {}", folder.join(name).display()));
            }
        }
    }
    // Standard output is the documents' alone.
    made.todo.iter().for_each(|one| eprintln!("{one}"));
    Ok(exit::OK)
}

fn read(file: &Path) -> Result<Made, Fail> {
    let bytes = setup::read_document(file, CLIENT_FILE)?;
    let value = read_json(&bytes).map_err(|error| refused(file, &error))?;
    let servers = ["mcpServers", "servers"].iter().find_map(|key| value.get(key)?.as_object());
    let servers = servers.filter(|servers| !servers.is_empty()).ok_or_else(|| {
        let reason = "it names no MCP servers".to_owned();
        refused(file, &ForeignError { at: None, reason, help: CLIENT_FILE })
    })?;
    let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
    let workspace = variables::workspace(file, home.as_deref());
    let mut made = Made { home, workspace, ..Made::default() };
    for (name, server) in servers {
        made.server(name, server);
    }
    let runtime = json!({"version": 1, "tools": {"mcp_servers": made.servers}});
    made.files.insert(0, ("clawhost.yaml".to_owned(), yaml(&runtime)));
    Ok(made)
}

/// Says what is wrong with the client's file.
fn refused(file: &Path, error: &ForeignError) -> Fail {
    let file = file.display();
    let at = error.at.map(|(line, column)| format!(":{line}:{column}")).unwrap_or_default();
    let (reason, hint) = (format!("{file}{at}: {error}"), Some(error.help.to_owned()));
    Fail::Other { code: exit::DOCUMENT, reason, hint }
}

/// Refuses where one of the files is there already.
fn require_free(folder: &Path, files: &[(String, String)]) -> Result<(), Fail> {
    let mut paths = files.iter().map(|(name, _)| folder.join(name));
    paths.find(|path| path.symlink_metadata().is_ok()).map_or(Ok(()), |path| {
        let reason = format!("{} is there already", path.display());
        Err(Fail::usage(reason, "name another folder"))
    })
}

fn write(folder: &Path, files: &[(String, String)]) -> Result<(), Fail> {
    std::fs::create_dir_all(folder).map_err(|error| Fail::unwritable(folder, &error))?;
    for (name, text) in files {
        let path = folder.join(name);
        let file = std::fs::OpenOptions::new().write(true).create_new(true).open(&path);
        file.and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()))
            .or_fail_at(exit::UPSTREAM, &path)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clawhost_core::manifest::Settings;
    use serde_json::Value;

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
    fn two_servers_with_one_word_for_different_secrets_have_two() {
        let of = |url: &str, token: &str| json!({"url": url, "headers": {"Authorization": token}});
        let config = json!({"mcpServers": {
            "a": of("https://a.example/", "Bearer aaa"), "b": of("https://b.example/", "Bearer bbb"),
            "c": of("https://c.example/", "Bearer aaa"),
        }});
        let (_, settings) = made(&config);
        let secret = |name: &str| settings.tools.mcp_servers[name].server.secrets().next().unwrap();
        assert_eq!(
            ["a", "b", "c"].map(secret),
            ["Authorization", "b-authorization", "Authorization"]
        );
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
                ["clawhost.yaml", "my-server-sandbox.yaml", "web-sandbox.yaml"]
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
    fn what_cannot_be_served_or_granted_is_told() {
        let config = json!({"mcpServers": {
            "plain": {"url": "http://mcp.example/mcp"},
            "old": {"type": "sse", "url": "https://mcp.example/sse"},
            "far": {"command": "srv", "args": ["/no/such/folder/data"]},
        }});
        let (made, settings) = made(&config);
        assert_eq!(settings.tools.mcp_servers.keys().collect::<Vec<_>>(), ["far", "old"]);
        let told = |what: &str| made.todo.iter().any(|one| one.contains(what));
        assert!(told("`plain` was left out: ") && told("`http://` on 127.0.0.1"), "{made:?}");
        assert!(told("`old` speaks the older event stream"), "{made:?}");
        assert!(told("`far`: /no/such/folder/data is not there"), "{made:?}");
    }

    #[test]
    fn what_nothing_is_made_of_is_told() {
        let config = json!({"mcpServers": {
            "off": {"command": "srv", "disabled": true},
            "odd": {"command": "srv", "args": "--all"},
            "deep": {"command": "srv", "args": [["--all"]]},
            "loose": {"command": "srv", "env": ["A=b"]},
            "more": {"type": "stdio", "command": "srv", "args": ["--port", 80, true], "cwd": "/x", "envFile": ".env"},
            "surf": {"serverUrl": "https://x.example/mcp", "disabled": false, "timeout": 5},
        }});
        let (made, settings) = made(&config);
        assert_eq!(settings.tools.mcp_servers.keys().collect::<Vec<_>>(), ["more", "surf"]);
        assert_eq!(made.servers["more"]["args"], json!(["--port", "80", "true"]));
        assert_eq!(made.servers["surf"]["url"], "https://x.example/mcp");
        for told in [
            "`off` was left out: it is disabled",
            "`odd` was left out: `args` is no list",
            "`deep` was left out: an argument is neither text nor a number",
            "`loose` was left out: `env` is no mapping",
            "`more`: nothing was made of `cwd`, `envFile`",
            "`surf`: nothing was made of `timeout`",
        ] {
            assert!(made.todo.iter().any(|one| one.contains(told)), "{told}: {made:?}");
        }
    }

    #[test]
    fn the_workspace_is_where_its_configuration_lies() {
        let folder = tempfile::tempdir().unwrap();
        let workspace = folder.path().canonicalize().unwrap();
        std::fs::create_dir(workspace.join(".vscode")).unwrap();
        let config = json!({"servers": {"a": {"command": "${workspaceFolder}/srv", "args": ["${workspaceFolder}"]}}});
        let read_at = |file: &str| {
            let file = workspace.join(file);
            std::fs::write(&file, config.to_string()).unwrap();
            read(&file).unwrap_or_else(|fail| panic!("{fail:?}"))
        };
        let made = read_at(".vscode/mcp.json");
        let at = workspace.display();
        assert_eq!(made.servers["a"]["command"], format!("{at}/srv"));
        assert_eq!(made.servers["a"]["args"], json!([at.to_string()]), "{made:?}");
        let made = read_at("mcp.json");
        assert!(made.servers.is_empty(), "{made:?}");
        let told = "`a` was left out: nobody knows which folder `${workspaceFolder}` is: ";
        assert!(made.todo[0].starts_with(told), "{made:?}");
    }

    #[test]
    fn fetching_is_told() {
        for (program, how) in [("npx", "npm install"), ("uvx", "pip install")] {
            let config = json!({"mcpServers": {"fs": {"command": program, "args": ["-y", "pkg"]}}});
            let (made, _) = made(&config);
            let told = &made.todo[0];
            assert!(told.contains("fetches what it runs") && told.contains(how), "{told}");
        }
    }

    #[test]
    fn a_program_that_only_the_client_finds_is_told() {
        let config = json!({"mcpServers": {
            "a": {"command": "no-such-program"}, "b": {"command": "sh"}, "c": {"command": "/opt/srv"},
            "d": {"command": "./srv"}, "e": {"command": "~/srv"},
        }});
        let (made, _) = made(&config);
        let told = |name: &str| {
            let start = format!("`{name}`: there is no program");
            made.todo.iter().any(|one| one.starts_with(&start))
        };
        let all = ["a", "b", "c", "d", "e"].map(told);
        assert_eq!(all, [true, false, false, true, true], "{made:?}");
    }

    #[test]
    fn what_is_written_loads_whatever_it_is_called_and_with_whatever_credentials() {
        let config = json!({"mcpServers": {
            "none": {"command": "/opt/srv", "args": ["--token=hunter2", "--db", "/tmp/x.db"]},
            "Process": {"command": "srv", "env": {"OPENAI_KEY": "hunter2", "DB_PASS": "hunter2"}},
            "url": {"url": "https://u:hunter2@x.example/?api_key=hunter2", "headers": {"Cookie": "a=hunter2"}},
        }});
        let (made, settings) = made(&config);
        assert!(!format!("{made:?}").contains("hunter2"), "{made:?}");
        let names: Vec<_> = settings.tools.mcp_servers.keys().collect();
        assert_eq!(names, ["none", "process", "url"]);
        let sandboxes =
            ["none", "process", "url"].map(|name| made.servers[name]["sandbox"].clone());
        assert_eq!(sandboxes, ["none-2", "process-2", "url"], "no profile of the host is replaced");
        assert!(
            made.files
                .iter()
                .any(|(name, text)| name == "none-sandbox.yaml" && text.contains("none-2"))
        );
        assert!(made.todo.iter().any(|one| one.contains("may read and write /tmp")), "{made:?}");
        let secrets: Vec<_> =
            settings.tools.mcp_servers.values().flat_map(|one| one.server.secrets()).collect();
        assert_eq!(secrets, ["none-token", "DB_PASS", "OPENAI_KEY", "Cookie", "url-authorization"]);
    }

    #[test]
    fn a_file_that_is_no_configuration_is_told_with_its_place_and_without_its_text() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("client.json");
        for (text, told) in [
            (
                "{\n \"mcpServers\": {\"a\": {\"env\": {\"T\": \"hunter2\",}}}}",
                ":2:46: this is not JSON: trailing comma",
            ),
            ("{\"mcpServers\": []}", ": it names no MCP servers"),
            ("{\"mcpServers\": {}}", ": it names no MCP servers"),
            ("[1]", ": it names no MCP servers"),
        ] {
            std::fs::write(&file, text).unwrap();
            let Err(Fail::Other { code: exit::DOCUMENT, reason, hint: Some(_) }) = read(&file)
            else {
                panic!("{text}")
            };
            assert_eq!(reason, format!("{}{told}", file.display()));
        }
        assert!(matches!(read(folder.path()), Err(Fail::Other { code: exit::USAGE, .. })));
    }

    #[test]
    fn nothing_is_overwritten_and_names_stay_apart() {
        let folder = tempfile::tempdir().unwrap();
        let files = [("a.yaml".to_owned(), "1".to_owned()), ("b.yaml".to_owned(), "2".to_owned())];
        std::fs::write(folder.path().join("b.yaml"), "mine").unwrap();
        assert!(require_free(folder.path(), &files).is_err());
        assert!(!folder.path().join("a.yaml").exists());
        let config = json!({"mcpServers": {"a b": {"command": "x"}, "a_b": {"command": "y"}, "\u{1b}": {"command": "z"}}});
        let (_, settings) = made(&config);
        let names: Vec<_> = settings.tools.mcp_servers.keys().collect();
        assert_eq!(names, ["a-b", "a-b-2", "server"]);
    }
}
