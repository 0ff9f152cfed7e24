//! Random bytes of the system, and the names made of them: who does not know one cannot guess it.

use clawhost_core::digest;
use clawhost_core::error::{CallError, ErrorKind};

/// The system has no random numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system has no random numbers")]
pub struct NoRandomness(getrandom::Error);

impl From<NoRandomness> for CallError {
    fn from(error: NoRandomness) -> Self {
        Self::new(ErrorKind::Internal, error.to_string()).with_internal(error.0.to_string())
    }
}

/// Returns `N` random bytes.
pub(crate) fn bytes<const N: usize>() -> Result<[u8; N], NoRandomness> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(NoRandomness)?;
    Ok(bytes)
}

/// Returns `N` random bytes as lower-case hexadecimal digits.
pub(crate) fn hex<const N: usize>() -> Result<String, NoRandomness> {
    Ok(digest::hex(&bytes::<N>()?))
}

/// Returns a random number of thousandths, 0 to 999; 0 where the system has no random numbers, as
/// nothing hangs on it.
pub(crate) fn permille() -> u64 {
    u64::from(bytes().map_or(0, u16::from_ne_bytes)) % 1_000
}

/// Returns a random UUID (RFC 9562, version 4).
pub(crate) fn uuid() -> Result<String, NoRandomness> {
    let bits = u128::from_ne_bytes(bytes()?) & !VERSION_BITS | VERSION_4;
    let mut text = digest::hex(&bits.to_be_bytes());
    for dash in [8, 13, 18, 23] {
        text.insert(dash, '-');
    }
    Ok(text)
}

/// The bits that say what a UUID is made of, and what they say.
const VERSION_BITS: u128 = 0xf000_c000_0000_0000_0000;
const VERSION_4: u128 = 0x4000_8000_0000_0000_0000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_two_a_byte() {
        assert_eq!(hex::<4>().unwrap().len(), 8);
        assert_ne!(hex::<16>().unwrap(), hex::<16>().unwrap());
    }

    #[test]
    fn uuids_are_of_version_4_and_differ() {
        let [a, b] = [uuid().unwrap(), uuid().unwrap()];
        assert_ne!(a, b);
        let lens: Vec<usize> = a.split('-').map(str::len).collect();
        assert_eq!(lens, [8, 4, 4, 4, 12]);
        assert!(a.as_bytes()[14] == b'4' && b"89ab".contains(&a.as_bytes()[19]), "{a}");
    }
}
