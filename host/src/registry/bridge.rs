//! Tools of MCP servers: which servers are needed, what they offer, and what of it was accepted.
//!
//! A server runs once for each sandbox profile that its tools are served under, with the variables
//! and headers of its entry in the runtime file, which are the host's own: no caller's credential
//! reaches one. Deliberately absent: any name a caller may use, and any policy. Who offers a tool is
//! settled in `bind`, like for every other source.

mod pins;
mod plan;
mod remote;

use std::collections::BTreeMap;
use std::sync::Arc;

use clawhost_core::bridged::remembered_as;
use clawhost_core::catalog::{Refused, ToolDefinition};
use clawhost_core::descriptor::{self, Credential};
use clawhost_core::exposed::{Exposed, ExposedKind};
use clawhost_core::grants::Grants;
use clawhost_core::manifest::{Manifest, McpServer};
use futures_util::future::select_all;
use tokio::sync::watch;

pub(super) use self::pins::{COMPONENT, Seen, Verdict};
pub use self::pins::{MIGRATIONS, Pin, PinState, Pins};
pub use self::plan::misplaced;
pub(super) use self::plan::{Plan, Use};
pub(super) use self::remote::Remote;
use super::Sources;
use crate::sandbox::{Backends, Sandbox};
use crate::upstream::mcp::{Server, ServerOffers, ServerParts, ServerPlan, State};

/// A tool of a server, by the server's own name for it.
#[derive(Debug)]
pub(crate) struct Bridged {
    sessions: Sessions,
    /// What it stands for, where it is no tool of the server.
    pub(crate) kind: Option<ExposedKind>,
    /// What the server says of it, which is what was accepted.
    pub(crate) definition: ToolDefinition,
    /// Where its server is, unless it is a program.
    pub(super) url: Option<String>,
    /// The policy of its server's entry.
    pub(super) policy: Option<String>,
    /// The digest of its definition, and of where the server is and how it is reached.
    pub(super) digest: String,
}

/// Who has a server's tools. The last one to let go ends it.
#[derive(Debug, Clone)]
struct Sessions {
    first: Server,
    /// The same by who comes, where several do: each has one of its own.
    own: Arc<[(Credential, Server)]>,
}

impl Bridged {
    /// Returns the server as who comes as `credential` has it: two never share a session. Nothing where nobody
    /// comes so.
    pub(crate) fn server(&self, credential: Option<&Credential>) -> Option<&Server> {
        let Sessions { first, own: all } = &self.sessions;
        let own = |credential| all.iter().find(|(known, _)| known == credential);
        match credential.filter(|_| !all.is_empty()) {
            Some(credential) => own(credential).map(|(_, server)| server),
            None => Some(first),
        }
    }
}

/// All servers of one host.
#[derive(Debug, Default)]
pub(super) struct Bridges {
    pub(super) connections: Vec<Connection>,
    /// What names a server that cannot be had.
    pub(super) refused: Vec<Refused>,
}

/// One server under one profile.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) plan: Plan,
    pub(super) tools: Vec<Remote>,
    /// The tools that stand for what it has beside tools.
    pub(super) beside: Vec<Remote>,
    /// What that is.
    pub(super) exposed: Arc<Exposed>,
    /// Why it cannot be called, the last time that was known.
    pub(super) failed: Option<String>,
    /// Attempts that failed since it could last be called.
    failures: u32,
    sessions: Sessions,
    offers: watch::Receiver<ServerOffers>,
    generation: u64,
    /// It was ready or failed at least once.
    is_known: bool,
    /// Nobody will say anything new of it.
    is_over: bool,
}

impl Bridges {
    /// Starts every server that the manifest needs; none is waited for. What was accepted of one is
    /// known at once.
    pub(super) async fn start(sources: &Sources) -> Self {
        let (plans, refused) = plan::plans(&sources.manifest, &crate::jail::find);
        let mut bridges = Self { connections: Vec::new(), refused };
        for plan in plans {
            let (at, uses) = (plan.title(), plan.uses.clone());
            match Connection::start(plan, sources).await {
                Ok(connection) => bridges.connections.push(connection),
                Err(reason) => {
                    bridges.refused.push(Refused::new(&at, &reason));
                    bridges.refused.extend(uses.iter().filter_map(|used| used.refused(&reason)));
                }
            }
        }
        bridges
    }

    pub(super) fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Says whether it is not known yet what one of them offers.
    pub(super) fn is_connecting(&self) -> bool {
        self.connections.iter().any(Connection::is_connecting)
    }

    /// Waits until one of them says something new; for ever where there is none.
    pub(super) async fn changed(&mut self) {
        let alive = self.connections.iter_mut().filter(|connection| !connection.is_over);
        let waits: Vec<_> = alive.map(|connection| Box::pin(connection.changed())).collect();
        if waits.is_empty() {
            return std::future::pending().await;
        }
        select_all(waits).await;
    }

    /// Takes in what is new.
    pub(super) async fn refresh(&mut self, sources: &Sources) {
        for connection in &mut self.connections {
            connection.refresh(sources, false).await;
        }
    }

    /// Asks again what is accepted: somebody else wrote to the store, and may have accepted or forgotten some of it.
    /// Says whether it is another way now.
    pub(super) async fn recheck(&mut self, sources: &Sources) -> bool {
        let mut changed = false;
        for connection in &mut self.connections {
            // Who cannot look now looks the next time; until then nothing is another way.
            let pins = sources.pins.list(Some(connection.plan.server.clone()), None).await;
            if let Ok(pins) = pins
                && connection.may_be_judged_otherwise(&pins)
            {
                changed |= connection.judge_again(&pins, sources).await;
            }
        }
        changed
    }

    /// Says whether `source` is one of these servers, of which another word on the same failure is no
    /// news.
    pub(super) fn has(&self, source: &str) -> bool {
        self.connections.iter().any(|connection| connection.plan.title() == source)
    }
}

impl Connection {
    async fn start(plan: Plan, sources: &Sources) -> Result<Self, String> {
        let schemas = sources.engine.schemas();
        let first = begun(&plan, sources)?;
        let offers = first.offers();
        let sessions = Sessions { own: own(&plan, &first, sources)?, first };
        let pins = sources.pins.list(Some(plan.server.clone()), None).await.unwrap_or_default();
        Ok(Self {
            tools: remote::accepted(&plan, &sessions, &pins, schemas),
            beside: remote::beside(&plan, &sessions, schemas),
            exposed: Arc::default(),
            plan,
            failed: None,
            failures: 0,
            sessions,
            offers,
            generation: 0,
            is_known: false,
            is_over: false,
        })
    }

    pub(super) fn is_connecting(&self) -> bool {
        !self.is_known && !self.is_over
    }

    /// Says whether it ever said what it has.
    pub(super) const fn has_spoken(&self) -> bool {
        self.generation > 0
    }

    /// Says whether a tool would be judged otherwise by what is kept now.
    fn may_be_judged_otherwise(&self, pins: &[Pin]) -> bool {
        let kept: BTreeMap<_, _> = pins.iter().map(|pin| (pin.tool.as_str(), pin)).collect();
        self.tools.iter().any(|tool| match &tool.pinned {
            Some(digest) => kept
                .get(remembered_as(&tool.name).as_str())
                .is_none_or(|pin| pin.is_due(digest, tool.waits)),
            None => tool.waits,
        })
    }

    /// Judges its tools by what is kept now. Says whether they are other ones.
    async fn judge_again(&mut self, pins: &[Pin], sources: &Sources) -> bool {
        if self.has_spoken() {
            return self.refresh(sources, true).await;
        }
        // It has said nothing that could be judged: what is served is what was accepted before.
        let schemas = sources.engine.schemas();
        self.tools = remote::accepted(&self.plan, &self.sessions, pins, schemas);
        true
    }

    async fn changed(&mut self) {
        // An error says that its task has ended, and that this is all there will be.
        self.is_over = self.offers.changed().await.is_err();
    }

    /// Takes in what the server says now. Says whether its tools are other ones.
    async fn refresh(&mut self, sources: &Sources, again: bool) -> bool {
        let ServerOffers { state, tools, exposed, generation, .. } =
            self.offers.borrow_and_update().clone();
        self.exposed = exposed;
        match state {
            State::Connecting => {}
            State::Ready => {
                if self.failures > 0 {
                    let (title, failures) = (self.plan.title(), self.failures);
                    tracing::info!("{title} is back after {failures} failures");
                }
                (self.is_known, self.failed, self.failures) = (true, None, 0);
            }
            State::Failed { reason, attempt, .. } => {
                (self.is_known, self.failed, self.failures) = (true, Some(reason), attempt);
            }
        }
        let is_news = generation != self.generation;
        if !is_news && !again {
            return false;
        }
        self.generation = generation;
        let before = std::mem::take(&mut self.tools);
        let standing = |tools: &[Remote]| -> Vec<_> {
            tools.iter().map(|tool| (tool.name.clone(), tool.waits)).collect()
        };
        let stood = standing(&before);
        let pins = if is_news { sources.pins.clone() } else { sources.pins.again() };
        self.tools = remote::read(&self.plan, &self.sessions, &tools, before, sources, &pins).await;
        !again || standing(&self.tools) != stood
    }
}

fn begun(plan: &Plan, sources: &Sources) -> Result<Server, String> {
    let backends = &sources.backends;
    let endpoint = plan.endpoint(grants(plan, &sources.manifest, backends)?);
    let parts = ServerParts { client: backends.client.clone(), secrets: backends.secrets.clone() };
    let (name, expose) = (plan.server.clone(), plan.expose.clone());
    Ok(Server::start(ServerPlan { name, endpoint, expose }, parts))
}

/// Returns the sessions of a service by who comes, of whom `first` is one; none where all come alike.
fn own(
    plan: &Plan,
    first: &Server,
    sources: &Sources,
) -> Result<Arc<[(Credential, Server)]>, String> {
    let all = descriptor::credentials(&sources.manifest.services, &plan.server);
    let Some((lead, others)) = all.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Ok(Arc::default());
    };
    let another = |credential: &&Credential| {
        let headers = descriptor::headers(credential).unwrap_or_default();
        let server = begun(&plan.clone().sending(headers), sources)?;
        Ok(((*credential).clone(), server))
    };
    let lead = Ok(((*lead).clone(), first.clone()));
    std::iter::once(lead).chain(others.iter().map(another)).collect()
}

/// Returns how a server is kept going that no host serves.
///
/// # Errors
/// Its program or profile is not there, or its profile cannot be held.
pub fn plan_alone(
    server: &McpServer,
    manifest: &Manifest,
    backends: &Backends,
) -> Result<ServerPlan, String> {
    let plan = plan::alone(server)?;
    let endpoint = plan.endpoint(grants(&plan, manifest, backends)?);
    Ok(ServerPlan { name: plan.server, endpoint, expose: plan.expose })
}

/// Returns what the jail of a program holds: the profile's own, opened where its paths lead.
fn grants(plan: &Plan, manifest: &Manifest, backends: &Backends) -> Result<Grants, String> {
    let profile = manifest.profile(&plan.profile);
    let profile =
        profile.ok_or_else(|| format!("there is no sandbox profile `{}`", plan.profile))?;
    let opened = Sandbox::open(profile.grants(None), backends.clone());
    let granted = opened.and_then(|sandbox| sandbox.native_grants());
    granted.map_err(|error| error.to_string())
}
