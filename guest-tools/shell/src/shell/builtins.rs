//! Commands that are part of the shell, since they look at it or change it.

use std::rc::Rc;

use super::run::NOT_FOUND;
use super::{Shell, read, settings, test};
use crate::commands::{self, Run as Builtin};
use crate::options::Options;
use crate::stop::{Done, Fault, Stop, usage};
use crate::syntax::is_name;
use crate::world::{FileError, Kind};

/// Those whose assignments stay, as POSIX has it.
const SPECIAL: [&str; 15] = [
    ":", ".", "source", "break", "continue", "eval", "exec", "exit", "export", "readonly",
    "return", "set", "shift", "trap", "unset",
];

/// All of them, with what they do.
pub(crate) const BUILTINS: [(&str, Builtin); 32] = [
    (":", |_, _| Ok(0)),
    (".", dot),
    ("source", dot),
    ("[", test::bracket),
    ("break", |shell, arguments| leave(shell, arguments, Stop::Break)),
    ("cd", cd),
    ("command", command),
    ("continue", |shell, arguments| leave(shell, arguments, Stop::Continue)),
    ("eval", |shell, arguments| Ok(shell.within(&arguments.join(" "))?)),
    ("exec", exec),
    ("exit", |shell, arguments| ends(shell, arguments, Stop::Exit)),
    ("export", export),
    ("false", |_, _| Ok(1)),
    ("getopts", getopts),
    ("local", local),
    ("pwd", |shell, _| Ok(shell.line(&format!("/{}", shell.state.folder)).map(|()| 0)?)),
    ("read", read::read),
    ("readonly", readonly),
    ("return", |shell, arguments| ends(shell, arguments, Stop::Return)),
    ("set", settings::set),
    ("sh", sh),
    ("shift", shift),
    ("test", test::test),
    ("times", |_, _| Ok(0)),
    ("trap", trap),
    ("true", |_, _| Ok(0)),
    ("type", type_),
    ("umask", |_, _| Ok(0)),
    ("unset", unset),
    ("wait", |_, _| Ok(0)),
    ("which", which),
    ("hash", |_, _| Ok(0)),
];

pub(super) fn is_special(name: &str) -> bool {
    SPECIAL.contains(&name)
}

/// Whether `name` is part of the shell.
pub(crate) fn is_builtin(name: &str) -> bool {
    find(name).is_some()
}

pub(super) fn find(name: &str) -> Option<Builtin> {
    BUILTINS.iter().find(|(own, _)| *own == name).map(|(_, run)| *run)
}

fn number(text: &str) -> Done<usize> {
    text.parse().or_else(|_| usage(format!("{text:?} is no number")))
}

fn leave(shell: &mut Shell, arguments: &[String], stop: fn(usize) -> Stop) -> Done {
    let wanted = arguments.first().map_or(Ok(1), |text| number(text))?;
    match wanted.min(shell.loops) {
        0 => Ok(0),
        loops => Err(Fault::Stop(stop(loops))),
    }
}

fn ends(shell: &mut Shell, arguments: &[String], stop: fn(i32) -> Stop) -> Done {
    let status = match arguments.first() {
        None => shell.status,
        Some(text) => i32::try_from(number(text)? & 255).unwrap_or(255),
    };
    Err(Fault::Stop(stop(status)))
}

fn dot(shell: &mut Shell, arguments: &[String]) -> Done {
    let Some(name) = arguments.first() else { return usage("a file is missing") };
    let text = shell.open(name)?.all()?;
    match shell.within(&String::from_utf8_lossy(&text)) {
        Err(Stop::Return(status)) => Ok(status),
        other => Ok(other?),
    }
}

fn cd(shell: &mut Shell, arguments: &[String]) -> Done {
    let back = shell.variable("OLDPWD");
    let target =
        match arguments.iter().find(|argument| !matches!(argument.as_str(), "-P" | "-L" | "--")) {
            None => "/",
            Some(dash) if dash == "-" => &back,
            Some(target) => target,
        };
    let trouble = |error: FileError| Fault::Status(2, format!("{target}: {}", error.0));
    let path = shell.path(target).map_err(trouble)?;
    if shell.files.stat(&path, true).map_err(trouble)?.kind != Kind::Folder {
        return usage(format!("{target}: Not a directory"));
    }
    let old = format!("/{}", shell.state.folder);
    shell.state.folder = if path == "." { String::new() } else { path };
    let new = format!("/{}", shell.state.folder);
    shell.state.variables.set("OLDPWD", &old)?;
    shell.state.variables.set("PWD", &new)?;
    if arguments.first().is_some_and(|argument| argument == "-") {
        shell.line(&new)?;
    }
    Ok(0)
}

fn command(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, line) = Options::leading("vVp", &[], arguments)?;
    if !options.has('v') && !options.has('V') {
        return Ok(shell.invoke(line)?);
    }
    which(shell, line)
}

fn which(shell: &mut Shell, names: &[String]) -> Done {
    let mut status = 0;
    for name in names {
        if shell.knows(name) {
            shell.line(name)?;
        } else {
            status = NOT_FOUND;
        }
    }
    Ok(status)
}

fn type_(shell: &mut Shell, names: &[String]) -> Done {
    let mut status = 0;
    for name in names {
        let what = match () {
            () if shell.state.functions.contains_key(name) => "is a shell function",
            () if shell.knows(name) => "is a shell builtin",
            () => {
                status = NOT_FOUND;
                "not found"
            }
        };
        shell.line(&format!("{name} {what}"))?;
    }
    Ok(status)
}

impl Shell {
    fn knows(&self, name: &str) -> bool {
        self.state.functions.contains_key(name)
            || is_builtin(name)
            || commands::find(name).is_some()
    }
}

fn exec(shell: &mut Shell, arguments: &[String]) -> Done {
    if arguments.is_empty() {
        shell.keep_fds = true;
        return Ok(0);
    }
    let status = shell.invoke(arguments)?;
    Err(Fault::Stop(Stop::Exit(status)))
}

/// Sets `name` or `name=value`, and returns the name.
fn declared<'a>(shell: &mut Shell, argument: &'a str) -> Done<&'a str> {
    let (name, value) = match argument.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (argument, None),
    };
    if !is_name(name) {
        return usage(format!("{name:?} is no variable name"));
    }
    if let Some(value) = value {
        shell.state.variables.set(name, value)?;
    }
    Ok(name)
}

fn export(shell: &mut Shell, arguments: &[String]) -> Done {
    if arguments.is_empty() || arguments.iter().any(|argument| argument == "-p") {
        for line in shell.environment() {
            shell.line(&format!("export {line}"))?;
        }
        return Ok(0);
    }
    for argument in arguments {
        let name = declared(shell, argument)?;
        shell.state.variables.export(name)?;
    }
    Ok(0)
}

impl Shell {
    /// What commands get as their environment, as `name=value`.
    pub(crate) fn environment(&self) -> Vec<String> {
        let exported = self.state.variables.iter().filter(|(_, variable)| variable.exported);
        exported
            .filter_map(|(name, variable)| Some(format!("{name}={}", variable.value.as_ref()?)))
            .collect()
    }
}

fn readonly(shell: &mut Shell, arguments: &[String]) -> Done {
    for argument in arguments {
        let name = declared(shell, argument)?;
        shell.state.variables.make_readonly(name)?;
    }
    Ok(0)
}

fn local(shell: &mut Shell, arguments: &[String]) -> Done {
    for argument in arguments {
        let name = argument.split('=').next().unwrap_or_default();
        if !shell.localise(name) {
            return usage("only a function has variables of its own");
        }
        declared(shell, argument)?;
    }
    Ok(0)
}

fn unset(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, names) = Options::leading("fv", &[], arguments)?;
    for name in names {
        if options.has('f') {
            shell.state.functions.remove(name);
        } else if shell.state.variables.saved(name).is_some_and(|variable| variable.readonly) {
            return usage(format!("{name}: is read only"));
        } else {
            shell.state.variables.restore(name, None)?;
        }
    }
    Ok(0)
}

fn shift(shell: &mut Shell, arguments: &[String]) -> Done {
    let by = arguments.first().map_or(Ok(1), |text| number(text))?;
    match shell.state.parameters.get(by..) {
        Some(rest) => {
            shell.state.parameters = Rc::new(rest.to_vec());
            Ok(0)
        }
        None => Err(Fault::Stop(Stop::Exit(2))),
    }
}

/// Only the end of the shell can be waited for: there are no signals.
fn trap(shell: &mut Shell, arguments: &[String]) -> Done {
    let Some((action, events)) = arguments.split_first() else { return Ok(0) };
    if events.iter().any(|event| event == "EXIT" || event == "0") {
        shell.state.trap = if action == "-" { None } else { Some(action.as_str().into()) };
    }
    Ok(0)
}

fn sh(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, rest) = Options::leading("ceux", &[], arguments)?;
    let switches: String = "eux".chars().filter(|c| options.has(*c)).collect();
    let before = if switches.is_empty() { String::new() } else { format!("set -{switches}\n") };
    match rest.split_first() {
        Some((script, rest)) if options.has('c') => {
            let script = format!("{before}{script}");
            Ok(shell.child(&script, rest.get(1..).unwrap_or_default())?)
        }
        Some((file, rest)) => Ok(shell.script_file(file, rest)?),
        None => {
            let text = shell.stdin().all()?;
            Ok(shell.child(&String::from_utf8_lossy(&text), &[])?)
        }
    }
}

fn getopts(shell: &mut Shell, arguments: &[String]) -> Done {
    let [known, name, given @ ..] = arguments else { return usage("getopts OPTIONS NAME") };
    let parameters = Rc::clone(&shell.state.parameters);
    let all = if given.is_empty() { parameters.as_slice() } else { given };
    let mut index: usize = shell.variable("OPTIND").parse().unwrap_or(1).max(1);
    let at = shell.state.getopts_at.max(1);
    let current = all.get(index - 1).filter(|text| text.len() > 1 && text.starts_with('-'));
    let Some(letter) = current
        .and_then(|text| text.chars().nth(at))
        .filter(|_| current.is_some_and(|text| text != "--"))
    else {
        if current.is_some_and(|text| text == "--") {
            index += 1;
        }
        return end_of_options(shell, name, index);
    };
    let rest: String = current.map(|text| text.chars().skip(at + 1).collect()).unwrap_or_default();
    let silent = known.starts_with(':');
    let place = known.find(letter).filter(|_| letter != ':');
    let wants = place.is_some_and(|at| known.get(at + 1..).is_some_and(|k| k.starts_with(':')));
    let mut value = None;
    let mut result = letter.to_string();
    shell.state.getopts_at = 0;
    match () {
        () if wants && !rest.is_empty() => value = Some(rest),
        () if wants => {
            index += 1;
            value = all.get(index - 1).cloned();
        }
        () if rest.is_empty() => {}
        () => shell.state.getopts_at = at + 1,
    }
    if shell.state.getopts_at == 0 {
        index += 1;
    }
    if place.is_none() || (wants && value.is_none()) {
        value = silent.then(|| letter.to_string());
        result = if silent && place.is_some() { ":" } else { "?" }.to_owned();
        if !silent {
            shell.complain(&format!("-{letter} is unknown or needs a value"))?;
        }
    }
    shell.state.variables.set("OPTIND", &index.to_string())?;
    shell.state.variables.set(name, &result)?;
    match value {
        Some(value) => shell.state.variables.set("OPTARG", &value)?,
        None => shell.state.variables.restore("OPTARG", None)?,
    }
    Ok(0)
}

fn end_of_options(shell: &mut Shell, name: &str, index: usize) -> Done {
    shell.state.getopts_at = 0;
    shell.state.variables.set("OPTIND", &index.to_string())?;
    shell.state.variables.set(name, "?")?;
    Ok(1)
}
