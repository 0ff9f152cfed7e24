//! The commands that come with the shell: what scripts use of coreutils and its neighbours.
//!
//! Each is a function over the running shell, so that redirections, pipes and bounds are those
//! of the shell. Options are the ones people use; an unknown one is an error that lists them.

mod awk;
mod combine;
mod date;
mod diff;
mod digest;
mod echo;
mod expr;
mod find;
mod grep;
mod head_tail;
mod jq;
mod ls;
mod manage;
mod names;
mod order;
mod regex;
mod sed;
mod text;
mod translate;
mod tree;
mod xargs;

use crate::io::Input;
use crate::shell::{Shell, is_builtin};
use crate::stop::{Done, Fault, Stop};

/// A command: the arguments are those after its name.
pub(crate) type Run = fn(&mut Shell, &[String]) -> Done;

const COMMANDS: [(&str, Run); 48] = [
    ("awk", awk::awk),
    ("base64", digest::base64),
    ("basename", names::basename),
    ("cat", text::cat),
    ("cmp", diff::cmp),
    ("comm", combine::comm),
    ("cp", manage::cp),
    ("cut", text::cut),
    ("date", date::date),
    ("diff", diff::diff),
    ("dirname", names::dirname),
    ("echo", echo::echo),
    ("egrep", grep::egrep),
    ("env", xargs::env),
    ("expr", expr::expr),
    ("fgrep", grep::fgrep),
    ("find", find::find),
    ("fold", text::fold),
    ("grep", grep::grep),
    ("head", head_tail::head),
    ("jq", jq::jq),
    ("ls", ls::ls),
    ("mkdir", manage::mkdir),
    ("mktemp", manage::mktemp),
    ("mv", manage::mv),
    ("nl", text::nl),
    ("paste", combine::paste),
    ("printenv", xargs::printenv),
    ("printf", echo::printf),
    ("realpath", names::realpath),
    ("rev", text::rev),
    ("rm", manage::rm),
    ("rmdir", manage::rmdir),
    ("sed", sed::sed),
    ("seq", names::seq),
    ("sha256sum", digest::sha256sum),
    ("sort", order::sort),
    ("tac", text::tac),
    ("tail", head_tail::tail),
    ("tee", text::tee),
    ("touch", manage::touch),
    ("tr", translate::tr),
    ("tree", tree::tree),
    ("truncate", manage::truncate),
    ("uniq", order::uniq),
    ("wc", text::wc),
    ("xargs", xargs::xargs),
    ("yes", names::yes),
];

/// The command `name`, also by a path that systems keep commands at.
pub(crate) fn find(name: &str) -> Option<Run> {
    let plain = ["/usr/bin/", "/bin/"].iter().find_map(|folder| name.strip_prefix(folder));
    let name = plain.unwrap_or(name);
    COMMANDS.iter().find(|(own, _)| *own == name).map(|(_, run)| *run)
}

/// What is said of a command that is not there.
pub(crate) fn not_found(name: &str) -> String {
    debug_assert!(!is_builtin(name));
    let mut all: Vec<&str> = COMMANDS.iter().map(|(own, _)| *own).collect();
    all.sort_unstable();
    format!(
        "sh: {name}: not found. This shell runs no programs; beside its own words it has: {}\n",
        all.join(" ")
    )
}

/// Runs `each` over the operands, or standard input where there are none. What cannot be opened
/// is said, and makes the status 1.
fn inputs(
    shell: &mut Shell,
    operands: &[String],
    mut each: impl FnMut(&mut Shell, &str, &Input) -> Done<()>,
) -> Done {
    let stdin = ["-".to_owned()];
    let mut status = 0;
    for name in if operands.is_empty() { &stdin } else { operands } {
        match shell.open(name) {
            Ok(input) => each(shell, name, &input)?,
            Err(error) => {
                shell.complain(&format!("{name}: {}", error.0))?;
                status = 1;
            }
        }
    }
    Ok(status)
}

/// Everything the operands hold, one after the other.
fn whole(shell: &mut Shell, operands: &[String]) -> Done<(Vec<u8>, i32)> {
    let mut all = Vec::new();
    let status = inputs(shell, operands, |_, _, input| {
        all.extend_from_slice(&input.all()?);
        match all.len() > crate::limits::WHOLE_BYTES_MAX {
            true => Err(Fault::Stop(Stop::Fatal("the files are too large together".to_owned()))),
            false => Ok(()),
        }
    })?;
    Ok((all, status))
}

/// Lines without their ends.
fn lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    let body = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    let empty = bytes.is_empty();
    body.split(|byte| *byte == b'\n').filter(move |_| !empty)
}

/// A line without its end.
fn chomped(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\n").unwrap_or(line)
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
