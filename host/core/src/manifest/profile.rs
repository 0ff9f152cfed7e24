//! A sandbox profile: what a call under it may touch, and the [`Grants`] it comes to.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::primitive::read_document;
use super::problem::{DocumentError, Problems};
use super::sandbox;
use crate::egress::EgressRules;
use crate::grants::{AgentGrants, CallLimits, Grants, Injection, Mount, SecretGrant, Shell};
use crate::limits;
use crate::package::VerifyingKey;
use crate::shell::ShellRules;

/// A checked sandbox document. What it leaves out, it does not grant.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Profile {
    /// Its name, which a tool's `sandbox_ref` may state.
    pub name: String,
    /// Which hosts may be reached; none where absent.
    pub network: Option<EgressRules>,
    /// Directories, the first of which is the guest's `/`.
    pub mounts: Vec<Mount>,
    /// Host paths inside the mounts that stay closed all the same.
    pub denied_paths: Vec<PathBuf>,
    /// Whether native processes may run.
    pub shell: Shell,
    /// Whether command lines may run inside the sandbox; never both.
    pub wasm_shell: Shell,
    /// Which command lines may; its list of programs is from the runtime file, never from a document.
    pub shell_rules: ShellRules,
    /// The environment of guests and processes; from the runtime file, never from a document.
    pub env: BTreeMap<String, String>,
    /// Whether the manifest's providers may be asked; from the runtime file, never from a document.
    pub provider: bool,
    /// What of the host's own its tools may use; from the runtime file, never from a document.
    pub agent: AgentGrants,
    /// Whether calls are recorded, to be run again; from the runtime file, never from a document.
    pub record: bool,
    /// How secrets reach its tools.
    pub injection: Injection,
    /// The secrets its tools may use; from the runtime file, never from a document.
    pub secrets: Vec<SecretGrant>,
    /// Whose signature its tools need; from the runtime file, never from a document.
    pub signed_by: Vec<VerifyingKey>,
    /// The bounds it states.
    pub limits: ProfileLimits,
    /// `file:line`, for messages.
    pub at: String,
}

/// The bounds a profile states; the host's own where it states none. Zero means zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProfileLimits {
    /// Linear memory of a call, and memory of its native processes, in MiB.
    pub memory_mb: Option<u64>,
    /// Native processes alive at once.
    pub processes: Option<u32>,
    /// Files and directories held open at once.
    pub open_files: Option<u32>,
    /// Wall time of a call.
    pub timeout: Option<Duration>,
    /// Raw output of a call, in bytes.
    pub output_bytes: Option<u64>,
    /// Bytes a call may write to directories; from the runtime file, never from a document.
    pub write_bytes: Option<u64>,
    /// Files and directories a call may create; from the runtime file, never from a document.
    pub create_entries: Option<u64>,
}

impl Profile {
    /// Returns what a call of a tool with this timeout may touch, under the lesser of the
    /// tool's and the profile's bounds, the host's defaults where neither states one, and the
    /// host's ceilings in any case.
    pub fn grants(&self, tool_timeout: Option<Duration>) -> Grants {
        Grants {
            profile: self.name.clone(),
            mounts: self.mounts.clone(),
            denied_paths: self.denied_paths.clone(),
            network: self.network.clone(),
            env: self.env.clone(),
            secrets: self.secrets.clone(),
            shell: self.shell.clone(),
            wasm_shell: self.wasm_shell.clone(),
            shell_rules: self.shell_rules.clone(),
            provider: self.provider,
            agent: self.agent.clone(),
            record: self.record,
            limits: self.call_limits(tool_timeout),
            native: false,
        }
    }

    /// Says which denied paths deny nothing.
    pub(crate) fn notes(&self) -> Vec<String> {
        let inside = |path: &PathBuf| self.mounts.iter().any(|mount| path.starts_with(&mount.host));
        let outside = self.denied_paths.iter().filter(|path| !inside(path));
        let note = |path: &PathBuf| {
            let path = path.display();
            format!("{}: the denied path `{path}` lies in no mount, so it denies nothing", self.at)
        };
        outside.map(note).collect()
    }

    fn call_limits(&self, tool_timeout: Option<Duration>) -> CallLimits {
        let default = CallLimits::default();
        let stated = tool_timeout.into_iter().chain(self.limits.timeout).min();
        let timeout_max = Duration::from_millis(limits::TOOL_TIMEOUT_CEILING_MS);
        let memory_max = limits::GUEST_MEMORY_CEILING_MB << 20;
        let memory = self.limits.memory_mb.map(|mb| mb.saturating_mul(1 << 20));
        CallLimits {
            timeout: stated.unwrap_or(default.timeout).min(timeout_max),
            memory_bytes: memory.unwrap_or(default.memory_bytes).min(memory_max),
            process_memory_bytes: memory.unwrap_or(u64::MAX).min(default.process_memory_bytes),
            output_bytes: self
                .limits
                .output_bytes
                .unwrap_or(default.output_bytes)
                .min(default.output_bytes),
            open_files: self.limits.open_files.unwrap_or(default.open_files),
            processes: self.limits.processes.unwrap_or(default.processes),
            write_bytes: self.limits.write_bytes.unwrap_or(default.write_bytes),
            create_entries: self.limits.create_entries.unwrap_or(default.create_entries),
        }
    }
}

/// The profile under which keys and values are kept.
const MEMORY: &str = "sandboxes/memory.yaml";
/// The profile whose tools may call others.
const TOOLS: &str = "sandboxes/tools.yaml";

/// The profiles that come with the host, and their documents.
const BUILTIN: [(&str, &str); 7] = [
    ("sandboxes/fs-readonly.yaml", include_str!("../../../../sandboxes/fs-readonly.yaml")),
    (MEMORY, include_str!("../../../../sandboxes/memory.yaml")),
    ("sandboxes/network.yaml", include_str!("../../../../sandboxes/network.yaml")),
    ("sandboxes/none.yaml", include_str!("../../../../sandboxes/none.yaml")),
    ("sandboxes/process.yaml", include_str!("../../../../sandboxes/process.yaml")),
    (TOOLS, include_str!("../../../../sandboxes/tools.yaml")),
    ("sandboxes/workspace.yaml", include_str!("../../../../sandboxes/workspace.yaml")),
];

/// Returns the profiles that come with the host, by name. Their `./workspace` lies in
/// `directory`, which has to be absolute, and is made when it is first needed.
///
/// # Errors
/// None but a fault in the documents themselves, which a test rules out.
pub fn builtin_profiles(directory: &Path) -> Result<BTreeMap<String, Profile>, Vec<DocumentError>> {
    let mut problems = Problems::default();
    let mut profiles = BTreeMap::new();
    for (file, text) in BUILTIN {
        if let Some(mut document) = read_document(Path::new(file), text.as_bytes(), &mut problems) {
            document.base = PathBuf::new();
            let mut profile = sandbox::read(&document, directory);
            profile.mounts.iter_mut().for_each(|mount| mount.create = true);
            // No document can grant these: they are what the profiles are for.
            profile.agent.memory = file == MEMORY;
            profile.agent.tool_calls = if file == TOOLS { limits::NESTED_CALLS_MAX } else { 0 };
            profiles.insert(profile.name.clone(), profile);
        }
    }
    problems.finish(Some(profiles))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::HostRules;
    use crate::grants::Access;

    fn profile(name: &str) -> Profile {
        builtin_profiles(Path::new("/here")).unwrap().remove(name).unwrap()
    }

    #[test]
    fn every_built_in_profile_is_a_valid_document() {
        let names: Vec<_> = builtin_profiles(Path::new("/here")).unwrap().into_keys().collect();
        assert_eq!(
            names,
            ["fs-readonly", "memory", "network", "none", "process", "tools", "workspace"]
        );
    }

    #[test]
    fn the_profile_none_grants_nothing() {
        let grants = profile("none").grants(None);
        let nothing = Grants { profile: "none".to_owned(), ..Grants::default() };
        assert_eq!(grants, nothing);
    }

    #[test]
    fn the_profile_memory_grants_keys_and_values_and_nothing_else() {
        let agent = AgentGrants { memory: true, ..AgentGrants::default() };
        let only = Grants { profile: "memory".to_owned(), agent, ..Grants::default() };
        assert_eq!(profile("memory").grants(None), only);
        for name in ["fs-readonly", "network", "none", "process", "workspace"] {
            assert_eq!(profile(name).agent, AgentGrants::default(), "{name}");
        }
    }

    #[test]
    fn the_profile_tools_grants_calls_of_other_tools_and_nothing_else() {
        let agent = AgentGrants { tool_calls: limits::NESTED_CALLS_MAX, ..AgentGrants::default() };
        let own = profile("tools").grants(None);
        let limits = own.limits;
        assert_eq!(own, Grants { profile: "tools".to_owned(), agent, limits, ..Grants::default() });
        assert!(limits.timeout > CallLimits::default().timeout);
    }

    #[test]
    fn built_in_profiles_grant_the_workspace_of_the_current_directory() {
        for (name, access) in [
            ("fs-readonly", Access::ReadOnly),
            ("workspace", Access::ReadWrite),
            ("process", Access::ReadWrite),
        ] {
            let grants = profile(name).grants(None);
            let mount = Mount {
                host: "/here/workspace".into(),
                guest: "/".to_owned(),
                access,
                create: true,
            };
            assert_eq!(grants.mounts, [mount], "{name}");
            assert_eq!(grants.network, None, "{name}");
        }
    }

    #[test]
    fn network_reaches_public_hosts_and_no_files() {
        let grants = profile("network").grants(None);
        let rules = grants.network.unwrap();
        assert_eq!(rules.hosts, HostRules::Any);
        assert!(rules.block_private);
        assert!(grants.mounts.is_empty());
        assert_eq!(grants.shell, Shell::Deny);
    }

    #[test]
    fn only_process_runs_native_programs() {
        for name in ["fs-readonly", "network", "none", "workspace"] {
            assert_eq!(profile(name).shell, Shell::Deny, "{name}");
        }
        assert_eq!(profile("process").shell, Shell::Full);
    }

    #[test]
    fn stated_memory_binds_native_programs_and_the_default_of_guests_does_not() {
        for (memory_mb, guest, processes) in
            [(None, 64, 512), (Some(0), 0, 0), (Some(128), 128, 128), (Some(600), 600, 512)]
        {
            let limits = ProfileLimits { memory_mb, ..ProfileLimits::default() };
            let limits = Profile { limits, ..profile("process") }.grants(None).limits;
            let mb = (limits.memory_bytes >> 20, limits.process_memory_bytes >> 20);
            assert_eq!(mb, (guest, processes), "{memory_mb:?}");
        }
    }

    #[test]
    fn the_lesser_timeout_holds_and_zero_is_zero() {
        let ms = Duration::from_millis;
        let with = |timeout| Profile {
            limits: ProfileLimits { timeout, ..ProfileLimits::default() },
            ..profile("none")
        };
        for (profile, tool, expected) in [
            (None, None, 30_000),
            (Some(60_000), None, 60_000),
            (None, Some(60_000), 60_000),
            (Some(500), Some(900), 500),
            (Some(900), Some(500), 500),
            (Some(0), Some(500), 0),
            (Some(900), Some(0), 0),
            (None, Some(u64::MAX), 3_600_000),
        ] {
            let grants = with(profile.map(ms)).grants(tool.map(ms));
            assert_eq!(grants.limits.timeout, ms(expected));
        }
    }
}
