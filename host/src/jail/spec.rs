//! What a jail holds, what runs in it, and how that ended.

use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::Dir;

/// One directory a jailed program may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JailMount {
    /// Absolute path on the host; the program sees it under the same path.
    pub path: PathBuf,
    /// Whether files in it may be written, made, moved and deleted. They may be read either
    /// way, also by an interpreter or a loader that runs what it reads; the kernel executes none,
    /// or with [`JailSpec::executing_read_only`] those that cannot be written.
    pub writable: bool,
}

/// How much a jailed program may use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JailLimits {
    /// Address space of each process and, in a control group, memory of all of them, in bytes.
    pub memory_bytes: u64,
    /// Processes and threads alive at once, the shell among them.
    pub processes_max: u32,
    /// Descriptors open at once in each process.
    pub open_files_max: u32,
    /// Largest file a process may write, in bytes.
    pub file_bytes_max: u64,
    /// Bytes kept of standard output, and of standard error; the rest is read and counted.
    pub output_bytes_max: u64,
}

/// A jail, its directories opened: any number of commands may run in it.
#[derive(Debug, Clone)]
pub struct JailSpec {
    pub(super) mounts: Vec<Opened>,
    pub(super) env: Vec<(String, String)>,
    pub(super) network: bool,
    /// Whether the kernel executes files of read-only mounts.
    pub(super) executes_read_only: bool,
    /// Whether what is bounded of a process is the memory it may write to, not its addresses.
    pub(super) reserves_addresses: bool,
    /// How much lower than the host's its priority is.
    pub(super) nice: i32,
    /// What is executed in the place of the program that a command names.
    pub(super) image: Option<Arc<File>>,
    pub(super) limits: JailLimits,
    pub(super) most: Most,
}

/// Where a program works that is granted no directory: everybody may read it, and nobody write.
pub(crate) const NOWHERE: &str = "/usr";

impl JailLimits {
    /// Nothing runs in no memory, and the program itself is a process. The kernel would round up.
    pub(super) fn check(&self) -> Result<(), JailError> {
        let most = [("memory", self.memory_bytes), ("processes", self.processes_max.into())];
        match most.into_iter().find(|(_, most)| *most == 0) {
            Some((what, _)) => Err(JailError::Denied(format!("the limits allow no {what}"))),
            None => Ok(()),
        }
    }
}

/// The most of the kernel that a jail uses; tests also do with less.
#[derive(Debug, Clone, Copy)]
pub(super) struct Most {
    /// Flags of `clone`.
    pub(super) namespaces: i32,
    pub(super) cgroup: bool,
    pub(super) landlock_abi: u32,
}

impl Most {
    /// All there is.
    const ALL: Self = Self { namespaces: -1, cgroup: true, landlock_abi: u32::MAX };
}

/// A mount and the handle to it. What replaces the path is never used in its place: a jail with a
/// mount namespace does not start then, another one works in what was opened.
#[derive(Debug, Clone)]
pub(super) struct Opened {
    pub(super) path: PathBuf,
    pub(super) dir: Arc<Dir>,
    pub(super) writable: bool,
}

/// A program and what goes with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The absolute path of the program, and its arguments; without NUL.
    pub argv: Vec<String>,
    /// Given on standard input, which is closed after it.
    pub stdin: Vec<u8>,
    /// Time until the program and all it started are killed.
    pub timeout: Duration,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Its exit code; absent where a signal ended it.
    pub exit_code: Option<i32>,
    /// Standard output up to [`JailLimits::output_bytes_max`].
    pub stdout: Vec<u8>,
    /// Standard error up to [`JailLimits::output_bytes_max`].
    pub stderr: Vec<u8>,
    /// Bytes written to standard output, kept or not.
    pub stdout_bytes: u64,
    /// Bytes written to standard error, kept or not.
    pub stderr_bytes: u64,
    /// Wall time from the call to the end of the last process.
    pub duration: Duration,
}

/// Why there is no [`Outcome`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JailError {
    /// The jail does not allow it, or cannot be had here.
    #[error("refused: {0}")]
    Denied(String),
    /// The time ran out; everything the command started was killed.
    #[error("the time ran out")]
    Timeout,
    /// It could not be started.
    #[error("{0}")]
    Failed(String),
}

/// What this system gives a jail. The default is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Support {
    /// The Landlock ABI of the kernel that is used; 0 is none. From 1 up files are protected,
    /// from 6 up signals and abstract sockets too.
    pub landlock_abi: u32,
    /// Whether seccomp filters can be installed.
    pub seccomp: bool,
    /// Whether a jail is a process-id namespace: it sees no process outside, and the kernel
    /// itself ends it as one. Without, its process group is killed.
    pub pid_namespace: bool,
    /// Whether a jail is a mount namespace: paths that it was not granted are not there, and its
    /// read-only directories cannot be changed in any way.
    pub mount_namespace: bool,
    /// Whether a jail is a user namespace, in which its processes are counted and no others.
    pub user_namespace: bool,
    /// Whether a jail is a control group, which bounds the memory of all its processes together
    /// and counts exactly those. Without, each process is bounded alone.
    pub cgroup: bool,
    /// Whether jailed programs run as another user than the host (where the host is root).
    pub other_user: bool,
}

impl JailSpec {
    /// Opens a jail over `mounts`, the first of which is the working directory, without the
    /// network. `env` is the whole environment beside `PATH`, `HOME` and `LANG`, which it may
    /// replace.
    ///
    /// # Errors
    /// [`JailError::Denied`] where there is no mount, a read-only one lies inside a writable
    /// one (the kernel would let it be written), or the environment holds an impossible name;
    /// [`JailError::Failed`] where a directory cannot be opened.
    pub fn new(
        mounts: Vec<JailMount>,
        env: Vec<(String, String)>,
        limits: JailLimits,
    ) -> Result<Self, JailError> {
        check_env(&env)?;
        let mounts = mounts.into_iter().map(Opened::open).collect::<Result<Vec<_>, _>>()?;
        Self::of(mounts, env, limits)
    }

    pub(super) fn of(
        mounts: Vec<Opened>,
        env: Vec<(String, String)>,
        limits: JailLimits,
    ) -> Result<Self, JailError> {
        if mounts.is_empty() {
            return Err(JailError::Denied("there is no directory to work in".to_owned()));
        }
        check_nesting(&mounts)?;
        Ok(Self {
            mounts,
            env,
            network: false,
            executes_read_only: false,
            reserves_addresses: false,
            nice: 0,
            image: None,
            limits,
            most: Most::ALL,
        })
    }

    /// Returns the same jail with more in its environment: what only one command is given.
    #[must_use]
    pub fn with_env<'e>(&self, more: impl Iterator<Item = (&'e str, &'e str)>) -> Self {
        let mut spec = self.clone();
        spec.env.extend(more.map(|(name, value)| (name.to_owned(), value.to_owned())));
        spec
    }

    /// Executes this open program, without an environment, in the place of the one that a command names: it is
    /// the one that was opened, whatever lies at its path by now, and need not be seen in the jail.
    #[must_use]
    pub fn executing(mut self, image: Arc<File>) -> Self {
        self.image = Some(image);
        self
    }

    /// Runs programs at a priority that is lower than the host's by `nice`, also where the kernel shares its time
    /// among sessions first.
    #[must_use]
    pub const fn at_nice(mut self, nice: i32) -> Self {
        self.nice = nice;
        self
    }

    /// Lets programs open internet sockets, to any address. Unix and other sockets stay closed.
    #[must_use]
    pub fn allowing_network(mut self) -> Self {
        self.network = true;
        self
    }
}

impl Opened {
    fn open(mount: JailMount) -> Result<Self, JailError> {
        let JailMount { path: asked, writable } = mount;
        let failed = |error: std::io::Error| {
            JailError::Failed(format!("cannot open {}: {error}", asked.display()))
        };
        let path = asked.canonicalize().map_err(failed)?;
        // The operator's own path, at load; everything later goes through the handle.
        let dir = Dir::open_ambient_dir(&path, cap_std::ambient_authority()).map_err(failed)?;
        Ok(Self { path, dir: Arc::new(dir), writable })
    }
}

fn check_env(env: &[(String, String)]) -> Result<(), JailError> {
    let bad = env.iter().find(|(name, value)| {
        name.is_empty() || name.contains(['=', '\0']) || value.contains('\0')
    });
    match bad {
        Some((name, _)) => Err(JailError::Denied(format!("no environment can hold {name:?}"))),
        None => Ok(()),
    }
}

/// Landlock adds up the rights of nested directories, so the stricter could not win.
fn check_nesting(mounts: &[Opened]) -> Result<(), JailError> {
    let writable = |path: &Path| mounts.iter().any(|m| m.writable && path.starts_with(&m.path));
    match mounts.iter().find(|mount| !mount.writable && writable(&mount.path)) {
        Some(mount) => Err(JailError::Denied(format!(
            "{} is read-only but lies inside a writable directory, which a native program \
             cannot be kept to",
            mount.path.display()
        ))),
        None => Ok(()),
    }
}

impl Support {
    /// Returns whether a jail can be had at all.
    pub fn available(&self) -> bool {
        self.landlock_abi > 0 && self.seccomp
    }
}

impl fmt::Display for Support {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.available() {
            let lacking = if self.landlock_abi == 0 { "Landlock" } else { "seccomp" };
            return write!(f, "not available: no {lacking} here");
        }
        let tree = if self.pid_namespace { "process namespace" } else { "process group" };
        write!(f, "Landlock ABI {}, seccomp, {tree}", self.landlock_abi)?;
        for (is_there, what) in
            [(self.mount_namespace, "mount namespace"), (self.cgroup, "control group")]
        {
            if is_there {
                write!(f, ", {what}")?;
            }
        }
        if self.other_user { write!(f, ", another user") } else { Ok(()) }
    }
}
