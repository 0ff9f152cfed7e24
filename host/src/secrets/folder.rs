//! `$CLAW_SECRETS_DIR`: a folder with a file for each secret, as orchestrators mount them.
//!
//! Links are followed as long as they stay in the folder, which is how mounted secrets are
//! replaced in one step; whatever leads out of it is refused.

use std::io::{self, Read as _};
use std::path::Path;

use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt as _};
use clawhost_core::limits::SECRET_BYTES_MAX;
use zeroize::Zeroizing;

use super::{NoSecret, Secret};

/// Line breaks that an editor may have left behind the value.
const LINE_BREAK_BYTES_MAX: usize = 2;

/// Returns the value in the file `name` of `folder` without its last line break; none where
/// there is no such file. The caller has checked the name.
pub(super) fn read(folder: &Path, name: &str) -> Result<Option<Secret>, NoSecret> {
    let bytes = match read_file(folder, name) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read?,
    };
    Secret::parse(&bytes).map(Some).map_err(NoSecret::Unusable)
}

/// Reads as much of a regular file as a secret may be long, and a little more: what is longer
/// is refused as too long.
#[expect(clippy::disallowed_methods, reason = "it opens the folder of secrets")]
fn read_file(folder: &Path, name: &str) -> io::Result<Zeroizing<Vec<u8>>> {
    let dir = Dir::open_ambient_dir(folder, cap_std::ambient_authority())?;
    let file = dir.open_with(name, &options())?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    read_some(file)
}

fn read_some(file: File) -> io::Result<Zeroizing<Vec<u8>>> {
    let bytes_max = SECRET_BYTES_MAX + LINE_BREAK_BYTES_MAX + 1;
    let mut bytes = Zeroizing::new(Vec::with_capacity(bytes_max));
    file.take(bytes_max as u64).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A pipe in the file's place does not make us wait.
fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.read(true);
    options.custom_flags(rustix::fs::OFlags::NONBLOCK.bits().cast_signed());
    options
}
