//! The folders of an imported server: those that its configuration names, and its own to read.
//!
//! Each is told aloud: it is a grant that nobody has read yet. A whole home folder is not granted at
//! all.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::made::Made;
use super::yaml::yaml;

/// Folders whose programs every jail may run.
const SYSTEM: [&str; 4] = ["/usr", "/bin", "/sbin", "/lib"];
/// What may be done with a folder.
const READ: &str = "ro";
const WRITE: &str = "rw";

impl Made {
    /// Writes the sandbox of a program that is given `words`.
    pub(super) fn sandbox(&mut self, name: &str, command: &str, words: &[&str]) {
        let paths = || words.iter().map(Path::new).filter(|path| path.is_absolute());
        for path in paths().filter(|path| folder_of(path).is_none()) {
            let path = path.display();
            self.todo.push(format!(
                "`{name}`: {path} is not there, and nothing was granted for it: make it and name it in {name}-sandbox.yaml"
            ));
        }
        let named = paths().filter_map(folder_of);
        let own = own_folder(Path::new(command)).map(|folder| (folder, READ));
        let mut mounts: BTreeMap<PathBuf, &str> = BTreeMap::new();
        for (path, may) in named.chain(own).filter(|(path, _)| !is_system(path)) {
            if self.is_too_wide(&path) {
                self.todo.push(format!("`{name}`: {} was not granted, as it holds far more than a server needs: name a folder in it in {name}-sandbox.yaml", path.display()));
                continue;
            }
            let least = mounts.entry(path).or_insert(may);
            *least = if may == WRITE { WRITE } else { *least };
        }
        for (path, may) in &mounts {
            let verb = if *may == WRITE { "read and write" } else { "read" };
            let path = path.display();
            self.todo.push(format!(
                "`{name}` may {verb} {path}: narrow or widen that in {name}-sandbox.yaml"
            ));
        }
        self.files.push((format!("{name}-sandbox.yaml"), document(name, &mounts)));
    }

    /// Says whether a folder is the home folder or above it.
    fn is_too_wide(&self, path: &Path) -> bool {
        path.parent().is_none() || self.home.as_ref().is_some_and(|home| home.starts_with(path))
    }
}

fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// Returns the folder that an argument is about: itself, or that of a file. A file that is not there
/// yet has to be made.
fn folder_of(path: &Path) -> Option<(PathBuf, &'static str)> {
    if path.is_dir() {
        return Some((path.to_owned(), WRITE));
    }
    let folder = path.parent().filter(|folder| folder.is_dir())?;
    Some((folder.to_owned(), if path.exists() { READ } else { WRITE }))
}

/// Returns the folder of a program that lies outside of the system: that of a whole environment where
/// it is in the `bin` of one.
fn own_folder(command: &Path) -> Option<PathBuf> {
    let folder = command.parent().filter(|_| command.is_absolute())?;
    let above = folder.parent().filter(|above| {
        above.file_name().is_some_and(|name| name == "node_modules")
            || above.join("pyvenv.cfg").is_file()
    });
    Some(above.unwrap_or(folder).to_owned())
}

fn document(name: &str, mounts: &BTreeMap<PathBuf, &str>) -> String {
    let mounts: Vec<Value> = mounts
        .iter()
        .map(|(path, may)| json!({"path": path.display().to_string(), "permissions": may}))
        .collect();
    let files = match mounts.is_empty() {
        true => json!({"mode": "deny"}),
        false => json!({"mode": "scoped", "mount_paths": mounts}),
    };
    yaml(&json!({
        "claw": "0.3.0",
        "kind": "Sandbox",
        "metadata": {"name": name},
        "spec": {
            "level": "process",
            "capabilities": {"network": {"mode": "deny"}, "filesystem": files},
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(home: Option<&Path>, words: &[&str]) -> String {
        let home = home.map(Path::to_owned);
        let mut made = Made { home, ..Made::default() };
        made.sandbox("s", "srv", words);
        format!("{}\n{}", made.todo.join("\n"), made.files[0].1)
    }

    #[test]
    fn every_folder_that_is_granted_is_told_and_a_file_to_be_made_may_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display().to_string();
        let db = format!("{path}/x.db");
        let said = told(None, &[&db]);
        assert!(said.contains(&format!("`s` may read and write {path}")), "{said}");
        assert!(said.contains(&format!(r#""path":"{path}","permissions":"rw""#)), "{said}");
        std::fs::write(&db, "").unwrap();
        let said = told(None, &[&db, "relative", "/no/such/folder/x"]);
        assert!(said.contains(&format!("`s` may read {path}")), "{said}");
        // Named twice, the wider counts.
        assert!(told(None, &[&db, &path]).contains("may read and write"));
    }

    #[test]
    fn a_whole_home_folder_is_not_granted() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("notes");
        std::fs::create_dir(&folder).unwrap();
        let text = |path: &Path| path.display().to_string();
        for wide in [home.path(), home.path().parent().unwrap(), Path::new("/")] {
            let said = told(Some(home.path()), &[&text(wide)]);
            assert!(said.contains("was not granted") && said.contains("deny"), "{said}");
        }
        assert!(told(Some(home.path()), &[&text(&folder)]).contains("may read and write"));
    }

    #[test]
    fn the_folder_of_a_program_is_its_environment_where_it_has_one() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        let own = || own_folder(&bin.join("srv")).unwrap();
        assert_eq!(own(), bin);
        std::fs::write(folder.path().join("pyvenv.cfg"), "").unwrap();
        assert_eq!(own(), folder.path());
        let modules = Path::new("/opt/x/node_modules");
        assert_eq!(own_folder(&modules.join(".bin/srv")).unwrap(), modules);
        assert_eq!(own_folder(Path::new("srv")), None);
    }
}
