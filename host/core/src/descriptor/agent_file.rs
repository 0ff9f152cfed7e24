//! `tools.json`: what is compiled for one agent. It names tokens and never has one.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::check::{self, METHODS, POLICY};
use super::{AgentTools, Callers, Credential, Granted, ManagedTool, Transport, budget};
use crate::json::put;
use crate::manifest::node::{Node, Place};
use crate::manifest::problem::{Problems, why};
use crate::manifest::shape::{self, OBJECT, SECRET, STRING, Shape, TEXT, URL, opt, req, shape};
use crate::manifest::{DocumentError, Documents};
use crate::mediate::TurnBounds;
use crate::quota::Budget;

/// What the file is called.
pub const TOOLS_FILE: &str = "tools.json";
/// The version of the format.
const VERSION: u64 = 1;

shape! { AUTH = {
    type!: ["bearer" | "header" | "none"],
    secret: SECRET,
    header: TEXT,
    prefix: STRING,
}}

shape! { EXECUTION = {
    transport!: ["http" | "mcp"],
    service!: TEXT,
    base_url!: URL,
    method: METHODS,
    path!: TEXT,
    tool_name: TEXT,
    body_key: TEXT,
    auth!: AUTH,
}}

shape! { TOOL = {
    name!: TEXT, description!: TEXT, inputSchema!: OBJECT, annotations: OBJECT, execution!: EXECUTION,
}}

const FILE: Shape = Shape::Record(&[
    req("version", &Shape::Int { min: VERSION, max: VERSION }),
    req("tools", &Shape::List { of: &TOOL, min: 0 }),
    opt("policy", &POLICY),
    opt("budget", &budget::BUDGET),
]);

/// The tools of one agent, each with its token's name, and its bounds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct AgentFile {
    /// In the order in which the pod mentions them.
    pub tools: Vec<(ManagedTool, Credential)>,
    /// Bounds of one turn.
    pub policy: TurnBounds,
    /// What the agent may ask for and spend.
    pub budget: Option<Budget>,
}

impl AgentFile {
    /// Returns the text of the file.
    pub fn to_text(&self) -> String {
        let TurnBounds { max_rounds, timeout_per_tool_ms, total_timeout_ms, .. } = self.policy;
        let mut file = json!({
            "version": VERSION,
            "tools": self.tools.iter().map(|(tool, credential)| entry(tool, credential))
                .collect::<Vec<_>>(),
            "policy": {
                "max_rounds": max_rounds,
                "max_tool_iterations": self.policy.max_tool_iterations,
                "timeout_per_tool_ms": timeout_per_tool_ms,
                "total_timeout_ms": total_timeout_ms,
                "max_tool_result_bytes": self.policy.max_tool_result_bytes,
            },
        });
        put(&mut file, "budget", self.budget.as_ref().map(budget::write));
        format!("{file:#}\n")
    }

    fn read(file: &Path, bytes: &[u8], problems: &mut Problems) -> Option<(Self, Vec<Place>)> {
        let root = shape::parsed(problems, file, bytes, &FILE)?;
        let tools = root.list(&["tools"]);
        let read = tools.iter().filter_map(|node| tool(node, problems)).collect();
        let policy = TurnBounds::default();
        let policy = root.get(&["policy"]).map_or(policy, |stated| policy.with(stated, problems));
        let budget = root.get(&["budget"]).and_then(|stated| budget::read(stated, problems));
        let places = tools.iter().map(|node| node.at.clone()).collect();
        Some((Self { tools: read, policy, budget }, places))
    }
}

fn entry(tool: &ManagedTool, credential: &Credential) -> Value {
    let mut execution = execution(tool);
    execution.insert("auth".to_owned(), auth(credential));
    json!({
        "name": tool.canonical(),
        "description": tool.description,
        "inputSchema": tool.input_schema,
        "annotations": tool.annotations,
        "execution": execution,
    })
}

/// Returns what calling it takes, but for the token.
pub(super) fn execution(tool: &ManagedTool) -> Map<String, Value> {
    let mut all = Map::new();
    let mut put = |key: &str, value: &str| all.insert(key.to_owned(), Value::from(value));
    put("service", &tool.service);
    put("base_url", &tool.base_url);
    match &tool.transport {
        Transport::Http { method, path, body_key } => {
            put("transport", "http");
            put("method", method);
            put("path", path);
            body_key.as_ref().map(|key| put("body_key", key));
        }
        Transport::Mcp { path } => {
            put("transport", "mcp");
            put("path", path);
            put("tool_name", &tool.name);
        }
    }
    all
}

fn auth(credential: &Credential) -> Value {
    match credential {
        Credential::None => json!({"type": "none"}),
        Credential::Bearer { secret } => json!({"type": "bearer", "secret": secret}),
        Credential::Header { header, prefix, secret } => {
            json!({"type": "header", "secret": secret, "header": header, "prefix": prefix})
        }
    }
}

/// Reads one tool, whose shape was checked.
fn tool(node: &Node, problems: &mut Problems) -> Option<(ManagedTool, Credential)> {
    let how = node.get(&["execution"])?;
    let text = |key: &str| how.text(&[key]).map(str::to_owned);
    let (service, path) = (text("service")?, check::path(how, &["path"], problems));
    let name = node.text(&["name"])?.strip_prefix(&format!("{service}."));
    if let Some(name) = name {
        check::name(node.place(&["name"]), name, problems);
    } else {
        let help = "write `service.tool`; `clawhost compile` makes such files";
        problems.invalid(node.place(&["name"]), "the name is of another service", help);
    }
    let transport = match (text("transport")?.as_str(), text("method")) {
        ("http", Some(method)) => {
            Transport::Http { body_key: check::body_key(how, &method, problems), method, path }
        }
        ("http", None) => {
            problems.invalid(&how.at, "`execution.method` is missing", "add `method`");
            return None;
        }
        _ => Transport::Mcp { path },
    };
    let tool = ManagedTool {
        name: name?.to_owned(),
        service,
        description: node.text(&["description"])?.to_owned(),
        input_schema: check::input_schema(node, problems),
        annotations: check::annotations(node, problems),
        base_url: text("base_url")?.trim_end_matches('/').to_owned(),
        transport,
    };
    Some((tool, credential(how.get(&["auth"])?, problems)?))
}

fn credential(auth: &Node, problems: &mut Problems) -> Option<Credential> {
    let text = |key: &str| auth.text(&[key]).map(str::to_owned);
    let (kind, header) = (text("type")?, text("header"));
    if kind == "none" {
        return Some(Credential::None);
    }
    let Some(secret) = text("secret") else {
        problems.invalid(&auth.at, "`auth` names no secret", "add `secret: NAME`");
        return None;
    };
    match (kind.as_str(), header) {
        ("bearer", _) => Some(Credential::Bearer { secret }),
        (_, Some(header)) if check::is_header(&header) => {
            Some(Credential::Header { header, prefix: text("prefix").unwrap_or_default(), secret })
        }
        _ => {
            problems.invalid(&auth.at, "`auth.header` is no header for a token", "name one");
            None
        }
    }
}

/// What was compiled for all agents.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Compiled {
    /// The tools, each for those who have it.
    pub tools: Vec<Granted>,
    /// What each agent has.
    pub agents: BTreeMap<String, AgentTools>,
}

/// What would be right where nothing was compiled.
const COMPILED: &str = "name the folder that `clawhost compile` made";

/// Reads the files that were compiled for agents into `folder`, a folder for each.
///
/// # Errors
/// Every problem of every file; a tool that is another one in two of them; there is no such file.
pub fn agents(docs: &dyn Documents, folder: &Path) -> Result<Compiled, Vec<DocumentError>> {
    let mut problems = Problems::default();
    let (mut granted, mut agents) = (BTreeMap::new(), BTreeMap::new());
    let unread =
        |error: std::io::Error| DocumentError::whole_file(folder, why(&error), Some(COMPILED));
    let mut entries = docs.list(folder).map_err(|error| vec![unread(error)])?;
    entries.sort();
    let is_one = entries.iter().any(|entry| !entry.is_directory && entry.name == TOOLS_FILE);
    let folders = entries.into_iter().filter(|entry| entry.is_directory);
    // No agent is called by what is no text.
    for agent in folders.filter_map(|entry| entry.name.into_string().ok()) {
        let file = folder.join(&agent).join(TOOLS_FILE);
        let bytes = match docs.read(&file) {
            Ok(bytes) => bytes,
            // An agent without the file has no tools of services.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => {
                problems.push(DocumentError::whole_file(&file, error.to_string(), None));
                continue;
            }
        };
        let Some((read, places)) = AgentFile::read(&file, &bytes, &mut problems) else { continue };
        let tools = read.tools.iter().map(|(tool, _)| tool.canonical()).collect();
        let AgentFile { policy, budget, .. } = read;
        agents.insert(agent.clone(), AgentTools { tools, policy, budget });
        for ((tool, credential), at) in read.tools.into_iter().zip(&places) {
            join(&mut granted, &tool, (agent.clone(), credential), at, &mut problems);
        }
    }
    // Without the files every budget and bound in them would be gone.
    if agents.is_empty() && problems.none_since(0) {
        let reason = format!("no folder in it has a `{TOOLS_FILE}`");
        let help = match is_one {
            true => "this is the folder of one agent: name the folder above",
            false => COMPILED,
        };
        problems.push(DocumentError::whole_file(folder, reason, Some(help)));
    }
    problems.finish(Some(Compiled { tools: granted.into_values().collect(), agents }))
}

fn join(
    all: &mut BTreeMap<String, Granted>,
    tool: &ManagedTool,
    (agent, credential): (String, Credential),
    at: &Place,
    problems: &mut Problems,
) {
    let name = tool.canonical();
    let callers = Callers::Only(BTreeMap::new());
    let one = all.entry(name.clone()).or_insert_with(|| Granted { tool: tool.clone(), callers });
    let is_new = match &mut one.callers {
        Callers::Only(agents) => agents.insert(agent, credential).is_none(),
        Callers::Anybody(_) => true,
    };
    if one.tool != *tool || !is_new {
        let reason = format!("`{name}` is there twice, or is something else for another agent");
        problems.invalid(at, reason, "compile the pod anew, for all agents");
    }
}
