//! How long a value is as text, exactly, without that text: of a result of megabytes it has six times as many.

use std::io;

use serde_json::Value;

/// What a value takes as text, in bytes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Length {
    /// As JSON.
    pub plain: usize,
    /// Within a text of JSON, without its quotes.
    pub escaped: usize,
}

impl Length {
    /// Measures `value`.
    pub fn of(value: &Value) -> Self {
        let mut length = Self::default();
        // What is written is counted, and never refused.
        drop(serde_json::to_writer(&mut length, value));
        length
    }

    /// Returns what a value takes that is shown: as itself, and within a text.
    pub const fn shown(self) -> usize {
        self.plain + self.escaped
    }
}

impl io::Write for Length {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        // JSON without line breaks has nothing else that is escaped in a text.
        let escapes = json.iter().filter(|byte| matches!(**byte, b'"' | b'\\')).count();
        self.plain += json.len();
        self.escaped += json.len() + escapes;
        Ok(json.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    proptest! {
        #[test]
        fn a_value_is_as_long_as_its_text(text in "\\PC{0,60}|[\\x00-\\x7f\"\\\\]{0,60}", number in any::<f64>()) {
            let value = json!({"a": [text, number, null, {}], (text.clone()): [true, u64::MAX]});
            let json = value.to_string();
            let escaped = Value::from(&*json).to_string().len() - 2;
            prop_assert_eq!(Length::of(&value), Length { plain: json.len(), escaped });
        }
    }
}
