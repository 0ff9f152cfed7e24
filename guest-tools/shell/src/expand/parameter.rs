//! `$x`, `${x:-word}` and the other forms.

use crate::expand::Piece;
use crate::pattern::Pattern;
use crate::shell::Shell;
use crate::stop::Run;
use crate::syntax::{Operation, Word, is_name};

/// What a parameter holds.
enum Value {
    Unset,
    One(String),
    /// `$@` and `$*`.
    Many(Vec<String>),
}

impl Shell {
    pub(super) fn parameter(
        &mut self,
        name: &str,
        operation: &Operation,
        quoted: bool,
        to: &mut Vec<Piece>,
    ) -> Run<()> {
        let value = self.value(name);
        match operation {
            Operation::Value => self.plain_value(name, value, quoted, to),
            Operation::Length => {
                let value = self.known(name, value)?;
                let length = self.joined(name, value).chars().count().to_string();
                to.push(Piece::Text { text: length, quoted, split: true });
                Ok(())
            }
            Operation::Trim { suffix, longest, pattern } => {
                let value = self.known(name, value)?;
                let text = self.joined(name, value);
                let pattern = Pattern::new(&self.pattern(pattern)?);
                let text = trimmed(&text, &pattern, *suffix, *longest);
                to.push(Piece::Text { text, quoted, split: true });
                Ok(())
            }
            _ => self.conditional(name, operation, value, quoted, to),
        }
    }

    fn conditional(
        &mut self,
        name: &str,
        operation: &Operation,
        value: Value,
        quoted: bool,
        to: &mut Vec<Piece>,
    ) -> Run<()> {
        let is_there = |colon: &bool| match &value {
            Value::Unset => false,
            Value::One(text) => !(*colon && text.is_empty()),
            Value::Many(all) => !(all.is_empty() || *colon && all.iter().all(String::is_empty)),
        };
        match operation {
            Operation::Default { colon, word } if !is_there(colon) => {
                to.extend(self.pieces(word, quoted, !quoted)?);
                Ok(())
            }
            Operation::Alternative { colon, word } => {
                if is_there(colon) {
                    to.extend(self.pieces(word, quoted, !quoted)?);
                }
                Ok(())
            }
            Operation::Assign { colon, word } if !is_there(colon) => {
                self.assign_default(name, word, quoted, to)
            }
            Operation::Demand { colon, word } if !is_there(colon) => {
                let why = self.text(word)?;
                let why = if why.is_empty() { "parameter not set or null" } else { &why };
                self.cannot_expand(&format!("{name}: {why}"))
            }
            _ => self.plain_value(name, value, quoted, to),
        }
    }

    fn assign_default(
        &mut self,
        name: &str,
        word: &Word,
        quoted: bool,
        to: &mut Vec<Piece>,
    ) -> Run<()> {
        if !is_name(name) {
            return self.cannot_expand(&format!("{name}: cannot be assigned to"));
        }
        let text = self.text(word)?;
        self.state.variables.set(name, &text)?;
        to.push(Piece::Text { text, quoted, split: true });
        Ok(())
    }

    fn plain_value(
        &mut self,
        name: &str,
        value: Value,
        quoted: bool,
        to: &mut Vec<Piece>,
    ) -> Run<()> {
        let all = match self.known(name, value)? {
            Value::Many(all) if name == "*" && quoted => vec![self.joined(name, Value::Many(all))],
            Value::Many(all) => all,
            Value::One(text) => vec![text],
            Value::Unset => vec![String::new()],
        };
        for (index, text) in all.into_iter().enumerate() {
            if index > 0 {
                to.push(Piece::Break);
            }
            to.push(Piece::Text { text, quoted, split: true });
        }
        Ok(())
    }

    /// `value`, unless it is not set and `set -u` wants it to be.
    fn known(&mut self, name: &str, value: Value) -> Run<Value> {
        if matches!(value, Value::Unset) && self.state.options.unset_is_error {
            return self.cannot_expand(&format!("{name}: parameter not set"));
        }
        Ok(value)
    }

    fn joined(&self, name: &str, value: Value) -> String {
        match value {
            Value::Unset => String::new(),
            Value::One(text) => text,
            Value::Many(all) if name == "*" => {
                let separators = self.state.variables.get("IFS").unwrap_or_else(|| " ".into());
                let separator: String = separators.chars().take(1).collect();
                all.join(&separator)
            }
            Value::Many(all) => all.join(" "),
        }
    }

    fn value(&self, name: &str) -> Value {
        let parameters = &self.state.parameters;
        let one = |text: &str| Value::One(text.to_owned());
        match name {
            "@" | "*" => Value::Many(parameters.to_vec()),
            "#" => Value::One(parameters.len().to_string()),
            "?" => Value::One(self.status.to_string()),
            "-" => Value::One(self.state.options.letters()),
            "$" => one("1"),
            "!" => Value::Unset,
            "0" => one("sh"),
            _ => match name.parse::<usize>() {
                Ok(number) => {
                    let text = number.checked_sub(1).and_then(|index| parameters.get(index));
                    text.map_or(Value::Unset, |text| one(text))
                }
                Err(_) => self.state.variables.get(name).map_or(Value::Unset, |text| one(&text)),
            },
        }
    }
}

/// `text` without what `pattern` matches at one end.
fn trimmed(text: &str, pattern: &Pattern, suffix: bool, longest: bool) -> String {
    let letters: Vec<char> = text.chars().collect();
    let count = letters.len();
    let mut cuts: Vec<usize> = (0..=count).collect();
    // Where to cut, the cut that takes most first.
    if suffix != longest {
        cuts.reverse();
    }
    for cut in cuts {
        let (front, back) = letters.split_at(cut);
        let (gone, kept) = if suffix { (back, front) } else { (front, back) };
        if pattern.matches_all(gone) {
            return kept.iter().collect();
        }
    }
    text.to_owned()
}
