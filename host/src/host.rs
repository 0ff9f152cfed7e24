//! The embedding surface: a [`Host`] holds one catalog, one gate and one record.
//!
//! The library reads no environment, no home folder and no terminal: everything comes in
//! through [`HostBuilder`].

mod builder;
mod reload;
mod services;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clawhost_core::catalog::{Catalog, Origin, Tool, meant};
use clawhost_core::error::CallError;
use clawhost_core::limits::FLUSH_MS;
use clawhost_core::manifest::{CatalogMode, Manifest, PinMode};
use clawhost_core::reply::ToolReply;
use serde_json::Value;
use tokio_util::task::TaskTracker;

pub use self::builder::{BuildError, HostBuilder};
pub use self::reload::ReloadError;
use self::reload::Stock;
pub use self::services::MIGRATIONS;
use self::services::Services;
use crate::approvals::Approvals;
use crate::audit::AuditLog;
use crate::dispatch::Dispatch;
pub use crate::dispatch::{Principal, Timings, ToolCall};
use crate::engine::{Allocator, Loaded};
use crate::gate::{CallContext, Rehearsal, Standing};
use crate::memory::Memory;
use crate::quarantine::Quarantine;
use crate::recording::Recordings;
use crate::registry::ToolCode;
use crate::registry::{Pin, Pins};
use crate::replay::Replay;
pub use crate::sandbox::ProgressSink;
use crate::secrets::Secrets;
use crate::state::{Database, DatabaseError};
use crate::swarm::Swarm;
pub use crate::switches::{Off, SwitchError, Switches, Turn};
use crate::telemetry::Telemetry;
use crate::upstream::mcp::Server;
use crate::upstream::provider::Providers;

/// A running tool host. Cheap to clone; the last clone ends it.
#[derive(Debug, Clone)]
pub struct Host(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dispatch: Arc<Dispatch>,
    /// Held while another manifest takes the place of the one in service.
    reloading: tokio::sync::Mutex<()>,
    services: Services,
    stock: Stock,
}

/// What became of a switch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Switched {
    /// The tool, by its CKP name.
    pub tool: String,
    /// Somebody offers a tool of that name now.
    pub is_known: bool,
    /// It was the other way before.
    pub changed: bool,
}

impl Host {
    fn new(dispatch: Arc<Dispatch>, services: Services, stock: Stock) -> Self {
        Self(Arc::new(Inner {
            dispatch,
            reloading: tokio::sync::Mutex::default(),
            services,
            stock,
        }))
    }

    /// Carries out one call. Dropping the future cancels it.
    ///
    /// # Errors
    /// See [`clawhost_core::error::ErrorKind`].
    pub async fn call(&self, call: ToolCall) -> Result<ToolReply, CallError> {
        // A type that holds all that a call may be is too deep for those that hold several.
        Box::pin(self.0.dispatch.call(call)).await
    }

    /// As [`Host::call`], and says where the time went.
    pub async fn call_timed(&self, call: ToolCall) -> (Result<ToolReply, CallError>, Timings) {
        Box::pin(self.0.dispatch.call_timed(call)).await
    }

    /// Returns the tools that the gate would not refuse `principal` outright, in a fixed order; where
    /// the catalog is for searching, only those that find and call the others.
    pub fn list(&self, principal: &Principal) -> Vec<Arc<Tool>> {
        let terms = self.0.dispatch.terms();
        let is_searched = terms.gate.manifest().catalog == CatalogMode::Search;
        let is_shown = |tool: &&Arc<Tool>| {
            (!is_searched || tool.origin == Origin::Own) && terms.gate.offers(tool, &principal.0)
        };
        terms.shelf.catalog().tools().filter(is_shown).cloned().collect()
    }

    /// Returns the component that `tool` is of; nothing where it is none.
    pub(crate) fn component(&self, tool: &str) -> Option<Arc<Loaded>> {
        match self.0.dispatch.terms().shelf.resolve(tool)?.code() {
            ToolCode::Component(loaded) => Some(Arc::clone(loaded)),
            _ => None,
        }
    }

    /// Returns the MCP server that has `tool`; nothing where none does.
    pub(crate) fn server(&self, tool: &str) -> Option<Server> {
        match self.0.dispatch.terms().shelf.resolve(tool)?.code() {
            ToolCode::Bridged(bridged) => bridged.server(None).cloned(),
            _ => None,
        }
    }

    /// Says whether `tool` is offered to `principal`: the decision that [`Host::list`] uses.
    pub fn offers(&self, tool: &Tool, principal: &Principal) -> bool {
        self.0.dispatch.terms().gate.offers(tool, &principal.0)
    }

    /// Says what would become of a call of `tool` by `agent`, or by one that has the tool, short of asking
    /// anybody; nothing where nobody offers it.
    pub fn rehearse(
        &self,
        tool: &str,
        arguments: Option<&Value>,
        agent: Option<&str>,
        context: &CallContext,
    ) -> Option<Rehearsal> {
        let terms = self.0.dispatch.terms();
        let resolved = terms.shelf.resolve(tool)?;
        Some(terms.gate.rehearse(&resolved, arguments, agent, context))
    }

    /// Says what would become of a call of `tool` with the best of arguments.
    pub fn standing(&self, tool: &Tool) -> Standing {
        self.0.dispatch.terms().gate.standing(tool)
    }

    /// Returns the CKP name that `tool` means, and whether somebody offers it now.
    ///
    /// # Errors
    /// It is no name that a tool can have.
    pub fn named(&self, tool: &str) -> Result<(String, bool), SwitchError> {
        match self.catalog().find(tool) {
            Some(tool) => Ok((tool.ckp_name.clone(), true)),
            None => Ok((meant(tool)?, false)),
        }
    }

    /// Turns the operator's switch of a tool, by any of its names, and tells clients. It is for whoever
    /// may decide about the host, never for one of its agents; `by` and `reason` are recorded, and
    /// callers read the reason.
    ///
    /// # Errors
    /// [`SwitchError`].
    pub async fn switch(
        &self,
        tool: &str,
        to: Turn,
        by: &str,
        reason: Option<&str>,
    ) -> Result<Switched, SwitchError> {
        let (tool, is_known) = self.named(tool)?;
        let done = self.switches().turn(&tool, to, by, reason).await;
        self.0.dispatch.terms().shelf.touch();
        Ok(Switched { tool, is_known, changed: done? })
    }

    /// Returns what the operator has switched off.
    pub fn switches(&self) -> &Switches {
        &self.0.services.switches
    }

    /// Returns the catalog in service.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.0.dispatch.terms().shelf.catalog()
    }

    /// Returns a receiver that changes with the catalog.
    pub fn catalog_version(&self) -> tokio::sync::watch::Receiver<u64> {
        self.0.dispatch.terms().shelf.versions()
    }

    /// Returns the questions that wait for a person, and the way to answer them.
    pub fn approvals(&self) -> &Approvals {
        &self.0.services.approvals
    }

    /// Returns what knows which tools rest, as they failed again and again.
    pub fn quarantine(&self) -> &Quarantine {
        &self.0.services.quarantine
    }

    /// Returns what the agents remember.
    pub fn memory(&self) -> &Memory {
        &self.0.services.memory
    }

    /// Returns the requests that are answered again rather than run again.
    pub fn replay(&self) -> &Replay {
        &self.0.services.replay
    }

    /// Returns the language model providers, and what was used of them.
    pub fn providers(&self) -> &Providers {
        &self.0.services.providers
    }

    /// Returns the store.
    pub(crate) fn database(&self) -> &Database {
        &self.0.stock.database
    }

    /// Returns the record.
    pub(crate) fn audit(&self) -> &AuditLog {
        &self.0.stock.audit
    }

    /// Returns the recordings of calls.
    pub(crate) fn recordings(&self) -> &Recordings {
        self.0.dispatch.recordings()
    }

    /// Returns what was accepted of what MCP servers say.
    pub(crate) fn pins(&self) -> Pins {
        Pins::new(
            self.database().clone(),
            Some(Arc::clone(&self.0.stock.audit)),
            PinMode::default(),
        )
    }

    /// Accepts what MCP servers say in `pins`, if that is still what they say; it is served within a
    /// second. Returns how many it was.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub(crate) async fn accept(&self, pins: Vec<Pin>) -> Result<usize, DatabaseError> {
        let done = self.pins().accept(pins).await;
        self.0.services.accepted.fetch_add(1, Ordering::Relaxed);
        done
    }

    /// Counts the calls that are under way.
    pub(crate) fn running(&self) -> &TaskTracker {
        self.0.dispatch.running()
    }

    /// Returns the secrets of the host, and what keeps them out of sight.
    pub fn secrets(&self) -> &Secrets {
        &self.0.services.secrets
    }

    /// Returns the swarms that this host serves.
    pub fn swarm(&self) -> &Swarm {
        &self.0.services.swarm
    }

    /// Returns the identities that agents speak as in swarms.
    pub(crate) fn identities(&self) -> &BTreeMap<String, String> {
        &self.0.services.identities
    }

    /// Returns where measurements go.
    pub fn telemetry(&self) -> &Telemetry {
        &self.0.services.telemetry
    }

    /// Hands over what telemetry, channels and the copies of the record still hold, before the host goes;
    /// what is not taken within `patience` is lost there. The record itself is complete, and signed then; so is
    /// the store.
    pub async fn flush(&self, patience: Duration) {
        let telemetry = self.telemetry().flush(Instant::now() + patience);
        let channels = self.0.services.channels.flush(patience);
        let store = tokio::time::timeout(patience, self.database().settle());
        drop(tokio::join!(telemetry, channels, self.0.stock.audit.flush(patience), store));
    }

    /// Ends what the host does: nobody is asked any more, calls have `grace` to end, and what others
    /// are owed is handed over. Whoever holds the host sends it no further call.
    pub async fn shutdown(&self, grace: Duration) {
        self.approvals().close();
        drop(tokio::time::timeout(grace, self.running().wait()).await);
        self.flush(Duration::from_millis(FLUSH_MS)).await;
    }

    /// Returns the manifest the host runs.
    pub fn manifest(&self) -> Arc<Manifest> {
        Arc::clone(self.0.dispatch.terms().gate.manifest())
    }

    /// Returns where instances get their memory.
    pub fn allocator(&self) -> Allocator {
        self.0.stock.engine.allocator()
    }
}
