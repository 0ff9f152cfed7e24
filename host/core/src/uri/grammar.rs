//! The parser against the grammar: the protocol's own productions, read by an interpreter that
//! knows nothing of the parser, decide on the same texts.
//!
//! Two differences are meant, and both only refuse more. RFC 5234 ignores the case of literals;
//! the interpreter does not, as the parser does not. And a version has at most 128 bytes here.

use std::collections::BTreeMap;

use super::{ClawUri, ManifestUri};

/// The productions as published, one a line; `claw-alias` is published in prose only.
const GRAMMAR: &str = r#"
manifest-uri = claw-uri / claw-alias
claw-uri = claw-local / claw-registry
claw-local = "claw://local/" kind "/" name [ "@" version ]
claw-registry = "claw://registry/" namespace "/" name "@" version
claw-alias = "claw://" kind "/" name
kind = "identity" / "provider" / "channel" / "tool" / "skill" / "memory" / "world-model" / "sandbox" / "policy" / "swarm" / "telemetry"
name = 1*63( ALPHA / DIGIT / "-" )
namespace = 1*63( ALPHA / DIGIT / "-" / "." )
version = semver
semver = 1*DIGIT "." 1*DIGIT "." 1*DIGIT [ "-" pre-release ]
pre-release = 1*( ALPHA / DIGIT / "-" / "." )
"#;

/// How many texts of each sort are compared.
const TEXTS: usize = 100_000;

#[derive(Debug, Clone)]
enum Expr {
    Alternatives(Vec<Self>),
    Literal(String),
    Repeat { min: usize, max: usize, of: Box<Self> },
    Rule(String),
    Sequence(Vec<Self>),
}

/// Reads the expressions of RFC 5234 that the productions use.
struct Reader<'a>(&'a str);

impl Reader<'_> {
    fn skip(&mut self) -> Option<char> {
        self.0 = self.0.trim_start();
        self.0.chars().next()
    }

    fn take(&mut self, fits: impl Fn(char) -> bool) -> String {
        let end = self.0.find(|c| !fits(c)).unwrap_or(self.0.len());
        let (taken, rest) = self.0.split_at(end);
        self.0 = rest;
        taken.to_owned()
    }

    fn expect(&mut self, wanted: char) {
        assert_eq!(self.skip(), Some(wanted), "before {:?}", self.0);
        self.0 = &self.0[1..];
    }

    fn alternatives(&mut self) -> Expr {
        let mut list = vec![self.sequence()];
        while self.skip() == Some('/') {
            self.expect('/');
            list.push(self.sequence());
        }
        Expr::Alternatives(list)
    }

    fn sequence(&mut self) -> Expr {
        let mut list = Vec::new();
        while self.skip().is_some_and(|c| !matches!(c, '/' | ')' | ']')) {
            list.push(self.repetition());
        }
        Expr::Sequence(list)
    }

    fn repetition(&mut self) -> Expr {
        let min = self.take(|c| c.is_ascii_digit());
        if !self.0.starts_with('*') {
            assert_eq!(min, "", "a count without `*` is not needed");
            return self.element();
        }
        self.expect('*');
        let max = self.take(|c| c.is_ascii_digit());
        let max = if max.is_empty() { usize::MAX } else { max.parse().unwrap() };
        let of = Box::new(self.element());
        Expr::Repeat { min: min.parse().unwrap(), max, of }
    }

    fn element(&mut self) -> Expr {
        match self.skip().unwrap() {
            '"' => {
                self.expect('"');
                let text = self.take(|c| c != '"');
                self.expect('"');
                Expr::Literal(text)
            }
            '(' => {
                self.expect('(');
                let of = self.alternatives();
                self.expect(')');
                of
            }
            '[' => {
                self.expect('[');
                let of = Box::new(self.alternatives());
                self.expect(']');
                Expr::Repeat { min: 0, max: 1, of }
            }
            _ => Expr::Rule(self.take(|c| c.is_ascii_alphanumeric() || c == '-')),
        }
    }
}

pub(super) struct Grammar(BTreeMap<String, Expr>);

impl Grammar {
    pub(super) fn new() -> Self {
        let rule = |line: &str| {
            let (name, text) = line.split_once(" = ").unwrap();
            let mut reader = Reader(text);
            let expr = reader.alternatives();
            assert_eq!(reader.skip(), None, "{line}");
            (name.to_owned(), expr)
        };
        Self(GRAMMAR.lines().filter(|line| !line.is_empty()).map(rule).collect())
    }

    fn accepts(&self, rule: &str, text: &str) -> bool {
        self.ends(&Expr::Rule(rule.to_owned()), text.as_bytes(), &[0]).contains(&text.len())
    }

    /// Returns where `expr` can end when it begins at any of `starts`: sorted, each once.
    fn ends(&self, expr: &Expr, text: &[u8], starts: &[usize]) -> Vec<usize> {
        match expr {
            Expr::Alternatives(list) => {
                joined(list.iter().flat_map(|of| self.ends(of, text, starts)).collect())
            }
            Expr::Sequence(list) => {
                list.iter().fold(starts.to_vec(), |starts, of| self.ends(of, text, &starts))
            }
            Expr::Literal(literal) => {
                let after = |start: &usize| {
                    text[*start..].starts_with(literal.as_bytes()).then(|| start + literal.len())
                };
                starts.iter().filter_map(after).collect()
            }
            Expr::Repeat { min, max, of } => {
                let mut found = if *min == 0 { starts.to_vec() } else { Vec::new() };
                let mut starts = starts.to_vec();
                for count in 1..=*max {
                    starts = self.ends(of, text, &starts);
                    if starts.is_empty() {
                        break;
                    }
                    if count >= *min {
                        found.extend(&starts);
                    }
                }
                joined(found)
            }
            Expr::Rule(name) => match name.as_str() {
                "ALPHA" => class(text, starts, u8::is_ascii_alphabetic),
                "DIGIT" => class(text, starts, u8::is_ascii_digit),
                name => self.ends(&self.0[name], text, starts),
            },
        }
    }

    /// Returns some text of a production; repetitions without an end stay short.
    fn some(&self, expr: &Expr, dice: &mut Dice) -> String {
        const REPEATS: usize = 8;
        match expr {
            Expr::Alternatives(list) => self.some(&list[dice.below(list.len())], dice),
            Expr::Sequence(list) => list.iter().map(|of| self.some(of, dice)).collect(),
            Expr::Literal(literal) => literal.clone(),
            Expr::Repeat { min, max, of } => {
                // Mostly short ones, and sometimes exactly the most.
                let is_long = *max < usize::MAX && dice.below(8) == 0;
                let most = if is_long { *max } else { REPEATS.min(*max) };
                let least = if dice.below(8) == 0 { most } else { *min };
                let count = least + dice.below(most - least + 1);
                (0..count).map(|_| self.some(of, dice)).collect()
            }
            Expr::Rule(name) => match name.as_str() {
                "ALPHA" => dice.one_of("abcxyzABCXYZ").to_string(),
                "DIGIT" => dice.one_of("0123456789").to_string(),
                name => self.some(&self.0[name], dice),
            },
        }
    }
}

fn class(text: &[u8], starts: &[usize], fits: fn(&u8) -> bool) -> Vec<usize> {
    starts.iter().filter(|start| text.get(**start).is_some_and(fits)).map(|at| at + 1).collect()
}

fn joined(mut ends: Vec<usize>) -> Vec<usize> {
    ends.sort_unstable();
    ends.dedup();
    ends
}

/// The same numbers in every run.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        // xorshift64*
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let number = self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33;
        usize::try_from(number).unwrap() % bound
    }

    fn one_of(&mut self, chars: &str) -> char {
        chars.chars().nth(self.below(chars.chars().count())).unwrap()
    }
}

/// Changes a text in one to three places.
fn mutated(text: &str, dice: &mut Dice) -> String {
    const STRANGE: &str = "/@.-:+_%~ \\?#*aZ0\u{0}\n\u{e9}\u{ff0f}";
    let mut chars: Vec<char> = text.chars().collect();
    for _ in 0..=dice.below(3) {
        let at = dice.below(chars.len() + 1);
        match dice.below(6) {
            0 => chars.insert(at, dice.one_of(STRANGE)),
            1 => chars.truncate(at),
            2 if at < chars.len() => drop(chars.remove(at)),
            3 if at < chars.len() => chars[at] = dice.one_of(STRANGE),
            4 if at < chars.len() => chars[at] = flipped(chars[at]),
            5 if at + 1 < chars.len() => chars.swap(at, at + 1),
            _ => chars.extend_from_within(at..),
        }
    }
    chars.into_iter().collect()
}

fn flipped(c: char) -> char {
    if c.is_ascii_lowercase() { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() }
}

/// Compares parser and grammar on one text, and returns whether it is an address.
pub(super) fn agreed(grammar: &Grammar, text: &str) -> bool {
    let (manifest, wire) = (ManifestUri::parse(text), ClawUri::parse(text));
    assert_eq!(manifest.is_ok(), grammar.accepts("manifest-uri", text), "{text:?}: {manifest:?}");
    assert_eq!(wire.is_ok(), grammar.accepts("claw-uri", text), "{text:?}: {wire:?}");
    if let Ok(uri) = &wire {
        assert_eq!(uri.to_string(), text);
    }
    manifest.is_ok()
}

#[test]
fn the_parser_accepts_what_the_grammar_makes() {
    let grammar = Grammar::new();
    let mut dice = Dice(0x5eed_0001);
    let rule = Expr::Rule("manifest-uri".to_owned());
    for _ in 0..TEXTS {
        let text = grammar.some(&rule, &mut dice);
        assert!(agreed(&grammar, &text), "{text}");
    }
}

#[test]
fn the_parser_and_the_grammar_agree_on_damaged_addresses() {
    let grammar = Grammar::new();
    let mut dice = Dice(0x5eed_0002);
    let rule = Expr::Rule("manifest-uri".to_owned());
    let mut accepted = 0;
    for _ in 0..TEXTS {
        let text = mutated(&grammar.some(&rule, &mut dice), &mut dice);
        accepted += usize::from(text.len() < 200 && agreed(&grammar, &text));
    }
    // Both sorts are there in plenty: otherwise nothing was compared.
    assert!((TEXTS / 20..TEXTS * 19 / 20).contains(&accepted), "{accepted}");
}

#[test]
fn the_interpreter_tells_what_the_page_says() {
    let grammar = Grammar::new();
    for text in
        ["claw://local/tool/-x", "claw://registry/../x@1.0.0-..", "claw://local/tool/a@01.0.0"]
    {
        assert!(grammar.accepts("claw-uri", text), "{text}");
    }
    for text in [
        "claw://tool/x",
        "claw://local/tool/x@1.0",
        "claw://local/tool/x@1.0.0+b",
        "claw://registry/n/x",
        "claw://local/claw/x",
        "CLAW://local/tool/x",
    ] {
        assert!(!grammar.accepts("claw-uri", text), "{text}");
    }
}
