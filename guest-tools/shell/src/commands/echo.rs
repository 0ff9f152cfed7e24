//! `echo`, `printf`, and the backslash sequences they share.

use crate::shell::Shell;
use crate::stop::{Done, failed, usage};

/// The widest field: the widest that Rust's own formatting takes.
pub(super) const WIDTH_MAX: usize = u16::MAX as usize;

/// Backslash sequences are read, with or without `-e`.
pub(super) fn echo(shell: &mut Shell, arguments: &[String]) -> Done {
    let mut words = arguments;
    let mut newline = true;
    while let Some((first, rest)) = words.split_first() {
        match first.as_str() {
            "-n" | "-en" | "-ne" => newline = false,
            "-e" => {}
            _ => break,
        }
        words = rest;
    }
    let (bytes, stopped) = unescaped(&words.join(" "), true);
    shell.out(&bytes)?;
    if newline && !stopped {
        shell.out(b"\n")?;
    }
    Ok(0)
}

/// Reads backslash sequences; `true` where `\c` ended the text. `zero`: octal numbers have a 0
/// in front, as `echo` and `%b` have it.
pub(super) fn unescaped(text: &str, zero: bool) -> (Vec<u8>, bool) {
    let mut bytes = Vec::new();
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            push(&mut bytes, c);
            continue;
        }
        let before = rest.clone();
        match rest.next() {
            Some('a') => bytes.push(7),
            Some('b') => bytes.push(8),
            Some('c') if zero => return (bytes, true),
            Some('e') => bytes.push(27),
            Some('f') => bytes.push(12),
            Some('n') => bytes.push(b'\n'),
            Some('r') => bytes.push(b'\r'),
            Some('t') => bytes.push(b'\t'),
            Some('v') => bytes.push(11),
            Some('\\') => bytes.push(b'\\'),
            Some('x') => number(&mut rest, 16, 2, &mut bytes),
            Some('0') if zero => number(&mut rest, 8, 3, &mut bytes),
            Some(digit) if digit.is_digit(8) && !zero => {
                rest = before;
                number(&mut rest, 8, 3, &mut bytes);
            }
            Some('"') if !zero => bytes.push(b'"'),
            other => {
                bytes.push(b'\\');
                other.into_iter().for_each(|c| push(&mut bytes, c));
            }
        }
    }
    (bytes, false)
}

fn push(bytes: &mut Vec<u8>, c: char) {
    bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
}

fn number(rest: &mut std::str::Chars<'_>, radix: u32, digits_max: usize, bytes: &mut Vec<u8>) {
    let mut value = 0;
    for _ in 0..digits_max {
        let Some(digit) = rest.clone().next().and_then(|c| c.to_digit(radix)) else { break };
        rest.next();
        value = value * radix + digit;
    }
    bytes.push(u8::try_from(value & 255).unwrap_or(0));
}

pub(super) fn printf(shell: &mut Shell, arguments: &[String]) -> Done {
    let arguments = match arguments.split_first() {
        Some((first, rest)) if first == "--" => rest,
        _ => arguments,
    };
    let Some((format, mut values)) = arguments.split_first() else {
        return usage("a format is missing");
    };
    let mut status = 0;
    loop {
        let mut printer = Printer { values, out: Vec::new(), wrong: Vec::new(), used: false };
        let ended = printer.print(format)?;
        let used = printer.used;
        values = printer.values;
        let (out, wrong) = (printer.out, printer.wrong);
        shell.out(&out)?;
        for why in wrong {
            shell.complain(&why)?;
            status = 1;
        }
        if ended || !used || values.is_empty() {
            return Ok(status);
        }
        shell.tick()?;
    }
}

/// One pass over a format.
pub(super) struct Printer<'a> {
    pub(super) values: &'a [String],
    pub(super) out: Vec<u8>,
    /// Values that are no numbers.
    pub(super) wrong: Vec<String>,
    pub(super) used: bool,
}

/// `%`, flags, width, precision.
#[derive(Debug, Default)]
struct Spec {
    left: bool,
    zero: bool,
    plus: bool,
    space: bool,
    alternate: bool,
    width: usize,
    precision: Option<usize>,
}

impl Printer<'_> {
    /// Whether `\c` ended everything.
    pub(super) fn print(&mut self, format: &str) -> Done<bool> {
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            let (text, after) = rest.split_at(at);
            self.out.extend(unescaped(text, false).0);
            let mut letters = after.chars();
            letters.next();
            if self.directive(&mut letters)? {
                return Ok(true);
            }
            rest = letters.as_str();
        }
        self.out.extend(unescaped(rest, false).0);
        Ok(false)
    }

    fn next(&mut self) -> Option<String> {
        self.used = true;
        let (first, rest) = self.values.split_first()?;
        self.values = rest;
        Some(first.clone())
    }

    fn directive(&mut self, rest: &mut std::str::Chars<'_>) -> Done<bool> {
        let spec = self.spec(rest)?;
        let Some(letter) = rest.next() else { return failed("the format ends after %") };
        match letter {
            '%' => self.out.push(b'%'),
            'c' => {
                let text = self.next().unwrap_or_default();
                let first: String = text.chars().take(1).collect();
                self.pad(&spec, first.as_bytes());
            }
            's' => {
                let text = self.next().unwrap_or_default();
                let text: String =
                    text.chars().take(spec.precision.unwrap_or(usize::MAX)).collect();
                self.pad(&spec, text.as_bytes());
            }
            'b' => {
                let (bytes, ended) = unescaped(&self.next().unwrap_or_default(), true);
                self.pad(&spec, &bytes);
                return Ok(ended);
            }
            'd' | 'i' | 'u' | 'x' | 'X' | 'o' => self.integer(&spec, letter),
            'f' | 'F' | 'e' | 'E' | 'g' | 'G' => {
                let value = self.next().unwrap_or_default();
                let value = self.float(&value);
                self.out.extend(padded(&spec, &float(&spec, letter, value)));
            }
            other => return failed(format!("%{other}: unknown directive")),
        }
        Ok(false)
    }

    fn spec(&mut self, rest: &mut std::str::Chars<'_>) -> Done<Spec> {
        let mut spec = Spec::default();
        while let Some(c) = rest.clone().next() {
            match c {
                '-' => spec.left = true,
                '0' => spec.zero = true,
                '+' => spec.plus = true,
                ' ' => spec.space = true,
                '#' => spec.alternate = true,
                _ => break,
            }
            rest.next();
        }
        if let Some(width) = self.count(rest) {
            spec.left |= width < 0;
            spec.width = usize::try_from(width.unsigned_abs()).unwrap_or(usize::MAX);
        }
        if rest.clone().next() == Some('.') {
            rest.next();
            let precision = self.count(rest).unwrap_or(0);
            spec.precision = usize::try_from(precision).ok();
        }
        if spec.width > WIDTH_MAX || spec.precision.is_some_and(|p| p > WIDTH_MAX) {
            return failed(format!("a field may be {WIDTH_MAX} wide"));
        }
        while rest.clone().next().is_some_and(|c| matches!(c, 'l' | 'h' | 'q' | 'j' | 'z')) {
            rest.next();
        }
        Ok(spec)
    }

    fn count(&mut self, rest: &mut std::str::Chars<'_>) -> Option<i64> {
        if rest.clone().next() == Some('*') {
            rest.next();
            return Some(self.next().and_then(|text| text.parse().ok()).unwrap_or(0));
        }
        let digits: String = rest.clone().take_while(char::is_ascii_digit).collect();
        digits.chars().for_each(|_| {
            rest.next();
        });
        if digits.is_empty() { None } else { digits.parse().ok().or(Some(i64::MAX)) }
    }

    fn integer(&mut self, spec: &Spec, letter: char) {
        let text = self.next().unwrap_or_default();
        let value = self.whole(&text, !matches!(letter, 'd' | 'i'));
        let digits = match letter {
            'x' => format!("{value:x}"),
            'X' => format!("{value:X}"),
            'o' => format!("{value:o}"),
            'u' => value.cast_unsigned().to_string(),
            _ => value.unsigned_abs().to_string(),
        };
        let digits = format!("{digits:0>width$}", width = spec.precision.unwrap_or(1));
        let sign = match letter {
            'd' | 'i' if value < 0 => "-",
            'd' | 'i' if spec.plus => "+",
            'd' | 'i' if spec.space => " ",
            'x' if spec.alternate && value != 0 => "0x",
            'X' if spec.alternate && value != 0 => "0X",
            'o' if spec.alternate => "0",
            _ => "",
        };
        let zero = spec.zero && spec.precision.is_none();
        let spec = Spec { zero, left: spec.left, width: spec.width, ..Spec::default() };
        self.out.extend(padded(&spec, &format!("{sign}{digits}")));
    }

    /// Reads a whole number of 64 bits, which has a sign or, of `unsigned` ones, may have none.
    fn whole(&mut self, text: &str, unsigned: bool) -> i64 {
        let trimmed = text.trim();
        if let Some(letter) = trimmed.strip_prefix(['\'', '"']) {
            return letter.chars().next().map_or(0, |c| i64::from(u32::from(c)));
        }
        let (digits, negative) = match trimmed.strip_prefix('-') {
            Some(digits) => (digits, true),
            None => (trimmed.strip_prefix('+').unwrap_or(trimmed), false),
        };
        let (digits, radix) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X"))
        {
            Some(hex) => (hex, 16),
            None if digits.len() > 1 && digits.starts_with('0') => (digits, 8),
            None => (digits, 10),
        };
        let good = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
        if good < digits.len() {
            self.wrong.push(format!("{text:?} is no number"));
        }
        let good = digits.get(..good).unwrap_or_default();
        let huge = if good.is_empty() { 0 } else { i128::MAX };
        let value = i128::from_str_radix(good, radix).unwrap_or(huge);
        self.within(text, if negative { -value } else { value }, unsigned)
    }

    /// Returns the nearest number of 64 bits, and says where that is another one.
    fn within(&mut self, text: &str, value: i128, unsigned: bool) -> i64 {
        let most = if unsigned { i128::from(u64::MAX) } else { i128::from(i64::MAX) };
        let near = value.clamp(i128::from(i64::MIN), most);
        if near != value {
            self.wrong.push(format!("{text:?} is no number of 64 bits"));
        }
        i64::try_from(near).or_else(|_| u64::try_from(near).map(u64::cast_signed)).unwrap_or(0)
    }

    fn float(&mut self, text: &str) -> f64 {
        match text.trim().parse() {
            Ok(value) => value,
            Err(_) if text.is_empty() => 0.0,
            Err(_) => {
                self.wrong.push(format!("{text:?} is no number"));
                0.0
            }
        }
    }

    fn pad(&mut self, spec: &Spec, bytes: &[u8]) {
        let letters = String::from_utf8_lossy(bytes).chars().count();
        let blanks = vec![b' '; spec.width.saturating_sub(letters)];
        let (front, back) = if spec.left { (&[][..], &*blanks) } else { (&*blanks, &[][..]) };
        self.out.extend_from_slice(front);
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(back);
    }
}

/// Formats one number as `printf` would, for `awk` and `seq`.
pub(super) fn number_as(format: &str, value: f64) -> Option<Vec<u8>> {
    let values = [value.to_string()];
    let mut printer = Printer { values: &values, out: Vec::new(), wrong: Vec::new(), used: false };
    printer.print(format).ok()?;
    Some(printer.out)
}

fn padded(spec: &Spec, text: &str) -> Vec<u8> {
    let missing = spec.width.saturating_sub(text.len());
    let (sign, digits) = text.split_at(text.len() - text.trim_start_matches(['-', '+', ' ']).len());
    let padded = match () {
        () if spec.left => format!("{text}{}", " ".repeat(missing)),
        () if spec.zero => format!("{sign}{}{digits}", "0".repeat(missing)),
        () => format!("{}{text}", " ".repeat(missing)),
    };
    padded.into_bytes()
}

fn float(spec: &Spec, letter: char, value: f64) -> String {
    let precision = spec.precision.unwrap_or(6);
    let sign = match () {
        () if value.is_sign_negative() && !value.is_nan() => "-",
        () if spec.plus => "+",
        () if spec.space => " ",
        () => "",
    };
    let value = value.abs();
    let text = match letter {
        _ if value.is_infinite() => "inf".to_owned(),
        _ if value.is_nan() => "nan".to_owned(),
        'f' | 'F' => format!("{value:.precision$}"),
        'e' | 'E' => exponent(value, precision),
        _ => general(value, precision.max(1), spec.alternate),
    };
    let text = if letter.is_ascii_uppercase() { text.to_ascii_uppercase() } else { text };
    format!("{sign}{text}")
}

fn exponent(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    let (digits, power) = text.split_once('e').unwrap_or((&text, "0"));
    let power: i32 = power.parse().unwrap_or(0);
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", power.unsigned_abs())
}

/// `%g`: the shorter of both, without zeros at the end.
fn general(value: f64, precision: usize, keep: bool) -> String {
    let scientific = exponent(value, precision - 1);
    let power: i64 = scientific.split_once('e').and_then(|(_, p)| p.parse().ok()).unwrap_or(0);
    let digits = i64::try_from(precision).unwrap_or(i64::MAX);
    if power >= -4 && power < digits {
        let places = usize::try_from(digits - 1 - power).unwrap_or(0).min(WIDTH_MAX);
        return without_zeros(&format!("{value:.places$}"), keep);
    }
    let (digits, power) = scientific.split_once('e').unwrap_or((&scientific, "+00"));
    format!("{}e{power}", without_zeros(digits, keep))
}

fn without_zeros(text: &str, keep: bool) -> String {
    if keep || !text.contains('.') {
        return text.to_owned();
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
