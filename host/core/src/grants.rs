//! What one call may touch, as plain data: the meeting of a sandbox profile and a tool.
//!
//! Nothing is opened here. `sandbox/` in the host turns a [`Grants`] into live capabilities
//! when the call's clock starts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::egress::EgressRules;
use crate::limits;

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
    /// Whether native processes may run.
    pub shell: Shell,
    /// How much of everything.
    pub limits: CallLimits,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Reading only.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}

/// Whether native processes may run in the jail.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Shell {
    /// None.
    #[default]
    Deny,
    /// Any command line, inside the jail.
    Full,
    /// Command lines that a parser understands and a list allows. Not served yet: refused.
    Restricted,
}

/// The bounds of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallLimits {
    /// Wall time of the call.
    pub timeout: Duration,
    /// Linear memory of the guest, in bytes, over all its memories.
    pub memory_bytes: u64,
    /// Raw output of the tool, in bytes.
    pub output_bytes: u64,
    /// Files and directories held open at once.
    pub open_files: u32,
    /// Native processes alive at once.
    pub processes: u32,
}

impl Default for CallLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_millis(limits::TOOL_TIMEOUT_MS),
            memory_bytes: limits::GUEST_MEMORY_MB << 20,
            output_bytes: limits::TOOL_OUTPUT_BYTES_MAX as u64,
            open_files: limits::OPEN_FILES_MAX,
            processes: limits::PROCESSES_MAX,
        }
    }
}
