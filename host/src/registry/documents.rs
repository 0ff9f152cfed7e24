//! Documents from the file system, for `core::manifest` to read.

use std::io::{self, Read as _};
use std::path::Path;

use clawhost_core::limits::DOCUMENT_BYTES_MAX;
use clawhost_core::manifest::{DirEntry, Documents};

/// The user's files: what the command line names, and what those documents name in turn.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileDocuments;

impl Documents for FileDocuments {
    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        // Asked before opening: opening a FIFO would block.
        if !std::fs::metadata(file)?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        let mut bytes = Vec::new();
        std::fs::File::open(file)?.take(DOCUMENT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirEntry>> {
        let entry = |entry: io::Result<std::fs::DirEntry>| {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            Ok(DirEntry { name, is_directory: entry.file_type()?.is_dir() })
        };
        std::fs::read_dir(directory)?.map(entry).collect()
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }
}
