//! `kind: Sandbox`: what a tool may touch, read into a [`Profile`].
//!
//! What a document leaves out is not granted. What it asks for and this host cannot give, or
//! what contradicts itself, is refused: a profile never does less than it says.

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use regex::RegexBuilder;

use super::node::{Node, Place};
use super::primitive::Primitive;
use super::problem::Problems;
use super::profile::{Level, Profile, ProfileLimits};
use super::shape::{COUNT, FLAG, STRING, STRINGS, Shape, TEXT, opt, req, shown, shown_sentence};
use crate::egress::{EgressRules, HostPattern, HostRules};
use crate::grants::{Access, Injection, Mount, Shell};
use crate::limits::{
    GUEST_MEMORY_CEILING_MB, RESOURCES_MAX, TOOL_OUTPUT_BYTES_MAX, TOOL_TIMEOUT_CEILING_MS,
};

const SSRF: Shape = Shape::Record(&[
    opt("enabled", &FLAG),
    opt("block_private_ips", &FLAG),
    opt("dns_pinning", &FLAG),
]);

const NETWORK: Shape = Shape::Record(&[
    opt("mode", &Shape::OneOf(&["deny", "allowlist", "allow-all"])),
    opt("allowed_hosts", &STRINGS),
    opt("ssrf_protection", &SSRF),
]);

const MOUNT: Shape =
    Shape::Record(&[req("path", &TEXT), req("permissions", &Shape::OneOf(&["ro", "rw"]))]);

const FILESYSTEM: Shape = Shape::Record(&[
    opt("mode", &Shape::OneOf(&["deny", "read-only", "scoped", "full"])),
    opt("mount_paths", &Shape::List { of: &MOUNT, min: 0 }),
    opt("denied_paths", &STRINGS),
]);

const SECRETS: Shape = Shape::Record(&[
    opt("injection", &Shape::OneOf(&["host-boundary", "environment", "file-mount"])),
    opt("encryption", &STRING),
    opt("leak_detection", &Shape::Record(&[opt("enabled", &FLAG), opt("patterns", &COUNT)])),
]);

const SHELL: Shape = Shape::Record(&[
    opt("mode", &Shape::OneOf(&["deny", "restricted", "full"])),
    opt("blocked_commands", &STRINGS),
    opt("blocked_patterns", &STRINGS),
]);

const CAPABILITIES: Shape = Shape::Record(&[
    opt("network", &NETWORK),
    opt("filesystem", &FILESYSTEM),
    opt("secrets", &SECRETS),
    opt("shell", &SHELL),
]);

const LIMITS: Shape = Shape::Record(&[
    opt("memory_mb", &COUNT),
    opt("cpu_shares", &COUNT),
    opt("max_processes", &COUNT),
    opt("max_open_files", &COUNT),
    opt("timeout_ms", &COUNT),
    opt("max_output_bytes", &COUNT),
]);

pub(crate) const SPEC: Shape = Shape::Record(&[
    req("level", &Shape::OneOf(&["none", "process", "wasm", "container", "vm"])),
    opt(
        "runtime",
        &Shape::OneOf(&[
            "docker",
            "apple-container",
            "wasmtime",
            "firecracker",
            "gvisor",
            "native",
        ]),
    ),
    opt("capabilities", &CAPABILITIES),
    opt("resource_limits", &LIMITS),
]);

/// Processes one profile may allow at once; more is no sandbox.
const PROCESSES_CEILING_MAX: u64 = 4_096;
/// Compiled size of one blocked pattern, so that no pattern is a bomb.
const PATTERN_BYTES_MAX: usize = 1 << 20;

/// Checks what the shape cannot say.
pub(crate) fn check(of: &Primitive, problems: &mut Problems) {
    let mut check = Check { of, problems };
    check.level();
    check.network();
    check.filesystem();
    check.secrets();
    check.shell();
    check.limits();
}

struct Check<'a> {
    of: &'a Primitive,
    problems: &'a mut Problems,
}

impl Check<'_> {
    fn refuse(&mut self, at: Place, reason: impl Into<String>, help: impl Into<String>) {
        self.problems.invalid(&self.of.source, at, reason, help);
    }

    fn place(&self, path: &[&str]) -> Place {
        self.of.spec.get(path).map_or(self.of.spec.at, |node| node.at)
    }

    fn level(&mut self) {
        let level = self.of.spec.text(&["level"]).unwrap_or_default();
        if matches!(level, "container" | "vm") {
            let help = "this host isolates with wasm, and native processes with a jail: write `level: wasm` or `level: process`";
            self.refuse(
                self.place(&["level"]),
                format!("`level: {level}` cannot be had here"),
                help,
            );
            return;
        }
        let right = if level == "wasm" { "wasmtime" } else { "native" };
        let runtime = self.of.spec.text(&["runtime"]);
        if let Some(runtime) = runtime.filter(|runtime| *runtime != right) {
            let reason = format!("`runtime: {runtime}` does not go with `level: {level}`");
            let help = format!("write `runtime: {right}`, or leave it out");
            self.refuse(self.place(&["runtime"]), reason, help);
        }
    }

    fn network(&mut self) {
        let path = ["capabilities", "network"];
        let Some(network) = self.of.spec.get(&path) else {
            return;
        };
        let mode = network.text(&["mode"]).unwrap_or("deny");
        let hosts = network.get(&["allowed_hosts"]);
        if let Some(hosts) = hosts.filter(|hosts| mode != "allowlist" && !hosts.items().is_empty())
        {
            let reason = format!("`allowed_hosts` does not go with `mode: {mode}`");
            self.refuse(hosts.at, reason, "write `mode: allowlist`, or leave the hosts out");
        }
        for (node, host) in network.texts(&["allowed_hosts"]) {
            if let Err(error) = HostPattern::parse(host) {
                let reason = format!("`{}` is no host: {}", shown(host), shown_sentence(&error));
                self.refuse(node.at, reason, "write `api.example.com` or `*.example.com`");
            }
        }
    }

    fn filesystem(&mut self) {
        let Some(files) = self.of.spec.get(&["capabilities", "filesystem"]) else {
            return;
        };
        let mode = files.text(&["mode"]).unwrap_or("deny");
        let mounts = files.get(&["mount_paths"]).map(Node::items).unwrap_or_default();
        let at = files.entry("mode").map_or(files.at, |mode| mode.at);
        match mode {
            "full" => {
                let help =
                    "no profile gets the whole file system: write `mode: scoped` and `mount_paths`";
                self.refuse(at, "`filesystem.mode: full` cannot be had here", help);
            }
            "deny" if !mounts.is_empty() => {
                let help = "write `mode: scoped` or `mode: read-only`, or leave `mount_paths` out";
                self.refuse(at, "`mount_paths` needs a mode that opens them", help);
            }
            "read-only" | "scoped" if mounts.is_empty() => {
                let help =
                    "add `mount_paths:` with `path` and `permissions`, or write `mode: deny`";
                self.refuse(at, format!("`mode: {mode}` opens nothing"), help);
            }
            _ => {}
        }
        for mount in mounts {
            self.mount(mode, mount);
        }
        self.guest_names(mounts);
        for (node, path) in files.texts(&["denied_paths"]) {
            self.host_path(node.at, path);
        }
    }

    fn mount(&mut self, mode: &str, mount: &Node) {
        let at = |key: &str| mount.get(&[key]).map_or(mount.at, |node| node.at);
        if mode == "read-only" && mount.text(&["permissions"]) == Some("rw") {
            let help = "write `permissions: ro`, or `mode: scoped`";
            self.refuse(at("permissions"), "a writable mount under `mode: read-only`", help);
        }
        let path = mount.text(&["path"]).unwrap_or_default();
        self.host_path(at("path"), path);
        self.not_the_root(at("path"), path);
    }

    /// A path that would silently mean something else than it says.
    fn host_path(&mut self, at: Place, path: &str) {
        if path.is_empty() || path.starts_with('~') || path.contains(['*', '?', '\0']) {
            let reason = format!("`{}` is no path", shown(path));
            let help = "write a directory or file, absolute or relative to this document; `~`, `*` and `?` have no meaning here";
            self.refuse(at, reason, help);
        }
    }

    /// The root directory by another name is still the whole file system.
    fn not_the_root(&mut self, at: Place, path: &str) {
        let path = Path::new(path);
        let named = path.components().any(|part| matches!(part, Component::Normal(_)));
        if path.is_absolute() && !named {
            let help =
                "no profile gets the whole file system: mount the directories that are needed";
            self.refuse(at, "a mount of the root directory", help);
        }
    }

    fn guest_names(&mut self, mounts: &[Node]) {
        let mut seen: Vec<String> = vec!["/".to_owned()];
        for mount in mounts.iter().skip(1) {
            let path = mount.text(&["path"]).unwrap_or_default();
            match guest_name(Path::new(path)) {
                None => self.refuse(
                    mount.at,
                    format!("`{}` has no last name", shown(path)),
                    "a second mount appears under its last name: write one",
                ),
                Some(name) if seen.contains(&name) => {
                    let reason = format!("two mounts would both be `{name}` to the tool");
                    self.refuse(mount.at, reason, "mount directories with different last names");
                }
                Some(name) => seen.push(name),
            }
        }
    }

    fn secrets(&mut self) {
        let path = ["capabilities", "secrets", "injection"];
        if self.of.spec.text(&path) == Some("file-mount") {
            let help = "write `injection: host-boundary`, which keeps the value from the tool, or `injection: environment`";
            self.refuse(
                self.place(&path),
                "`secrets.injection: file-mount` is not served by this version",
                help,
            );
        }
    }

    fn shell(&mut self) {
        let Some(shell) = self.of.spec.get(&["capabilities", "shell"]) else {
            return;
        };
        let mode = shell.text(&["mode"]).unwrap_or("deny");
        let at = shell.entry("mode").map_or(shell.at, |mode| mode.at);
        let level = self.of.spec.text(&["level"]).unwrap_or_default();
        if mode != "deny" && level == "wasm" {
            let help = "native processes need `level: process`";
            self.refuse(at, format!("`shell.mode: {mode}` does not go with `level: wasm`"), help);
        }
        for key in ["blocked_commands", "blocked_patterns"] {
            let list =
                shell.entry(key).filter(|list| mode == "full" && !list.node.items().is_empty());
            if let Some(list) = list {
                let help = "this version cannot tell what a command line runs: leave the list out, or write `mode: restricted`, under which nothing runs yet";
                self.refuse(list.at, format!("`{key}` is not served under `mode: full`"), help);
            }
        }
        for (node, pattern) in shell.texts(&["blocked_patterns"]) {
            if let Err(error) = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build() {
                let error = error.to_string().lines().last().unwrap_or_default().to_owned();
                let reason = format!("`{}` is no regular expression: {error}", shown(pattern));
                self.refuse(
                    node.at,
                    reason,
                    "write a regular expression for the whole command line",
                );
            }
        }
    }

    fn limits(&mut self) {
        for (key, ceiling) in [
            ("memory_mb", GUEST_MEMORY_CEILING_MB),
            ("max_processes", PROCESSES_CEILING_MAX),
            ("max_open_files", RESOURCES_MAX as u64),
            ("timeout_ms", TOOL_TIMEOUT_CEILING_MS),
            ("max_output_bytes", TOOL_OUTPUT_BYTES_MAX as u64),
        ] {
            let path = ["resource_limits", key];
            if let Some(number) = self.of.spec.number(&path).filter(|number| *number > ceiling) {
                let reason = format!("`resource_limits.{key}` is {number}");
                self.refuse(
                    self.place(&path),
                    reason,
                    format!("the most this host gives is {ceiling}"),
                );
            }
        }
    }
}

/// Returns the profile a checked document holds; `directory` is absolute and the place that
/// the document's own directory is relative to.
pub(crate) fn read(of: &Primitive, directory: &Path) -> Profile {
    let base = directory.join(&of.base);
    Profile {
        name: of.name.clone(),
        level: level(&of.spec),
        network: network(&of.spec),
        mounts: mounts(&of.spec, &base),
        denied_paths: denied_paths(&of.spec, &base),
        shell: shell(&of.spec),
        env: std::collections::BTreeMap::new(),
        provider: false,
        injection: injection(&of.spec),
        secrets: Vec::new(),
        limits: limits(&of.spec),
        at: of.source.location(of.at),
    }
}

fn level(spec: &Node) -> Level {
    match spec.text(&["level"]) {
        Some("none") => Level::None,
        Some("process") => Level::Process,
        _ => Level::Wasm,
    }
}

fn network(spec: &Node) -> Option<EgressRules> {
    let network = spec.get(&["capabilities", "network"])?;
    let hosts = match network.text(&["mode"]) {
        Some("allow-all") => HostRules::Any,
        Some("allowlist") => {
            let hosts = network.texts(&["allowed_hosts"]);
            HostRules::Only(hosts.filter_map(|(_, host)| HostPattern::parse(host).ok()).collect())
        }
        _ => return None,
    };
    let on = |key: &str| network.flag(&["ssrf_protection", key]) != Some(false);
    let block_private = on("enabled") && on("block_private_ips");
    Some(EgressRules { hosts, blocked: Vec::new(), block_private, ports: Vec::new() })
}

fn mounts(spec: &Node, base: &Path) -> Vec<Mount> {
    let items = spec.get(&["capabilities", "filesystem", "mount_paths"]).map(Node::items);
    let mounts = items.unwrap_or_default().iter().enumerate();
    mounts.filter_map(|(index, item)| mount(index, item, base)).collect()
}

fn mount(index: usize, item: &Node, base: &Path) -> Option<Mount> {
    let path = Path::new(item.text(&["path"])?);
    let access = match item.text(&["permissions"]) {
        Some("rw") => Access::ReadWrite,
        _ => Access::ReadOnly,
    };
    let guest = if index == 0 { "/".to_owned() } else { guest_name(path)? };
    Some(Mount { host: tidy(&base.join(path)), guest, access, create: false })
}

fn denied_paths(spec: &Node, base: &Path) -> Vec<PathBuf> {
    let files = spec.get(&["capabilities", "filesystem"]);
    files
        .into_iter()
        .flat_map(|files| files.texts(&["denied_paths"]))
        .map(|(_, path)| tidy(&base.join(path)))
        .collect()
}

fn shell(spec: &Node) -> Shell {
    match spec.text(&["capabilities", "shell", "mode"]) {
        Some("full") => Shell::Full,
        Some("restricted") => Shell::Restricted,
        _ => Shell::Deny,
    }
}

fn injection(spec: &Node) -> Injection {
    match spec.text(&["capabilities", "secrets", "injection"]) {
        Some("environment") => Injection::Environment,
        Some("file-mount") => Injection::FileMount,
        _ => Injection::HostBoundary,
    }
}

fn limits(spec: &Node) -> ProfileLimits {
    let number = |key: &str| spec.number(&["resource_limits", key]);
    let small = |key: &str| number(key).map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    ProfileLimits {
        memory_mb: number("memory_mb"),
        processes: small("max_processes"),
        open_files: small("max_open_files"),
        timeout: number("timeout_ms").map(Duration::from_millis),
        output_bytes: number("max_output_bytes"),
    }
}

fn guest_name(path: &Path) -> Option<String> {
    match path.components().next_back()? {
        Component::Normal(name) => Some(format!("/{}", name.to_str()?)),
        _ => None,
    }
}

/// Drops `.` components. `..` stays: resolving it without looking at links would be wrong.
pub(crate) fn tidy(path: &Path) -> PathBuf {
    path.components().filter(|part| !matches!(part, Component::CurDir)).collect()
}
