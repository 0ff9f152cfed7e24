//! A program in a jail: one command, which is fed, drained and ended in time, or one that runs for as long as
//! its host wants it, and is spoken to meanwhile.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use clawhost_core::visible;
use rustix::io::Errno;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

use super::cgroup::Group;
use super::plan::Plan;
use super::programs::PATH;
use super::support::cgroups;
use super::{Command, JailError, JailSpec, Outcome, child};

/// Text is UTF-8, messages are untranslated.
const LANG: &str = "C.UTF-8";
/// Bytes read from a stream at once: a quarter of a pipe's default capacity.
const CHUNK_BYTES: usize = 16 * 1024;
/// Time a killed tree may take to be gone before its keeper is killed too. Reached only by a
/// process that the kernel itself holds up, for example in a file system that hangs.
const KILL_WAIT_MS: u64 = 1_000;

/// Runs `command` in the jail of `spec` and waits for the end of all it started.
///
/// Dropping the future kills all it started.
///
/// # Errors
/// [`JailError::Denied`] where this system cannot give a whole jail or the limits allow no
/// memory or no processes, [`JailError::Timeout`]
/// where the command's time ran out, and [`JailError::Failed`] where it could not be started.
pub async fn run(spec: &JailSpec, command: Command) -> Result<Outcome, JailError> {
    let started = Instant::now();
    let Command { argv, stdin, timeout } = command;
    let mut child = start(spec, argv).await?;
    let left = timeout.saturating_sub(started.elapsed());
    let work = child.work(&stdin, spec.limits.output_bytes_max);
    match tokio::time::timeout(left, work).await {
        Ok(ended) => {
            let (status, stdout, stderr) = ended.map_err(|error| failed(&error))?;
            Ok(outcome(status, stdout, stderr, started.elapsed()))
        }
        Err(_) => {
            child.kill().await;
            Err(JailError::Timeout)
        }
    }
}

/// Starts the program `argv`, the first of which is its absolute path, in the jail of `spec`.
///
/// # Errors
/// [`JailError::Denied`] where this system cannot give a whole jail, [`JailError::Failed`] where
/// the program could not be started.
pub async fn start(spec: &JailSpec, argv: Vec<String>) -> Result<Child, JailError> {
    let spec = spec.clone();
    // Forking a large program takes its time, which is not the runtime's. Where this future is
    // dropped meanwhile, what was started is dropped when it comes, and dies of that.
    let starting = tokio::task::spawn_blocking(move || Child::started(&spec, &argv));
    starting.await.map_err(|error| failed(&error))?
}

fn failed(error: &dyn std::error::Error) -> JailError {
    JailError::Failed(format!("could not run in the jail: {error}"))
}

/// Says why a program did not start. One that anybody finds outside of the jail may not be there within, nor
/// what interprets it.
fn not_started(error: &io::Error, spec: &JailSpec, argv: &[String]) -> JailError {
    // That something is not permitted is said of the steps into the jail.
    if !matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::ACCESS)) {
        return failed(error);
    }
    let program = visible::line(argv.first().map_or("", String::as_str));
    let or = match spec.executes_read_only {
        true => ", or in those that the profile mounts read-only",
        false => "",
    };
    JailError::Failed(format!(
        "could not run in the jail: {error}: `{program}`, and what its `#!` line names, have to be executable, and to lie in folders of the system{or}"
    ))
}

fn outcome(status: ExitStatus, stdout: Drained, stderr: Drained, duration: Duration) -> Outcome {
    Outcome {
        exit_code: status.code(),
        stdout: stdout.kept,
        stderr: stderr.kept,
        stdout_bytes: stdout.bytes,
        stderr_bytes: stderr.bytes,
        duration,
    }
}

/// A running program and its three streams. Dropping it kills the program and all it started: the leash goes with it.
#[derive(Debug)]
pub struct Child {
    keeper: tokio::process::Child,
    leash: Option<OwnedFd>,
    _group: Option<Group>,
    /// What it reads; dropping it ends its input.
    pub stdin: Option<ChildStdin>,
    /// What it says.
    pub stdout: Option<ChildStdout>,
    /// What it complains.
    pub stderr: Option<ChildStderr>,
}

impl Child {
    fn started(spec: &JailSpec, argv: &[String]) -> Result<Self, JailError> {
        spec.limits.check()?;
        let (held, leash) = io::pipe().map_err(|error| failed(&error))?;
        let group = group(spec)?;
        let plan = Plan::build(spec, argv, group.as_ref(), &OwnedFd::from(held))?;
        let mut command = program(spec, argv)?;
        before_exec(&mut command, plan);
        let mut keeper = command.spawn().map_err(|error| not_started(&error, spec, argv))?;
        let (stdin, stdout) = (keeper.stdin.take(), keeper.stdout.take());
        let stderr = keeper.stderr.take();
        Ok(Self { keeper, leash: Some(leash.into()), _group: group, stdin, stdout, stderr })
    }

    /// Waits until the program and all it started have ended.
    ///
    /// # Errors
    /// What the system says.
    pub async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.keeper.wait().await
    }

    /// Feeds and drains until the whole tree has ended.
    async fn work(
        &mut self,
        stdin: &[u8],
        output_bytes_max: u64,
    ) -> io::Result<(ExitStatus, Drained, Drained)> {
        let fed = feed(self.stdin.take(), stdin);
        let out = drain(self.stdout.take(), output_bytes_max);
        let err = drain(self.stderr.take(), output_bytes_max);
        let (status, (), out, err) = tokio::join!(self.keeper.wait(), fed, out, err);
        Ok((status?, out?, err?))
    }

    /// Kills the program and all it started, and waits until they are gone.
    pub async fn kill(&mut self) {
        self.leash = None;
        let wait = Duration::from_millis(KILL_WAIT_MS);
        if tokio::time::timeout(wait, self.keeper.wait()).await.is_err() {
            // Its direct child dies with it; nothing better is left to do, and nobody to tell.
            drop(self.keeper.start_kill());
        }
    }
}

/// The control group of one command, where there can be one.
fn group(spec: &JailSpec) -> Result<Option<Group>, JailError> {
    let parents = if spec.most.cgroup { cgroups() } else { &[] };
    let make = || Group::make(parents, &spec.limits).map_err(|error| failed(&error));
    if parents.is_empty() { Ok(None) } else { make().map(Some) }
}

/// The command, with nothing of the host's but three pipes.
fn program(spec: &JailSpec, argv: &[String]) -> Result<tokio::process::Command, JailError> {
    let Some((path, arguments)) = argv.split_first().filter(|(path, _)| path.starts_with('/'))
    else {
        return Err(JailError::Failed("a program is named by its absolute path".to_owned()));
    };
    let mut command = tokio::process::Command::new(path);
    command.args(arguments).env_clear().env("PATH", PATH).env("LANG", LANG);
    if let Some(workdir) = spec.mounts.first() {
        command.env("HOME", &workdir.path);
    }
    command.envs(spec.env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

#[expect(unsafe_code, reason = "the steps into the jail have to run between fork and exec")]
fn before_exec(command: &mut tokio::process::Command, plan: Plan) {
    // SAFETY: `enter` makes system calls on numbers and memory that exist already: it neither
    // allocates nor takes a lock, which is all that a fork of a threaded program may do.
    unsafe { command.pre_exec(move || child::enter(&plan)) };
}

/// Writes all of `input`, as far as the program reads it, and closes the stream.
async fn feed(stream: Option<ChildStdin>, input: &[u8]) {
    let Some(mut stream) = stream else { return };
    // A program need not read its input, and one that ended does not: no error of ours.
    drop(stream.write_all(input).await);
}

/// What a stream said.
#[derive(Debug, Default)]
struct Drained {
    kept: Vec<u8>,
    bytes: u64,
}

/// Reads a stream to its end, keeping the first `max` bytes and counting all.
async fn drain(stream: Option<impl AsyncRead + Unpin>, max: u64) -> io::Result<Drained> {
    let mut drained = Drained::default();
    let Some(mut stream) = stream else {
        return Ok(drained);
    };
    let max = usize::try_from(max).unwrap_or(usize::MAX);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = stream.read(&mut chunk).await?;
        if count == 0 {
            return Ok(drained);
        }
        drained.bytes = drained.bytes.saturating_add(count as u64);
        let room = max.saturating_sub(drained.kept.len()).min(count);
        drained.kept.extend_from_slice(chunk.get(..room).unwrap_or_default());
    }
}
