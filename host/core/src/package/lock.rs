//! `clawhost.lock`: what each reference was when it was pulled.
//!
//! A reference may mean something else tomorrow; what is locked may not. The file may come with a
//! folder of somebody else's, so that nothing in it is taken for a path.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::reference::{ComponentName, OciReference, Reference, Version};
use crate::digest::is_digest;

/// What the `version` of such a file has to say.
const VERSION: u32 = 1;
/// What the file begins with.
const TITLE: &str = "# What `clawhost pull` fetched. Keep it with the manifest; `clawhost pull` fetches the same again.\n";

/// What is locked, by reference.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    components: BTreeMap<String, Locked>,
}

/// What one reference was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locked {
    /// `sha256:…` of the component.
    pub digest: String,
    /// Its length.
    pub bytes: u64,
    /// What its file is called, without the ending.
    pub name: String,
    /// Where exactly it was: of an OCI artifact, by the digest of its manifest.
    pub source: String,
    /// `sha256:…` of the document that a registry of this host's own kind has with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub document: Option<String>,
    /// The key whose signature it carried, of those that the runtime file names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed_by: Option<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    components: BTreeMap<String, Locked>,
}

impl Lock {
    /// Reads the file.
    ///
    /// # Errors
    /// What is wrong with it: another version, unknown keys, or an entry that could not have been
    /// written.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let text = std::str::from_utf8(bytes).map_err(|_| "it is not UTF-8".to_owned())?;
        // Its picture of the place is of several lines, and this is to be one.
        let file: File =
            serde_saphyr::from_str(text).map_err(|error| error.without_snippet().to_string())?;
        if file.version != VERSION {
            let version = file.version;
            return Err(format!("it has version {version}, and this program knows {VERSION}"));
        }
        for (reference, locked) in &file.components {
            locked.check(reference).map_err(|reason| format!("{reference:?}: {reason}"))?;
        }
        Ok(Self { components: file.components })
    }

    /// Returns the file's text, sorted by reference.
    ///
    /// # Errors
    /// None that occurs: every value is text or a number.
    pub fn write(&self) -> Result<String, String> {
        let file = File { version: VERSION, components: self.components.clone() };
        let text = serde_saphyr::to_string(&file).map_err(|error| error.to_string())?;
        Ok(format!("{TITLE}{text}"))
    }

    /// Returns what the reference was.
    pub fn get(&self, reference: &str) -> Option<&Locked> {
        self.components.get(reference)
    }

    /// Returns all references and what they were, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Locked)> {
        self.components.iter().map(|(reference, locked)| (reference.as_str(), locked))
    }

    /// Locks a reference.
    pub fn insert(&mut self, reference: &Reference, locked: Locked) {
        self.components.insert(reference.to_string(), locked);
    }
}

impl Locked {
    /// Returns what to fetch to get the same again.
    ///
    /// # Errors
    /// The entry is none of `reference`.
    pub fn exactly(&self, reference: &Reference) -> Result<Reference, String> {
        let Reference::Oci(oci) = reference else { return Ok(reference.clone()) };
        let elsewhere = || "its `source` is another repository".to_owned();
        match Reference::parse(&self.source)? {
            Reference::Oci(OciReference {
                version: Version::Digest(digest),
                registry,
                repository,
            }) if registry == oci.registry && repository == oci.repository => {
                Ok(Reference::Oci(oci.at(&digest)))
            }
            _ => Err(elsewhere()),
        }
    }

    fn check(&self, reference: &str) -> Result<(), String> {
        let read = Reference::parse(reference)?;
        if read.to_string() != reference {
            return Err(format!("write it `{read}`"));
        }
        self.exactly(&read)?;
        ComponentName::parse(&self.name)?;
        let mut digests = std::iter::once(&self.digest).chain(&self.document);
        if digests.all(|digest| is_digest(digest)) {
            return Ok(());
        }
        Err("a digest is sha256: and 64 hex digits".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest;

    fn locked() -> Locked {
        let digest = digest::of_bytes(b"");
        Locked {
            source: format!("oci://localhost:5000/a/b@{digest}"),
            digest,
            bytes: 0,
            name: "b".to_owned(),
            document: None,
            signed_by: Some("RWQ".to_owned()),
        }
    }

    fn reference(text: &str) -> Reference {
        Reference::parse(text).unwrap()
    }

    #[test]
    fn what_is_written_is_sorted_and_read_back() {
        let mut lock = Lock::default();
        lock.insert(&reference("oci://localhost:5000/a/b:2"), locked());
        lock.insert(&reference("oci://localhost:5000/a/b"), locked());
        let text = lock.write().unwrap();
        assert!(text.starts_with("# What"), "{text}");
        assert!(text.find("b:2").unwrap() < text.find("b:latest").unwrap(), "{text}");
        assert!(!text.contains("document"), "{text}");
        assert_eq!(Lock::read(text.as_bytes()).unwrap(), lock);
    }

    #[test]
    fn what_is_misspelt_is_told_in_one_line_with_its_place() {
        for (text, says) in [
            ("# a\nversion: 1\ncomponnts: {}\n", "unknown field `componnts`"),
            ("# a\nversion: 1\n<<<<<<< ours\ncomponents: {}\n", ""),
        ] {
            let error = Lock::read(text.as_bytes()).unwrap_err();
            assert!(error.contains(says) && error.contains("line "), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn an_entry_fetches_the_same_again() {
        let tag = reference("oci://localhost:5000/a/b:2");
        let exact = locked().exactly(&tag).unwrap().to_string();
        assert_eq!(exact, locked().source);
    }

    #[test]
    fn nothing_in_it_leads_elsewhere() {
        type Change = fn(&mut Locked);
        for (reference, change, says) in [
            ("oci://localhost:5000/a/b", (|_| ()) as Change, "write it"),
            ("oci://localhost:5000/a/c:1", |_| (), "another repository"),
            ("oci://evil:5000/a/b:1", |_| (), "another repository"),
            ("../b", |_| (), "none of"),
            (
                "oci://localhost:5000/a/b:1",
                |one| one.name = "../x".to_owned(),
                "no component's name",
            ),
            ("oci://localhost:5000/a/b:1", |one| one.digest = "00".to_owned(), "a digest is"),
            (
                "oci://localhost:5000/a/b:1",
                |one| one.document = Some("x".to_owned()),
                "a digest is",
            ),
            (
                "oci://localhost:5000/a/b:1",
                |one| one.source = "https://x.example/".to_owned(),
                "another repository",
            ),
        ] {
            let mut one = locked();
            change(&mut one);
            let lock = Lock { components: BTreeMap::from([(reference.to_owned(), one)]) };
            let error = Lock::read(lock.write().unwrap().as_bytes()).unwrap_err();
            assert!(error.contains(says), "{reference}: {error}");
        }
        for text in ["", "version: 2\ncomponents: {}", "version: 1\ncomponents: {}\nmore: 1", "[]"]
        {
            assert!(Lock::read(text.as_bytes()).is_err(), "{text}");
        }
        assert_eq!(Lock::read(b"version: 1\ncomponents: {}"), Ok(Lock::default()));
    }
}
