//! The rules of one profile, and what runs by them.

use std::path::{Component, Path, PathBuf};

use super::blocked::{self, Blocked};
use super::parse::{self, Simple, Target, Word};
use super::programs::{self, Rule};
use super::render;
use super::rules::{Refusal, ShellRules};
use super::variables::check_variable;
use crate::grants::Shell;

/// What a policy asks of its caller.
#[derive(Clone, Copy)]
pub struct Machine<'m> {
    /// Finds a program: a name in the fixed folders of programs, an absolute path as it is.
    /// Returns its path with all links in the folder's name resolved, and none in its own.
    pub find: &'m dyn Fn(&str) -> Option<PathBuf>,
    /// Says whether the caller's time is over: what is not decided by then is refused.
    pub is_over: &'m dyn Fn() -> bool,
}

shows!(Machine<'_> {});

/// The rules of one profile, ready to decide.
#[derive(Debug)]
pub struct ShellPolicy {
    is_full: bool,
    pub(super) programs: Vec<String>,
    blocked: Blocked,
}

impl ShellPolicy {
    /// Returns the policy of `rules` under `mode`.
    ///
    /// # Errors
    /// A pattern that is none, or too large.
    pub fn new(mode: &Shell, rules: &ShellRules) -> Result<Self, String> {
        Ok(Self {
            is_full: *mode == Shell::Full,
            programs: rules.programs.clone(),
            blocked: Blocked::new(rules)?,
        })
    }

    /// Says whether command lines run as they are.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Returns the text for a shell that stands for `line`, whose redirections and changes of
    /// directory stay inside `mounts`.
    ///
    /// # Errors
    /// What of the line is not understood or not allowed.
    pub fn line(
        &self,
        line: &str,
        mounts: &[&Path],
        machine: Machine<'_>,
    ) -> Result<String, Refusal> {
        if line.contains('\0') {
            return Err(Refusal::new("a command line holds no NUL"));
        }
        self.blocked.search(line, machine.is_over)?;
        if self.is_full {
            return Ok(line.to_owned());
        }
        let listed = self.listed(machine);
        let [mut script, mut plain, mut words, mut commands] = [const { String::new() }; 4];
        for command in parse::parse(line)? {
            command.check(mounts)?;
            let program = match command.change_of_directory(mounts)? {
                true => Program { path: "cd".to_owned(), first: Some("--") },
                false => self.admit(&command.words, &listed, machine)?,
            };
            script.push_str(&render::command(&command, &program.quoted(), render::quoted));
            let joint = render::operator(command.joint);
            let name = command.words.first().map(Word::text).unwrap_or_default();
            plain.push_str(&render::command(&command, &name, str::to_owned));
            words.push_str(&format!("{joint}{}", text_of(&command.words)));
            commands.push_str(&blocked::marked(joint, program.name(), &command.words));
        }
        self.blocked.search(&plain, machine.is_over)?;
        self.blocked.search(&words, machine.is_over)?;
        self.blocked.search_commands(&commands, machine.is_over)?;
        Ok(script)
    }

    /// Returns what runs for `argv`, a program and its arguments: the same, with the program's
    /// path.
    ///
    /// # Errors
    /// The program is not there or not allowed, or an argument is not.
    pub fn argv(&self, argv: &[String], machine: Machine<'_>) -> Result<Vec<String>, Refusal> {
        let words: Vec<Word> = argv.iter().map(|text| Word::from(text.as_str())).collect();
        self.blocked.search(&text_of(&words), machine.is_over)?;
        let program = self.admit(&words, &self.listed(machine), machine)?;
        let commands = blocked::marked("", program.name(), &words);
        self.blocked.search_commands(&commands, machine.is_over)?;
        let arguments = argv.iter().skip(1).cloned();
        Ok([program.path]
            .into_iter()
            .chain(program.first.map(str::to_owned))
            .chain(arguments)
            .collect())
    }

    /// Returns where the operator's programs lie.
    fn listed(&self, machine: Machine<'_>) -> Vec<PathBuf> {
        self.programs.iter().filter_map(|listed| (machine.find)(listed)).collect()
    }

    /// Admits a program with its arguments.
    fn admit(
        &self,
        words: &[Word],
        listed: &[PathBuf],
        machine: Machine<'_>,
    ) -> Result<Program, Refusal> {
        let Some((name, arguments)) = words.split_first() else {
            return Err(Refusal::new("no program is named"));
        };
        if name.is_pattern() {
            return Err(Refusal::new("a program is named, not matched by a pattern"));
        }
        let name = name.text();
        let path = (machine.find)(&name);
        let rule = match self.is_full {
            true => Some(Rule::Any),
            false => path.as_deref().and_then(|path| rule(path, listed, machine)),
        };
        let (Some(path), Some(rule)) = (path, rule) else {
            return Err(self.not_listed(&name, machine));
        };
        let Some(path) = path.to_str().map(str::to_owned) else {
            return Err(Refusal::new("the path of the program is no text"));
        };
        let first = match rule {
            Rule::First(first) => Some(first),
            Rule::Without(refused) => check_arguments(&name, arguments, refused).map(|()| None)?,
            Rule::Any => None,
        };
        Ok(Program { path, first })
    }

    fn not_listed(&self, name: &str, machine: Machine<'_>) -> Refusal {
        if self.is_full {
            return Refusal::NoProgram(name.to_owned());
        }
        let is_there = |known: &&str| (machine.find)(known).is_some();
        let mut known: Vec<&str> = programs::names().filter(is_there).collect();
        known.extend(self.programs.iter().map(String::as_str).filter(is_there));
        Refusal::new(format!("`{name}` is no program of the list: cd, {}", known.join(", ")))
    }
}

/// Returns the rule of the program at `path`, if it is among those `listed` or needs no list.
fn rule(path: &Path, listed: &[PathBuf], machine: Machine<'_>) -> Option<Rule> {
    if listed.iter().any(|listed| listed == path) {
        return Some(Rule::Any);
    }
    let name = path.file_name()?.to_str()?;
    programs::rule(name).filter(|_| (machine.find)(name).as_deref() == Some(path))
}

/// An admitted program.
struct Program {
    path: String,
    /// An argument that comes before those it is given.
    first: Option<&'static str>,
}

impl Program {
    /// Returns the last part of its path.
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    fn quoted(&self) -> String {
        let words: Vec<String> =
            [self.path.as_str()].into_iter().chain(self.first).map(render::quoted).collect();
        words.join(" ")
    }
}

impl Simple {
    /// Checks variables and redirections.
    fn check(&self, mounts: &[&Path]) -> Result<(), Refusal> {
        self.assignments.iter().try_for_each(|(name, value)| check_variable(name, value))?;
        for redirect in &self.redirects {
            match &redirect.target {
                Target::File(_, path) if path != NOWHERE => check_inside(path, mounts)?,
                Target::File(..) | Target::Stream(_) => {}
            }
        }
        Ok(())
    }

    /// Says whether it is `cd DIR`, the one command that the shell itself carries out.
    fn change_of_directory(&self, mounts: &[&Path]) -> Result<bool, Refusal> {
        let words: Vec<String> = self.words.iter().map(Word::text).collect();
        match words.as_slice() {
            [cd, ..] if cd != "cd" => Ok(false),
            [_, to] if !to.starts_with('-') && !self.words.iter().any(Word::is_pattern) => {
                check_inside(to, mounts).map(|()| true)
            }
            _ => Err(Refusal::new("`cd` takes one directory")),
        }
    }
}

/// The one device that a stream may be connected to.
const NOWHERE: &str = "/dev/null";

/// Checks that a path leads into a mount by its text. Where links lead is the jail's to see.
fn check_inside(path: &str, mounts: &[&Path]) -> Result<(), Refusal> {
    let path = Path::new(path);
    let is_plain = path.components().all(|part| part != Component::ParentDir);
    let inside = path.is_relative() || mounts.iter().any(|mount| path.starts_with(mount));
    match is_plain && inside && !path.as_os_str().is_empty() {
        true => Ok(()),
        false => {
            Err(Refusal::new(format!("`{}` is outside the granted directories", path.display())))
        }
    }
}

fn check_arguments(name: &str, arguments: &[Word], refused: &[&str]) -> Result<(), Refusal> {
    for argument in arguments {
        let text = argument.text();
        if let Some(refused) = refused.iter().find(|refused| programs::is_option(&text, refused)) {
            let why = format!("`{refused}` makes `{name}` start other programs");
            return Err(Refusal::new(match text == *refused {
                true => why,
                false => format!(
                    "{why}, and `{text}` may be read as it: write an option's value as a word of its own"
                ),
            }));
        }
        // A file may be called like an option.
        if argument.is_pattern() && text.starts_with(['*', '?', '[', '-']) {
            return Err(Refusal::new(format!(
                "`{text}` could become an option of `{name}`: write `./{text}`"
            )));
        }
    }
    Ok(())
}

/// Returns words with one blank between them, quotes taken off.
fn text_of(words: &[Word]) -> String {
    words.iter().map(Word::text).collect::<Vec<_>>().join(" ")
}
