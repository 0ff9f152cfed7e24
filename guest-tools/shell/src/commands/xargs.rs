//! Commands that run commands: `xargs`, `env`; and `printenv`.

use crate::commands::lossy;
use crate::limits::FIELDS_MAX;
use crate::options::Options;
use crate::shell::Shell;
use crate::stop::{Done, Fault, Stop, usage};
use crate::syntax::is_name;

pub(super) fn xargs(shell: &mut Shell, arguments: &[String]) -> Done {
    let long = [
        ("null", '0'),
        ("max-args", 'n'),
        ("replace", 'I'),
        ("no-run-if-empty", 'r'),
        ("delimiter", 'd'),
        ("verbose", 't'),
        ("max-lines", 'L'),
    ];
    let (options, command) = Options::leading("0n:I:rd:tL:P:", &long, arguments)?;
    let input = shell.stdin().all()?;
    let text = lossy(&input);
    let lines = options.has('I') || options.has('L');
    let items = match options.value('d') {
        _ if options.has('0') => parts(&text, '\0'),
        Some("\\n") => parts(&text, '\n'),
        Some(text_of) => parts(&text, text_of.chars().next().unwrap_or('\n')),
        None if lines => {
            text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect()
        }
        None => words(&text)?,
    };
    if items.len() > FIELDS_MAX {
        return usage(format!("more than {FIELDS_MAX} arguments"));
    }
    let echo = ["echo".to_owned()];
    let command = if command.is_empty() { &echo } else { command };
    if let Some(mark) = options.value('I').filter(|mark| !mark.is_empty()) {
        let mut status = 0;
        for item in &items {
            let line: Vec<String> = command.iter().map(|word| word.replace(mark, item)).collect();
            status = worse(status, one(shell, &line, options.has('t'))?);
        }
        return Ok(status);
    }
    if items.is_empty() && options.has('r') {
        return Ok(0);
    }
    let group = options.at_least_one('n')?.or(options.at_least_one('L')?).unwrap_or(usize::MAX);
    let (mut status, mut items) = (0, items.into_iter());
    loop {
        let line = command.iter().cloned().chain(items.by_ref().take(group));
        let line: Vec<String> = line.collect();
        status = worse(status, one(shell, &line, options.has('t'))?);
        if items.as_slice().is_empty() {
            return Ok(status);
        }
    }
}

fn parts(text: &str, end: char) -> Vec<String> {
    text.strip_suffix(end)
        .unwrap_or(text)
        .split(end)
        .filter(|_| !text.is_empty())
        .map(str::to_owned)
        .collect()
}

fn one(shell: &mut Shell, line: &[String], show: bool) -> Done {
    if show {
        shell.say(&format!("{}\n", line.join(" ")))?;
    }
    let status = shell.subshell(&[], |shell| shell.invoke(line))?;
    match status {
        255 => Err(Fault::Status(124, "a command ended with 255".to_owned())),
        status => Ok(status),
    }
}

/// A command that is not there ends as itself; any other failure is 123.
fn worse(before: i32, status: i32) -> i32 {
    match status {
        0 => before,
        126 | 127 => status,
        _ => 123,
    }
}

/// Words with the quotes of `xargs`.
fn words(text: &str) -> Done<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = text.chars();
    while let Some(c) = letters.next() {
        match c {
            '\'' | '"' => {
                let own = word.get_or_insert_default();
                loop {
                    match letters.next() {
                        Some(end) if end == c => break,
                        Some('\n') | None => return usage(format!("a {c} is not closed")),
                        Some(inner) => own.push(inner),
                    }
                }
            }
            '\\' => word.get_or_insert_default().extend(letters.next()),
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

pub(super) fn env(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, mut rest) = Options::leading("iu:", &[], arguments)?;
    let mut set = Vec::new();
    while let Some((first, after)) = rest.split_first() {
        match first.split_once('=') {
            Some((name, value)) if is_name(name) => set.push((name, value)),
            _ => break,
        }
        rest = after;
    }
    let status = shell.subshell(&[], |shell| {
        let known: Vec<String> = shell.environment();
        for line in known {
            let name = line.split('=').next().unwrap_or_default();
            if options.has('i') || options.values('u').any(|gone| gone == name) {
                shell.state.variables.restore(name, None)?;
            }
        }
        for (name, value) in &set {
            shell.state.variables.set(name, value)?;
            shell.state.variables.export(name)?;
        }
        if rest.is_empty() {
            for line in shell.environment() {
                shell.line(&line)?;
            }
            return Ok(0);
        }
        shell.invoke(rest)
    });
    match status {
        Err(Stop::Exit(status)) => Ok(status),
        other => Ok(other?),
    }
}

pub(super) fn printenv(shell: &mut Shell, arguments: &[String]) -> Done {
    let Some(wanted) = arguments.first() else { return env(shell, &[]) };
    let all = shell.environment();
    match all.iter().find_map(|line| line.split_once('=').filter(|(name, _)| name == wanted)) {
        Some((_, value)) => {
            shell.line(value)?;
            Ok(0)
        }
        None => Ok(1),
    }
}
