//! One server's tools, as far as they can be served: checked, compiled, and held against the pins.

use std::collections::BTreeSet;
use std::sync::Arc;

use clawhost_core::bridged::{BridgedName, pinned, remembered_as};
use clawhost_core::catalog::{Annotations, ToolDefinition};
use clawhost_core::digest;
use clawhost_core::exposed::ExposedKind;
use clawhost_core::manifest::McpReach;
use serde_json::Value;

use super::pins::{Pin, PinState, Pins, Seen, Verdict};
use super::{Bridged, Plan, Sessions};
use crate::engine::Schemas;
use crate::offload;
use crate::registry::Sources;
use crate::registry::offer::Offered;
use crate::registry::services::hints;

/// A tool that a server offers.
#[derive(Debug)]
pub(in crate::registry) struct Remote {
    /// The server's own name of it.
    pub(in crate::registry) name: String,
    /// What is served of it, or why nothing is.
    pub(in crate::registry) offered: Result<Ready, String>,
    /// The digest of what it says, where it is served as long as that is accepted.
    pub(super) pinned: Option<String>,
    /// Somebody has to accept it first.
    pub(in crate::registry) waits: bool,
}

/// A tool that can be served: what runs it, and its definition with its schemas compiled.
type Ready = (Arc<Bridged>, Offered);

/// Reads what a server says it has, held against `pins`. What is as it was `before` is kept.
pub(super) async fn read(
    plan: &Plan,
    sessions: &Sessions,
    tools: &[ToolDefinition],
    before: Vec<Remote>,
    sources: &Sources,
    pins: &Pins,
) -> Vec<Remote> {
    let alike = alike(tools);
    let one = |raw: &ToolDefinition| {
        if alike.contains(&remembered_as(&raw.name)) {
            return Err("another tool of its server is called alike: neither is served".to_owned());
        }
        let (mut ready, seen) = sound(plan, sessions, raw, &before, sources.engine.schemas())?;
        let Some(annotations) = described(plan, &raw.name, &ready.1, sources)? else {
            return Ok((ready, Some(seen)));
        };
        ready.1.definition.annotations = annotations;
        Ok((ready, None))
    };
    // Compiling hundreds of schemas takes a while.
    let sound = offload::blocking(!tools.is_empty(), || tools.iter().map(one).collect::<Vec<_>>());
    // What can never be served is not remembered either: it may be of any size.
    let seen = sound.iter().flatten().filter_map(|(_, seen)| seen.clone()).collect();
    let mut verdicts = pins.judge(&plan.server, seen).await.into_iter();
    let judged = tools.iter().zip(sound).map(|(raw, sound)| {
        let pinned = sound.as_ref().ok().and_then(|(_, seen)| Some(seen.as_ref()?.digest.clone()));
        let verdict = match pinned {
            Some(_) => verdicts.next().unwrap_or(Verdict::Unknown),
            None => Verdict::Accepted,
        };
        // Of what is not known yet it is asked again whatever is kept.
        let pinned = pinned.filter(|_| verdict != Verdict::Unknown);
        let offered = sound.and_then(|(ready, _)| match verdict.reason(&plan.server) {
            Some(reason) => Err(reason),
            None => Ok(ready),
        });
        Remote { name: raw.name.clone(), offered, pinned, waits: verdict.waits() }
    });
    judged.collect()
}

/// Returns what was accepted of a server that has not said anything yet: its tools are served at
/// once, and their calls wait for it.
pub(super) fn accepted(
    plan: &Plan,
    sessions: &Sessions,
    pins: &[Pin],
    schemas: &Schemas,
) -> Vec<Remote> {
    let one = |pin: &Pin| {
        let offered = Some(pin.offered.as_str()).filter(|_| pin.state() == PinState::Accepted)?;
        let mut kept: Value = serde_json::from_str(offered).ok()?;
        let raw: ToolDefinition =
            serde_json::from_value(kept.get_mut("definition")?.take()).ok()?;
        // Another address or command line is another server.
        let (ready, seen) = sound(plan, sessions, &raw, &[], schemas).ok()?;
        (seen.definition == offered).then_some(Remote {
            name: raw.name,
            offered: Ok(ready),
            pinned: Some(seen.digest),
            waits: false,
        })
    };
    offload::blocking(!pins.is_empty(), || pins.iter().filter_map(one).collect())
}

/// Returns the host's own tools that stand for what a server has beside tools: they are its words, so
/// there is nothing to accept.
pub(super) fn beside(plan: &Plan, sessions: &Sessions, schemas: &Schemas) -> Vec<Remote> {
    let one = |kind: &ExposedKind| {
        let definition = kind.definition();
        let offered = Offered::new(&definition, schemas).map(|offered| {
            let seen = pinned(&plan.endpoint, plan.reach(), &definition);
            let digest = digest::of_json(&seen);
            (Arc::new(bridged(plan, sessions, Some(*kind), definition, digest)), offered)
        });
        Remote { name: kind.method().to_owned(), offered, pinned: None, waits: false }
    };
    plan.expose.kinds.iter().map(one).collect()
}

/// Returns what a descriptor says a tool does, where one describes it: that is what was accepted of it then,
/// whatever was offered before, and no hint of the server's counts beside it.
///
/// # Errors
/// The server says something else about it.
fn described(
    plan: &Plan,
    tool: &str,
    offered: &Offered,
    sources: &Sources,
) -> Result<Option<Annotations>, String> {
    let Some(own) = sources.manifest.managed(&plan.server, tool) else { return Ok(None) };
    let (own, now) = (&own.tool, &offered.definition);
    let stated = hints(own);
    let is_now = |key| stated.hint(key).is_none_or(|is| now.annotations.hint(key) == Some(is));
    if Annotations::KEYS.into_iter().all(is_now)
        && own.description == now.description
        && digest::is_same(&own.input_schema, &now.input_schema)
    {
        return Ok(Some(stated));
    }
    let service = &plan.server;
    Err(format!(
        "its server says something else about it than the descriptor of `{service}`: look, write the descriptor anew (`clawhost discover {service}`), and compile its pod again"
    ))
}

/// Returns what several of these tools would be remembered as.
fn alike(tools: &[ToolDefinition]) -> BTreeSet<String> {
    let mut seen = BTreeSet::new();
    let names = tools.iter().map(|tool| remembered_as(&tool.name));
    names.filter(|name| !seen.insert(name.clone())).collect()
}

/// Returns a tool as it would be served, and what is to be remembered of it.
fn sound(
    plan: &Plan,
    sessions: &Sessions,
    raw: &ToolDefinition,
    before: &[Remote],
    schemas: &Schemas,
) -> Result<(Ready, Seen), String> {
    // Any server's name will do to find out whether the tool's own can be part of one.
    let name = BridgedName::of_server("tool", &raw.name)?.mcp;
    let definition = digest::canonical(&pinned(&plan.endpoint, plan.reach(), raw));
    let digest = digest::of_bytes(definition.as_bytes());
    let ready = match kept(before, &digest) {
        Some(ready) => ready,
        None => {
            // The stand-in's name says nothing to anybody.
            let own = |why: String| why.replace(&format!("`{name}`"), &format!("`{}`", raw.name));
            let definition = ToolDefinition { name: name.clone(), ..raw.clone() };
            let offered = Offered::new(&definition, schemas).map_err(own)?;
            (Arc::new(bridged(plan, sessions, None, raw.clone(), digest.clone())), offered)
        }
    };
    Ok((ready, Seen { tool: remembered_as(&raw.name), definition, digest }))
}

fn bridged(
    plan: &Plan,
    sessions: &Sessions,
    kind: Option<ExposedKind>,
    definition: ToolDefinition,
    digest: String,
) -> Bridged {
    let (sessions, policy) = (sessions.clone(), plan.policy.clone());
    let url = match plan.reach() {
        McpReach::Url { url, .. } => Some(url.to_string()),
        McpReach::Program { .. } => None,
    };
    Bridged { sessions, kind, definition, url, policy, digest }
}

/// Returns the tool of that definition, where it was there.
fn kept(before: &[Remote], digest: &str) -> Option<Ready> {
    let mut ready = before.iter().filter_map(|tool| tool.offered.as_ref().ok());
    ready.find(|(bridged, _)| bridged.digest == digest).cloned()
}
