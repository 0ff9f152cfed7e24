//! `tr`, over bytes.

use crate::commands::echo::unescaped;
use crate::options::Options;
use crate::pattern::in_class;
use crate::shell::Shell;
use crate::stop::{Done, usage};

pub(super) fn tr(shell: &mut Shell, arguments: &[String]) -> Done {
    let (options, sets) = Options::leading("dscCt", &[], arguments)?;
    let complement = options.has('c') || options.has('C');
    let (delete, squeeze) = (options.has('d'), options.has('s'));
    let Some(first) = sets.first() else { return usage("a set is missing") };
    let second = sets.get(1).map(|text| set(text)).transpose()?;
    let mut from = set(first)?;
    if complement {
        from = (0..=255).filter(|byte| !from.contains(byte)).collect();
    }
    let map = match &second {
        Some(to) if !delete => mapping(&from, to),
        None if !delete && !squeeze => return usage("a second set is missing"),
        _ => std::array::from_fn(|byte| u8::try_from(byte).unwrap_or(0)),
    };
    let squeezed = second.as_deref().unwrap_or(&from);
    let mut last = None;
    let input = shell.stdin();
    loop {
        let chunk = input.chunk()?;
        if chunk.is_empty() {
            return Ok(0);
        }
        let mut out = Vec::with_capacity(chunk.len());
        for byte in chunk {
            if delete && from.contains(&byte) {
                continue;
            }
            let byte = map.get(usize::from(byte)).copied().unwrap_or(byte);
            if !(squeeze && last == Some(byte) && squeezed.contains(&byte)) {
                out.push(byte);
            }
            last = Some(byte);
        }
        shell.out(&out)?;
    }
}

fn mapping(from: &[u8], to: &[u8]) -> [u8; 256] {
    let mut map = std::array::from_fn(|byte| u8::try_from(byte).unwrap_or(0));
    let last = to.last().copied();
    for (at, byte) in from.iter().enumerate() {
        if let (Some(place), Some(new)) =
            (map.get_mut(usize::from(*byte)), to.get(at).copied().or(last))
        {
            *place = new;
        }
    }
    map
}

/// The bytes of a set, in its order.
fn set(text: &str) -> Done<Vec<u8>> {
    let mut set = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some((name, after)) = rest.strip_prefix("[:").and_then(|r| r.split_once(":]")) {
            set.extend(
                (0..=255_u8).filter(|byte| in_class(name, char::from(*byte)) && byte.is_ascii()),
            );
            rest = after;
            continue;
        }
        let (low, after) = one(rest);
        rest = after;
        if let Some(after) = rest.strip_prefix('-')
            && !after.is_empty()
            && let [low] = *low
        {
            let (high, after) = one(after);
            match *high {
                [high] if low <= high => set.extend(low..=high),
                _ => return usage(format!("{text:?} has a range that goes back")),
            }
            rest = after;
        } else {
            set.extend(low);
        }
    }
    Ok(set)
}

/// One character or backslash sequence.
fn one(text: &str) -> (Vec<u8>, &str) {
    let mut letters = text.chars();
    let Some(first) = letters.next() else { return (Vec::new(), "") };
    if first != '\\' {
        return (first.to_string().into_bytes(), letters.as_str());
    }
    let octal = letters.as_str().bytes().take(3).take_while(|b| matches!(b, b'0'..=b'7')).count();
    let length = match letters.as_str().chars().next() {
        Some(_) if octal > 0 => octal + 1,
        Some(c) => 1 + c.len_utf8(),
        None => 1,
    };
    let (sequence, rest) = text.split_at(length);
    let bytes = unescaped(sequence, false).0;
    let plain = bytes.first() == Some(&b'\\') && bytes.len() > 1;
    (if plain { bytes.get(1..).unwrap_or_default().to_vec() } else { bytes }, rest)
}
