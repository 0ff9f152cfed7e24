//! Binding the tools of MCP servers: which of them are served, and under which names.

use clawhost_core::bridged::BridgedName;
use clawhost_core::catalog::{Origin, Refused, ckp_name};
use clawhost_core::manifest::ToolBinding;
use clawhost_core::screen;

use super::{Binder, Draft, Source, reserved};
use crate::registry::Code;
use crate::registry::bridge::{Connection, Remote, Use};
use crate::registry::offer::Offered;

impl Binder {
    /// Serves what documents and open entries ask for, in their order.
    pub(super) fn bind_bridges(&self, draft: &mut Draft) {
        draft.catalog.refused.extend(self.bridges.refused.iter().cloned());
        let sourced = self.sources.manifest.tools.iter().filter(|binding| binding.mcp.is_some());
        // Whatever becomes of its server, it was said.
        draft.offered.extend(sourced.map(|binding| binding.name.clone()));
        for connection in &self.bridges.connections {
            self.bind_connection(draft, connection);
        }
    }

    fn bind_connection(&self, draft: &mut Draft, connection: &Connection) {
        let title = connection.plan.title();
        if connection.is_connecting() {
            draft.catalog.loading.push(title.clone());
        }
        if let Some(reason) = &connection.failed {
            draft.catalog.refused.push(Refused::new(&title, reason));
        }
        for asked in &connection.plan.uses {
            match asked {
                Use::All => self.bind_all(draft, connection),
                Use::Document(binding) => self.bind_document(draft, connection, binding),
            }
        }
        let internal = connection.tools.len();
        if connection.plan.uses.is_empty() && internal > 0 {
            let at = &connection.plan.at;
            draft.notes.push(format!("{at}: {title} has {internal} tools, and none is served: name them by `mcp_source` of a Tool, or write `internal_only: false`"));
        }
    }

    /// Serves everything that an entry's server has, each under the document of its name where there
    /// is one.
    fn bind_all(&self, draft: &mut Draft, connection: &Connection) {
        let plan = &connection.plan;
        for remote in &connection.tools {
            let Some(name) = named(draft, connection, &plan.server, remote) else { continue };
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
                continue;
            }
            self.bind_remote(draft, connection, remote, &name, binding);
        }
    }

    /// Serves the tool that a document names, or the one that is called like it, or all.
    fn bind_document(&self, draft: &mut Draft, connection: &Connection, binding: &ToolBinding) {
        if connection.is_connecting()
            || (connection.tools.is_empty() && connection.failed.is_some())
        {
            return;
        }
        let wanted = binding.mcp.as_ref().and_then(|source| source.tool.as_deref());
        let called = |remote: &&Remote| match wanted {
            Some(wanted) => remote.name == wanted,
            None => ckp_name(&remote.name) == binding.name,
        };
        let one = connection.tools.iter().find(called);
        if let Some(remote) = one {
            let name = BridgedName::of_document(&binding.name);
            return self.bind_remote(draft, connection, remote, &name, binding.clone());
        }
        if let Some(wanted) = wanted {
            let names: Vec<&str> = connection.tools.iter().map(|tool| tool.name.as_str()).collect();
            let reason = format!(
                "tool `{}`: {} has no `{wanted}`; it has {}",
                binding.name,
                connection.plan.title(),
                names.join(", ")
            );
            let refused = Refused::new(&binding.at, &reason).of(&binding.name);
            return draft.catalog.refused.push(refused);
        }
        for remote in &connection.tools {
            if let Some(name) = named(draft, connection, &binding.name, remote) {
                self.bind_remote(draft, connection, remote, &name, binding.clone());
            }
        }
    }

    fn bind_remote(
        &self,
        draft: &mut Draft,
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
        let plan = &connection.plan;
        let policy = match (&binding.policy, &plan.policy) {
            (Some(own), Some(servers)) if own != servers => {
                let reason = format!(
                    "tool `{}`: its document names the policy `{own}` and its server's entry \
                     `{servers}`: one of them has to hold all that is to bind it",
                    name.mcp
                );
                return draft.refuse_tool(&origin, &name.mcp, &reason);
            }
            (own, servers) => own.clone().or_else(|| servers.clone()),
        };
        let sandbox = plan.profile.clone();
        let binding = ToolBinding { name: name.ckp.clone(), sandbox, policy, ..binding };
        let source = Source { origin: &origin, code: Code::Bridged(bridged) };
        self.bind(draft, &source, &offered, Some(&binding));
    }
}

fn origin(connection: &Connection, remote: &Remote) -> Origin {
    Origin::Bridged { server: connection.plan.server.clone(), tool: remote.name.clone() }
}

/// Returns the names of a tool of `server`; one that can have none is refused.
fn named(
    draft: &mut Draft,
    connection: &Connection,
    server: &str,
    remote: &Remote,
) -> Option<BridgedName> {
    let name = BridgedName::of_server(server, &remote.name);
    name.map_err(|reason| draft.refuse(&origin(connection, remote), &reason)).ok()
}
