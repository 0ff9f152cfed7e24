//! Functions of `awk`.

use super::run::Run;
use super::special;
use super::tree::{Expression, Place};
use super::value::Value;
use crate::commands::echo::Printer;
use crate::shell::Shell;
use crate::stop::{Done, failed};

impl<'p> Run<'p> {
    pub(super) fn builtin(
        &mut self,
        shell: &mut Shell,
        name: &str,
        values: &'p [Expression],
    ) -> Done<Value> {
        Ok(match (name, values) {
            ("length", []) => length(&self.field(0.0)?.as_text("%.6g")),
            ("length", [Expression::Place(Place::Variable(own))]) if self.is_array(*own) => {
                Value::Number(self.array(*own)?.borrow().len() as f64)
            }
            ("length", [text]) => length(&self.text(shell, text)?),
            ("substr", [text, start, rest @ ..]) => {
                let text = self.text(shell, text)?;
                let start = self.number(shell, start)?;
                let count = rest.first().map(|count| self.number(shell, count)).transpose()?;
                substr(&text, start, count)
            }
            ("index", [text, part]) => {
                let (text, part) = (self.text(shell, text)?, self.text(shell, part)?);
                let at = text.find(&*part).and_then(|at| text.get(..at));
                Value::Number(at.map_or(0.0, |before| before.chars().count() as f64 + 1.0))
            }
            ("split", [text, array, rest @ ..]) => {
                self.split_into(shell, text, array, rest.first())?
            }
            ("sub" | "gsub", [regex, text, rest @ ..]) => {
                self.substitute(shell, name == "gsub", regex, text, rest.first())?
            }
            ("match", [text, regex]) => {
                let text = self.text(shell, text)?;
                let regex = self.pattern(shell, regex)?;
                self.matched(&text, regex.find(text.as_bytes(), 0))
            }
            ("sprintf", values) => {
                let bytes = self.formatted(shell, values)?;
                Value::text(&String::from_utf8_lossy(&bytes))
            }
            ("tolower", [text]) => Value::text(&self.text(shell, text)?.to_lowercase()),
            ("toupper", [text]) => Value::text(&self.text(shell, text)?.to_uppercase()),
            ("close", [name]) => {
                let name = self.text(shell, name)?;
                Value::Number(if self.close(&name) { 0.0 } else { -1.0 })
            }
            ("rand", []) => Value::Number(self.random()),
            ("srand", rest) => {
                let seed = rest.first().map_or(Ok(0.0), |seed| self.number(shell, seed))?;
                let before = std::mem::replace(&mut self.seed, seed.to_bits() | 1);
                Value::Number(f64::from_bits(before))
            }
            (_, [first, rest @ ..]) => {
                let x = self.number(shell, first)?;
                let y = rest.first().map_or(Ok(0.0), |y| self.number(shell, y))?;
                Value::Number(mathematical(name, x, y)?)
            }
            _ => return failed(format!("{name} needs a value")),
        })
    }

    /// Numbers that look random and are the same in every run: there is nothing to guess here.
    fn random(&mut self) -> f64 {
        self.seed = self
            .seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.seed >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(super) fn formatted(
        &mut self,
        shell: &mut Shell,
        values: &'p [Expression],
    ) -> Done<Vec<u8>> {
        let [format, rest @ ..] = values else { return failed("a format is missing") };
        // `printf("%d", x)`: the parentheses only group.
        if let (Expression::Group(inner), []) = (format, rest) {
            return self.formatted(shell, inner);
        }
        let format = self.text(shell, format)?;
        let mut texts = Vec::new();
        for (value, letter) in rest.iter().zip(letters(&format).chain(std::iter::repeat('s'))) {
            let value = self.value(shell, value)?;
            texts.push(match letter {
                's' => value.as_text(&self.special_text(special::CONVFMT)).to_string(),
                'c' => match value {
                    Value::Number(code) => character(code),
                    other => other.as_text("%.6g").to_string(),
                },
                'd' | 'i' | 'x' | 'X' | 'o' | 'u' | '*' => format!("{:.0}", value.number().trunc()),
                _ => value.number().to_string(),
            });
        }
        // Backslashes were read with the program's text; the printer would read them again.
        let format = format.replace('\\', "\\\\");
        let mut printer =
            Printer { values: &texts, out: Vec::new(), wrong: Vec::new(), used: false };
        printer.print(&format)?;
        self.bounded(printer.out.len())?;
        Ok(printer.out)
    }

    fn split_into(
        &mut self,
        shell: &mut Shell,
        text: &'p Expression,
        array: &'p Expression,
        separator: Option<&'p Expression>,
    ) -> Done<Value> {
        let Expression::Place(Place::Variable(variable)) = array else {
            return failed("split needs an array");
        };
        let text = self.text(shell, text)?;
        let parts = match separator {
            // In parentheses, so that even one character is an expression.
            Some(Expression::Regex(regex)) => self.split(&text, &format!("({regex})"), false)?,
            Some(separator) => {
                let separator = self.text(shell, separator)?;
                self.split(&text, &separator, false)?
            }
            None => {
                let separator = self.special_text(special::FS);
                self.split(&text, &separator, false)?
            }
        };
        let array = self.array(*variable)?;
        let mut array = array.borrow_mut();
        array.clear();
        let count = parts.len();
        for (at, part) in parts.into_iter().enumerate() {
            array.insert((at + 1).to_string().into(), Value::Input(part.into()));
        }
        Ok(Value::Number(count as f64))
    }

    fn substitute(
        &mut self,
        shell: &mut Shell,
        global: bool,
        regex: &'p Expression,
        new: &'p Expression,
        target: Option<&'p Expression>,
    ) -> Done<Value> {
        let regex = self.pattern(shell, regex)?;
        let new = self.text(shell, new)?;
        let old = match target {
            None => self.field(0.0)?.as_text("%.6g"),
            Some(target) => self.text(shell, target)?,
        };
        let mut text = String::new();
        let (mut from, mut count) = (0, 0);
        for (start, end) in regex.all(old.as_bytes()) {
            text.push_str(old.get(from..start).unwrap_or_default());
            replacement(&new, old.get(start..end).unwrap_or_default(), &mut text);
            self.bounded(text.len())?;
            from = end;
            count += 1;
            if !global {
                break;
            }
        }
        if count == 0 {
            return Ok(Value::Number(0.0));
        }
        text.push_str(old.get(from..).unwrap_or_default());
        match target {
            None => self.set_field(0.0, Value::text(&text))?,
            Some(Expression::Place(place)) => self.assign(shell, place, Value::text(&text))?,
            Some(_) => {}
        }
        Ok(Value::Number(f64::from(count)))
    }

    fn matched(&mut self, text: &str, found: Option<(usize, usize)>) -> Value {
        let letters = |range: Option<&str>| range.map_or(0.0, |part| part.chars().count() as f64);
        let (start, length) = match found {
            Some((start, end)) => (letters(text.get(..start)) + 1.0, letters(text.get(start..end))),
            None => (0.0, -1.0),
        };
        self.set_special(special::RSTART, Value::Number(start));
        self.set_special(special::RLENGTH, Value::Number(length));
        Value::Number(start)
    }
}

fn length(text: &str) -> Value {
    Value::Number(text.chars().count() as f64)
}

/// Characters from `start`, which counts from 1 and may be outside.
fn substr(text: &str, start: f64, count: Option<f64>) -> Value {
    let first = start.round();
    let end = count.map_or(f64::INFINITY, |count| first + count.round());
    let mut position = 0.0;
    let kept = text.chars().filter(|_| {
        position += 1.0;
        position >= first && position < end
    });
    Value::text(&kept.collect::<String>())
}

/// `&` is the match, `\&` itself.
fn replacement(new: &str, found: &str, text: &mut String) {
    let mut letters = new.chars().peekable();
    while let Some(c) = letters.next() {
        match c {
            '&' => text.push_str(found),
            '\\' => match letters.next_if(|next| matches!(next, '&' | '\\')) {
                Some(next) => text.push(next),
                None => text.push('\\'),
            },
            c => text.push(c),
        }
    }
}

/// The letter of each directive that takes a value.
fn letters(format: &str) -> impl Iterator<Item = char> {
    let mut found = Vec::new();
    let mut rest = format.chars();
    while let Some(c) = rest.next() {
        if c != '%' {
            continue;
        }
        for c in rest.by_ref() {
            match c {
                '*' => found.push('*'),
                '%' => break,
                c if c.is_ascii_alphabetic() && !matches!(c, 'l' | 'h') => {
                    found.push(c);
                    break;
                }
                _ => {}
            }
        }
    }
    found.into_iter()
}

fn character(code: f64) -> String {
    let code = format!("{:.0}", code.trunc()).parse::<u32>().ok();
    code.and_then(char::from_u32).map(String::from).unwrap_or_default()
}

fn mathematical(name: &str, x: f64, y: f64) -> Done<f64> {
    Ok(match name {
        "int" => x.trunc(),
        "sqrt" => x.sqrt(),
        "exp" => x.exp(),
        "log" => x.ln(),
        "sin" => x.sin(),
        "cos" => x.cos(),
        "atan2" => x.atan2(y),
        _ => return failed(format!("there is no function {name}")),
    })
}
