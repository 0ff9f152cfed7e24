//! `$((…))`: whole numbers of 64 bits that wrap, with C's operators.

use crate::limits::SYNTAX_DEPTH_MAX;
use crate::shell::Shell;
use crate::stop::{Run, Stop};

/// Operators of two values, weakest first.
const LEVELS: [&[&str]; 10] = [
    &["||"],
    &["&&"],
    &["|"],
    &["^"],
    &["&"],
    &["==", "!="],
    &["<=", ">=", "<", ">"],
    &["<<", ">>"],
    &["+", "-"],
    &["*", "/", "%"],
];

/// Operators, longest first, so that `<<=` is no `<`.
const TOKENS: [&str; 36] = [
    "<<=", ">>=", "||", "&&", "==", "!=", "<=", ">=", "<<", ">>", "+=", "-=", "*=", "/=", "%=",
    "&=", "|=", "^=", "++", "--", "|", "^", "&", "<", ">", "+", "-", "*", "/", "%", "!", "~", "(",
    ")", "?", ":",
];

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Number(i64),
    Name(String),
    Sign(&'static str),
}

struct Expression<'a> {
    shell: &'a mut Shell,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    /// Above 0 in the part of `&&`, `||` and `?:` that does not count: nothing is assigned.
    idle: usize,
}

impl Shell {
    /// The value of an expression whose parameters are already expanded.
    pub(crate) fn arithmetic(&mut self, text: &str) -> Run<i64> {
        let Some(tokens) = tokens(text) else {
            return self.cannot_expand(&format!("arithmetic expression: {text:?}"));
        };
        if tokens.is_empty() {
            return Ok(0);
        }
        let mut expression = Expression { shell: self, tokens, at: 0, depth: 0, idle: 0 };
        let value = expression.assignment()?;
        if expression.at < expression.tokens.len() {
            return expression.wrong("an operator is missing");
        }
        Ok(value)
    }
}

fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let word =
            rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
        let (token, length) = if first.is_ascii_digit() {
            (Token::Number(number(rest.get(..word)?)?), word)
        } else if word > 0 {
            (Token::Name(rest.get(..word)?.to_owned()), word)
        } else if let Some(sign) = TOKENS.iter().find(|sign| rest.starts_with(**sign)) {
            (Token::Sign(sign), sign.len())
        } else if first == '=' {
            (Token::Sign("="), 1)
        } else {
            return None;
        };
        tokens.push(token);
        rest = rest.get(length..)?.trim_start();
    }
    Some(tokens)
}

/// A number as C writes it: decimal, `0x…` or `0…`.
fn number(text: &str) -> Option<i64> {
    let lower = text.to_ascii_lowercase();
    let (digits, radix) = match lower.strip_prefix("0x") {
        Some(hex) => (hex, 16),
        None if lower.len() > 1 && lower.starts_with('0') => (lower.get(1..)?, 8),
        None => (lower.as_str(), 10),
    };
    i64::from_str_radix(digits, radix).ok()
}

impl Expression<'_> {
    fn wrong<T>(&mut self, why: &str) -> Run<T> {
        self.shell.cannot_expand(&format!("arithmetic expression: {why}"))
    }

    fn eat(&mut self, sign: &str) -> bool {
        let there = self.tokens.get(self.at) == Some(&sign_token(sign));
        self.at += usize::from(there);
        there
    }

    fn assignment(&mut self) -> Run<i64> {
        if self.depth >= SYNTAX_DEPTH_MAX {
            return Err(Stop::Fatal("an expression is nested too deeply".to_owned()));
        }
        self.depth += 1;
        let value = self.assignment_here();
        self.depth -= 1;
        value
    }

    fn assignment_here(&mut self) -> Run<i64> {
        let target = (self.tokens.get(self.at).cloned(), self.tokens.get(self.at + 1).cloned());
        if let (Some(Token::Name(name)), Some(Token::Sign(sign))) = target
            && let Some(operator) = sign.strip_suffix('=')
            && !matches!(sign, "==" | "!=" | "<=" | ">=")
        {
            self.at += 2;
            let right = self.assignment()?;
            let value = match operator {
                "" => right,
                operator => {
                    let left = self.variable(&name)?;
                    self.apply(operator, left, right)?
                }
            };
            if self.idle == 0 {
                self.shell.state.variables.set(&name, &value.to_string())?;
            }
            return Ok(value);
        }
        self.conditional()
    }

    fn conditional(&mut self) -> Run<i64> {
        let condition = self.binary(0)?;
        if !self.eat("?") {
            return Ok(condition);
        }
        let yes = self.idle_unless(condition != 0, Self::assignment)?;
        if !self.eat(":") {
            return self.wrong("`:` is missing");
        }
        let no = self.idle_unless(condition == 0, Self::assignment)?;
        Ok(if condition != 0 { yes } else { no })
    }

    fn idle_unless(&mut self, counts: bool, parse: impl FnOnce(&mut Self) -> Run<i64>) -> Run<i64> {
        self.idle += usize::from(!counts);
        let value = parse(self);
        self.idle -= usize::from(!counts);
        value
    }

    fn binary(&mut self, level: usize) -> Run<i64> {
        let Some(operators) = LEVELS.get(level) else {
            return self.unary();
        };
        let mut left = self.binary(level + 1)?;
        while let Some(operator) = operators.iter().find(|operator| self.eat(operator)) {
            let counts = match *operator {
                "||" => left == 0,
                "&&" => left != 0,
                _ => true,
            };
            let right = self.idle_unless(counts, |inner| inner.binary(level + 1))?;
            left = self.apply(operator, left, right)?;
        }
        Ok(left)
    }

    fn apply(&mut self, operator: &str, left: i64, right: i64) -> Run<i64> {
        if matches!(operator, "/" | "%") && right == 0 {
            return if self.idle > 0 { Ok(0) } else { self.wrong("division by zero") };
        }
        // Shifts take the low six bits, as the processor does.
        let shift = u32::try_from(right & 63).unwrap_or(0);
        Ok(match operator {
            "||" => i64::from(left != 0 || right != 0),
            "&&" => i64::from(left != 0 && right != 0),
            "|" => left | right,
            "^" => left ^ right,
            "&" => left & right,
            "==" => i64::from(left == right),
            "!=" => i64::from(left != right),
            "<=" => i64::from(left <= right),
            ">=" => i64::from(left >= right),
            "<" => i64::from(left < right),
            ">" => i64::from(left > right),
            "<<" => left.wrapping_shl(shift),
            ">>" => left.wrapping_shr(shift),
            "+" => left.wrapping_add(right),
            "-" => left.wrapping_sub(right),
            "*" => left.wrapping_mul(right),
            "/" => left.wrapping_div(right),
            _ => left.wrapping_rem(right),
        })
    }

    fn unary(&mut self) -> Run<i64> {
        let mut signs = Vec::new();
        while let Some(sign) = ["!", "~", "-", "+"].into_iter().find(|sign| self.eat(sign)) {
            signs.push(sign);
        }
        let value = self.primary()?;
        Ok(signs.into_iter().rev().fold(value, |value, sign| match sign {
            "!" => i64::from(value == 0),
            "~" => !value,
            "-" => value.wrapping_neg(),
            _ => value,
        }))
    }

    fn primary(&mut self) -> Run<i64> {
        if self.eat("(") {
            let value = self.assignment()?;
            return if self.eat(")") { Ok(value) } else { self.wrong("`)` is missing") };
        }
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        match token {
            Some(Token::Number(value)) => Ok(value),
            Some(Token::Name(name)) => self.variable(&name),
            _ => self.wrong("a value is missing"),
        }
    }

    fn variable(&mut self, name: &str) -> Run<i64> {
        let Some(text) = self.shell.state.variables.get(name) else {
            if self.shell.state.options.unset_is_error {
                return self.shell.cannot_expand(&format!("{name}: parameter not set"));
            }
            return Ok(0);
        };
        let text = text.trim();
        let (digits, negative) = match text.strip_prefix('-') {
            Some(digits) => (digits, true),
            None => (text.strip_prefix('+').unwrap_or(text), false),
        };
        match number(digits) {
            _ if text.is_empty() => Ok(0),
            Some(value) => Ok(if negative { value.wrapping_neg() } else { value }),
            None => self.wrong(&format!("{name} is {text:?}, which is no number")),
        }
    }
}

fn sign_token(sign: &str) -> Token {
    let known = TOKENS.iter().find(|known| **known == sign);
    Token::Sign(known.copied().unwrap_or("="))
}
