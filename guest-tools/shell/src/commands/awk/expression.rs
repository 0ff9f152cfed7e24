//! From words to expressions: one function for each level of precedence.

use super::lexer::Token;
use super::parser::Parser;
use super::tree::{Comparison, Expression, Operator, Place};
use crate::stop::{Done, usage};

/// Functions of the language, and how many values each takes.
const BUILTINS: [(&str, usize, usize); 20] = [
    ("length", 0, 1),
    ("substr", 2, 3),
    ("index", 2, 2),
    ("split", 2, 3),
    ("sub", 2, 3),
    ("gsub", 2, 3),
    ("match", 2, 2),
    ("sprintf", 1, 1_000),
    ("sin", 1, 1),
    ("cos", 1, 1),
    ("atan2", 2, 2),
    ("exp", 1, 1),
    ("log", 1, 1),
    ("sqrt", 1, 1),
    ("int", 1, 1),
    ("rand", 0, 0),
    ("srand", 0, 1),
    ("tolower", 1, 1),
    ("toupper", 1, 1),
    ("close", 1, 1),
];

impl Parser {
    pub(super) fn expression(&mut self) -> Done<Expression> {
        self.deeper(Self::assignment)
    }

    fn assignment(&mut self) -> Done<Expression> {
        let left = self.conditional()?;
        let Token::Sign(sign) = *self.peek() else { return Ok(left) };
        let operator = match sign {
            "=" => None,
            "+=" => Some(Operator::Add),
            "-=" => Some(Operator::Subtract),
            "*=" => Some(Operator::Multiply),
            "/=" => Some(Operator::Divide),
            "%=" => Some(Operator::Remainder),
            "^=" | "**=" => Some(Operator::Power),
            _ => return Ok(left),
        };
        let Expression::Place(place) = left else {
            return usage(format!("{sign} needs a variable"));
        };
        self.at += 1;
        self.newlines();
        let value = Box::new(self.expression()?);
        Ok(match operator {
            None => Expression::Assign(place, value),
            Some(operator) => Expression::Update(place, operator, value),
        })
    }

    fn conditional(&mut self) -> Done<Expression> {
        let condition = self.or()?;
        if !self.eat("?") {
            return Ok(condition);
        }
        self.newlines();
        let yes = self.expression()?;
        self.newlines();
        self.expect(":")?;
        self.newlines();
        let no = self.expression()?;
        Ok(Expression::Conditional(Box::new(condition), Box::new(yes), Box::new(no)))
    }

    fn or(&mut self) -> Done<Expression> {
        let mut left = self.and()?;
        while self.eat("||") {
            self.newlines();
            left = Expression::Or(Box::new(left), Box::new(self.and()?));
        }
        Ok(left)
    }

    fn and(&mut self) -> Done<Expression> {
        let mut left = self.membership()?;
        while self.eat("&&") {
            self.newlines();
            left = Expression::And(Box::new(left), Box::new(self.membership()?));
        }
        Ok(left)
    }

    fn membership(&mut self) -> Done<Expression> {
        let mut left = self.matching()?;
        while !self.no_in && self.eat_word("in") {
            let Token::Name(name) = self.next() else { return usage("in needs an array") };
            let keys = match left {
                Expression::Group(keys) => keys,
                one => vec![one],
            };
            left = Expression::In(keys, self.variable(&name));
        }
        Ok(left)
    }

    fn matching(&mut self) -> Done<Expression> {
        let mut left = self.comparison()?;
        loop {
            let negated = match () {
                () if self.eat("~") => false,
                () if self.eat("!~") => true,
                () => return Ok(left),
            };
            let regex = Box::new(self.comparison()?);
            left = Expression::Match { negated, text: Box::new(left), regex };
        }
    }

    fn comparison(&mut self) -> Done<Expression> {
        let left = self.concatenation()?;
        let Token::Sign(sign) = *self.peek() else { return Ok(left) };
        let comparison = match sign {
            "<" => Comparison::Less,
            "<=" => Comparison::LessOrEqual,
            "==" => Comparison::Equal,
            "!=" => Comparison::NotEqual,
            ">" if !self.no_greater => Comparison::Greater,
            ">=" => Comparison::GreaterOrEqual,
            _ => return Ok(left),
        };
        self.at += 1;
        let right = self.concatenation()?;
        Ok(Expression::Compare(comparison, Box::new(left), Box::new(right)))
    }

    fn concatenation(&mut self) -> Done<Expression> {
        let mut left = self.sum()?;
        while self.operand_begins() {
            let right = self.sum()?;
            left = Expression::Concat(Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn operand_begins(&self) -> bool {
        match self.peek() {
            Token::Number(_)
            | Token::Text(_)
            | Token::Regex(_)
            | Token::Name(_)
            | Token::Call(_) => true,
            Token::Word(word) => BUILTINS.iter().any(|(own, ..)| own == word),
            Token::Sign(sign) => ["(", "$", "!", "-", "+", "++", "--"].contains(sign),
            Token::Newline | Token::End => false,
        }
    }

    fn sum(&mut self) -> Done<Expression> {
        let mut left = self.product()?;
        loop {
            let operator = match () {
                () if self.eat("+") => Operator::Add,
                () if self.eat("-") => Operator::Subtract,
                () => return Ok(left),
            };
            let right = self.product()?;
            left = Expression::Arithmetic(operator, Box::new(left), Box::new(right));
        }
    }

    fn product(&mut self) -> Done<Expression> {
        let mut left = self.unary()?;
        loop {
            let operator = match () {
                () if self.eat("*") => Operator::Multiply,
                () if self.eat("/") => Operator::Divide,
                () if self.eat("%") => Operator::Remainder,
                () => return Ok(left),
            };
            let right = self.unary()?;
            left = Expression::Arithmetic(operator, Box::new(left), Box::new(right));
        }
    }

    fn unary(&mut self) -> Done<Expression> {
        self.deeper(|parser| match () {
            () if parser.eat("!") => Ok(Expression::Not(Box::new(parser.unary()?))),
            () if parser.eat("-") => Ok(Expression::Negative(Box::new(parser.unary()?))),
            () if parser.eat("+") => Ok(Expression::Positive(Box::new(parser.unary()?))),
            () => parser.power(),
        })
    }

    fn power(&mut self) -> Done<Expression> {
        let base = self.postfix()?;
        if !self.eat("^") && !self.eat("**") {
            return Ok(base);
        }
        let power = self.unary()?;
        Ok(Expression::Arithmetic(Operator::Power, Box::new(base), Box::new(power)))
    }

    fn postfix(&mut self) -> Done<Expression> {
        for (sign, by) in [("++", 1.0), ("--", -1.0)] {
            if self.eat(sign) {
                let Expression::Place(place) = self.primary()? else {
                    return usage(format!("{sign} needs a variable"));
                };
                return Ok(Expression::Step(place, by, true));
            }
        }
        let value = self.primary()?;
        let Expression::Place(place) = value else { return Ok(value) };
        Ok(match () {
            () if self.eat("++") => Expression::Step(place, 1.0, false),
            () if self.eat("--") => Expression::Step(place, -1.0, false),
            () => Expression::Place(place),
        })
    }

    pub(super) fn primary(&mut self) -> Done<Expression> {
        match self.next() {
            Token::Number(value) => Ok(Expression::Number(value)),
            Token::Text(text) => Ok(Expression::Text(text)),
            Token::Regex(text) => Ok(Expression::Regex(text)),
            Token::Sign("$") => {
                let field = self.deeper(Self::postfix_of_field)?;
                Ok(Expression::Place(Place::Field(Box::new(field))))
            }
            Token::Sign("-") => Ok(Expression::Negative(Box::new(self.deeper(Self::primary)?))),
            Token::Sign("(") => self.group(),
            Token::Name(name) => {
                let variable = self.variable(&name);
                if !self.eat("[") {
                    return Ok(Expression::Place(Place::Variable(variable)));
                }
                let keys = self.list("]")?;
                Ok(Expression::Place(Place::Element(variable, keys)))
            }
            Token::Call(name) => {
                self.expect("(")?;
                let values = self.list(")")?;
                match self.program.functions.iter().position(|own| own.name == name) {
                    Some(at) => Ok(Expression::Call(at, values)),
                    None => usage(format!("there is no function {name}")),
                }
            }
            Token::Word("getline") => self.getline(),
            Token::Word("system") => usage("system is not there: awk runs no commands here"),
            Token::Word(word) => self.builtin(word),
            token => usage(format!("syntax error at {token:?}")),
        }
    }

    /// `$i++` is `($i)++`, but `$++i` is `$(++i)`.
    fn postfix_of_field(&mut self) -> Done<Expression> {
        if self.at_sign("++") || self.at_sign("--") { self.postfix() } else { self.primary() }
    }

    fn group(&mut self) -> Done<Expression> {
        let mut values = self.list(")")?;
        match (values.len(), values.pop()) {
            (0, _) | (_, None) => usage("syntax error: () is empty"),
            // In its own brackets, so that `(a) = b` is no assignment.
            (1, Some(one)) => Ok(match one {
                Expression::Place(place) => Expression::Place(place),
                one => one,
            }),
            (_, Some(last)) => {
                values.push(last);
                Ok(Expression::Group(values))
            }
        }
    }

    fn getline(&mut self) -> Done<Expression> {
        let place = match self.peek() {
            Token::Name(_) | Token::Sign("$") => match self.primary()? {
                Expression::Place(place) => Some(Box::new(place)),
                _ => return usage("getline needs a variable"),
            },
            _ => None,
        };
        let file = if self.eat("<") { Some(Box::new(self.primary()?)) } else { None };
        Ok(Expression::Getline { place, file })
    }

    fn builtin(&mut self, word: &'static str) -> Done<Expression> {
        let Some((_, least, most)) = BUILTINS.iter().find(|(own, ..)| *own == word) else {
            return usage(format!("syntax error at {word}"));
        };
        let values = if self.eat("(") { self.list(")")? } else { Vec::new() };
        if values.len() < *least || values.len() > *most {
            return usage(format!("{word} takes {least} to {most} values"));
        }
        Ok(Expression::Builtin(word.to_owned(), values))
    }
}
