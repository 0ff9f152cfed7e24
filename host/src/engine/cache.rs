//! Compiled code on disk, authenticated before a byte of it is mapped.
//!
//! Loading native code is as powerful as linking it, so an entry counts only with a keyed
//! BLAKE3 over its name, the tool definitions and the code. The key lives in the state
//! folder, not beside the entries. A damaged or foreign entry is compiled anew.

use cap_std::fs::Dir;
use clawhost_core::catalog::ToolDefinition;

use crate::regular;

/// Length of the authentication code at the start of an entry, in bytes.
const MAC_BYTES: usize = blake3::OUT_LEN;
/// Length of the size of the definitions that follows it, in bytes.
const SIZE_BYTES: usize = size_of::<u32>();

/// Digits of the key's fingerprint in a file name: enough to tell hosts apart.
const OWNER_DIGITS: usize = 8;

/// The cache: a folder only the host's user can write, and the key of its entries.
#[derive(Debug)]
pub struct CodeCache {
    dir: Dir,
    key: [u8; blake3::KEY_LEN],
    /// Ends every name, so that hosts with different keys can share the folder.
    owner: String,
}

/// What one entry holds.
#[derive(Debug)]
pub(super) struct Entry {
    /// What the component described when it was compiled.
    pub(super) definitions: Vec<ToolDefinition>,
    bytes: Vec<u8>,
    code_at: usize,
}

impl Entry {
    /// Returns its native code.
    pub(super) fn code(&self) -> &[u8] {
        self.bytes.get(self.code_at..).unwrap_or_default()
    }
}

impl CodeCache {
    /// Returns the cache in `dir` whose entries are authenticated with `key`.
    pub fn new(dir: Dir, key: [u8; blake3::KEY_LEN]) -> Self {
        let owner =
            blake3::keyed_hash(&key, b"owner").to_hex().chars().take(OWNER_DIGITS).collect();
        Self { dir, key, owner }
    }

    /// Returns the entry `name`, or none where it is absent, damaged or not ours.
    pub(super) fn get(&self, name: &str) -> Option<Entry> {
        let bytes = self.dir.read(self.file(name)).ok()?;
        let (mac, rest) = bytes.split_at_checked(MAC_BYTES)?;
        // blake3::Hash compares in constant time.
        if blake3::Hash::from_slice(mac).ok()? != self.mac(name, rest) {
            tracing::warn!("the cached code `{name}` is damaged or foreign; compiling anew");
            return None;
        }
        let (size, rest) = rest.split_at_checked(SIZE_BYTES)?;
        let size = usize::try_from(u32::from_le_bytes(size.try_into().ok()?)).ok()?;
        let (definitions, code) = rest.split_at_checked(size)?;
        let definitions = serde_json::from_slice(definitions).ok()?;
        let code_at = bytes.len() - code.len();
        Some(Entry { definitions, bytes, code_at })
    }

    /// Stores an entry under `name`. Failing to is no error: the next start compiles again.
    pub(super) fn put(&self, name: &str, definitions: &[ToolDefinition], code: &[u8]) {
        if let Err(error) = self.try_put(name, definitions, code) {
            tracing::warn!("could not cache compiled code: {error}");
        }
    }

    fn try_put(
        &self,
        name: &str,
        definitions: &[ToolDefinition],
        code: &[u8],
    ) -> std::io::Result<()> {
        let definitions = serde_json::to_vec(definitions)?;
        let size = u32::try_from(definitions.len()).map_err(std::io::Error::other)?;
        let rest = [&size.to_le_bytes()[..], &definitions, code].concat();
        let entry = [self.mac(name, &rest).as_bytes(), &rest[..]].concat();
        regular::replace_in(&self.dir, &self.file(name), &entry)
    }

    fn file(&self, name: &str) -> String {
        format!("{name}-{}.code", self.owner)
    }

    fn mac(&self, name: &str, rest: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        // The length keeps (name, rest) from being split differently.
        hasher.update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes()).update(rest);
        hasher.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cap_std::ambient_authority;

    fn cache(dir: &tempfile::TempDir, key: u8) -> CodeCache {
        CodeCache::new(Dir::open_ambient_dir(dir.path(), ambient_authority()).unwrap(), [key; 32])
    }

    #[test]
    fn an_entry_counts_only_whole_and_under_its_own_name_and_key() {
        let dir = tempfile::tempdir().unwrap();
        let ours = cache(&dir, 1);
        ours.put("a", &[], b"native code");
        assert_eq!(cache(&dir, 1).get("a").unwrap().code(), b"native code");
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
            assert!(ours.get("a").is_none(), "byte {at}");
        }
        std::fs::write(&path, &bytes[..20]).unwrap();
        assert!(ours.get("a").is_none(), "truncated");
    }
}
