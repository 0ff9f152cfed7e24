//! Stores with a file of their own: opened when they are first used, and kept open.

use std::path::PathBuf;

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::MEMORY_FILES_MAX;
use clawhost_core::manifest::FileTemplate;
use tokio::sync::Mutex;

use super::{MIGRATIONS, Scope, backend};
use crate::state::{Database, Migrations};

/// The tables of such a file.
const TABLES: &[Migrations] = &[("memory", MIGRATIONS)];

/// The open files, the one that was used last at the end.
#[derive(Debug, Default)]
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
            None => Database::open_own(path.clone(), TABLES).await.map_err(backend)?,
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
