//! The execution of a `sed` script.

use std::collections::VecDeque;

use super::replace::replaced;
use super::{Action, Address, Command, Substitute};
use crate::commands::regex::Regex;
use crate::commands::{chomped, lossy};
use crate::io::Input;
use crate::limits::WHOLE_BYTES_MAX;
use crate::shell::Shell;
use crate::stop::{Done, failed};

pub(super) struct Run<'a> {
    commands: &'a [Command],
    quiet: bool,
    inputs: VecDeque<Input>,
    /// The line after the current one, read ahead to know whether there is one.
    ahead: Option<Vec<u8>>,
    number: usize,
    space: Vec<u8>,
    /// Whether the current line had an end.
    ended: bool,
    hold: Vec<u8>,
    /// Written after the current line.
    later: Vec<u8>,
    /// For each command with two addresses: where its range ends, while it is in one.
    ranges: Vec<Option<Until>>,
    substituted: bool,
    last_regex: Option<&'a Regex>,
    /// Where output goes in place of standard output.
    pub(super) collected: Option<Vec<u8>>,
}

#[derive(Clone, Copy)]
enum Until {
    Line(usize),
    Match,
}

/// What comes after the commands of one cycle.
enum Next {
    Cycle,
    /// Without reading a line.
    Again,
    Quit {
        print: bool,
        status: i32,
    },
}

impl<'a> Run<'a> {
    pub(super) fn new(commands: &'a [Command], quiet: bool, inputs: Vec<Input>) -> Self {
        Self {
            commands,
            quiet,
            inputs: inputs.into(),
            ahead: None,
            number: 0,
            space: Vec::new(),
            ended: true,
            hold: Vec::new(),
            later: Vec::new(),
            ranges: commands.iter().map(|_| None).collect(),
            substituted: false,
            last_regex: None,
            collected: None,
        }
    }

    pub(super) fn all(&mut self, shell: &mut Shell) -> Done {
        self.ahead = self.read()?;
        let mut again = false;
        while again || self.take()? {
            shell.tick()?;
            let next = self.cycle(shell)?;
            again = matches!(next, Next::Again);
            if let Next::Quit { print, status } = next {
                if print {
                    self.end_cycle(shell)?;
                }
                return Ok(status);
            }
            if !again {
                self.substituted = false;
            }
        }
        Ok(0)
    }

    fn read(&mut self) -> Done<Option<Vec<u8>>> {
        while let Some(input) = self.inputs.front() {
            if let Some(line) = input.line()? {
                return Ok(Some(line));
            }
            self.inputs.pop_front();
        }
        Ok(None)
    }

    /// Makes the next line the current one.
    fn take(&mut self) -> Done<bool> {
        let Some(line) = self.ahead.take() else { return Ok(false) };
        self.ahead = self.read()?;
        self.number += 1;
        self.ended = line.ends_with(b"\n");
        self.space = chomped(&line).to_vec();
        Ok(true)
    }

    fn out(&mut self, shell: &mut Shell, bytes: &[u8]) -> Done<()> {
        match &mut self.collected {
            None => Ok(shell.out(bytes)?),
            Some(all) if all.len() + bytes.len() > WHOLE_BYTES_MAX => {
                failed("the file grows too large")
            }
            Some(all) => {
                all.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    fn print(&mut self, shell: &mut Shell) -> Done<()> {
        let space = self.space.clone();
        self.out(shell, &space)?;
        if self.ended || self.ahead.is_some() { self.out(shell, b"\n") } else { Ok(()) }
    }

    fn end_cycle(&mut self, shell: &mut Shell) -> Done<()> {
        if !self.quiet {
            self.print(shell)?;
        }
        self.write_later(shell)
    }

    fn write_later(&mut self, shell: &mut Shell) -> Done<()> {
        let later = std::mem::take(&mut self.later);
        self.out(shell, &later)
    }

    fn cycle(&mut self, shell: &mut Shell) -> Done<Next> {
        let commands = self.commands;
        let mut at = 0;
        while let Some(command) = commands.get(at) {
            shell.worked(self.space.len())?;
            let applies = self.applies(at, command) != command.negated;
            at += 1;
            match &command.action {
                Action::Open(end) if !applies => at = end + 1,
                _ if !applies => {}
                Action::Branch { label, when } => {
                    if when.is_none_or(|when| when == self.substituted) {
                        at = self.place(label);
                    }
                    if when.is_some() {
                        self.substituted = false;
                    }
                }
                Action::DeleteFirst => {
                    self.write_later(shell)?;
                    let Some(end) = self.space.iter().position(|byte| *byte == b'\n') else {
                        return Ok(Next::Cycle);
                    };
                    self.space.drain(..=end);
                    return Ok(Next::Again);
                }
                Action::Delete => {
                    self.write_later(shell)?;
                    return Ok(Next::Cycle);
                }
                Action::Change(text) => {
                    let in_range = self.ranges.get(at - 1).is_some_and(Option::is_some);
                    if !in_range || command.negated {
                        self.out(shell, text.as_bytes())?;
                    }
                    self.write_later(shell)?;
                    return Ok(Next::Cycle);
                }
                Action::Quit { print, status } => {
                    return Ok(Next::Quit { print: *print, status: *status });
                }
                Action::Next => {
                    if self.ahead.is_none() {
                        return Ok(Next::Quit { print: true, status: 0 });
                    }
                    self.end_cycle(shell)?;
                    self.take()?;
                }
                Action::Join => {
                    if self.ahead.is_none() {
                        return Ok(Next::Quit { print: true, status: 0 });
                    }
                    self.write_later(shell)?;
                    let mut joined = std::mem::take(&mut self.space);
                    self.take()?;
                    joined.push(b'\n');
                    joined.append(&mut self.space);
                    self.space = bounded(joined)?;
                }
                action => self.act(shell, action)?,
            }
        }
        self.end_cycle(shell)?;
        Ok(Next::Cycle)
    }

    fn place(&self, label: &str) -> usize {
        let named =
            |command: &Command| matches!(&command.action, Action::Label(own) if own == label);
        let found = if label.is_empty() { None } else { self.commands.iter().position(named) };
        found.unwrap_or(self.commands.len())
    }

    fn act(&mut self, shell: &mut Shell, action: &'a Action) -> Done<()> {
        match action {
            Action::Substitute(substitute) => self.substitute(shell, substitute)?,
            Action::Translate(pairs) => {
                let new = |c| pairs.iter().find(|(from, _)| *from == c).map_or(c, |(_, to)| *to);
                self.space = lossy(&self.space).chars().map(new).collect::<String>().into_bytes();
            }
            Action::Print => self.print(shell)?,
            Action::PrintFirst => {
                let first = self.space.split(|byte| *byte == b'\n').next().unwrap_or_default();
                let line = [first, b"\n"].concat();
                self.out(shell, &line)?;
            }
            Action::Number => {
                let line = format!("{}\n", self.number);
                self.out(shell, line.as_bytes())?;
            }
            Action::Append(text) => self.later.extend_from_slice(text.as_bytes()),
            Action::Insert(text) => self.out(shell, text.as_bytes())?,
            Action::Hold { append: false } => self.hold.clone_from(&self.space),
            Action::Hold { append: true } => {
                self.hold.push(b'\n');
                self.hold.extend_from_slice(&self.space);
                self.hold = bounded(std::mem::take(&mut self.hold))?;
            }
            Action::Get { append: false } => self.space.clone_from(&self.hold),
            Action::Get { append: true } => {
                self.space.push(b'\n');
                self.space.extend_from_slice(&self.hold);
                self.space = bounded(std::mem::take(&mut self.space))?;
            }
            Action::Exchange => std::mem::swap(&mut self.space, &mut self.hold),
            Action::Read(name) => {
                // A file that is not there is an empty one, as POSIX has it.
                if let Ok(input) = shell.open(name) {
                    self.later.extend(input.all()?);
                }
            }
            Action::Write(name) => self.write(shell, name)?,
            _ => {}
        }
        Ok(())
    }

    fn write(&self, shell: &mut Shell, name: &str) -> Done<()> {
        let line = [&*self.space, b"\n"].concat();
        match name {
            "/dev/stdout" => Ok(shell.out(&line)?),
            _ => Ok(shell.sink(name, true)?.write(&line)?),
        }
    }

    fn applies(&mut self, at: usize, command: &'a Command) -> bool {
        let Some(first) = &command.first else { return true };
        let Some(second) = &command.second else { return self.matches(first) };
        match self.ranges.get(at).copied().flatten() {
            Some(Until::Line(last)) => {
                if self.number >= last {
                    self.set_range(at, None);
                }
                self.number <= last
            }
            Some(Until::Match) => {
                if self.matches(second) {
                    self.set_range(at, None);
                }
                true
            }
            None => {
                let starts = self.matches(first);
                if starts {
                    let until = match second {
                        Address::Line(last) => Until::Line(*last),
                        Address::More(more) => Until::Line(self.number + more),
                        _ => Until::Match,
                    };
                    let over = matches!(until, Until::Line(last) if last <= self.number)
                        || matches!(second, Address::Last) && self.ahead.is_none();
                    self.set_range(at, if over { None } else { Some(until) });
                }
                starts
            }
        }
    }

    fn set_range(&mut self, at: usize, until: Option<Until>) {
        if let Some(range) = self.ranges.get_mut(at) {
            *range = until;
        }
    }

    fn matches(&mut self, address: &'a Address) -> bool {
        match address {
            Address::Line(line) => self.number == *line,
            Address::Last => self.ahead.is_none(),
            Address::More(_) => false,
            Address::Step(first, 0) => self.number == *first,
            Address::Step(first, step) => {
                self.number >= *first && (self.number - first).is_multiple_of(*step)
            }
            Address::Matches(regex) => {
                self.regex(regex.as_ref()).is_some_and(|regex| regex.is_match(&self.space))
            }
        }
    }

    fn regex(&mut self, regex: Option<&'a Regex>) -> Option<&'a Regex> {
        self.last_regex = regex.or(self.last_regex);
        self.last_regex
    }

    fn substitute(&mut self, shell: &mut Shell, how: &'a Substitute) -> Done<()> {
        let Some(regex) = self.regex(how.regex.as_ref()) else {
            return failed("there is no expression before the empty one");
        };
        let Some(new) = replaced(&self.space, regex, how) else { return Ok(()) };
        self.space = bounded(new)?;
        self.substituted = true;
        if how.print {
            self.print(shell)?;
        }
        how.write.as_ref().map_or(Ok(()), |name| self.write(shell, name))
    }
}

fn bounded(space: Vec<u8>) -> Done<Vec<u8>> {
    if space.len() > WHOLE_BYTES_MAX {
        return failed(format!("a line has more than {WHOLE_BYTES_MAX} bytes"));
    }
    Ok(space)
}
