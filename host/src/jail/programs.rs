//! Where programs lie, without looking into what they are.

use std::path::{Path, PathBuf};

/// Where a jailed program looks for others, and this file for what a command names.
pub(crate) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// Finds a program: a name in the system's folders, an absolute path as it is. Links in the
/// folder's name are resolved and the program's own is kept: it may be one of many for the same
/// file.
pub fn find(name: &str) -> Option<PathBuf> {
    let given = Path::new(name);
    match name.contains('/') {
        true if given.is_absolute() => at(given),
        true => None,
        false => PATH.split(':').find_map(|folder| at(&Path::new(folder).join(name))),
    }
}

fn at(path: &Path) -> Option<PathBuf> {
    let folder = path.parent()?.canonicalize().ok()?;
    let found = folder.join(path.file_name()?);
    found.is_file().then_some(found)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_by_name_or_absolute_path_only() {
        let sh = find("sh").unwrap();
        assert_eq!(find("/bin/sh").unwrap().canonicalize().unwrap(), sh.canonicalize().unwrap());
        assert_eq!(sh.file_name().unwrap(), "sh");
        for name in ["", ".", "..", "./sh", "bin/sh", "/bin/", "/", "no-such-program", "/bin/../no"]
        {
            assert_eq!(find(name), None, "{name:?}");
        }
    }
}
