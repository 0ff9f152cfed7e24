//! `test` and `[`.

use super::Shell;
use crate::stop::{Done, usage};
use crate::world::{Kind, Stat};

pub(super) fn bracket(shell: &mut Shell, arguments: &[String]) -> Done {
    match arguments.split_last() {
        Some((last, rest)) if last == "]" => test(shell, rest),
        _ => usage("] is missing"),
    }
}

pub(super) fn test(shell: &mut Shell, arguments: &[String]) -> Done {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let answer = match *words {
        [] => false,
        [one] => !one.is_empty(),
        ["!", one] => one.is_empty(),
        [left, operator, right] if is_binary(operator) => binary(shell, left, operator, right)?,
        _ => {
            let mut rest = words.as_slice();
            let answer = either(shell, &mut rest)?;
            if let Some(word) = rest.first() {
                return usage(format!("{word}: unexpected operator"));
            }
            answer
        }
    };
    Ok(i32::from(!answer))
}

fn either(shell: &Shell, rest: &mut &[&str]) -> Done<bool> {
    let mut answer = both(shell, rest)?;
    while eat(rest, "-o") {
        answer |= both(shell, rest)?;
    }
    Ok(answer)
}

fn both(shell: &Shell, rest: &mut &[&str]) -> Done<bool> {
    let mut answer = negated(shell, rest)?;
    while eat(rest, "-a") {
        answer &= negated(shell, rest)?;
    }
    Ok(answer)
}

fn negated(shell: &Shell, rest: &mut &[&str]) -> Done<bool> {
    let mut turn = false;
    while rest.len() > 1 && eat(rest, "!") {
        turn = !turn;
    }
    Ok(primary(shell, rest)? != turn)
}

fn primary(shell: &Shell, rest: &mut &[&str]) -> Done<bool> {
    match *rest {
        [left, operator, right, after @ ..] if is_binary(operator) => {
            *rest = after;
            binary(shell, left, operator, right)
        }
        ["(", after @ ..] => {
            *rest = after;
            let answer = either(shell, rest)?;
            if eat(rest, ")") { Ok(answer) } else { usage(") is missing") }
        }
        [operator, operand, after @ ..] if is_unary(operator) => {
            *rest = after;
            unary(shell, operator, operand)
        }
        [one, after @ ..] => {
            *rest = after;
            Ok(!one.is_empty())
        }
        [] => usage("an argument is missing"),
    }
}

fn eat(rest: &mut &[&str], word: &str) -> bool {
    match rest.split_first() {
        Some((first, after)) if *first == word => {
            *rest = after;
            true
        }
        _ => false,
    }
}

fn is_unary(operator: &str) -> bool {
    let mut letters = operator.chars();
    letters.next() == Some('-')
        && letters.next().is_some_and(|c| "bcdefghkLnprsStuwxzO".contains(c))
        && letters.next().is_none()
}

fn is_binary(operator: &str) -> bool {
    ["=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"]
        .contains(&operator)
}

fn unary(shell: &Shell, operator: &str, operand: &str) -> Done<bool> {
    let stat = |follow| -> Option<Stat> {
        let path = shell.path(operand).ok()?;
        shell.files.stat(&path, follow).ok()
    };
    let kind = |kind| stat(true).is_some_and(|stat| stat.kind == kind);
    Ok(match operator {
        "-n" => !operand.is_empty(),
        "-z" => operand.is_empty(),
        "-f" => kind(Kind::File),
        "-d" => kind(Kind::Folder),
        "-h" | "-L" => stat(false).is_some_and(|stat| stat.kind == Kind::Link),
        "-s" => stat(true).is_some_and(|stat| stat.size > 0),
        // Who may do what is the host's to say: what is there can be tried.
        "-e" | "-r" | "-w" => operand == "/dev/null" || stat(true).is_some(),
        "-x" => kind(Kind::Folder),
        _ => false,
    })
}

fn binary(shell: &Shell, left: &str, operator: &str, right: &str) -> Done<bool> {
    let modified = |name: &str| {
        let path = shell.path(name).ok()?;
        shell.files.stat(&path, true).ok().map(|stat| stat.modified)
    };
    let numbers = || -> Done<(i64, i64)> { Ok((number(left)?, number(right)?)) };
    Ok(match operator {
        "=" | "==" => left == right,
        "!=" => left != right,
        "<" => left < right,
        ">" => left > right,
        "-nt" => modified(left) > modified(right),
        "-ot" => modified(left) < modified(right),
        "-ef" => shell.path(left)? == shell.path(right)?,
        _ => {
            let (left, right) = numbers()?;
            match operator {
                "-eq" => left == right,
                "-ne" => left != right,
                "-lt" => left < right,
                "-le" => left <= right,
                "-gt" => left > right,
                _ => left >= right,
            }
        }
    })
}

fn number(text: &str) -> Done<i64> {
    text.trim().parse().or_else(|_| usage(format!("{text:?} is no number")))
}
