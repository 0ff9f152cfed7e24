//! The execution of a script's tree.

use std::rc::Rc;

use super::builtins::{self, is_special};
use super::variables::Variable;
use super::{Shell, State};
use crate::commands;
use crate::io::{Buffer, Fd, Input, Overflow, Sink};
use crate::limits::PIPE_BYTES_MAX;
use crate::path;
use crate::pattern::Pattern;
use crate::stop::{Run, Stop};
use crate::syntax::{AndOr, Command, Compound, Join, List, Pipeline, Redirect, Simple, Word};

/// What `command` and the shell's own commands cannot be found as.
pub(crate) const NOT_FOUND: i32 = 127;

impl Shell {
    pub(crate) fn list(&mut self, list: &List) -> Run {
        let mut status = 0;
        for and_or in list {
            status = self.and_or(and_or)?;
        }
        Ok(status)
    }

    fn and_or(&mut self, and_or: &AndOr) -> Run {
        let mut last = &and_or.first;
        let mut status = self.tested_unless(and_or.rest.is_empty(), |s| s.pipeline(last))?;
        let mut ran_last = and_or.rest.is_empty();
        for (index, (join, pipeline)) in and_or.rest.iter().enumerate() {
            if (*join == Join::And) != (status == 0) {
                continue;
            }
            last = pipeline;
            ran_last = index + 1 == and_or.rest.len();
            status = self.tested_unless(ran_last, |shell| shell.pipeline(pipeline))?;
        }
        let fails = status != 0 && ran_last && last.can_fail();
        if fails && self.tested == 0 && self.state.options.exit_on_error {
            return Err(Stop::Exit(status));
        }
        Ok(status)
    }

    /// Runs something whose failure is an answer, unless `counts`.
    fn tested_unless(&mut self, counts: bool, run: impl FnOnce(&mut Self) -> Run) -> Run {
        self.tested += usize::from(!counts);
        let status = run(self);
        self.tested -= usize::from(!counts);
        status
    }

    fn pipeline(&mut self, pipeline: &Pipeline) -> Run {
        let status = self.tested_unless(!pipeline.negated, |shell| match &*pipeline.stages {
            [one] => shell.command(one),
            stages => shell.stages(stages),
        })?;
        self.status = if pipeline.negated { i32::from(status == 0) } else { status };
        Ok(self.status)
    }

    /// One stage after the other, each with the whole output of the one before it.
    fn stages(&mut self, stages: &[Command]) -> Run {
        let mut status = 0;
        let mut input: Option<Input> = None;
        for (index, stage) in stages.iter().enumerate() {
            let buffer = Buffer::new(PIPE_BYTES_MAX, Overflow::Stop);
            let mut fds: Vec<(u32, Fd)> =
                input.take().map(|i| (0, Fd::Input(i))).into_iter().collect();
            if index + 1 < stages.len() {
                fds.push((1, Fd::Output(Sink::Memory(Rc::clone(&buffer)))));
            }
            status = self.subshell(&fds, |shell| shell.command(stage))?;
            input = Some(Input::pipe(&buffer));
        }
        Ok(status)
    }

    /// Runs something that changes nothing of this shell, with some descriptors replaced.
    pub(crate) fn subshell(
        &mut self,
        fds: &[(u32, Fd)],
        run: impl FnOnce(&mut Self) -> Run,
    ) -> Run {
        self.flush()?;
        let state = State { trap: None, ..self.state.clone() };
        let saved = std::mem::replace(&mut self.state, state);
        let (saved_fds, loops) = (self.replace_fds(fds), std::mem::take(&mut self.loops));
        let result = self.deeper(|shell| {
            let result = run(shell);
            shell.ended(result)
        });
        if result.is_err() {
            // What was written before a bound was reached belongs to whoever reads it.
            let _ = self.flush();
            self.pending.clear();
        }
        (self.state, self.fds, self.loops) = (saved, saved_fds, loops);
        match result {
            // As a process that writes into a pipe nobody reads.
            Err(Stop::PipeFull) if fds.iter().any(|(fd, _)| *fd == 1) => Ok(141),
            other => other,
        }
    }

    fn command(&mut self, command: &Command) -> Run {
        self.tick()?;
        match command {
            Command::Simple(simple) => self.simple(simple),
            Command::Function { name, body } => {
                self.state.functions.insert(name.clone(), Rc::clone(body));
                Ok(0)
            }
            Command::Compound { body, redirects } => {
                self.redirected(redirects, |shell| shell.compound(body))
            }
        }
    }

    fn redirected(&mut self, redirects: &[Redirect], run: impl FnOnce(&mut Self) -> Run) -> Run {
        if redirects.is_empty() {
            return run(self);
        }
        self.flush()?;
        let saved = self.fds.clone();
        let result = match self.redirect(redirects) {
            Ok(true) => run(self).and_then(|status| self.flush().map(|()| status)),
            Ok(false) => Ok(2),
            Err(stop) => Err(stop),
        };
        if result.is_err() && self.flush().is_err() {
            self.pending.clear();
        }
        if !std::mem::take(&mut self.keep_fds) {
            self.fds = saved;
        }
        result
    }

    fn compound(&mut self, body: &Compound) -> Run {
        match body {
            Compound::Group(list) => self.list(list),
            Compound::Subshell(list) => self.subshell(&[], |shell| shell.list(list)),
            Compound::If { branches, otherwise } => {
                for (condition, body) in branches {
                    if self.tested_unless(false, |shell| shell.list(condition))? == 0 {
                        return self.list(body);
                    }
                }
                otherwise.as_ref().map_or(Ok(0), |body| self.list(body))
            }
            Compound::For { name, words, body } => self.for_(name, words.as_deref(), body),
            Compound::While { until, condition, body } => self.while_(*until, condition, body),
            Compound::Case { word, arms } => self.case(word, arms),
        }
    }

    fn for_(&mut self, name: &str, words: Option<&[Word]>, body: &List) -> Run {
        let values = match words {
            Some(words) => self.fields(words)?,
            None => self.state.parameters.to_vec(),
        };
        let mut status = 0;
        for value in values {
            self.tick()?;
            self.state.variables.set(name, &value)?;
            match self.turn(body)? {
                Some(turned) => status = turned,
                None => break,
            }
        }
        Ok(status)
    }

    fn while_(&mut self, until: bool, condition: &List, body: &List) -> Run {
        let mut status = 0;
        loop {
            self.tick()?;
            let test = self.turn_of(|s| s.tested_unless(false, |shell| shell.list(condition)))?;
            let Some(test) = test else { return Ok(status) };
            if (test == 0) == until {
                return Ok(status);
            }
            match self.turn(body)? {
                Some(turned) => status = turned,
                None => return Ok(status),
            }
        }
    }

    /// One turn of a loop; `None` where it is left.
    fn turn(&mut self, body: &List) -> Run<Option<i32>> {
        self.turn_of(|shell| shell.list(body))
    }

    fn turn_of(&mut self, run: impl FnOnce(&mut Self) -> Run) -> Run<Option<i32>> {
        self.loops += 1;
        let result = run(self);
        self.loops -= 1;
        match result {
            Ok(status) => Ok(Some(status)),
            Err(Stop::Break(1)) => Ok(None),
            Err(Stop::Continue(1)) => Ok(Some(0)),
            Err(Stop::Break(more)) => Err(Stop::Break(more - 1)),
            Err(Stop::Continue(more)) => Err(Stop::Continue(more - 1)),
            Err(stop) => Err(stop),
        }
    }

    fn case(&mut self, word: &Word, arms: &[(Vec<Word>, List)]) -> Run {
        let text = self.text(word)?;
        for (patterns, body) in arms {
            for pattern in patterns {
                if Pattern::new(&self.pattern(pattern)?).matches(&text) {
                    return self.list(body);
                }
            }
        }
        Ok(0)
    }

    /// Notes how a `$(…)` ended: the status of a command that is nothing else.
    pub(crate) fn substituted(&mut self, status: i32) {
        self.substituted = status;
        self.status = status;
    }

    fn simple(&mut self, simple: &Simple) -> Run {
        self.substituted = 0;
        let line = self.fields(&simple.words)?;
        let Some(name) = line.first().cloned() else {
            return self.redirected(&simple.redirects, |shell| {
                shell.assign(&simple.assigns)?;
                Ok(shell.substituted)
            });
        };
        let function = self.state.functions.get(&name).cloned();
        let stays = function.is_none() && is_special(&name);
        let mut before = Vec::new();
        for (own, value) in &simple.assigns {
            let value = self.text(value)?;
            before.push((own, self.state.variables.saved(own)));
            self.set_exported(own, &value, !stays)?;
        }
        self.trace(&line)?;
        let result = self.redirected(&simple.redirects, |shell| match function {
            Some(body) => shell.function(&body, line.get(1..).unwrap_or_default()),
            None => shell.invoke(&line),
        });
        if !stays {
            for (own, saved) in before.into_iter().rev() {
                self.state.variables.restore(own, saved)?;
            }
        }
        result
    }

    fn set_exported(&mut self, name: &str, value: &str, export: bool) -> Run<()> {
        self.state.variables.set(name, value)?;
        if export { self.state.variables.export(name) } else { Ok(()) }
    }

    fn assign(&mut self, assigns: &[(String, Word)]) -> Run<()> {
        for (name, word) in assigns {
            let value = self.text(word)?;
            if self.state.options.trace {
                self.say(&format!("+ {name}={value}\n"))?;
            }
            self.state.variables.set(name, &value)?;
        }
        Ok(())
    }

    fn trace(&mut self, line: &[String]) -> Run<()> {
        match self.state.options.trace {
            true => self.say(&format!("+ {}\n", line.join(" "))),
            false => Ok(()),
        }
    }

    fn function(&mut self, body: &Command, arguments: &[String]) -> Run {
        let parameters = Rc::new(arguments.to_vec());
        let saved = std::mem::replace(&mut self.state.parameters, parameters);
        let loops = std::mem::take(&mut self.loops);
        self.state.locals.push(Vec::new());
        let result = self.deeper(|shell| shell.command(body));
        self.state.parameters = saved;
        self.loops = loops;
        for (name, saved) in self.state.locals.pop().unwrap_or_default().into_iter().rev() {
            self.state.variables.restore(&name, saved)?;
        }
        match result {
            Err(Stop::Return(status)) => Ok(status),
            other => other,
        }
    }

    /// Remembers what a variable was before the running function made it its own.
    pub(super) fn localise(&mut self, name: &str) -> bool {
        let saved: Option<Variable> = self.state.variables.saved(name);
        let Some(locals) = self.state.locals.last_mut() else { return false };
        locals.push((name.to_owned(), saved));
        true
    }

    /// Runs a command by its name: one of the shell's, one of ours, or a script.
    pub(crate) fn invoke(&mut self, line: &[String]) -> Run {
        let Some((name, arguments)) = line.split_first() else { return Ok(0) };
        let running = std::mem::replace(&mut self.running, path::base(name).to_owned());
        let done = match builtins::find(name).or_else(|| commands::find(name)) {
            Some(command) => {
                let done = command(self, arguments);
                self.settled(done)
            }
            None if name.contains('/') => self.script_file(name, arguments),
            None => self.say(&commands::not_found(name)).map(|()| NOT_FOUND),
        };
        self.running = running;
        let status = done?;
        self.flush()?;
        Ok(status)
    }

    /// Runs a file as a script of this shell.
    pub(super) fn script_file(&mut self, name: &str, arguments: &[String]) -> Run {
        let text = match self.open(name) {
            Ok(input) => String::from_utf8_lossy(&input.all()?).into_owned(),
            Err(error) => {
                self.say(&format!("sh: {name}: {}\n", error.0))?;
                return Ok(NOT_FOUND);
            }
        };
        self.child(&text, arguments)
    }

    /// Runs a text as a script of its own.
    pub(super) fn child(&mut self, text: &str, arguments: &[String]) -> Run {
        self.subshell(&[], |shell| {
            shell.state.parameters = Rc::new(arguments.to_vec());
            shell.state.options = super::Options::default();
            shell.state.functions.clear();
            shell.state.variables.keep_exported();
            shell.script(text)
        })
    }

    /// Runs a text in this shell, as `eval` and `.` do.
    pub(super) fn within(&mut self, text: &str) -> Run {
        self.deeper(|shell| shell.script(text))
    }
}

impl Pipeline {
    /// Whether its failure is one of its own: what is grouped has been looked at inside.
    fn can_fail(&self) -> bool {
        match &*self.stages {
            _ if self.negated => false,
            [Command::Compound { body, .. }] => matches!(body, Compound::Subshell(_)),
            _ => true,
        }
    }
}
