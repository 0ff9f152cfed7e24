//! A jailed program that runs for as long as its host wants it, and is spoken to meanwhile.

use std::io;
use std::process::ExitStatus;

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::run::Running;
use super::{JailError, JailSpec};

/// A running program and its three streams. Dropping it kills the program and all it started.
#[derive(Debug)]
pub struct Child {
    running: Running,
    /// What it reads; dropping it ends its input.
    pub stdin: Option<ChildStdin>,
    /// What it says.
    pub stdout: Option<ChildStdout>,
    /// What it complains.
    pub stderr: Option<ChildStderr>,
}

/// Starts the program `argv`, the first of which is its absolute path, in the jail of `spec`.
///
/// # Errors
/// [`JailError::Denied`] where this system cannot give a whole jail, [`JailError::Failed`] where
/// the program could not be started.
pub async fn start(spec: &JailSpec, argv: Vec<String>) -> Result<Child, JailError> {
    let mut running = Running::start(spec, argv).await?;
    let (stdin, stdout, stderr) = running.streams();
    Ok(Child { running, stdin, stdout, stderr })
}

impl Child {
    /// Waits until the program and all it started have ended.
    ///
    /// # Errors
    /// What the system says.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.running.wait().await
    }

    /// Kills the program and all it started, and waits until they are gone.
    pub async fn kill(&mut self) {
        self.running.kill().await;
    }
}
