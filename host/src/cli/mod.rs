//! The command line: one file a verb, exit codes by who is to blame.
//!
//! Only this module (and `config`) knows arguments, environment and terminal.

/// As the standard library's, but for a reader who has gone: that is no reason to panic.
macro_rules! eprint {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        drop(write!(std::io::stderr(), $($text)*));
    }};
}

/// Prints one line to standard error, whatever is quoted in it: the name of a file may hold line breaks too.
macro_rules! eprintln {
    ($($text:tt)*) => {
        eprint!("{}\n", clawhost_core::visible::line(&format_args!($($text)*).to_string()))
    };
}

mod advice;
mod approvals;
mod args;
mod attack;
mod audit;
mod call;
mod compile;
mod completions;
mod compose;
mod discover;
mod doctor;
mod events;
mod explain;
mod fail;
mod hosts;
mod import;
mod inspect;
mod learn;
mod limits;
mod log;
mod login;
mod man;
mod new;
mod pins;
mod prompt;
mod proxy;
mod pull;
mod push;
mod quarantine;
mod question;
mod registry;
mod reload;
mod replay;
mod run;
mod secrets;
mod setup;
mod show;
mod stats;
mod switch;
mod tools;
mod validate;
mod verbs;
mod words;
mod wrap;

pub use self::verbs::main;
