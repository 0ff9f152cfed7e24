//! Words become fields: parameters, substitutions, splitting, file names, quotes removed.

mod arithmetic;
mod fields;
mod glob;
mod parameter;

use std::rc::Rc;

use crate::io::{Buffer, Fd, Overflow, Sink};
use crate::limits::{FIELDS_MAX, VALUE_BYTES_MAX};
use crate::shell::Shell;
use crate::stop::{Run, Stop};
use crate::syntax::{List, Part, Word};
use fields::{Field, Fields};

/// A piece of an expanded word.
#[derive(Debug)]
pub(crate) enum Piece {
    /// `split`: it came out of an expansion outside quotes.
    Text { text: String, quoted: bool, split: bool },
    /// Between two parameters of `$@`.
    Break,
}

impl Shell {
    /// Expands words to the fields of a command line.
    pub(crate) fn fields(&mut self, words: &[Word]) -> Run<Vec<String>> {
        let mut all = Vec::new();
        for word in words {
            for field in self.split(word)? {
                self.generate(field, &mut all)?;
            }
            if all.len() > FIELDS_MAX {
                return Err(Stop::Fatal(format!("more than {FIELDS_MAX} fields")));
            }
        }
        Ok(all)
    }

    fn split(&mut self, word: &Word) -> Run<Vec<Field>> {
        let separators = self.state.variables.get("IFS").unwrap_or_else(|| " \t\n".into());
        let mut fields = Fields::new(&separators);
        for piece in self.pieces(word, false, false)? {
            match piece {
                Piece::Text { text, quoted: false, split: true } => fields.split(&text),
                Piece::Text { text, quoted, .. } => fields.push(&text, quoted),
                Piece::Break => fields.end(),
            }
        }
        Ok(fields.finish())
    }

    fn generate(&mut self, field: Field, all: &mut Vec<String>) -> Run<()> {
        if field.magic && !self.state.options.no_glob {
            let found = self.glob(&field.pattern)?;
            if !found.is_empty() {
                all.extend(found);
                return Ok(());
            }
        }
        all.push(field.text);
        Ok(())
    }

    /// Expands a word to one text: no splitting, no file names.
    pub(crate) fn text(&mut self, word: &Word) -> Run<String> {
        let pieces = self.pieces(word, false, false)?;
        let text = pieces.into_iter().map(|piece| match piece {
            Piece::Text { text, .. } => text,
            Piece::Break => " ".to_owned(),
        });
        Ok(text.collect())
    }

    /// Expands a word to a pattern, in which what was quoted stands for itself.
    pub(crate) fn pattern(&mut self, word: &Word) -> Run<String> {
        let mut pattern = String::new();
        for piece in self.pieces(word, false, false)? {
            match piece {
                Piece::Text { text, quoted: true, .. } => fields::escape(&text, &mut pattern),
                Piece::Text { text, .. } => pattern.push_str(&text),
                Piece::Break => pattern.push(' '),
            }
        }
        Ok(pattern)
    }

    /// The pieces of a word. `quoted`: all of it stands in quotes; `split`: it is the word of
    /// an unquoted `${x:-word}`, whose plain text is split as well.
    fn pieces(&mut self, word: &Word, quoted: bool, split: bool) -> Run<Vec<Piece>> {
        let mut pieces = Vec::new();
        let mut bytes = 0;
        for part in &word.0 {
            let before = pieces.len();
            self.piece(part, quoted, split, &mut pieces)?;
            let new = pieces.iter().skip(before);
            bytes += new
                .map(|p| if let Piece::Text { text, .. } = p { text.len() } else { 1 })
                .sum::<usize>();
            if bytes > VALUE_BYTES_MAX {
                return Err(Stop::Fatal(format!("a word has more than {VALUE_BYTES_MAX} bytes")));
            }
        }
        Ok(pieces)
    }

    fn piece(&mut self, part: &Part, all: bool, split: bool, to: &mut Vec<Piece>) -> Run<()> {
        match part {
            Part::Text(text) => to.push(Piece::Text { text: text.clone(), quoted: all, split }),
            Part::Quoted(text) => {
                to.push(Piece::Text { text: text.clone(), quoted: true, split: false });
            }
            Part::Parameter { name, operation, quoted } => {
                self.parameter(name, operation, *quoted || all, to)?;
            }
            Part::Command { list, quoted } => {
                let text = self.substitute(list)?;
                to.push(Piece::Text { text, quoted: *quoted || all, split: true });
            }
            Part::Arithmetic { expression, quoted } => {
                let expression = self.text(expression)?;
                let value = self.arithmetic(&expression)?;
                let text = value.to_string();
                to.push(Piece::Text { text, quoted: *quoted || all, split: true });
            }
        }
        Ok(())
    }

    /// `$(…)`: what the commands write, without line ends at its end.
    fn substitute(&mut self, list: &Rc<List>) -> Run<String> {
        let buffer = Buffer::new(VALUE_BYTES_MAX, Overflow::End);
        let sink = Fd::Output(Sink::Memory(Rc::clone(&buffer)));
        let status = self.subshell(&[(1, sink)], |shell| shell.list(list))?;
        self.substituted(status);
        let bytes = std::mem::take(&mut buffer.borrow_mut().bytes);
        let mut text = String::from_utf8_lossy(&bytes).replace('\0', "");
        text.truncate(text.trim_end_matches('\n').len());
        Ok(text)
    }

    /// Ends the script, as POSIX wants where a word cannot be expanded.
    pub(crate) fn cannot_expand<T>(&mut self, why: &str) -> Run<T> {
        self.say(&format!("sh: {why}\n"))?;
        Err(Stop::Exit(2))
    }
}
