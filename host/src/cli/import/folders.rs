//! The folders of an imported server: those that its configuration names, and its own to read.
//!
//! Each is told aloud, as what it is without links: it is a grant that nobody has read yet. A whole home folder
//! is not granted at all, and nothing is where nobody knows which folder that is.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::made::Made;
use super::yaml::yaml;

/// Folders whose programs every jail may run.
const SYSTEM: [&str; 4] = ["/usr", "/bin", "/sbin", "/lib"];
/// What the names of programs for Node.js end in.
const SCRIPTS: [&str; 4] = ["cjs", "js", "mjs", "ts"];
/// What may be done with a folder.
const READ: &str = "ro";
const WRITE: &str = "rw";

impl Made {
    /// Writes the sandbox of a program that is given `words`.
    pub(super) fn sandbox(&mut self, name: &str, command: &str, words: &[&str]) {
        let paths = || words.iter().filter_map(|word| path_of(word));
        let own = own_folder(Path::new(command));
        let lost = paths().filter(|path| folder_of(path).is_none()).map(Path::to_owned);
        for path in lost.chain(own.clone().filter(|own| !own.is_dir())) {
            let path = path.display();
            self.todo.push(format!(
                "`{name}`: {path} is not there, and nothing was granted for it: make it and name it in {name}-sandbox.yaml"
            ));
        }
        let named = paths().filter_map(folder_of);
        let own = own.and_then(|own| own.canonicalize().ok()).map(|folder| (folder, READ));
        let mut mounts: BTreeMap<PathBuf, &str> = BTreeMap::new();
        for (path, may) in named.chain(own).filter(|(path, _)| !is_system(path)) {
            if self.is_too_wide(&path) {
                let why = match self.home {
                    Some(_) => "as it holds far more than a server needs: name a folder in it",
                    None => "as nobody knows which folder is your home: set HOME, or name it",
                };
                let path = path.display();
                self.todo.push(format!(
                    "`{name}`: {path} was not granted, {why} in {name}-sandbox.yaml"
                ));
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
        let document = document(&self.sandbox_name(name), &mounts);
        self.files.push((format!("{name}-sandbox.yaml"), document));
    }

    /// Says whether a folder, which has no links in it, is the home folder or above it.
    fn is_too_wide(&self, path: &Path) -> bool {
        self.home.as_ref().is_none_or(|home| home.starts_with(path)) || path.parent().is_none()
    }
}

/// Returns the path that a word is, or that an option has behind its `=`.
fn path_of(word: &str) -> Option<&Path> {
    let option = word.split_once('=').filter(|(name, _)| name.starts_with('-'));
    Some(Path::new(option.map_or(word, |(_, value)| value))).filter(|path| path.is_absolute())
}

fn is_system(path: &Path) -> bool {
    SYSTEM.iter().any(|system| path.starts_with(system))
}

/// Returns the folder that an argument is about, without links: itself, or that of a file. A file that is not
/// there yet has to be made.
fn folder_of(path: &Path) -> Option<(PathBuf, &'static str)> {
    if path.is_dir() {
        return Some((path.canonicalize().ok()?, WRITE));
    }
    let folder = path.parent().filter(|folder| folder.is_dir())?.canonicalize().ok()?;
    if !path.exists() {
        return Some((folder, WRITE));
    }
    let packages = path.file_name().and_then(|name| packages_of(&folder.join(name)));
    Some((packages.unwrap_or(folder), READ))
}

/// Returns the folder with the packages that a program for Node.js loads: the outermost `node_modules` above it,
/// else the one with its `package.json`.
fn packages_of(program: &Path) -> Option<PathBuf> {
    let is_script = program.extension().is_some_and(|end| SCRIPTS.iter().any(|one| end == *one));
    let named = |folder: &&Path| folder.file_name().is_some_and(|name| name == "node_modules");
    let modules = program.ancestors().filter(named).last();
    let is_project = |folder: &&Path| is_script && folder.join("package.json").is_file();
    modules.or_else(|| program.ancestors().find(is_project)).map(Path::to_owned)
}

/// Returns the folder of a program that lies outside of the system: that of a whole environment where
/// it is in the `bin` of one.
fn own_folder(command: &Path) -> Option<PathBuf> {
    let folder = command.parent().filter(|_| command.is_absolute())?;
    let environment = folder.parent().filter(|above| above.join("pyvenv.cfg").is_file());
    Some(packages_of(command).unwrap_or_else(|| environment.unwrap_or(folder).to_owned()))
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
        let path = folder.path().canonicalize().unwrap().display().to_string();
        let db = format!("{path}/x.db");
        let home = Some(Path::new("/home/somebody"));
        let said = told(home, &[&format!("--db={db}")]);
        assert!(said.contains(&format!("`s` may read and write {path}")), "{said}");
        assert!(said.contains(&format!(r#""path":"{path}","permissions":"rw""#)), "{said}");
        std::fs::write(&db, "").unwrap();
        let said = told(home, &[&db, "relative", "/no/such/folder/x"]);
        assert!(said.contains(&format!("`s` may read {path}")), "{said}");
        // Named twice, the wider counts.
        assert!(told(home, &[&db, &path]).contains("may read and write"));
    }

    #[test]
    fn a_whole_home_folder_is_not_granted() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let (folder, link) = (home.join("notes"), home.join("notes/link"));
        std::fs::create_dir(&folder).unwrap();
        std::os::unix::fs::symlink(&home, &link).unwrap();
        let text = |path: &Path| path.display().to_string();
        let above = home.parent().unwrap();
        for wide in [
            home.as_path(),
            above,
            Path::new("/"),
            folder.join("..").as_path(),
            link.as_path(),
            link.join("x.db").as_path(),
        ] {
            let said = told(Some(home.as_path()), &[&text(wide)]);
            assert!(said.contains("was not granted") && said.contains("deny"), "{said}");
        }
        let said = told(Some(home.as_path()), &[&text(&link.join("notes"))]);
        assert!(said.contains(&format!("may read and write {}", text(&folder))), "{said}");
        assert!(!said.contains("link"), "{said}");
        let said = told(None, &[&text(&folder)]);
        assert!(said.contains("set HOME") && said.contains("deny"), "{said}");
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

    #[test]
    fn a_program_for_node_is_granted_with_the_packages_that_it_loads() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let (build, package) = (path.join("build"), path.join("node_modules/a/dist"));
        for folder in [&build, &package] {
            std::fs::create_dir_all(folder).unwrap();
            std::fs::write(folder.join("index.js"), "").unwrap();
        }
        let granted = |file: &Path| folder_of(file).unwrap();
        assert_eq!(granted(&build.join("index.js")), (build.clone(), READ));
        for file in ["package.json", "build/data.db"] {
            std::fs::write(path.join(file), "").unwrap();
        }
        assert_eq!(granted(&build.join("index.js")), (path.clone(), READ));
        assert_eq!(granted(&build.join("data.db")), (build, READ));
        assert_eq!(granted(&package.join("index.js")), (path.join("node_modules"), READ));
    }
}
