//! Compound commands.

use super::is_name;
use super::parser::{Parsed, Parser};
use super::tree::{Compound, List, Word};

impl Parser {
    pub(super) fn compound(&mut self) -> Parsed<Option<Compound>> {
        Ok(Some(match () {
            () if self.eat("(") => {
                let list = self.body()?;
                self.expect(")")?;
                Compound::Subshell(list)
            }
            () if self.eat_word("{") => {
                let list = self.body()?;
                self.expect_word("}")?;
                Compound::Group(list)
            }
            () if self.eat_word("if") => self.if_()?,
            () if self.eat_word("for") => self.for_()?,
            () if self.eat_word("while") => self.while_(false)?,
            () if self.eat_word("until") => self.while_(true)?,
            () if self.eat_word("case") => self.case()?,
            () => return Ok(None),
        }))
    }

    fn if_(&mut self) -> Parsed<Compound> {
        let mut branches = Vec::new();
        let mut otherwise = None;
        loop {
            let condition = self.body()?;
            self.expect_word("then")?;
            branches.push((condition, self.body()?));
            if !self.eat_word("elif") {
                break;
            }
        }
        if self.eat_word("else") {
            otherwise = Some(self.body()?);
        }
        self.expect_word("fi")?;
        Ok(Compound::If { branches, otherwise })
    }

    fn for_(&mut self) -> Parsed<Compound> {
        self.blanks();
        let name = self.bare_word();
        if !is_name(&name) {
            return Err(self.error(&format!("syntax error: {name:?} is no variable name")));
        }
        self.lines()?;
        let words = if self.eat_word("in") { Some(self.words()?) } else { None };
        self.blanks();
        self.eat(";");
        let body = self.do_group()?;
        Ok(Compound::For { name, words, body })
    }

    fn words(&mut self) -> Parsed<Vec<Word>> {
        let mut words = Vec::new();
        loop {
            self.blanks();
            match self.word()? {
                Some(word) => words.push(word),
                None => return Ok(words),
            }
        }
    }

    fn do_group(&mut self) -> Parsed<List> {
        self.lines()?;
        self.expect_word("do")?;
        let body = self.body()?;
        self.expect_word("done")?;
        Ok(body)
    }

    fn while_(&mut self, until: bool) -> Parsed<Compound> {
        let condition = self.body()?;
        Ok(Compound::While { until, condition, body: self.do_group()? })
    }

    fn case(&mut self) -> Parsed<Compound> {
        self.blanks();
        let word = self.word()?.ok_or_else(|| self.unexpected())?;
        self.lines()?;
        self.expect_word("in")?;
        let mut arms = Vec::new();
        loop {
            self.lines()?;
            if self.eat_word("esac") {
                return Ok(Compound::Case { word, arms });
            }
            arms.push(self.arm()?);
            self.lines()?;
            if !self.eat(";;") && !self.at_word("esac") {
                return Err(self.unexpected());
            }
        }
    }

    fn arm(&mut self) -> Parsed<(Vec<Word>, List)> {
        self.eat("(");
        let mut patterns = Vec::new();
        loop {
            self.blanks();
            patterns.push(self.word()?.ok_or_else(|| self.unexpected())?);
            self.blanks();
            if !self.eat("|") {
                break;
            }
        }
        self.expect(")")?;
        Ok((patterns, self.list()?))
    }
}
