//! Patterns of `case`, `${x#…}`, `find -name` and file names: `*`, `?`, `[…]`, `\`.

/// One step of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Many,
    One,
    Is(char),
    Of { negated: bool, items: Vec<Item> },
}

/// What a bracket lists.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Item {
    Range(char, char),
    Class(String),
}

/// A compiled pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Pattern(Vec<Step>);

impl Pattern {
    pub(crate) fn new(text: &str) -> Self {
        let letters: Vec<char> = text.chars().collect();
        let mut rest = letters.as_slice();
        let mut steps = Vec::new();
        while let Some((c, after)) = rest.split_first() {
            rest = after;
            steps.push(match c {
                '*' => Step::Many,
                '?' => Step::One,
                '\\' => escaped(&mut rest),
                '[' => match bracket(after) {
                    Some((step, after)) => {
                        rest = after;
                        step
                    }
                    None => Step::Is('['),
                },
                c => Step::Is(*c),
            });
        }
        Self(steps)
    }

    /// Whether the whole of `text` matches.
    pub(crate) fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        self.matches_all(&text)
    }

    /// Goes back only to the last `*`: no pattern takes longer than its length times the text's.
    pub(crate) fn matches_all(&self, text: &[char]) -> bool {
        let (mut step, mut at) = (0, 0);
        let mut retry: Option<(usize, usize)> = None;
        loop {
            match (self.0.get(step), text.get(at)) {
                (None, None) => return true,
                (Some(Step::Many), _) => {
                    retry = Some((step, at));
                    step += 1;
                    continue;
                }
                (Some(one), Some(c)) if one.takes(*c) => {
                    (step, at) = (step + 1, at + 1);
                    continue;
                }
                _ => {}
            }
            match retry {
                Some((many, from)) if from < text.len() => {
                    retry = Some((many, from + 1));
                    (step, at) = (many + 1, from + 1);
                }
                _ => return false,
            }
        }
    }

    /// Whether the pattern is more than plain characters.
    pub(crate) fn is_plain(&self) -> bool {
        self.0.iter().all(|step| matches!(step, Step::Is(_)))
    }

    /// The characters of a plain pattern.
    pub(crate) fn plain(&self) -> String {
        let letter = |step: &Step| if let Step::Is(c) = step { Some(*c) } else { None };
        self.0.iter().filter_map(letter).collect()
    }

    pub(crate) fn starts_with_dot(&self) -> bool {
        self.0.first() == Some(&Step::Is('.'))
    }
}

fn escaped(rest: &mut &[char]) -> Step {
    match rest.split_first() {
        Some((c, after)) => {
            *rest = after;
            Step::Is(*c)
        }
        None => Step::Is('\\'),
    }
}

/// The bracket after `[`, and what follows it; `None` where it is not closed.
fn bracket(text: &[char]) -> Option<(Step, &[char])> {
    let negated = matches!(text.first(), Some('!' | '^'));
    let mut rest = text.get(usize::from(negated)..)?;
    let mut items = Vec::new();
    loop {
        let (c, after) = rest.split_first()?;
        rest = after;
        match c {
            ']' if !items.is_empty() => return Some((Step::Of { negated, items }, rest)),
            '[' if rest.first() == Some(&':') => {
                let end = rest.iter().position(|c| *c == ']')?;
                let name = rest.get(1..end.checked_sub(1)?)?;
                items.push(Item::Class(name.iter().collect()));
                rest = rest.get(end + 1..)?;
            }
            c => {
                let low = if *c == '\\' { take(&mut rest)? } else { *c };
                items.push(Item::Range(low, range_end(&mut rest).unwrap_or(low)));
            }
        }
    }
}

fn take(rest: &mut &[char]) -> Option<char> {
    let (c, after) = rest.split_first()?;
    *rest = after;
    Some(*c)
}

/// The upper end in `-x`, unless `x` closes the bracket.
fn range_end(rest: &mut &[char]) -> Option<char> {
    match rest {
        ['-', '\\', high, after @ ..] => {
            *rest = after;
            Some(*high)
        }
        ['-', high, after @ ..] if *high != ']' => {
            *rest = after;
            Some(*high)
        }
        _ => None,
    }
}

impl Step {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Many => false,
            Self::One => true,
            Self::Is(own) => *own == c,
            Self::Of { negated, items } => items.iter().any(|item| item.takes(c)) != *negated,
        }
    }
}

impl Item {
    fn takes(&self, c: char) -> bool {
        match self {
            Self::Range(low, high) => (*low..=*high).contains(&c),
            Self::Class(name) => in_class(name, c),
        }
    }
}

/// Whether `c` belongs to a class such as `alpha`; an unknown class is empty.
pub(crate) fn in_class(name: &str, c: char) -> bool {
    match name {
        "alpha" => c.is_ascii_alphabetic(),
        "digit" => c.is_ascii_digit(),
        "alnum" => c.is_ascii_alphanumeric(),
        "upper" => c.is_ascii_uppercase(),
        "lower" => c.is_ascii_lowercase(),
        "space" => c.is_ascii_whitespace() || c == '\u{b}',
        "blank" => c == ' ' || c == '\t',
        "punct" => c.is_ascii_punctuation(),
        "print" => c == ' ' || c.is_ascii_graphic(),
        "graph" => c.is_ascii_graphic(),
        "cntrl" => c.is_ascii_control(),
        "xdigit" => c.is_ascii_hexdigit(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_whole_texts() {
        for (pattern, text, expected) in [
            ("*.txt", "a.txt", true),
            ("*.txt", "a.txt.gz", false),
            ("a?c", "abc", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[]x]", "]", true),
            ("[[:digit:]]*", "7up", true),
            ("[", "[", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("*a*b*c", "xxaxxbxxbxxc", true),
            ("", "", true),
        ] {
            assert_eq!(Pattern::new(pattern).matches(text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_take_no_long_time() {
        let pattern = Pattern::new(&"*a".repeat(200));
        assert!(!pattern.matches(&("a".repeat(3_000) + "b")));
    }
}
