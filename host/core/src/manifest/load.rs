//! From paths to a [`Manifest`]: reading, resolving, cross-checking.

mod build;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};

use super::claw::KEYS;
use super::documents::{DirEntry, Documents, OneDocument};
use super::entry::{Resolved, Slot};
use super::keywords::{self, Misspelt};
use super::node::{self, Node, Place};
use super::primitive::{Document, from_envelope, read_document};
use super::problem::{DocumentError, Problems, why};
use super::profile::Profile;
use super::refs::{self, Known};
use super::remote::{Remote, is_meant};
use super::sandbox::tidy;
use super::tool::{self, ToolBinding};
use super::versions::Versions;
use super::{Manifest, memory};
use crate::limits::DOCUMENTS_MAX;
use crate::uri::Kind;

/// What documents are loaded into.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The current directory, absolute: relative paths of relative documents end up below it.
    pub directory: &'a Path,
    /// The profiles that come with the host.
    pub profiles: &'a BTreeMap<String, Profile>,
}

/// The policy of a Claw that the host supplies, as the document it is.
///
/// It stands in only where no Policy document was given: a policy of the user's own keeps the
/// protocol's default, which is to deny.
pub const HOST_SUPPLIED_POLICY: &str = r#"claw: "0.3.0"
kind: Policy
metadata:
  name: host-supplied
spec:
  rules:
    - id: allow-all
      action: allow
      scope: all
      reason: no manifest was given, so every tool may be called within its sandbox
"#;

/// A runtime file beside the documents is not one of them.
const RUNTIME_FILE_STEM: &str = "clawhost";

/// Loads documents: each path is a Claw manifest, another CKP document, or a directory of them
/// (its `.yaml`, `.yml` and `.json` files, not its subdirectories, not `clawhost.*`).
///
/// # Errors
/// Every problem of every document.
pub fn load(
    docs: &dyn Documents,
    paths: &[PathBuf],
    around: Surroundings<'_>,
) -> Result<Manifest, Vec<DocumentError>> {
    Loader::new(docs, around).load(paths)
}

/// Loads a document that came over a wire: no entry of it may have a form that reads files of this
/// host, and no reference may be an alias, which never travels (CKP 0.3.0, section 7). `versions`
/// are those of what it may name of this host.
pub(crate) fn load_sent(
    root: &Node,
    around: Surroundings<'_>,
    versions: Versions,
) -> Result<Manifest, Vec<DocumentError>> {
    let nothing = OneDocument(Vec::new());
    let mut loader = Loader::new(&nothing, around);
    loader.known.wire = true;
    loader.known.versions = versions;
    let file = Path::new("manifest");
    let read = from_envelope(root, Path::new(""), &mut loader.problems);
    read.into_iter().for_each(|of| loader.add(file, of));
    loader.resolve();
    loader.finish()
}

/// Reads one Tool document with a manifest's names known.
pub(crate) fn sidecar(
    manifest: &Manifest,
    file: &Path,
    bytes: &[u8],
) -> Result<ToolBinding, Vec<DocumentError>> {
    let mut problems = Problems::default();
    let of = read_document(file, bytes, &mut problems);
    let binding = of.filter(|of| is_of_component(of, &mut problems)).and_then(|of| {
        let mut known = Known::default();
        known.add_all(Kind::Sandbox, manifest.profiles.keys());
        known.versions = manifest.versions.clone();
        manifest.fetched.iter().for_each(|of| known.settle(of.kind, &of.uri));
        let policies = manifest.policies.policies().iter();
        known.add_all(Kind::Policy, policies.map(|policy| &policy.name));
        refs::check(&of, &known, &mut problems);
        let default = manifest.default_profile_name();
        let notes: Vec<String> = keywords::misspelt(&of).iter().map(Misspelt::note).collect();
        of.sound.then(|| ToolBinding { notes, ..tool::read(&of, default) })
    });
    problems.finish(binding)
}

/// Says whether a document may lie beside a component; otherwise that is reported.
fn is_of_component(of: &Document, problems: &mut Problems) -> bool {
    if !of.is(Kind::Tool) {
        let reason = format!("{} document lies beside a component", of.what());
        let help = "what lies beside a component is its `kind: Tool` document";
        problems.invalid(&Place::start(&of.at.source), reason, help);
        return false;
    }
    if let Some(source) = of.spec.get(&["mcp_source"]) {
        let reason = "`mcp_source` in the document of a component";
        let help = "take it out, or put the document into the manifest";
        problems.invalid(&source.at, reason, help);
        return false;
    }
    true
}

/// Returns the name of the tool that a document lying beside a component is about, and the document
/// as JSON without what binds the tool to a profile and a policy.
///
/// # Errors
/// Every problem of the document.
pub fn unbound(
    file: &Path,
    bytes: &[u8],
) -> Result<(String, serde_json::Value), Vec<DocumentError>> {
    let mut problems = Problems::default();
    let mut root = node::parse(file, bytes).map_err(|problem| vec![*problem])?;
    root.without(&["spec", "sandbox_ref"]);
    root.without(&["spec", "policy_ref"]);
    let of = from_envelope(&root, Path::new(""), &mut problems);
    let of = of.filter(|of| is_of_component(of, &mut problems) && of.sound);
    problems.finish(of.map(|of| (of.name, root.to_json())))
}

pub(crate) struct Loader<'a> {
    pub(crate) docs: &'a dyn Documents,
    pub(crate) around: Surroundings<'a>,
    pub(crate) problems: Problems,
    claw: Option<Document>,
    /// Documents named on the way in that no entry has taken yet, by their file.
    pub(crate) loose: Vec<(PathBuf, Document)>,
    /// Files that were read, so that a file named twice is one document, and the entries that
    /// name them.
    pub(crate) files: BTreeMap<PathBuf, Option<Place>>,
    pub(crate) known: Known,
    pub(crate) primitives: Vec<Document>,
    pub(crate) remote: Remote,
    default_profile: Option<String>,
}

impl<'a> Loader<'a> {
    fn new(docs: &'a dyn Documents, around: Surroundings<'a>) -> Self {
        let mut known = Known::default();
        known.add_all(Kind::Sandbox, around.profiles.keys());
        Self {
            docs,
            around,
            problems: Problems::default(),
            claw: None,
            loose: Vec::new(),
            files: BTreeMap::new(),
            known,
            primitives: Vec::new(),
            remote: Remote::default(),
            default_profile: None,
        }
    }

    fn load(mut self, paths: &[PathBuf]) -> Result<Manifest, Vec<DocumentError>> {
        for path in paths {
            self.read_path(path);
        }
        self.resolve();
        self.finish()
    }

    fn read_path(&mut self, path: &Path) {
        if !self.docs.is_directory(path) {
            return self.read_loose(path);
        }
        match self.docs.list(path) {
            Ok(entries) => self.read_directory(path, entries),
            Err(error) => self.unreadable(path, &error),
        }
    }

    /// A directory without a document is a mistake, not an empty manifest.
    fn read_directory(&mut self, path: &Path, mut entries: Vec<DirEntry>) {
        entries.retain(|entry| !entry.is_directory && is_document(&entry.name.to_string_lossy()));
        entries.sort();
        entries.iter().for_each(|file| self.read_loose(&path.join(&file.name)));
        if entries.is_empty() {
            let help = Some("name a directory that holds .yaml, .yml or .json documents");
            self.problems.push(DocumentError::whole_file(
                path,
                "the directory holds no document",
                help,
            ));
        }
    }

    fn read_loose(&mut self, file: &Path) {
        if self.files.contains_key(&self.key(file)) {
            return;
        }
        match self.docs.read(file) {
            Ok(bytes) => {
                let read = self.parse(file, &bytes);
                read.into_iter().for_each(|of| self.add(file, of));
            }
            Err(error) => self.unreadable(file, &error),
        }
    }

    /// Adds a document that was named on the way in.
    fn add(&mut self, file: &Path, of: Document) {
        let Some(first) = self.claw.as_ref().filter(|_| of.kind.is_none()) else {
            match of.kind {
                None => self.claw = Some(of),
                Some(_) => self.loose.push((self.key(file), of)),
            }
            return;
        };
        let reason = format!("a second Claw: the first is {}", first.at);
        self.problems.invalid(&of.at, reason, "run one Claw at a time");
    }

    /// Parses what was read from a file.
    pub(crate) fn parse(&mut self, file: &Path, bytes: &[u8]) -> Option<Document> {
        self.files.entry(self.key(file)).or_default();
        if self.files.len() > DOCUMENTS_MAX {
            let reason = format!("more than {DOCUMENTS_MAX} documents");
            self.problems.push(DocumentError::whole_file(file, reason, Some("load fewer")));
            return None;
        }
        read_document(file, bytes, &mut self.problems)
    }

    /// Returns one spelling for every spelling of a file's path that can be told without looking.
    pub(crate) fn key(&self, file: &Path) -> PathBuf {
        tidy(&self.around.directory.join(file))
    }

    fn unreadable(&mut self, path: &Path, error: &std::io::Error) {
        let (reason, help) = match path.to_str() {
            Some("-") => (
                "documents are not read from standard input".to_owned(),
                "write the document into a file, and name that",
            ),
            _ => (
                format!("the file or directory cannot be read: {}", why(error)),
                "name a CKP document or a directory of them",
            ),
        };
        self.problems.push(DocumentError::whole_file(path, reason, Some(help)));
    }

    fn resolve(&mut self) {
        if let Some(claw) = self.claw.take() {
            self.resolve_claw(&claw);
            self.claw = Some(claw);
        }
        for (_, primitive) in std::mem::take(&mut self.loose) {
            self.take(Resolved::Document(Box::new(primitive)));
        }
        self.follow_references();
        self.check_references();
        if self.claw.is_none() && !self.primitives.iter().any(|of| of.is(Kind::Policy)) {
            self.supply_policy();
        }
    }

    fn resolve_claw(&mut self, claw: &Document) {
        let mut found = VecDeque::new();
        for (key, kind, many) in KEYS {
            let Some(entry) = claw.spec.entry(key) else {
                continue;
            };
            let items = if many { entry.node.items() } else { std::slice::from_ref(&entry.node) };
            for (index, item) in items.iter().enumerate() {
                if self.problems.is_full() {
                    return;
                }
                for resolved in self.entry(Slot { claw, kind, many, index, item }) {
                    if kind == Kind::Sandbox {
                        self.default_profile = Some(resolved.name().to_owned());
                    }
                    found.push_back(resolved);
                }
            }
        }
        self.take_all(found);
    }

    /// Adds what the entries came to, in their order. Only now registries are asked: what any
    /// entry holds comes before what they have.
    fn take_all(&mut self, mut found: VecDeque<Resolved>) {
        while let Some(resolved) = found.pop_front() {
            let Resolved::Remote(wanted) = resolved else {
                self.take(resolved);
                continue;
            };
            let later =
                |of: &Resolved| matches!(of, Resolved::Document(of) if is_meant(of, &wanted));
            if found.iter().any(later) {
                self.known.settle(wanted.kind, &wanted.uri);
            } else if let Some(resolved) = self.listed(&wanted) {
                self.take(resolved);
            }
        }
    }

    fn supply_policy(&mut self) {
        let file = Path::new("host-supplied policy");
        let read = read_document(file, HOST_SUPPLIED_POLICY.as_bytes(), &mut self.problems);
        read.into_iter().for_each(|policy| self.take(Resolved::Document(Box::new(policy))));
    }

    /// Adds what an entry came to, unless its name is taken.
    pub(crate) fn take(&mut self, resolved: Resolved) {
        match resolved {
            // The host's own, or still to be asked for, which `take_all` does.
            Resolved::Profile(_) | Resolved::Remote(_) => {}
            Resolved::Document(of) => {
                self.known.declare(&of, &mut self.problems);
                self.primitives.push(*of);
            }
        }
    }

    fn check_references(&mut self) {
        self.known.every_tool = self.claw.is_none();
        memory::check_all(&self.primitives, &mut self.problems);
        for primitive in &self.primitives {
            refs::check(primitive, &self.known, &mut self.problems);
        }
        self.check_one(Kind::Identity, "an agent has one identity");
        self.check_one(Kind::Telemetry, "put all exporters into one document");
    }

    fn check_one(&mut self, kind: Kind, help: &str) {
        let mut all = self.primitives.iter().filter(|of| of.is(kind));
        let first = all.next();
        for second in all {
            let first = first.map(|of| of.at.to_string()).unwrap_or_default();
            let reason = format!("a second {kind}: the first is {first}");
            self.problems.invalid(&second.at, reason, help);
        }
    }
}

/// Files of JavaScript's tools, which lie in the folder of a tool that is written in it.
const FOREIGN: [&str; 3] = ["package-lock.json", "package.json", "tsconfig.json"];

fn is_document(name: &str) -> bool {
    let path = Path::new(name);
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    matches!(extension, "json" | "yaml" | "yml")
        && !name.starts_with('.')
        && !FOREIGN.contains(&name)
        && path.file_stem().is_none_or(|stem| stem != RUNTIME_FILE_STEM)
}
