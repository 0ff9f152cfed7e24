//! `claw:host/process`: native programs, in the jail, where the profile grants a shell.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clawhost_core::grants::{Access, Grants, Mount};
use clawhost_core::limits::{
    PROCESS_FILE_BYTES_MAX, PROCESS_MEMORY_MB, PROCESS_OUTPUT_BYTES_MAX, SCRIPT_BYTES_MAX,
};

use super::bindings::claw::host::process::{self, Outcome, ProcessError};
use super::state::CallState;
use crate::jail::{self, JailError, JailLimits, JailMount, JailSpec};

/// What one call may start, and what it was refused.
#[derive(Debug)]
pub(super) struct ProcessCtx {
    jail: Option<Arc<ProfileJail>>,
    ends_at: Instant,
    violations: Vec<String>,
}

/// Refusals kept for the record of one call.
const VIOLATIONS_MAX: usize = 16;

impl ProcessCtx {
    pub(super) fn new(jail: Option<Arc<ProfileJail>>, ends_at: Instant) -> Self {
        Self { jail, ends_at, violations: Vec::new() }
    }

    pub(super) fn set_deadline(&mut self, ends_at: Instant) {
        self.ends_at = ends_at;
    }

    pub(super) fn violations(&self) -> &[String] {
        &self.violations
    }

    fn refuse(&mut self, reason: &str) -> ProcessError {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(format!("process: {reason}"));
        }
        ProcessError::Denied(reason.to_owned())
    }
}

/// The jail of one profile, opened when the tool is loaded; where its directory is made when
/// it is first needed, by the first call.
#[derive(Debug)]
pub(super) struct ProfileJail {
    grants: Grants,
    spec: OnceLock<JailSpec>,
}

impl ProfileJail {
    /// Returns the jail that `grants` describe.
    ///
    /// # Errors
    /// The system has no jail, or a directory cannot be opened.
    pub(super) fn open(grants: &Grants) -> Result<Self, String> {
        let support = jail::support();
        if !support.available() {
            return Err(format!("native programs need a jail, which is {support}"));
        }
        if !grants.denied_paths.is_empty() {
            // Landlock grants whole trees; it cannot take a part of one away.
            return Err("`shell` and `denied_paths` do not go together: a jail cannot close a part of a mount".to_owned());
        }
        let jail = Self { grants: grants.clone(), spec: OnceLock::new() };
        if !grants.mounts.iter().any(|mount| mount.create) {
            jail.spec().map_err(|error| error.to_string())?;
        }
        Ok(jail)
    }

    fn spec(&self) -> Result<&JailSpec, JailError> {
        if let Some(spec) = self.spec.get() {
            return Ok(spec);
        }
        for mount in self.grants.mounts.iter().filter(|mount| mount.create) {
            std::fs::create_dir_all(&mount.host)
                .map_err(|error| JailError::Failed(error.to_string()))?;
        }
        let spec = spec_of(&self.grants)?;
        Ok(self.spec.get_or_init(|| spec))
    }
}

fn spec_of(grants: &Grants) -> Result<JailSpec, JailError> {
    let writable = |mount: &Mount| mount.access == Access::ReadWrite;
    let mounts = grants
        .mounts
        .iter()
        .map(|mount| JailMount { path: mount.host.clone(), writable: writable(mount) })
        .collect();
    let limits = JailLimits {
        memory_bytes: PROCESS_MEMORY_MB << 20,
        processes_max: grants.limits.processes,
        open_files_max: grants.limits.open_files,
        file_bytes_max: PROCESS_FILE_BYTES_MAX,
        output_bytes_max: PROCESS_OUTPUT_BYTES_MAX.min(grants.limits.output_bytes),
    };
    let env = grants.env.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    JailSpec::new(mounts, env, limits)
}

impl process::Host for CallState {
    async fn run(&mut self, command: process::Command) -> Result<Outcome, ProcessError> {
        let Some(jail) = self.process.jail.clone() else {
            return Err(self.process.refuse("the profile grants no shell"));
        };
        if command.script.len() > SCRIPT_BYTES_MAX || command.script.contains('\0') {
            return Err(ProcessError::Failed(format!(
                "a command line is at most {SCRIPT_BYTES_MAX} bytes, without NUL"
            )));
        }
        let left = self.process.ends_at.saturating_duration_since(Instant::now());
        let timeout = Duration::from_millis(u64::from(command.timeout_ms)).min(left);
        let command = jail::Command { script: command.script, stdin: command.stdin, timeout };
        let outcome = match jail.spec() {
            Ok(spec) => jail::run(&spec.with_env(self.secrets.process_env()), command).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(outcome) => Ok(self::outcome(outcome)),
            Err(JailError::Denied(reason)) => Err(self.process.refuse(&reason)),
            Err(JailError::Timeout) => Err(ProcessError::Timeout),
            Err(JailError::Failed(reason)) => Err(ProcessError::Failed(reason)),
        }
    }
}

fn outcome(outcome: jail::Outcome) -> Outcome {
    Outcome {
        exit_code: outcome.exit_code,
        stdout: outcome.stdout,
        stderr: outcome.stderr,
        stdout_bytes: outcome.stdout_bytes,
        stderr_bytes: outcome.stderr_bytes,
        duration_ms: u64::try_from(outcome.duration.as_millis()).unwrap_or(u64::MAX),
    }
}
