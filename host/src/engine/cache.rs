//! Compiled code on disk, and what is known of it, authenticated before either is used.
//!
//! Loading native code is as powerful as linking it, so an entry counts only with a keyed
//! BLAKE3 over its name, its length, what is known of the component and the hash of its code. The key
//! lives in the state folder, not beside the entries. A damaged or foreign entry is compiled anew. What
//! is known is read alone where tools are listed. Code is held against the hash that was read then, and
//! mapped, so that it takes memory only as far as it runs: of the folder's files no more than the host's own
//! user may write one, as no other folder is taken, and no grant reaches it.
//! What was used longest ago is taken away where an entry is written and all are over a bound.

use std::cmp::Reverse;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use clawhost_core::limits::CODE_CACHE_BYTES_MAX;

use super::loaded::About;
use crate::regular;
use crate::state::{CACHE_OPTION, FolderError, own_folder};

/// Length of a hash, in bytes. An entry ends with two, its authentication code and that of the code, and with
/// the size of what is known, which lies before them and behind the code.
const HASH_BYTES: usize = blake3::OUT_LEN;
/// Length of the size of what is known, in bytes.
const SIZE_BYTES: usize = size_of::<u32>();
/// How long the end of an entry is, in bytes.
const FOOT_BYTES: usize = 2 * HASH_BYTES + SIZE_BYTES;
/// Length of what is known, in bytes, at most: it is read before it is authenticated. Hundreds of tools with
/// long schemas; a component with more is compiled at each start.
const ABOUT_BYTES_MAX: usize = 8 << 20;

/// How entries are written, as part of their names: an upgrade that writes others takes none for damaged.
const FORMAT: &[u8] = b"owner, format 4";
/// Digits of the key's fingerprint in a file name: enough to tell hosts apart.
const OWNER_DIGITS: usize = 8;
/// Ends the name of every entry.
pub(crate) const CODE_ENDING: &str = ".code";

/// The cache: a folder only the host's user can write, and the key of its entries.
#[derive(Debug)]
pub struct CodeCache {
    folder: PathBuf,
    dir: Dir,
    key: [u8; blake3::KEY_LEN],
    /// Ends every name, so that hosts with different keys can share the folder.
    owner: String,
    bytes_max: u64,
    /// Bytes that may still be put before the folder is looked through.
    room: AtomicU64,
}

/// What one entry says.
#[derive(Debug)]
pub(super) struct Entry {
    /// What was known of the component when it was compiled.
    pub(super) about: About,
    /// The hash of its code, which alone is the code of this entry.
    pub(super) code: blake3::Hash,
    /// How long that is.
    code_bytes: u64,
}

/// The end of an entry, as it was read.
struct Foot {
    mac: [u8; HASH_BYTES],
    code: [u8; HASH_BYTES],
    size: u32,
}

impl Foot {
    /// Reads it of a file of this length.
    fn read(file: &File, bytes: u64) -> Option<Self> {
        let mut foot = [0; FOOT_BYTES];
        file.read_exact_at(&mut foot, bytes.checked_sub(FOOT_BYTES as u64)?).ok()?;
        let (mac, rest) = foot.split_first_chunk()?;
        let (code, size) = rest.split_first_chunk()?;
        let size = u32::from_le_bytes(size.try_into().ok()?);
        let is_known = size as usize <= ABOUT_BYTES_MAX;
        is_known.then_some(Self { mac: *mac, code: *code, size })
    }
}

impl CodeCache {
    /// Opens the cache in `folder`, whose entries are authenticated with `key`. A missing one is made, for its
    /// owner only.
    ///
    /// # Errors
    /// The folder cannot be used, or others may write to it.
    #[expect(clippy::disallowed_methods, reason = "the cache folder becomes a handle here, once")]
    pub fn open(folder: &Path, key: [u8; blake3::KEY_LEN]) -> Result<Self, FolderError> {
        let folder = own_folder(folder, CACHE_OPTION)?;
        let dir = Dir::open_ambient_dir(&folder, ambient_authority());
        let dir = dir.map_err(|error| FolderError::unusable(&folder, &error, CACHE_OPTION))?;
        let owner = blake3::keyed_hash(&key, FORMAT).to_hex().chars().take(OWNER_DIGITS).collect();
        let (bytes_max, room) = (CODE_CACHE_BYTES_MAX, AtomicU64::new(0));
        Ok(Self { folder, dir, key, owner, bytes_max, room })
    }

    /// Returns the folder, which nobody is granted.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns what the entry `name` says, or none where it is absent, damaged or not ours. Its code is not
    /// looked at.
    pub(super) fn get(&self, name: &str) -> Option<Entry> {
        let (file, bytes) = self.file(name)?;
        let entry = self.read(name, &file, bytes);
        if entry.is_none() {
            tracing::warn!("the cached code `{name}` is damaged or foreign; compiling anew");
        }
        entry
    }

    /// Reads what an entry of this length says; before it is its code.
    fn read(&self, name: &str, file: &File, bytes: u64) -> Option<Entry> {
        let foot = Foot::read(file, bytes)?;
        let code_bytes = bytes.checked_sub(FOOT_BYTES as u64 + u64::from(foot.size))?;
        let mut about = vec![0; usize::try_from(foot.size).ok()?];
        file.read_exact_at(&mut about, code_bytes).ok()?;
        let code = blake3::Hash::from_bytes(foot.code);
        // blake3::Hash compares in constant time.
        let is_ours = self.mac(name, bytes, &code, &about) == blake3::Hash::from_bytes(foot.mac);
        let about = is_ours.then(|| serde_json::from_slice(&about).ok()).flatten()?;
        Some(Entry { about, code, code_bytes })
    }

    /// Returns the file of the entry `name`, which begins with its code, or none where what lies there now is not
    /// the code of this hash, which [`get`](Self::get) has told.
    pub(super) fn code(&self, name: &str, hash: blake3::Hash) -> Option<File> {
        let (file, bytes) = self.file(name)?;
        let entry = self.read(name, &file, bytes).filter(|entry| entry.code == hash)?;
        let mut hasher = blake3::Hasher::new();
        hasher.update_reader((&file).take(entry.code_bytes)).ok()?;
        (hasher.finalize() == hash).then_some(file)
    }

    /// Opens the entry `name`, and returns it with its length in bytes.
    fn file(&self, name: &str) -> Option<(File, u64)> {
        let (file, bytes) = regular::open_in(&self.dir, &self.file_name(name)).ok()?;
        Some((file.into_std(), bytes))
    }

    /// Stores an entry under `name`, and says whether it did. Failing to is no error: the next start compiles again.
    pub(super) fn put(&self, name: &str, about: &About, code: &[u8]) -> bool {
        let put = self.try_put(name, about, code);
        match &put {
            Ok(bytes) => self.make_room(*bytes),
            Err(error) => tracing::warn!("could not cache compiled code: {error}"),
        }
        put.is_ok()
    }

    fn try_put(&self, name: &str, about: &About, code: &[u8]) -> std::io::Result<u64> {
        let about = serde_json::to_vec(about)?;
        if about.len() > ABOUT_BYTES_MAX {
            return Err(std::io::Error::other("what is known of it is too long"));
        }
        let size = u32::try_from(about.len()).map_err(std::io::Error::other)?.to_le_bytes();
        let hash = blake3::hash(code);
        let bytes = (code.len() + about.len() + FOOT_BYTES) as u64;
        let mac = self.mac(name, bytes, &hash, &about);
        let entry = [code, &about, mac.as_bytes(), hash.as_bytes(), &size[..]].concat();
        regular::replace_in(&self.dir, &self.file_name(name), &entry)?;
        Ok(bytes)
    }

    /// Looks through the folder where this host has put as much as had room when it last did, first of all at its
    /// first entry. Hosts that put much at the same time see each other's a little later.
    fn make_room(&self, put: u64) {
        let (set, fetch) = (Ordering::Relaxed, Ordering::Relaxed);
        if self.room.fetch_update(set, fetch, |room| room.checked_sub(put)).is_ok() {
            return;
        }
        match self.prune() {
            Ok(room) => self.room.store(room, Ordering::Relaxed),
            Err(error) => tracing::warn!("could not clear the folder of compiled code: {error}"),
        }
    }

    /// Takes away what was used longest ago, whoever's it is, until the rest is within the bound, and returns
    /// how much more has room. A system that does not note when a file was read tells when it was written.
    fn prune(&self) -> std::io::Result<u64> {
        let mut entries = Vec::new();
        for entry in self.dir.entries()? {
            let entry = entry?;
            let name = entry.file_name();
            // Another host may have taken it away by now; and what was never finished has more after the ending.
            let Ok(found) = entry.metadata() else { continue };
            if found.is_file() && is_entry(&name.to_string_lossy()) {
                entries.push((found.accessed().ok().max(found.modified().ok()), found.len(), name));
            }
        }
        entries.sort_by_key(|(used, ..)| Reverse(*used));
        let (mut all, mut kept) = (0_u64, 0);
        for (_, bytes, name) in entries {
            all = all.saturating_add(bytes);
            if all > self.bytes_max {
                drop(self.dir.remove_file(name));
            } else {
                kept = all;
            }
        }
        Ok(self.bytes_max.saturating_sub(kept))
    }

    fn file_name(&self, name: &str) -> String {
        format!("{name}-{}{CODE_ENDING}", self.owner)
    }

    fn mac(&self, name: &str, bytes: u64, code: &blake3::Hash, about: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        // The length keeps what follows the name from being split differently.
        hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
        hasher.update(&bytes.to_le_bytes()).update(code.as_bytes()).update(about).finalize()
    }
}

/// Says whether a file has the name of an entry, of whatever host, or of one that was never finished: the folder may
/// be an embedding program's, with files of its own.
fn is_entry(name: &str) -> bool {
    let (stem, rest) = name.rsplit_once(CODE_ENDING).unwrap_or_default();
    let owner = stem.rsplit_once('-').map_or("", |(_, owner)| owner);
    owner.len() == OWNER_DIGITS
        && owner.bytes().all(|digit| digit.is_ascii_hexdigit())
        && rest.bytes().all(|byte| byte == b'.' || byte.is_ascii_digit())
        && name.starts_with('.') != rest.is_empty()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::kinds::World;
    use super::*;

    /// How long a test waits for what must come at once.
    const SOON: Duration = Duration::from_secs(10);

    fn cache(dir: &tempfile::TempDir, key: u8) -> CodeCache {
        CodeCache::open(dir.path(), [key; 32]).unwrap()
    }

    fn about() -> About {
        About {
            digest: "sha256:0".to_owned(),
            size_bytes: 7,
            imports: vec!["wasi:io/poll".to_owned()],
            definitions: Vec::new(),
            left_out: Vec::new(),
            world: World::Tool,
            is_p3: false,
        }
    }

    /// Returns a file of these bytes.
    fn file(dir: &tempfile::TempDir, bytes: &[u8]) -> File {
        std::fs::write(dir.path().join("file"), bytes).unwrap();
        File::open(dir.path().join("file")).unwrap()
    }

    /// Returns the code that is listed under a name.
    fn read(cache: &CodeCache, name: &str) -> Option<Vec<u8>> {
        let entry = cache.get(name)?;
        let file = cache.code(name, entry.code)?;
        let mut code = vec![0; usize::try_from(entry.code_bytes).unwrap()];
        file.read_exact_at(&mut code, 0).unwrap();
        Some(code)
    }

    #[test]
    fn an_entry_counts_only_whole_and_under_its_own_name_and_key() {
        let dir = tempfile::tempdir().unwrap();
        let ours = cache(&dir, 1);
        ours.put("a", &about(), b"native code");
        assert_eq!(cache(&dir, 1).get("a").unwrap().about.imports, about().imports);
        assert_eq!(read(&cache(&dir, 1), "a").unwrap(), b"native code");
        let path = dir.path().join(ours.file_name("a"));
        std::fs::copy(&path, dir.path().join(cache(&dir, 2).file_name("a"))).unwrap();
        assert!(cache(&dir, 2).get("a").is_none(), "another key");
        std::fs::copy(&path, dir.path().join(ours.file_name("b"))).unwrap();
        assert!(ours.get("b").is_none(), "another name");
        let bytes = std::fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            std::fs::write(&path, &damaged).unwrap();
            assert!(read(&ours, "a").is_none(), "byte {at}");
        }
        let longer = [&bytes[..], b"\0"].concat();
        for other in [&bytes[..20], &bytes[..bytes.len() - 1], &longer] {
            std::fs::write(&path, other).unwrap();
            assert!(ours.get("a").is_none(), "{} bytes", other.len());
        }
    }

    #[test]
    fn what_is_known_is_not_read_where_it_is_longer_than_what_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir, 1);
        let long = About { digest: "0".repeat(ABOUT_BYTES_MAX), ..about() };
        cache.try_put("a", &long, b"native code").unwrap_err();
        let foot = |size: u32| {
            let foot = [&[0; 2 * HASH_BYTES][..], &size.to_le_bytes()].concat();
            Foot::read(&file(&dir, &foot), foot.len() as u64)
        };
        assert!(foot(u32::MAX).is_none() && foot(7).is_some());
    }

    #[test]
    fn a_fifo_in_the_place_of_an_entry_is_none_and_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir, 1);
        let path = dir.path().join(cache.file_name("a"));
        let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let found = cache.get("a").is_some() || cache.code("a", blake3::hash(b"")).is_some();
            cache.put("a", &about(), b"native code");
            sender.send((found, read(&cache, "a").is_some())).unwrap();
        });
        assert_eq!(receiver.recv_timeout(SOON).unwrap(), (false, true));
    }

    #[test]
    fn what_was_used_longest_ago_makes_room_and_nothing_else_of_the_folder_does() {
        let dir = tempfile::tempdir().unwrap();
        let (mut cache, first) = (cache(&dir, 1), cache(&dir, 1));
        let entry =
            |cache: &CodeCache, name| std::fs::metadata(dir.path().join(cache.file_name(name)));
        for (name, hours) in [("a", 2), ("b", 3), ("c", 1)] {
            first.put(name, &about(), b"native code");
            let at = std::time::SystemTime::UNIX_EPOCH + Duration::from_hours(hours);
            let times = std::fs::FileTimes::new().set_accessed(at).set_modified(at);
            let path = dir.path().join(cache.file_name(name));
            File::open(path).unwrap().set_times(times).unwrap();
        }
        let others = ["other", "project.code-workspace", "my.codes.txt", "a-notowned.code"];
        let others = others.map(|name| dir.path().join(name));
        let unfinished = dir.path().join(format!(".{}.7.0", cache.file_name("x")));
        for path in others.iter().chain([&unfinished]) {
            std::fs::write(path, [0; 1_000]).unwrap();
            let at = std::time::SystemTime::UNIX_EPOCH;
            let times = std::fs::FileTimes::new().set_accessed(at).set_modified(at);
            File::open(path).unwrap().set_times(times).unwrap();
        }
        cache.bytes_max = 3 * entry(&cache, "a").unwrap().len();
        cache.put("d", &about(), b"native code");
        let there = ["a", "b", "c", "d"].map(|name| entry(&cache, name).is_ok());
        assert_eq!(there, [true, true, false, true]);
        assert!(others.iter().all(|other| other.exists()) && !unfinished.exists());
        cache.put("b", &about(), b"native code");
        assert!(read(&cache, "b").is_some(), "writing again needs no more room");
    }

    #[test]
    fn code_that_was_put_there_after_the_list_was_read_is_not_that_of_the_list() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir, 1);
        cache.put("a", &about(), b"native code");
        let listed = cache.get("a").unwrap();
        cache.put("a", &about(), b"other code, as well authenticated");
        assert!(cache.code("a", listed.code).is_none());
        assert!(read(&cache, "a").is_some());
    }
}
