//! Where programs lie, without looking into what they are.

use std::path::{Path, PathBuf};

/// Where a jailed program looks for others, and this file for what a command names.
pub(super) const PATH: &str = "/usr/local/bin:/usr/bin:/bin";

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

/// Says that a program is not found, and what would be right.
pub(crate) fn not_found(command: &str) -> String {
    let (at, there) = match command.contains('/') {
        true => (String::new(), ""),
        false => (format!(" in {}", PATH.replace(':', ", ")), " there"),
    };
    format!("there is no program `{command}`{at}: install it{there}, or write its absolute path")
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

    #[test]
    fn of_a_name_it_is_said_where_it_was_looked_for_and_of_a_path_not() {
        assert_eq!(
            not_found("srv"),
            "there is no program `srv` in /usr/local/bin, /usr/bin, /bin: install it there, or write its absolute path"
        );
        assert_eq!(
            not_found("./srv"),
            "there is no program `./srv`: install it, or write its absolute path"
        );
    }
}
