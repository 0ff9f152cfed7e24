//! `read`: a line into variables.

use super::Shell;
use crate::options::Options;
use crate::stop::Done;

/// A character, and whether a backslash kept it from meaning anything.
type Letter = (char, bool);

pub(super) fn read(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, names) = Options::leading("rp:", &[], arguments)?;
    if let Some(prompt) = options.value('p') {
        shell.say(prompt)?;
    }
    let (letters, ended) = line(shell, options.has('r'))?;
    let separators = shell.state.variables.get("IFS").unwrap_or_else(|| " \t\n".into());
    let default = ["REPLY".to_owned()];
    let names = if names.is_empty() { &default } else { names };
    let mut rest = letters.as_slice();
    for (index, name) in names.iter().enumerate() {
        let value = if index + 1 == names.len() {
            last(rest, &separators)
        } else {
            let (value, after) = first(rest, &separators);
            rest = after;
            value
        };
        shell.state.variables.set(name, &value)?;
    }
    Ok(i32::from(!ended))
}

/// The next line, and whether its end was there.
fn line(shell: &mut Shell, raw: bool) -> Done<(Vec<Letter>, bool)> {
    let input = shell.stdin();
    let mut letters = Vec::new();
    loop {
        let Some(bytes) = input.line()? else { return Ok((letters, false)) };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let ended = text.ends_with('\n');
        let mut rest = text.strip_suffix('\n').unwrap_or(&text).chars();
        let mut joined = false;
        while let Some(c) = rest.next() {
            match rest.as_str().chars().next() {
                _ if raw || c != '\\' => letters.push((c, false)),
                Some(next) => {
                    rest.next();
                    letters.push((next, true));
                }
                None => joined = ended,
            }
        }
        if !joined {
            return Ok((letters, ended));
        }
    }
}

fn blank(letter: &Letter, separators: &str) -> bool {
    !letter.1 && matches!(letter.0, ' ' | '\t' | '\n') && separators.contains(letter.0)
}

fn separates(letter: &Letter, separators: &str) -> bool {
    !letter.1 && separators.contains(letter.0)
}

fn skip<'a>(letters: &'a [Letter], separators: &str) -> &'a [Letter] {
    let start = letters.iter().position(|letter| !blank(letter, separators));
    letters.get(start.unwrap_or(letters.len())..).unwrap_or_default()
}

/// The first field, and what is left after its separator.
fn first<'a>(letters: &'a [Letter], separators: &str) -> (String, &'a [Letter]) {
    let letters = skip(letters, separators);
    let end = letters.iter().position(|letter| separates(letter, separators));
    let (field, rest) = letters.split_at(end.unwrap_or(letters.len()));
    let mut rest = skip(rest, separators);
    if let Some((one, after)) = rest.split_first()
        && separates(one, separators)
    {
        rest = after;
    }
    (text(field), skip(rest, separators))
}

/// Everything that is left, without blanks around it, nor a lone separator at its end.
fn last(letters: &[Letter], separators: &str) -> String {
    let mut letters = skip(letters, separators);
    while let Some((end, front)) = letters.split_last() {
        if !blank(end, separators) {
            break;
        }
        letters = front;
    }
    if let Some((end, front)) = letters.split_last()
        && separates(end, separators)
        && !front.iter().any(|letter| separates(letter, separators))
    {
        letters = front;
    }
    text(letters)
}

fn text(letters: &[Letter]) -> String {
    letters.iter().map(|(c, _)| c).collect()
}
