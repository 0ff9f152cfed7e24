//! Whose signature a component carries: minisign's, as a small text beside the file.
//!
//! A signature is of the bytes of the file, so that it is the same wherever the file came from and
//! is looked at each time the file is loaded. Deliberately absent: signing, which `minisign -S` does,
//! and its older form, which signs the bytes themselves and not their hash.

use std::fmt;

use minisign_verify::{PublicKey, Signature};

/// What follows the name of a file in the name of its signature.
pub const SIGNATURE_ENDING: &str = ".minisig";

/// A public key of somebody whose components are trusted.
#[derive(Clone, PartialEq, Eq)]
pub struct VerifyingKey {
    text: String,
}

impl VerifyingKey {
    /// Reads the second line of a `minisign.pub`.
    ///
    /// # Errors
    /// It is no such key.
    pub fn parse(text: &str) -> Result<Self, String> {
        let key = PublicKey::from_base64(text);
        key.map_err(|_| format!("{text:?} is no public key of minisign, which begins with RW"))?;
        Ok(Self { text: text.to_owned() })
    }

    /// Says whether `signature`, the text of a `.minisig` file, is this key's for `bytes`.
    fn signed(&self, bytes: &[u8], signature: &Signature) -> bool {
        let key = PublicKey::from_base64(&self.text);
        key.is_ok_and(|key| key.verify(bytes, signature, false).is_ok())
    }
}

/// Returns those of `keys` whose signature of `bytes` the text is.
pub fn signers<'k>(keys: &'k [VerifyingKey], bytes: &[u8], text: &str) -> Vec<&'k VerifyingKey> {
    let Ok(signature) = Signature::decode(text) else { return Vec::new() };
    keys.iter().filter(|key| key.signed(bytes, &signature)).collect()
}

impl fmt::Display for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Debug for VerifyingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VerifyingKey({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "RWSnqvxjstO2YOryD/mFmpavL6CDNInjJ1d1JBoLQk8vJ27Ip3MXVxUy";
    const OTHER: &str = "RWQEawV9TEVMQXT0FgOX41p7vhrZ6b5eebfznLEvjmHIlS+mmXB51rP9";
    /// Of `hello`, as minisign 0.11 made them.
    const SIGNED: &str = "untrusted comment: signature from minisign secret key
RUSnqvxjstO2YAJ0NIPPWn1iuQBlI4NLjfrmLNcUDlo7Bw6TzIUbzgxw5P1iWtxMdCUqRGwzjtCkQt3uKfUBq57Lso9aPdbmAgc=
trusted comment: of a test
3mzOLaCVsCk6IzqZV/YPOsgbKvE+yH4tdbl9U19+OPxlEhbj7RWUEVNDHT6+AtSN1DB6ESQ+2IdRHaOIMnfWBw==
";
    const OLDER_FORM: &str = "untrusted comment: signature from minisign secret key
RWSnqvxjstO2YO1jg/PDvEzvyDASUdZEitpC/19ZbM3Ro5e3RYyJGXn/agHyihZRJz4dfIzzU7nPxtCOc37FsQlem0xPRIPmBQ4=
trusted comment: legacy
TLoQKxyh/pZQ0XdRFS3/UONnHs/45GzYa04RlFhKJbmBVSYFVAA+qdMgYkynPWgwSRMHC+WO/EG0BMpAfIRyCg==
";

    fn signers_of(bytes: &[u8], text: &str) -> Vec<String> {
        let keys = [OTHER, KEY].map(|key| VerifyingKey::parse(key).unwrap());
        signers(&keys, bytes, text).into_iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_signature_is_of_these_bytes_and_by_this_key() {
        assert_eq!(signers_of(b"hello\n", SIGNED), [KEY]);
        assert!(signers_of(b"hello", SIGNED).is_empty());
        assert!(signers_of(b"hello\n", OLDER_FORM).is_empty());
        assert!(signers_of(b"hello\n", &SIGNED.replace("of a test", "of a tent")).is_empty());
        assert!(
            signers_of(b"hello\n", &SIGNED.replace("RUSnqvxjstO2YAJ0", "RUSnqvxjstO2YAJ1"))
                .is_empty()
        );
        for text in ["", "\n\n\n\n", "RUSn", "a\nb\nc\nd"] {
            assert!(signers_of(b"hello\n", text).is_empty(), "{text:?}");
        }
    }

    #[test]
    fn what_is_no_key_is_refused() {
        for text in
            ["", "RW", "untrusted comment: minisign public key 60B6D3B263FCAAA7", "hunter2", "é"]
        {
            assert!(VerifyingKey::parse(text).is_err(), "{text:?}");
        }
    }
}
