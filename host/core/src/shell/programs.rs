//! Which programs a restricted shell runs by itself, and what they may not be told.

/// What of a program's arguments is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Rule {
    /// Nothing: no argument makes it start another program.
    Any,
    /// These options ([`is_option`]): they start other programs.
    Without(&'static [&'static str]),
    /// Nothing, but this argument comes first, which switches such things off.
    First(&'static str),
}

/// Programs that read, write, compare and count, but for the options refused here start no
/// other program and interpret no code. What they may reach is the jail's to say.
///
/// Deliberately absent: shells, interpreters and wrappers (`env`, `xargs`, `awk`, `git`, …), and
/// tools with a way to run others that no option switches off (`tar`, `split`, `less`).
const DEFAULT: &[(&str, Rule)] = &[
    ("[", Rule::Any),
    ("base64", Rule::Any),
    ("basename", Rule::Any),
    ("cat", Rule::Any),
    ("cksum", Rule::Any),
    ("cmp", Rule::Any),
    ("comm", Rule::Any),
    ("cp", Rule::Any),
    ("cut", Rule::Any),
    ("date", Rule::Any),
    // `pr`
    ("diff", Rule::Without(&["-l", "--paginate"])),
    ("dirname", Rule::Any),
    ("du", Rule::Any),
    ("echo", Rule::Any),
    ("expand", Rule::Any),
    ("expr", Rule::Any),
    ("false", Rule::Any),
    // The programs that decompress.
    ("file", Rule::Without(&["-z", "-Z", "--uncompress", "--uncompress-noreport"])),
    ("find", Rule::Without(&["-exec", "-ok"])),
    ("fold", Rule::Any),
    ("grep", Rule::Any),
    ("head", Rule::Any),
    ("join", Rule::Any),
    ("jq", Rule::Any),
    ("ln", Rule::Any),
    ("ls", Rule::Any),
    ("md5sum", Rule::Any),
    ("mkdir", Rule::Any),
    ("mv", Rule::Any),
    ("nl", Rule::Any),
    ("od", Rule::Any),
    ("paste", Rule::Any),
    ("printf", Rule::Any),
    ("pwd", Rule::Any),
    ("readlink", Rule::Any),
    ("realpath", Rule::Any),
    ("rm", Rule::Any),
    ("rmdir", Rule::Any),
    // `e` and `s///e` run commands.
    ("sed", Rule::First("--sandbox")),
    ("seq", Rule::Any),
    ("sha1sum", Rule::Any),
    ("sha256sum", Rule::Any),
    ("sha512sum", Rule::Any),
    ("sleep", Rule::Any),
    ("sort", Rule::Without(&["--compress-program"])),
    ("stat", Rule::Any),
    ("tac", Rule::Any),
    ("tail", Rule::Any),
    ("tee", Rule::Any),
    ("test", Rule::Any),
    ("touch", Rule::Any),
    ("tr", Rule::Any),
    ("true", Rule::Any),
    ("uname", Rule::Any),
    ("unexpand", Rule::Any),
    ("uniq", Rule::Any),
    ("wc", Rule::Any),
];

/// Programs that run whatever they are told: with one of them on the operator's list,
/// `restricted` keeps nothing from running but what the jail does. For a note, not for a
/// decision: other programs may do so, too.
const RUNS_ANYTHING: &[&str] = &[
    "awk", "bash", "busybox", "bun", "cargo", "cc", "dash", "deno", "docker", "ed", "env", "ex",
    "find", "gawk", "gcc", "gdb", "git", "go", "java", "less", "lua", "make", "man", "mawk",
    "more", "nawk", "nice", "node", "nohup", "npm", "npx", "parallel", "perl", "php", "pip",
    "python", "python3", "rg", "rsync", "ruby", "rustc", "sed", "setsid", "sh", "sort", "split",
    "ssh", "stdbuf", "strace", "tar", "tclsh", "time", "timeout", "unzip", "uv", "vi", "vim",
    "watch", "xargs", "zip", "zsh",
];

/// Returns the rule of a program that needs no list of the operator's.
pub(super) fn rule(name: &str) -> Option<Rule> {
    DEFAULT.iter().find(|(known, _)| *known == name).map(|(_, rule)| *rule)
}

/// Says whether a program may read `argument` as the option `refused`: `-x` among others behind
/// one `-`, where it may as well be part of a value; `--word` however it is shortened; `-word`
/// and what begins so.
pub(super) fn is_option(argument: &str, refused: &str) -> bool {
    let long = argument.strip_prefix("--").filter(|given| !given.is_empty());
    match (refused.strip_prefix("--"), long) {
        (Some(refused), Some(given)) => {
            given.split('=').next().is_some_and(|name| refused.starts_with(name))
        }
        (None, None) if refused.len() == 2 => {
            argument.starts_with('-') && refused.chars().skip(1).all(|c| argument.contains(c))
        }
        (None, _) => argument.starts_with(refused),
        (Some(_), None) => false,
    }
}

/// Returns the names of the programs that need no list.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    DEFAULT.iter().map(|(name, _)| *name)
}

/// Says whether a program, by name or path, is known to run whatever it is told.
pub(super) fn runs_anything(program: &str) -> bool {
    let name = program.rsplit('/').next().unwrap_or(program);
    RUNS_ANYTHING.contains(&name)
}
