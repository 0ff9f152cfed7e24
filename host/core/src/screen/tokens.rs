//! What is written in the place of something that was found: the same for the same value, so that
//! a reader can tell two of them apart without knowing either.

use std::fmt;

use sha2::{Digest as _, Sha256};

/// The key that makes tokens: whoever does not have it cannot try values out.
pub const TOKEN_KEY_BYTES: usize = 32;
/// Shown of a token: enough to tell some thousands of values apart, too little to be a value.
const TOKEN_DIGITS: usize = 8;
/// What SHA-256 reads at a time (RFC 2104 pads keys to it).
const BLOCK_BYTES: usize = 64;

/// Makes tokens. The default has no key: what it writes says the kind and no more.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Tokens {
    key: Option<[u8; TOKEN_KEY_BYTES]>,
}

impl Tokens {
    /// Returns what makes tokens with `key`, which is kept as long as tokens have to stay the same.
    pub const fn new(key: [u8; TOKEN_KEY_BYTES]) -> Self {
        Self { key: Some(key) }
    }

    /// Returns what stands in the place of `value`, something of the kind `name`:
    /// `[email:3f9a52c1]`.
    pub(super) fn marker(&self, name: &str, value: &str) -> String {
        let Some(key) = &self.key else { return format!("[redacted: {name}]") };
        let mut marker = format!("[{name}:");
        for digit in hmac(key, value.as_bytes())
            .iter()
            .flat_map(|byte| [byte >> 4, byte & 15])
            .take(TOKEN_DIGITS)
        {
            marker.extend(char::from_digit(u32::from(digit), 16));
        }
        marker.push(']');
        marker
    }
}

/// Does not show the key.
impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens").field("keyed", &self.key.is_some()).finish()
    }
}

/// HMAC-SHA-256 (RFC 2104), for keys no longer than a block.
fn hmac(key: &[u8; TOKEN_KEY_BYTES], message: &[u8]) -> [u8; 32] {
    let padded = |with: u8| {
        let mut block = [with; BLOCK_BYTES];
        block.iter_mut().zip(key).for_each(|(pad, byte)| *pad ^= byte);
        Sha256::new_with_prefix(block)
    };
    let inner = padded(0x36).chain_update(message).finalize();
    padded(0x5c).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_hmac_sha_256() {
        // RFC 4231 has no key of 32 bytes; a shorter one is the same with zeros behind it.
        let mut key = [0; TOKEN_KEY_BYTES];
        key[..4].copy_from_slice(b"Jefe");
        let mac = hmac(&key, b"what do ya want for nothing?");
        assert_eq!(mac[..4], [0x5b, 0xdc, 0xc1, 0x46]);
        assert_eq!(mac[28..], [0x64, 0xec, 0x38, 0x43]);
    }

    #[test]
    fn a_token_is_the_same_for_the_same_value_and_key_and_else_another() {
        let tokens = Tokens::new([1; TOKEN_KEY_BYTES]);
        let one = tokens.marker("email", "a@b.test");
        assert_eq!(one, tokens.marker("email", "a@b.test"));
        assert_eq!((one.len(), one.starts_with("[email:"), one.ends_with(']')), (16, true, true));
        assert_ne!(one, tokens.marker("email", "a@c.test"));
        assert_ne!(one, Tokens::new([2; TOKEN_KEY_BYTES]).marker("email", "a@b.test"));
        assert_eq!(Tokens::default().marker("email", "a@b.test"), "[redacted: email]");
        assert!(!format!("{tokens:?}").contains('1'));
    }
}
