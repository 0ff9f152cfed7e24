//! Files outside every grant: no test may see their text or change their bytes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub use clawhost::attack::CANARY as SECRET;
use clawhost::attack::Snapshot;

const FILES: [&str; 4] = ["canary.txt", "inside/canary.txt", "workspace2/canary.txt", "secret"];

/// A folder of canaries beside the granted one.
#[derive(Debug)]
pub struct Canaries {
    folder: PathBuf,
    planted: Snapshot,
}

impl Canaries {
    /// Plants canaries in `folder`.
    pub fn plant(folder: &Path) -> Self {
        for file in FILES {
            let path = folder.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, SECRET).unwrap();
        }
        Self { folder: folder.to_owned(), planted: look(folder) }
    }

    /// Returns the folder they are in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of one of them.
    pub fn file(&self) -> PathBuf {
        self.folder.join(FILES[0])
    }

    /// Checks that they are as they were planted and that nothing was put beside them.
    ///
    /// # Panics
    /// Where a call changed one of them or made something there.
    pub fn check(&self) {
        let changed = self.planted.difference(&look(&self.folder));
        assert_eq!(changed, Vec::<String>::new(), "the canaries were touched");
    }
}

fn look(folder: &Path) -> Snapshot {
    Snapshot::of(folder, &BTreeMap::new()).unwrap()
}
