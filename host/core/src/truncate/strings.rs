//! Shortens the longest strings of a value, so that what is left is still valid JSON and every
//! short field of it (an exit code, a size) survives.

use serde_json::Value;

use super::{escaped_char_len, prefix};
use crate::json;

/// What a cut string ends with takes at most this much, its number included.
const NOTE_BYTES: usize = 96;
/// Below this a string says nothing; the value is then cut as text.
const STRING_BYTES_MIN: usize = 256;

/// Cuts the longest strings of `value`, which takes `bytes` as JSON and inside a JSON string
/// together, to one length, so that it takes at most `bytes_max`; or leaves it and says no, where
/// other things than strings are too long.
pub(super) fn shorten(value: &mut Value, bytes: usize, bytes_max: usize) -> bool {
    if bytes <= bytes_max {
        return true;
    }
    let mut costs = Vec::new();
    json::rewrite(value, false, &mut |_, text| {
        costs.push(cost(text));
        None
    });
    let others = bytes.saturating_sub(costs.iter().sum());
    let Some(room) = bytes_max.checked_sub(others) else { return false };
    let level = level(costs.clone(), room);
    let kept = level.saturating_sub(NOTE_BYTES);
    if kept < STRING_BYTES_MIN {
        return false;
    }
    // In the order in which they were measured.
    let mut costs = costs.into_iter();
    json::rewrite(value, false, &mut |_, text| {
        let cut =
            || format!("{} [cut: {} bytes in all]", prefix(text, kept, char_cost), text.len());
        costs.next().is_some_and(|cost| cost > level).then(cut)
    });
    true
}

/// Returns how long each of `costs` may be, at most, for all of them to fit `bytes_max`: those
/// below it keep what they have, and leave the rest to the others.
pub(crate) fn level(mut costs: Vec<usize>, bytes_max: usize) -> usize {
    costs.sort_unstable();
    let (mut left, mut strings) = (bytes_max, costs.len());
    for cost in costs {
        let share = left / strings;
        if cost > share {
            return share;
        }
        (left, strings) = (left - cost, strings - 1);
    }
    left
}

/// What a string takes as JSON and as JSON within JSON, without its quotes.
fn cost(text: &str) -> usize {
    text.chars().map(char_cost).sum()
}

/// What a character takes as JSON and as JSON within JSON.
fn char_cost(c: char) -> usize {
    escaped_char_len(c) + twice_escaped_char_len(c)
}

/// Within JSON, an escape's backslash and quote are escaped once more.
pub(super) fn twice_escaped_char_len(c: char) -> usize {
    let escaped_again = match c {
        '"' | '\\' => 2,
        '\u{0}'..='\u{1f}' => 1,
        _ => 0,
    };
    escaped_char_len(c) + escaped_again
}

#[cfg(test)]
mod tests {
    use super::super::escaped_len;
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    /// What JSON takes as itself and within JSON.
    fn bytes(json: &str) -> usize {
        json.len() + escaped_len(json)
    }

    fn shortened(value: &Value, bytes_max: usize) -> Option<String> {
        let mut value = value.clone();
        let all = bytes(&value.to_string());
        shorten(&mut value, all, bytes_max).then(|| value.to_string())
    }

    #[test]
    fn short_fields_survive_and_a_cut_string_states_its_size() {
        let value =
            json!({"exit_code": 3, "stdout": "a".repeat(9_000), "stderr": "oh\n".repeat(10)});
        let text = shortened(&value, 2_000).unwrap();
        let cut: Value = serde_json::from_str(&text).unwrap();
        assert_eq!((&cut["exit_code"], &cut["stderr"]), (&value["exit_code"], &value["stderr"]));
        let stdout = cut["stdout"].as_str().unwrap();
        assert!(stdout.ends_with("a [cut: 9000 bytes in all]"), "{stdout}");
        assert!(bytes(&text) > 1_900, "the room is used: {}", bytes(&text));
    }

    #[test]
    fn what_is_long_without_long_strings_is_not_shortened() {
        assert_eq!(shortened(&json!(vec![1; 5_000]), 2_000), None);
        assert_eq!(shortened(&json!(vec!["abc"; 5_000]), 2_000), None);
    }

    proptest! {
        #[test]
        fn a_shortened_value_fits_and_is_valid_json(
            strings in prop::collection::vec("\\PC{0,600}|[\\x00-\\x1f\"\\\\]{0,600}", 1..6),
            max in 300usize..3_000,
        ) {
            if let Some(text) = shortened(&json!(strings), max) {
                prop_assert!(bytes(&text) <= max, "{} > {max}", bytes(&text));
                prop_assert_eq!(serde_json::from_str::<Vec<String>>(&text).unwrap().len(), strings.len());
            }
        }
    }
}
