//! The words of an `awk` program.

use crate::commands::echo::unescaped;
use crate::stop::{Done, usage};

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Number(f64),
    Text(String),
    Regex(String),
    Name(String),
    /// A name with `(` right after it: a call of a function of the program.
    Call(String),
    /// A word of the language or one of its functions.
    Word(&'static str),
    Sign(&'static str),
    Newline,
    End,
}

const WORDS: [&str; 41] = [
    "BEGIN", "END", "function", "func", "if", "else", "while", "for", "do", "break", "continue",
    "next", "nextfile", "exit", "return", "delete", "in", "getline", "print", "printf", "length",
    "substr", "index", "split", "sub", "gsub", "match", "sprintf", "sin", "cos", "atan2", "exp",
    "log", "sqrt", "int", "rand", "srand", "tolower", "toupper", "system", "close",
];

const SIGNS: [&str; 40] = [
    "**=", "&&", "||", "==", "!=", "<=", ">=", "++", "--", "+=", "-=", "*=", "/=", "%=", "^=",
    ">>", "**", "!~", "{", "}", "(", ")", "[", "]", ";", ",", "+", "-", "*", "/", "%", "^", "!",
    ">", "<", "?", ":", "~", "$", "=",
];

pub(super) fn tokens(text: &str) -> Done<Vec<Token>> {
    let mut tokens: Vec<Token> = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (token, after) = match first {
            ' ' | '\t' | '\r' => (None, rest.get(1..)),
            '\\' if rest.starts_with("\\\n") => (None, rest.get(2..)),
            '#' => (None, rest.find('\n').map_or(Some(""), |at| rest.get(at..))),
            '\n' => (Some(Token::Newline), rest.get(1..)),
            '"' => {
                let (text, after) = quoted(rest, '"')?;
                (Some(Token::Text(string(&text))), Some(after))
            }
            '/' if regex_can_stand(tokens.last()) => {
                let (text, after) = quoted(rest, '/')?;
                (Some(Token::Regex(text.replace("\\/", "/"))), Some(after))
            }
            c if c.is_ascii_digit() || c == '.' => {
                let length = number_length(rest);
                let value = rest.get(..length).and_then(|digits| digits.parse().ok());
                let Some(value) = value else { return usage(format!("syntax error at {c:?}")) };
                (Some(Token::Number(value)), rest.get(length..))
            }
            c if c == '_' || c.is_ascii_alphabetic() => word(rest),
            _ => match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
                Some(sign) => (Some(Token::Sign(sign)), rest.get(sign.len()..)),
                None if first == '|' => {
                    return usage("a pipe is not there: awk runs no commands here");
                }
                None => return usage(format!("syntax error at {first:?}")),
            },
        };
        tokens.extend(token);
        rest = after.unwrap_or_default();
    }
    tokens.push(Token::End);
    Ok(tokens)
}

fn word(rest: &str) -> (Option<Token>, Option<&str>) {
    let end = rest.find(|c: char| c != '_' && !c.is_ascii_alphanumeric()).unwrap_or(rest.len());
    let (name, after) = rest.split_at(end);
    let token = match WORDS.iter().find(|word| **word == name) {
        Some(word) => Token::Word(word),
        None if after.starts_with('(') => Token::Call(name.to_owned()),
        None => Token::Name(name.to_owned()),
    };
    (Some(token), Some(after))
}

/// Whether `/` begins an expression here, and does not divide.
fn regex_can_stand(before: Option<&Token>) -> bool {
    !matches!(
        before,
        Some(
            Token::Number(_)
                | Token::Text(_)
                | Token::Name(_)
                | Token::Sign(")" | "]" | "$" | "++" | "--")
        ) | Some(Token::Word("length"))
    )
}

/// What stands between two `end`s, with its backslashes.
fn quoted(text: &str, end: char) -> Done<(String, &str)> {
    let mut inner = String::new();
    let mut letters = text.chars();
    letters.next();
    let mut bracket = false;
    while let Some(c) = letters.next() {
        match c {
            '\\' => inner.extend(['\\'].into_iter().chain(letters.next())),
            '\n' => break,
            c if c == end && !bracket => return Ok((inner, letters.as_str())),
            c => {
                if end == '/' {
                    bracket = c == '[' || bracket && c != ']';
                }
                inner.push(c);
            }
        }
    }
    usage(format!("a {end} is not closed"))
}

/// A text with its backslash sequences read; `\/` is `/`, and an unknown one stays.
pub(super) fn string(text: &str) -> String {
    let text = text.replace("\\/", "/").replace("\\\n", "");
    String::from_utf8_lossy(&unescaped(&text, false).0).into_owned()
}

/// How long the number at the start of a text is.
pub(super) fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| -> usize {
        bytes.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count()
    };
    let mut length = digits(0);
    let mut any = length > 0;
    if bytes.get(length) == Some(&b'.') {
        let after = digits(length + 1);
        any |= after > 0;
        length += 1 + after;
    }
    if !any {
        return 0;
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let power = digits(length + 1 + sign);
        if power > 0 {
            length += 1 + sign + power;
        }
    }
    length
}
