//! Small ones: `basename`, `dirname`, `realpath`, `seq`, `yes`.

use std::str::FromStr;

use crate::commands::echo::{WIDTH_MAX, number_as};
use crate::options::Options;
use crate::path;
use crate::shell::Shell;
use crate::stop::{Done, usage};

/// From here on floats do not tell whole numbers apart: 2^53.
const FLOATS_ROUND_FROM: f64 = 9_007_199_254_740_992.0;

pub(super) fn basename(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, operands) = Options::leading("as:", &[], arguments)?;
    let suffix = options.value('s');
    let many = options.has('a') || suffix.is_some();
    match operands {
        [] => return usage("a name is missing"),
        [name, suffix] if !many => shell.line(stripped(path::base(name), suffix))?,
        names => {
            for name in names {
                shell.line(stripped(path::base(name), suffix.unwrap_or_default()))?;
            }
        }
    }
    Ok(0)
}

fn stripped<'a>(name: &'a str, suffix: &str) -> &'a str {
    name.strip_suffix(suffix).filter(|rest| !rest.is_empty()).unwrap_or(name)
}

pub(super) fn dirname(shell: &mut Shell, arguments: &[String]) -> Done {
    for name in arguments {
        let trimmed = name.trim_end_matches('/');
        let parent = match trimmed.rsplit_once('/') {
            _ if trimmed.is_empty() && !name.is_empty() => "/",
            None => ".",
            Some((parent, _)) => match parent.trim_end_matches('/') {
                "" => "/",
                parent => parent,
            },
        };
        shell.line(parent)?;
    }
    if arguments.is_empty() { usage("a name is missing") } else { Ok(0) }
}

pub(super) fn realpath(shell: &mut Shell, arguments: &[String]) -> Done {
    let (_, operands) = Options::all("emsqz", &[], arguments)?;
    for name in operands {
        let path = shell.path(&name)?;
        let path = if path == "." { String::new() } else { path };
        shell.line(&format!("/{path}"))?;
    }
    Ok(0)
}

/// Whole numbers are counted as such, and what a float cannot tell apart is refused.
pub(super) fn seq(shell: &mut Shell, arguments: &[String]) -> Done {
    let split = arguments.iter().position(|a| a.parse::<f64>().is_ok());
    let (flags, numbers) = arguments.split_at(split.unwrap_or(arguments.len()));
    let (options, _) = Options::all("ws:f:", &[("separator", 's')], flags)?;
    match range::<i128>(numbers) {
        Some(whole) if !options.has('f') => seq_whole(shell, &options, whole),
        _ => seq_float(shell, &options, numbers),
    }
}

/// Returns the first number, the step and the last, where there are as many and they lead anywhere.
fn range<T: Copy + FromStr + From<u8> + PartialEq>(numbers: &[String]) -> Option<[T; 3]> {
    let values: Option<Vec<T>> = numbers.iter().map(|text| text.parse().ok()).collect();
    match values.as_deref()? {
        [last] => Some([T::from(1), T::from(1), *last]),
        [first, last] => Some([*first, T::from(1), *last]),
        [first, step, last] if *step != T::from(0) => Some([*first, *step, *last]),
        _ => None,
    }
}

fn seq_whole(shell: &mut Shell, options: &Options, [first, step, last]: [i128; 3]) -> Done {
    let width = width(options, [first, last].map(|value| value.to_string()));
    let values = std::iter::successors(Some(first), |value| value.checked_add(step));
    let values = values.take_while(|value| if step > 0 { *value <= last } else { *value >= last });
    let written = |value: i128| format!("{value:0width$}").into_bytes();
    write_all(shell, options, values.map(written))
}

fn seq_float(shell: &mut Shell, options: &Options, numbers: &[String]) -> Done {
    let Some([first, step, last]) = range::<f64>(numbers) else {
        return usage("seq [FIRST [STEP]] LAST, all numbers");
    };
    if [first, step, last].iter().any(|value| value.is_finite() && value.abs() >= FLOATS_ROUND_FROM)
    {
        return usage(
            "a number from 2^53 on is a whole one of at most 38 digits, and printed without -f",
        );
    }
    let places = numbers.iter().map(|text| text.split_once('.').map_or(0, |(_, p)| p.len())).max();
    let places = places.unwrap_or(0);
    if places > WIDTH_MAX {
        return usage(format!("a number has at most {WIDTH_MAX} decimals"));
    }
    let width = width(options, [first, last].map(|value| format!("{value:.places$}")));
    let values = std::iter::successors(Some(0.0), |index: &f64| Some(index + 1.0));
    let values = values.map(|index: f64| first + index * step);
    let end = last + step * 1e-9;
    let values = values.take_while(|value| if step > 0.0 { *value <= end } else { *value >= end });
    let written = |value: f64| match options.value('f') {
        Some(format) => number_as(format, value).unwrap_or_default(),
        None => format!("{value:0width$.places$}").into_bytes(),
    };
    write_all(shell, options, values.map(written))
}

/// Returns how wide each number is, where all are to be as wide as the widest.
fn width(options: &Options, ends: [String; 2]) -> usize {
    let widest = ends.map(|end| end.len()).into_iter().max().filter(|_| options.has('w'));
    widest.unwrap_or(0).min(WIDTH_MAX)
}

fn write_all(shell: &mut Shell, options: &Options, values: impl Iterator<Item = Vec<u8>>) -> Done {
    let separator = options.value('s').unwrap_or("\n");
    let mut any = false;
    for value in values {
        if any {
            shell.out(separator.as_bytes())?;
        }
        any = true;
        shell.out(&value)?;
        shell.tick()?;
    }
    if any {
        shell.out(b"\n")?;
    }
    Ok(0)
}

/// Ends when nobody takes more: at a pipe's bound, or at the deadline.
pub(super) fn yes(shell: &mut Shell, arguments: &[String]) -> Done {
    let line = if arguments.is_empty() { "y".to_owned() } else { arguments.join(" ") };
    loop {
        shell.tick()?;
        shell.line(&line)?;
    }
}
