//! The envelope every document shares, and a document or inline entry taken out of it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::node::{self, Node, Place, Value, pasted};
use super::problem::{DocumentError, Problems};
use super::shape::{self, Shape, shown};
use super::{claw, kinds, memory, needs, policy, provider, sandbox, swarm, tool};
use crate::uri::{Kind, RegistryUri, is_version};

/// The protocol version that documents have to state.
pub(crate) const PROTOCOL_VERSION: &str = "0.3.0";

/// One document: a file, an entry of a Claw, or what a registry gave.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// Its kind; nothing where it is a Claw.
    pub(crate) kind: Option<Kind>,
    pub(crate) name: String,
    /// Its name was made up, as it has none.
    pub(crate) nameless: bool,
    pub(crate) version: Option<String>,
    pub(crate) category: Option<String>,
    /// Time between two heartbeats of a Claw; nothing means none.
    pub(crate) heartbeat: Option<Duration>,
    /// Where its name is given, or it begins.
    pub(crate) at: Place,
    /// The directory its relative paths start from.
    pub(crate) base: PathBuf,
    pub(crate) spec: Node,
    /// How its spec is reached, for messages.
    pub(crate) path: String,
    /// The address it was fetched from, where that was a registry.
    pub(crate) package: Option<RegistryUri>,
    /// Nothing was wrong with it: only then may its values be used.
    pub(crate) sound: bool,
}

/// What `metadata` says.
#[derive(Debug, Default)]
pub(crate) struct Metadata {
    pub(crate) name: Option<(String, Place)>,
    pub(crate) version: Option<String>,
    pub(crate) category: Option<String>,
}

/// Reads one file; nothing where it is beyond use. Problems are reported either way.
pub(crate) fn read_document(
    file: &Path,
    bytes: &[u8],
    problems: &mut Problems,
) -> Option<Document> {
    match node::parse(file, bytes) {
        Ok(node) => {
            let base = file.parent().unwrap_or_else(|| Path::new(""));
            from_envelope(&node, base, problems)
        }
        Err(problem) => {
            problems.push(*problem);
            None
        }
    }
}

/// What a document says that it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DocumentHead {
    /// Its kind; no Claw.
    pub kind: Kind,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.version`.
    pub version: Option<String>,
}

/// Says whether a document calls itself a Claw, whatever else may be wrong with it.
pub fn is_claw(document: &[u8]) -> bool {
    node::parse(Path::new(""), document).is_ok_and(|root| root.text(&["kind"]) == Some("Claw"))
}

/// Reads and checks one document by itself: its references are not followed.
///
/// # Errors
/// Every problem of the document; that it is a Claw, too, which is no primitive.
pub fn read_head(file: &Path, bytes: &[u8]) -> Result<DocumentHead, Vec<DocumentError>> {
    let mut problems = Problems::default();
    let head = read_document(file, bytes, &mut problems).and_then(|of| {
        let Some(kind) = of.kind else {
            let help = "one of the eleven kinds of primitive belongs here";
            problems.invalid(&of.at, "the document is a Claw", help);
            return None;
        };
        Some(DocumentHead { kind, name: of.name, version: of.version })
    });
    problems.finish(head)
}

/// Takes a whole envelope apart, be it a file's root or a manifest's entry.
pub(crate) fn from_envelope(root: &Node, base: &Path, problems: &mut Problems) -> Option<Document> {
    let before = problems.count();
    if let Some((at, reason, help)) = foreign(root) {
        problems.invalid(&at, reason, help);
        return None;
    }
    shape::check(problems, root, &kinds::ENVELOPE, "");
    let metadata = root.get(&["metadata"]).map(|node| metadata_of(node, problems));
    let metadata = metadata.unwrap_or_default();
    let kind = match root.text(&["kind"])? {
        "Claw" => None,
        other => Some(Kind::from_document(other)?),
    };
    let (name, at) = metadata.name.unwrap_or_else(|| (String::new(), root.at.clone()));
    let mut of = Document {
        kind,
        name,
        version: metadata.version,
        category: metadata.category,
        heartbeat: claw::heartbeat(root),
        at,
        base: base.to_owned(),
        // What is no mapping was reported with the envelope.
        spec: root.get(&["spec"]).filter(|spec| matches!(spec.value, Value::Map(_)))?.clone(),
        path: "spec".to_owned(),
        ..Document::default()
    };
    of.sound = problems.none_since(before);
    of.check(problems);
    Some(of)
}

const BEGINS: &str = "a CKP document begins with `claw: \"0.3.0\"`, `kind:` and `metadata:`";
const CLIENT: &str = "an MCP client's configuration";
const CLIENT_HELP: &str = "give the path of a CKP document, which begins with `claw:` and `kind:`; `clawhost import` makes documents of a client's configuration";

/// Keys of what is taken for a document, what has them, and what would be right.
const FOREIGN: [(&str, &str, &str); 7] = [
    ("$schema", "a JSON Schema", "put it under `input_schema:` of a document of `kind: Tool`"),
    ("apiVersion", "a Kubernetes manifest", BEGINS),
    ("mcpServers", CLIENT, CLIENT_HELP),
    ("openapi", "an OpenAPI description", BEGINS),
    ("servers", CLIENT, CLIENT_HELP),
    ("services", "a Compose file", BEGINS),
    (
        "version",
        "a runtime file or a definition file",
        "a runtime file is called `clawhost.yaml` and lies beside the documents, or is named with `--config`; a definition file lies in another folder and is named under `definitions` of the runtime file",
    ),
];

/// Says what a file is that was written for something else, or pasted: one message for all of it.
fn foreign(root: &Node) -> Option<(Place, String, &'static str)> {
    let versions = ["claw", "kind"].into_iter().filter_map(|key| root.get(&[key]));
    let pasted = versions.filter_map(|node| Some((node, pasted(node.as_text()?)?))).next();
    if let Some((node, help)) = pasted {
        let text = shown(node.as_text().unwrap_or_default());
        return Some((
            node.at.clone(),
            format!("`{text}` is not written in plain characters"),
            help,
        ));
    }
    if root.entry("claw").is_some() {
        return None;
    }
    FOREIGN.into_iter().find_map(|(key, what, help)| {
        let entry = root.entry(key)?;
        // Others have a text there.
        let is_other = key == "version" && entry.node.as_text().is_some();
        (!is_other).then(|| (entry.at.clone(), format!("this is {what} and no CKP document"), help))
    })
}

impl Document {
    pub(crate) fn is(&self, kind: Kind) -> bool {
        self.kind == Some(kind)
    }

    /// Returns the table of its `spec`.
    pub(crate) fn shape(&self) -> &'static Shape {
        self.kind.map_or(&kinds::CLAW, kinds::spec_shape)
    }

    /// Says what it is, for messages: "a Tool".
    pub(crate) fn what(&self) -> String {
        self.kind.map_or_else(|| "a Claw".to_owned(), a)
    }

    /// Checks `spec`: its shape, and if that is right what the shape cannot say.
    pub(crate) fn check(&mut self, problems: &mut Problems) {
        let before = problems.count();
        if shape::check(problems, &self.spec, self.shape(), &self.path) {
            needs::check(self, problems);
            self.check_meaning(problems);
        }
        self.sound = self.sound && problems.none_since(before);
    }

    fn check_meaning(&self, report: &mut Problems) {
        match self.kind {
            Some(Kind::Memory) => memory::check(self, report),
            Some(Kind::Policy) => policy::check(self, report),
            Some(Kind::Provider) => provider::check(self, report),
            Some(Kind::Sandbox) => sandbox::check(&self.spec, report),
            Some(Kind::Skill) => tool::check_schemas(&self.spec, report),
            Some(Kind::Swarm) => swarm::check(self, report),
            Some(Kind::Tool) => tool::check(&self.spec, report),
            _ => {}
        }
    }
}

/// Returns a kind with its article.
pub(crate) fn a(kind: Kind) -> String {
    format!("{} {kind}", if kind == Kind::Identity { "an" } else { "a" })
}

/// Reads the `metadata` that may stand beside `inline`.
pub(crate) fn read_inline_metadata(entry: &Node, problems: &mut Problems) -> Metadata {
    let Some(node) = entry.get(&["metadata"]) else {
        return Metadata::default();
    };
    shape::check(problems, node, &kinds::INLINE_METADATA, "metadata");
    metadata_of(node, problems)
}

fn metadata_of(node: &Node, problems: &mut Problems) -> Metadata {
    let name =
        node.get(&["name"]).and_then(|name| Some((name.as_text()?.to_owned(), name.at.clone())));
    if let Some(version) = node.get(&["version"]) {
        let text = version.as_text().unwrap_or("0.0.0");
        if !is_version(text) {
            let reason = format!("`metadata.version` is `{}`, which is no version", shown(text));
            // What is cut off before a pre-release is none.
            let bare = text.trim_end_matches('-');
            let right = [bare.to_owned(), format!("{bare}.0"), format!("{bare}.0.0")];
            let right = right.iter().find(|right| is_version(right)).map_or("1.2.0", |it| it);
            let right = || format!("write <major>.<minor>.<patch>: `\"{right}\"`");
            let help = without_build(text).unwrap_or_else(right);
            problems.invalid(&version.at, reason, help);
        }
    }
    Metadata {
        name,
        version: node.text(&["version"]).map(str::to_owned),
        category: node.text(&["labels", "category"]).map(str::to_owned),
    }
}

/// Says what to do about the build of a version, which the grammar does not have.
pub(crate) fn without_build(text: &str) -> Option<String> {
    let build = shown(text.split_once('+')?.1);
    Some(format!("take `+{build}` out: builds are not told apart"))
}
