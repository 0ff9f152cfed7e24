//! Which command lines a profile's shell runs: `restricted`, and what both modes block.
//!
//! Under `restricted` a line is parsed, each program is looked for on a list by its absolute
//! path, and the line is written anew from the parse: what runs is what was understood. Under
//! `full` a line runs as it is, unless a blocked pattern is found in its text.
//!
//! This decides what is started, never what it may reach: that is the jail's, in either mode.
//! Deliberately absent: looking at the file system, which the caller does (`find`), and any
//! judgement of arguments but those that start other programs.

mod blocked;
mod parse;
mod policy;
mod programs;
mod render;
mod rules;
#[cfg(test)]
mod tests;
mod variables;

pub use self::blocked::{pattern, wildcard};
pub use self::policy::{Machine, ShellPolicy};
pub use self::rules::{Refusal, ShellRules};
pub use self::variables::check_variable;
