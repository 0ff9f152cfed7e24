//! `kind: Sandbox`: what a tool may touch, read into a [`Profile`].
//!
//! What a document leaves out is not granted. What it asks for and this host cannot give, or
//! what contradicts itself, is refused: a profile never does less than it says.

mod check;

use std::path::{Component, Path, PathBuf};
use std::time::Duration;

pub(crate) use self::check::{check, read_host};
use super::node::Node;
use super::primitive::Document;
use super::profile::{Profile, ProfileLimits};
use crate::egress::{EgressRules, HostPattern, HostRules};
use crate::grants::{Access, Mount, Shell};
use crate::shell::ShellRules;

/// Returns the profile a checked document holds; `directory` is absolute and the place that
/// the document's own directory is relative to.
pub(crate) fn read(of: &Document, directory: &Path) -> Profile {
    let base = directory.join(&of.base);
    let mode = of.spec.read(&["capabilities", "shell", "mode"]).unwrap_or_default();
    let (shell, wasm_shell) = match of.spec.text(&["level"]) {
        Some("none" | "process") => (mode, Shell::Deny),
        _ => (Shell::Deny, mode),
    };
    Profile {
        name: of.name.clone(),
        network: network(&of.spec),
        mounts: mounts(&of.spec, &base),
        denied_paths: denied_paths(&of.spec, &base),
        shell,
        wasm_shell,
        shell_rules: shell_rules(&of.spec),
        injection: of.spec.read(&["capabilities", "secrets", "injection"]).unwrap_or_default(),
        limits: limits(&of.spec),
        at: of.at.to_string(),
        // The rest is the runtime file's.
        ..Profile::default()
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
    Some(EgressRules { block_private, ..EgressRules::of(hosts) })
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

fn shell_rules(spec: &Node) -> ShellRules {
    let list = |key: &str| {
        let texts = spec.texts(&["capabilities", "shell", key]);
        texts.map(|(_, text)| text.to_owned()).collect()
    };
    ShellRules {
        blocked_commands: list("blocked_commands"),
        blocked_patterns: list("blocked_patterns"),
        programs: Vec::new(),
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
        ..ProfileLimits::default()
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
