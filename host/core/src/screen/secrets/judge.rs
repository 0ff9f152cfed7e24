//! Whether what follows a beginning is a credential, and how far it reaches.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;

use super::table::{Alphabet, Kind, Token};

/// A value under a telling name is no shorter: shorter ones are words and examples.
const VALUE_BYTES_MIN: usize = 8;
/// Nor longer: that is a text.
const VALUE_BYTES_MAX: usize = 256;
/// A value under a name that much else has is no shorter.
const STRICT_BYTES_MIN: usize = 16;
/// A token behind an authentication scheme is no shorter.
const BEARER_BYTES_MIN: usize = 20;
/// Nor is a user and a password in base64, from which on they need no digit.
const BASIC_BYTES_MIN: usize = 16;
/// A token in the place of a user's name is no shorter.
const USER_BYTES_MIN: usize = 12;
/// Bits of each character of something random: `hunter2hunter2` has 2.8, English words 3 to
/// 3.5 but no digits, sixteen random letters and digits nearly 4.
const VALUE_BITS_MIN: f64 = 2.5;
/// The same for a token that begins like an ordinary word.
const RANDOM_BITS_MIN: f64 = 3.5;
/// The last line of a block lies no further away than this.
const BLOCK_BYTES_MAX: usize = 65_536;
/// White space between a name, its `=` and its value is no longer.
const GAP_BYTES_MAX: usize = 8;
/// Nor is what lies between a name and `value:`, where they are entries of their own, indented.
const PAIR_GAP_BYTES_MAX: usize = 32;
/// What makes a name one of a command line, of a `.netrc` or of a larger address stands no further before it.
const NEAR_BYTES_MAX: usize = 96;
/// Places in one run of characters that are judged: a name can follow itself in what it names,
/// and each is judged by all that follows.
const RUN_JUDGED_MAX: usize = 4;

/// Examples of documents say so, and an address is no value.
const EXAMPLES: &[&str] = &[
    "example", "xxxx", "****", "placeholder", "redacted", "your_", "your-", "changeme",
    // Not an example, but no value either: an address, where a value is from, what it has to be.
    "://", "env(", "required",
];

static EXAMPLE: LazyLock<AhoCorasick> = LazyLock::new(examples);

#[expect(clippy::expect_used, reason = "the table is constant, and the tests build it")]
fn examples() -> AhoCorasick {
    let mut builder = AhoCorasick::builder();
    builder.ascii_case_insensitive(true).build(EXAMPLES).expect("the table is small")
}

/// A text that is judged from its beginning to its end. What was read once is remembered, so
/// that the work is linear in the text, whatever the text is.
pub(super) struct Judge<'t> {
    text: &'t str,
    runs: [Run; Alphabet::COUNT],
    /// Bytes looked at so far.
    pub(super) work: usize,
}

/// Where the last run of an alphabet's characters ends, and how often it was judged.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    from: usize,
    end: usize,
    judged: usize,
}

impl<'t> Judge<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, runs: [Run::default(); Alphabet::COUNT], work: 0 }
    }

    /// Returns where the credential is that begins with `hit`, if it is one. Hits come in the
    /// order in which they end.
    pub(super) fn extent(&mut self, kind: &Kind, hit: Range<usize>) -> Option<Range<usize>> {
        match *kind {
            Kind::Assigned { strict } => self.assigned(hit, strict),
            Kind::Basic => self.basic(hit.end),
            Kind::Bearer => self.bearer(hit),
            Kind::Block => block(self.text, hit),
            Kind::Jwt => self.jwt(hit.start),
            Kind::Token(token) => self.token(hit, token),
            Kind::Url => self.url(hit.end),
        }
    }

    fn token(&mut self, hit: Range<usize>, token: Token) -> Option<Range<usize>> {
        let Token { of, least, most, random, alone } = token;
        if alone && is_inside_word(self.text, hit.start, of) {
            return None;
        }
        let rest = self.run(hit.end, of, most)?;
        let looks_random = || bits(rest) >= RANDOM_BITS_MIN && has_digit(rest);
        let is_one = rest.len() >= least && !is_example(rest) && (!random || looks_random());
        is_one.then_some(hit.start..hit.end + rest.len())
    }

    fn bearer(&mut self, hit: Range<usize>) -> Option<Range<usize>> {
        if is_inside_word(self.text, hit.start, Alphabet::Words) {
            return None;
        }
        let token = self.run(hit.end, Alphabet::Bearer, usize::MAX)?;
        let is_one =
            token.len() >= BEARER_BYTES_MIN && has_digit(token) && bits(token) >= VALUE_BITS_MIN;
        is_one.then_some(hit.end..hit.end + token.len())
    }

    /// A user and a password, in base64 with its padding.
    fn basic(&mut self, start: usize) -> Option<Range<usize>> {
        let pair = self.run(start, Alphabet::Bearer, usize::MAX)?;
        let is_long = pair.len() >= BASIC_BYTES_MIN;
        let is_one = pair.len() >= VALUE_BYTES_MIN
            && pair.len().is_multiple_of(4)
            && (is_long || has_digit(pair))
            && bits(pair) >= VALUE_BITS_MIN;
        is_one.then_some(start..start + pair.len())
    }

    fn jwt(&mut self, start: usize) -> Option<Range<usize>> {
        if is_preceded_by(self.text, start, |byte| Alphabet::Jwt.has(byte)) {
            return None;
        }
        let token = self.run(start, Alphabet::Jwt, usize::MAX)?.trim_end_matches('.');
        let mut parts = token.split('.');
        let head = parts.next().is_some_and(|part| part.starts_with("eyJ") && part.len() >= 12);
        let body = parts.next().is_some_and(|part| part.starts_with("eyJ") && part.len() >= 8);
        let seal = parts.next().is_some_and(|part| part.len() >= 16);
        (head && body && seal && parts.next().is_none()).then_some(start..start + token.len())
    }

    /// A password of an address ends at its last `@` before the path; without one, a user's name
    /// can be a token.
    fn url(&mut self, start: usize) -> Option<Range<usize>> {
        let authority = self.run(start, Alphabet::Authority, usize::MAX)?;
        let user = authority.get(..authority.rfind('@')?)?;
        let Some((name, password)) = user.split_once(':') else {
            return is_token_user(user).then_some(start..start + user.len());
        };
        let at = start + name.len() + 1;
        is_value(password).then_some(at..at + password.len())
    }

    /// `name = "value"`, in the ways that programs, files and JSON inside of text write it; the
    /// value can stand on the line below `name:`, or beside it: `key: name, value: value`; or behind a space,
    /// as options do.
    fn assigned(&mut self, hit: Range<usize>, strict: bool) -> Option<Range<usize>> {
        let rest = self.text.get(hit.end..)?;
        let quoted = skip(rest, |byte| matches!(byte, b'"' | b'\'' | b'\\' | b'`'));
        let spaced = skip(quoted, |byte| matches!(byte, b' ' | b'\t'));
        let joined = spaced.strip_prefix([':', '=']).or_else(|| beside(spaced));
        let joined = joined.or_else(|| self.option(hit.start, rest))?;
        let joined = joined.strip_prefix(['=', '>']).unwrap_or(joined);
        let opens = |byte| matches!(byte, b' ' | b'\t' | b'"' | b'\'' | b'\\' | b'`');
        let opened = skip(joined, opens);
        let below = opened.strip_prefix("\r\n").or_else(|| opened.strip_prefix('\n'));
        let opened = below.map_or(opened, |below| skip(below, opens));
        let start = self.text.len() - opened.len();
        let gap = self.text.get(self.text.len() - joined.len()..start)?;
        let is_quoted = is_quote_open(gap);
        let of = if is_quoted { Alphabet::Quoted } else { Alphabet::Value };
        let value = self.run(start, of, VALUE_BYTES_MAX)?;
        let is_name = below.is_some() && value.ends_with(':');
        // What ends a sentence ends no value.
        let value = value.trim_end_matches([':', '.']);
        let is_code = !is_quoted && is_code(self.text, hit.start, start..start + value.len());
        let is_one = !is_name
            && !is_code
            && is_value(value)
            && (!strict || is_strict(self.text, hit, value));
        is_one.then_some(start..start + value.len())
    }

    /// Returns what follows a name on a command line, `--db-password value`, or in a `.netrc`, `login user password
    /// value`.
    fn option(&self, name: usize, rest: &'t str) -> Option<&'t str> {
        let near = near_before(self.text, name);
        let word = last_word(near);
        let has_login = || near.split_whitespace().rev().nth(1) == Some("login");
        let is_option = word.starts_with("--") || (word.is_empty() && has_login());
        rest.strip_prefix(' ').filter(|value| is_option && !value.starts_with(['-', ' ']))
    }

    /// Returns the longest text from `start` on that is `of` an alphabet; nothing where it is
    /// longer than `most`, or was judged often enough.
    fn run(&mut self, start: usize, of: Alphabet, most: usize) -> Option<&'t str> {
        let known = self.runs.get_mut(of as usize)?;
        if start < known.from || start >= known.end {
            let rest = self.text.as_bytes().get(start..)?;
            let len = rest.iter().take_while(|byte| of.has(**byte)).count();
            self.work += len + 1;
            *known = Run { from: start, end: start + len, judged: 0 };
        }
        let long = known.end - start;
        if long > most || known.judged == RUN_JUDGED_MAX {
            return None;
        }
        known.judged += 1;
        self.work += long;
        self.text.get(start..known.end)
    }
}

/// Says whether what stands behind a name is a call (`password = base64.b64decode(…`), a type (`SECRET: u8x16 =`), or
/// a part of an address of Amazon's (`arn:aws:…:123456789012:secret:name-1a2b3c`).
fn is_code(text: &str, name: usize, value: Range<usize>) -> bool {
    let after = text.get(value.end..).unwrap_or_default();
    let has = |c: char, at: Range<usize>| text.get(at).is_some_and(|part| part.contains(c));
    let is_call = after.starts_with('(') && has('.', value.clone());
    let is_type = after.starts_with(" = ") && has(':', name..value.start);
    is_call || is_type || last_word(near_before(text, name)).starts_with("arn:")
}

/// Returns what stands before `at`, as far as it is near.
fn near_before(text: &str, at: usize) -> &str {
    let near = text.floor_char_boundary(at.saturating_sub(NEAR_BYTES_MAX));
    text.get(near..at).unwrap_or_default()
}

/// Returns the word that goes on behind a text: nothing where that ends with a space or a quote.
fn last_word(text: &str) -> &str {
    text.rsplit(|c: char| c.is_whitespace() || "\"'`".contains(c)).next().unwrap_or_default()
}

/// Returns what follows `, value:` and its like, behind a name that is itself a value.
fn beside(rest: &str) -> Option<&str> {
    let gap = |byte: &u8| byte.is_ascii_whitespace() || b",;\"'`\\".contains(byte);
    let gap = rest.bytes().take(PAIR_GAP_BYTES_MAX).take_while(gap).count();
    let value = rest.get(gap..).filter(|_| gap > 0)?.strip_prefix("value")?;
    skip(value, |byte| matches!(byte, b'"' | b'\'' | b'\\' | b'`' | b' ')).strip_prefix([':', '='])
}

fn block(text: &str, hit: Range<usize>) -> Option<Range<usize>> {
    let label = text.as_bytes().get(hit.end..)?.iter();
    let line = label.take_while(|byte| matches!(byte, b'A'..=b'Z' | b'0'..=b'9' | b' ')).count();
    let begun = hit.end + line;
    let line = text.get(hit.end..begun)?;
    let is_private = line.ends_with("PRIVATE KEY") || line.ends_with("PRIVATE KEY BLOCK");
    if !is_private || !text.get(begun..)?.starts_with("-----") {
        return None;
    }
    let near = text.get(begun..text.floor_char_boundary(begun.saturating_add(BLOCK_BYTES_MAX)))?;
    // Cut off or too long, all of it that is near goes.
    let end = near.find("-----END ").map_or(near.len(), |last| {
        let label = near.get(last + 9..).unwrap_or_default();
        last + 9 + label.find("-----").map_or(0, |end| end + 5)
    });
    Some(hit.start..begun + end)
}

/// Says whether what stands under a telling name is a credential rather than a word about one.
pub(super) fn is_value(value: &str) -> bool {
    (VALUE_BYTES_MIN..=VALUE_BYTES_MAX).contains(&value.len())
        && has_digit(value)
        && !value.starts_with(['$', '<', '{', '%', '[', '/', '.', '~'])
        && !value.contains(char::is_whitespace)
        && value.contains(char::is_alphabetic)
        && bits(value) >= VALUE_BITS_MIN
        && !is_example(value)
}

/// Says whether the user of an address is a token: people put their digits last.
fn is_token_user(user: &str) -> bool {
    user.len() >= USER_BYTES_MIN
        && user.bytes().all(|byte| Alphabet::Words.has(byte))
        && has_digit(user.trim_end_matches(|c: char| c.is_ascii_digit()))
        && is_value(user)
}

/// Says whether a name that much else has is that of a credential: it stands alone, or is
/// written as names of an environment are (nobody's secret is in a `nextPageToken`), and the
/// value looks random.
pub(super) fn is_strict(text: &str, name: Range<usize>, value: &str) -> bool {
    let is_joined = is_preceded_by(text, name.start, |byte| matches!(byte, b'_' | b'-'));
    let is_capital = text.get(name.clone()).is_some_and(|name| !name.contains(char::is_lowercase));
    !is_preceded_by(text, name.start, |byte| byte.is_ascii_alphanumeric())
        && (!is_joined || is_capital)
        && value.len() >= STRICT_BYTES_MIN
        && bits(value) >= RANDOM_BITS_MIN
}

fn is_example(text: &str) -> bool {
    EXAMPLE.is_match(text)
}

/// Says whether the value behind `gap` stands between quotes. Behind two, which are an empty value, stands another's.
fn is_quote_open(gap: &str) -> bool {
    let is_quote = |byte: &u8| matches!(byte, b'"' | b'\'' | b'`');
    let quotes = gap.bytes().filter(is_quote).count();
    gap.bytes().next_back().is_some_and(|last| is_quote(&last)) && !quotes.is_multiple_of(2)
}

/// Skips a few bytes; where there are more, the text is of another kind.
fn skip(text: &str, of: impl Fn(u8) -> bool) -> &str {
    let skipped = text.bytes().take(GAP_BYTES_MAX).take_while(|byte| of(*byte)).count();
    text.get(skipped..).unwrap_or_default()
}

/// A beginning in the middle of a word is none.
fn is_inside_word(text: &str, start: usize, of: Alphabet) -> bool {
    is_preceded_by(text, start, |byte| of.has(byte) || byte.is_ascii_alphanumeric())
}

fn is_preceded_by(text: &str, start: usize, is: impl Fn(u8) -> bool) -> bool {
    let before = start.checked_sub(1).and_then(|at| text.as_bytes().get(at));
    before.is_some_and(|byte| is(*byte))
}

fn has_digit(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

/// Returns Shannon's entropy of the first [`VALUE_BYTES_MAX`] bytes, in bits each.
fn bits(text: &str) -> f64 {
    let bytes = text.as_bytes().get(..VALUE_BYTES_MAX).unwrap_or(text.as_bytes());
    let mut counts = [0_u16; 256];
    for byte in bytes {
        counts.get_mut(usize::from(*byte)).into_iter().for_each(|count| *count += 1);
    }
    let all = f64::from(u16::try_from(bytes.len()).unwrap_or(u16::MAX));
    // Each byte takes its whole count, so the others of its kind find none.
    let take = |byte: &u8| counts.get_mut(usize::from(*byte)).map(std::mem::take);
    let shares = bytes.iter().filter_map(take).filter(|count| *count > 0);
    shares.map(|count| f64::from(count) / all).map(|share| -share * share.log2()).sum()
}
