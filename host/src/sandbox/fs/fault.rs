//! Why a file operation was refused or failed.

use rustix::io::Errno;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::meter::Limit;
use super::stat::Id;

/// Why a file operation did not happen.
///
/// No variant says anything about objects outside the grant: leaving it is always
/// [`Fault::Outside`], and a closed path is always [`Fault::Closed`], there or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
pub enum Fault {
    /// The path is absolute, climbs above its start, or meets a link that does.
    #[error("the path leaves the granted directory")]
    Outside,
    /// The profile closes this path.
    #[error("the path is closed by the profile")]
    Closed,
    /// The grant is for reading only: that of this directory, which is not kept in recordings.
    #[error("the directory is granted read-only")]
    ReadOnly(#[serde(skip)] Id),
    /// The file has more than one name, and the other may lie outside the grant.
    #[error("the file has several hard links and may not be written")]
    HardLinked,
    /// Guests make no hard links.
    #[error("hard links may not be created")]
    LinkRefused,
    /// Guests make no absolute links and none that contain `..`.
    #[error("a symbolic link may not be absolute or contain `..`")]
    LinkTarget,
    /// A granted or closed directory, or one that holds it, may not be moved or removed.
    #[error("the directory holds a granted or closed path and may not be moved or removed")]
    Pinned,
    /// Neither a regular file nor a directory.
    #[error("not a regular file or directory")]
    Special,
    /// A quota of the call is used up.
    #[error("the call's limit `{0}` is reached")]
    Limit(Limit),
    /// The system's own answer.
    #[error("{0}")]
    Os(#[serde(serialize_with = "to_number", deserialize_with = "of_number")] Errno),
}

impl Fault {
    /// Says whether the guest reached for something it was not granted: what an audit wants to
    /// know, as opposed to an ordinary error such as a missing file.
    #[must_use]
    pub const fn is_denial(self) -> bool {
        !matches!(self, Self::Limit(_) | Self::Os(_))
    }
}

impl From<Errno> for Fault {
    fn from(errno: Errno) -> Self {
        Self::Os(errno)
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::Os(Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

impl From<Limit> for Fault {
    fn from(limit: Limit) -> Self {
        Self::Limit(limit)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "so serde calls it")]
fn to_number<S: Serializer>(errno: &Errno, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_i32(errno.raw_os_error())
}

fn of_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Errno, D::Error> {
    i32::deserialize(deserializer).map(Errno::from_raw_os_error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_recording_has_which_directory_is_read_only() {
        let kept = serde_json::to_string(&Fault::ReadOnly(Id { device: 1, inode: 2 })).unwrap();
        assert_eq!(kept, r#""ReadOnly""#);
        let played: Fault = serde_json::from_str(&kept).unwrap();
        assert_eq!(played, Fault::ReadOnly(Id::default()));
    }
}
