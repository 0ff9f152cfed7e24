//! The world of a shell inside a component: the granted files, and the host's clocks.

use std::time::Duration;

use claw_tool::{ToolError, fs};

use crate::world::{Clock, FileError, Filed, Files, Kind, Stat};

/// The files of the grant.
pub(crate) struct Granted;

/// A shell's messages name the path themselves.
fn filed<T>(result: Result<T, ToolError>) -> Filed<T> {
    result.map_err(|error| match error {
        ToolError::FileNotFound(_) => FileError::not_found(),
        ToolError::InvalidPath(why)
        | ToolError::PermissionDenied(why)
        | ToolError::ExecutionFailed(why)
        | ToolError::InvalidArgs(why)
        | ToolError::NotFound(why)
        | ToolError::Timeout(why) => FileError(why),
    })
}

fn kind(kind: fs::Kind) -> Kind {
    match kind {
        fs::Kind::File => Kind::File,
        fs::Kind::Directory => Kind::Folder,
        fs::Kind::Link => Kind::Link,
        fs::Kind::Other => Kind::Other,
    }
}

impl Files for Granted {
    fn stat(&self, path: &str, follow: bool) -> Filed<Stat> {
        let found = filed(fs::metadata(path, follow))?;
        Ok(Stat { kind: kind(found.kind), size: found.size, modified: found.modified })
    }

    fn is_same(&self, one: &str, other: &str) -> Filed<bool> {
        filed(fs::is_same(one, other))
    }

    fn list(&self, path: &str) -> Filed<Vec<(String, Kind)>> {
        let mut names = filed(fs::names(path))?;
        let mut all = Vec::new();
        while let Some(name) = filed(names.next_name())? {
            all.push((name.name, kind(name.kind)));
        }
        Ok(all)
    }

    fn read(&self, path: &str, offset: u64, bytes: usize) -> Filed<Vec<u8>> {
        filed(fs::open(path).and_then(|file| file.read_at(offset, bytes)))
    }

    fn create(&self, path: &str) -> Filed<()> {
        filed(fs::create(path))
    }

    fn append(&self, path: &str, bytes: &[u8]) -> Filed<()> {
        filed(fs::append(path, bytes))
    }

    fn make_folder(&self, path: &str) -> Filed<()> {
        filed(fs::create_directory(path))
    }

    fn remove_file(&self, path: &str) -> Filed<()> {
        filed(fs::remove_file(path))
    }

    fn remove_folder(&self, path: &str) -> Filed<()> {
        filed(fs::remove_directory(path))
    }

    fn rename(&self, from: &str, to: &str) -> Filed<()> {
        filed(fs::rename(from, to))
    }

    fn set_modified(&self, path: &str, time: Duration) -> Filed<()> {
        filed(fs::set_modified(path, time))
    }
}

/// The host's clocks.
pub(crate) struct HostClock;

impl Clock for HostClock {
    fn wall(&self) -> Duration {
        claw_script::wall()
    }

    fn steady(&self) -> Duration {
        claw_script::monotonic()
    }
}
