//! Values of `awk`: numbers, texts, and texts that look like numbers.

use std::rc::Rc;

use super::lexer::number_length;
use crate::commands::echo::number_as;

#[derive(Debug, Clone, Default)]
pub(super) enum Value {
    /// Never assigned: empty and 0.
    #[default]
    Unset,
    Number(f64),
    Text(Rc<str>),
    /// From input: a number where it looks like one.
    Input(Rc<str>),
}

impl Value {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.into())
    }

    pub(super) fn number(&self) -> f64 {
        match self {
            Self::Unset => 0.0,
            Self::Number(value) => *value,
            Self::Text(text) | Self::Input(text) => prefix(text),
        }
    }

    pub(super) fn as_text(&self, format: &str) -> Rc<str> {
        match self {
            Self::Unset => "".into(),
            Self::Number(value) => number_text(*value, format).into(),
            Self::Text(text) | Self::Input(text) => Rc::clone(text),
        }
    }

    pub(super) fn truth(&self) -> bool {
        match self {
            Self::Unset => false,
            Self::Number(value) => *value != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::Input(text) => strict(text).map_or(!text.is_empty(), |value| value != 0.0),
        }
    }

    /// The number it is, where it is one; a comparison then is of numbers.
    pub(super) fn numeric(&self) -> Option<f64> {
        match self {
            Self::Unset => Some(0.0),
            Self::Number(value) => Some(*value),
            Self::Text(_) => None,
            Self::Input(text) => strict(text),
        }
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Self {
        Self::Number(value)
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Number(f64::from(u8::from(value)))
    }
}

/// A whole number has no point, whatever the format.
pub(super) fn number_text(value: f64, format: &str) -> String {
    if value.fract() == 0.0 && value.abs() < 1e16 {
        return format!("{value:.0}").replace("-0", if value == 0.0 { "0" } else { "-0" });
    }
    let bytes = number_as(format, value).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The number at the start of a text; 0 where there is none.
fn prefix(text: &str) -> f64 {
    let text = text.trim_start();
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    let number = digits.get(..number_length(digits)).and_then(|digits| digits.parse::<f64>().ok());
    sign * number.unwrap_or(0.0)
}

/// The number a text is, with nothing but blanks around it.
fn strict(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    (!digits.is_empty() && number_length(digits) == digits.len()).then(|| prefix(text))
}
