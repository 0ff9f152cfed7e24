//! `sort` and `uniq`, in the order of bytes.

use std::cmp::Ordering;

use crate::commands::{chomped, inputs, lossy, whole};
use crate::limits::{BYTES_PER_TICK, LINES_PER_SORT};
use crate::options::Options;
use crate::shell::Shell;
use crate::stop::{Done, Run, usage};

/// How two keys compare.
#[derive(Debug, Clone, Copy, Default)]
struct Manner {
    numeric: bool,
    human: bool,
    version: bool,
    fold: bool,
    dictionary: bool,
    blanks: bool,
    reverse: bool,
}

impl Manner {
    fn add(&mut self, letter: char) -> bool {
        match letter {
            'n' | 'g' => self.numeric = true,
            'h' => self.human = true,
            'V' => self.version = true,
            'f' => self.fold = true,
            'd' => self.dictionary = true,
            'b' => self.blanks = true,
            'r' => self.reverse = true,
            _ => return false,
        }
        true
    }

    fn is_plain(self) -> bool {
        !(self.numeric || self.human || self.version || self.fold || self.dictionary || self.blanks)
    }

    fn compare(self, left: &[u8], right: &[u8]) -> Ordering {
        let order = match () {
            () if self.numeric => number(left).total_cmp(&number(right)),
            () if self.human => human(left).total_cmp(&human(right)),
            () if self.version => version(left, right),
            () if self.fold || self.dictionary => self.letters(left).cmp(&self.letters(right)),
            () => left.cmp(right),
        };
        if self.reverse { order.reverse() } else { order }
    }

    fn letters(self, text: &[u8]) -> Vec<u8> {
        let kept = |byte: &u8| {
            !self.dictionary || byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace()
        };
        let letters = text.iter().copied().filter(kept);
        letters.map(|byte| if self.fold { byte.to_ascii_uppercase() } else { byte }).collect()
    }
}

/// The number at the start of a text; 0 where there is none.
fn number(text: &[u8]) -> f64 {
    let text = text.trim_ascii_start();
    let end = text.iter().enumerate().position(|(at, byte)| {
        !(byte.is_ascii_digit() || *byte == b'.' || (at == 0 && *byte == b'-'))
    });
    let digits = text.get(..end.unwrap_or(text.len())).unwrap_or_default();
    let value: f64 = lossy(digits).parse().unwrap_or(0.0);
    // Minus zero is zero.
    value + 0.0
}

fn human(text: &[u8]) -> f64 {
    let unit = text.iter().find_map(|byte| b"KMGTPE".iter().position(|own| own == byte));
    let power = unit.map_or(0, |at| i32::try_from(at).unwrap_or(0) + 1);
    number(text) * 1024_f64.powi(power)
}

/// Runs of digits compare as numbers.
fn version(mut left: &[u8], mut right: &[u8]) -> Ordering {
    loop {
        let (l, r) = match (left.split_first(), right.split_first()) {
            (None, None) => return Ordering::Equal,
            (None, _) => return Ordering::Less,
            (_, None) => return Ordering::Greater,
            (Some(l), Some(r)) => (l, r),
        };
        if l.0.is_ascii_digit() && r.0.is_ascii_digit() {
            let (a, after_left) = digits(left);
            let (b, after_right) = digits(right);
            match a.len().cmp(&b.len()).then(a.cmp(b)) {
                Ordering::Equal => (left, right) = (after_left, after_right),
                order => return order,
            }
        } else {
            match l.0.cmp(r.0) {
                Ordering::Equal => (left, right) = (l.1, r.1),
                order => return order,
            }
        }
    }
}

fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    let zeros = digits.iter().take_while(|byte| **byte == b'0').count();
    (digits.get(zeros..).unwrap_or_default(), rest)
}

/// `-k START[,END]`: fields and characters from 1.
struct Key {
    start: (usize, usize),
    end: Option<(usize, usize)>,
    manner: Option<Manner>,
}

impl Key {
    fn parse(text: &str) -> Done<Self> {
        let (start, end) = match text.split_once(',') {
            Some((start, end)) => (start, Some(end)),
            None => (text, None),
        };
        let mut manner = Manner::default();
        let mut any = false;
        let mut place = |text: &str| -> Option<(usize, usize)> {
            let letters = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
            for letter in text.get(letters..)?.chars() {
                any = true;
                if !manner.add(letter) {
                    return None;
                }
            }
            let (field, letter) =
                text.get(..letters)?.split_once('.').unwrap_or((text.get(..letters)?, "0"));
            Some((field.parse().ok().filter(|field| *field > 0)?, letter.parse().ok()?))
        };
        let Some(first) = place(start) else { return usage(format!("-k {text:?} is no key")) };
        let last = match end.map(&mut place) {
            Some(None) => return usage(format!("-k {text:?} is no key")),
            Some(last) => last,
            None => None,
        };
        Ok(Self { start: first, end: last, manner: any.then_some(manner) })
    }

    fn of<'a>(&self, line: &'a [u8], separator: Option<u8>, blanks: bool) -> &'a [u8] {
        let fields = fields(line, separator);
        let Some((from, field_end)) = fields.get(self.start.0 - 1).copied() else { return &[] };
        let from = if blanks || self.manner.is_some_and(|manner| manner.blanks) {
            let blank = line.get(from..).unwrap_or_default();
            from + blank.iter().take_while(|byte| byte.is_ascii_whitespace()).count()
        } else {
            from
        };
        let start = (from + self.start.1.max(1) - 1).min(field_end.max(from));
        let end = match self.end {
            None => line.len(),
            Some((field, letter)) => match fields.get(field - 1) {
                None => line.len(),
                Some((_, end)) if letter == 0 => *end,
                Some((from, end)) => (from + letter).min(*end),
            },
        };
        line.get(start..end).unwrap_or_default()
    }
}

/// Where the fields of a line begin and end. Without a separator, the blanks before a field
/// belong to it.
fn fields(line: &[u8], separator: Option<u8>) -> Vec<(usize, usize)> {
    let mut fields = Vec::new();
    let mut start = 0;
    let mut in_word = false;
    for (at, byte) in line.iter().enumerate() {
        match separator {
            Some(separator) if *byte == separator => {
                fields.push((start, at));
                start = at + 1;
            }
            Some(_) => {}
            None => {
                let blank = matches!(byte, b' ' | b'\t');
                if blank && in_word {
                    fields.push((start, at));
                    start = at;
                }
                in_word = !blank;
            }
        }
    }
    fields.push((start, line.len()));
    fields
}

pub(super) fn sort(shell: &mut Shell, arguments: &[String]) -> Done {
    let long = [
        ("reverse", 'r'),
        ("numeric-sort", 'n'),
        ("unique", 'u'),
        ("key", 'k'),
        ("field-separator", 't'),
        ("version-sort", 'V'),
        ("ignore-case", 'f'),
        ("output", 'o'),
        ("stable", 's'),
        ("human-numeric-sort", 'h'),
    ];
    let (options, operands) = Options::all("rnufbdghVsck:t:o:mz", &long, arguments)?;
    let mut manner = Manner::default();
    for letter in "rnfbdghV".chars().filter(|letter| options.has(*letter)) {
        manner.add(letter);
    }
    let separator = match options.value('t') {
        None => None,
        Some("\\t") => Some(b'\t'),
        Some(text) => match text.as_bytes() {
            [one] => Some(*one),
            _ => return usage("-t takes one character"),
        },
    };
    let keys = options.values('k').map(Key::parse).collect::<Done<Vec<Key>>>()?;
    let compare = |left: &[u8], right: &[u8]| -> Ordering {
        for key in &keys {
            let blanks = manner.blanks && key.manner.is_none();
            let how = key.manner.unwrap_or(manner);
            let (l, r) = (key.of(left, separator, blanks), key.of(right, separator, blanks));
            let order = how.compare(l, r);
            if order != Ordering::Equal {
                return order;
            }
        }
        if keys.is_empty() { manner.compare(left, right) } else { Ordering::Equal }
    };
    let last_resort = |left: &[u8], right: &[u8]| match () {
        () if options.has('s') || options.has('u') => Ordering::Equal,
        () if keys.is_empty() && manner.is_plain() => Ordering::Equal,
        () if manner.reverse => right.cmp(left),
        () => left.cmp(right),
    };
    let (bytes, status) = whole(shell, &operands)?;
    let end = if options.has('z') { 0 } else { b'\n' };
    let body = bytes.strip_suffix(&[end]).unwrap_or(&bytes);
    let all: Vec<&[u8]> = body.split(|byte| *byte == end).filter(|_| !bytes.is_empty()).collect();
    let order =
        |left: &&[u8], right: &&[u8]| compare(left, right).then_with(|| last_resort(left, right));
    if options.has('c') {
        return Ok(i32::from(!all.is_sorted_by(|left, right| order(left, right).is_le())));
    }
    let mut all = sorted(shell, all, &order)?;
    if options.has('u') {
        all.dedup_by(|left, right| compare(left, right).is_eq());
    }
    if let Some(name) = options.value('o') {
        let mut sorted = all.join(&end);
        if !all.is_empty() {
            sorted.push(end);
        }
        shell.sink(name, false)?.write(&sorted)?;
        return Ok(status);
    }
    for line in all {
        shell.out(line)?;
        shell.out(&[end])?;
    }
    Ok(status)
}

type Order<'a> = dyn Fn(&&[u8], &&[u8]) -> Ordering + 'a;

/// Sorts lines, those that are equal in the order they have, and looks at the clock meanwhile.
fn sorted<'t>(shell: &mut Shell, mut lines: Vec<&'t [u8]>, order: &Order) -> Run<Vec<&'t [u8]>> {
    if lines.len() <= LINES_PER_SORT {
        shell.worked(lines.len().saturating_mul(BYTES_PER_TICK))?;
        lines.sort_by(order);
        return Ok(lines);
    }
    let right = lines.split_off(lines.len() / 2);
    let mut right = sorted(shell, right, order)?.into_iter().peekable();
    let mut both = Vec::with_capacity(2 * right.len());
    for line in sorted(shell, lines, order)? {
        shell.tick()?;
        both.extend(std::iter::from_fn(|| right.next_if(|next| order(next, &line).is_lt())));
        both.push(line);
    }
    both.extend(right);
    Ok(both)
}

pub(super) fn uniq(shell: &mut Shell, arguments: &[String]) -> Done {
    let long = [("count", 'c'), ("repeated", 'd'), ("unique", 'u'), ("ignore-case", 'i')];
    let (options, operands) = Options::all("cduif:", &long, arguments)?;
    let skip = options.number('f')?.unwrap_or(0);
    let key = |line: &[u8]| -> Vec<u8> {
        let start = fields(line, None).get(skip).map_or(line.len(), |(start, _)| *start);
        let rest = line.get(if skip == 0 { 0 } else { start }..).unwrap_or_default();
        if options.has('i') { rest.to_ascii_lowercase() } else { rest.to_vec() }
    };
    let show = |shell: &mut Shell, line: &[u8], count: usize| -> Done<()> {
        if options.has('d') && count == 1 || options.has('u') && count > 1 {
            return Ok(());
        }
        if options.has('c') {
            shell.out(format!("{count:7} ").as_bytes())?;
        }
        shell.out(line)?;
        Ok(shell.out(b"\n")?)
    };
    let input = operands.first().cloned().into_iter().collect::<Vec<_>>();
    let mut last: Option<(Vec<u8>, usize)> = None;
    let status = inputs(shell, &input, |shell, _, input| {
        while let Some(line) = input.line()? {
            let line = chomped(&line).to_vec();
            match &mut last {
                Some((same, count)) if key(same) == key(&line) => *count += 1,
                _ => {
                    if let Some((line, count)) = last.replace((line, 1)) {
                        show(shell, &line, count)?;
                    }
                }
            }
        }
        Ok(())
    })?;
    if let Some((line, count)) = last {
        show(shell, &line, count)?;
    }
    Ok(status)
}
