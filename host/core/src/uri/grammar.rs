//! The parser against the grammar: the protocol's own productions, as regular expressions that know
//! nothing of the parser, decide on the same texts.
//!
//! Two differences are meant, and both only refuse more. RFC 5234 ignores the case of literals;
//! here it counts, as it does for the parser. And a version has at most 128 bytes there.

use std::sync::LazyLock;

use regex::Regex;

use super::{ClawUri, ManifestUri};

/// `"identity" / "provider" / "channel"` and so on.
const KINDS: &str =
    "identity|provider|channel|tool|skill|memory|world-model|sandbox|policy|swarm|telemetry";
/// `1*63( ALPHA / DIGIT / "-" )`
const NAME: &str = "[A-Za-z0-9-]{1,63}";
/// `1*63( ALPHA / DIGIT / "-" / "." )`
const NAMESPACE: &str = "[A-Za-z0-9.-]{1,63}";
/// `1*DIGIT "." 1*DIGIT "." 1*DIGIT [ "-" 1*( ALPHA / DIGIT / "-" / "." ) ]`
const VERSION: &str = r"[0-9]+\.[0-9]+\.[0-9]+(-[A-Za-z0-9.-]+)?";

/// `claw-local / claw-registry`
static CLAW_URI: LazyLock<Regex> = LazyLock::new(|| {
    // `"claw://local/" kind "/" name [ "@" version ]`
    let local = format!("claw://local/({KINDS})/{NAME}(@{VERSION})?");
    // `"claw://registry/" namespace "/" name "@" version`
    let registry = format!("claw://registry/{NAMESPACE}/{NAME}@{VERSION}");
    whole(&format!("{local}|{registry}"))
});

/// `"claw://" kind "/" name`, which is published in prose only.
static CLAW_ALIAS: LazyLock<Regex> = LazyLock::new(|| whole(&format!("claw://({KINDS})/{NAME}")));

/// How many texts of each sort are compared.
const TEXTS: usize = 100_000;
/// A count that is soon reached.
const FEW: usize = 8;

fn whole(pattern: &str) -> Regex {
    Regex::new(&format!(r"\A({pattern})\z")).unwrap()
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

    /// Mostly a few, and sometimes the most.
    fn some_of(&mut self, chars: &str, most: usize) -> String {
        let count = if self.below(16) == 0 { most } else { 1 + self.below(FEW) };
        (0..count).map(|_| self.one_of(chars)).collect()
    }
}

/// Returns some text of the grammar; what has no end there stays short.
fn some(dice: &mut Dice) -> String {
    let kinds: Vec<&str> = KINDS.split('|').collect();
    let kind = kinds[dice.below(kinds.len())];
    let name = dice.some_of("abcxyzABCXYZ019-", 63);
    let mut version = [(); 3].map(|()| dice.some_of("0123456789", FEW)).join(".");
    if dice.below(2) == 0 {
        version = format!("{version}-{}", dice.some_of("abcxyzABCXYZ019-.", FEW));
    }
    match dice.below(4) {
        0 => format!("claw://{kind}/{name}"),
        1 => format!("claw://local/{kind}/{name}"),
        2 => format!("claw://local/{kind}/{name}@{version}"),
        _ => {
            let namespace = dice.some_of("abcxyzABCXYZ019-.", 63);
            format!("claw://registry/{namespace}/{name}@{version}")
        }
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
pub(super) fn agreed(text: &str) -> bool {
    let (manifest, wire) = (ManifestUri::parse(text), ClawUri::parse(text));
    let is_wire = CLAW_URI.is_match(text);
    assert_eq!(wire.is_ok(), is_wire, "{text:?}: {wire:?}");
    assert_eq!(manifest.is_ok(), is_wire || CLAW_ALIAS.is_match(text), "{text:?}: {manifest:?}");
    if let Ok(uri) = &wire {
        assert_eq!(uri.to_string(), text);
    }
    manifest.is_ok()
}

#[test]
fn the_parser_accepts_what_the_grammar_makes() {
    let mut dice = Dice(0x5eed_0001);
    for _ in 0..TEXTS {
        let text = some(&mut dice);
        assert!(agreed(&text), "{text}");
    }
}

#[test]
fn the_parser_and_the_grammar_agree_on_damaged_addresses() {
    let mut dice = Dice(0x5eed_0002);
    let mut accepted = 0;
    for _ in 0..TEXTS {
        let text = mutated(&some(&mut dice), &mut dice);
        accepted += usize::from(agreed(&text));
    }
    // Both sorts are there in plenty: otherwise nothing was compared.
    assert!((TEXTS / 20..TEXTS * 19 / 20).contains(&accepted), "{accepted}");
}

#[test]
fn the_productions_tell_what_the_page_says() {
    for text in
        ["claw://local/tool/-x", "claw://registry/../x@1.0.0-..", "claw://local/tool/a@01.0.0"]
    {
        assert!(CLAW_URI.is_match(text), "{text}");
    }
    for text in [
        "claw://tool/x", "claw://local/tool/x@1.0", "claw://local/tool/x@1.0.0+b",
        "claw://registry/n/x", "claw://local/claw/x", "CLAW://local/tool/x",
    ] {
        assert!(!CLAW_URI.is_match(text), "{text}");
    }
}
