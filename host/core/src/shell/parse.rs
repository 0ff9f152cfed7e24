//! From a command line to the commands it is made of, by a part of the grammar of `sh`.
//!
//! Simple commands, joined by `|`, `&&`, `||` and `;`, with redirections and with `*`, `?` and
//! `[…]` in their words. Deliberately absent: everything that makes text or commands while it
//! runs (`$`, backquotes, `<(…)`), the background, here-documents, groups, compound commands,
//! functions, comments and `~`. Whatever this file does not know is refused.

use std::iter::Peekable;
use std::str::Chars;

use super::rules::Refusal;
use crate::grants::is_variable_name;
use crate::limits::SHELL_COMMANDS_MAX;

/// How a command stands to the one before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Joint {
    /// It is the first one.
    First,
    /// `|`
    Pipe,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `;`
    Then,
}

/// One program and what it is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Simple {
    pub(super) joint: Joint,
    /// `!` before the pipeline that it begins.
    pub(super) negated: bool,
    pub(super) assignments: Vec<(String, String)>,
    /// The program's name and its arguments; never empty.
    pub(super) words: Vec<Word>,
    pub(super) redirects: Vec<Redirect>,
}

/// A word after quotes are taken off.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub(super) parts: Vec<Part>,
    /// What it begins with that was not quoted, up to the first quote or pattern.
    bare: String,
}

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// Stands for itself.
    Text(String),
    /// `*`, `?` or `[…]`: stands for parts of the names of files.
    Pattern(String),
}

/// Where a stream comes from or goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Redirect {
    /// The digit before the operator.
    pub(super) stream: Option<char>,
    pub(super) target: Target,
}

/// What a stream is connected to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Target {
    /// `<`, `>` or `>>`, and a file.
    File(&'static str, String),
    /// `>&` and another stream.
    Stream(char),
}

impl From<&str> for Word {
    fn from(text: &str) -> Self {
        Self { parts: vec![Part::Text(text.to_owned())], ..Self::default() }
    }
}

impl Word {
    /// Returns its text, patterns as they are written.
    pub(super) fn text(&self) -> String {
        let texts = self.parts.iter().map(|part| match part {
            Part::Text(text) | Part::Pattern(text) => text.as_str(),
        });
        texts.collect()
    }

    /// Says whether names of files may take its place.
    pub(super) fn is_pattern(&self) -> bool {
        self.parts.iter().any(|part| matches!(part, Part::Pattern(_)))
    }

    /// Returns `name` and `value` where it is `name=value`.
    fn assignment(&self) -> Option<(String, String)> {
        let (name, _) = self.bare.split_once('=')?;
        let value = self.text().get(name.len() + 1..)?.to_owned();
        is_variable_name(name).then(|| (name.to_owned(), value))
    }

    /// Says whether nothing in it is quoted, not even an empty text, nor a pattern.
    fn is_bare(&self) -> bool {
        matches!(self.parts.as_slice(), [Part::Text(text)] if *text == self.bare)
    }

    fn push(&mut self, c: char) {
        match self.parts.last_mut() {
            Some(Part::Text(text)) => text.push(c),
            _ => self.parts.push(Part::Text(c.into())),
        }
    }
}

/// Returns the commands of `line`, one to [`SHELL_COMMANDS_MAX`], in their order.
pub(super) fn parse(line: &str) -> Result<Vec<Simple>, Refusal> {
    let mut reader = Reader { rest: line.trim().chars().peekable() };
    let mut commands = Vec::new();
    let mut current = Simple::after(Joint::First);
    while let Some(token) = reader.token()? {
        match token {
            Token::Joint(joint) => {
                commands.push(current.finish()?);
                current = Simple::after(joint);
            }
            Token::Redirect(stream, operator) => {
                let target = reader.target(operator)?;
                current.redirects.push(Redirect { stream, target });
            }
            Token::Word(word) => current.take(word)?,
        }
    }
    // `;` may also end a line.
    if current.joint != Joint::Then || !current.is_empty() {
        commands.push(current.finish()?);
    }
    if commands.len() > SHELL_COMMANDS_MAX {
        return Err(Refusal::new(format!("it has more than {SHELL_COMMANDS_MAX} commands")));
    }
    Ok(commands)
}

impl Simple {
    fn after(joint: Joint) -> Self {
        let (assignments, words, redirects) = Default::default();
        Self { joint, negated: false, assignments, words, redirects }
    }

    fn is_empty(&self) -> bool {
        !self.negated
            && self.words.is_empty()
            && self.assignments.is_empty()
            && self.redirects.is_empty()
    }

    fn take(&mut self, word: Word) -> Result<(), Refusal> {
        let is_first = self.words.is_empty() && self.assignments.is_empty();
        let is_mark = word.bare == "!" && word.is_bare();
        if is_first && is_mark && self.redirects.is_empty() {
            if self.negated || self.joint == Joint::Pipe {
                return Err(Refusal::new("`!` stands before a pipeline only"));
            }
            self.negated = true;
        } else if let Some(pair) = word.assignment().filter(|_| self.words.is_empty()) {
            self.assignments.push(pair);
        } else {
            self.words.push(word);
        }
        Ok(())
    }

    fn finish(self) -> Result<Self, Refusal> {
        if self.words.is_empty() {
            return Err(Refusal::new(
                "a command is missing beside `|`, `&&`, `||`, `;`, an assignment or a redirection, or there is none",
            ));
        }
        Ok(self)
    }
}

enum Token {
    Joint(Joint),
    Redirect(Option<char>, &'static str),
    Word(Word),
}

struct Reader<'l> {
    rest: Peekable<Chars<'l>>,
}

impl Reader<'_> {
    fn token(&mut self) -> Result<Option<Token>, Refusal> {
        while self.rest.next_if(|c| is_blank(*c)).is_some() {}
        let Some(first) = self.rest.peek().copied() else {
            return Ok(None);
        };
        if first == '#' {
            return Err(Refusal::new("comments are not read: quote `#`, or leave it out"));
        }
        if let Some(joint) = self.joint()? {
            return Ok(Some(Token::Joint(joint)));
        }
        if let Some(operator) = self.redirect()? {
            return Ok(Some(Token::Redirect(None, operator)));
        }
        let word = self.word()?;
        // Digits directly before an operator are the stream that it is about.
        let is_number = !word.bare.is_empty() && word.bare.bytes().all(|b| b.is_ascii_digit());
        if is_number
            && word.is_bare()
            && let Some(operator) = self.redirect()?
        {
            return Ok(Some(Token::Redirect(Some(stream(&word.bare)?), operator)));
        }
        Ok(Some(Token::Word(word)))
    }

    fn joint(&mut self) -> Result<Option<Joint>, Refusal> {
        let joint = match self.rest.next_if(|c| matches!(c, '|' | '&' | ';')) {
            None => return Ok(None),
            Some('|') if self.next_is('|') => Joint::Or,
            Some('|') => Joint::Pipe,
            Some('&') if self.next_is('&') => Joint::And,
            Some('&') => return Err(Refusal::new("`&`: nothing runs in the background")),
            Some(_) => Joint::Then,
        };
        match self.rest.peek() {
            Some('|' | '&' | ';') => Err(Refusal::new("operators that follow each other")),
            _ => Ok(Some(joint)),
        }
    }

    fn redirect(&mut self) -> Result<Option<&'static str>, Refusal> {
        let operator = match self.rest.next_if(|c| matches!(c, '<' | '>')) {
            None => return Ok(None),
            Some('<') => "<",
            Some(_) if self.next_is('>') => ">>",
            Some(_) if self.next_is('&') => ">&",
            Some(_) => ">",
        };
        match self.rest.peek() {
            Some('<' | '>' | '&' | '|' | '(') => Err(Refusal::new(
                "of redirections there are `<`, `>`, `>>` and `>&`: no here-documents, no `<(`",
            )),
            _ => Ok(Some(operator)),
        }
    }

    fn target(&mut self, operator: &'static str) -> Result<Target, Refusal> {
        let Some(Token::Word(word)) = self.token()? else {
            return Err(Refusal::new(format!("`{operator}` leads nowhere")));
        };
        if operator == ">&" {
            return Ok(Target::Stream(stream(&word.text())?));
        }
        if word.is_pattern() {
            return Err(Refusal::new(format!("`{operator}` needs one file, not a pattern")));
        }
        Ok(Target::File(operator, word.text()))
    }

    fn word(&mut self) -> Result<Word, Refusal> {
        let mut word = Word::default();
        let mut is_bare = true;
        while let Some(c) = self.rest.next_if(|c| !ends_word(*c)) {
            let is_plain = !matches!(c, '\'' | '"' | '\\' | '*' | '?' | '[');
            is_bare &= is_plain;
            match c {
                '\'' => self.single(&mut word)?,
                '"' => self.double(&mut word)?,
                '\\' => word.push(self.escaped()?),
                '*' | '?' => word.parts.push(Part::Pattern(c.into())),
                '[' => self.bracket(&mut word)?,
                '$' | '`' => return Err(expansion()),
                '(' | ')' => {
                    return Err(Refusal::new(
                        "no groups, subshells or functions: quote `(` and `)`",
                    ));
                }
                '~' if word.parts.is_empty() || word.bare.ends_with(['=', ':']) => {
                    return Err(Refusal::new("`~` is not expanded: write the path"));
                }
                c if c.is_control() => {
                    return Err(Refusal::new(
                        "a newline or control character outside quotes: join commands with `;` or `&&`",
                    ));
                }
                c => word.push(c),
            }
            if is_bare {
                word.bare.push(c);
            }
        }
        // An empty quoted word is a word, too.
        if word.parts.is_empty() {
            word.parts.push(Part::Text(String::new()));
        }
        Ok(word)
    }

    /// `'…'`: everything is text.
    fn single(&mut self, word: &mut Word) -> Result<(), Refusal> {
        word.parts.push(Part::Text(String::new()));
        loop {
            match self.rest.next() {
                Some('\'') => return Ok(()),
                Some(c) => word.push(c),
                None => return Err(Refusal::new("a `'` is not closed")),
            }
        }
    }

    /// `"…"`: text, in which a backslash quotes `$`, the backquote, `"` and itself.
    fn double(&mut self, word: &mut Word) -> Result<(), Refusal> {
        word.parts.push(Part::Text(String::new()));
        loop {
            match self.rest.next() {
                Some('"') => return Ok(()),
                Some('$' | '`') => return Err(expansion()),
                Some('\\') => match self.rest.next_if(|c| matches!(c, '$' | '`' | '"' | '\\')) {
                    Some(quoted) => word.push(quoted),
                    None if self.rest.peek() == Some(&'\n') => self.escaped().map(drop)?,
                    None => word.push('\\'),
                },
                Some(c) => word.push(c),
                None => return Err(Refusal::new("a `\"` is not closed")),
            }
        }
    }

    fn escaped(&mut self) -> Result<char, Refusal> {
        match self.rest.next() {
            Some(c) if !c.is_control() => Ok(c),
            _ => Err(Refusal::new("a backslash at the end of a line")),
        }
    }

    /// `[…]` of plain characters is a pattern; `[` that nothing closes is text.
    fn bracket(&mut self, word: &mut Word) -> Result<(), Refusal> {
        let mut ahead = self.rest.clone();
        let mut pattern = String::from("[");
        while let Some(c) = ahead.next_if(|c| !ends_word(*c)) {
            pattern.push(c);
            match c {
                ']' if pattern.trim_start_matches(['[', '!', '^']) != "]" => {
                    self.rest = ahead;
                    word.parts.push(Part::Pattern(pattern));
                    return Ok(());
                }
                '_' | '.' | '-' | '!' | '^' => {}
                c if c.is_ascii_alphanumeric() => {}
                _ => {
                    return Err(Refusal::new(
                        "`[…]` may hold letters, digits, `_`, `.`, `-` and `!`: quote `[`",
                    ));
                }
            }
        }
        word.push('[');
        Ok(())
    }

    fn next_is(&mut self, wanted: char) -> bool {
        self.rest.next_if_eq(&wanted).is_some()
    }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t')
}

fn ends_word(c: char) -> bool {
    is_blank(c) || matches!(c, '|' | '&' | ';' | '<' | '>')
}

fn expansion() -> Refusal {
    Refusal::new("nothing is expanded: no `$` and no backquotes outside '…' (in \"…\" write `\\$`)")
}

fn stream(digits: &str) -> Result<char, Refusal> {
    match digits {
        "0" => Ok('0'),
        "1" => Ok('1'),
        "2" => Ok('2'),
        _ => Err(Refusal::new("a redirection is about the streams 0, 1 and 2 only")),
    }
}
