//! Redirections, and the here-documents that some of them name.

use std::cell::RefCell;
use std::mem;
use std::rc::Rc;

use super::parser::{Parsed, Parser};
use super::tree::{Action, Redirect, Word};
use super::word::{End, Mode};

/// A here-document whose text comes after the line that names it.
pub(super) struct Pending {
    delimiter: String,
    quoted: bool,
    strip_tabs: bool,
    body: Rc<RefCell<Word>>,
}

impl Parser {
    pub(super) fn redirect(&mut self) -> Parsed<Option<Redirect>> {
        self.blanks();
        let start = self.at;
        let digits = self.text.iter().skip(start).take_while(|c| c.is_ascii_digit());
        let fd: String = digits.collect();
        self.at += fd.len();
        if !matches!(self.peek(), Some('<' | '>')) {
            self.at = start;
            return Ok(None);
        }
        let fd = if fd.is_empty() { None } else { fd.parse().ok() };
        Ok(Some(Redirect { fd, action: self.action()? }))
    }

    fn action(&mut self) -> Parsed<Action> {
        match () {
            () if self.eat("<<-") => self.here(true),
            () if self.eat("<<") => self.here(false),
            () if self.eat("<&") => Ok(Action::Copy { word: self.target()?, output: false }),
            () if self.eat(">&") => Ok(Action::Copy { word: self.target()?, output: true }),
            () if self.eat(">>") => Ok(Action::Append(self.target()?)),
            () if self.eat(">|") || self.eat(">") => Ok(Action::Write(self.target()?)),
            () => {
                self.expect("<")?;
                Ok(Action::Read(self.target()?))
            }
        }
    }

    fn target(&mut self) -> Parsed<Word> {
        self.blanks();
        self.word()?.ok_or_else(|| self.unexpected())
    }

    fn here(&mut self, strip_tabs: bool) -> Parsed<Action> {
        let (delimiter, quoted) = self.target()?.as_delimiter();
        let body = Rc::new(RefCell::new(Word::default()));
        self.pending.push(Pending { delimiter, quoted, strip_tabs, body: Rc::clone(&body) });
        Ok(Action::Here(body))
    }

    /// Reads the texts that the line just ended has named.
    pub(super) fn here_documents(&mut self) -> Parsed<()> {
        for pending in mem::take(&mut self.pending) {
            let text = self.here_text(&pending);
            let word = if pending.quoted {
                Word::quoted(text)
            } else {
                let mut inner = Self::new(&text, self.depth + 1);
                inner.parts(Mode { quoted: true, end: End::Text })?
            };
            *pending.body.borrow_mut() = word;
        }
        Ok(())
    }

    fn here_text(&mut self, pending: &Pending) -> String {
        let mut text = String::new();
        while self.peek().is_some() {
            let mut line = String::new();
            while let Some(c) = self.next().filter(|c| *c != '\n') {
                line.push(c);
            }
            let line = if pending.strip_tabs { line.trim_start_matches('\t') } else { &line };
            if line == pending.delimiter {
                break;
            }
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}
