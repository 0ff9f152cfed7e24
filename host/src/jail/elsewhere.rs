//! Systems without a jail: every command is refused.

use std::convert::Infallible;
use std::io;
use std::process::ExitStatus;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::{Command, JailError, JailSpec, Outcome, Support};

/// Refuses: there is no jail on this system.
///
/// # Errors
/// Always [`JailError::Denied`].
pub async fn run(_spec: &JailSpec, _command: Command) -> Result<Outcome, JailError> {
    Err(none())
}

/// A program that never runs here.
#[derive(Debug)]
pub struct Child {
    never: Infallible,
    /// What it reads.
    pub stdin: Option<ChildStdin>,
    /// What it says.
    pub stdout: Option<ChildStdout>,
    /// What it complains.
    pub stderr: Option<ChildStderr>,
}

/// Refuses: there is no jail on this system.
///
/// # Errors
/// Always [`JailError::Denied`].
pub async fn start(_spec: &JailSpec, _argv: Vec<String>) -> Result<Child, JailError> {
    Err(none())
}

impl Child {
    /// Never returns.
    ///
    /// # Errors
    /// None.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        match self.never {}
    }

    /// Never returns.
    pub async fn kill(&mut self) {
        match self.never {}
    }
}

fn none() -> JailError {
    JailError::Denied("native programs need Linux with Landlock and seccomp".to_owned())
}

/// Returns that nothing is supported.
pub fn support() -> Support {
    Support::default()
}
