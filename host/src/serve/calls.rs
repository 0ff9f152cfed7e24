//! What serving needs of a host: one narrow border, so that it can be tested against a bad one.
//!
//! Deliberately absent: every way around the gate. There is no method that reaches a tool without
//! its check, so no route of any dialect can.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use clawhost_core::catalog::{Catalog, Tool};
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::manifest::Manifest;
use clawhost_core::reply::ToolReply;
use futures_util::FutureExt as _;
use tokio::sync::watch;
use tokio_util::task::TaskTracker;

use crate::approvals::Approvals;
use crate::host::{Host, Principal, ToolCall};
use crate::memory::Memory;
use crate::replay::Replay;
use crate::secrets::Secrets;
use crate::swarm::Swarm;
use crate::telemetry::Telemetry;

/// A host, as the dialects see it.
pub(crate) trait Calls: Clone + Send + Sync + 'static {
    /// Runs one call through the gate. Dropping the future cancels the call.
    fn call(
        &self,
        call: ToolCall,
    ) -> impl Future<Output = Result<ToolReply, CallError>> + Send + use<Self>;

    fn catalog(&self) -> Arc<Catalog>;

    /// Returns a receiver that changes with the catalog.
    fn catalog_version(&self) -> watch::Receiver<u64>;

    /// Returns the tools `principal` may see, in a fixed order.
    fn list(&self, principal: &Principal) -> Vec<Arc<Tool>>;

    fn services(&self) -> Services<'_>;

    /// Returns the whole host, for its operator and for its proxy, where there is one.
    fn host(&self) -> Option<Host> {
        None
    }
}

/// What a host has beside its tools, as the dialects use it. What a host does not have is refused.
#[derive(Debug, Clone)]
pub(crate) struct Services<'a> {
    pub(crate) approvals: &'a Approvals,
    /// Who agents are in swarms, where that is not the host's own identity.
    pub(crate) identities: &'a BTreeMap<String, String>,
    pub(crate) manifest: Arc<Manifest>,
    pub(crate) memory: Option<&'a Memory>,
    /// Answers a repeated request as before; without it a request is carried out again.
    pub(crate) replay: Option<&'a Replay>,
    pub(crate) running: &'a TaskTracker,
    pub(crate) secrets: &'a Secrets,
    pub(crate) swarm: Option<&'a Swarm>,
    pub(crate) telemetry: &'a Telemetry,
}

/// Carries a call out. A defect that panics is still an answer: a request without one would hold
/// its connection open.
pub(crate) async fn guarded<T>(
    call: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    AssertUnwindSafe(call).catch_unwind().await.unwrap_or_else(|_| Err(host_failed()))
}

/// Returns what a defect of the host is answered with.
pub(crate) fn host_failed() -> CallError {
    CallError::new(ErrorKind::Internal, "the host failed; please report this")
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

    fn services(&self) -> Services<'_> {
        Services {
            approvals: self.approvals(),
            identities: self.identities(),
            manifest: self.manifest(),
            memory: Some(self.memory()),
            replay: Some(self.replay()),
            running: self.running(),
            secrets: self.secrets(),
            swarm: Some(self.swarm()),
            telemetry: self.telemetry(),
        }
    }

    fn host(&self) -> Option<Host> {
        Some(self.clone())
    }
}
