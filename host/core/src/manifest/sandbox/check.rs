//! What a Sandbox document may not say: what contradicts itself, and what this host cannot give.

use std::path::{Component, Path};

use regex::RegexBuilder;

use super::guest_name;
use crate::egress::HostPattern;
use crate::limits::{
    GUEST_MEMORY_CEILING_MB, RESOURCES_MAX, TOOL_OUTPUT_BYTES_MAX, TOOL_TIMEOUT_CEILING_MS,
};
use crate::manifest::node::{Node, Place};
use crate::manifest::problem::Report;
use crate::manifest::shape::{shown, shown_sentence};

/// Processes one profile may allow at once; more is no sandbox.
const PROCESSES_CEILING_MAX: u64 = 4_096;
/// Blocked patterns of one profile, and the compiled size of one: checking them compiles them.
const PATTERNS_MAX: usize = 100;
const PATTERN_BYTES_MAX: usize = 65_536;

/// Checks what the shape cannot say.
pub(crate) fn check(spec: &Node, report: &mut Report<'_>) {
    check_runtime(spec, report);
    if let Some(network) = spec.get(&["capabilities", "network"]) {
        check_network(network, report);
    }
    if let Some(files) = spec.get(&["capabilities", "filesystem"]) {
        check_filesystem(files, report);
    }
    if let Some(shell) = spec.get(&["capabilities", "shell"]) {
        check_shell(spec, shell, report);
    }
    check_limits(spec, report);
}

fn check_runtime(spec: &Node, report: &mut Report<'_>) {
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

fn check_network(network: &Node, report: &mut Report<'_>) {
    let mode = network.text(&["mode"]).unwrap_or("deny");
    let hosts = network.get(&["allowed_hosts"]);
    if let Some(hosts) = hosts.filter(|hosts| mode != "allowlist" && !hosts.items().is_empty()) {
        let reason = format!("`allowed_hosts` does not go with `mode: {mode}`");
        report.invalid(hosts.at, reason, "write `mode: allowlist`, or leave the hosts out");
    }
    for (node, host) in network.texts(&["allowed_hosts"]) {
        if let Err(error) = HostPattern::parse(host) {
            let reason = format!("`{}` is no host: {}", shown(host), shown_sentence(&error));
            report.invalid(node.at, reason, "write `api.example.com` or `*.example.com`");
        }
    }
}

fn check_filesystem(files: &Node, report: &mut Report<'_>) {
    let mode = files.text(&["mode"]).unwrap_or("deny");
    let mounts = files.list(&["mount_paths"]);
    let at = files.entry("mode").map_or(files.at, |mode| mode.at);
    match mode {
        "deny" if !mounts.is_empty() => {
            let help = "write `mode: scoped` or `mode: read-only`, or leave `mount_paths` out";
            report.invalid(at, "`mount_paths` needs a mode that opens them", help);
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
        check_host_path(node.at, path, report);
    }
}

fn check_mount(mode: &str, mount: &Node, report: &mut Report<'_>) {
    if mode == "read-only" && mount.text(&["permissions"]) == Some("rw") {
        let help = "write `permissions: ro`, or `mode: scoped`";
        report.invalid(
            mount.place(&["permissions"]),
            "a writable mount under `mode: read-only`",
            help,
        );
    }
    let path = mount.text(&["path"]).unwrap_or_default();
    let at = mount.place(&["path"]);
    check_host_path(at, path, report);
    check_no_root(at, path, report);
}

/// A path that would silently mean something else than it says.
fn check_host_path(at: Place, path: &str, report: &mut Report<'_>) {
    if path.is_empty() || path.starts_with('~') || path.contains(['*', '?', '\0']) {
        let reason = format!("`{}` is no path", shown(path));
        let help = "write a directory or file, absolute or relative to this document; `~`, `*` and `?` have no meaning here";
        report.invalid(at, reason, help);
    }
}

/// The root directory by another name is still the whole file system.
fn check_no_root(at: Place, path: &str, report: &mut Report<'_>) {
    let path = Path::new(path);
    let named = path.components().any(|part| matches!(part, Component::Normal(_)));
    if path.is_absolute() && !named {
        let help = "no profile gets the whole file system: mount the directories that are needed";
        report.invalid(at, "a mount of the root directory", help);
    }
}

fn check_guest_names(mounts: &[Node], report: &mut Report<'_>) {
    let mut seen: Vec<String> = vec!["/".to_owned()];
    for mount in mounts.iter().skip(1) {
        let path = mount.text(&["path"]).unwrap_or_default();
        match guest_name(Path::new(path)) {
            None => report.invalid(
                mount.at,
                format!("`{}` has no last name", shown(path)),
                "a second mount appears under its last name: write one",
            ),
            Some(name) if seen.contains(&name) => {
                let reason = format!("two mounts would both be `{name}` to the tool");
                report.invalid(mount.at, reason, "mount directories with different last names");
            }
            Some(name) => seen.push(name),
        }
    }
}

fn check_shell(spec: &Node, shell: &Node, report: &mut Report<'_>) {
    let mode = shell.text(&["mode"]).unwrap_or("deny");
    let at = shell.entry("mode").map_or(shell.at, |mode| mode.at);
    let level = spec.text(&["level"]).unwrap_or_default();
    if mode != "deny" && level == "wasm" {
        let help = "native processes need `level: process`";
        report.invalid(at, format!("`shell.mode: {mode}` does not go with `level: wasm`"), help);
    }
    for key in ["blocked_commands", "blocked_patterns"] {
        let list = shell.entry(key).filter(|list| mode == "full" && !list.node.items().is_empty());
        if let Some(list) = list {
            let help = "this version cannot tell what a command line runs: leave the list out, or write `mode: restricted`, under which nothing runs yet";
            report.invalid(list.at, format!("`{key}` is not served under `mode: full`"), help);
        }
    }
    let patterns = shell.list(&["blocked_patterns"]);
    if let Some(one_more) = patterns.get(PATTERNS_MAX) {
        let reason = format!("more than {PATTERNS_MAX} `blocked_patterns`");
        return report.invalid(one_more.at, reason, "join them with `|`, or list fewer");
    }
    for (node, pattern) in shell.texts(&["blocked_patterns"]) {
        if let Err(error) = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build() {
            let error = error.to_string().lines().last().unwrap_or_default().to_owned();
            let reason = format!("`{}` is no regular expression: {error}", shown(pattern));
            report.invalid(
                node.at,
                reason,
                "write a regular expression for the whole command line",
            );
        }
    }
}

fn check_limits(spec: &Node, report: &mut Report<'_>) {
    for (key, ceiling) in [
        ("memory_mb", GUEST_MEMORY_CEILING_MB),
        ("max_processes", PROCESSES_CEILING_MAX),
        ("max_open_files", RESOURCES_MAX as u64),
        ("timeout_ms", TOOL_TIMEOUT_CEILING_MS),
        ("max_output_bytes", TOOL_OUTPUT_BYTES_MAX as u64),
    ] {
        let path = ["resource_limits", key];
        if let Some(number) = spec.number(&path).filter(|number| *number > ceiling) {
            let reason = format!("`resource_limits.{key}` is {number}");
            report.invalid(
                spec.place(&path),
                reason,
                format!("the most this host gives is {ceiling}"),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::node;
    use crate::manifest::problem::Problems;

    fn reasons(patterns: &[String]) -> Vec<String> {
        let spec = serde_json::json!({"level": "process", "capabilities": {
            "shell": {"mode": "restricted", "blocked_patterns": patterns}}});
        let (source, node) = node::parse(Path::new("t.json"), spec.to_string().as_bytes()).unwrap();
        let mut problems = Problems::default();
        check(&node, &mut problems.of(&source));
        let list = problems.finish(Some(())).err().unwrap_or_default();
        list.into_iter().map(|problem| problem.reason).collect()
    }

    #[test]
    fn blocked_patterns_are_bounded_in_number_and_compiled_size() {
        let usual = |count| vec![r"(?i)rm\s+-rf\s+/\w*".to_owned(); count];
        assert_eq!(reasons(&usual(PATTERNS_MAX)), Vec::<String>::new());
        assert_eq!(reasons(&usual(PATTERNS_MAX + 1)), ["more than 100 `blocked_patterns`"]);
        let large = reasons(&[r"\w{1,200}x0".to_owned()]);
        assert!(large[0].contains("size limit"), "{large:?}");
    }
}
