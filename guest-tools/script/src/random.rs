//! Random numbers of the host, for interpreters that ask the crate `getrandom`.

use claw_tool::bindings::wasi::random::random;

/// Fills `bytes` with random ones.
pub fn fill(bytes: &mut [u8]) {
    for part in bytes.chunks_mut(8) {
        let random = random::get_random_u64().to_le_bytes();
        for (byte, random) in part.iter_mut().zip(random) {
            *byte = random;
        }
    }
}

/// Makes the host the source of `getrandom`, a version of which is the argument.
///
/// `wasm32-unknown-unknown` has none of its own; the build says `getrandom_backend="custom"`.
#[macro_export]
macro_rules! random_from_the_host {
    ($getrandom:ident) => {
        #[unsafe(no_mangle)]
        #[expect(unsafe_code, reason = "the name and the raw buffer are getrandom's interface")]
        unsafe extern "Rust" fn __getrandom_v03_custom(
            bytes: *mut u8,
            count: usize,
        ) -> ::std::result::Result<(), $getrandom::Error> {
            // SAFETY: getrandom passes a buffer of this length that may be written to.
            unsafe { bytes.write_bytes(0, count) };
            // SAFETY: likewise, and it is initialised now.
            $crate::fill(unsafe { ::std::slice::from_raw_parts_mut(bytes, count) });
            Ok(())
        }
    };
}
