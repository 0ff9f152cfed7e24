//! The envelope every document shares, and a document or inline entry taken out of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::node::{self, Node, Place};
use super::problem::{Problems, Report, Source};
use super::shape::{self, OBJECT, STRING, Shape, TEXT, opt, req, shown};
use super::{
    channel, claw, heartbeat, identity, memory, policy, provider, sandbox, skill, swarm, telemetry,
    tool, world_model,
};
use crate::uri::{Kind, RegistryUri, is_declared_name, is_version};

/// The protocol version that documents have to state.
pub(crate) const PROTOCOL_VERSION: &str = "0.3.0";

/// One primitive, wherever it was written.
#[derive(Debug)]
pub(crate) struct Primitive {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) category: Option<String>,
    pub(crate) source: Source,
    /// Where its name is given, or it begins.
    pub(crate) at: Place,
    /// The directory its relative paths start from.
    pub(crate) base: PathBuf,
    pub(crate) spec: Node,
    /// The address it was fetched from, where that was a registry.
    pub(crate) package: Option<RegistryUri>,
    /// Nothing was wrong with it: only then may its values be used.
    pub(crate) sound: bool,
}

/// The root document.
#[derive(Debug)]
pub(crate) struct Claw {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    /// Time between two heartbeats; nothing means none.
    pub(crate) heartbeat: Option<Duration>,
    pub(crate) source: Source,
    pub(crate) at: Place,
    pub(crate) base: PathBuf,
    pub(crate) spec: Node,
    pub(crate) sound: bool,
}

#[derive(Debug)]
pub(crate) enum Document {
    Claw(Claw),
    Primitive(Primitive),
}

/// What `metadata` says.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    pub(crate) name: Option<(String, Place)>,
    pub(crate) version: Option<String>,
    pub(crate) category: Option<String>,
}

const METADATA: Shape = Shape::OpenRecord(&[
    req("name", &TEXT),
    opt("version", &TEXT),
    opt("labels", &Shape::Dict(&STRING)),
    opt("annotations", &OBJECT),
]);

const INLINE_METADATA: Shape = Shape::OpenRecord(&[
    opt("name", &TEXT),
    opt("version", &TEXT),
    opt("labels", &Shape::Dict(&STRING)),
    opt("annotations", &OBJECT),
]);

const KINDS: Shape = Shape::OneOf(&[
    "Claw",
    "Channel",
    "Identity",
    "Memory",
    "Policy",
    "Provider",
    "Sandbox",
    "Skill",
    "Swarm",
    "Telemetry",
    "Tool",
    "WorldModel",
]);

const ENVELOPE: Shape = Shape::Record(&[
    req("claw", &Shape::OneOf(&[PROTOCOL_VERSION])),
    req("kind", &KINDS),
    req("metadata", &METADATA),
    req("spec", &OBJECT),
]);

/// Returns the closed table of a kind's `spec`.
pub(crate) const fn spec_shape(kind: Kind) -> &'static Shape {
    match kind {
        Kind::Channel => &channel::SPEC,
        Kind::Identity => &identity::SPEC,
        Kind::Memory => &memory::SPEC,
        Kind::Policy => &policy::SPEC,
        Kind::Provider => &provider::SPEC,
        Kind::Sandbox => &sandbox::SPEC,
        Kind::Skill => &skill::SPEC,
        Kind::Swarm => &swarm::SPEC,
        Kind::Telemetry => &telemetry::SPEC,
        Kind::Tool => &tool::SPEC,
        Kind::WorldModel => &world_model::SPEC,
    }
}

/// Reads one file; nothing where it is beyond use. Problems are reported either way.
pub(crate) fn read_document(
    file: &Path,
    bytes: &[u8],
    problems: &mut Problems,
) -> Option<Document> {
    match node::parse(file, bytes) {
        Ok((source, node)) => {
            let base = file.parent().unwrap_or_else(|| Path::new("")).to_path_buf();
            from_envelope(&source, &node, base, problems)
        }
        Err(problem) => {
            problems.push(*problem);
            None
        }
    }
}

/// Takes a whole envelope apart, be it a file's root or a manifest's entry.
pub(crate) fn from_envelope(
    source: &Source,
    root: &Node,
    base: PathBuf,
    problems: &mut Problems,
) -> Option<Document> {
    let before = problems.count();
    shape::check(&mut problems.of(source), root, &ENVELOPE, "");
    let metadata = read_metadata(source, root, problems);
    let kind = root.get(&["kind"])?;
    let spec = root.get(&["spec"])?.clone();
    let (name, at) = metadata.name.unwrap_or_else(|| (String::new(), root.at));
    let heartbeat = heartbeat::read(root, &mut problems.of(source));
    let sound = problems.none_since(before);
    if kind.as_text() == Some("Claw") {
        let sound = shape::check(&mut problems.of(source), &spec, &claw::SPEC, "spec") && sound;
        let version = metadata.version;
        return Some(Document::Claw(Claw {
            name,
            version,
            heartbeat,
            source: source.clone(),
            at,
            base,
            spec,
            sound,
        }));
    }
    let kind = Kind::from_document(kind.as_text()?)?;
    let mut primitive = Primitive {
        kind,
        name,
        version: metadata.version,
        category: metadata.category,
        source: source.clone(),
        at,
        base,
        spec,
        package: None,
        sound,
    };
    primitive.check(problems);
    Some(Document::Primitive(primitive))
}

impl Primitive {
    /// Checks `spec`: its shape, and if that is right what the shape cannot say.
    pub(crate) fn check(&mut self, problems: &mut Problems) {
        let before = problems.count();
        if shape::check(&mut problems.of(&self.source), &self.spec, spec_shape(self.kind), "spec") {
            self.check_meaning(&mut problems.of(&self.source));
        }
        self.sound = self.sound && problems.none_since(before);
    }

    fn check_meaning(&self, report: &mut Report<'_>) {
        match self.kind {
            Kind::Channel => channel::check(&self.spec, report),
            Kind::Policy => policy::check(self, report),
            Kind::Provider => provider::check(&self.spec, report),
            Kind::Sandbox => sandbox::check(&self.spec, report),
            Kind::Telemetry => telemetry::check(&self.spec, report),
            Kind::Tool => tool::check(&self.spec, report),
            Kind::Swarm => swarm::check(self, report),
            Kind::Memory => memory::check(self, report),
            Kind::Identity | Kind::Skill | Kind::WorldModel => {}
        }
    }
}

/// Reads an envelope's `metadata`; its shape is checked with the envelope's.
fn read_metadata(source: &Source, root: &Node, problems: &mut Problems) -> Metadata {
    root.get(&["metadata"]).map(|node| metadata_of(source, node, problems)).unwrap_or_default()
}

/// Reads the `metadata` that may stand beside `inline`.
pub(crate) fn read_inline_metadata(
    source: &Source,
    entry: &Node,
    problems: &mut Problems,
) -> Metadata {
    let Some(node) = entry.get(&["metadata"]) else {
        return Metadata::default();
    };
    shape::check(&mut problems.of(source), node, &INLINE_METADATA, "metadata");
    metadata_of(source, node, problems)
}

fn metadata_of(source: &Source, node: &Node, problems: &mut Problems) -> Metadata {
    let name = node.get(&["name"]).and_then(|name| Some((name.as_text()?.to_owned(), name.at)));
    if let Some((text, at)) = &name {
        check_name(source, text, *at, problems);
    }
    if let Some(version) = node.get(&["version"]) {
        let text = version.as_text().unwrap_or("0.0.0");
        if !is_version(text) {
            let reason = format!("`metadata.version` is `{}`", shown(text));
            problems.invalid(
                source,
                version.at,
                reason,
                "write <major>.<minor>.<patch>, for example 1.2.0",
            );
        }
    }
    Metadata {
        name,
        version: node.text(&["version"]).map(str::to_owned),
        category: node.text(&["labels", "category"]).map(str::to_owned),
    }
}

/// Reports a name that may not be declared.
pub(crate) fn check_name(source: &Source, text: &str, at: Place, problems: &mut Problems) {
    if !is_declared_name(text) {
        let reason = format!("the name `{}` is not allowed", shown(text));
        let help = "1 to 63 letters, digits and hyphens, the first a letter or digit: `read-file`, not `read_file`";
        problems.invalid(source, at, reason, help);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_envelope_knows_every_kind() {
        let Shape::OneOf(kinds) = KINDS else { panic!() };
        assert_eq!(kinds.len(), Kind::ALL.len() + 1);
        assert!(Kind::ALL.iter().all(|kind| kinds.contains(&kind.document())));
    }
}
