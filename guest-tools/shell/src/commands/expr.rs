//! `expr`.

use crate::commands::lossy;
use crate::commands::regex::{Flavour, Regex};
use crate::shell::Shell;
use crate::stop::{Done, usage};

/// Operators, weakest first.
const LEVELS: [&[&str]; 5] =
    [&["|"], &["&"], &["=", "!=", "<", "<=", ">", ">=", "=="], &["+", "-"], &["*", "/", "%"]];

/// Parentheses inside one another.
const DEPTH_MAX: usize = 50;

pub(super) fn expr(shell: &mut Shell, arguments: &[String]) -> Done {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let mut rest = words.as_slice();
    let value = binary(&mut rest, 0, 0)?;
    if !rest.is_empty() {
        return usage("syntax error");
    }
    shell.line(&value)?;
    Ok(i32::from(value.is_empty() || value.parse() == Ok(0_i64)))
}

fn binary(rest: &mut &[&str], level: usize, depth: usize) -> Done<String> {
    let Some(operators) = LEVELS.get(level) else { return matched(rest, depth) };
    let mut left = binary(rest, level + 1, depth)?;
    while let Some((operator, after)) = rest.split_first().filter(|(o, _)| operators.contains(o)) {
        *rest = after;
        let right = binary(rest, level + 1, depth)?;
        left = apply(&left, operator, &right)?;
    }
    Ok(left)
}

fn apply(left: &str, operator: &str, right: &str) -> Done<String> {
    let empty = |text: &str| text.is_empty() || text.parse() == Ok(0_i64);
    let truth = |yes: bool| Ok(if yes { "1" } else { "0" }.to_owned());
    match operator {
        "|" => return Ok(if empty(left) { right } else { left }.to_owned()),
        "&" => return Ok(if empty(left) || empty(right) { "0" } else { left }.to_owned()),
        _ => {}
    }
    let numbers = (left.parse::<i64>(), right.parse::<i64>());
    if LEVELS.get(2).is_some_and(|level| level.contains(&operator)) {
        let order = match numbers {
            (Ok(l), Ok(r)) => l.cmp(&r),
            _ => left.cmp(right),
        };
        return truth(match operator {
            "=" | "==" => order.is_eq(),
            "!=" => order.is_ne(),
            "<" => order.is_lt(),
            "<=" => order.is_le(),
            ">" => order.is_gt(),
            _ => order.is_ge(),
        });
    }
    let (Ok(l), Ok(r)) = numbers else { return usage("non-integer argument") };
    let value = match operator {
        "+" => l.checked_add(r),
        "-" => l.checked_sub(r),
        "*" => l.checked_mul(r),
        "/" => l.checked_div(r),
        _ => l.checked_rem(r),
    };
    value.map_or_else(|| usage("division by zero, or a number too large"), |v| Ok(v.to_string()))
}

fn matched(rest: &mut &[&str], depth: usize) -> Done<String> {
    let mut left = primary(rest, depth)?;
    while let Some((_, after)) = rest.split_first().filter(|(word, _)| **word == ":") {
        *rest = after;
        let pattern = primary(rest, depth)?;
        left = matching(&left, &pattern)?;
    }
    Ok(left)
}

/// What the first group matched, or how long the match is.
fn matching(text: &str, pattern: &str) -> Done<String> {
    let regex =
        Regex::new(&format!("^{}", pattern.trim_start_matches('^')), Flavour::Basic, false)?;
    let groups = pattern.contains("\\(");
    let Some(captures) = regex.captures(text.as_bytes(), 0) else {
        return Ok(if groups { String::new() } else { "0".to_owned() });
    };
    if groups {
        return Ok(captures.get(1).map(|found| lossy(found.as_bytes())).unwrap_or_default());
    }
    Ok(captures.get(0).map_or(0, |found| lossy(found.as_bytes()).chars().count()).to_string())
}

fn primary(rest: &mut &[&str], depth: usize) -> Done<String> {
    if depth > DEPTH_MAX {
        return usage("nested too deeply");
    }
    match *rest {
        ["(", after @ ..] => {
            *rest = after;
            let value = binary(rest, 0, depth + 1)?;
            match rest.split_first() {
                Some((&")", after)) => {
                    *rest = after;
                    Ok(value)
                }
                _ => usage(") is missing"),
            }
        }
        ["length", text, after @ ..] => {
            *rest = after;
            Ok(text.chars().count().to_string())
        }
        ["index", text, letters, after @ ..] => {
            *rest = after;
            let at = text.chars().position(|c| letters.contains(c));
            Ok(at.map_or(0, |at| at + 1).to_string())
        }
        ["match", text, pattern, after @ ..] => {
            *rest = after;
            matching(text, pattern)
        }
        ["substr", text, start, count, after @ ..] => {
            *rest = after;
            let number = |text: &str| text.parse::<usize>().unwrap_or(0);
            let (start, count) = (number(start), number(count));
            let skipped = text.chars().skip(start.saturating_sub(1));
            Ok(if start == 0 { String::new() } else { skipped.take(count).collect() })
        }
        [word, after @ ..] => {
            *rest = after;
            Ok((*word).to_owned())
        }
        [] => usage("syntax error: an argument is missing"),
    }
}
