//! The keys that sign records, and that signatures are checked with (Ed25519, RFC 8032).

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair as _, UnparsedPublicKey};

/// What a public key's text begins with.
const ALGORITHM: &str = "ed25519:";
const KEY_BYTES: usize = 32;

/// Signs. Prints nothing of itself but its public part.
#[derive(Debug)]
pub struct SigningKey(Ed25519KeyPair);

/// Checks. Its text is `ed25519:` and base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublicKey([u8; KEY_BYTES]);

/// It is no text of a public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("is no public key: `clawhost audit key` prints one, `{ALGORITHM}` and 44 characters")]
pub struct NoKey;

impl SigningKey {
    /// Returns the key that these 32 random bytes make; none where there are more or fewer.
    pub fn from_seed(seed: &[u8]) -> Option<Self> {
        Ed25519KeyPair::from_seed_unchecked(seed).ok().map(Self)
    }

    /// Returns what checks its signatures.
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; KEY_BYTES];
        bytes.copy_from_slice(self.0.public_key().as_ref());
        PublicKey(bytes)
    }

    /// Signs a text; returns base64.
    pub(super) fn sign(&self, text: &str) -> String {
        BASE64_STANDARD.encode(self.0.sign(text.as_bytes()))
    }
}

impl PublicKey {
    /// Says whether `signature`, in base64, is of `text` and by this key.
    pub(super) fn holds(&self, text: &str, signature: &str) -> bool {
        let key = UnparsedPublicKey::new(&ED25519, self.0);
        BASE64_STANDARD
            .decode(signature)
            .is_ok_and(|signature| key.verify(text.as_bytes(), &signature).is_ok())
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}{}", BASE64_STANDARD.encode(self.0))
    }
}

impl FromStr for PublicKey {
    type Err = NoKey;

    fn from_str(text: &str) -> Result<Self, NoKey> {
        let bytes = text.strip_prefix(ALGORITHM).and_then(|text| BASE64_STANDARD.decode(text).ok());
        bytes.and_then(|bytes| bytes.try_into().ok()).map(Self).ok_or(NoKey)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_reads_as_it_prints_and_checks_what_it_signed() {
        let key = SigningKey::from_seed(&[7; 32]).unwrap();
        let public: PublicKey = key.public().to_string().parse().unwrap();
        let signature = key.sign("one");
        assert!(public.holds("one", &signature));
        assert!(!public.holds("two", &signature) && !public.holds("one", "!"));
        assert!(!SigningKey::from_seed(&[8; 32]).unwrap().public().holds("one", &signature));
        assert_eq!("ed25519:AAAA".parse::<PublicKey>(), Err(NoKey));
        assert!(SigningKey::from_seed(&[7; 31]).is_none());
    }
}
