//! Documents from the file system, for `core::manifest` to read.

use std::io;
use std::path::Path;

use clawhost_core::limits::DOCUMENT_BYTES_MAX;
use clawhost_core::manifest::{DirEntry, Documents};

use crate::regular;

/// The user's files: what the command line names, and what those documents name in turn.
#[derive(Debug, Clone, Copy, Default)]
pub struct FileDocuments;

impl Documents for FileDocuments {
    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        regular::read(file, DOCUMENT_BYTES_MAX as u64)
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirEntry>> {
        let entry = |entry: io::Result<std::fs::DirEntry>| {
            let entry = entry?;
            Ok(DirEntry { name: entry.file_name(), is_directory: entry.file_type()?.is_dir() })
        };
        std::fs::read_dir(directory)?.map(entry).collect()
    }

    fn is_directory(&self, path: &Path) -> bool {
        path.is_dir()
    }

    /// What cannot be followed leads nowhere that is known, so out.
    fn leaves(&self, directory: &Path, file: &Path) -> bool {
        let directory = if directory == Path::new("") { Path::new(".") } else { directory };
        match (directory.canonicalize(), file.canonicalize()) {
            (Ok(directory), Ok(file)) => !file.starts_with(directory),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    #[test]
    fn a_file_is_read_by_the_name_it_is_listed_with_whatever_that_is() {
        let folder = tempfile::tempdir().unwrap();
        let name = OsStr::from_bytes(b"a\xff.yaml");
        std::fs::write(folder.path().join(name), "claw").unwrap();
        let listed = FileDocuments.list(folder.path()).unwrap();
        assert_eq!(listed, [DirEntry { name: name.to_owned(), is_directory: false }]);
        let file = folder.path().join(&listed[0].name);
        assert_eq!(FileDocuments.read(&file).unwrap(), b"claw");
        assert!(!FileDocuments.leaves(folder.path(), &file));
    }
}
