//! What one call may touch, as plain data: the meeting of a sandbox profile and a tool.
//!
//! Nothing is opened here. `sandbox/` in the host turns a [`Grants`] into live capabilities
//! when the call's clock starts.

mod agent;
mod secret;
mod words;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

pub use self::agent::AgentGrants;
pub use self::secret::{Injection, LOGIN_PREFIX, SecretGrant, is_secret_name, is_variable_name};
use serde::Deserialize;

use crate::egress::EgressRules;
use crate::limits;
use crate::shell::ShellRules;

/// Everything a call may touch. The default grants nothing, under the default limits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grants {
    /// The sandbox profile these came from, for messages and records.
    pub profile: String,
    /// Directories, the first of which is the guest's `/`.
    pub mounts: Vec<Mount>,
    /// Host paths inside the mounts that stay closed all the same.
    pub denied_paths: Vec<PathBuf>,
    /// Which hosts may be reached; none where absent.
    pub network: Option<EgressRules>,
    /// The guest's (and a jailed process's) environment.
    pub env: BTreeMap<String, String>,
    /// The secrets it may use.
    pub secrets: Vec<SecretGrant>,
    /// Whether native processes may run.
    pub shell: Shell,
    /// Whether command lines may run in the shell that is a component and starts no process.
    pub wasm_shell: Shell,
    /// Which command lines may, in either shell.
    pub shell_rules: ShellRules,
    /// Whether the manifest's language model providers may be asked.
    pub provider: bool,
    /// What of the host's own it may use for its agent.
    pub agent: AgentGrants,
    /// Whether its calls are recorded, to be run again.
    pub record: bool,
    /// How much of everything.
    pub limits: CallLimits,
    /// Nothing of this holds but time and output: the tool is the embedding program's own code.
    pub native: bool,
}

/// What is said of a tool that no profile contains.
pub const NATIVE: &str = "native: runs in the host's process, not contained";
/// What stands for the profile of such a tool: no document can be called so.
const NATIVE_PROFILE: &str = "native (not contained)";

impl Grants {
    /// Returns what a tool of the embedding program runs under: only time and output are bounded.
    pub fn native(limits: CallLimits) -> Self {
        Self { profile: NATIVE_PROFILE.to_owned(), limits, native: true, ..Self::default() }
    }

    /// Returns what these and `other` both grant, but for the mounts: how a caller narrows a call
    /// to a second profile (CKP 0.3.0, section 10.3). What is not plainly within both is not
    /// granted. Folders have many names, so what is left of the mounts is settled where they are
    /// open.
    #[must_use]
    pub fn within(self, other: &Self) -> Self {
        let (own, also) = (self.any_shell(), other.any_shell());
        let shell_rules = self.shell_rules.clone().within(own, also, &other.shell_rules);
        let mut denied_paths = self.denied_paths;
        denied_paths.extend_from_slice(&other.denied_paths);
        Self {
            profile: format!("{} within {}", self.profile, other.profile),
            mounts: self.mounts,
            denied_paths,
            network: self.network.zip(other.network.as_ref()).map(|(own, also)| own.within(also)),
            env: self.env.into_iter().filter(|(key, it)| other.env.get(key) == Some(it)).collect(),
            secrets: self.secrets.into_iter().filter_map(|s| s.within(&other.secrets)).collect(),
            shell_rules,
            shell: self.shell.within(&other.shell),
            wasm_shell: self.wasm_shell.within(&other.wasm_shell),
            provider: self.provider && other.provider,
            agent: self.agent.within(&other.agent),
            record: self.record,
            limits: self.limits.within(&other.limits),
            native: self.native,
        }
    }

    /// Returns the mode of the one shell that a profile has, for programs or inside the sandbox: the
    /// rules beside it hold in either.
    pub fn any_shell(&self) -> &Shell {
        if self.shell == Shell::Deny { &self.wasm_shell } else { &self.shell }
    }
}

impl Shell {
    fn within(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Full, other) => other.clone(),
            (own, Self::Full) => own,
            (Self::Restricted, Self::Restricted) => Self::Restricted,
            _ => Self::Deny,
        }
    }
}

impl CallLimits {
    fn within(self, other: &Self) -> Self {
        Self {
            timeout: self.timeout.min(other.timeout),
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
            process_memory_bytes: self.process_memory_bytes.min(other.process_memory_bytes),
            output_bytes: self.output_bytes.min(other.output_bytes),
            open_files: self.open_files.min(other.open_files),
            processes: self.processes.min(other.processes),
            write_bytes: self.write_bytes.min(other.write_bytes),
            create_entries: self.create_entries.min(other.create_entries),
        }
    }
}

/// One granted directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mount {
    /// Absolute path on the host.
    pub host: PathBuf,
    /// `/` for the first mount of a profile, `/<last component>` for the others.
    pub guest: String,
    /// What may be done in it.
    pub access: Access,
    /// Make the directory when it is first needed (only the embedded default says so).
    pub create: bool,
}

/// What may be done in a granted directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Access {
    /// Reading only.
    #[serde(rename = "ro")]
    ReadOnly,
    /// Reading and writing.
    #[serde(rename = "rw")]
    ReadWrite,
}

/// Which command lines may run, in a jail or in a component.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Shell {
    /// None.
    #[default]
    Deny,
    /// Any command line.
    Full,
    /// Command lines that a parser understands, of programs on a list.
    Restricted,
}

/// The bounds of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Wall time of the call.
    pub timeout: Duration,
    /// Linear memory of the guest, in bytes, over all its memories.
    pub memory_bytes: u64,
    /// Memory of the native processes, in bytes.
    pub process_memory_bytes: u64,
    /// Raw output of the tool, in bytes.
    pub output_bytes: u64,
    /// Files and directories held open at once.
    pub open_files: u32,
    /// Native processes alive at once.
    pub processes: u32,
    /// Bytes written to granted directories, or by which files there grow.
    pub write_bytes: u64,
    /// Files and directories created.
    pub create_entries: u64,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_millis(limits::TOOL_TIMEOUT_MS),
            memory_bytes: limits::GUEST_MEMORY_MB << 20,
            process_memory_bytes: limits::PROCESS_MEMORY_MB << 20,
            output_bytes: limits::TOOL_OUTPUT_BYTES_MAX as u64,
            open_files: limits::OPEN_FILES_MAX,
            processes: limits::PROCESSES_MAX,
            write_bytes: limits::WRITE_BYTES_MAX,
            create_entries: limits::CREATE_ENTRIES_MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants() -> Grants {
        Grants { profile: "p".to_owned(), ..Grants::default() }
    }

    #[test]
    fn the_lesser_of_everything_else_is_left() {
        let mut own = grants();
        own.shell = Shell::Full;
        own.env = BTreeMap::from([("A".to_owned(), "1".to_owned())]);
        own.limits.timeout = Duration::from_secs(9);
        let mut other = grants();
        other.env = BTreeMap::from([("A".to_owned(), "2".to_owned())]);
        other.limits.timeout = Duration::from_secs(5);
        other.denied_paths = vec!["/w/x".into()];
        let both = own.within(&other);
        assert_eq!(both.shell, Shell::Deny);
        assert!(both.env.is_empty());
        assert_eq!(both.limits.timeout, Duration::from_secs(5));
        assert_eq!(both.denied_paths, [PathBuf::from("/w/x")]);
        assert_eq!(both.profile, "p within p");
    }

    #[test]
    fn a_shell_inside_the_sandbox_is_not_one_of_programs() {
        let shells = |shell, wasm_shell| Grants { shell, wasm_shell, ..grants() };
        let (native, wasm) = (shells(Shell::Full, Shell::Deny), shells(Shell::Deny, Shell::Full));
        let both = wasm.clone().within(&native);
        assert_eq!((both.shell, both.wasm_shell), (Shell::Deny, Shell::Deny));
        let mut restricted = shells(Shell::Deny, Shell::Restricted);
        restricted.shell_rules.programs = vec!["awk".to_owned()];
        let both = restricted.within(&wasm);
        assert_eq!((both.wasm_shell, both.shell_rules.programs.len()), (Shell::Restricted, 1));
    }
}
