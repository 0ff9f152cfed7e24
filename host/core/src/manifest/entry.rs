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
        ToolBinding {
            name: self.name.clone(),
            category: None,
            description: None,
            input_schema: None,
            output_schema: None,
            sandbox: name(&self.sandbox, Kind::Sandbox)
                .unwrap_or_else(|| default_profile.to_owned()),
            policy: name(&self.policy, Kind::Policy),
            annotations: serde_json::Map::new(),
            timeout: None,
            retry: None,
            registry: None,
            at: self.source.location(self.at),
        }
    }
}

const INLINE: Shape = Shape::Record(&[req("inline", &OBJECT), opt("metadata", &ANY)]);
const SHORT: Shape =
    Shape::Record(&[req("name", &TEXT), opt("sandbox", &TEXT), opt("policy", &TEXT)]);

const FORMS: &str = "write a path, a claw:// address, or `inline:` with the spec";
const SINGLE_FORMS: &str = "there is one at most: write a path, a claw:// address, or `inline:` with the spec, and no list";
const TOOL_FORMS: &str = "write a path, a claw:// address, `inline:` with the spec, or `name:` with `sandbox:` and `policy:`";

impl Loader<'_> {
    /// Resolves one entry; problems are reported.
    pub(crate) fn entry(
        &mut self,
        claw: &Claw,
        kind: Kind,
        many: bool,
        index: usize,
        item: &Node,
    ) -> Vec<Resolved> {
        match &item.value {
            Value::Text(text) if text.contains("://") => self.address(claw, kind, item, text),
            Value::Text(text) if glob::is_pattern(text) => {
                self.pattern(claw, kind, many, item, text)
            }
            Value::Text(text) if !text.is_empty() => self.file(claw, kind, item, text),
            Value::Map(_) if item.entry("inline").is_some() => {
                self.inline(claw, kind, many, index, item)
            }
            Value::Map(_) if item.entry("spec").is_some() => self.envelope(claw, kind, item),
            Value::Map(_) if kind == Kind::Tool && item.entry("name").is_some() => {
                self.short(claw, item)
            }
            _ => {
                let is = match &item.value {
                    Value::Text(_) => "an empty text",
                    Value::Map(_) => "a mapping without `inline` and without `spec`",
                    _ => item.describe(),
                };
                let reason = format!("an entry of the kind {kind} is {is}");
                let help = match (kind, many) {
                    (Kind::Tool, _) => TOOL_FORMS,
                    (_, true) => FORMS,
                    (_, false) => SINGLE_FORMS,
                };
                self.problems.invalid(&claw.source, item.at, reason, help);
                Vec::new()
            }
        }
    }

    fn address(&mut self, claw: &Claw, kind: Kind, item: &Node, text: &str) -> Vec<Resolved> {
        match ManifestUri::parse(text).map(ManifestUri::canonical) {
            Ok(ClawUri::Local(uri)) if uri.kind == kind => self.local(claw, item, uri),
            Ok(ClawUri::Local(uri)) => {
                let reason = format!("`{}` is a {}", shown(text), uri.kind);
                self.problems.invalid(
                    &claw.source,
                    item.at,
                    reason,
                    format!("a {kind} belongs here"),
                );
                Vec::new()
            }
            Ok(ClawUri::Registry(uri)) => {
                let source = claw.source.clone();
                vec![Resolved::Remote(Wanted { kind, uri, source, at: item.at })]
            }
            Err(error) => {
                let help = match ManifestUri::parse(&text.to_ascii_lowercase()) {
                    _ if text.starts_with("mcp://") => "mcp:// is reserved and never allowed",
                    Ok(_) => "write `claw://`, `local`, `registry` and the kind in lower case",
                    Err(_) => FORMS,
                };
                self.problems.invalid(&claw.source, item.at, error.to_string(), help);
                Vec::new()
            }
        }
    }

    fn local(&mut self, claw: &Claw, item: &Node, uri: LocalUri) -> Vec<Resolved> {
        let wanted = |of: &Primitive| of.kind == uri.kind && of.name == uri.name;
        if let Some(index) = self.loose.iter().position(|(_, of)| wanted(of)) {
            let (_, of) = self.loose.remove(index);
            self.check_version(claw, item, &uri, of.version.as_deref());
            return vec![Resolved::Primitive(Box::new(of))];
        }
        self.check_version(claw, item, &uri, None);
        let place = |name| ToolRef {
            name,
            source: claw.source.clone(),
            at: item.at,
            sandbox: None,
            policy: None,
        };
        match uri.kind {
            Kind::Tool => vec![Resolved::Tool(place(uri.name))],
            Kind::Sandbox if self.around.profiles.contains_key(&uri.name) => {
                vec![Resolved::Profile(uri.name)]
            }
            kind => {
                self.known.check(&claw.source, (&uri.name, item.at), kind, &mut self.problems);
                Vec::new()
            }
        }
    }

    fn check_version(&mut self, claw: &Claw, item: &Node, uri: &LocalUri, is: Option<&str>) {
        if let Some(wanted) = uri.version.as_deref().filter(|wanted| is != Some(*wanted)) {
            let what = is.map_or_else(|| "no version".to_owned(), |is| format!("version {is}"));
            let reason = format!("the {} `{}` has {what}, not {wanted}", uri.kind, uri.name);
            let help = "leave `@<version>` out, or give the document that version";
            self.problems.missing(&claw.source, item.at, reason, help);
        }
    }

    fn file(&mut self, claw: &Claw, kind: Kind, item: &Node, text: &str) -> Vec<Resolved> {
        self.document(claw, kind, item, &tidy(&claw.base.join(text))).into_iter().collect()
    }

    fn document(&mut self, claw: &Claw, kind: Kind, item: &Node, file: &Path) -> Option<Resolved> {
        let key = self.key(file);
        if let Some(index) = self.loose.iter().position(|(path, _)| *path == key) {
            let (_, of) = self.loose.remove(index);
            return self.wanted(claw, kind, item, of);
        }
        if self.files.contains(&key) {
            let reason = format!("`{}` is named twice", shown(&file.display().to_string()));
            self.problems.invalid(&claw.source, item.at, reason, "name each document once");
            return None;
        }
        let bytes = match self.docs.read(file) {
            Ok(bytes) => bytes,
            Err(error) => {
                let reason =
                    format!("`{}` cannot be read: {error}", shown(&file.display().to_string()));
                let help = "paths are relative to the manifest's own directory";
                self.problems.missing(&claw.source, item.at, reason, help);
                return None;
            }
        };
        match self.parse(file, &bytes)? {
            Document::Primitive(of) => self.wanted(claw, kind, item, of),
            Document::Claw(_) => {
                let reason = format!("`{}` is a Claw", shown(&file.display().to_string()));
                self.problems.invalid(
                    &claw.source,
                    item.at,
                    reason,
                    format!("a {kind} belongs here"),
                );
                None
            }
        }
    }

    fn wanted(&mut self, claw: &Claw, kind: Kind, item: &Node, of: Primitive) -> Option<Resolved> {
        if of.kind == kind {
            return Some(Resolved::Primitive(Box::new(of)));
        }
        let reason = format!("`{}` is a {}", of.source.file, of.kind);
        self.problems.invalid(&claw.source, item.at, reason, format!("a {kind} belongs here"));
        None
    }

    fn pattern(
        &mut self,
        claw: &Claw,
        kind: Kind,
        many: bool,
        item: &Node,
        text: &str,
    ) -> Vec<Resolved> {
        if !many || glob::leaves(text) {
            let reason = format!("the pattern `{}` is not allowed here", shown(text));
            let help = "a pattern stands in a list and stays inside the manifest's directory: no `..`, no leading `/`, only `*`, `?` and `**`";
            self.problems.invalid(&claw.source, item.at, reason, help);
            return Vec::new();
        }
        let files = glob::expand(self.docs, &claw.base, text);
        if files.is_empty() {
            let reason = format!("the pattern `{}` matches no file", shown(text));
            let help = "paths are relative to the manifest's own directory";
            self.problems.missing(&claw.source, item.at, reason, help);
        }
        let mut found = Vec::new();
        for file in &files {
            if self.docs.leaves(&claw.base, file) {
                let shown = shown(&file.display().to_string());
                let reason = format!("`{shown}` leads out of the manifest's directory");
                let help = "a pattern follows no link out of it: name the file by itself";
                self.problems.invalid(&claw.source, item.at, reason, help);
            } else {
                found.extend(self.document(claw, kind, item, file));
            }
        }
        found
    }

    fn inline(
        &mut self,
        claw: &Claw,
        kind: Kind,
        many: bool,
        index: usize,
        item: &Node,
    ) -> Vec<Resolved> {
        let before = self.problems.count();
        let fits = shape::check(&claw.source, item, &INLINE, kind.segment(), &mut self.problems);
        let Some(inline) = item.get(&["inline"]).filter(|_| fits) else {
            return Vec::new();
        };
        let metadata = read_inline_metadata(&claw.source, item, &mut self.problems);
        let (spec, given) = without_name(inline, many);
        let (name, at) = self.inline_name(claw, (kind, index), item, given, &metadata);
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
            sound: self.problems.count() == before,
        };
        of.check(&mut self.problems);
        vec![Resolved::Primitive(Box::new(of))]
    }

    /// The name inside `inline` wins, then the one of `metadata`, then a generated one.
    fn inline_name(
        &mut self,
        claw: &Claw,
        (kind, index): (Kind, usize),
        item: &Node,
        given: Option<&Node>,
        metadata: &Metadata,
    ) -> (String, Place) {
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

    fn envelope(&mut self, claw: &Claw, kind: Kind, item: &Node) -> Vec<Resolved> {
        match from_envelope(&claw.source, item, claw.base.clone(), &mut self.problems) {
            Some(Document::Primitive(of)) => {
                self.wanted(claw, kind, item, of).into_iter().collect()
            }
            Some(Document::Claw(_)) => {
                let help = format!("a {kind} belongs here");
                self.problems.invalid(&claw.source, item.at, "a Claw inside a Claw", help);
                Vec::new()
            }
            None => Vec::new(),
        }
    }

    fn short(&mut self, claw: &Claw, item: &Node) -> Vec<Resolved> {
        if !shape::check(&claw.source, item, &SHORT, "tools", &mut self.problems) {
            return Vec::new();
        }
        let reference = |key: &str| {
            item.get(&[key]).and_then(|node| Some((node.as_text()?.to_owned(), node.at)))
        };
        let Some((name, at)) = reference("name") else {
            return Vec::new();
        };
        check_name(&claw.source, &name, at, &mut self.problems);
        let (sandbox, policy) = (reference("sandbox"), reference("policy"));
        vec![Resolved::Tool(ToolRef { name, source: claw.source.clone(), at, sandbox, policy })]
    }
}

/// Takes the optional `name` of an inline array entry out of its spec.
fn without_name(inline: &Node, many: bool) -> (Node, Option<&Node>) {
    let Value::Map(entries) = &inline.value else {
        return (inline.clone(), None);
    };
    if !many {
        return (inline.clone(), None);
    }
    let rest = entries.iter().filter(|entry| entry.key != "name").cloned().collect();
    let name = inline.get(&["name"]);
    (Node { at: inline.at, value: Value::Map(rest) }, name)
}
