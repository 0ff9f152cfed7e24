//! `head` and `tail`.

use std::collections::VecDeque;

use crate::commands::inputs;
use crate::io::Input;
use crate::limits::WHOLE_BYTES_MAX;
use crate::options::Options;
use crate::shell::Shell;
use crate::stop::{Done, Fault, Stop, usage};

/// How much, of what, and from which end.
#[derive(Clone, Copy)]
struct Part {
    count: usize,
    bytes: bool,
    /// `-n -5` of `head`, `-n +5` of `tail`.
    other_end: bool,
}

fn part(options: &Options, sign: char) -> Done<Part> {
    let letter = options.last_of("nc").unwrap_or('n');
    let text = options.value(letter).unwrap_or("10");
    let other_end = text.starts_with(sign);
    match text.trim_start_matches(['-', '+']).parse() {
        Ok(count) => Ok(Part { count, bytes: letter == 'c', other_end }),
        Err(_) => usage(format!("{text:?} is no number")),
    }
}

/// `-5` is `-n 5`.
fn modern(arguments: &[String]) -> Vec<String> {
    let mut arguments = arguments.to_vec();
    if let Some(first) = arguments.first_mut()
        && let Some(digits) = first.strip_prefix('-')
        && digits.starts_with(|c: char| c.is_ascii_digit())
    {
        *first = format!("-n{digits}");
    }
    arguments
}

fn each(
    shell: &mut Shell,
    arguments: &[String],
    sign: char,
    show: fn(&mut Shell, &Input, Part) -> Done<()>,
) -> Done {
    let long = [("lines", 'n'), ("bytes", 'c'), ("quiet", 'q'), ("verbose", 'v')];
    let (options, operands) = Options::all("n:c:qv", &long, &modern(arguments))?;
    let part = part(&options, sign)?;
    let titles = (operands.len() > 1 || options.has('v')) && !options.has('q');
    let mut first = true;
    inputs(shell, &operands, |shell, name, input| {
        if titles {
            let before = if first { "" } else { "\n" };
            shell.line(&format!("{before}==> {name} <=="))?;
        }
        first = false;
        show(shell, input, part)
    })
}

pub(super) fn head(shell: &mut Shell, arguments: &[String]) -> Done {
    each(shell, arguments, '-', |shell, input, part| match part {
        Part { other_end: true, .. } => all_but_last(shell, input, part),
        Part { bytes: true, mut count, .. } => {
            while count > 0 {
                let chunk = input.chunk()?;
                let Some(kept) = chunk.get(..count.min(chunk.len())).filter(|k| !k.is_empty())
                else {
                    break;
                };
                count -= kept.len();
                shell.out(kept)?;
            }
            Ok(())
        }
        Part { count, .. } => {
            for _ in 0..count {
                let Some(line) = input.line()? else { break };
                shell.out(&line)?;
            }
            Ok(())
        }
    })
}

pub(super) fn tail(shell: &mut Shell, arguments: &[String]) -> Done {
    each(shell, arguments, '+', |shell, input, part| match part {
        Part { other_end: true, bytes: false, count } => {
            for _ in 1..count.max(1) {
                input.line()?;
            }
            loop {
                let chunk = input.chunk()?;
                if chunk.is_empty() {
                    return Ok(());
                }
                shell.out(&chunk)?;
            }
        }
        Part { other_end, bytes: true, count } => {
            let all = input.all()?;
            let skip = if other_end { count.max(1) - 1 } else { all.len().saturating_sub(count) };
            shell.out(all.get(skip..).unwrap_or_default())?;
            Ok(())
        }
        Part { count, .. } => {
            for line in last(input, count)? {
                shell.out(&line)?;
            }
            Ok(())
        }
    })
}

/// The last `count` lines.
fn last(input: &Input, count: usize) -> Done<VecDeque<Vec<u8>>> {
    let mut kept: VecDeque<Vec<u8>> = VecDeque::new();
    let mut bytes = 0;
    while let Some(line) = input.line()? {
        bytes += line.len();
        kept.push_back(line);
        if kept.len() > count {
            bytes -= kept.pop_front().map_or(0, |line| line.len());
        }
        if bytes > WHOLE_BYTES_MAX {
            let why =
                format!("tail: the last {count} lines have more than {WHOLE_BYTES_MAX} bytes");
            return Err(Fault::Stop(Stop::Fatal(why)));
        }
    }
    Ok(kept)
}

fn all_but_last(shell: &mut Shell, input: &Input, part: Part) -> Done<()> {
    let all = input.all()?;
    let end = if part.bytes {
        all.len().saturating_sub(part.count)
    } else {
        let ends: Vec<usize> =
            all.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::len).collect();
        ends.iter().take(ends.len().saturating_sub(part.count)).sum()
    };
    shell.out(all.get(..end).unwrap_or_default())?;
    Ok(())
}
