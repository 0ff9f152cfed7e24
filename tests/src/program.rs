//! A program as a process of its own, and how it ends.

use std::io::{self, Read as _};
use std::ops::{Deref, DerefMut};
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread;

use crate::cli::Folder;
use crate::leaks::Known;
use crate::wait;

/// A program that ends with its test, however that ends. A host is told to stop as its operator does it, so that
/// everything it acknowledged is written, handed over and signed, and has to end well, as it does where it ended
/// before; any other program is killed.
#[derive(Debug)]
pub struct Program {
    child: Child,
    /// Where it runs, if it is a host.
    folder: Option<Arc<Folder>>,
    /// The test killed it, so how it ended says nothing.
    is_killed: bool,
}

impl Program {
    /// Starts one that is no host.
    ///
    /// # Panics
    /// Where it cannot be started.
    pub fn other(command: &mut Command) -> Self {
        command.spawn().unwrap().into()
    }

    /// Starts a host in `folder`.
    pub(crate) fn host(command: &mut Command, folder: Arc<Folder>) -> Self {
        Self { child: command.spawn().unwrap(), folder: Some(folder), is_killed: false }
    }

    /// Ends it at once, as any process may be.
    ///
    /// # Errors
    /// It cannot be.
    pub fn kill(&mut self) -> io::Result<()> {
        self.is_killed = true;
        self.child.kill()?;
        self.child.wait().map(drop)
    }

    /// Sends it the signal `name`.
    ///
    /// # Panics
    /// Where that cannot be.
    pub fn signal(&self, name: &str) {
        let words = ["-s", name, &self.child.id().to_string()];
        assert!(Command::new("kill").args(words).status().unwrap().success());
    }

    fn stop(&mut self) {
        if self.child.try_wait().unwrap().is_none() {
            self.signal("TERM");
        }
        let status = wait::block_until("the host to end", || self.child.try_wait().unwrap());
        assert!(status.success(), "{status}");
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may say more than a pipe holds.
        let errors = self.child.stderr.take().map(|mut errors| {
            thread::spawn(move || {
                let mut said = Vec::new();
                drop(errors.read_to_end(&mut said));
                said
            })
        });
        match &self.folder {
            Some(_) if !self.is_killed && !thread::panicking() => self.stop(),
            _ => drop(self.kill()),
        }
        if let (Some(folder), Some(errors)) = (&self.folder, errors) {
            Known::of(&folder.state()).check("the log of a host", &errors.join().unwrap());
        }
    }
}

impl From<Child> for Program {
    fn from(child: Child) -> Self {
        Self { child, folder: None, is_killed: false }
    }
}

impl Deref for Program {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.child
    }
}

impl DerefMut for Program {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.child
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use crate::Cli;

    #[test]
    fn a_host_that_ended_by_itself_has_to_have_ended_well() {
        let cli = Cli::empty("/bin/sh");
        let ends_well = |code: &str, is_killed: bool| {
            let mut program = cli.start(&["-c", code]);
            program.child.wait().unwrap();
            if is_killed {
                drop(program.kill());
            }
            catch_unwind(AssertUnwindSafe(|| drop(program))).is_ok()
        };
        assert!(ends_well("exit 0", false) && ends_well("exit 1", true));
        assert!(!ends_well("exit 1", false));
    }
}
