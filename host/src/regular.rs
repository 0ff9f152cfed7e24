//! Reading a file that the operator names: a regular one, and only so much of it.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Returns the bytes of `file`, and of a larger one the first `bytes_max` and one more, so that
/// whoever bounds it can say that it is too large.
///
/// # Errors
/// It does not exist, cannot be read, or is no regular file: opening a FIFO would block.
pub(crate) fn read(file: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    if !std::fs::metadata(file)?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    File::open(file)?.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    Ok(bytes)
}
