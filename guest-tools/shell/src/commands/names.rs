//! Small ones: `basename`, `dirname`, `realpath`, `seq`, `yes`.

use crate::commands::echo::{WIDTH_MAX, number_as};
use crate::options::Options;
use crate::path;
use crate::shell::Shell;
use crate::stop::{Done, usage};

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

pub(super) fn seq(shell: &mut Shell, arguments: &[String]) -> Done {
    let split = arguments.iter().position(|a| a.parse::<f64>().is_ok());
    let (flags, numbers) = arguments.split_at(split.unwrap_or(arguments.len()));
    let (options, _) = Options::all("ws:f:", &[("separator", 's')], flags)?;
    let values: Option<Vec<f64>> = numbers.iter().map(|text| text.parse().ok()).collect();
    let (first, step, last) = match values.as_deref() {
        Some([last]) => (1.0, 1.0, *last),
        Some([first, last]) => (*first, 1.0, *last),
        Some([first, step, last]) if *step != 0.0 => (*first, *step, *last),
        _ => return usage("seq [FIRST [STEP]] LAST, all numbers"),
    };
    let places = numbers.iter().map(|text| text.split_once('.').map_or(0, |(_, p)| p.len())).max();
    let places = places.unwrap_or(0);
    if places > WIDTH_MAX {
        return usage(format!("a number has at most {WIDTH_MAX} decimals"));
    }
    let width = if options.has('w') {
        let widths = [first, last].map(|value| format!("{value:.places$}").len());
        widths.into_iter().max().map(|width| width.min(WIDTH_MAX))
    } else {
        None
    };
    let separator = options.value('s').unwrap_or("\n");
    let mut index = 0.0;
    loop {
        let value = first + index * step;
        if if step > 0.0 { value > last + step * 1e-9 } else { value < last + step * 1e-9 } {
            break;
        }
        if index > 0.0 {
            shell.out(separator.as_bytes())?;
        }
        match options.value('f') {
            Some(format) => shell.out(&number_as(format, value).unwrap_or_default())?,
            None => shell
                .out(format!("{value:0width$.places$}", width = width.unwrap_or(0)).as_bytes())?,
        }
        shell.tick()?;
        index += 1.0;
    }
    if index > 0.0 {
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
