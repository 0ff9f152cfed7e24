//! How a verb fails: what to print, and the exit code by who is to blame.

use std::io::ErrorKind;
use std::path::Path;

use clawhost_core::error::{CallError, exit};
use clawhost_core::manifest::DocumentError;
use clawhost_core::visible;
use miette::Diagnostic as _;

use super::log;

/// A verb that did not do what was asked.
#[derive(Debug)]
pub(super) enum Fail {
    /// The gate, a limit or the tool's deadline refused a call.
    Call(CallError),
    /// Documents are wrong: every problem of all of them.
    Documents(Vec<DocumentError>),
    /// Anything else: one sentence, a hint, and a code of [`exit`].
    Other { code: u8, reason: String, hint: Option<String> },
}

/// Passes errors on, with whose fault they are.
pub(super) trait Blame<T> {
    /// As a failure with `code`.
    fn or_fail(self, code: u8) -> Result<T, Fail>;
    /// As one of the file or folder at `path`.
    fn or_fail_at(self, code: u8, path: &Path) -> Result<T, Fail>;
}

impl<T, E: std::fmt::Display> Blame<T> for Result<T, E> {
    fn or_fail(self, code: u8) -> Result<T, Fail> {
        self.map_err(|error| Fail::new(code, error))
    }

    fn or_fail_at(self, code: u8, path: &Path) -> Result<T, Fail> {
        self.map_err(|error| Fail::new(code, format!("{}: {error}", path.display())))
    }
}

impl From<Vec<DocumentError>> for Fail {
    fn from(problems: Vec<DocumentError>) -> Self {
        Self::Documents(problems)
    }
}

impl Fail {
    /// Returns a failure with `code` that says `reason`.
    pub(super) fn new(code: u8, reason: impl std::fmt::Display) -> Self {
        Self::Other { code, reason: reason.to_string(), hint: None }
    }

    /// Returns a wrong use of the command line, with what would be right.
    pub(super) fn usage(reason: impl std::fmt::Display, hint: &str) -> Self {
        Self::Other { code: exit::USAGE, reason: reason.to_string(), hint: Some(hint.to_owned()) }
    }

    /// As [`Fail::usage`], of the file or folder at `path`.
    pub(super) fn usage_at(path: &Path, reason: impl std::fmt::Display, hint: &str) -> Self {
        Self::usage(format!("{}: {reason}", path.display()), hint)
    }

    /// Says why a folder cannot be made or written to.
    pub(super) fn unwritable(folder: &Path, error: &std::io::Error) -> Self {
        let shown = folder.display();
        match error.kind() {
            ErrorKind::AlreadyExists if folder.is_file() => {
                Self::usage_at(folder, "it is a file", "name a folder")
            }
            ErrorKind::AlreadyExists => {
                let hint = "nothing is overwritten: take another name";
                Self::usage(format!("{shown} is there already"), hint)
            }
            _ => Self::new(exit::UPSTREAM, format!("{shown}: {error}")),
        }
    }

    pub(super) fn code(&self) -> u8 {
        match self {
            Self::Call(error) => error.kind.exit_code(),
            Self::Documents(_) => exit::DOCUMENT,
            Self::Other { code, .. } => *code,
        }
    }

    /// Says why in a line.
    pub(super) fn reason(&self) -> String {
        match self {
            Self::Call(error) => error.to_string(),
            Self::Documents(errors) => {
                errors.iter().map(DocumentError::one_line).collect::<Vec<_>>().join("; ")
            }
            Self::Other { reason, .. } => reason.clone(),
        }
    }

    /// Prints to standard error; standard output carries results only.
    pub(super) fn print(&self) {
        match self {
            Self::Call(error) => print_call(error),
            Self::Documents(errors) => errors.iter().for_each(print_document),
            Self::Other { reason, hint, .. } => {
                eprintln!("error: {reason}");
                if let Some(hint) = hint {
                    eprintln!("hint: {hint}");
                }
            }
        }
    }
}

fn print_call(error: &CallError) {
    // A tool's own words have lines.
    eprint!("error {}: {}\n", error.kind.code(), visible::block(&error.message));
    for (key, value) in &error.data {
        eprintln!("  {key}: {value}");
    }
}

pub(super) fn print_document(error: &DocumentError) {
    let (mut text, report) = (String::new(), error.report());
    let handler = miette::GraphicalReportHandler::new_themed(theme());
    match handler.render_report(&mut text, &report) {
        Ok(()) if report.source_code().is_some() => eprint!("{text}"),
        // What is not shown has a line, a file that cannot be read has none.
        Ok(()) if (error.line, error.column) != (1, 1) => {
            eprint!("{text}  file: {}:{}:{}\n", error.file, error.line, error.column);
        }
        Ok(()) => eprint!("{text}  file: {}\n", error.file),
        Err(std::fmt::Error) => eprintln!("error: {}", error.one_line()),
    }
}

/// Colours on a terminal that wants them, plain characters everywhere else.
fn theme() -> miette::GraphicalTheme {
    if log::has_colours() {
        miette::GraphicalTheme::unicode()
    } else {
        miette::GraphicalTheme::none()
    }
}
