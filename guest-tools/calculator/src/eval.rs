//! Expressions: read from left to right by recursive descent, worked out on the way.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::Pow as _;

use crate::functions;
use crate::number::{Number, Outcome};

/// Characters of an expression.
const EXPRESSION_BYTES_MAX: usize = 4_096;
/// Signs and powers inside each other, a parenthesis counting twice: each takes a piece of the
/// guest's stack.
const DEPTH_MAX: u32 = 128;
/// The exponent of a number such as 1e400; more digits than are kept exactly help nobody.
const EXPONENT_MAX: i32 = 2_000;
/// Arguments of one function.
const ARGUMENTS_MAX: usize = 256;

/// Works `expression` out.
///
/// # Errors
/// What is wrong with it, and where.
pub(crate) fn evaluate(expression: &str) -> Outcome {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(format!("the expression has more than {EXPRESSION_BYTES_MAX} characters"));
    }
    let text: Vec<char> = expression.chars().collect();
    let mut reader = Reader { text: &text, at: 0, depth: 0 };
    if reader.peek().is_none() {
        return Err("the expression is empty".to_owned());
    }
    let value = reader.sum()?;
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.unexpected("an operator")),
    }
}

struct Reader<'a> {
    text: &'a [char],
    at: usize,
    depth: u32,
}

impl Reader<'_> {
    /// The next character that is no space.
    fn peek(&mut self) -> Option<char> {
        while self.text.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn take(&mut self, wanted: &[char]) -> bool {
        let found = self.peek().is_some_and(|c| wanted.contains(&c));
        self.at += usize::from(found);
        found
    }

    fn sum(&mut self) -> Outcome {
        let mut value = self.product()?;
        loop {
            if self.take(&['+']) {
                value = value.add(&self.product()?)?;
            } else if self.take(&['-', '−']) {
                value = value.subtract(&self.product()?)?;
            } else {
                return Ok(value);
            }
        }
    }

    fn product(&mut self) -> Outcome {
        let mut value = self.signed()?;
        loop {
            if self.take(&['*', '×', '·']) {
                value = value.multiply(&self.signed()?)?;
            } else if self.take(&['/', '÷']) {
                value = value.divide(&self.signed()?)?;
            } else if self.take(&['%']) {
                if self.peek().is_none() {
                    return Err("nothing follows `%`, which is the remainder: write 50/100 for a percentage".to_owned());
                }
                value = value.remainder(&self.signed()?)?;
            } else {
                return Ok(value);
            }
        }
    }

    /// A sign binds less than a power: -2^2 is -4.
    fn signed(&mut self) -> Outcome {
        self.deeper(|reader| {
            if reader.take(&['-', '−']) {
                Ok(reader.signed()?.negate())
            } else if reader.take(&['+']) {
                reader.signed()
            } else {
                reader.power()
            }
        })
    }

    fn power(&mut self) -> Outcome {
        let base = self.atom()?;
        let caret = self.take(&['^']);
        let stars = !caret && self.text.get(self.at..self.at + 2) == Some(&['*', '*']);
        self.at += if stars { 2 } else { 0 };
        // From the right, and the exponent may have a sign.
        if caret || stars { base.power(&self.signed()?) } else { Ok(base) }
    }

    fn atom(&mut self) -> Outcome {
        match self.peek() {
            Some('(') => {
                self.at += 1;
                let value = self.deeper(Self::sum)?;
                self.close()?;
                Ok(value)
            }
            Some(c) if c.is_ascii_digit() || c == '.' => self.number(),
            Some(c) if c.is_alphabetic() || c == '_' => self.name(),
            _ => Err(self.unexpected("a number, a name or `(`")),
        }
    }

    fn name(&mut self) -> Outcome {
        let name = self.run(|c| c.is_alphanumeric() || c == '_').to_lowercase();
        if !self.take(&['(']) {
            return functions::constant(&name);
        }
        let mut arguments = Vec::new();
        if !self.take(&[')']) {
            loop {
                arguments.push(self.deeper(Self::sum)?);
                if arguments.len() > ARGUMENTS_MAX {
                    return Err(format!("`{name}` has more than {ARGUMENTS_MAX} arguments"));
                }
                if !self.take(&[',', ';']) {
                    break;
                }
            }
            self.close()?;
        }
        functions::call(&name, &arguments)
    }

    fn close(&mut self) -> Result<(), String> {
        if self.take(&[')']) { Ok(()) } else { Err(self.unexpected("`)`")) }
    }

    /// Digits with an optional point and exponent; or `0x` and `0b`.
    fn number(&mut self) -> Outcome {
        for (prefixes, radix) in [(["0x", "0X"], 16), (["0b", "0B"], 2)] {
            let start: String = self.text.iter().skip(self.at).take(2).collect();
            if prefixes.contains(&start.as_str()) {
                self.at += 2;
                let digits = self.run(|c| c.is_digit(radix));
                let value = BigInt::parse_bytes(digits.as_bytes(), radix);
                return Number::whole(value.ok_or_else(|| self.unexpected("digits"))?);
            }
        }
        let mut digits = self.run(|c| c.is_ascii_digit());
        let mut exponent = 0;
        if self.text.get(self.at) == Some(&'.') {
            self.at += 1;
            let decimals = self.run(|c| c.is_ascii_digit());
            exponent -= i32::try_from(decimals.len()).unwrap_or(i32::MAX);
            digits.push_str(&decimals);
        }
        let value = digits.parse::<BigInt>().map_err(|_| self.unexpected("digits"))?;
        exponent += self.exponent()?;
        let ten = BigRational::from_integer(BigInt::from(10));
        Number::exact(BigRational::from_integer(value) * ten.pow(exponent))
    }

    /// What follows an `e` that digits follow; otherwise the `e` is not part of the number.
    fn exponent(&mut self) -> Result<i32, String> {
        let start = self.at;
        if !self.text.get(self.at).is_some_and(|c| matches!(c, 'e' | 'E')) {
            return Ok(0);
        }
        self.at += 1;
        let sign = self.text.get(self.at).copied().filter(|c| matches!(c, '+' | '-'));
        self.at += usize::from(sign.is_some());
        let digits = self.run(|c| c.is_ascii_digit());
        if digits.is_empty() {
            self.at = start;
            return Ok(0);
        }
        let exponent = digits.parse::<i32>().ok().filter(|exponent| *exponent <= EXPONENT_MAX);
        let exponent = exponent.ok_or_else(|| format!("an exponent is at most {EXPONENT_MAX}"))?;
        Ok(if sign == Some('-') { -exponent } else { exponent })
    }

    /// The characters from here on that `fit`.
    fn run(&mut self, fits: impl Fn(char) -> bool) -> String {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let run: String = rest.iter().copied().take_while(|c| fits(*c)).collect();
        self.at += run.chars().count();
        run
    }

    fn deeper<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        if self.depth >= DEPTH_MAX {
            return Err(format!(
                "the expression is nested too deep: {DEPTH_MAX} signs and powers, or half as many parentheses"
            ));
        }
        self.depth += 1;
        let read = read(self);
        self.depth -= 1;
        read
    }

    fn unexpected(&mut self, wanted: &str) -> String {
        match self.peek() {
            Some(c) => format!("character {} is `{c}`; {wanted} is expected there", self.at + 1),
            None => format!("the expression ends where {wanted} is expected"),
        }
    }
}
