//! `awk`.
//!
//! Deliberately absent: what would run a command (`system`, pipes).

mod builtin;
mod evaluate;
mod expression;
mod lexer;
mod parser;
mod record;
mod run;
mod tree;
mod value;

use crate::options::Options;
use crate::shell::Shell;
use crate::stop::{Done, usage};

/// Variables that mean something, first among the globals, in this order.
const SPECIAL: [&str; 14] = [
    "NF", "NR", "FNR", "FS", "OFS", "ORS", "RS", "FILENAME", "SUBSEP", "RSTART", "RLENGTH",
    "CONVFMT", "OFMT", "ENVIRON",
];

/// Their places.
mod special {
    pub(super) const NF: usize = 0;
    pub(super) const NR: usize = 1;
    pub(super) const FNR: usize = 2;
    pub(super) const FS: usize = 3;
    pub(super) const OFS: usize = 4;
    pub(super) const ORS: usize = 5;
    pub(super) const RS: usize = 6;
    pub(super) const FILENAME: usize = 7;
    pub(super) const SUBSEP: usize = 8;
    pub(super) const RSTART: usize = 9;
    pub(super) const RLENGTH: usize = 10;
    pub(super) const CONVFMT: usize = 11;
    pub(super) const OFMT: usize = 12;
    pub(super) const ENVIRON: usize = 13;
}

pub(super) fn awk(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, operands) = Options::leading("F:v:f:", &[], arguments)?;
    let mut operands = operands.to_vec();
    let mut text = String::new();
    for name in options.values('f') {
        text.push_str(&super::lossy(&shell.open(name)?.all()?));
        text.push('\n');
    }
    if text.is_empty() {
        if operands.is_empty() {
            return usage("a program is missing");
        }
        text = operands.remove(0);
    }
    let program = parser::Parser::new(lexer::tokens(&text)?, &SPECIAL).parse()?;
    let mut run = run::Run::new(&program, operands);
    for line in shell.environment() {
        let (name, value) = line.split_once('=').unwrap_or((&line, ""));
        run.set_element(special::ENVIRON, name, value);
    }
    if let Some(separator) = options.value('F') {
        run.set_global("FS", if separator == "t" { "\t" } else { separator })?;
    }
    for assignment in options.values('v') {
        let Some((name, value)) = assignment.split_once('=') else {
            return usage(format!("-v {assignment}: = is missing"));
        };
        run.set_global(name, value)?;
    }
    run.all(shell)
}
