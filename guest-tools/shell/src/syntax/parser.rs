//! Commands: a recursive descent over the characters of a script.

use std::rc::Rc;

use super::is_name;
use super::redirect::Pending;
use super::tree::{AndOr, Command, Join, List, Pipeline, Simple};
use crate::limits::SYNTAX_DEPTH_MAX;

/// Words that end a list of commands where a command could stand.
const CLOSERS: [&str; 8] = ["then", "else", "elif", "fi", "do", "done", "esac", "}"];

/// Why a text is no script, with its line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SyntaxError(pub(crate) String);

/// A result of parsing.
pub(crate) type Parsed<T> = Result<T, SyntaxError>;

pub(crate) struct Parser {
    pub(super) text: Vec<char>,
    pub(super) at: usize,
    pub(super) depth: usize,
    pub(super) pending: Vec<Pending>,
}

impl Parser {
    pub(crate) fn new(text: &str, depth: usize) -> Self {
        Self { text: text.chars().collect(), at: 0, depth, pending: Vec::new() }
    }

    /// Parses everything there is.
    pub(crate) fn script(&mut self) -> Parsed<List> {
        let list = self.list()?;
        match self.peek() {
            None => Ok(list),
            Some(_) => Err(self.unexpected()),
        }
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.text.get(self.at).copied()
    }

    pub(super) fn next(&mut self) -> Option<char> {
        let c = self.peek();
        self.at += usize::from(c.is_some());
        c
    }

    pub(super) fn looking_at(&self, what: &str) -> bool {
        let mut rest = self.text.iter().skip(self.at);
        what.chars().all(|c| rest.next() == Some(&c))
    }

    pub(super) fn eat(&mut self, what: &str) -> bool {
        let there = self.looking_at(what);
        if there {
            self.at += what.chars().count();
        }
        there
    }

    pub(super) fn place(&self) -> usize {
        self.at
    }

    pub(super) fn back_to(&mut self, place: usize) {
        self.at = place;
    }

    pub(super) fn error(&self, why: &str) -> SyntaxError {
        let line = 1 + self.text.iter().take(self.at).filter(|c| **c == '\n').count();
        SyntaxError(format!("line {line}: {why}"))
    }

    pub(super) fn unexpected(&self) -> SyntaxError {
        let rest = self.text.iter().skip(self.at);
        let word: String = rest.take_while(|c| !c.is_whitespace()).take(20).collect();
        let what = if word.is_empty() { "the end of the script" } else { &word };
        self.error(&format!("syntax error: {what:?} is not expected here"))
    }

    /// Runs `parse` one level deeper, up to a depth that the stack surely holds.
    pub(super) fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= SYNTAX_DEPTH_MAX {
            return Err(self.error("syntax error: nested too deeply"));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    /// Skips blanks, joined lines and a comment.
    pub(super) fn blanks(&mut self) {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\r') => self.at += 1,
                Some('\\') if self.looking_at("\\\n") => self.at += 2,
                Some('#') => {
                    while self.peek().is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                _ => return,
            }
        }
    }

    /// Skips blanks and line ends.
    pub(super) fn lines(&mut self) -> Parsed<()> {
        loop {
            self.blanks();
            if !self.eat("\n") {
                return Ok(());
            }
            self.here_documents()?;
        }
    }

    pub(super) fn list(&mut self) -> Parsed<List> {
        let mut list = List::new();
        loop {
            self.lines()?;
            if self.list_ends() {
                return Ok(list);
            }
            list.push(self.and_or()?);
            self.blanks();
            match self.peek() {
                Some(';') if !self.looking_at(";;") => self.at += 1,
                Some('\n') => {}
                Some('&') => {
                    let why = "`&` is not there: this shell has no background jobs";
                    return Err(self.error(why));
                }
                _ => return Ok(list),
            }
        }
    }

    fn list_ends(&self) -> bool {
        match self.peek() {
            None | Some(')') => true,
            Some(';') => self.looking_at(";;"),
            _ => CLOSERS.iter().any(|word| self.at_word(word)),
        }
    }

    /// A list that must hold a command.
    pub(super) fn body(&mut self) -> Parsed<List> {
        let list = self.list()?;
        if list.is_empty() { Err(self.unexpected()) } else { Ok(list) }
    }

    fn and_or(&mut self) -> Parsed<AndOr> {
        let first = self.pipeline()?;
        let mut rest = Vec::new();
        loop {
            self.blanks();
            let join = match () {
                () if self.eat("&&") => Join::And,
                () if self.eat("||") => Join::Or,
                () => return Ok(AndOr { first, rest }),
            };
            self.lines()?;
            rest.push((join, self.pipeline()?));
        }
    }

    fn pipeline(&mut self) -> Parsed<Pipeline> {
        let mut negated = false;
        while self.eat_word("!") {
            negated = !negated;
            self.blanks();
        }
        let mut stages = vec![self.command()?];
        loop {
            self.blanks();
            if self.looking_at("||") || !self.eat("|") {
                return Ok(Pipeline { negated, stages });
            }
            self.lines()?;
            stages.push(self.command()?);
        }
    }

    fn command(&mut self) -> Parsed<Command> {
        self.deeper(|parser| {
            let Some(body) = parser.compound()? else {
                return parser.simple();
            };
            let mut redirects = Vec::new();
            while let Some(redirect) = parser.redirect()? {
                redirects.push(redirect);
            }
            Ok(Command::Compound { body, redirects })
        })
    }

    fn simple(&mut self) -> Parsed<Command> {
        let mut simple = Simple::default();
        loop {
            self.blanks();
            if let Some(redirect) = self.redirect()? {
                simple.redirects.push(redirect);
            } else if let Some(name) = self.assigned(&simple) {
                let value = self.word()?.unwrap_or_default();
                simple.assigns.push((name, value));
            } else if let Some(name) = self.function_name(&simple) {
                return self.function(name);
            } else if let Some(word) = self.word()? {
                simple.words.push(word);
            } else if simple.words.is_empty()
                && simple.assigns.is_empty()
                && simple.redirects.is_empty()
            {
                return Err(self.unexpected());
            } else {
                return Ok(Command::Simple(simple));
            }
        }
    }

    /// The name in `name=`, which is eaten; `None` and nothing eaten where there is none.
    fn assigned(&mut self, simple: &Simple) -> Option<String> {
        if !simple.words.is_empty() {
            return None;
        }
        let start = self.at;
        let name = self.bare_word();
        if is_name(&name) && self.eat("=") {
            return Some(name);
        }
        self.at = start;
        None
    }

    fn function_name(&mut self, simple: &Simple) -> Option<String> {
        if !(simple.words.is_empty() && simple.assigns.is_empty() && simple.redirects.is_empty()) {
            return None;
        }
        let start = self.at;
        let name = self.bare_word();
        self.blanks();
        if is_name(&name) && self.eat("(") {
            self.blanks();
            if self.eat(")") {
                return Some(name);
            }
        }
        self.at = start;
        None
    }

    fn function(&mut self, name: String) -> Parsed<Command> {
        self.lines()?;
        match self.command()? {
            Command::Simple(_) => Err(self.error("syntax error: a function's body is missing")),
            body => Ok(Command::Function { name, body: Rc::new(body) }),
        }
    }

    /// Letters, digits and `_` as they stand.
    pub(super) fn bare_word(&mut self) -> String {
        let mut word = String::new();
        while let Some(c) = self.peek().filter(|c| *c == '_' || c.is_ascii_alphanumeric()) {
            word.push(c);
            self.at += 1;
        }
        word
    }

    pub(super) fn at_word(&self, word: &str) -> bool {
        let after = self.text.get(self.at + word.len());
        self.looking_at(word) && after.is_none_or(|c| " \t\r\n;&|()<>".contains(*c))
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let there = self.at_word(word);
        if there {
            self.at += word.len();
        }
        there
    }

    pub(super) fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.missing(word)) }
    }

    pub(super) fn expect(&mut self, what: &str) -> Parsed<()> {
        if self.eat(what) { Ok(()) } else { Err(self.missing(what)) }
    }

    fn missing(&self, what: &str) -> SyntaxError {
        let SyntaxError(why) = self.unexpected();
        SyntaxError(format!("{why}; {what:?} would be"))
    }
}
