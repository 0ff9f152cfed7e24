//! A host whose running calls are counted, so that a server knows when it may close.
//!
//! Deliberately absent: any bound. The host itself bounds its calls.

use std::future::Future;
use std::sync::Arc;

use clawhost_core::catalog::{Catalog, Tool};
use clawhost_core::error::CallError;
use clawhost_core::manifest::Manifest;
use clawhost_core::reply::ToolReply;
use tokio::sync::watch;

use crate::approvals::Approvals;
use crate::host::{Principal, ToolCall};
use crate::memory::Memory;
use crate::replay::Replay;
use crate::serve::calls::Calls;
use crate::serve::ckp::Transition;
use crate::swarm::Swarm;

/// Calls that pass through here are counted while they run.
#[derive(Debug, Clone)]
pub(super) struct Counted<C> {
    calls: C,
    running: Arc<watch::Sender<usize>>,
}

impl<C> Counted<C> {
    /// Returns `calls`, counted.
    pub(super) fn new(calls: C) -> Self {
        Self { calls, running: Arc::new(watch::Sender::new(0)) }
    }

    /// Returns how many calls run now.
    pub(super) fn running(&self) -> usize {
        *self.running.borrow()
    }

    /// Waits until none runs.
    pub(super) async fn idle(&self) {
        let mut running = self.running.subscribe();
        // The sender is ours, so this ends only with zero.
        let _ = running.wait_for(|running| *running == 0).await;
    }
}

/// One running call.
struct Place(Arc<watch::Sender<usize>>);

impl Place {
    fn take(running: &Arc<watch::Sender<usize>>) -> Self {
        running.send_modify(|running| *running += 1);
        Self(Arc::clone(running))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.send_modify(|running| *running = running.saturating_sub(1));
    }
}

impl<C: Calls> Calls for Counted<C> {
    fn call(
        &self,
        call: ToolCall,
    ) -> impl Future<Output = Result<ToolReply, CallError>> + Send + use<C> {
        let place = Place::take(&self.running);
        let call = self.calls.call(call);
        async move {
            let _place = place;
            call.await
        }
    }

    fn catalog(&self) -> Arc<Catalog> {
        self.calls.catalog()
    }

    fn catalog_version(&self) -> watch::Receiver<u64> {
        self.calls.catalog_version()
    }

    fn list(&self, principal: &Principal) -> Vec<Arc<Tool>> {
        self.calls.list(principal)
    }

    fn manifest(&self) -> &Manifest {
        self.calls.manifest()
    }

    fn approvals(&self) -> Option<&Approvals> {
        self.calls.approvals()
    }

    fn memory(&self) -> Option<&Memory> {
        self.calls.memory()
    }

    fn swarm(&self) -> Option<&Swarm> {
        self.calls.swarm()
    }

    fn replay(&self) -> Option<&Replay> {
        self.calls.replay()
    }

    fn transition(&self, step: Transition) {
        self.calls.transition(step);
    }
}
