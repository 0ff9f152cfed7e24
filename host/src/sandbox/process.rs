//! `claw:host/process`: native programs, in the jail, where the profile grants a shell.

mod spawns;

use std::path::Path;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::grants::{Access, Grants};
use clawhost_core::limits::{PROCESS_ARGUMENTS_BYTES_MAX, SCRIPT_BYTES_MAX, SPAWNS_MAX};
use clawhost_core::shell::{Machine, Refusal, ShellPolicy, check_variable};
use clawhost_core::violation::Violation;

use super::bindings::claw::host::process::{self, Outcome, ProcessError, Program};
use super::fs::Private;
use super::state::CallState;
use crate::clock::whole_ms;
use crate::jail::{self, JailError, JailSpec};
use crate::offload;

pub use spawns::Spawns;

/// What one call may start, and what it was refused.
#[derive(Debug)]
pub(super) struct ProcessCtx {
    /// Nothing where the profile grants no shell; else with the host's count of programs without one.
    jail: Option<(Arc<ProfileJail>, Spawns)>,
    ends_at: Instant,
    violations: Vec<Violation>,
    failed: Option<CallError>,
}

/// Refusals kept for the record of one call.
const VIOLATIONS_MAX: usize = 16;

impl ProcessCtx {
    pub(super) fn new(jail: Option<(Arc<ProfileJail>, Spawns)>, ends_at: Instant) -> Self {
        Self { jail, ends_at, violations: Vec::new(), failed: None }
    }

    pub(super) fn set_deadline(&mut self, ends_at: Instant) {
        self.ends_at = ends_at;
    }

    pub(super) fn violations(&self) -> &[Violation] {
        &self.violations
    }

    /// Returns why the call could not start a program that it may start.
    pub(super) fn failed(&self) -> Option<&CallError> {
        self.failed.as_ref()
    }

    fn refuse(&mut self, reason: &str) -> ProcessError {
        if self.violations.len() < VIOLATIONS_MAX {
            self.violations.push(format!("process: {reason}").into());
        }
        ProcessError::Denied(reason.to_owned())
    }

    fn busy(&mut self) -> ProcessError {
        let text = format!("{SPAWNS_MAX} spawned programs of this agent run already");
        let error = CallError::new(ErrorKind::Overloaded, text.as_str());
        self.failed = Some(error.with("stage", "process").with_limit(Limit::Spawns));
        ProcessError::Busy(text)
    }
}

/// The jail of one profile, opened when the tool is loaded; where its directory is made when
/// it is first needed, by the first call.
#[derive(Debug)]
pub(super) struct ProfileJail {
    grants: Grants,
    private: Arc<Private>,
    policy: ShellPolicy,
    spec: OnceLock<JailSpec>,
}

impl ProfileJail {
    /// Returns the jail that `grants` describe, which holds nothing `private`.
    ///
    /// # Errors
    /// The system has no jail, or a directory cannot be opened or granted.
    pub(super) fn open(grants: &Grants, private: Arc<Private>) -> Result<Self, String> {
        let support = jail::support();
        if !support.available() {
            return Err(format!("native programs need a jail, which is {support}"));
        }
        let policy = policy(grants)?;
        private.check_native(&grants.mounts).map_err(|error| error.to_string())?;
        let jail = Self { grants: grants.clone(), private, policy, spec: OnceLock::new() };
        if !grants.mounts.iter().any(|mount| mount.create) {
            jail.spec().map_err(|error| error.to_string())?;
        }
        Ok(jail)
    }

    /// Returns the jail under `grants`, with what is left of each mount: the same directories, and
    /// not those that their paths lead to by now.
    ///
    /// # Errors
    /// No jail can hold what is left.
    pub(super) fn within(&self, grants: &Grants, left: &[Option<Access>]) -> Result<Self, String> {
        let private = Arc::clone(&self.private);
        let Some(spec) = self.spec.get() else { return Self::open(grants, private) };
        let policy = policy(grants)?;
        let spec = spec.narrowed(left, grants).map_err(|error| error.to_string())?;
        Ok(Self { grants: grants.clone(), private, policy, spec: OnceLock::from(spec) })
    }

    fn spec(&self) -> Result<&JailSpec, JailError> {
        if let Some(spec) = self.spec.get() {
            return Ok(spec);
        }
        // Where a folder is made with the first call, its path may lead elsewhere by now.
        let checked = self.private.check_native(&self.grants.mounts);
        checked.map_err(|error| JailError::Denied(error.to_string()))?;
        let spec = JailSpec::granted(&self.grants)?;
        Ok(self.spec.get_or_init(|| spec))
    }

    /// Returns the jail of one command: with its variables, and the network if it asks for it.
    fn spec_for(&self, command: &process::Command) -> Result<JailSpec, JailError> {
        let spec = self.spec()?;
        // What the profile gives stays as the profile gives it.
        let own = command.env.iter().filter(|(name, _)| !self.grants.env.contains_key(name));
        let spec = spec.with_env(own.map(|(name, value)| (name.as_str(), value.as_str())));
        Ok(if command.network { spec.allowing_network() } else { spec })
    }

    /// Returns what runs for `program`, if the profile lets it, which is known by `ends_at`.
    fn admit(&self, program: &Program, ends_at: Instant) -> Result<Vec<String>, Refusal> {
        let machine = Machine { find: &jail::find, is_over: &|| Instant::now() >= ends_at };
        let mounts: Vec<&Path> =
            self.grants.mounts.iter().map(|mount| mount.host.as_path()).collect();
        let script = |shell: &str, script: &str| {
            // What a restricted shell runs is written for any shell.
            let shell = if self.policy.is_full() { shell } else { "sh" };
            let script = self.policy.line(script, &mounts, machine)?;
            let program = jail::find(shell).ok_or_else(|| Refusal::NoProgram(shell.to_owned()))?;
            Ok(vec![program.display().to_string(), "-c".to_owned(), script])
        };
        match program {
            Program::Sh(line) => script("sh", line),
            Program::Bash(line) => script("bash", line),
            Program::Argv(argv) => self.policy.argv(argv, machine),
        }
    }
}

fn policy(grants: &Grants) -> Result<ShellPolicy, String> {
    if !grants.denied_paths.is_empty() {
        // Landlock grants whole trees; it cannot take a part of one away.
        return Err(
            "`shell` and `denied_paths` do not go together: a jail cannot close a part of a mount"
                .to_owned(),
        );
    }
    ShellPolicy::new(&grants.shell, &grants.shell_rules)
}

impl process::Host for CallState {
    async fn run(&mut self, command: process::Command) -> Result<Outcome, ProcessError> {
        let start = async |state: &mut Self| state.start(command).await;
        self.taped("process.run", ProcessError::Failed, start).await
    }
}

impl CallState {
    async fn start(&mut self, command: process::Command) -> Result<Outcome, ProcessError> {
        let Some((jail, spawns)) = self.process.jail.clone() else {
            return Err(self.process.refuse("the profile grants no shell"));
        };
        check_form(&command.run)?;
        if command.network && !jail::grants_network(&jail.grants) {
            let reason = "a program gets the whole network or none, and the profile does not grant it: that takes `network.mode: allow-all` with `ssrf_protection: {enabled: false}`";
            return Err(self.process.refuse(reason));
        }
        let variables =
            command.env.iter().try_for_each(|(name, value)| check_variable(name, value));
        let asked = Instant::now().checked_add(Duration::from_millis(command.timeout_ms.into()));
        let ends_at = asked.map_or(self.process.ends_at, |asked| asked.min(self.process.ends_at));
        // Patterns are searched in all of the line, and programs on the disk.
        let admit = || offload::blocking(true, || jail.admit(&command.run, ends_at));
        let argv = variables.and_then(|()| admit());
        if Instant::now() >= ends_at {
            return Err(ProcessError::Timeout);
        }
        let argv = argv.map_err(|refusal| match refusal {
            // No operator can allow it: the name is the caller's to mend.
            Refusal::NoProgram(_) => ProcessError::Failed(refusal.to_string()),
            Refusal::Rule(reason) => self.process.refuse(&reason),
        })?;
        // Held until the program and all it started has ended.
        let _permit = match &command.run {
            Program::Argv(_) => {
                Some(spawns.take(self.agent.name()).ok_or_else(|| self.process.busy())?)
            }
            Program::Sh(_) | Program::Bash(_) => None,
        };
        let timeout = ends_at.saturating_duration_since(Instant::now());
        let outcome = match jail.spec_for(&command) {
            Ok(spec) => {
                let command = jail::Command { argv, stdin: command.stdin, timeout };
                let values = self.secrets.iter().flat_map(|secrets| secrets.process_env());
                jail::run(&spec.with_env(values), command).await
            }
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

fn check_form(program: &Program) -> Result<(), ProcessError> {
    let (texts, bytes_max) = match program {
        Program::Sh(line) | Program::Bash(line) => (std::slice::from_ref(line), SCRIPT_BYTES_MAX),
        Program::Argv(argv) => (argv.as_slice(), PROCESS_ARGUMENTS_BYTES_MAX),
    };
    let bytes: usize = texts.iter().map(|text| text.len() + 1).sum();
    if bytes > bytes_max + 1 || texts.iter().any(|text| text.contains('\0')) {
        let reason = format!("a command is at most {bytes_max} bytes, without NUL");
        return Err(ProcessError::Failed(reason));
    }
    Ok(())
}

fn outcome(outcome: jail::Outcome) -> Outcome {
    Outcome {
        exit_code: outcome.exit_code,
        stdout: outcome.stdout,
        stderr: outcome.stderr,
        stdout_bytes: outcome.stdout_bytes,
        stderr_bytes: outcome.stderr_bytes,
        duration_ms: whole_ms(outcome.duration),
    }
}
