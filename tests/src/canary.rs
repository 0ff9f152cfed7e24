//! Files outside every grant: no test may see their text or change their bytes.

use std::path::{Path, PathBuf};

/// What the canary files hold; it must not appear in any reply.
pub const SECRET: &str = "canary-5e2f-do-not-sing";
const FILES: [&str; 4] = ["canary.txt", "inside/canary.txt", "workspace2/canary.txt", "secret"];

/// A folder of canaries beside the granted one.
#[derive(Debug)]
pub struct Canaries {
    folder: PathBuf,
}

impl Canaries {
    /// Plants canaries in `folder`.
    pub fn plant(folder: &Path) -> Self {
        for file in FILES {
            let path = folder.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, SECRET).unwrap();
        }
        Self { folder: folder.to_owned() }
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
        let mut found = Vec::new();
        collect(&self.folder, &self.folder, &mut found);
        found.sort();
        let mut expected: Vec<(String, String)> =
            FILES.iter().map(|file| ((*file).to_owned(), SECRET.to_owned())).collect();
        expected.sort();
        assert_eq!(found, expected, "the canaries were touched");
    }
}

fn collect(root: &Path, folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(root, &path, found);
        } else {
            let name = path.strip_prefix(root).unwrap().to_string_lossy().into_owned();
            found.push((name, std::fs::read_to_string(&path).unwrap_or_default()));
        }
    }
}
