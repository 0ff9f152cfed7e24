//! Binding the tools of MCP servers: which of them are served, and under which names.

use std::sync::Arc;

use clawhost_core::bridged::BridgedName;
use clawhost_core::catalog::{Origin, Refused, Tool, ckp_name};
use clawhost_core::exposed::{Served, shared};
use clawhost_core::manifest::{Manifest, ToolBinding};
use clawhost_core::screen;

use super::{Binder, CatalogDraft, Source, reserved};
use crate::registry::ToolCode;
use crate::registry::bridge::{Connection, Remote, Use};
use crate::registry::offer::Offered;

impl Binder {
    /// Serves what documents and open entries ask for, in their order.
    pub(super) fn bind_bridges(&self, draft: &mut CatalogDraft) {
        draft.catalog.refused.extend(self.bridges.refused.iter().cloned());
        draft.catalog.refused.extend(self.sources.manifest.broken_services.iter().cloned());
        let sourced = self.sources.manifest.tools.iter().filter(|binding| binding.mcp.is_some());
        // Whatever becomes of its server, it was said.
        draft.offered.extend(sourced.map(|binding| binding.name.clone()));
        for connection in &self.bridges.connections {
            self.bind_connection(draft, connection);
        }
        draft.notes.extend(shared(&draft.catalog.exposed));
    }

    fn bind_connection(&self, draft: &mut CatalogDraft, connection: &Connection) {
        let title = connection.plan.title();
        if connection.is_connecting() {
            draft.catalog.loading.push(title.clone());
            draft.catalog.awaited.extend(connection.plan.uses.iter().map(|used| match used {
                Use::All | Use::Service | Use::Skills => connection.plan.server.clone(),
                Use::Document(binding) => binding.name.clone(),
            }));
            let exposes = !connection.plan.expose.kinds.is_empty();
            draft.catalog.awaited.extend(exposes.then(|| connection.plan.server.clone()));
        }
        if let Some(reason) = &connection.failed {
            draft.catalog.refused.push(Refused::new(&title, reason));
        }
        for asked in &connection.plan.uses {
            match asked {
                Use::All => self.bind_all(draft, connection, |_, _| true),
                Use::Service => self.bind_all(draft, connection, |_, tool| {
                    self.sources.manifest.managed(&connection.plan.server, tool).is_some()
                }),
                Use::Skills => {
                    self.bind_all(draft, connection, |name, _| {
                        self.sources.manifest.skills.name(name)
                    });
                }
                Use::Document(binding) => self.bind_document(draft, connection, binding),
            }
        }
        self.bind_beside(draft, connection);
        let internal = connection.tools.len();
        if connection.plan.uses.is_empty() && internal > 0 {
            let at = &connection.plan.at;
            draft.notes.push(format!("{at}: {title} has {internal} tools, and none is served: name them by `mcp_source` of a Tool, or write `internal_only: false`"));
        }
    }

    /// Serves what an entry's server has, of that what `is_wanted` by its name here and there.
    fn bind_all(
        &self,
        draft: &mut CatalogDraft,
        connection: &Connection,
        is_wanted: impl Fn(&str, &str) -> bool,
    ) {
        let name = |remote: &Remote| BridgedName::of_server(&connection.plan.server, &remote.name);
        let wanted =
            |remote: &&Remote| name(remote).is_ok_and(|name| is_wanted(&name.mcp, &remote.name));
        // One without a name is told of as one that was to be served.
        let fits = |remote: &&Remote| name(remote).is_err() || wanted(remote);
        for remote in connection.tools.iter().filter(fits) {
            self.bind_listed(draft, connection, remote);
        }
    }

    /// Serves what it has beside tools, where the tool that stands for it is served.
    fn bind_beside(&self, draft: &mut CatalogDraft, connection: &Connection) {
        // Nobody knows yet whether it is the server that the operator saw.
        if !connection.has_spoken() {
            return;
        }
        // What they say cannot be pinned, but they come from that server.
        if connection.tools.iter().any(|remote| remote.waits) {
            let reason = "a tool of its server has changed: what it exposes waits as well";
            for remote in &connection.beside {
                draft.refuse_tool(&origin(connection, remote), &remote.name, reason);
            }
            return;
        }
        for (remote, kind) in connection.beside.iter().zip(&connection.plan.expose.kinds) {
            let Some(name) = self.bind_listed(draft, connection, remote) else { continue };
            let is_served = |tool: &Arc<Tool>| tool.origin == origin(connection, remote);
            if draft.catalog.find(&name.mcp).is_some_and(is_served) {
                let lists = Arc::clone(&connection.exposed);
                draft.catalog.exposed.push(Served { kind: *kind, tool: name.mcp, lists });
            }
        }
    }

    /// Serves a tool of an entry's server, under the document of its name where there is one. Returns
    /// its name, where it can have one.
    fn bind_listed(
        &self,
        draft: &mut CatalogDraft,
        connection: &Connection,
        remote: &Remote,
    ) -> Option<BridgedName> {
        let plan = &connection.plan;
        let name = self.named(draft, connection, &plan.server, remote)?;
        let own = ToolBinding {
            sandbox: plan.profile.clone(),
            at: plan.at.clone(),
            ..ToolBinding::default()
        };
        let binding = self.listed(&name.ckp).cloned().unwrap_or(own);
        if binding.sandbox != plan.profile {
            let reason = format!(
                "tool `{}`: {} puts it under `{}`, and its server runs under `{}`: name the same one, or write a Tool with `mcp_source`",
                name.mcp, binding.at, binding.sandbox, plan.profile
            );
            draft.refuse_tool(&origin(connection, remote), &name.mcp, &reason);
            return None;
        }
        self.bind_remote(draft, connection, remote, &name, binding);
        Some(name)
    }

    /// Serves the tool that a document names, or the one that is called like it, or all.
    fn bind_document(
        &self,
        draft: &mut CatalogDraft,
        connection: &Connection,
        binding: &ToolBinding,
    ) {
        let refuse = |reason: &str| {
            let reason = format!("tool `{}`: {} {reason}", binding.name, connection.plan.title());
            Refused::new(&binding.at, &reason).of(&binding.name).upstream()
        };
        if connection.tools.is_empty() {
            if connection.is_connecting() {
                return;
            }
            if let Some(reason) = &connection.failed {
                return draft.catalog.refused.push(refuse(&format!("does not answer: {reason}")));
            }
        }
        let wanted = binding.mcp.as_ref().and_then(|source| source.tool.as_deref());
        let called = |remote: &&Remote| match wanted {
            Some(wanted) => remote.name == wanted,
            None => ckp_name(&remote.name) == binding.name,
        };
        let one = connection.tools.iter().find(called);
        if let Some(remote) = one {
            let name = BridgedName::of_document(&binding.name, &remote.name);
            return self.bind_remote(draft, connection, remote, &name, binding.clone());
        }
        if connection.is_connecting() {
            return;
        }
        if let Some(wanted) = wanted {
            let names: Vec<&str> = connection.tools.iter().map(|tool| tool.name.as_str()).collect();
            let reason = format!("has no `{wanted}`; it has {}", names.join(", "));
            return draft.catalog.refused.push(refuse(&reason));
        }
        for remote in &connection.tools {
            if let Some(name) = self.named(draft, connection, &binding.name, remote) {
                self.bind_remote(draft, connection, remote, &name, binding.clone());
            }
        }
    }

    fn bind_remote(
        &self,
        draft: &mut CatalogDraft,
        connection: &Connection,
        remote: &Remote,
        name: &BridgedName,
        binding: ToolBinding,
    ) {
        let origin = origin(connection, remote);
        if self.is_built_in(&name.ckp) {
            return draft.refuse_tool(&origin, &name.mcp, &reserved(&name.mcp));
        }
        let (bridged, offered) = match &remote.offered {
            Ok(ready) => ready.clone(),
            Err(reason) => {
                let reason = format!("tool `{}`: {reason}", name.mcp);
                return draft.refuse_tool(&origin, &name.mcp, &reason);
            }
        };
        if let Some(what) = screen::instructions(&offered.definition.description) {
            draft.notes.push(format!(
                "{origin}: what it says about `{}` may be meant to steer a model ({what})",
                name.mcp
            ));
        }
        let mut offered = Offered { ckp_name: name.ckp.clone(), ..offered };
        offered.definition.name.clone_from(&name.mcp);
        let sandbox = connection.plan.profile.clone();
        let binding = ToolBinding { name: name.ckp.clone(), sandbox, ..binding };
        let source = Source { origin: &origin, code: ToolCode::Bridged(bridged) };
        self.bind(draft, &source, &offered, Some(&binding));
    }

    /// Returns the names of a tool of `server`; one that can have none, or one of another server's,
    /// is refused.
    fn named(
        &self,
        draft: &mut CatalogDraft,
        connection: &Connection,
        server: &str,
        remote: &Remote,
    ) -> Option<BridgedName> {
        let name = BridgedName::of_server(server, &remote.name).and_then(|name| {
            match owner(&self.sources.manifest, server, &name.ckp) {
                None => Ok(name),
                Some(other) => Err(format!(
                    "tool `{}`: policies and documents know it as `{}`, which is a name of `{other}`: call one of the two servers otherwise",
                    name.mcp, name.ckp
                )),
            }
        });
        let refuse =
            |reason: String| draft.refuse_tool(&origin(connection, remote), &remote.name, &reason);
        name.map_err(refuse).ok()
    }
}

/// Returns the server or document, other than `own`, whose name a tool's begins with: of several the
/// longest counts, whatever it offers. So no server takes a name from another.
fn owner<'m>(manifest: &'m Manifest, own: &str, ckp: &str) -> Option<&'m str> {
    let lower = |name: &str| ckp_name(name).to_ascii_lowercase();
    let (tool, servers) = (lower(ckp), manifest.mcp_servers.iter().map(|one| one.name.as_str()));
    let documents = manifest.tools.iter().filter(|binding| binding.mcp.is_some());
    let names = servers.chain(documents.map(|binding| binding.name.as_str()));
    let begins = |name: &&str| {
        let rest = tool.strip_prefix(&lower(name));
        name.len() > own.len() && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    names.filter(begins).max_by_key(|name| name.len())
}

fn origin(connection: &Connection, remote: &Remote) -> Origin {
    Origin::Bridged { server: connection.plan.server.clone(), tool: remote.name.clone() }
}
