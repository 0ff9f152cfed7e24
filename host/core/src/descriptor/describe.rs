//! `.claw-describe.json`: what a service says of itself.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::check::{self, METHODS};
use super::{Credential, ManagedTool, Transport};
use crate::manifest::DocumentError;
use crate::manifest::node::{Entry, Node, Place};
use crate::manifest::problem::{Problems, choices};
use crate::manifest::shape::{self, OBJECT, POSITIVE, STRING, Shape, TEXT, opt, req, shape, shown};

/// What such a file is called, behind the name of its service and a dot or alone.
pub const FILE_NAME: &str = "claw-describe.json";
/// The version that has tools.
const VERSION: u64 = 2;
/// Where an MCP server answers that says nothing else.
const MCP_PATH: &str = "/mcp";
/// The header for a token where the descriptor names none.
const HEADER: &str = "X-API-Key";

const PATH_ONLY: Shape = Shape::Record(&[req("path", &TEXT)]);

shape! { TOOL = {
    name!: TEXT,
    description!: TEXT,
    inputSchema!: OBJECT,
    http: { method!: METHODS, path!: TEXT, body: ["" | "json"], body_key: TEXT },
    annotations: OBJECT,
}}

shape! { FEED = { name!: TEXT, path!: TEXT, ttl!: POSITIVE, description: STRING } }
shape! { ENDPOINT = { method!: TEXT, path!: TEXT, description: STRING } }
shape! { MCP = { transport: ["" | "http" | "streamable_http" | "streamable-http"], path: TEXT } }
shape! { MEMORY = { recall: PATH_ONLY, retain: PATH_ONLY, forget: PATH_ONLY } }
shape! { AUTH = { type!: TEXT, env: TEXT, header: TEXT, prefix: STRING } }

const FILE: Shape = Shape::Record(&[
    req("version", &Shape::Int { min: 1, max: VERSION }),
    opt("description", &STRING),
    opt("feeds", &Shape::List { of: &FEED, min: 0 }),
    opt("mcp", &MCP),
    opt("tools", &Shape::List { of: &TOOL, min: 0 }),
    opt("memory", &MEMORY),
    opt("endpoints", &Shape::List { of: &ENDPOINT, min: 0 }),
    opt("auth", &AUTH),
    opt("skill", &TEXT),
    opt("x-claw-discovery", &OBJECT),
]);

/// What a service says of itself, checked.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Descriptor {
    /// For people, and for agents.
    pub description: String,
    /// Its tools.
    pub tools: Vec<Described>,
    /// What it answers beside them, as `METHOD /path`.
    pub endpoints: Vec<String>,
    /// What it wants each request to carry. The secret is the name of a variable, as the service knows
    /// it; empty where it names none.
    pub auth: Credential,
    /// What agents read of when to use it and why.
    pub(super) skill: Option<Skill>,
}

/// Where a document for agents lies.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Skill {
    /// The folder of the descriptor.
    pub(super) folder: PathBuf,
    /// From there, or in the image of the service.
    pub(super) path: String,
    /// What names it.
    pub(super) at: Place,
}

/// One of its tools.
#[derive(Debug, Clone, PartialEq)]
pub struct Described {
    /// Its name.
    pub name: String,
    /// For the model.
    pub description: String,
    input_schema: Value,
    annotations: Map<String, Value>,
    /// The request.
    pub transport: Transport,
}

impl Described {
    /// Returns it as a tool of `service`, which is at `base_url`.
    pub fn of(&self, service: &str, base_url: &str) -> ManagedTool {
        ManagedTool {
            service: service.to_owned(),
            name: self.name.clone(),
            description: self.description.clone(),
            input_schema: self.input_schema.clone(),
            annotations: self.annotations.clone(),
            base_url: base_url.trim_end_matches('/').to_owned(),
            transport: self.transport.clone(),
        }
    }
}

impl Descriptor {
    /// Reads a descriptor.
    ///
    /// # Errors
    /// Every problem of it, with its place.
    pub fn read(file: &Path, bytes: &[u8]) -> Result<Self, Vec<DocumentError>> {
        let mut problems = Problems::default();
        let root = shape::parsed(&mut problems, file, bytes, &FILE);
        let read = root.map(|root| Reader(&mut problems).descriptor(&root, file));
        problems.finish(read)
    }

    /// Returns the text of a descriptor for an MCP server that has `tools`, as descriptors write them;
    /// `found` says how that is known.
    pub fn snapshot(tools: &[Value], found: &Value) -> String {
        let mcp = json!({"transport": "streamable_http", "path": MCP_PATH});
        let all =
            json!({"version": VERSION, "mcp": mcp, "tools": tools, "x-claw-discovery": found});
        format!("{all:#}\n")
    }

    /// Returns the names of its tools.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.tools.iter().map(|tool| tool.name.as_str())
    }

    /// Says that `service`, which it describes, has no tool of that name, and what would be right.
    pub(crate) fn lacks(&self, service: &str, tool: &str) -> (String, String) {
        let reason = format!("`{service}` has no tool `{}`", shown(tool));
        let help = match self.tools.is_empty() {
            true => format!(
                "its descriptor has no tools at all: write `\"version\": {VERSION}` and `tools`, as version 1 has none"
            ),
            false => choices(tool, self.names()),
        };
        (reason, help)
    }
}

impl Skill {
    fn read(node: &Node, descriptor: &Path) -> Option<Self> {
        let folder = descriptor.parent().unwrap_or_else(|| Path::new("")).to_owned();
        Some(Self { folder, path: node.as_text()?.to_owned(), at: node.at.clone() })
    }
}

struct Reader<'a>(&'a mut Problems);

impl Reader<'_> {
    fn descriptor(&mut self, root: &Node, file: &Path) -> Descriptor {
        self.version(root);
        if let Some(memory) = root.entry("memory") {
            let is_any = ["recall", "retain"].iter().any(|key| memory.node.entry(key).is_some());
            if !is_any {
                self.0.invalid(&memory.at, "`memory` is of no use", "add `recall:` or `retain:`");
            }
        }
        let mcp = root.get(&["mcp"]).map(|mcp| self.mcp(mcp));
        let mut seen = BTreeSet::new();
        let tools = root.list(&["tools"]).iter();
        let tools = tools.filter_map(|tool| self.tool(tool, mcp.as_deref(), &mut seen)).collect();
        let endpoint = |one: &Node| {
            let part = |key| one.text(&[key]).unwrap_or_default();
            format!("{} {}", part("method"), part("path"))
        };
        Descriptor {
            description: root.text(&["description"]).unwrap_or_default().to_owned(),
            tools,
            endpoints: root.list(&["endpoints"]).iter().map(endpoint).collect(),
            auth: root.get(&["auth"]).map_or(Credential::None, |auth| self.auth(auth)),
            skill: root.get(&["skill"]).and_then(|skill| Skill::read(skill, file)),
        }
    }

    /// What came with the second version is not in a file of the first.
    fn version(&mut self, root: &Node) {
        if root.number(&["version"]) == Some(VERSION) {
            return;
        }
        for Entry { key, at, .. } in ["tools", "mcp", "memory"].iter().filter_map(|k| root.entry(k))
        {
            let reason = format!("`{key}` in a descriptor of version 1");
            self.0.invalid(at, reason, format!("write `\"version\": {VERSION}`"));
        }
    }

    fn mcp(&mut self, mcp: &Node) -> String {
        match mcp.get(&["path"]) {
            Some(_) => check::path(mcp, &["path"], self.0),
            None => MCP_PATH.to_owned(),
        }
    }

    fn tool(
        &mut self,
        tool: &Node,
        mcp: Option<&str>,
        seen: &mut BTreeSet<String>,
    ) -> Option<Described> {
        let name = tool.text(&["name"])?.trim();
        check::name(tool.place(&["name"]), name, self.0);
        if !seen.insert(name.to_owned()) {
            let reason = format!("the tool name `{}` is there twice", shown(name));
            self.0.invalid(tool.place(&["name"]), reason, "name each tool once");
        }
        let transport = match (tool.entry("http"), mcp) {
            (Some(http), None) => self.http(&http.node),
            (None, Some(path)) => Transport::Mcp { path: path.to_owned() },
            (Some(http), Some(_)) => {
                let help = "the server at `mcp` has all tools: take `http` out, or `mcp`";
                self.0.invalid(&http.at, "`http` beside `mcp`", help);
                return None;
            }
            (None, None) => {
                let reason = format!("nothing says how `{}` is called", shown(name));
                self.0.invalid(&tool.at, reason, "add `http:` with `method` and `path`");
                return None;
            }
        };
        Some(Described {
            name: name.to_owned(),
            description: tool.text(&["description"])?.to_owned(),
            input_schema: check::input_schema(tool, self.0),
            annotations: check::annotations(tool, self.0),
            transport,
        })
    }

    fn http(&mut self, http: &Node) -> Transport {
        let method = http.text(&["method"]).unwrap_or_default();
        Transport::Http {
            method: method.to_owned(),
            path: check::path(http, &["path"], self.0),
            body_key: check::body_key(http, method, self.0),
        }
    }

    fn auth(&mut self, auth: &Node) -> Credential {
        const KINDS: [&str; 3] = ["bearer", "header", "none"];
        let kind = auth.text(&["type"]).unwrap_or_default().to_ascii_lowercase();
        let secret = auth.text(&["env"]).unwrap_or_default().to_owned();
        if kind != "header" {
            for Entry { key, at, .. } in ["header", "prefix"].iter().filter_map(|k| auth.entry(k)) {
                let reason = format!("`{key}` for another `type` than `header`");
                self.0.invalid(at, reason, "take it out, or write `\"type\": \"header\"`");
            }
        }
        match kind.as_str() {
            "none" => Credential::None,
            "bearer" => Credential::Bearer { secret },
            "header" => {
                let header = auth.text(&["header"]).unwrap_or(HEADER).to_owned();
                if !check::is_header(&header) {
                    let reason = format!("`{}` is no header for a token", shown(&header));
                    self.0.invalid(auth.place(&["header"]), reason, "write `X-API-Key`, say");
                }
                let prefix = auth.text(&["prefix"]).unwrap_or_default().to_owned();
                Credential::Header { header, prefix, secret }
            }
            other => {
                let reason = format!("`auth.type` is `{}`", shown(other));
                self.0.invalid(auth.place(&["type"]), reason, choices(other, KINDS));
                Credential::None
            }
        }
    }
}
