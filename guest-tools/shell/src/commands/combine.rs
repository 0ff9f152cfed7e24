//! `comm` and `paste`: several inputs beside each other.

use std::cmp::Ordering;

use crate::commands::{chomped, lossy};
use crate::io::Input;
use crate::options::Options;
use crate::shell::Shell;
use crate::stop::{Done, usage};

fn next(input: &Input) -> Done<Option<Vec<u8>>> {
    Ok(input.line()?.map(|line| chomped(&line).to_vec()))
}

pub(super) fn comm(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, operands) = Options::all("123", &[], arguments)?;
    let [left, right] = operands.as_slice() else { return usage("comm FILE1 FILE2") };
    let (left, right) = (shell.open(left)?, shell.open(right)?);
    let (mut l, mut r) = (next(&left)?, next(&right)?);
    while l.is_some() || r.is_some() {
        shell.tick()?;
        let order = match (&l, &r) {
            (Some(l), Some(r)) => l.cmp(r),
            (Some(_), None) => Ordering::Less,
            _ => Ordering::Greater,
        };
        let (column, line) = match order {
            Ordering::Less => ('1', l.take()),
            Ordering::Greater => ('2', r.take()),
            Ordering::Equal => {
                r = None;
                ('3', l.take())
            }
        };
        if !options.has(column) {
            let before = ['1', '2'].iter().filter(|c| **c < column && !options.has(**c)).count();
            shell.out("\t".repeat(before).as_bytes())?;
            shell.out(&line.unwrap_or_default())?;
            shell.out(b"\n")?;
        }
        if l.is_none() && order != Ordering::Greater {
            l = next(&left)?;
        }
        if r.is_none() && order != Ordering::Less {
            r = next(&right)?;
        }
    }
    Ok(0)
}

pub(super) fn paste(shell: &mut Shell, arguments: &[String]) -> Done {
    let long = [("delimiters", 'd'), ("serial", 's')];
    let (options, mut operands) = Options::all("d:s", &long, arguments)?;
    let delimiters = options.value('d').unwrap_or("\t").replace("\\t", "\t").replace("\\n", "\n");
    let delimiters: Vec<String> = delimiters.replace("\\0", "").chars().map(String::from).collect();
    if operands.is_empty() {
        operands.push("-".to_owned());
    }
    let mut open = Vec::new();
    for name in &operands {
        open.push(shell.open(name)?);
    }
    let between = |at: usize| match delimiters.len() {
        0 => "",
        count => delimiters.get(at % count).map_or("", String::as_str),
    };
    let mut rows: Vec<Vec<String>> = Vec::new();
    if options.has('s') {
        for input in &open {
            let all = input.all()?;
            rows.push(super::lines(&all).map(lossy).collect());
        }
    }
    loop {
        if options.has('s') {
            for row in rows.drain(..) {
                let mut joined = String::new();
                for (at, cell) in row.iter().enumerate() {
                    joined.push_str(if at > 0 { between(at - 1) } else { "" });
                    joined.push_str(cell);
                }
                shell.line(&joined)?;
            }
            return Ok(0);
        }
        let mut joined = String::new();
        let mut any = false;
        for (at, input) in open.iter().enumerate() {
            joined.push_str(if at > 0 { between(at - 1) } else { "" });
            if let Some(line) = next(input)? {
                any = true;
                joined.push_str(&lossy(&line));
            }
        }
        if !any {
            return Ok(0);
        }
        shell.line(&joined)?;
    }
}
