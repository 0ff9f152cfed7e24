//! What serving needs of a host: one narrow border, so that it can be tested against a bad one.
//!
//! Deliberately absent: every way around the gate. There is no method that reaches a tool without
//! its check, so no route of any dialect can.

use std::future::Future;
use std::sync::Arc;

use clawhost_core::catalog::{Catalog, Tool};
use clawhost_core::error::CallError;
use clawhost_core::manifest::Manifest;
use clawhost_core::reply::ToolReply;
use tokio::sync::watch;

use super::ckp::Transition;
use crate::approvals::Approvals;
use crate::host::{Host, Principal, ToolCall};
use crate::memory::Memory;
use crate::replay::Replay;
use crate::swarm::Swarm;
use crate::telemetry::Event;

/// A host, as the dialects see it.
pub(crate) trait Calls: Clone + Send + Sync + 'static {
    /// Runs one call through the gate. Dropping the future cancels the call.
    fn call(
        &self,
        call: ToolCall,
    ) -> impl Future<Output = Result<ToolReply, CallError>> + Send + use<Self>;

    /// Returns the catalog of this moment.
    fn catalog(&self) -> Arc<Catalog>;

    /// Returns a receiver that changes with the catalog.
    fn catalog_version(&self) -> watch::Receiver<u64>;

    /// Returns the tools `principal` may see, in a fixed order.
    fn list(&self, principal: &Principal) -> Vec<Arc<Tool>>;

    /// Returns the manifest the host runs.
    fn manifest(&self) -> &Manifest;

    /// Returns where calls wait for a person; without one nothing can be approved.
    fn approvals(&self) -> Option<&Approvals> {
        None
    }

    /// Returns the memory stores; without any, nothing is remembered.
    fn memory(&self) -> Option<&Memory> {
        None
    }

    /// Returns the swarms; without any, there is nobody to give work to.
    fn swarm(&self) -> Option<&Swarm> {
        None
    }

    /// Returns what answers a repeated request as before; without one it is carried out again.
    fn replay(&self) -> Option<&Replay> {
        None
    }

    /// Hears what became of something beside a tool call.
    fn told(&self, _event: Event) {}

    /// Hears of a step in a session's life.
    fn transition(&self, _step: Transition) {}
}

impl Calls for Host {
    fn call(
        &self,
        call: ToolCall,
    ) -> impl Future<Output = Result<ToolReply, CallError>> + Send + use<> {
        let host = self.clone();
        async move { Self::call(&host, call).await }
    }

    fn catalog(&self) -> Arc<Catalog> {
        Self::catalog(self)
    }

    fn catalog_version(&self) -> watch::Receiver<u64> {
        Self::catalog_version(self)
    }

    fn list(&self, principal: &Principal) -> Vec<Arc<Tool>> {
        Self::list(self, principal)
    }

    fn manifest(&self) -> &Manifest {
        Self::manifest(self)
    }

    fn approvals(&self) -> Option<&Approvals> {
        Some(Self::approvals(self))
    }

    fn memory(&self) -> Option<&Memory> {
        Some(Self::memory(self))
    }

    fn swarm(&self) -> Option<&Swarm> {
        Some(Self::swarm(self))
    }

    fn replay(&self) -> Option<&Replay> {
        Some(Self::replay(self))
    }

    fn told(&self, event: Event) {
        self.telemetry().emit(event);
    }

    fn transition(&self, step: Transition) {
        let duration_ms = u64::try_from(step.lasted.as_millis()).unwrap_or(u64::MAX);
        self.telemetry().emit(Event::Lifecycle { from: step.from, to: step.to, duration_ms });
    }
}
