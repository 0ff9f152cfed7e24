//! Services that say which tools they have, and agents that are granted some of them: descriptors, pods, and
//! the file that is compiled of both for each agent.
//!
//! A service states a tool in MCP's words and, beside them, the request that calls it. A pod says which agent
//! reaches which service (surfaces) and which of its tools it may call; both are needed. Deliberately absent:
//! files, which come through [`Documents`](crate::manifest::Documents), values of tokens, which are
//! only ever named here, and requests.

mod agent_file;
mod budget;
mod check;
mod describe;
mod mcp;
mod page;
mod pod;
mod request;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

pub use self::agent_file::{AgentFile, Compiled, TOOLS_FILE, agents};
pub use self::describe::{Described, Descriptor, FILE_NAME};
pub use self::mcp::{credentials, headers, servers};
pub use self::page::{SKILL_FILE, SKILLS_FOLDER};
pub use self::pod::{
    CompiledAgent, CompiledPod, DISCOVERED, PodSurroundings, compile, is_service_name, pod_server,
};
pub use self::request::{ServiceRequest, WrongArguments};
use crate::digest;
use crate::mediate::TurnBounds;
use crate::quota::Budget;

/// The word in a path, and in arguments, that stands for whoever calls.
pub const CLAW_ID: &str = "claw_id";

/// A tool of a service, and what calling it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct ManagedTool {
    /// The service that has it.
    pub service: String,
    /// Its name there.
    pub name: String,
    /// For the model.
    pub description: String,
    /// JSON Schema of the arguments.
    pub input_schema: Value,
    /// What the service says of it. `readOnly` is a hint like any other.
    pub annotations: Map<String, Value>,
    /// Where the service is: an address without the path of a tool.
    pub base_url: String,
    /// The request.
    pub transport: Transport,
}

/// How a service is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// One request a call.
    Http {
        /// `GET`, `POST`, `PUT`, `PATCH` or `DELETE`.
        method: String,
        /// Begins with `/`; `{name}` stands for an argument.
        path: String,
        /// The key of the body that arguments are put under.
        body_key: Option<String>,
    },
    /// The Model Context Protocol, at this path.
    Mcp {
        /// Begins with `/`.
        path: String,
    },
}

/// Where the token of a request goes, and which it is.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Credential {
    /// Nowhere: there is none.
    #[default]
    None,
    /// `Authorization: Bearer …`.
    Bearer {
        /// The name of the secret.
        secret: String,
    },
    /// A header of the service's own.
    Header {
        /// The header.
        header: String,
        /// What stands before the token.
        prefix: String,
        /// The name of the secret.
        secret: String,
    },
}

/// Who may call a tool of a service, and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Callers {
    /// Whoever policy lets.
    Anybody(Credential),
    /// These agents, if policy lets them, each with its own token.
    Only(BTreeMap<String, Credential>),
}

/// A tool of a service as this host serves it.
#[derive(Debug, Clone, PartialEq)]
pub struct Granted {
    /// The tool.
    pub tool: ManagedTool,
    /// Who may call it.
    pub callers: Callers,
}

/// Which tools of services an agent has, and how it may use them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentTools {
    /// As `service.tool`.
    pub tools: BTreeSet<String>,
    /// Bounds of one turn.
    pub policy: TurnBounds,
    /// What it may ask for and spend.
    pub budget: Option<Budget>,
}

impl ManagedTool {
    /// Returns `service.tool`.
    pub fn canonical(&self) -> String {
        format!("{}.{}", self.service, self.name)
    }

    /// Says whether the service states that a success ends the turn (`x-claw.terminalOnSuccess`).
    pub fn is_terminal(&self) -> bool {
        check::terminal(&self.annotations).is_some_and(|value| value == &Value::Bool(true))
    }

    /// Returns `sha256:…` over all that it is.
    pub fn digest(&self) -> String {
        digest::of_json(&json!([
            self.canonical(),
            self.description,
            self.input_schema,
            self.annotations,
            agent_file::execution(self),
        ]))
    }
}

impl Granted {
    /// Returns as whom `principal` calls it; nothing where it may not.
    pub fn credential(&self, principal: &str) -> Option<&Credential> {
        match &self.callers {
            Callers::Anybody(credential) => Some(credential),
            Callers::Only(agents) => agents.get(principal),
        }
    }

    /// Returns the agents that it was compiled for; nothing where it is for whoever policy lets.
    pub fn agents(&self) -> Option<Vec<&str>> {
        match &self.callers {
            Callers::Anybody(_) => None,
            Callers::Only(agents) => Some(agents.keys().map(String::as_str).collect()),
        }
    }

    /// Returns the names of the secrets it needs.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        self.callers.credentials().filter_map(Credential::secret)
    }
}

impl Callers {
    /// Returns as whom they come.
    fn credentials(&self) -> impl Iterator<Item = &Credential> {
        let (one, many) = match self {
            Self::Anybody(credential) => (Some(credential), None),
            Self::Only(agents) => (None, Some(agents.values())),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }
}

impl Credential {
    /// Returns it with the secret of another name.
    #[must_use]
    pub fn with_secret(&self, secret: String) -> Self {
        match self.clone() {
            Self::None => Self::None,
            Self::Bearer { .. } => Self::Bearer { secret },
            Self::Header { header, prefix, .. } => Self::Header { header, prefix, secret },
        }
    }

    /// Returns the name of its secret.
    pub fn secret(&self) -> Option<&str> {
        match self {
            Self::None => None,
            Self::Bearer { secret } | Self::Header { secret, .. } => Some(secret),
        }
    }
}
