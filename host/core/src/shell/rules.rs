//! What a profile says about command lines, and why one does not run.

use super::programs;
use crate::grants::Shell;

/// What a profile says about command lines beside the mode of its shell.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ShellRules {
    /// Commands that are refused (CKP 0.3.0, section 5.8), `*` and `?` standing for any text and
    /// any character: a single word is a program with any arguments, several are commands as
    /// they are written. A program's path stands for every program of its last name.
    pub blocked_commands: Vec<String>,
    /// Regular expressions; a command line that one of them is found in is refused.
    pub blocked_patterns: Vec<String>,
    /// Programs that `restricted` runs beside its own list, by name or absolute path and with
    /// any arguments.
    pub programs: Vec<String>,
}

impl ShellRules {
    /// Returns the rules of a call that both hold for: `own` and `other` are the two modes.
    #[must_use]
    pub fn within(mut self, own: &Shell, other: &Shell, rules: &Self) -> Self {
        self.blocked_commands.extend_from_slice(&rules.blocked_commands);
        self.blocked_patterns.extend_from_slice(&rules.blocked_patterns);
        match (own, other) {
            (_, Shell::Full) => {}
            (Shell::Full, _) => self.programs.clone_from(&rules.programs),
            _ => self.programs.retain(|program| rules.programs.contains(program)),
        }
        self
    }

    /// Returns those of the listed programs that make `restricted` as good as `full`.
    pub fn unbounded(&self) -> impl Iterator<Item = &str> {
        self.programs.iter().map(String::as_str).filter(|program| programs::runs_anything(program))
    }
}

/// Why a command line does not run, in a sentence for the caller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no program of this name, which nobody has to allow.
    #[error("there is no program `{0}`")]
    NoProgram(String),
    /// A rule is against it.
    #[error("{0}")]
    Rule(String),
}

impl Refusal {
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self::Rule(reason.into())
    }
}
