//! `kind: Sandbox`: what a tool may touch, read into a [`Profile`].
//!
//! What a document leaves out is not granted. What it asks for and this host cannot give, or
//! what contradicts itself, is refused: a profile never does less than it says.

mod check;

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

pub(crate) use self::check::check;
use super::node::Node;
use super::primitive::Primitive;
use super::profile::{Level, Profile, ProfileLimits};
use super::shape::{COUNT, FLAG, STRING, STRINGS, Shape, TEXT, opt, req};
use crate::egress::{EgressRules, HostPattern, HostRules};
use crate::grants::{Access, Mount};

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

const FILES: Shape = Shape::Served {
    now: &["deny", "read-only", "scoped"],
    later: &["full"],
    help: "no profile gets the whole file system: write `mode: scoped` and `mount_paths`",
};

const FILESYSTEM: Shape = Shape::Record(&[
    opt("mode", &FILES),
    opt("mount_paths", &Shape::List { of: &MOUNT, min: 0 }),
    opt("denied_paths", &STRINGS),
]);

const INJECTION: Shape = Shape::Served {
    now: &["host-boundary", "environment"],
    later: &["file-mount"],
    help: "write `injection: host-boundary`, which keeps the value from the tool, or `injection: environment`",
};

const SECRETS: Shape = Shape::Record(&[
    opt("injection", &INJECTION),
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

const LEVEL: Shape = Shape::Served {
    now: &["none", "process", "wasm"],
    later: &["container", "vm"],
    help: "this host isolates with wasm, and native processes with a jail: write `level: wasm` or `level: process`",
};

pub(crate) const SPEC: Shape = Shape::Record(&[
    req("level", &LEVEL),
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

/// Returns the profile a checked document holds; `directory` is absolute and the place that
/// the document's own directory is relative to.
pub(crate) fn read(of: &Primitive, directory: &Path) -> Profile {
    let base = directory.join(&of.base);
    Profile {
        name: of.name.clone(),
        level: of.spec.read(&["level"]).unwrap_or(Level::Wasm),
        network: network(&of.spec),
        mounts: mounts(&of.spec, &base),
        denied_paths: denied_paths(&of.spec, &base),
        shell: of.spec.read(&["capabilities", "shell", "mode"]).unwrap_or_default(),
        env: std::collections::BTreeMap::new(),
        provider: false,
        injection: of.spec.read(&["capabilities", "secrets", "injection"]).unwrap_or_default(),
        secrets: Vec::new(),
        limits: limits(&of.spec),
        at: of.source.location(of.at),
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
    let mounts = spec.list(&["capabilities", "filesystem", "mount_paths"]).iter().enumerate();
    mounts.filter_map(|(index, item)| mount(index, item, base)).collect()
}

fn mount(index: usize, item: &Node, base: &Path) -> Option<Mount> {
    let path = Path::new(item.text(&["path"])?);
    let access = item.read(&["permissions"]).unwrap_or(Access::ReadOnly);
    let guest = if index == 0 { "/".to_owned() } else { guest_name(path)? };
    Some(Mount { host: tidy(&base.join(path)), guest, access, create: false })
}

fn denied_paths(spec: &Node, base: &Path) -> Vec<PathBuf> {
    let paths = spec.texts(&["capabilities", "filesystem", "denied_paths"]);
    paths.map(|(_, path)| tidy(&base.join(path))).collect()
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
