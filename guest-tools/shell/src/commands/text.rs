//! Commands over lines: `cat`, `wc`, `cut`, `nl`, `rev`, `tac`, `tee`, `fold`.

use crate::commands::echo::WIDTH_MAX;
use crate::commands::{chomped, inputs, lines, lossy, whole};
use crate::io::Sink;
use crate::options::Options;
use crate::shell::Shell;
use crate::stop::{Done, usage};

pub(super) fn cat(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, operands) = Options::all("nbsuAEv", &[("number", 'n')], arguments)?;
    let (number, filled, squeeze) = (options.has('n'), options.has('b'), options.has('s'));
    let ends = options.has('E') || options.has('A');
    let (mut count, mut was_empty) = (0_u64, false);
    inputs(shell, &operands, |shell, _, input| {
        if !(number || filled || squeeze || ends) {
            loop {
                let chunk = input.chunk()?;
                if chunk.is_empty() {
                    return Ok(());
                }
                shell.out(&chunk)?;
            }
        }
        while let Some(line) = input.line()? {
            let empty = line == b"\n";
            if squeeze && empty && was_empty {
                continue;
            }
            was_empty = empty;
            if number && !filled || filled && !empty {
                count += 1;
                shell.out(format!("{count:6}\t").as_bytes())?;
            }
            shell.out(chomped(&line))?;
            if line.ends_with(b"\n") {
                shell.out(if ends { b"$\n" } else { b"\n" })?;
            }
        }
        Ok(())
    })
}

#[derive(Default, Clone, Copy)]
struct Counts {
    lines: usize,
    words: usize,
    letters: usize,
    bytes: usize,
}

pub(super) fn wc(shell: &mut Shell, arguments: &[String]) -> Done {
    let long = [("lines", 'l'), ("words", 'w'), ("bytes", 'c'), ("chars", 'm')];
    let (options, operands) = Options::all("lwcm", &long, arguments)?;
    let all = options.last_of("lwcm").is_none();
    let mut found: Vec<(Counts, String)> = Vec::new();
    let status = inputs(shell, &operands, |_, name, input| {
        found.push((counted(input)?, name.to_owned()));
        Ok(())
    })?;
    if operands.len() > 1 {
        let total = found.iter().fold(Counts::default(), |sum, (one, _)| Counts {
            lines: sum.lines + one.lines,
            words: sum.words + one.words,
            letters: sum.letters + one.letters,
            bytes: sum.bytes + one.bytes,
        });
        found.push((total, "total".to_owned()));
    }
    let shown = |counts: Counts| -> Vec<usize> {
        [('l', counts.lines), ('w', counts.words), ('m', counts.letters), ('c', counts.bytes)]
            .into_iter()
            .filter(|(letter, _)| options.has(*letter) || all && *letter != 'm')
            .map(|(_, count)| count)
            .collect()
    };
    let widest = found.last().map_or(0, |(total, _)| total.bytes.max(total.lines));
    let single =
        operands.len() <= 1 && found.first().is_some_and(|(one, _)| shown(*one).len() == 1);
    let width = match () {
        () if single => 1,
        () if operands.is_empty() || operands.iter().any(|name| name == "-") => 7,
        () => widest.to_string().len(),
    };
    for (counts, name) in found {
        let numbers: Vec<String> = shown(counts).iter().map(|n| format!("{n:width$}")).collect();
        let name = if operands.is_empty() { String::new() } else { format!(" {name}") };
        shell.line(&format!("{}{name}", numbers.join(" ")))?;
    }
    Ok(status)
}

fn counted(input: &crate::io::Input) -> Done<Counts> {
    let mut counts = Counts::default();
    let mut in_word = false;
    loop {
        let chunk = input.chunk()?;
        if chunk.is_empty() {
            return Ok(counts);
        }
        counts.bytes += chunk.len();
        for byte in chunk {
            counts.lines += usize::from(byte == b'\n');
            // Only the first byte of a character counts.
            counts.letters += usize::from(byte & 0xc0 != 0x80);
            let blank = byte.is_ascii_whitespace();
            counts.words += usize::from(!in_word && !blank);
            in_word = !blank;
        }
    }
}

/// Ranges of positions that start at 1, as `cut` lists them.
struct Ranges(Vec<(usize, usize)>);

impl Ranges {
    fn parse(text: &str) -> Done<Self> {
        let mut ranges = Vec::new();
        for part in text.split(',') {
            let (low, high) = part.split_once('-').unwrap_or((part, part));
            let low = if low.is_empty() { Some(1) } else { low.parse().ok() };
            let high = if high.is_empty() { Some(usize::MAX) } else { high.parse().ok() };
            match (low, high) {
                (Some(low), Some(high)) if low >= 1 && low <= high && part != "-" => {
                    ranges.push((low, high));
                }
                _ => return usage(format!("{part:?} is no list of positions")),
            }
        }
        Ok(Self(ranges))
    }

    fn has(&self, position: usize) -> bool {
        self.0.iter().any(|(low, high)| (*low..=*high).contains(&position))
    }
}

pub(super) fn cut(shell: &mut Shell, arguments: &[String]) -> Done {
    let long =
        [("output-delimiter", 'o'), ("complement", 'v'), ("delimiter", 'd'), ("fields", 'f')];
    let (options, operands) = Options::all("b:c:d:f:nso:v", &long, arguments)?;
    let (kind, list) = match (options.value('f'), options.value('c'), options.value('b')) {
        (Some(list), None, None) => ('f', list),
        (None, Some(list), None) => ('c', list),
        (None, None, Some(list)) => ('b', list),
        _ => return usage("give one of -b, -c and -f"),
    };
    let ranges = Ranges::parse(list)?;
    let keep = |position: usize| ranges.has(position) != options.has('v');
    let delimiter = options.value('d').unwrap_or("\t");
    let between = options.value('o').unwrap_or(if kind == 'f' { delimiter } else { "" });
    inputs(shell, &operands, |shell, _, input| {
        while let Some(line) = input.line()? {
            shell.tick()?;
            let line = chomped(&line);
            if kind == 'b' {
                let kept = line.iter().enumerate().filter(|(at, _)| keep(at + 1));
                let kept: Vec<u8> = kept.map(|(_, byte)| *byte).collect();
                shell.out(&kept)?;
                shell.out(b"\n")?;
                continue;
            }
            let text = lossy(line);
            if kind == 'f' && !text.contains(delimiter) {
                if !options.has('s') {
                    shell.line(&text)?;
                }
                continue;
            }
            let mut letters = [0; 4];
            let parts: Vec<String> = match kind {
                'f' => text.split(delimiter).map(str::to_owned).collect(),
                _ => text.chars().map(|c| c.encode_utf8(&mut letters).to_owned()).collect(),
            };
            let kept = parts.into_iter().enumerate().filter(|(at, _)| keep(at + 1));
            let kept: Vec<String> = kept.map(|(_, part)| part).collect();
            shell.line(&kept.join(between))?;
        }
        Ok(())
    })
}

pub(super) fn nl(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, operands) = Options::all("b:w:s:n:v:", &[], arguments)?;
    let all = options.value('b') == Some("a");
    let width = options.number('w')?.unwrap_or(6);
    if width > WIDTH_MAX {
        return usage(format!("a number is at most {WIDTH_MAX} wide"));
    }
    let separator = options.value('s').unwrap_or("\t").to_owned();
    let mut count = options.number('v')?.unwrap_or(1);
    inputs(shell, &operands, |shell, _, input| {
        while let Some(line) = input.line()? {
            let text = lossy(chomped(&line));
            if text.is_empty() && !all {
                shell.line(&" ".repeat(width + separator.len()))?;
            } else {
                shell.line(&format!("{count:width$}{separator}{text}"))?;
                count += 1;
            }
        }
        Ok(())
    })
}

pub(super) fn rev(shell: &mut Shell, arguments: &[String]) -> Done {
    inputs(shell, arguments, |shell, _, input| {
        while let Some(line) = input.line()? {
            let turned: String = lossy(chomped(&line)).chars().rev().collect();
            shell.line(&turned)?;
        }
        Ok(())
    })
}

pub(super) fn tac(shell: &mut Shell, arguments: &[String]) -> Done {
    let (bytes, status) = whole(shell, arguments)?;
    let all: Vec<&[u8]> = lines(&bytes).collect();
    for line in all.into_iter().rev() {
        shell.out(line)?;
        shell.out(b"\n")?;
    }
    Ok(status)
}

pub(super) fn tee(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, names) = Options::all("ai", &[("append", 'a')], arguments)?;
    let mut sinks: Vec<Sink> = Vec::new();
    for name in &names {
        if name != "/dev/null" {
            sinks.push(shell.sink(name, options.has('a'))?);
        }
    }
    let input = shell.stdin();
    loop {
        let chunk = input.chunk()?;
        if chunk.is_empty() {
            return Ok(0);
        }
        for sink in &sinks {
            sink.write(&chunk)?;
        }
        shell.out(&chunk)?;
    }
}

pub(super) fn fold(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, operands) = Options::all("w:sb", &[("width", 'w')], arguments)?;
    let width = options.at_least_one('w')?.unwrap_or(80);
    inputs(shell, &operands, |shell, _, input| {
        while let Some(line) = input.line()? {
            let text: Vec<char> = lossy(chomped(&line)).chars().collect();
            let mut rest = text.as_slice();
            while rest.len() > width {
                let (front, _) = rest.split_at(width);
                let blank = front.iter().rposition(|c| *c == ' ').filter(|_| options.has('s'));
                let (front, back) = rest.split_at(blank.map_or(width, |at| at + 1));
                shell.line(&front.iter().collect::<String>())?;
                rest = back;
            }
            shell.line(&rest.iter().collect::<String>())?;
        }
        Ok(())
    })
}
