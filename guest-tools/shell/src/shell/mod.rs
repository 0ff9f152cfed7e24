//! The shell itself: its state, its descriptors, and how it says things.

mod builtins;
mod read;
mod redirect;
mod run;
mod settings;
mod test;
mod variables;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem;
use std::rc::Rc;
use std::time::Duration;

pub(crate) use builtins::is_builtin;

use crate::io::{Buffer, Fd, Input, Overflow, Sink};
use crate::limits::{
    BYTES_PER_TICK, CALL_DEPTH_MAX, CHUNK_BYTES, OUTPUT_BYTES_MAX, TICKS_PER_LOOK,
};
use crate::path;
use crate::stop::{Done, Fault, Run, Stop};
use crate::syntax::{self, Command, SyntaxError};
use crate::world::{Clock, FileError, Filed, Files};
use variables::{Variable, Variables};

/// What `set` switches.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Options {
    /// `-e`: a command that fails ends the script.
    pub(crate) exit_on_error: bool,
    /// `-u`: a variable that is not set is an error.
    pub(crate) unset_is_error: bool,
    /// `-x`: commands are shown.
    pub(crate) trace: bool,
    /// `-f`: no file names are generated.
    pub(crate) no_glob: bool,
}

/// What a subshell has a copy of.
#[derive(Clone, Default)]
pub(crate) struct State {
    pub(crate) variables: Variables,
    functions: BTreeMap<String, Rc<Command>>,
    pub(crate) parameters: Rc<Vec<String>>,
    pub(crate) options: Options,
    /// Where relative paths start: empty, or steps joined by `/`.
    pub(crate) folder: String,
    /// Run when the shell ends.
    trap: Option<Rc<str>>,
    /// For each function that runs, the variables it made its own and what they were.
    locals: Vec<Vec<(String, Option<Variable>)>>,
    /// How far `getopts` is inside a group of options.
    getopts_at: usize,
}

/// A running script.
pub(crate) struct Shell {
    pub(crate) files: Rc<dyn Files>,
    pub(crate) clock: Rc<dyn Clock>,
    pub(crate) state: State,
    /// What `$?` is.
    pub(crate) status: i32,
    fds: BTreeMap<u32, Fd>,
    /// Output of the command that runs, not yet written: writing a file is a call of the host.
    pending: Vec<u8>,
    /// The command that runs, for its messages.
    running: String,
    /// Above 0 where a failure is an answer: a condition, all but the last of `&&` and `||`.
    tested: usize,
    /// Loops that `break` can leave.
    loops: usize,
    depth: usize,
    /// Set by `exec`: its redirections stay.
    keep_fds: bool,
    /// The status of the last `$(…)`.
    substituted: i32,
    deadline: Duration,
    ticks: usize,
}

/// How a script ended.
pub(crate) struct Ended {
    pub(crate) status: i32,
    pub(crate) stdout: Rc<RefCell<Buffer>>,
    pub(crate) stderr: Rc<RefCell<Buffer>>,
}

impl Shell {
    /// Runs `script` for at most `time`.
    ///
    /// # Errors
    /// Only where the time is over; whatever else goes wrong is in the exit status.
    pub(crate) fn run(
        files: Rc<dyn Files>,
        clock: Rc<dyn Clock>,
        script: &str,
        stdin: &str,
        time: Duration,
    ) -> Result<Ended, Stop> {
        let stdout = Buffer::new(OUTPUT_BYTES_MAX, Overflow::Count);
        let stderr = Buffer::new(OUTPUT_BYTES_MAX, Overflow::Count);
        let deadline = clock.steady() + time;
        let fds = BTreeMap::from([
            (0, Fd::Input(Input::bytes(stdin.as_bytes().to_vec()))),
            (1, Fd::Output(Sink::Memory(Rc::clone(&stdout)))),
            (2, Fd::Output(Sink::Memory(Rc::clone(&stderr)))),
        ]);
        let mut shell = Self {
            files,
            clock,
            state: State::default(),
            status: 0,
            fds,
            pending: Vec::new(),
            running: "sh".to_owned(),
            tested: 0,
            loops: 0,
            depth: 0,
            keep_fds: false,
            substituted: 0,
            deadline,
            ticks: 0,
        };
        for (name, value) in [("HOME", "/"), ("PWD", "/"), ("IFS", " \t\n"), ("OPTIND", "1")] {
            shell.state.variables.set(name, value)?;
        }
        let result = shell.script(script);
        let status = match shell.ended(result) {
            Err(Stop::Timeout) => return Err(Stop::Timeout),
            Err(Stop::Fatal(why)) => {
                shell.say(&format!("sh: {why}\n"))?;
                2
            }
            other => other.unwrap_or(shell.status),
        };
        Ok(Ended { status, stdout, stderr })
    }

    /// Runs a text as a list of commands in this shell.
    fn script(&mut self, text: &str) -> Run {
        let list = match syntax::parse(text) {
            Ok(list) => list,
            Err(SyntaxError(why)) => {
                self.say(&format!("sh: {why}\n"))?;
                return Err(Stop::Exit(2));
            }
        };
        self.list(&list)
    }

    /// What a shell does at its end: the trap runs, and leaving is a status.
    fn ended(&mut self, result: Run) -> Run {
        let status = match result {
            Err(Stop::Exit(status) | Stop::Return(status)) => status,
            Err(Stop::Break(_) | Stop::Continue(_)) => self.status,
            Err(Stop::Refused(why)) => {
                self.say(&format!("sh: {why}\n"))?;
                2
            }
            other => other?,
        };
        self.flush()?;
        let Some(trap) = self.state.trap.take() else { return Ok(status) };
        self.status = status;
        match self.script(&trap) {
            Err(Stop::Exit(status)) => Ok(status),
            other => other.and_then(|_| self.flush()).map(|()| status),
        }
    }

    /// Looks at the clock now and then.
    pub(crate) fn tick(&mut self) -> Run<()> {
        self.worked(0)
    }

    /// Counts a step that goes over so many bytes, and looks at the clock now and then.
    pub(crate) fn worked(&mut self, bytes: usize) -> Run<()> {
        self.ticks += 1 + bytes / BYTES_PER_TICK;
        if self.ticks < TICKS_PER_LOOK {
            return Ok(());
        }
        self.ticks = 0;
        if self.clock.steady() > self.deadline { Err(Stop::Timeout) } else { Ok(()) }
    }

    /// Runs something one level deeper, up to a depth that the stack surely holds.
    pub(crate) fn deeper<T>(&mut self, run: impl FnOnce(&mut Self) -> Run<T>) -> Run<T> {
        if self.depth >= CALL_DEPTH_MAX {
            let why = "functions, subshells and substitutions are nested too deeply";
            return Err(Stop::Fatal(why.to_owned()));
        }
        self.depth += 1;
        let result = run(self);
        self.depth -= 1;
        result
    }

    /// Writes to standard output, in time.
    pub(crate) fn out(&mut self, bytes: &[u8]) -> Run<()> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() < CHUNK_BYTES { Ok(()) } else { self.flush() }
    }

    /// Writes a text and a line end to standard output.
    pub(crate) fn line(&mut self, text: &str) -> Run<()> {
        self.out(text.as_bytes())?;
        self.out(b"\n")
    }

    /// Writes what is pending.
    pub(crate) fn flush(&mut self) -> Run<()> {
        let pending = mem::take(&mut self.pending);
        match self.fds.get(&1) {
            Some(Fd::Output(sink)) => sink.write(&pending),
            _ => Ok(()),
        }
    }

    /// Writes to standard error, after what was written before it.
    pub(crate) fn say(&mut self, text: &str) -> Run<()> {
        self.flush()?;
        match self.fds.get(&2) {
            Some(Fd::Output(sink)) => sink.write(text.as_bytes()),
            _ => Ok(()),
        }
    }

    /// A message of the command that runs.
    pub(crate) fn complain(&mut self, why: &str) -> Run<()> {
        let message = format!("{}: {why}\n", self.running);
        self.say(&message)
    }

    /// The status of `done`, with its message said.
    pub(crate) fn settled(&mut self, done: Done) -> Run {
        match done {
            Ok(status) => Ok(status),
            Err(Fault::Stop(stop)) => Err(stop),
            Err(Fault::Status(status, why)) => self.complain(&why).map(|()| status),
        }
    }

    /// Standard input; empty where it is closed.
    pub(crate) fn stdin(&self) -> Input {
        match self.fds.get(&0) {
            Some(Fd::Input(input)) => input.clone(),
            _ => Input::bytes(Vec::new()),
        }
    }

    /// The plain path of what a script names.
    pub(crate) fn path(&self, name: &str) -> Filed<String> {
        if name.is_empty() {
            return Err(FileError::not_found());
        }
        Ok(path::plain(&self.state.folder, name))
    }

    /// Opens an operand: `-` is standard input.
    pub(crate) fn open(&self, name: &str) -> Filed<Input> {
        match name {
            "-" | "/dev/stdin" => Ok(self.stdin()),
            "/dev/null" => Ok(Input::bytes(Vec::new())),
            _ => Input::file(&self.files, self.path(name)?),
        }
    }

    /// A variable's value, empty where it has none.
    pub(crate) fn variable(&self, name: &str) -> Rc<str> {
        self.state.variables.get(name).unwrap_or_default()
    }
}
