//! `sed`.
//!
//! Deliberately absent: back-references in patterns (see `regex`), `e`, and the `l` command.

mod parse;
mod replace;
mod run;

use crate::commands::regex::{Flavour, Regex};
use crate::commands::{inputs, lossy};
use crate::io::Input;
use crate::options::Options;
use crate::shell::Shell;
use crate::stop::{Done, failed, usage};

/// Where a command applies.
enum Address {
    Line(usize),
    Last,
    Matches(Option<Regex>),
    /// `first~step`.
    Step(usize, usize),
    /// `+N` after the first address.
    More(usize),
}

struct Command {
    first: Option<Address>,
    second: Option<Address>,
    negated: bool,
    action: Action,
}

enum Action {
    /// `{`: where the matching `}` is.
    Open(usize),
    Close,
    Substitute(Box<Substitute>),
    Translate(Vec<(char, char)>),
    Print,
    PrintFirst,
    Delete,
    DeleteFirst,
    Next,
    Join,
    Number,
    Quit {
        print: bool,
        status: i32,
    },
    Append(String),
    Insert(String),
    Change(String),
    Hold {
        append: bool,
    },
    Get {
        append: bool,
    },
    Exchange,
    /// A `:label`.
    Label(String),
    /// `when`: only after a substitution, or only without one.
    Branch {
        label: String,
        when: Option<bool>,
    },
    Read(String),
    Write(String),
}

impl Command {
    fn names_a_file(&self) -> bool {
        match &self.action {
            Action::Read(_) | Action::Write(_) => true,
            Action::Substitute(substitute) => substitute.write.is_some(),
            _ => false,
        }
    }
}

/// `--sandbox`, which has no letter of its own.
const SANDBOX: char = '!';

struct Substitute {
    regex: Option<Regex>,
    parts: Vec<Part>,
    global: bool,
    /// Which match is the first to be replaced.
    nth: usize,
    print: bool,
    write: Option<String>,
}

/// A part of what replaces a match.
enum Part {
    Text(String),
    Group(usize),
    /// `\U`, `\L`, `\u`, `\l`, `\E`.
    Case(char),
}

pub(super) fn sed(shell: &mut Shell, arguments: &[String]) -> Done {
    let (arguments, suffix) = in_place(arguments);
    let long = [
        ("sandbox", SANDBOX),
        ("quiet", 'n'),
        ("silent", 'n'),
        ("expression", 'e'),
        ("file", 'f'),
        ("regexp-extended", 'E'),
        ("separate", 's'),
    ];
    let (options, mut operands) = Options::all("ne:f:Ersu", &long, &arguments)?;
    let mut scripts: Vec<String> = options.values('e').map(str::to_owned).collect();
    for name in options.values('f') {
        scripts.push(lossy(&shell.open(name)?.all()?));
    }
    if scripts.is_empty() {
        if operands.is_empty() {
            return usage("a script is missing");
        }
        scripts.push(operands.remove(0));
    }
    let extended = options.has('E') || options.has('r');
    let flavour = if extended { Flavour::Extended } else { Flavour::Basic };
    let script = scripts.join("\n");
    let quiet = options.has('n') || script.starts_with("#n\n");
    let commands = parse::parse(&script, flavour)?;
    if options.has(SANDBOX) && commands.iter().any(Command::names_a_file) {
        return failed("r and w commands are not taken with --sandbox");
    }
    match suffix {
        Some(suffix) => edit(shell, &commands, quiet, &operands, &suffix),
        None => {
            let mut all: Vec<Input> = Vec::new();
            let status = inputs(shell, &operands, |_, _, input| {
                all.push(input.clone());
                Ok(())
            })?;
            let ended = run::Run::new(&commands, quiet, all).all(shell)?;
            Ok(if ended == 0 && status > 0 { 2 } else { ended })
        }
    }
}

/// Takes `-i` out, which has its value only glued to it.
fn in_place(arguments: &[String]) -> (Vec<String>, Option<String>) {
    let mut suffix = None;
    let mut kept = Vec::new();
    for argument in arguments {
        if let Some(rest) = argument.strip_prefix("--in-place") {
            suffix = Some(rest.trim_start_matches('=').to_owned());
        } else if let Some(rest) = argument.strip_prefix("-i") {
            let flags = rest.chars().all(|c| "nErs".contains(c));
            suffix = Some(if flags { String::new() } else { rest.to_owned() });
            if flags && !rest.is_empty() {
                kept.push(format!("-{rest}"));
            }
        } else if let Some(flags) = argument.strip_suffix('i').filter(|f| {
            f.len() > 1 && f.starts_with('-') && f.chars().skip(1).all(|c| "nErs".contains(c))
        }) {
            suffix = Some(String::new());
            kept.push(flags.to_owned());
        } else {
            kept.push(argument.clone());
        }
    }
    (kept, suffix)
}

/// Each file for itself, its output in its place.
fn edit(
    shell: &mut Shell,
    commands: &[Command],
    quiet: bool,
    names: &[String],
    suffix: &str,
) -> Done {
    let mut status = 0;
    for name in names {
        let bytes = match shell.open(name) {
            Ok(input) => input.all()?,
            Err(error) => {
                shell.complain(&format!("{name}: {}", error.0))?;
                status = 4;
                continue;
            }
        };
        if !suffix.is_empty() {
            shell.sink(&format!("{name}{suffix}"), false)?.write(&bytes)?;
        }
        let mut run = run::Run::new(commands, quiet, vec![Input::bytes(bytes)]);
        run.collected = Some(Vec::new());
        status = run.all(shell)?.max(status);
        let edited = run.collected.take().unwrap_or_default();
        shell.sink(name, false)?.write(&edited)?;
    }
    Ok(status)
}
