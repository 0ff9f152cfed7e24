//! Where in which file system a path lies, as the kernel lists its mounts: what is mounted once more
//! (a bind mount) is the same place under another path, which no walk upwards from there tells.
//!
//! Deliberately absent: mounts that are made later, for which one has to be the system's owner; and a
//! system without such a list, where the path itself is the place.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};

use clawhost_core::limits::MOUNTS_BYTES_MAX;

/// A folder or file in a file system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct DevicePath {
    device: Vec<u8>,
    path: PathBuf,
}

impl DevicePath {
    /// Says whether `other` is it or lies in it.
    pub(super) fn holds(&self, other: &Self) -> bool {
        self.device == other.device && other.path.starts_with(&self.path)
    }
}

/// The mounts of this process, each with what of a file system it shows.
#[derive(Debug, Default)]
pub(super) struct Mounts(Vec<(PathBuf, DevicePath)>);

impl Mounts {
    /// Reads what the kernel says; nothing where it says nothing.
    ///
    /// # Errors
    /// The list cannot be read, or is longer than [`MOUNTS_BYTES_MAX`].
    pub(super) fn read() -> io::Result<Self> {
        #[expect(clippy::disallowed_methods, reason = "the kernel's own list, at load")]
        let file = match std::fs::File::open("/proc/self/mountinfo") {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            file => file?,
        };
        let mut text = Vec::new();
        let read = file.take(MOUNTS_BYTES_MAX).read_to_end(&mut text)?;
        if u64::try_from(read).unwrap_or(u64::MAX) >= MOUNTS_BYTES_MAX {
            return Err(io::Error::other("there are too many mounts to look at"));
        }
        Ok(Self::parse(&text))
    }

    /// Reads the list (proc(5), `mountinfo`).
    pub(super) fn parse(text: &[u8]) -> Self {
        let mount = |line: &[u8]| {
            let mut fields = line.split(|b| *b == b' ').skip(2);
            let (device, path) = (fields.next()?.to_vec(), unescaped(fields.next()?));
            Some((unescaped(fields.next()?), DevicePath { device, path }))
        };
        Self(text.split(|b| *b == b'\n').filter_map(mount).collect())
    }

    /// Returns the places that are seen at and below `path`.
    pub(super) fn seen<'a>(&'a self, path: &Path) -> impl Iterator<Item = DevicePath> + use<'a> {
        let path = real(path);
        let own = self.place_of(&path);
        let below = self.0.iter().filter(move |(at, _)| at.starts_with(&path));
        std::iter::once(own).chain(below.map(|(_, place)| place.clone()))
    }

    /// Returns where `path` lies, links considered.
    pub(super) fn place(&self, path: &Path) -> DevicePath {
        self.place_of(&real(path))
    }

    fn place_of(&self, path: &Path) -> DevicePath {
        let around = self.0.iter().filter(|(at, _)| path.starts_with(at));
        // Of several at one path the last one is seen.
        let Some((at, root)) = around.max_by_key(|(at, _)| at.components().count()) else {
            return DevicePath { path: path.to_owned(), ..DevicePath::default() };
        };
        let rest = path.strip_prefix(at).unwrap_or(path);
        DevicePath { device: root.device.clone(), path: root.path.join(rest) }
    }
}

/// Returns `path` without links, as far as it is there.
#[expect(clippy::disallowed_methods, reason = "a profile's paths are looked up here, at load")]
pub(crate) fn real(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|above| Some((above, above.canonicalize().ok()?)));
    let Some((above, real)) = there else { return path.to_owned() };
    match path.strip_prefix(above) {
        Ok(rest) if rest != Path::new("") => real.join(rest),
        _ => real,
    }
}

/// Blanks, line breaks and backslashes stand there as three octal digits.
fn unescaped(field: &[u8]) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::with_capacity(field.len()), field);
    while let [first, behind @ ..] = rest {
        let code = behind.get(..3).filter(|_| *first == b'\\');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = behind.get(if code.is_some() { 3 } else { 0 }..).unwrap_or_default();
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "22 1 8:1 / / rw shared:1 - ext4 /dev/a rw
30 22 8:2 / /home rw - ext4 /dev/b rw
31 22 8:2 /u/.local/state /srv/a\\040b rw - ext4 /dev/b rw
32 22 8:3 / /home/u/disk rw - ext4 /dev/c rw
";

    #[test]
    fn a_place_is_the_same_under_each_of_its_paths() {
        let mounts = Mounts::parse(LIST.as_bytes());
        let place = |path: &str| mounts.place_of(Path::new(path));
        let state = place("/home/u/.local/state/clawhost");
        assert_eq!(place("/srv/a b/clawhost"), state);
        assert!(place("/srv/a b").holds(&state) && place("/home/u").holds(&state));
        assert!(!place("/srv").holds(&state) && !place("/home/u/disk").holds(&state));
        assert!(!place("/u/.local/state/clawhost").holds(&state), "another device");
        let seen: Vec<DevicePath> = mounts.seen(Path::new("/srv")).collect();
        assert!(seen.len() == 2 && seen[1].holds(&state), "{seen:?}");
    }

    #[test]
    fn without_a_list_the_path_is_the_place() {
        let mounts = Mounts::parse(b"nonsense\n\n");
        let place = |path: &str| mounts.place_of(Path::new(path));
        assert!(place("/a").holds(&place("/a/b")) && !place("/a").holds(&place("/ab")));
    }

    #[test]
    fn the_kernel_s_list_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let mounts = Mounts::read().unwrap();
        let (outer, inner) = (mounts.place(folder.path()), folder.path().join("to/be/made"));
        assert!(outer.holds(&mounts.place(&inner)) && !mounts.place(&inner).holds(&outer));
    }
}
