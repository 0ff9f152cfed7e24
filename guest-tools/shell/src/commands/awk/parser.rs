//! From words to the tree of an `awk` program.

use super::lexer::Token;
use super::tree::{
    Expression, Function, Pattern, Place, Program, Rule, Statement, Target, Variable,
};
use crate::limits::SYNTAX_DEPTH_MAX;
use crate::stop::{Done, usage};

pub(super) struct Parser {
    tokens: Vec<Token>,
    pub(super) at: usize,
    depth: usize,
    pub(super) program: Program,
    /// Parameters of the function that is being parsed.
    locals: Vec<String>,
    /// Inside `for (…`: `in` belongs to the loop. Inside `print`: `>` redirects.
    pub(super) no_in: bool,
    pub(super) no_greater: bool,
}

impl Parser {
    pub(super) fn new(tokens: Vec<Token>, globals: &[&str]) -> Self {
        let globals = globals.iter().map(|name| (*name).to_owned()).collect();
        Self {
            tokens,
            at: 0,
            depth: 0,
            program: Program { globals, ..Program::default() },
            locals: Vec::new(),
            no_in: false,
            no_greater: false,
        }
    }

    pub(super) fn peek(&self) -> &Token {
        self.tokens.get(self.at).unwrap_or(&Token::End)
    }

    pub(super) fn next(&mut self) -> Token {
        let token = self.peek().clone();
        self.at += 1;
        token
    }

    pub(super) fn at_sign(&self, sign: &str) -> bool {
        matches!(self.peek(), Token::Sign(own) if *own == sign)
    }

    pub(super) fn eat(&mut self, sign: &str) -> bool {
        let there = self.at_sign(sign);
        self.at += usize::from(there);
        there
    }

    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let there = matches!(self.peek(), Token::Word(own) if *own == word);
        self.at += usize::from(there);
        there
    }

    pub(super) fn expect(&mut self, sign: &str) -> Done<()> {
        if self.eat(sign) {
            Ok(())
        } else {
            usage(format!("syntax error: {sign} is missing before {:?}", self.peek()))
        }
    }

    pub(super) fn newlines(&mut self) {
        while *self.peek() == Token::Newline {
            self.at += 1;
        }
    }

    fn ends(&mut self) {
        while *self.peek() == Token::Newline || self.at_sign(";") {
            self.at += 1;
        }
    }

    pub(super) fn deeper<T>(&mut self, parse: impl FnOnce(&mut Self) -> Done<T>) -> Done<T> {
        if self.depth >= SYNTAX_DEPTH_MAX {
            return usage("the program is nested too deeply");
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    pub(super) fn parse(mut self) -> Done<Program> {
        // Functions may be called before they are defined.
        for pair in self.tokens.windows(2) {
            if let [Token::Word("function" | "func"), Token::Call(name) | Token::Name(name)] = pair
            {
                let (name, parameters, body) = (name.clone(), Vec::new(), Vec::new());
                self.program.functions.push(Function { name, parameters, body });
            }
        }
        loop {
            self.ends();
            if *self.peek() == Token::End {
                return Ok(self.program);
            }
            self.item()?;
        }
    }

    fn item(&mut self) -> Done<()> {
        if self.eat_word("function") || self.eat_word("func") {
            return self.function();
        }
        if self.eat_word("BEGIN") {
            let body = self.block()?;
            self.program.begin.extend(body);
        } else if self.eat_word("END") {
            let body = self.block()?;
            self.program.has_end = true;
            self.program.end.extend(body);
        } else {
            let pattern = self.pattern()?;
            let body = if self.at_sign("{") { Some(self.block()?) } else { None };
            self.program.rules.push(Rule { pattern, body });
        }
        Ok(())
    }

    fn pattern(&mut self) -> Done<Pattern> {
        if self.at_sign("{") {
            return Ok(Pattern::Always);
        }
        let first = self.expression()?;
        if !self.eat(",") {
            return Ok(Pattern::When(first));
        }
        self.newlines();
        Ok(Pattern::Range(first, self.expression()?))
    }

    fn function(&mut self) -> Done<()> {
        let (Token::Call(name) | Token::Name(name)) = self.next() else {
            return usage("a function's name is missing");
        };
        self.expect("(")?;
        while !self.eat(")") {
            match self.next() {
                Token::Name(name) => self.locals.push(name),
                _ => return usage(format!("{name}: a parameter's name is missing")),
            }
            self.eat(",");
            self.newlines();
        }
        self.newlines();
        let body = self.block()?;
        let parameters = std::mem::take(&mut self.locals);
        if let Some(own) = self.program.functions.iter_mut().find(|own| own.name == name) {
            *own = Function { name, parameters, body };
        }
        Ok(())
    }

    fn block(&mut self) -> Done<Vec<Statement>> {
        self.expect("{")?;
        let mut statements = Vec::new();
        loop {
            self.ends();
            if self.eat("}") {
                return Ok(statements);
            }
            statements.push(self.statement()?);
        }
    }

    /// A statement, or a block of them.
    fn body(&mut self) -> Done<Vec<Statement>> {
        self.newlines();
        if self.eat(";") {
            return Ok(Vec::new());
        }
        if self.at_sign("{") {
            return self.deeper(Self::block);
        }
        let one = self.statement()?;
        Ok(vec![one])
    }

    fn statement(&mut self) -> Done<Statement> {
        self.deeper(|parser| {
            let statement = parser.statement_here()?;
            if !parser.at_sign("}") && *parser.peek() != Token::End {
                let block = matches!(
                    statement,
                    Statement::If(..)
                        | Statement::While(..)
                        | Statement::For { .. }
                        | Statement::ForIn { .. }
                        | Statement::Block(_)
                );
                let ended = *parser.peek() == Token::Newline || parser.at_sign(";");
                if ended && !block {
                    parser.at += 1;
                } else if !ended && !block {
                    return usage(format!("syntax error at {:?}", parser.peek()));
                }
            }
            Ok(statement)
        })
    }

    fn statement_here(&mut self) -> Done<Statement> {
        if self.at_sign("{") {
            return Ok(Statement::Block(self.block()?));
        }
        let Token::Word(word) = *self.peek() else { return self.simple() };
        match word {
            "if" => self.if_(),
            "while" => self.while_(),
            "do" => self.do_(),
            "for" => self.for_(),
            _ => self.simple(),
        }
    }

    fn condition(&mut self) -> Done<Expression> {
        self.expect("(")?;
        let condition = self.expression()?;
        self.expect(")")?;
        Ok(condition)
    }

    fn if_(&mut self) -> Done<Statement> {
        self.at += 1;
        let condition = self.condition()?;
        let yes = self.body()?;
        let place = self.at;
        self.ends();
        if self.eat_word("else") {
            return Ok(Statement::If(condition, yes, self.body()?));
        }
        self.at = place;
        Ok(Statement::If(condition, yes, Vec::new()))
    }

    fn while_(&mut self) -> Done<Statement> {
        self.at += 1;
        let condition = self.condition()?;
        Ok(Statement::While(condition, self.body()?))
    }

    fn do_(&mut self) -> Done<Statement> {
        self.at += 1;
        let body = self.body()?;
        self.ends();
        if !self.eat_word("while") {
            return usage("syntax error: while is missing after do");
        }
        Ok(Statement::DoWhile(body, self.condition()?))
    }

    fn for_(&mut self) -> Done<Statement> {
        self.at += 1;
        self.expect("(")?;
        let place = self.at;
        if let Some((variable, array)) = self.in_head()? {
            return Ok(Statement::ForIn { variable, array, body: self.body()? });
        }
        self.at = place;
        let start = if self.at_sign(";") { None } else { Some(Box::new(self.simple()?)) };
        self.expect(";")?;
        self.newlines();
        let condition = if self.at_sign(";") { None } else { Some(self.expression()?) };
        self.expect(";")?;
        self.newlines();
        let step = if self.at_sign(")") { None } else { Some(Box::new(self.simple()?)) };
        self.expect(")")?;
        Ok(Statement::For { start, condition, step, body: self.body()? })
    }

    /// `name in array )`.
    fn in_head(&mut self) -> Done<Option<(Place, Variable)>> {
        let Token::Name(name) = self.next() else { return Ok(None) };
        if !self.eat_word("in") {
            return Ok(None);
        }
        let Token::Name(array) = self.next() else { return Ok(None) };
        if !self.eat(")") {
            return Ok(None);
        }
        Ok(Some((Place::Variable(self.variable(&name)), self.variable(&array))))
    }

    fn simple(&mut self) -> Done<Statement> {
        let Token::Word(word) = *self.peek() else {
            return Ok(Statement::Expression(self.expression()?));
        };
        let place = self.at;
        self.at += 1;
        Ok(match word {
            "break" => Statement::Break,
            "continue" => Statement::Continue,
            "next" => Statement::Next,
            "nextfile" => Statement::NextFile,
            "exit" => Statement::Exit(self.optional()?),
            "return" => Statement::Return(self.optional()?),
            "delete" => self.delete()?,
            "print" => {
                let (values, to) = self.output()?;
                Statement::Print { values, to }
            }
            "printf" => {
                let (values, to) = self.output()?;
                Statement::Printf { values, to }
            }
            _ => {
                self.at = place;
                Statement::Expression(self.expression()?)
            }
        })
    }

    fn statement_ends(&self) -> bool {
        matches!(self.peek(), Token::Newline | Token::End | Token::Sign(";" | "}" | ")"))
    }

    fn optional(&mut self) -> Done<Option<Expression>> {
        if self.statement_ends() { Ok(None) } else { self.expression().map(Some) }
    }

    fn delete(&mut self) -> Done<Statement> {
        let Token::Name(name) = self.next() else { return usage("delete takes an array") };
        let array = self.variable(&name);
        if !self.eat("[") {
            return Ok(Statement::Delete(array, None));
        }
        let keys = self.list("]")?;
        Ok(Statement::Delete(array, Some(keys)))
    }

    fn output(&mut self) -> Done<(Vec<Expression>, Option<Target>)> {
        let mut values = Vec::new();
        let outer = std::mem::replace(&mut self.no_greater, true);
        if !self.statement_ends() && !self.at_sign(">") && !self.at_sign(">>") {
            loop {
                values.push(self.expression()?);
                if !self.eat(",") {
                    break;
                }
                self.newlines();
            }
        }
        // `print (a, b) > "file"`: the parentheses only group.
        if values.len() == 1
            && let Some(Expression::Group(_)) = values.first()
            && let Some(Expression::Group(inner)) = values.pop()
        {
            values = inner;
        }
        let append = self.at_sign(">>");
        let to = if append || self.at_sign(">") {
            self.at += 1;
            Some(Target { append, name: self.concatenation_operand()? })
        } else {
            None
        };
        self.no_greater = outer;
        Ok((values, to))
    }

    fn concatenation_operand(&mut self) -> Done<Expression> {
        self.primary()
    }

    pub(super) fn variable(&mut self, name: &str) -> Variable {
        if let Some(at) = self.locals.iter().position(|own| own == name) {
            return Variable::Local(at);
        }
        let globals = &mut self.program.globals;
        let at = globals.iter().position(|own| own == name).unwrap_or_else(|| {
            globals.push(name.to_owned());
            globals.len() - 1
        });
        Variable::Global(at)
    }

    pub(super) fn list(&mut self, end: &str) -> Done<Vec<Expression>> {
        let outer = (std::mem::take(&mut self.no_in), std::mem::take(&mut self.no_greater));
        let mut values = Vec::new();
        self.newlines();
        while !self.eat(end) {
            values.push(self.expression()?);
            self.newlines();
            if !self.eat(",") {
                self.expect(end)?;
                break;
            }
            self.newlines();
        }
        (self.no_in, self.no_greater) = outer;
        Ok(values)
    }
}
