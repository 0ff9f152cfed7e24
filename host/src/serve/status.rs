//! The operator's look at a host: the same over HTTP and on the control socket.

use serde_json::{Value, json};
use tokio::time::Instant;

use super::calls::Calls;

/// Says what a host serves, and what it does now, `started` being when it began to serve.
pub(super) fn status<C: Calls>(calls: &C, started: Instant) -> Value {
    let (catalog, services) = (calls.catalog(), calls.services());
    let tools = catalog.tools().map(|tool| {
        json!({
            "name": tool.definition.name, "ckp_name": tool.ckp_name,
            "digest": tool.digest, "origin": tool.origin.to_string(),
        })
    });
    let refused = catalog
        .refused
        .iter()
        .map(|refused| json!({"source": refused.source, "reason": refused.reason}));
    json!({
        "name": "clawhost",
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "uptime_ms": u64::try_from(started.elapsed().as_millis()).unwrap_or(u64::MAX),
        "calls_running": services.running.len(),
        "pending": services.approvals.pending().len(),
        "catalog_version": catalog.version,
        "tools": Value::from_iter(tools),
        "loading": catalog.loading,
        "refused": Value::from_iter(refused),
    })
}
