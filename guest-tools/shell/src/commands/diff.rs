//! `diff` of two files, and `cmp`.

use crate::commands::{lines, lossy};
use crate::options::Options;
use crate::shell::Shell;
use crate::stop::{Done, Fault, usage};
use crate::world::{FileError, Kind};

/// Lines that differ, of one file times the other: the table that is filled for them.
const CELLS_MAX: usize = 4_000_000;

/// Lines of context in the unified form.
const CONTEXT_LINES: usize = 3;

/// One line of the way from the old file to the new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit {
    Keep,
    Remove,
    Add,
}

pub(super) fn diff(shell: &mut Shell, arguments: &[String]) -> Done {
    let long = [("unified", 'u'), ("brief", 'q'), ("ignore-all-space", 'w')];
    let (options, operands) = Options::all("uqwbBis", &long, arguments)?;
    let [old_name, new_name] = operands.as_slice() else { return usage("diff FILE1 FILE2") };
    let trouble = |error: FileError| Fault::Status(2, error.0);
    for name in &operands {
        let plain = shell.path(name).map_err(trouble)?;
        if name != "-" && shell.files.stat(&plain, true).map_err(trouble)?.kind == Kind::Folder {
            return usage("directories cannot be compared here");
        }
    }
    let old = shell.open(old_name).map_err(trouble)?.all()?;
    let new = shell.open(new_name).map_err(trouble)?.all()?;
    let manner = |line: &[u8]| -> Vec<u8> {
        let mut line = line.to_vec();
        if options.has('w') || options.has('b') {
            line.retain(|byte| !byte.is_ascii_whitespace());
        }
        if options.has('i') { line.to_ascii_lowercase() } else { line }
    };
    let keys = |bytes: &[u8]| lines(bytes).map(manner).collect::<Vec<_>>();
    let (left, right) = (keys(&old), keys(&new));
    if left == right {
        return Ok(0);
    }
    if options.has('q') {
        shell.line(&format!("Files {old_name} and {new_name} differ"))?;
        return Ok(1);
    }
    let Some(edits) = edits(&left, &right) else {
        return Err(Fault::Status(2, "the files differ in too many lines".to_owned()));
    };
    let (old, new): (Vec<&[u8]>, Vec<&[u8]>) = (lines(&old).collect(), lines(&new).collect());
    let report = if options.has('u') {
        format!("--- {old_name}\n+++ {new_name}\n{}", unified(&edits, &old, &new))
    } else {
        normal(&edits, &old, &new)
    };
    shell.out(report.as_bytes())?;
    Ok(1)
}

/// The shortest way, by the longest common subsequence of what is left between the common
/// start and end; `None` where that is too much work.
fn edits(old: &[Vec<u8>], new: &[Vec<u8>]) -> Option<Vec<Edit>> {
    let start = old.iter().zip(new).take_while(|(l, r)| l == r).count();
    let (old, new) = (old.get(start..)?, new.get(start..)?);
    let end = old.iter().rev().zip(new.iter().rev()).take_while(|(l, r)| l == r).count();
    let (old, new) = (old.get(..old.len() - end)?, new.get(..new.len() - end)?);
    let width = new.len() + 1;
    if (old.len() + 1).checked_mul(width)? > CELLS_MAX {
        return None;
    }
    // For each pair of ends, how many lines are common from there on.
    let mut common = vec![0_u32; (old.len() + 1) * width];
    let at = |l: usize, r: usize| l * width + r;
    for (l, left) in old.iter().enumerate().rev() {
        for (r, right) in new.iter().enumerate().rev() {
            let value = if left == right {
                common.get(at(l + 1, r + 1))? + 1
            } else {
                *common.get(at(l + 1, r))?.max(common.get(at(l, r + 1))?)
            };
            *common.get_mut(at(l, r))? = value;
        }
    }
    let mut edits = vec![Edit::Keep; start];
    let (mut l, mut r) = (0, 0);
    while l < old.len() || r < new.len() {
        let same = old.get(l).is_some() && old.get(l) == new.get(r);
        let remove = l < old.len()
            && (r == new.len() || common.get(at(l + 1, r))? >= common.get(at(l, r + 1))?);
        let edit = if same {
            Edit::Keep
        } else if remove {
            Edit::Remove
        } else {
            Edit::Add
        };
        l += usize::from(edit != Edit::Add);
        r += usize::from(edit != Edit::Remove);
        edits.push(edit);
    }
    edits.extend(vec![Edit::Keep; end]);
    Some(edits)
}

fn line(lines: &[&[u8]], at: usize) -> String {
    lines.get(at).map(|line| lossy(line)).unwrap_or_default()
}

fn normal(edits: &[Edit], old: &[&[u8]], new: &[&[u8]]) -> String {
    let mut report = String::new();
    let (mut l, mut r) = (0, 0);
    for group in edits.chunk_by(|a, b| (*a == Edit::Keep) == (*b == Edit::Keep)) {
        let removed = group.iter().filter(|edit| **edit == Edit::Remove).count();
        let added = group.iter().filter(|edit| **edit == Edit::Add).count();
        if removed + added == 0 {
            l += group.len();
            r += group.len();
            continue;
        }
        let range = |start: usize, count: usize| match count {
            0 => start.to_string(),
            1 => (start + 1).to_string(),
            count => format!("{},{}", start + 1, start + count),
        };
        let letter = if added == 0 {
            'd'
        } else if removed == 0 {
            'a'
        } else {
            'c'
        };
        report.push_str(&format!("{}{letter}{}\n", range(l, removed), range(r, added)));
        for at in l..l + removed {
            report.push_str(&format!("< {}\n", line(old, at)));
        }
        report.push_str(if letter == 'c' { "---\n" } else { "" });
        for at in r..r + added {
            report.push_str(&format!("> {}\n", line(new, at)));
        }
        l += removed;
        r += added;
    }
    report
}

fn unified(edits: &[Edit], old: &[&[u8]], new: &[&[u8]]) -> String {
    let changes: Vec<usize> = edits
        .iter()
        .enumerate()
        .filter(|(_, edit)| **edit != Edit::Keep)
        .map(|(at, _)| at)
        .collect();
    let mut report = String::new();
    for hunk in changes.chunk_by(|a, b| b - a <= 2 * CONTEXT_LINES + 1) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { continue };
        let from = first.saturating_sub(CONTEXT_LINES);
        let to = (last + CONTEXT_LINES + 1).min(edits.len());
        let before = edits.get(..from).unwrap_or_default();
        let inside = edits.get(from..to).unwrap_or_default();
        let count = |edits: &[Edit], without: Edit| edits.iter().filter(|e| **e != without).count();
        let (mut l, mut r) = (count(before, Edit::Add), count(before, Edit::Remove));
        let range = |start: usize, count: usize| match count {
            0 => format!("{start},0"),
            1 => (start + 1).to_string(),
            count => format!("{},{count}", start + 1),
        };
        let (lefts, rights) = (count(inside, Edit::Add), count(inside, Edit::Remove));
        report.push_str(&format!("@@ -{} +{} @@\n", range(l, lefts), range(r, rights)));
        for edit in inside {
            let (mark, text) = match edit {
                Edit::Keep => (' ', line(old, l)),
                Edit::Remove => ('-', line(old, l)),
                Edit::Add => ('+', line(new, r)),
            };
            report.push_str(&format!("{mark}{text}\n"));
            l += usize::from(*edit != Edit::Add);
            r += usize::from(*edit != Edit::Remove);
        }
    }
    report
}

pub(super) fn cmp(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, operands) = Options::all("s", &[("silent", 's'), ("quiet", 's')], arguments)?;
    let [left_name, right_name] = operands.as_slice() else { return usage("cmp FILE1 FILE2") };
    let trouble = |error: FileError| Fault::Status(2, error.0);
    let left = shell.open(left_name).map_err(trouble)?.all()?;
    let right = shell.open(right_name).map_err(trouble)?.all()?;
    if left == right {
        return Ok(0);
    }
    if !options.has('s') {
        let same = left.iter().zip(&right).take_while(|(l, r)| l == r).count();
        if same == left.len().min(right.len()) {
            let shorter = if left.len() < right.len() { left_name } else { right_name };
            shell.say(&format!("cmp: EOF on {shorter} after byte {same}\n"))?;
        } else {
            let line = 1 + left.iter().take(same).filter(|byte| **byte == b'\n').count();
            shell.line(&format!(
                "{left_name} {right_name} differ: byte {}, line {line}",
                same + 1
            ))?;
        }
    }
    Ok(1)
}
