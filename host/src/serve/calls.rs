//! What serving needs of a host: one narrow border, so that it can be tested against a bad one.
//!
//! Deliberately absent: every way around the gate. There is no method that reaches a tool without
//! its check, so no route of any dialect can.

use std::future::Future;
use std::sync::Arc;

use clawhost_core::catalog::{Catalog, Tool};
use clawhost_core::error::CallError;
use clawhost_core::reply::ToolReply;
use tokio::sync::watch;

use crate::host::{Host, Principal, ToolCall};

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
}
