//! Compiled code on disk, and what is known of it, authenticated before either is used.
//!
//! Loading native code is as powerful as linking it, so an entry counts only with a keyed
//! BLAKE3 over its name, its length, what is known of the component and the hash of its code. The key
//! lives in the state folder, not beside the entries. A damaged or foreign entry is compiled anew. What
//! is known is read alone where tools are listed; code is read whole, where the length is right, and held
//! against the hash that was read then, and never mapped: a file can change after it was looked at.
//! What was used longest ago is taken away where an entry is written and all are over a bound.

use std::cmp::Reverse;
use std::io::Read as _;
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::fs::{Dir, File};
use clawhost_core::limits::CODE_CACHE_BYTES_MAX;

use super::loaded::About;
use crate::regular;

/// Length of a hash, in bytes. An entry begins with two: its authentication code, and that of the code.
const HASH_BYTES: usize = blake3::OUT_LEN;
/// Length of the size of what is known, in bytes, which follows them.
const SIZE_BYTES: usize = size_of::<u32>();
/// How long an entry is before what is known begins, in bytes.
const HEAD_BYTES: usize = 2 * HASH_BYTES + SIZE_BYTES;
/// Length of what is known, in bytes, at most: it is read before it is authenticated. Hundreds of tools with
/// long schemas; a component with more is compiled at each start.
const ABOUT_BYTES_MAX: usize = 8 << 20;

/// How entries are written, as part of their names: an upgrade that writes others takes none for damaged.
const FORMAT: &[u8] = b"owner, format 3";
/// Digits of the key's fingerprint in a file name: enough to tell hosts apart.
const OWNER_DIGITS: usize = 8;
/// Ends the name of every entry.
const ENDING: &str = ".code";

/// The cache: a folder only the host's user can write, and the key of its entries.
#[derive(Debug)]
pub struct CodeCache {
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
}

/// The beginning of an entry, as it was read.
struct Head {
    mac: [u8; HASH_BYTES],
    code: [u8; HASH_BYTES],
    size: u32,
}

impl Head {
    fn read(file: &mut File) -> Option<Self> {
        let mut bytes = [0; HEAD_BYTES];
        file.read_exact(&mut bytes).ok()?;
        let (mac, rest) = bytes.split_first_chunk()?;
        let (code, size) = rest.split_first_chunk()?;
        let size = u32::from_le_bytes(size.try_into().ok()?);
        let is_known = size as usize <= ABOUT_BYTES_MAX;
        is_known.then_some(Self { mac: *mac, code: *code, size })
    }
}

impl CodeCache {
    /// Returns the cache in `dir` whose entries are authenticated with `key`.
    pub fn new(dir: Dir, key: [u8; blake3::KEY_LEN]) -> Self {
        let owner = blake3::keyed_hash(&key, FORMAT).to_hex().chars().take(OWNER_DIGITS).collect();
        Self { dir, key, owner, bytes_max: CODE_CACHE_BYTES_MAX, room: AtomicU64::new(0) }
    }

    /// Returns what the entry `name` says, or none where it is absent, damaged or not ours. Its code is not
    /// looked at.
    pub(super) fn get(&self, name: &str) -> Option<Entry> {
        let (mut file, bytes) = regular::open_in(&self.dir, &self.file(name)).ok()?;
        let entry = self.read(name, &mut file, bytes);
        if entry.is_none() {
            tracing::warn!("the cached code `{name}` is damaged or foreign; compiling anew");
        }
        entry
    }

    /// Reads what an entry of this length says; what follows is its code.
    fn read(&self, name: &str, file: &mut File, bytes: u64) -> Option<Entry> {
        let head = Head::read(file)?;
        let mut about = vec![0; usize::try_from(head.size).ok()?];
        file.read_exact(&mut about).ok()?;
        let code = blake3::Hash::from_bytes(head.code);
        // blake3::Hash compares in constant time.
        let is_ours = self.mac(name, bytes, &code, &about) == blake3::Hash::from_bytes(head.mac);
        let about = is_ours.then(|| serde_json::from_slice(&about).ok()).flatten()?;
        Some(Entry { about, code })
    }

    /// Returns the code of the entry `name`, or none where what lies there now is not the code of this hash,
    /// which [`get`](Self::get) has told.
    pub(super) fn code(&self, name: &str, hash: blake3::Hash) -> Option<Vec<u8>> {
        let (mut file, bytes) = regular::open_in(&self.dir, &self.file(name)).ok()?;
        // No more is read than there was when its length was authenticated.
        self.read(name, &mut file, bytes).filter(|entry| entry.code == hash)?;
        let code = regular::rest(file, bytes, bytes).ok()?;
        (blake3::hash(&code) == hash).then_some(code)
    }

    /// Stores an entry under `name`. Failing to is no error: the next start compiles again.
    pub(super) fn put(&self, name: &str, about: &About, code: &[u8]) {
        match self.try_put(name, about, code) {
            Ok(bytes) => self.make_room(bytes),
            Err(error) => tracing::warn!("could not cache compiled code: {error}"),
        }
    }

    fn try_put(&self, name: &str, about: &About, code: &[u8]) -> std::io::Result<u64> {
        let about = serde_json::to_vec(about)?;
        if about.len() > ABOUT_BYTES_MAX {
            return Err(std::io::Error::other("what is known of it is too long"));
        }
        let size = u32::try_from(about.len()).map_err(std::io::Error::other)?.to_le_bytes();
        let hash = blake3::hash(code);
        let bytes = (HEAD_BYTES + about.len() + code.len()) as u64;
        let mac = self.mac(name, bytes, &hash, &about);
        let entry = [mac.as_bytes(), hash.as_bytes(), &size[..], &about, code].concat();
        regular::replace_in(&self.dir, &self.file(name), &entry)?;
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

    fn file(&self, name: &str) -> String {
        format!("{name}-{}{ENDING}", self.owner)
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
    let (stem, rest) = name.rsplit_once(ENDING).unwrap_or_default();
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
    use cap_std::ambient_authority;

    /// How long a test waits for what must come at once.
    const SOON: Duration = Duration::from_secs(10);

    fn cache(dir: &tempfile::TempDir, key: u8) -> CodeCache {
        CodeCache::new(Dir::open_ambient_dir(dir.path(), ambient_authority()).unwrap(), [key; 32])
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
        File::from_std(std::fs::File::open(dir.path().join("file")).unwrap())
    }

    /// Returns the code that is listed under a name.
    fn read(cache: &CodeCache, name: &str) -> Option<Vec<u8>> {
        cache.get(name).and_then(|entry| cache.code(name, entry.code))
    }

    #[test]
    fn an_entry_counts_only_whole_and_under_its_own_name_and_key() {
        let dir = tempfile::tempdir().unwrap();
        let ours = cache(&dir, 1);
        ours.put("a", &about(), b"native code");
        assert_eq!(cache(&dir, 1).get("a").unwrap().about.imports, about().imports);
        assert_eq!(read(&cache(&dir, 1), "a").unwrap(), b"native code");
        let path = dir.path().join(ours.file("a"));
        std::fs::copy(&path, dir.path().join(cache(&dir, 2).file("a"))).unwrap();
        assert!(cache(&dir, 2).get("a").is_none(), "another key");
        std::fs::copy(&path, dir.path().join(ours.file("b"))).unwrap();
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
        let head = [&[0; 2 * HASH_BYTES][..], &u32::MAX.to_le_bytes()].concat();
        assert!(Head::read(&mut file(&dir, &head)).is_none());
        let head = [&[0; 2 * HASH_BYTES][..], &7_u32.to_le_bytes()].concat();
        assert!(Head::read(&mut file(&dir, &head)).is_some());
    }

    #[test]
    fn a_fifo_in_the_place_of_an_entry_is_none_and_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir, 1);
        let path = dir.path().join(cache.file("a"));
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
        let entry = |cache: &CodeCache, name| std::fs::metadata(dir.path().join(cache.file(name)));
        for (name, hours) in [("a", 2), ("b", 3), ("c", 1)] {
            first.put(name, &about(), b"native code");
            let at = std::time::SystemTime::UNIX_EPOCH + Duration::from_hours(hours);
            let times = std::fs::FileTimes::new().set_accessed(at).set_modified(at);
            let path = dir.path().join(cache.file(name));
            std::fs::File::open(path).unwrap().set_times(times).unwrap();
        }
        let others = ["other", "project.code-workspace", "my.codes.txt", "a-notowned.code"];
        let others = others.map(|name| dir.path().join(name));
        let unfinished = dir.path().join(format!(".{}.7.0", cache.file("x")));
        for path in others.iter().chain([&unfinished]) {
            std::fs::write(path, [0; 1_000]).unwrap();
            let at = std::time::SystemTime::UNIX_EPOCH;
            let times = std::fs::FileTimes::new().set_accessed(at).set_modified(at);
            std::fs::File::open(path).unwrap().set_times(times).unwrap();
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
