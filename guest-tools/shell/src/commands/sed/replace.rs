//! What `s` makes of a text.

use super::{Part, Substitute};
use crate::commands::regex::Regex;

/// The text after a substitution; `None` where nothing matched.
pub(super) fn replaced(text: &[u8], regex: &Regex, how: &Substitute) -> Option<Vec<u8>> {
    let mut new = Vec::new();
    let (mut done, mut from, mut count) = (0, 0, 0);
    let mut any = false;
    let mut last_end = None;
    while let Some(captures) = regex.captures(text, from) {
        let whole = captures.get(0)?;
        let empty_after_match = whole.is_empty() && last_end == Some(whole.start());
        if !empty_after_match {
            count += 1;
            if count >= how.nth {
                new.extend_from_slice(text.get(done..whole.start())?);
                fill(&how.parts, &captures, &mut new);
                done = whole.end();
                any = true;
                if !how.global {
                    break;
                }
            }
        }
        last_end = Some(whole.end());
        from = if whole.is_empty() { whole.end() + 1 } else { whole.end() };
        if from > text.len() {
            break;
        }
    }
    new.extend_from_slice(text.get(done..)?);
    any.then_some(new)
}

fn fill(parts: &[Part], captures: &regex_bites::bytes::Captures<'_>, new: &mut Vec<u8>) {
    let (mut lasting, mut once) = (None, None);
    for part in parts {
        let bytes = match part {
            Part::Text(text) => text.as_bytes(),
            Part::Group(group) => captures.get(*group).map_or(&[][..], |found| found.as_bytes()),
            Part::Case('E') => {
                (lasting, once) = (None, None);
                continue;
            }
            Part::Case(c @ ('U' | 'L')) => {
                lasting = Some(*c);
                continue;
            }
            Part::Case(c) => {
                once = Some(*c);
                continue;
            }
        };
        let start = new.len();
        new.extend_from_slice(bytes);
        let added = new.get_mut(start..).unwrap_or_default();
        match lasting {
            Some('U') => added.make_ascii_uppercase(),
            Some(_) => added.make_ascii_lowercase(),
            None => {}
        }
        if let Some(first) = added.first_mut() {
            match once.take() {
                Some('u') => first.make_ascii_uppercase(),
                Some(_) => first.make_ascii_lowercase(),
                None => {}
            }
        }
    }
}
