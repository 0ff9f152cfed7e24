//! What a Sandbox document may not say: what contradicts itself, and what this host cannot give.

use std::path::{Component, Path};

use regex::Regex;

use super::guest_name;
use crate::egress::HostPattern;
use crate::limits::{SHELL_PATTERNS_BYTES_MAX, SHELL_PATTERNS_MAX};
use crate::manifest::node::{Node, Place};
use crate::manifest::problem::Problems;
use crate::manifest::shape::{shown, shown_sentence};
use crate::{schema, shell};

/// Checks what the shape cannot say.
pub(crate) fn check(spec: &Node, report: &mut Problems) {
    check_runtime(spec, report);
    if let Some(network) = spec.get(&["capabilities", "network"]) {
        check_network(network, report);
    }
    if let Some(files) = spec.get(&["capabilities", "filesystem"]) {
        check_filesystem(files, report);
    }
    if let Some(shell) = spec.get(&["capabilities", "shell"]) {
        check_shell(shell, report);
    }
}

fn check_runtime(spec: &Node, report: &mut Problems) {
    let level = spec.text(&["level"]).unwrap_or_default();
    let right = match level {
        "wasm" => "wasmtime",
        "none" | "process" => "native",
        // Not served.
        _ => return,
    };
    let runtime = spec.text(&["runtime"]);
    if let Some(runtime) = runtime.filter(|runtime| *runtime != right) {
        let reason = format!("`runtime: {runtime}` does not go with `level: {level}`");
        let help = format!("write `runtime: {right}`, or leave it out");
        report.invalid(spec.place(&["runtime"]), reason, help);
    }
}

fn check_network(network: &Node, report: &mut Problems) {
    let mode = network.text(&["mode"]).unwrap_or("deny");
    let hosts = network.get(&["allowed_hosts"]);
    if let Some(hosts) = hosts.filter(|hosts| mode != "allowlist" && !hosts.items().is_empty()) {
        let reason = format!("`allowed_hosts` does not go with `mode: {mode}`");
        report.invalid(&hosts.at, reason, "write `mode: allowlist`, or leave the hosts out");
    }
    for (node, host) in network.texts(&["allowed_hosts"]) {
        if let Err((reason, help)) = read_host(host) {
            report.invalid(&node.at, reason, help);
        }
    }
}

/// Reads a host that may be reached, or says what is wrong and what would be right.
pub(crate) fn read_host(text: &str) -> Result<HostPattern, (String, String)> {
    HostPattern::parse(text).map_err(|error| {
        let (is, help) = not_a_host(text, &error);
        (format!("`{}` {is}", shown(text)), help)
    })
}

fn not_a_host(text: &str, error: &str) -> (String, String) {
    let is_host = |name: &&str| HostPattern::parse(name).is_ok();
    let url = text.split_once("://").and_then(|(_, rest)| rest.split(['/', ':', '?']).next());
    let port = text.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
    let (is, help) = if let Some(name) = url.filter(is_host) {
        ("is a URL and no host", format!("write `{name}`"))
    } else if let Some(name) = port.map(|(name, _)| name).filter(is_host) {
        let where_ports = "profiles of clawhost.yaml and network policies have `ports`";
        ("has a port", format!("write `{name}`; {where_ports}"))
    } else if text == "*" {
        ("is every host", "name the hosts; a sandbox opens all by `mode: allow-all`".to_owned())
    } else if text.trim_start_matches("*.").contains('*') {
        let help =
            "write `*.` and the rest of the name, as in `*.example.com`, or each host by itself";
        ("has a `*` in another place than the beginning", help.to_owned())
    } else {
        let reason = format!("is no host: {}", shown_sentence(error));
        return (reason, "write `api.example.com` or `*.example.com`".to_owned());
    };
    (is.to_owned(), help)
}

fn check_filesystem(files: &Node, report: &mut Problems) {
    let mode = files.text(&["mode"]).unwrap_or("deny");
    let mounts = files.list(&["mount_paths"]);
    let at = files.entry("mode").map_or(&files.at, |mode| &mode.at);
    match mode {
        "deny" if !mounts.is_empty() => {
            let help = "write `mode: scoped` or `mode: read-only`, or leave `mount_paths` out";
            report.invalid(at, "`mount_paths` opens nothing under `mode: deny`, the default", help);
        }
        "read-only" | "scoped" if mounts.is_empty() => {
            let help = "add `mount_paths:` with `path` and `permissions`, or write `mode: deny`";
            report.invalid(at, format!("`mode: {mode}` opens nothing"), help);
        }
        _ => {}
    }
    for mount in mounts {
        check_mount(mode, mount, report);
    }
    check_guest_names(mounts, report);
    for (node, path) in files.texts(&["denied_paths"]) {
        check_host_path(&node.at, path, report);
    }
}

fn check_mount(mode: &str, mount: &Node, report: &mut Problems) {
    if mode == "read-only" && mount.text(&["permissions"]) == Some("rw") {
        let help = "write `permissions: ro`, or `mode: scoped`";
        report.invalid(
            mount.place(&["permissions"]),
            "`permissions: rw` does not go with `mode: read-only`",
            help,
        );
    }
    let path = mount.text(&["path"]).unwrap_or_default();
    let at = mount.place(&["path"]);
    check_host_path(at, path, report);
    check_no_root(at, path, report);
}

/// A path that would silently mean something else than it says.
fn check_host_path(at: &Place, path: &str, report: &mut Problems) {
    if path.contains(['*', '?', '\0']) {
        let reason = format!("`{}` is no path of a file or directory", shown(path));
        let help = "write one that is absolute or relative to this document, without `*` and `?`, which have no meaning here";
        report.invalid(at, reason, help);
    }
}

/// The root directory by another name is still the whole file system.
fn check_no_root(at: &Place, path: &str, report: &mut Problems) {
    let path = Path::new(path);
    let named = path.components().any(|part| matches!(part, Component::Normal(_)));
    if path.is_absolute() && !named {
        let reason = "this mounts the root directory, and no profile gets the whole file system";
        report.invalid(at, reason, "mount the directories that are needed: `path: ./workspace`");
    }
}

fn check_guest_names(mounts: &[Node], report: &mut Problems) {
    let mut seen: Vec<String> = vec!["/".to_owned()];
    for mount in mounts.iter().skip(1) {
        let path = mount.text(&["path"]).unwrap_or_default();
        match guest_name(Path::new(path)) {
            None => report.invalid(
                &mount.at,
                format!("`{}` ends in no name for tools to see it by", shown(path)),
                format!("every mount but the first appears as `/<last name>`: write the same directory by its own name, as in `{}/../<its name>`", shown(path)),
            ),
            Some(name) if seen.contains(&name) => {
                let reason = format!("a second mount that tools would see as `{name}`");
                let help = "mount directories with different last names, or the one that holds both";
                report.invalid(&mount.at, reason, help);
            }
            Some(name) => seen.push(name),
        }
    }
}

fn check_shell(shell: &Node, report: &mut Problems) {
    let mode = shell.text(&["mode"]).unwrap_or("deny");
    let commands = shell.entry("blocked_commands");
    if let Some(list) = commands.filter(|list| mode == "full" && !list.node.items().is_empty()) {
        let help = "only `mode: restricted` knows what a command line runs: write it, or `blocked_patterns`, which are searched in the text";
        report.invalid(&list.at, "`blocked_commands` is not served under `mode: full`", help);
    }
    let bytes_left = &mut { SHELL_PATTERNS_BYTES_MAX };
    check_blocked(shell, &COMMANDS, bytes_left, report);
    check_blocked(shell, &PATTERNS, bytes_left, report);
}

/// A key, how each of its texts compiles, what such a text is, and what would be right.
type Blocked = (&'static str, fn(&str) -> Result<Regex, String>, &'static str, &'static str);

const COMMANDS: Blocked = (
    "blocked_commands",
    shell::wildcard,
    "no command",
    "write a program, or a command with its arguments, in which `*` and `?` stand for other text; regular expressions belong under `blocked_patterns`",
);
const PATTERNS: Blocked = (
    "blocked_patterns",
    shell::pattern,
    "no regular expression",
    "look at its brackets, put `\\` before a character that stands for itself, and keep it simple: `\\w` is large, `[a-z]` is not",
);

fn check_blocked(
    shell: &Node,
    (key, compile, what, help): &Blocked,
    bytes_left: &mut u64,
    report: &mut Problems,
) {
    if let Some(one_more) = shell.list(&[key]).get(SHELL_PATTERNS_MAX) {
        let reason = format!("more than {SHELL_PATTERNS_MAX} `{key}`");
        return report.invalid(&one_more.at, reason, "join them, or list fewer");
    }
    for (node, text) in shell.texts(&[key]) {
        let problem = match compile(text) {
            Ok(regex) => charge(regex.as_str(), bytes_left, report).err(),
            Err(error) => Some(format!("`{}` is {what}: {error}", shown(text))),
        };
        if let Some(reason) = problem {
            return report.invalid(&node.at, reason, *help);
        }
    }
}

/// Takes what `pattern` compiles to away from what the profile and all documents may have.
fn charge(pattern: &str, left: &mut u64, report: &mut Problems) -> Result<(), String> {
    let bytes = schema::compiled_bytes(pattern).unwrap_or(u64::MAX);
    for left in [left, &mut report.pattern_bytes_left] {
        *left = left.checked_sub(bytes).ok_or("what is blocked compiles to too many bytes")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::node;
    use crate::manifest::problem::Problems;

    #[test]
    fn what_is_no_host_is_told_with_what_would_be_right() {
        for (text, reason, help) in [
            ("*", "`*` is every host", "mode: allow-all"),
            ("example.com:443", "has a port", "`example.com`"),
            ("*.example.com:443", "has a port", "`*.example.com`"),
            ("[::1]:80", "has a port", "`[::1]`"),
            ("https://example.com:8443/a", "is a URL", "`example.com`"),
            ("*example.com", "another place", "`*.example.com`"),
            ("10.0.0.0/8", "is no host", "`api.example.com`"),
        ] {
            let told = read_host(text).unwrap_err();
            assert!(told.0.contains(reason) && told.1.contains(help), "{text}: {told:?}");
        }
    }

    fn reasons(patterns: &[String]) -> Vec<String> {
        let spec = serde_json::json!({"level": "process", "capabilities": {
            "shell": {"mode": "restricted", "blocked_patterns": patterns}}});
        let node = node::parse(Path::new("t.json"), spec.to_string().as_bytes()).unwrap();
        let mut problems = Problems::default();
        check(&node, &mut problems);
        let list = problems.finish(Some(())).err().unwrap_or_default();
        list.into_iter().map(|problem| problem.reason).collect()
    }

    #[test]
    fn blocked_patterns_are_bounded_in_number_and_compiled_size() {
        let usual = |count| vec![r"rm\s+-rf\s+/[a-z]*".to_owned(); count];
        assert_eq!(reasons(&usual(SHELL_PATTERNS_MAX)), Vec::<String>::new());
        assert_eq!(reasons(&usual(SHELL_PATTERNS_MAX + 1)), ["more than 100 `blocked_patterns`"]);
        let many = |count| reasons(&vec![r"a[ab]{700}c".to_owned(); count]);
        assert_eq!(many(16), Vec::<String>::new());
        assert_eq!(many(17), ["what is blocked compiles to too many bytes"]);
        let large = reasons(&[r"\w{1,200}x0".to_owned()]);
        assert!(large[0].contains("size limit"), "{large:?}");
    }
}
