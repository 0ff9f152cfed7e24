//! One entry of a Claw: a path, a pattern of paths, an address, an inline spec, a whole
//! envelope, or for tools the short form `{name, sandbox, policy}`.

mod inline;

use std::path::{Path, PathBuf};

use super::claw::key_of;
use super::glob;
use super::kinds::{SHORT_TOOL, spec_shape};
use super::load::Loader;
use super::node::{Entry, Node, Place, Value};
use super::primitive::{Document, a, from_envelope};
use super::problem::{DocumentError, INVALID_PARAMS, MANIFEST_INVALID, PRIMITIVE_NOT_FOUND, why};
use super::refs::{SENT_ALIAS, wrong_address};
use super::remote::Wanted;
use super::sandbox::tidy;
use super::shape::{self, Shape, expected, shown};
use super::versions::wrong_version;
use crate::uri::{ClawUri, Kind, LocalUri, ManifestUri, RegistryUri, is_name};

/// What an entry came to.
pub(crate) enum Resolved {
    Document(Box<Document>),
    /// A profile that comes with the host.
    Profile(String),
    /// What a registry may have to be asked for.
    Remote(Wanted),
}

impl Resolved {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Document(of) => &of.name,
            Self::Profile(name) => name,
            // What is fetched has to have the name of its address.
            Self::Remote(wanted) => &wanted.uri.name,
        }
    }
}

/// One entry of a Claw, and where it stands.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'a> {
    pub(crate) claw: &'a Document,
    /// The kind that belongs there.
    pub(crate) kind: Kind,
    /// It stands in a list.
    pub(crate) many: bool,
    /// Its index in that list.
    pub(crate) index: usize,
    pub(crate) item: &'a Node,
}

impl Slot<'_> {
    /// Says how it is reached, for messages.
    fn path(&self) -> String {
        let key = key_of(self.kind);
        if self.many { format!("spec.{key}[{}]", self.index) } else { format!("spec.{key}") }
    }

    fn wrong(&self, reason: impl Into<String>, help: impl Into<String>) -> Box<DocumentError> {
        Box::new(DocumentError::new(&self.item.at, MANIFEST_INVALID, reason, help))
    }

    fn missing(&self, reason: impl Into<String>, help: impl Into<String>) -> Box<DocumentError> {
        Box::new(self.item.at.missing(reason, help))
    }

    /// Says that it has none of the forms of an entry.
    fn formless(&self, spec_key: Option<&Entry>) -> Box<DocumentError> {
        let (path, forms) = (self.path(), expected(&Shape::Entry(self.kind), ""));
        let or_short = match self.kind {
            Kind::Tool => ", or `name:` with `sandbox:` and `policy:`",
            _ => "",
        };
        let forms = format!("write {forms}{or_short}");
        match (&self.item.value, spec_key) {
            (_, Some(Entry { key, .. })) => self.wrong(
                format!("`{path}` holds the spec itself"),
                format!("put it under `inline:`, as in `inline: {{ {key}: … }}`"),
            ),
            (Value::Text(_), _) => self.wrong(format!("`{path}` is an empty text"), forms),
            (Value::Map(_), _) => self
                .wrong(format!("`{path}` is a mapping without `inline` and without `spec`"), forms),
            (Value::List(_), _) if !self.many => self.wrong(
                format!("`{path}` is a list"),
                format!("there is one {} at most: {forms}", self.kind),
            ),
            _ => self.wrong(format!("`{path}` is {}", self.item.describe()), forms),
        }
    }

    /// Returns a document, if it is one of the kind that belongs there.
    fn wanted(&self, of: Document) -> Found {
        if of.is(self.kind) {
            return Ok(Some(Resolved::Document(Box::new(of))));
        }
        let what = match &of.at.source {
            source if *source == self.claw.at.source => "this entry".to_owned(),
            source => format!("`{}`", source.file),
        };
        Err(self.misplaced(&what, of.kind))
    }

    /// Says that something of another kind stands there.
    fn misplaced(&self, what: &str, is: Option<Kind>) -> Box<DocumentError> {
        let belongs = |kind| format!("; {} belongs under `{}:`", a(kind), key_of(kind));
        let (wanted, segment) = (a(self.kind), self.kind.segment());
        let help = format!(
            "write the path of {wanted} or `claw://local/{segment}/<name>` here{}",
            is.map(belongs).unwrap_or_default()
        );
        self.wrong(format!("{what} is {}", is.map_or_else(|| "a Claw".to_owned(), a)), help)
    }

    /// Says that it has no meaning on another machine, or nothing to offer to it.
    fn unsendable(&self, text: &str) -> Box<DocumentError> {
        let (code, reason) = match ManifestUri::parse(text) {
            Ok(ManifestUri::Alias(_)) => (INVALID_PARAMS, SENT_ALIAS.to_owned()),
            // It may travel, so that the form is right.
            Ok(ManifestUri::Canonical(_)) => (
                PRIMITIVE_NOT_FOUND,
                format!("`{}` is nothing that a session may list here", shown(text)),
            ),
            Err(_) if text.contains("://") => {
                (INVALID_PARAMS, format!("`{}` is no address", shown(text)))
            }
            Err(_) => (INVALID_PARAMS, format!("`{}` is a file of another machine", shown(text))),
        };
        let mut help = "write the entry inline".to_owned();
        if is_lent(self.kind) {
            let segment = self.kind.segment();
            help += &format!(", or `claw://local/{segment}/<name>` for one of this host");
        }
        Box::new(DocumentError::new(&self.item.at, code, reason, help))
    }

    fn document(&self, (name, at): (String, Place), spec: Node) -> Document {
        let Slot { claw, kind, .. } = self;
        let (kind, base) = (Some(*kind), claw.base.clone());
        Document { kind, name, at, base, spec, sound: true, ..Document::default() }
    }

    /// Returns a tool that the host has to have: built in, or dropped in.
    fn tool(&self, name: String, at: Place, references: Vec<Entry>) -> Resolved {
        let spec = Node { at: at.clone(), value: Value::Map(references) };
        Resolved::Document(Box::new(self.document((name, at), spec)))
    }
}

/// What an entry came to, nothing where that was reported, or what is wrong with it.
pub(super) type Found = Result<Option<Resolved>, Box<DocumentError>>;

impl Loader<'_> {
    /// Resolves one entry; problems are reported.
    pub(crate) fn entry(&mut self, slot: Slot<'_>) -> Vec<Resolved> {
        let item = slot.item;
        let keys = shape::keys(spec_shape(slot.kind));
        let spec_key = item.entries().iter().find(|entry| keys.contains(&entry.key.as_str()));
        let is_named =
            slot.kind == Kind::Tool && spec_key.is_none() && item.entry("name").is_some();
        let found = match &item.value {
            Value::Text(text) if self.known.wire && !is_sendable(text, slot.kind) => {
                Err(slot.unsendable(text))
            }
            Value::Text(text) if text.contains("://") || text.starts_with("claw:") => {
                self.address(slot, text)
            }
            Value::Text(text) if glob::is_pattern(text) => match self.pattern(slot, text) {
                Ok(files) => {
                    return files.iter().filter_map(|file| self.matched(slot, file)).collect();
                }
                Err(problem) => Err(problem),
            },
            Value::Text(text) if !text.is_empty() => self.file(slot, text),
            Value::Map(_) if item.entry("inline").is_some() => self.inline(slot),
            Value::Map(_) if item.entry("spec").is_some() => self.envelope(slot),
            Value::Map(_) if is_named => Ok(self.short(slot)),
            _ => Err(slot.formless(spec_key)),
        };
        self.told(found).into_iter().collect()
    }

    fn told(&mut self, found: Found) -> Option<Resolved> {
        found.unwrap_or_else(|problem| {
            self.problems.push(*problem);
            None
        })
    }

    fn address(&mut self, slot: Slot<'_>, text: &str) -> Found {
        let kind = slot.kind;
        match ManifestUri::parse(text).map(ManifestUri::canonical) {
            Ok(ClawUri::Local(uri)) if uri.kind == kind => Ok(self.local(slot, uri)),
            Ok(ClawUri::Local(uri)) => {
                Err(slot.misplaced(&format!("`{}`", shown(text)), Some(uri.kind)))
            }
            Ok(ClawUri::Registry(uri)) if self.known.wire => self.held(slot, uri, text),
            Ok(ClawUri::Registry(uri)) => {
                Ok(Some(Resolved::Remote(Wanted { kind, uri, at: slot.item.at.clone() })))
            }
            Err(error) => {
                let (reason, help) = wrong_address(text, &error, kind);
                Err(slot.wrong(reason, help))
            }
        }
    }

    /// Nothing is fetched for a session: it may list what this host has that is meant by the address.
    fn held(&mut self, slot: Slot<'_>, uri: RegistryUri, text: &str) -> Found {
        let kind = slot.kind;
        if !is_lent(kind) || !self.known.versions.has_meant(kind, &uri) {
            return Err(slot.unsendable(text));
        }
        let RegistryUri { name, version, .. } = uri;
        Ok(self.local(slot, LocalUri { kind, name, version: Some(version) }))
    }

    fn local(&mut self, slot: Slot<'_>, uri: LocalUri) -> Option<Resolved> {
        let wanted = |of: &Document| of.is(uri.kind) && of.name == uri.name;
        if let Some(index) = self.loose.iter().position(|(_, of)| wanted(of)) {
            let (_, of) = self.loose.remove(index);
            self.check_version(slot, wrong_version(&uri, Some(of.version.as_deref())));
            return Some(Resolved::Document(Box::new(of)));
        }
        let wrong = wrong_version(&uri, self.known.versions.of(uri.kind, &uri.name));
        self.check_version(slot, wrong);
        match uri.kind {
            Kind::Tool => Some(slot.tool(uri.name, slot.item.at.clone(), Vec::new())),
            Kind::Sandbox if self.around.profiles.contains_key(&uri.name) => {
                Some(Resolved::Profile(uri.name))
            }
            kind => {
                let reference = (uri.name.as_str(), &slot.item.at);
                self.known.check_entry(slot.claw, reference, kind, &mut self.problems);
                None
            }
        }
    }

    /// Reports what is wrong with the version of an address.
    fn check_version(&mut self, slot: Slot<'_>, wrong: Option<(String, String)>) {
        if let Some((reason, help)) = wrong {
            self.problems.push(*slot.missing(reason, help));
        }
    }

    /// Says where relative paths of a Claw start.
    fn start(&self, slot: Slot<'_>) -> String {
        let start = shown(&self.key(&slot.claw.base).to_string_lossy());
        format!("relative paths start in the manifest's own directory, {start}")
    }

    fn file(&mut self, slot: Slot<'_>, text: &str) -> Found {
        let file = tidy(&slot.claw.base.join(text));
        let error = match self.document(slot, &file) {
            Ok(found) => return found,
            Err(error) => error,
        };
        let (kind, name, start) = (slot.kind, text.replace('_', "-"), self.start(slot));
        let help = match is_name(&name) {
            true => format!(
                "if you mean the {kind} of that name, write `claw://local/{}/{name}`; {start}",
                kind.segment()
            ),
            false => format!("write the path of a document; {start}"),
        };
        let file = shown(&file.display().to_string());
        Err(slot.missing(format!("`{file}` cannot be read: {}", why(&error)), help))
    }

    fn document(&mut self, slot: Slot<'_>, file: &Path) -> std::io::Result<Found> {
        let key = self.key(file);
        if let Some(index) = self.loose.iter().position(|(path, _)| *path == key) {
            let (_, of) = self.loose.remove(index);
            return Ok(slot.wanted(of));
        }
        if let Some(first) = self.files.get(&key) {
            let first = first.as_ref().map(|first| format!(": the first time is {first}"));
            let (name, first) = (shown(&file.display().to_string()), first.unwrap_or_default());
            let help = "name each document once: a pattern counts for every file that it matches";
            return Ok(Err(slot.wrong(format!("`{name}` is named twice{first}"), help)));
        }
        let bytes = self.docs.read(file)?;
        self.files.insert(key, Some(slot.item.at.clone()));
        Ok(self.parse(file, &bytes).map_or(Ok(None), |of| slot.wanted(of)))
    }

    fn pattern(&mut self, slot: Slot<'_>, text: &str) -> Result<Vec<PathBuf>, Box<DocumentError>> {
        let pattern = shown(text);
        if !slot.many {
            let reason = format!("`{pattern}` is a pattern, and one document belongs here");
            return Err(slot.wrong(reason, "write the path of one file, without `*`, `?` and `[`"));
        }
        if glob::leaves(text) {
            let reason =
                format!("the pattern `{pattern}` may lead out of the manifest's directory");
            let help = "name each file by its path, as in `../a.yaml`: a pattern starts in the manifest's directory, stays inside, and knows `*`, `?` and `**` and no `[` or `\\`";
            return Err(slot.wrong(reason, help));
        }
        let files = glob::expand(self.docs, &slot.claw.base, text);
        if files.is_empty() {
            let help = format!("mend the pattern, or take it out; {}", self.start(slot));
            return Err(slot.missing(format!("the pattern `{pattern}` matches no file"), help));
        }
        Ok(files)
    }

    fn matched(&mut self, slot: Slot<'_>, file: &Path) -> Option<Resolved> {
        let name = shown(&file.display().to_string());
        let found = if self.docs.leaves(&slot.claw.base, file) {
            let help = "a pattern follows no link out of it: name the file by itself";
            Err(slot.wrong(format!("`{name}` leads out of the manifest's directory"), help))
        } else {
            self.document(slot, file).unwrap_or_else(|error| {
                let help = "make it readable, or write a pattern that leaves it out";
                Err(slot.missing(format!("`{name}` cannot be read: {}", why(&error)), help))
            })
        };
        self.told(found)
    }

    fn envelope(&mut self, slot: Slot<'_>) -> Found {
        let of = from_envelope(slot.item, &slot.claw.base, &mut self.problems);
        of.map_or(Ok(None), |of| slot.wanted(of))
    }

    fn short(&mut self, slot: Slot<'_>) -> Option<Resolved> {
        let item = slot.item;
        if !shape::check(&mut self.problems, item, &SHORT_TOOL, &slot.path()) {
            return None;
        }
        let name = item.get(&["name"])?;
        let text = name.as_text()?.to_owned();
        let reference = |key: &str| {
            let entry = item.entry(key)?.clone();
            Some(Entry { key: format!("{key}_ref"), ..entry })
        };
        let references = ["sandbox", "policy"].into_iter().filter_map(reference).collect();
        Some(slot.tool(text, name.at.clone(), references))
    }
}

/// Says whether a session may list what this host has of a kind: all that it does then is narrow.
const fn is_lent(kind: Kind) -> bool {
    matches!(kind, Kind::Sandbox | Kind::Tool)
}

/// Says whether an entry for a `wanted` kind may be sent as `text`: a registry's address, which may be that of
/// something that this host has, or the address of what a session may list of this host.
fn is_sendable(text: &str, wanted: Kind) -> bool {
    match ClawUri::parse(text) {
        Ok(ClawUri::Registry(_)) => true,
        Ok(ClawUri::Local(uri)) => uri.kind == wanted && is_lent(wanted),
        Err(_) => false,
    }
}
