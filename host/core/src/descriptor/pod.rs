//! Pods: which agent reaches which service, which of its tools it may call, and within which bounds.
//!
//! A pod is a Compose file with `x-claw` blocks. Of the keys that are not ours nothing is said or checked, but
//! for those that are nearly ours. Everything that is wrong is told at once, and then nothing is compiled.

mod grants;
mod services;
mod skills;
mod stdio;

use std::collections::BTreeMap;
use std::path::Path;

use self::grants::{Allowed, Grant, merged};
use self::services::Services;
pub use self::services::{DISCOVERED, is_service_name};
use self::stdio::MCP_STDIO;
pub use self::stdio::pod_server;
use super::check::POD_POLICY;
use super::{AgentFile, Credential, Descriptor, budget, page};
use crate::grants::is_secret_name;
use crate::manifest::node::{Entry, Node, Value};
use crate::manifest::problem::{Problems, choices, why};
use crate::manifest::shape::{self, ANY, PATH, Shape, TEXT, opt, req, shape, shown};
use crate::manifest::{DocumentError, Documents};
use crate::mediate::TurnBounds;
use crate::quota::Budget;

/// The key of everything that Compose does not know.
const CLAW: &str = "x-claw";
/// What stands before the name of a service that may be reached.
const SERVICE: &str = "service://";

// What may be `null` is looked at where it is read.
const SERVICE_CLAW: Shape = Shape::OpenRecord(&[
    opt("agent", &ANY),
    opt("budget", &ANY),
    opt("cllama", &ANY),
    opt("describe-file", &PATH),
    opt("mcp-stdio", &MCP_STDIO),
    opt("surfaces", &ANY),
    opt("tool-policy", &ANY),
    opt("tools", &ANY),
]);
const POD_CLAW: Shape = Shape::OpenRecord(&[
    opt("budget-defaults", &ANY),
    opt("pod", &TEXT),
    opt("tool-policy-defaults", &ANY),
    opt("tools-defaults", &ANY),
]);
const POD_SERVICE: Shape = Shape::OpenRecord(&[opt(CLAW, &SERVICE_CLAW)]);
const POD: Shape =
    Shape::OpenRecord(&[req("services", &Shape::Dict(&POD_SERVICE)), opt(CLAW, &POD_CLAW)]);
shape! { ENTRY = { service!: TEXT, allow: ANY } }

/// What compiling a pod takes beside its files.
pub struct PodSurroundings<'a> {
    /// Reads the pod and the descriptors.
    pub docs: &'a dyn Documents,
    /// Where services are, where that is not the address that the pod gives them.
    pub addresses: &'a BTreeMap<String, String>,
    /// Says whether there is a secret of that name.
    pub has_secret: &'a dyn Fn(&str) -> bool,
}

shows!(PodSurroundings<'_> { addresses });

/// What was compiled of a pod.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CompiledPod {
    /// Its agents.
    pub agents: Vec<CompiledAgent>,
    /// What services have that no agent gets, for people.
    pub notes: Vec<String>,
}

/// What was compiled for one agent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct CompiledAgent {
    /// The agent.
    pub name: String,
    /// Its tools; absent where it has none.
    pub file: Option<AgentFile>,
    /// What it reads of its services and tools.
    pub page: String,
    /// What these services say of when to use them and why.
    pub skills: BTreeMap<String, String>,
}

/// Compiles the pod at `file` for each of its agents.
///
/// # Errors
/// Every problem of the pod, and of every descriptor that it needs.
pub fn compile(
    file: &Path,
    around: &PodSurroundings<'_>,
) -> Result<CompiledPod, Vec<DocumentError>> {
    let unread = |error: std::io::Error| {
        DocumentError::whole_file(
            file,
            why(&error),
            Some("name a Compose file with `x-claw` blocks"),
        )
    };
    let bytes = around.docs.read(file).map_err(|error| vec![unread(error)])?;
    let read = |root: &Node, problems: &mut Problems| {
        Some(Compiler::new(file, root, around, problems).compile())
    };
    parsed(file, &bytes, read)
}

/// Reads a pod. No line of it is shown with a problem: beside any there may be one with a token.
fn parsed<T>(
    file: &Path,
    bytes: &[u8],
    read: impl FnOnce(&Node, &mut Problems) -> Option<T>,
) -> Result<T, Vec<DocumentError>> {
    let mut problems = Problems::default();
    let root = shape::parsed(&mut problems, file, bytes, &POD);
    let made = root.and_then(|root| read(&root, &mut problems));
    let told = problems.finish(made);
    told.map_err(|all| all.into_iter().map(DocumentError::hidden).collect())
}

struct Compiler<'a> {
    root: &'a Node,
    services: Services<'a>,
    around: &'a PodSurroundings<'a>,
    problems: &'a mut Problems,
}

impl<'a> Compiler<'a> {
    fn new(
        file: &'a Path,
        root: &'a Node,
        around: &'a PodSurroundings<'a>,
        problems: &'a mut Problems,
    ) -> Self {
        let services = Services::new(file, root, around);
        Self { root, services, around, problems }
    }

    fn compile(mut self) -> CompiledPod {
        self.services.check(self.problems);
        let all = self.root.get(&["services"]).map(Node::entries).unwrap_or_default();
        all.iter().for_each(|service| stdio::check(service, self.problems));
        let defaults = self.root.get(&[CLAW]).and_then(|claw| claw.entry("tools-defaults"));
        let defaults =
            defaults.map(|entry| grants::read(entry, None, &mut self.services, self.problems));
        self.unknown(defaults.as_deref().unwrap_or_default());
        let agents = all.iter().filter_map(|entry| self.agent(entry, defaults.as_deref()));
        CompiledPod { agents: agents.collect(), notes: self.services.into_notes() }
    }

    /// Compiles a service that is an agent: it says so, or asks for tools.
    fn agent(&mut self, service: &Entry, defaults: Option<&[Grant]>) -> Option<CompiledAgent> {
        let claw = service.node.get(&[CLAW])?;
        let own = claw.entry("tools");
        if !["agent", "cllama", "tools"].iter().any(|key| claw.entry(key).is_some()) {
            return None;
        }
        let has_proxy = claw
            .get(&["cllama"])
            .is_some_and(|node| !matches!(node.value, Value::Null | Value::Flag(false)));
        let granted = match own {
            Some(own) => merged(grants::read(own, defaults, &mut self.services, self.problems)),
            None if has_proxy => merged(defaults.unwrap_or_default().to_vec()),
            None => Vec::new(),
        };
        if let (Some(own), false, false) = (own, has_proxy, granted.is_empty()) {
            let reason = format!("`{}` has tools and no proxy", shown(&service.key));
            let help = "add `cllama: passthrough`, or take `tools` out";
            self.problems.invalid(&own.at, reason, help);
        }
        self.unknown(&granted);
        let surfaces = self.surfaces(claw);
        let mut tools = Vec::new();
        for grant in &granted {
            tools.extend(self.granted(&service.node, grant, &surfaces));
        }
        let file = AgentFile { tools, policy: self.policy(claw), budget: self.budget(claw) };
        Some(self.compiled(service, file, &surfaces))
    }

    fn compiled(&mut self, agent: &Entry, file: AgentFile, surfaces: &[String]) -> CompiledAgent {
        let pod = self.root.text(&[CLAW, "pod"]);
        let reached: Vec<(&str, Option<Descriptor>)> = surfaces
            .iter()
            .map(|name| (name.as_str(), self.services.described(name, self.problems).cloned()))
            .collect();
        let of_tools = file.tools.iter().map(|(tool, _)| &tool.service);
        let skill = |name: &String| Some((name.clone(), self.services.skill(name)?.to_owned()));
        let skills: BTreeMap<_, _> = surfaces.iter().chain(of_tools).filter_map(skill).collect();
        let page = page::page(&agent.key, pod, &reached, &file.tools, &skills);
        if let Err(collision) = &page {
            let help = "call one of the tools otherwise";
            self.problems.invalid(&agent.at, collision.to_string(), help);
        }
        CompiledAgent {
            name: agent.key.clone(),
            file: Some(file).filter(|file| !file.tools.is_empty() || file.budget.is_some()),
            page: page.unwrap_or_default(),
            skills,
        }
    }

    /// Reports services that are granted and not there.
    fn unknown(&mut self, granted: &[Grant]) {
        for Grant { service, at, .. } in
            granted.iter().filter(|one| !self.services.has(&one.service))
        {
            let reason = format!("the pod has no service `{}`", shown(service));
            self.problems.missing(at, reason, choices(service, self.services.names()));
        }
    }

    /// Returns the services that an agent may reach.
    fn surfaces(&mut self, claw: &Node) -> Vec<String> {
        let mut reached = Vec::new();
        for (item, text) in claw.texts(&["surfaces"]) {
            let Some(name) = text.strip_prefix(SERVICE) else { continue };
            let name = name.split('/').next().unwrap_or_default();
            if !self.services.has(name) {
                let reason = format!("the pod has no service `{}`", shown(name));
                self.problems.missing(&item.at, reason, choices(name, self.services.names()));
            } else if !reached.iter().any(|one| one == name) {
                reached.push(name.to_owned());
            }
        }
        reached
    }

    /// Returns the tools of one grant. What a service does not have is told, and so is one that the agent
    /// does not reach: to reach a service and to use its tools are two grants.
    fn granted(
        &mut self,
        agent: &Node,
        grant: &Grant,
        surfaces: &[String],
    ) -> Vec<(super::ManagedTool, Credential)> {
        let Grant { service, at, allowed } = grant;
        if !self.services.has(service) {
            return Vec::new();
        }
        // A program is nothing but its tools: there is no more of it to reach.
        if !surfaces.contains(service) && !self.services.is_program(service) {
            let reason = format!("tools of `{service}`, which the agent does not reach");
            let help = format!("add `{SERVICE}{service}` to `surfaces`: both are needed");
            self.problems.invalid(at, reason, help);
        }
        let Some(described) = self.services.described(service, self.problems).cloned() else {
            if !self.services.is_faulty(service) {
                let reason = format!("nothing describes the service `{service}`");
                let help = self.services.where_described(service);
                self.problems.missing(at, reason, help);
            }
            return Vec::new();
        };
        if let Some((entry, reason)) = self.services.unreachable(service) {
            self.problems.invalid(
                entry.unwrap_or(at),
                reason,
                format!("say where it is: `--service {service}=URL`"),
            );
        }
        if let Allowed::Names(names) = allowed {
            for (name, at) in names.iter().filter(|(name, _)| described.names().all(|n| n != name))
            {
                let (reason, help) = described.lacks(service, name);
                self.problems.missing(at, reason, help);
            }
        }
        let credential = self.credential(agent, service, &described.auth, grant);
        let base_url = self.services.base_url(service);
        let is_granted = |name: &str| match allowed {
            Allowed::All => true,
            Allowed::Names(names) => names.iter().any(|(one, _)| one == name),
        };
        let tools = described.tools.iter().filter(|tool| is_granted(&tool.name));
        tools.map(|tool| (tool.of(service, &base_url), credential.clone())).collect()
    }

    /// Returns as whom an agent asks a service: its own environment names the secret. Which one a service
    /// gets is never for its descriptor to say.
    fn credential(
        &mut self,
        agent: &Node,
        service: &str,
        wanted: &Credential,
        Grant { at, .. }: &Grant,
    ) -> Credential {
        let Some(variable) = wanted.secret() else { return Credential::None };
        if variable.is_empty() {
            let reason = format!("the descriptor of `{service}` names no variable for its token");
            self.problems.missing(at, reason, "write `env` under its `auth`");
            return Credential::None;
        }
        let mut stated = services::variables(agent).into_iter();
        let secret = match stated.find(|(_, name, _)| *name == variable) {
            None => {
                let reason = format!(
                    "`{service}` wants the token `{0}`, and `environment` of the agent has none",
                    shown(variable)
                );
                let help =
                    format!("add `{0}: ${{{0}}}`, or the name of another secret", shown(variable));
                self.problems.missing(at, reason, help);
                None
            }
            Some((place, _, text)) => {
                let named = services::secret_of(variable, text.as_deref()).map(str::to_owned);
                if named.is_none() {
                    let reason = format!("the token of `{service}` stands in the pod");
                    let help = format!(
                        "`clawhost secrets set {0}`, then write `{0}: ${{{0}}}`",
                        shown(variable)
                    );
                    self.problems.invalid(place, reason, help);
                }
                named
            }
        };
        let Some(secret) = secret else { return Credential::None };
        if !is_secret_name(&secret) || !(self.around.has_secret)(&secret) {
            let reason =
                format!("there is no secret `{}`, which `{service}` wants", shown(&secret));
            let help = format!("`clawhost secrets set {}`", shown(&secret));
            self.problems.missing(at, reason, help);
        }
        wanted.with_secret(secret)
    }

    /// Returns the bounds of an agent: its own, whole, or the pod's, or those that are built in.
    fn policy(&mut self, claw: &Node) -> TurnBounds {
        let stated = self.stated(claw, "tool-policy", &POD_POLICY);
        stated.map_or_else(TurnBounds::default, |node| {
            TurnBounds::default().with(node, self.problems)
        })
    }

    /// Returns the budget of an agent: its own, whole, or the pod's, or none.
    fn budget(&mut self, claw: &Node) -> Option<Budget> {
        let node = self.stated(claw, "budget", &budget::POD_BUDGET)?;
        budget::read(node, self.problems)
    }

    /// Returns what an agent states, else what the pod does for all; `null` is nothing.
    fn stated<'n>(&mut self, claw: &'n Node, key: &str, shape: &Shape) -> Option<&'n Node>
    where
        'a: 'n,
    {
        let pod = self.root.get(&[CLAW]);
        let stated = claw.entry(key).or_else(|| pod?.entry(&format!("{key}-defaults")))?;
        let is_null = matches!(stated.node.value, Value::Null);
        let fits = is_null || shape::check(self.problems, &stated.node, shape, &stated.key);
        Some(&stated.node).filter(|_| fits && !is_null)
    }
}
