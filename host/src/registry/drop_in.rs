//! The files of the drop-in directory: what is there, whether it changed, what became of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::SystemTime;

use cap_std::fs::{Dir, Metadata, MetadataExt as _};
use clawhost_core::limits::DROP_IN_FILES_MAX;
use clawhost_core::manifest::{DocumentError, ToolBinding};
use clawhost_core::package::SIGNATURE_ENDING;
use tokio_util::task::AbortOnDropHandle;

use super::bridge::Pins;
use super::needs;
use super::offer::Offer;
use crate::engine::LoadError;
use crate::regular;

/// One component file of the directory.
#[derive(Debug)]
pub(super) struct DropIn {
    pub(super) name: String,
    pub(super) print: Fingerprint,
    pub(super) status: Status,
    pub(super) load: Option<Load>,
}

/// What became of a file. One that changed keeps its status until it is loaded anew.
#[derive(Debug)]
pub(super) enum Status {
    /// It is being read and compiled for the first time.
    Loading,
    /// It is in service.
    Ready { offer: Offer, sidecars: Vec<ToolBinding> },
    /// It would be, once what it needs is accepted.
    Waiting { offer: Offer, sidecars: Vec<ToolBinding>, why: String },
    /// It cannot be used, and why.
    Failed(LoadError),
    /// Its documents are wrong: every problem of them.
    Wrong(Vec<DocumentError>),
}

/// A load under way. Dropping it ends it.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) _task: AbortOnDropHandle<()>,
    /// It only tries again what failed before: nothing new is to be expected.
    pub(super) is_retry: bool,
}

impl Status {
    /// Returns what it offers, served or not; nothing where that is not known.
    pub(super) fn offer(&self) -> Option<&Offer> {
        match self {
            Self::Ready { offer, .. } | Self::Waiting { offer, .. } => Some(offer),
            Self::Loading | Self::Failed(_) | Self::Wrong(_) => None,
        }
    }

    /// Returns what becomes of a loaded file, by what was accepted of its tools.
    pub(super) async fn accepted(pins: &Pins, offer: Offer, sidecars: Vec<ToolBinding>) -> Self {
        let tools = offer.tools.iter().map(|tool| tool.ckp_name.as_str());
        match needs::check(pins, tools, &offer.loaded.imports).await {
            Ok(None) => Self::Ready { offer, sidecars },
            Ok(Some(why)) => Self::Waiting { offer, sidecars, why },
            Err(error) => Self::Failed(LoadError::Passing(error)),
        }
    }
}

impl DropIn {
    /// Asks again whether what it needs is accepted, where it waits for that, or is served and that was forgotten. Says
    /// whether it is another way now.
    pub(super) async fn recheck(&mut self, pins: &Pins) -> bool {
        let (offer, sidecars, why) = match &self.status {
            Status::Ready { offer, sidecars } => (offer, sidecars, None),
            Status::Waiting { offer, sidecars, why } => (offer, sidecars, Some(why)),
            Status::Loading | Status::Failed(_) | Status::Wrong(_) => return false,
        };
        let tools = offer.tools.iter().map(|tool| tool.ckp_name.as_str());
        // Who cannot look now looks the next time; until then it is as it was.
        let due = needs::is_due(pins, tools, &offer.loaded.imports, why.is_some()).await;
        if !due.unwrap_or(false) {
            return false;
        }
        let now = Status::accepted(&pins.again(), offer.clone(), sidecars.clone()).await;
        let is_same = why
            .is_some_and(|why| matches!(&now, Status::Waiting { why: still, .. } if still == why));
        self.status = now;
        !is_same
    }

    /// Says whether what it is now is still being found out.
    pub(super) fn is_loading(&self) -> bool {
        self.load.as_ref().is_some_and(|load| !load.is_retry)
    }

    /// Says whether it failed for a reason that may have passed.
    pub(super) fn is_due_again(&self) -> bool {
        self.load.is_none() && matches!(self.status, Status::Failed(LoadError::Passing(_)))
    }
}

/// Everything whose change means reading a file, or one of its documents, again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Fingerprint(Vec<FileState>);

/// What is looked at of one file: it tells one state of it from another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FileState {
    name: String,
    /// Why it is not read at all.
    fault: Option<&'static str>,
    len: u64,
    inode: u64,
    modified: Option<SystemTime>,
    /// Seconds and nanoseconds. A tool can set the time of its modification, but not this.
    changed: (i64, i64),
}

/// What the directory holds at one moment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listing {
    /// The component files, each with what belongs to it.
    pub(super) components: BTreeMap<String, Fingerprint>,
    /// Documents that belong to no component.
    pub(super) strays: BTreeSet<String>,
}

/// Opens a directory, and reads it.
///
/// # Errors
/// As [`list`].
pub(super) fn open(path: &Path) -> std::io::Result<(Dir, Listing)> {
    let dir = Dir::open_ambient_dir(path, cap_std::ambient_authority())?;
    let listing = list(&dir)?;
    Ok((dir, listing))
}

/// Reads the directory: each component file with its `.yaml` documents and its signature.
///
/// # Errors
/// The directory cannot be read, or holds more than [`DROP_IN_FILES_MAX`] files.
pub(super) fn list(dir: &Dir) -> std::io::Result<Listing> {
    let mut files = BTreeMap::new();
    for entry in dir.entries()? {
        let entry = entry?;
        let whole = entry.file_name();
        let name = whole.to_string_lossy().into_owned();
        if name.starts_with('.') || entry.file_type()?.is_dir() {
            continue;
        }
        if files.len() >= DROP_IN_FILES_MAX {
            return Err(std::io::Error::other(format!(
                "the directory holds more than {DROP_IN_FILES_MAX} files"
            )));
        }
        let Ok(meta) = entry.metadata() else { continue };
        let mut facts = FileState::of(&name, &meta);
        facts.fault = facts.fault.or_else(|| whole.to_str().is_none().then_some(NO_TEXT));
        files.insert(name, facts);
    }
    Ok(listing(&files))
}

/// Gives each document to the components it belongs to.
fn listing(files: &BTreeMap<String, FileState>) -> Listing {
    let stems: BTreeSet<&str> = files.keys().filter_map(|name| stem(name)).collect();
    let mut now = Listing::default();
    let mut documents: BTreeMap<&str, Vec<FileState>> = BTreeMap::new();
    for (name, facts) in files.iter().filter(|(name, _)| is_document(name)) {
        match owner(name, &stems) {
            Some(stem) => documents.entry(stem).or_default().push(facts.clone()),
            None => drop(now.strays.insert(name.clone())),
        }
    }
    for (name, facts) in files {
        let Some(stem) = stem(name) else { continue };
        let signature = files.get(&format!("{name}{SIGNATURE_ENDING}"));
        let own = documents.get(stem).into_iter().flatten().chain(signature).cloned();
        let print = Fingerprint(std::iter::once(facts.clone()).chain(own).collect());
        now.components.insert(name.clone(), print);
    }
    now
}

impl FileState {
    pub(super) fn of(name: &str, meta: &Metadata) -> Self {
        Self {
            name: name.to_owned(),
            fault: (!meta.is_file()).then_some(IRREGULAR),
            len: meta.len(),
            inode: meta.ino(),
            modified: meta.modified().ok().map(cap_std::time::SystemTime::into_std),
            changed: (meta.ctime(), meta.ctime_nsec()),
        }
    }
}

impl Fingerprint {
    /// Says why the first of its files that is not read is not: a tool without its document would run under
    /// another profile.
    pub(super) fn fault(&self) -> Option<String> {
        self.0.iter().find_map(|facts| Some(format!("`{}` {}", facts.name, facts.fault?)))
    }

    /// Returns the names of the documents that belong to the component.
    pub(super) fn sidecars(&self) -> impl Iterator<Item = &str> {
        self.beside().filter(|name| !name.ends_with(SIGNATURE_ENDING))
    }

    /// Returns the name of the component's signature.
    pub(super) fn signature(&self) -> Option<&str> {
        self.beside().find(|name| name.ends_with(SIGNATURE_ENDING))
    }

    fn beside(&self) -> impl Iterator<Item = &str> {
        self.0.iter().skip(1).map(|facts| facts.name.as_str())
    }
}

/// Returns the stem of a component file's name, or none for any other file.
pub(super) fn stem(name: &str) -> Option<&str> {
    name.strip_suffix(".wasm").or_else(|| name.strip_suffix(".wat")).filter(|stem| !stem.is_empty())
}

/// Says whether a file is meant to be the document of a tool. Some are misnamed.
fn is_document(name: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|ending| name.ends_with(ending))
}

/// Returns the stem a document belongs to: `<stem>.yaml`, or `<stem>.<tool>.yaml` for one tool
/// of several. The longest stem that fits has it.
fn owner<'a>(document: &str, stems: &BTreeSet<&'a str>) -> Option<&'a str> {
    let mut rest = document.strip_suffix(".yaml")?;
    loop {
        if let Some(stem) = stems.get(rest) {
            return Some(stem);
        }
        (rest, _) = rest.rsplit_once('.')?;
    }
}

/// What is wrong with a link, a FIFO or a device: none of those is followed or opened.
const IRREGULAR: &str = "is no regular file: links are not followed here, copy the file itself";
/// What is wrong with a file that nothing in the host could name.
const NO_TEXT: &str = "has a name that is no UTF-8 text: rename it";

/// Says why a document that belongs to no component has no effect, and what would be right.
pub(super) const STRAY: &str = "it belongs to no component here and has no effect: the document of `<stem>.wasm` or \
     `<stem>.wat` is named `<stem>.yaml`, or `<stem>.<tool>.yaml` for one tool of several";

/// Reads a file of at most `bytes_max`.
///
/// # Errors
/// It cannot be read, or is over that.
pub(super) fn read(dir: &Dir, name: &str, bytes_max: u64) -> Result<Vec<u8>, LoadError> {
    let passing = |error: std::io::Error| {
        LoadError::Passing(format!("`{name}` cannot be read: {error}; it is tried again"))
    };
    let bytes = regular::read_in(dir, name, bytes_max).map_err(passing)?;
    if bytes.len() as u64 > bytes_max {
        return Err(LoadError::Unusable(format!("`{name}` is over {bytes_max} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;
    use std::time::Duration;

    use super::*;

    fn facts(name: &str) -> (String, FileState) {
        let facts = FileState {
            name: name.to_owned(),
            fault: None,
            len: 0,
            inode: 0,
            modified: None,
            changed: (0, 0),
        };
        (name.to_owned(), facts)
    }

    #[test]
    fn a_document_belongs_to_the_component_whose_stem_it_carries() {
        for (components, document, owner) in [
            ("a.wasm", "a.yaml", "a.wasm"),
            ("a.wat", "a.count.yaml", "a.wat"),
            ("a.wasm", "ab.yaml", ""),
            ("a.b.wasm", "a.b.yaml", "a.b.wasm"),
            ("a.wat a.b.wat", "a.b.yaml", "a.b.wat"),
            ("a.wat a.b.wat", "a.b.c.yaml", "a.b.wat"),
            ("a.wat a.b.wat", "a.c.yaml", "a.wat"),
            ("a.wasm", "b.yaml", ""),
            ("a.wasm", "a.yml", ""),
            ("a.wasm", "a.json", ""),
            ("a.txt", "a.yaml", ""),
            (".wasm", ".yaml", ""),
        ] {
            let names = components.split(' ').chain([document]);
            let now = listing(&names.map(facts).collect());
            let has = |print: &Fingerprint| print.sidecars().eq([document]);
            let found = now.components.iter().find(|(_, print)| has(print));
            assert_eq!(found.map_or("", |(name, _)| name), owner, "{components} {document}");
            assert_eq!(now.strays.contains(document), owner.is_empty(), "{document}");
        }
    }

    #[test]
    fn a_file_that_cannot_be_read_is_tried_again_and_one_that_is_too_large_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).unwrap();
        dir.write("large", b"four").unwrap();
        let file = |name: &str| DropIn {
            name: name.to_owned(),
            print: Fingerprint::default(),
            status: Status::Failed(read(&dir, name, 3).unwrap_err()),
            load: None,
        };
        assert!(file("gone").is_due_again());
        assert!(!file("large").is_due_again());
        assert_eq!(read(&dir, "large", 4).unwrap(), b"four");
    }

    #[test]
    fn a_file_is_not_read_that_is_none_or_is_called_by_no_text_and_it_is_said_why() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).unwrap();
        for name in [b"a.wat".as_slice(), b"b\xff.wat", b"c.wat", b"c.\xff.yaml"] {
            dir.write(OsStr::from_bytes(name), b"x").unwrap();
        }
        dir.symlink("a.wat", "d.wat").unwrap();
        let components = list(&dir).unwrap().components;
        let faults: Vec<Option<String>> = components.values().map(Fingerprint::fault).collect();
        let told = |name: &str, why: &str| Some(format!("`{name}` {why}"));
        let expected = [
            None,
            told("b\u{fffd}.wat", NO_TEXT),
            told("c.\u{fffd}.yaml", NO_TEXT),
            told("d.wat", IRREGULAR),
        ];
        assert_eq!(faults, expected);
    }

    #[test]
    fn a_fifo_in_the_place_of_a_file_is_not_waited_for_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).unwrap();
        let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(&dir, "fifo", fifo, mode, 0).unwrap();
        dir.write("file", b"four").unwrap();
        dir.symlink("file", "link").unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let is_passing = |name| matches!(read(&dir, name, 4), Err(LoadError::Passing(_)));
            sender.send((is_passing("link"), is_passing("fifo"))).unwrap();
        });
        assert_eq!(receiver.recv_timeout(Duration::from_secs(10)), Ok((true, true)));
    }
}
