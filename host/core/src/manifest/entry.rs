//! One entry of a Claw: a path, a pattern of paths, an address, an inline spec, a whole
//! envelope, or for tools the short form `{name, sandbox, policy}`.

mod inline;

use std::path::Path;

use super::claw::key_of;
use super::glob;
use super::kinds::{SHORT_TOOL, spec_shape};
use super::load::Loader;
use super::node::{Entry, Node, Place, Value};
use super::primitive::{Document, a, check_name, from_envelope};
use super::problem::why;
use super::refs::wrong_address;
use super::remote::Wanted;
use super::sandbox::tidy;
use super::shape::{self, Shape, expected, shown};
use crate::uri::{ClawUri, Kind, LocalUri, ManifestUri, is_name};

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

    /// Returns what an entry of this kind can be.
    fn forms(&self) -> String {
        let forms = expected(&Shape::Entry(self.kind), "");
        match self.kind {
            Kind::Tool => format!("write {forms}, or `name:` with `sandbox:` and `policy:`"),
            _ => format!("write {forms}"),
        }
    }

    fn document(&self, (name, at): (String, Place), spec: Node) -> Document {
        let Slot { claw, kind, .. } = self;
        let (kind, source, base) = (Some(*kind), claw.source.clone(), claw.base.clone());
        Document { kind, name, source, at, base, spec, sound: true, ..Document::default() }
    }

    /// Returns a tool that the host has to have: built in, or dropped in.
    fn tool(&self, name: String, at: Place, references: Vec<Entry>) -> Resolved {
        let spec = Node { at, value: Value::Map(references) };
        Resolved::Document(Box::new(self.document((name, at), spec)))
    }
}

impl Loader<'_> {
    /// Resolves one entry; problems are reported.
    pub(crate) fn entry(&mut self, slot: Slot<'_>) -> Vec<Resolved> {
        let item = slot.item;
        let keys = shape::keys(spec_shape(slot.kind));
        let spec_key = item.entries().iter().find(|entry| keys.contains(&entry.key.as_str()));
        let one = match &item.value {
            Value::Text(text) if self.known.wire && !is_registry(text) => {
                self.unsendable(slot, text);
                None
            }
            Value::Text(text) if text.contains("://") || text.starts_with("claw:") => {
                self.address(slot, text)
            }
            Value::Text(text) if glob::is_pattern(text) => return self.pattern(slot, text),
            Value::Text(text) if !text.is_empty() => self.file(slot, text),
            Value::Map(_) if item.entry("inline").is_some() => self.inline(slot),
            Value::Map(_) if item.entry("spec").is_some() => self.envelope(slot),
            Value::Map(_)
                if slot.kind == Kind::Tool
                    && spec_key.is_none()
                    && item.entry("name").is_some() =>
            {
                self.short(slot)
            }
            _ => {
                self.formless(slot, spec_key);
                None
            }
        };
        one.into_iter().collect()
    }

    /// Refuses what has none of the forms of an entry.
    fn formless(&mut self, slot: Slot<'_>, spec_key: Option<&Entry>) {
        let path = slot.path();
        let (reason, help) = match (&slot.item.value, spec_key) {
            (_, Some(Entry { key, .. })) => (
                format!("`{path}` holds the spec itself"),
                format!("put it under `inline:`, as in `inline: {{ {key}: … }}`"),
            ),
            (Value::Text(_), _) => (format!("`{path}` is an empty text"), slot.forms()),
            (Value::Map(_), _) => {
                let reason = format!("`{path}` is a mapping without `inline` and without `spec`");
                (reason, slot.forms())
            }
            (Value::List(_), _) if !slot.many => (
                format!("`{path}` is a list"),
                format!("there is one {} at most: {}", slot.kind, slot.forms()),
            ),
            _ => (format!("`{path}` is {}", slot.item.describe()), slot.forms()),
        };
        self.refuse(slot, reason, &help);
    }

    fn refuse(&mut self, slot: Slot<'_>, reason: impl Into<String>, help: &str) {
        self.problems.invalid(&slot.claw.source, slot.item.at, reason, help);
    }

    fn missing(&mut self, slot: Slot<'_>, reason: impl Into<String>, help: &str) {
        self.problems.missing(&slot.claw.source, slot.item.at, reason, help);
    }

    /// Refuses something of another kind.
    fn misplaced(&mut self, slot: Slot<'_>, what: &str, is: Option<Kind>) {
        let reason = format!("{what} is {}", is.map_or_else(|| "a Claw".to_owned(), a));
        let mut help = format!("{} belongs here", a(slot.kind));
        if let Some(kind) = is {
            help.push_str(&format!("; {} belongs under `{}:`", a(kind), key_of(kind)));
        }
        self.refuse(slot, reason, &help);
    }

    /// Refuses what has no meaning on another machine.
    fn unsendable(&mut self, slot: Slot<'_>, text: &str) {
        let what = match ManifestUri::parse(text) {
            Ok(_) => "an address inside this host",
            Err(_) if text.contains("://") => "no address",
            Err(_) => "a file of another machine",
        };
        let reason = format!("`{}` is {what}", shown(text));
        let help = "write the entry inline";
        self.problems.unsendable(&slot.claw.source, slot.item.at, reason, help);
    }

    fn address(&mut self, slot: Slot<'_>, text: &str) -> Option<Resolved> {
        let kind = slot.kind;
        match ManifestUri::parse(text).map(ManifestUri::canonical) {
            Ok(ClawUri::Local(uri)) if uri.kind == kind => return self.local(slot, uri),
            Ok(ClawUri::Local(uri)) => {
                self.misplaced(slot, &format!("`{}`", shown(text)), Some(uri.kind));
            }
            Ok(ClawUri::Registry(uri)) => {
                let source = slot.claw.source.clone();
                return Some(Resolved::Remote(Wanted { kind, uri, source, at: slot.item.at }));
            }
            Err(error) => {
                let (reason, help) = wrong_address(text, &error, kind);
                self.refuse(slot, reason, &help);
            }
        }
        None
    }

    fn local(&mut self, slot: Slot<'_>, uri: LocalUri) -> Option<Resolved> {
        let wanted = |of: &Document| of.is(uri.kind) && of.name == uri.name;
        if let Some(index) = self.loose.iter().position(|(_, of)| wanted(of)) {
            let (_, of) = self.loose.remove(index);
            self.check_version(slot, &uri, of.version.as_deref());
            return Some(Resolved::Document(Box::new(of)));
        }
        self.check_version(slot, &uri, None);
        match uri.kind {
            Kind::Tool => Some(slot.tool(uri.name, slot.item.at, Vec::new())),
            Kind::Sandbox if self.around.profiles.contains_key(&uri.name) => {
                Some(Resolved::Profile(uri.name))
            }
            kind => {
                let reference = (uri.name.as_str(), slot.item.at);
                self.known.check(slot.claw, reference, kind, &mut self.problems);
                None
            }
        }
    }

    fn check_version(&mut self, slot: Slot<'_>, uri: &LocalUri, is: Option<&str>) {
        if let Some(wanted) = uri.version.as_deref().filter(|wanted| is != Some(*wanted)) {
            let what = is.map_or_else(|| "no version".to_owned(), |is| format!("version {is}"));
            let reason = format!("the {} `{}` has {what}, not {wanted}", uri.kind, uri.name);
            let help = format!("leave `@{wanted}` out, or give the document that version");
            self.missing(slot, reason, &help);
        }
    }

    /// Says where relative paths of a Claw start.
    fn start(&self, slot: Slot<'_>) -> String {
        let start = self.key(&slot.claw.base);
        format!(
            "relative paths start in the manifest's own directory, {}",
            shown(&start.to_string_lossy())
        )
    }

    fn file(&mut self, slot: Slot<'_>, text: &str) -> Option<Resolved> {
        let file = tidy(&slot.claw.base.join(text));
        let error = match self.document(slot, &file) {
            Ok(found) => return found,
            Err(error) => error,
        };
        let name = text.replace('_', "-");
        let help = match is_name(&name) {
            true => format!(
                "if you mean the {} of that name, write `claw://local/{}/{name}`; {}",
                slot.kind,
                slot.kind.segment(),
                self.start(slot)
            ),
            false => format!("write the path of a document; {}", self.start(slot)),
        };
        let file = shown(&file.display().to_string());
        self.missing(slot, format!("`{file}` cannot be read: {}", why(&error)), &help);
        None
    }

    fn document(&mut self, slot: Slot<'_>, file: &Path) -> std::io::Result<Option<Resolved>> {
        let key = self.key(file);
        if let Some(index) = self.loose.iter().position(|(path, _)| *path == key) {
            let (_, of) = self.loose.remove(index);
            return Ok(self.wanted(slot, of));
        }
        if self.files.contains(&key) {
            let name = shown(&file.display().to_string());
            let help = "name each document once: a pattern counts for every file that it matches";
            self.refuse(slot, format!("`{name}` is named twice"), help);
            return Ok(None);
        }
        let bytes = self.docs.read(file)?;
        Ok(self.parse(file, &bytes).and_then(|of| self.wanted(slot, of)))
    }

    fn wanted(&mut self, slot: Slot<'_>, of: Document) -> Option<Resolved> {
        if of.is(slot.kind) {
            return Some(Resolved::Document(Box::new(of)));
        }
        let what = match &of.source {
            source if *source == slot.claw.source => "this entry".to_owned(),
            source => format!("`{}`", source.file),
        };
        self.misplaced(slot, &what, of.kind);
        None
    }

    fn pattern(&mut self, slot: Slot<'_>, text: &str) -> Vec<Resolved> {
        let pattern = shown(text);
        if !slot.many {
            let reason = format!("`{pattern}` is a pattern, and one document belongs here");
            self.refuse(slot, reason, "write the path of one file, without `*`, `?` and `[`");
            return Vec::new();
        }
        if glob::leaves(text) {
            let reason =
                format!("the pattern `{pattern}` may lead out of the manifest's directory");
            let help = "leave out `..`, a leading `/`, `[` and `\\`: a pattern starts in the manifest's directory, stays inside and knows `*`, `?` and `**`";
            self.refuse(slot, reason, help);
            return Vec::new();
        }
        let base = &slot.claw.base;
        let files = glob::expand(self.docs, base, text);
        if files.is_empty() {
            let help = format!("mend the pattern, or take it out; {}", self.start(slot));
            self.missing(slot, format!("the pattern `{pattern}` matches no file"), &help);
        }
        files.iter().filter_map(|file| self.matched(slot, file)).collect()
    }

    fn matched(&mut self, slot: Slot<'_>, file: &Path) -> Option<Resolved> {
        let name = shown(&file.display().to_string());
        if self.docs.leaves(&slot.claw.base, file) {
            let reason = format!("`{name}` leads out of the manifest's directory");
            let help = "a pattern follows no link out of it: name the file by itself";
            self.refuse(slot, reason, help);
            return None;
        }
        self.document(slot, file).unwrap_or_else(|error| {
            let reason = format!("`{name}` cannot be read: {}", why(&error));
            self.missing(slot, reason, "make it readable, or write a pattern that leaves it out");
            None
        })
    }

    fn envelope(&mut self, slot: Slot<'_>) -> Option<Resolved> {
        let Slot { claw, item, .. } = slot;
        let of = from_envelope(&claw.source, item, &claw.base, &mut self.problems)?;
        self.wanted(slot, of)
    }

    fn short(&mut self, slot: Slot<'_>) -> Option<Resolved> {
        let Slot { claw, item, .. } = slot;
        if !shape::check(&mut self.problems.of(&claw.source), item, &SHORT_TOOL, &slot.path()) {
            return None;
        }
        let name = item.get(&["name"])?;
        let text = name.as_text()?.to_owned();
        check_name(&claw.source, &text, name.at, &mut self.problems);
        let reference = |key: &str| {
            let entry = item.entry(key)?.clone();
            Some(Entry { key: format!("{key}_ref"), ..entry })
        };
        let references = ["sandbox", "policy"].into_iter().filter_map(reference).collect();
        Some(slot.tool(text, name.at, references))
    }
}

/// Says whether a text leads to a registry: whether it can be had is for that to say.
fn is_registry(text: &str) -> bool {
    matches!(ManifestUri::parse(text), Ok(ManifestUri::Canonical(ClawUri::Registry(_))))
}
