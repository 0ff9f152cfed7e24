//! A value that nobody sees by accident.

use std::sync::Arc;

use clawhost_core::limits::SECRET_BYTES_MAX;
use zeroize::Zeroizing;

/// What is said of a value that is not text.
pub(super) const NO_TEXT: &str = "it is not UTF-8";

/// The value of a secret. It does not print itself, and its memory is overwritten when its last
/// owner lets go of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<Zeroizing<String>>);

impl Secret {
    /// Reads a value as a file or an input has it, without the line break behind it.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(bytes).map_err(|_| NO_TEXT)?;
        let line = text.strip_suffix('\n').map(|line| line.strip_suffix('\r').unwrap_or(line));
        Self::from(line.unwrap_or(text).to_owned()).checked()
    }

    /// Returns it if it can be a secret, else what is wrong with it.
    pub(super) fn checked(self) -> Result<Self, &'static str> {
        match self.expose() {
            "" => Err("it is empty"),
            value if value.len() > SECRET_BYTES_MAX => Err("it is too long"),
            value if value.contains('\0') => Err("it has a zero byte"),
            _ => Ok(self),
        }
    }

    /// Returns the value itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(value: String) -> Self {
        Self::from(Zeroizing::new(value))
    }
}

impl From<Zeroizing<String>> for Secret {
    fn from(value: Zeroizing<String>) -> Self {
        Self(Arc::new(value))
    }
}

clawhost_core::shows!(Secret {});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_break_is_taken_off_and_what_can_be_no_secret_is_refused() {
        let read = |bytes: &[u8]| Secret::parse(bytes).map(|secret| secret.expose().to_owned());
        assert_eq!(read(b"abc\r\n").as_deref(), Ok("abc"));
        assert_eq!(read(b"a b\n\n").as_deref(), Ok("a b\n"));
        let long = vec![b'x'; SECRET_BYTES_MAX + 1];
        for bytes in [b"".as_slice(), b"\n", b"a\0b", &[0xff], &long] {
            assert!(read(bytes).is_err());
        }
    }
}
