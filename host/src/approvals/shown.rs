//! What a person sees of a call's arguments: each on its own, so that a long one hides no other.
//!
//! Deliberately absent: which arguments matter. Short ones are whole first, and whatever is not
//! shown is counted.

use std::collections::BTreeMap;

use clawhost_core::limits::APPROVAL_ARGUMENT_BYTES_MIN;
use clawhost_core::{truncate, visible};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A call's arguments as a person sees them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The arguments; of a long one the start, as text.
    arguments: Map<String, Value>,
    /// Those of which this is the start, and the bytes of each.
    arguments_cut: BTreeMap<String, usize>,
    /// How many are not here at all.
    arguments_hidden: usize,
}

impl Shown {
    /// Returns all of `arguments`. The gate lets nothing but an object through; should there be
    /// something else, it stands under no name.
    pub fn whole(arguments: &Value) -> Self {
        let arguments = match arguments {
            Value::Object(arguments) => arguments.clone(),
            other => Map::from_iter([(String::new(), other.clone())]),
        };
        Self { arguments, arguments_cut: BTreeMap::new(), arguments_hidden: 0 }
    }

    /// Returns about `bytes_max` bytes of `arguments`: what a short one leaves of its share goes
    /// to the longer ones.
    pub fn of(arguments: &Value, bytes_max: usize) -> Self {
        let all = Self::whole(arguments).arguments;
        let mut by_size: Vec<_> = all
            .into_iter()
            .map(|(name, value)| (name.len() + value.to_string().len(), name, value))
            .collect();
        by_size.sort_by_key(|(size, ..)| *size);
        let mut shown = Self::whole(&Value::Object(Map::new()));
        let mut places = by_size.len().min(bytes_max / APPROVAL_ARGUMENT_BYTES_MIN);
        let mut left = bytes_max;
        for (size, name, value) in by_size {
            let share = left.checked_div(places).unwrap_or(0);
            places = places.saturating_sub(1);
            left = left.saturating_sub(size.min(share));
            shown.add(size, name, value, share);
        }
        shown
    }

    fn add(&mut self, size: usize, name: String, value: Value, share: usize) {
        if size <= share {
            self.arguments.insert(name, value);
        } else if name.len() < share {
            let text = plain(value);
            let start = truncate::text(&text, share - name.len());
            self.arguments.insert(name.clone(), Value::from(start));
            self.arguments_cut.insert(name, text.len());
        } else {
            self.arguments_hidden += 1;
        }
    }

    /// Says whether nothing is cut or left out.
    pub fn is_whole(&self) -> bool {
        self.arguments_cut.is_empty() && self.arguments_hidden == 0
    }

    /// Returns a line for each argument, short ones first, none of which can drive a terminal.
    pub fn lines(&self) -> Vec<String> {
        let mut lines: Vec<_> =
            self.arguments.iter().map(|(name, value)| self.line(name, value)).collect();
        lines.sort_by_key(String::len);
        if self.arguments_hidden > 0 {
            lines.insert(0, format!("({} more arguments are not shown)", self.arguments_hidden));
        }
        lines
    }

    fn line(&self, name: &str, value: &Value) -> String {
        let (name_shown, value_shown) = (visible::line(name), visible::line(&value.to_string()));
        match (self.arguments_cut.get(name), value) {
            (Some(bytes), Value::String(start)) => {
                format!("{name_shown} (the first {} of {bytes} bytes): {value_shown}", start.len())
            }
            _ => format!("{name_shown}: {value_shown}"),
        }
    }
}

/// A text is cut as it is, everything else as its JSON.
fn plain(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_long_argument_hides_no_other() {
        let arguments = json!({"content": "x".repeat(40_000), "path": "../etc", "zoom": [1, 2]});
        let lines = Shown::of(&arguments, 1_024).lines();
        assert_eq!(lines[..2], ["zoom: [1,2]", "path: \"../etc\""]);
        assert!(lines[2].starts_with("content (the first 9"), "{}", lines[2]);
        assert!(lines[2].contains(" of 40000 bytes): \"xxx") && lines[2].len() < 1_100);
        let whole = Shown::whole(&arguments);
        assert!(whole.lines()[2].len() > 40_000 && whole.is_whole());
        assert!(!Shown::of(&arguments, 1_024).is_whole());
        assert_eq!(Shown::of(&arguments, 100_000), whole);
    }

    #[test]
    fn many_arguments_and_long_names_stay_within_the_bound_and_are_counted() {
        let many = (0..10_000).map(|i| (format!("{i:>40}"), json!("x".repeat(100))));
        let shown = Shown::of(&Value::Object(many.collect()), 1_024);
        assert_eq!(shown.arguments.len() + shown.arguments_hidden, 10_000);
        assert!(!shown.is_whole());
        assert!(json!(shown).to_string().len() < 4_096);
        assert!(shown.lines()[0].contains("more arguments are not shown"));
    }

    #[test]
    fn an_argument_cannot_pass_for_another_or_for_a_cut() {
        let shown = Shown::whole(&json!({"a\npath": "b\nc: \"d\"\u{1b}"}));
        assert_eq!(shown.lines(), [r#"a\u{a}path: "b\nc: \"d\"\u001b""#]);
        let odd = Shown::whole(&json!({"a (the first 1 of 2 bytes)": "x"}));
        assert!(odd.arguments_cut.is_empty());
    }

    #[test]
    fn it_reads_back_as_the_command_line_reads_it() {
        let shown = Shown::of(&json!({"a": "x".repeat(500), "b": 1}), 100);
        assert_eq!(serde_json::from_value::<Shown>(json!(shown)).unwrap(), shown);
    }
}
