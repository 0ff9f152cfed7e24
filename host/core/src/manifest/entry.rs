//! One entry of a Claw: a path, a pattern of paths, an address, an inline spec, a whole
//! envelope, or for tools the short form `{name, sandbox, policy}`.

use std::path::Path;

use super::glob;
use super::load::Loader;
use super::node::{Node, Place, Value};
use super::primitive::{
    Claw, Document, Metadata, Primitive, check_name, from_envelope, read_inline_metadata,
};
use super::problem::{Problems, Source};
use super::refs::{self, Known};
use super::remote::Wanted;
use super::sandbox::tidy;
use super::shape::{self, ANY, OBJECT, Shape, TEXT, opt, req, shown};
use super::tool::ToolBinding;
use crate::uri::{ClawUri, Kind, LocalUri, ManifestUri};

/// What an entry came to.
pub(crate) enum Resolved {
    Primitive(Box<Primitive>),
    /// A profile that comes with the host.
    Profile(String),
    /// What a registry may have to be asked for.
    Remote(Wanted),
    /// A tool the host has to have: built in, or dropped in.
    Tool(ToolRef),
}

impl Resolved {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Primitive(of) => &of.name,
            Self::Profile(name) => name,
            // What is fetched has to have the name of its address.
            Self::Remote(wanted) => &wanted.uri.name,
            Self::Tool(of) => &of.name,
        }
    }
}

/// A tool that is named but not described.
pub(crate) struct ToolRef {
    pub(crate) name: String,
    pub(crate) source: Source,
    pub(crate) at: Place,
    sandbox: Option<(String, Place)>,
    policy: Option<(String, Place)>,
}

impl ToolRef {
    pub(crate) fn check(&self, known: &Known, problems: &mut Problems) {
        let references = [(&self.sandbox, Kind::Sandbox), (&self.policy, Kind::Policy)];
        for (reference, kind) in references {
            if let Some((text, at)) = reference {
                known.check(&self.source, (text, *at), kind, problems);
            }
        }
    }

    /// Returns which of its references lead to registries.
    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        let references = [(&self.sandbox, Kind::Sandbox), (&self.policy, Kind::Policy)];
        let wanted = references.into_iter().filter_map(|(reference, kind)| {
            let (text, at) = reference.as_ref()?;
            refs::registry(text, kind, &self.source, *at)
        });
        wanted.collect()
    }

    pub(crate) fn bind(&self, default_profile: &str) -> ToolBinding {
        let name = |reference: &Option<(String, Place)>, kind| {
            reference.as_ref().and_then(|(text, _)| refs::local_name(text, kind))
        };
        let sandbox = name(&self.sandbox, Kind::Sandbox);
        ToolBinding {
            name: self.name.clone(),
            sandbox: sandbox.unwrap_or_else(|| default_profile.to_owned()),
            policy: name(&self.policy, Kind::Policy),
            at: self.source.location(self.at),
            ..ToolBinding::default()
        }
    }
}

const INLINE: Shape = Shape::Record(&[req("inline", &OBJECT), opt("metadata", &ANY)]);
const SHORT: Shape =
    Shape::Record(&[req("name", &TEXT), opt("sandbox", &TEXT), opt("policy", &TEXT)]);

const RELATIVE: &str = "paths are relative to the manifest's own directory";
const FORMS: &str = "write a path, a claw:// address, or `inline:` with the spec";
const SINGLE_FORMS: &str = "there is one at most: write a path, a claw:// address, or `inline:` with the spec, and no list";
const TOOL_FORMS: &str = "write a path, a claw:// address, `inline:` with the spec, or `name:` with `sandbox:` and `policy:`";

/// One entry of a Claw, and where it stands.
#[derive(Clone, Copy)]
pub(crate) struct Slot<'a> {
    pub(crate) claw: &'a Claw,
    /// The kind that belongs there.
    pub(crate) kind: Kind,
    /// It stands in a list.
    pub(crate) many: bool,
    /// Its index in that list.
    pub(crate) index: usize,
    pub(crate) item: &'a Node,
}

impl Slot<'_> {
    fn forms(&self) -> &'static str {
        match (self.kind, self.many) {
            (Kind::Tool, _) => TOOL_FORMS,
            (_, true) => FORMS,
            (_, false) => SINGLE_FORMS,
        }
    }

    fn tool(&self, name: String) -> Resolved {
        let source = self.claw.source.clone();
        Resolved::Tool(ToolRef { name, source, at: self.item.at, sandbox: None, policy: None })
    }
}

impl Loader<'_> {
    /// Resolves one entry; problems are reported.
    pub(crate) fn entry(&mut self, slot: Slot<'_>) -> Vec<Resolved> {
        let item = slot.item;
        let one = match &item.value {
            Value::Text(text) if self.known.wire && !is_registry(text) => {
                self.unsendable(slot, text);
                None
            }
            Value::Text(text) if text.contains("://") => self.address(slot, text),
            Value::Text(text) if glob::is_pattern(text) => return self.pattern(slot, text),
            Value::Text(text) if !text.is_empty() => {
                self.document(slot, &tidy(&slot.claw.base.join(text)))
            }
            Value::Map(_) if item.entry("inline").is_some() => self.inline(slot),
            Value::Map(_) if item.entry("spec").is_some() => self.envelope(slot),
            Value::Map(_) if slot.kind == Kind::Tool && item.entry("name").is_some() => {
                self.short(slot)
            }
            _ => {
                let is = match &item.value {
                    Value::Text(_) => "an empty text",
                    Value::Map(_) => "a mapping without `inline` and without `spec`",
                    _ => item.describe(),
                };
                let reason = format!("an entry of the kind {} is {is}", slot.kind);
                self.refuse(slot, reason, slot.forms());
                None
            }
        };
        one.into_iter().collect()
    }

    fn refuse(&mut self, slot: Slot<'_>, reason: impl Into<String>, help: &str) {
        self.problems.invalid(&slot.claw.source, slot.item.at, reason, help);
    }

    fn missing(&mut self, slot: Slot<'_>, reason: impl Into<String>, help: &str) {
        self.problems.missing(&slot.claw.source, slot.item.at, reason, help);
    }

    /// Refuses something of another kind.
    fn misplaced(&mut self, slot: Slot<'_>, reason: impl Into<String>) {
        self.refuse(slot, reason, &format!("a {} belongs here", slot.kind));
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
                self.misplaced(slot, format!("`{}` is a {}", shown(text), uri.kind));
            }
            Ok(ClawUri::Registry(uri)) => {
                let source = slot.claw.source.clone();
                return Some(Resolved::Remote(Wanted { kind, uri, source, at: slot.item.at }));
            }
            Err(error) => {
                let help = match ManifestUri::parse(&text.to_ascii_lowercase()) {
                    _ if text.starts_with("mcp://") => "mcp:// is reserved and never allowed",
                    Ok(_) => "write `claw://`, `local`, `registry` and the kind in lower case",
                    Err(_) => FORMS,
                };
                self.refuse(slot, error.to_string(), help);
            }
        }
        None
    }

    fn local(&mut self, slot: Slot<'_>, uri: LocalUri) -> Option<Resolved> {
        let wanted = |of: &Primitive| of.kind == uri.kind && of.name == uri.name;
        if let Some(index) = self.loose.iter().position(|(_, of)| wanted(of)) {
            let (_, of) = self.loose.remove(index);
            self.check_version(slot, &uri, of.version.as_deref());
            return Some(Resolved::Primitive(Box::new(of)));
        }
        self.check_version(slot, &uri, None);
        match uri.kind {
            Kind::Tool => Some(slot.tool(uri.name)),
            Kind::Sandbox if self.around.profiles.contains_key(&uri.name) => {
                Some(Resolved::Profile(uri.name))
            }
            kind => {
                let reference = (uri.name.as_str(), slot.item.at);
                self.known.check(&slot.claw.source, reference, kind, &mut self.problems);
                None
            }
        }
    }

    fn check_version(&mut self, slot: Slot<'_>, uri: &LocalUri, is: Option<&str>) {
        if let Some(wanted) = uri.version.as_deref().filter(|wanted| is != Some(*wanted)) {
            let what = is.map_or_else(|| "no version".to_owned(), |is| format!("version {is}"));
            let reason = format!("the {} `{}` has {what}, not {wanted}", uri.kind, uri.name);
            self.missing(slot, reason, "leave `@<version>` out, or give the document that version");
        }
    }

    fn document(&mut self, slot: Slot<'_>, file: &Path) -> Option<Resolved> {
        let (key, name) = (self.key(file), shown(&file.display().to_string()));
        if let Some(index) = self.loose.iter().position(|(path, _)| *path == key) {
            let (_, of) = self.loose.remove(index);
            return self.wanted(slot, of);
        }
        if self.files.contains(&key) {
            self.refuse(slot, format!("`{name}` is named twice"), "name each document once");
            return None;
        }
        let bytes = match self.docs.read(file) {
            Ok(bytes) => bytes,
            Err(error) => {
                self.missing(slot, format!("`{name}` cannot be read: {error}"), RELATIVE);
                return None;
            }
        };
        match self.parse(file, &bytes)? {
            Document::Primitive(of) => self.wanted(slot, of),
            Document::Claw(_) => {
                self.misplaced(slot, format!("`{name}` is a Claw"));
                None
            }
        }
    }

    fn wanted(&mut self, slot: Slot<'_>, of: Primitive) -> Option<Resolved> {
        if of.kind == slot.kind {
            return Some(Resolved::Primitive(Box::new(of)));
        }
        self.misplaced(slot, format!("`{}` is a {}", of.source.file, of.kind));
        None
    }

    fn pattern(&mut self, slot: Slot<'_>, text: &str) -> Vec<Resolved> {
        if !slot.many || glob::leaves(text) {
            let reason = format!("the pattern `{}` is not allowed here", shown(text));
            let help = "a pattern stands in a list and stays inside the manifest's directory: no `..`, no leading `/`, only `*`, `?` and `**`";
            self.refuse(slot, reason, help);
            return Vec::new();
        }
        let base = &slot.claw.base;
        let files = glob::expand(self.docs, base, text);
        if files.is_empty() {
            let reason = format!("the pattern `{}` matches no file", shown(text));
            self.missing(slot, reason, RELATIVE);
        }
        let mut found = Vec::new();
        for file in &files {
            if self.docs.leaves(base, file) {
                let shown = shown(&file.display().to_string());
                let reason = format!("`{shown}` leads out of the manifest's directory");
                let help = "a pattern follows no link out of it: name the file by itself";
                self.refuse(slot, reason, help);
            } else {
                found.extend(self.document(slot, file));
            }
        }
        found
    }

    fn inline(&mut self, slot: Slot<'_>) -> Option<Resolved> {
        let Slot { claw, kind, item, .. } = slot;
        let before = self.problems.count();
        let mut report = self.problems.of(&claw.source);
        let fits = shape::check(&mut report, item, &INLINE, kind.segment());
        let inline = item.get(&["inline"]).filter(|_| fits)?;
        let metadata = read_inline_metadata(&claw.source, item, &mut self.problems);
        let (spec, given) = without_name(inline, slot.many);
        let (name, at) = self.inline_name(slot, given, &metadata);
        let mut of = Primitive {
            kind,
            name,
            version: metadata.version.or_else(|| claw.version.clone()),
            category: metadata.category,
            source: claw.source.clone(),
            at,
            base: claw.base.clone(),
            spec,
            package: None,
            sound: self.problems.none_since(before),
        };
        of.check(&mut self.problems);
        Some(Resolved::Primitive(Box::new(of)))
    }

    /// The name inside `inline` wins, then the one of `metadata`, then a generated one.
    fn inline_name(
        &mut self,
        slot: Slot<'_>,
        given: Option<&Node>,
        metadata: &Metadata,
    ) -> (String, Place) {
        let Slot { claw, kind, index, item, .. } = slot;
        if let Some(node) = given {
            let name = node.as_text().unwrap_or_default().to_owned();
            check_name(&claw.source, &name, node.at, &mut self.problems);
            return (name, node.at);
        }
        match &metadata.name {
            Some((name, at)) => (name.clone(), *at),
            None if kind == Kind::Identity => (claw.name.clone(), item.at),
            None => (format!("{}-{index}", kind.segment()), item.at),
        }
    }

    fn envelope(&mut self, slot: Slot<'_>) -> Option<Resolved> {
        let Slot { claw, item, .. } = slot;
        match from_envelope(&claw.source, item, claw.base.clone(), &mut self.problems)? {
            Document::Primitive(of) => self.wanted(slot, of),
            Document::Claw(_) => {
                self.misplaced(slot, "a Claw inside a Claw");
                None
            }
        }
    }

    fn short(&mut self, slot: Slot<'_>) -> Option<Resolved> {
        let Slot { claw, item, .. } = slot;
        if !shape::check(&mut self.problems.of(&claw.source), item, &SHORT, "tools") {
            return None;
        }
        let reference = |key: &str| {
            item.get(&[key]).and_then(|node| Some((node.as_text()?.to_owned(), node.at)))
        };
        let (name, at) = reference("name")?;
        check_name(&claw.source, &name, at, &mut self.problems);
        let (sandbox, policy) = (reference("sandbox"), reference("policy"));
        Some(Resolved::Tool(ToolRef { name, source: claw.source.clone(), at, sandbox, policy }))
    }
}

/// Says whether a text leads to a registry: whether it can be had is for that to say.
fn is_registry(text: &str) -> bool {
    matches!(ManifestUri::parse(text), Ok(ManifestUri::Canonical(ClawUri::Registry(_))))
}

/// Takes the optional `name` of an inline array entry out of its spec.
fn without_name(inline: &Node, many: bool) -> (Node, Option<&Node>) {
    let Value::Map(entries) = &inline.value else { return (inline.clone(), None) };
    if !many {
        return (inline.clone(), None);
    }
    let rest = entries.iter().filter(|entry| entry.key != "name").cloned().collect();
    let name = inline.get(&["name"]);
    (Node { at: inline.at, value: Value::Map(rest) }, name)
}
