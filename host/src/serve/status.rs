//! The operator's look at a host: the same over HTTP, on the control socket and on the command line.

use std::path::Path;

use clawhost_core::catalog::{Catalog, Refused};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::calls::Calls;
use crate::clock::whole_ms;
use crate::host::Host;

/// Says what a host serves, and what it does now, `started` being when it began to serve.
pub(super) fn status<C: Calls>(calls: &C, started: Instant) -> Value {
    let (catalog, services) = (calls.catalog(), calls.services());
    let tools = catalog.tools().map(|tool| {
        json!({
            "name": tool.definition.name, "ckp_name": tool.ckp_name,
            "digest": tool.digest, "origin": tool.origin.to_string(),
        })
    });
    json!({
        "name": "clawhost",
        "version": env!("CARGO_PKG_VERSION"),
        "pid": std::process::id(),
        "uptime_ms": whole_ms(started.elapsed()),
        "calls_running": services.running.len(),
        "pending": services.approvals.pending().len(),
        "catalog_version": catalog.version,
        "tools": Value::from_iter(tools),
        "loading": catalog.loading,
        "refused": refused(&catalog),
    })
}

/// Says of each tool what it is, what it may touch and what becomes of a call of it; `place` says what to
/// call a folder.
pub(crate) fn tools(host: &Host, catalog: &Catalog, place: fn(&Path) -> String) -> Value {
    let tools = catalog.tools().map(|tool| {
        json!({
            "name": tool.definition.name,
            "uri": format!("claw://local/tool/{}", tool.ckp_name),
            "kind": tool.origin.kind(),
            "origin": tool.origin.to_string(),
            "digest": tool.digest,
            "sandbox": tool.grants.profile,
            "may_touch": tool.calls().unwrap_or_else(|| tool.grants.touches(place)),
            "timeout_ms": whole_ms(tool.timeout()),
            "policy": host.standing(tool).name(),
            "quarantine": host.quarantine().resting(&tool.ckp_name),
        })
    });
    json!({
        "tools": Value::from_iter(tools), "refused": refused(catalog),
        "notes": catalog.notes, "loading": catalog.loading,
    })
}

fn refused(catalog: &Catalog) -> Value {
    let told = |one: &Refused| json!({"source": one.source, "reason": one.reason});
    catalog.refused.iter().map(told).collect()
}
