//! A path, the granted folder it is in, and errors that name the one and not the other.

use super::path::{Below, Plain};
use crate::bindings::wasi::filesystem::preopens::get_directories;
use crate::bindings::wasi::filesystem::types::{
    Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags,
};
use crate::error::ToolError;

/// A path, and the granted folder it is in.
#[derive(Debug)]
pub(super) struct Place<'a> {
    pub(super) path: &'a str,
    pub(super) root: Descriptor,
    pub(super) below: Below,
}

impl<'a> Place<'a> {
    pub(super) fn find(path: &'a str) -> Result<Self, ToolError> {
        let plain = Plain::parse(path)?;
        let mut best: Option<Self> = None;
        for (root, mount) in get_directories() {
            if let Some(below) = plain.below(&mount)
                && best.as_ref().is_none_or(|best| below.depth > best.below.depth)
            {
                best = Some(Self { path, root, below });
            }
        }
        best.ok_or_else(|| ToolError::denied("no folder is granted to this tool"))
    }

    pub(super) fn open(
        &self,
        how: OpenFlags,
        access: DescriptorFlags,
    ) -> Result<Descriptor, ToolError> {
        let path = self.below.text();
        self.tell(self.root.open_at(PathFlags::SYMLINK_FOLLOW, &path, how, access))
    }

    pub(super) fn tell<T>(&self, result: Result<T, ErrorCode>) -> Result<T, ToolError> {
        result.map_err(|code| self.error(code))
    }

    /// The error in words that name the caller's path and nothing of the host's.
    pub(super) fn error(&self, code: ErrorCode) -> ToolError {
        let path = self.path;
        match code {
            ErrorCode::NoEntry => ToolError::FileNotFound(format!("{path:?} does not exist")),
            ErrorCode::NotPermitted => {
                ToolError::InvalidPath(format!("{path:?} is not inside the granted folder"))
            }
            ErrorCode::Loop | ErrorCode::NameTooLong | ErrorCode::IllegalByteSequence => {
                ToolError::InvalidPath(format!("{path:?} is not a usable path: {}", code.message()))
            }
            ErrorCode::Access => ToolError::denied(format!("{path:?} may not be used")),
            ErrorCode::ReadOnly => ToolError::denied(format!("{path:?} is granted read-only")),
            ErrorCode::Unsupported => {
                ToolError::failed(format!("{path:?} is neither a regular file nor a folder"))
            }
            ErrorCode::IsDirectory => ToolError::failed(format!("{path:?} is a directory")),
            ErrorCode::NotDirectory => ToolError::failed(format!("{path:?} is not a directory")),
            other => ToolError::failed(format!("{path:?}: {}", other.message())),
        }
    }
}
