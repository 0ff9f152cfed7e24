//! Stores with a file of their own: opened when they are first used, and kept open.

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::MEMORY_FILES_MAX;
use clawhost_core::manifest::FileTemplate;
use tokio::sync::Mutex;

use super::{MIGRATIONS, Scope, backend};
use crate::state::{Database, DatabaseError};

/// The open files, the one that was used last at the end.
#[derive(Default)]
pub(super) struct Files(Mutex<Vec<(PathBuf, Database)>>);

impl Files {
    /// Returns the file of `scope`, made where it is missing, for its owner only.
    pub(super) async fn open(
        &self,
        file: &FileTemplate,
        scope: &Scope,
    ) -> Result<Database, CallError> {
        let path = file.resolve(&scope.identity, &scope.principal).ok_or_else(no_file_name)?;
        // Held while a file is opened, so that none is opened twice.
        let mut open = self.0.lock().await;
        let known = open.iter().position(|(of, _)| *of == path);
        let database = match known {
            Some(index) => open.remove(index).1,
            None => open_at(path.clone()).await?,
        };
        if open.len() >= MEMORY_FILES_MAX {
            // Work that was handed over is still done; then the file is closed.
            open.remove(0);
        }
        open.push((path, database.clone()));
        Ok(database)
    }
}

fn no_file_name() -> CallError {
    let reason = "this store has a file for each name, and the caller's cannot be that of a file";
    CallError::new(ErrorKind::MemoryQuery, reason)
}

async fn open_at(path: PathBuf) -> Result<Database, CallError> {
    let opening = tokio::task::spawn_blocking(move || {
        make_private(&path).map_err(|error| {
            let reason = format!("{}: {error}", path.display());
            CallError::new(ErrorKind::MemoryBackend, "the store's file cannot be made")
                .with_internal(reason)
        })?;
        Database::open(&path, &[("memory", MIGRATIONS)]).map_err(backend)
    });
    opening.await.unwrap_or_else(|_| Err(backend(DatabaseError::Stopped)))
}

/// Makes the file, and the folders above it, where they are missing.
fn make_private(path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    }
    let mut options = std::fs::OpenOptions::new();
    options.create(true).append(true).mode(0o600).open(path)?;
    Ok(())
}
