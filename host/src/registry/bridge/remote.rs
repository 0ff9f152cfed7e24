//! One server's tools, as far as they can be served: checked, compiled, and held against the pins.

use std::sync::Arc;

use clawhost_core::bridged::{BridgedName, cleaned, pinned};
use clawhost_core::catalog::ToolDefinition;
use clawhost_core::digest;
use clawhost_core::manifest::McpEndpoint;

use super::pins::Seen;
use super::{Bridged, Pins, Plan};
use crate::offload;
use crate::registry::offer::Offered;
use crate::upstream::mcp::Server;

/// A tool that a server offers.
#[derive(Debug)]
pub(in crate::registry) struct Remote {
    /// The server's own name of it.
    pub(in crate::registry) name: String,
    /// What is served of it, or why nothing is.
    pub(in crate::registry) offered: Result<(Arc<Bridged>, Offered), String>,
    /// Somebody has to accept it first.
    pub(super) waits: bool,
}

/// Reads what `server` says it has. What is as it was `before` is kept.
pub(super) async fn read(
    plan: &Plan,
    server: &Server,
    tools: &[ToolDefinition],
    before: Vec<Remote>,
    pins: &Pins,
) -> Vec<Remote> {
    // What can never be served is not remembered either: it may be of any size.
    let all = || tools.iter().map(definition).collect::<Vec<_>>();
    let definitions = offload::blocking(!tools.is_empty(), all);
    let sound = tools.iter().zip(&definitions).filter(|(_, definition)| definition.is_ok());
    let seen = sound.map(|(tool, _)| Seen::of(&plan.endpoint, tool)).collect();
    let mut verdicts = pins.judge(&plan.server, seen).await.into_iter();
    let mut one = |(raw, definition): (&ToolDefinition, Result<ToolDefinition, String>)| {
        let name = raw.name.clone();
        let unjudged = || "it was not compared with what was accepted".to_owned();
        let judged = definition.and_then(|it| Ok((it, verdicts.next().ok_or_else(unjudged)?)));
        let (definition, (digest, verdict)) = match judged {
            Ok(judged) => judged,
            Err(reason) => return Remote { name, offered: Err(reason), waits: false },
        };
        let offered = match verdict.reason(&plan.server) {
            Some(reason) => Err(reason),
            None => kept(&before, &name, &digest)
                .map_or_else(|| offered(server, &name, &definition, digest), Ok),
        };
        Remote { name, offered, waits: verdict.waits() }
    };
    // Compiling hundreds of schemas takes a while.
    offload::blocking(!tools.is_empty(), || tools.iter().zip(definitions).map(&mut one).collect())
}

/// Returns what a server says of a tool as it may be shown.
fn definition(raw: &ToolDefinition) -> Result<ToolDefinition, String> {
    // Any server's name will do to find out whether the tool's own can be part of one.
    cleaned(raw, &BridgedName::of_server("tool", &raw.name)?.mcp)
}

/// Returns the tool of that name and definition, where it was there.
fn kept(before: &[Remote], name: &str, digest: &str) -> Option<(Arc<Bridged>, Offered)> {
    let offers = before.iter().filter(|tool| tool.name == name);
    let mut ready = offers.filter_map(|tool| tool.offered.as_ref().ok());
    ready.find(|(bridged, _)| bridged.digest == digest).cloned()
}

fn offered(
    server: &Server,
    name: &str,
    definition: &ToolDefinition,
    digest: String,
) -> Result<(Arc<Bridged>, Offered), String> {
    let offered = Offered::new(definition)?;
    let bridged = Bridged { server: server.clone(), tool: name.to_owned(), digest };
    Ok((Arc::new(bridged), offered))
}

impl Seen {
    fn of(endpoint: &McpEndpoint, raw: &ToolDefinition) -> Self {
        let definition = digest::canonical(&pinned(endpoint, raw));
        Self { tool: raw.name.clone(), definition }
    }
}
