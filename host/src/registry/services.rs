//! Tools of services: those of the runtime file, and those that pods were compiled to.

use std::path::Path;
use std::sync::Arc;

use clawhost_core::catalog::{Annotations, Origin, ToolDefinition};
use clawhost_core::descriptor::{self, CLAW_ID, Compiled, Granted, ManagedTool, Transport};
use clawhost_core::manifest::{DocumentError, Manifest};
use clawhost_core::names::Names;
use serde_json::Value;

use super::ToolCode;
use super::documents::FileDocuments;
use super::offer::Offered;
use super::own::Own;
use crate::engine::Schemas;

/// Gives `manifest` what was compiled for agents into `folder`: the tools, each for those who have it, and
/// the bounds and budget of each.
///
/// # Errors
/// Every problem of every file, and tools that the manifest has already.
pub fn contexts(folder: &Path, manifest: &mut Manifest) -> Result<(), Vec<DocumentError>> {
    let Compiled { tools: granted, agents } = descriptor::agents(&FileDocuments, folder)?;
    let is_there = |one: &&Granted| {
        manifest.services.iter().any(|other| other.tool.canonical() == one.tool.canonical())
    };
    let twice: Vec<_> = granted
        .iter()
        .filter(is_there)
        .map(|one| {
            let reason = format!("`{}` is one of `tools.services` as well", one.tool.canonical());
            DocumentError::whole_file(folder, reason, Some("leave it out of one of the two"))
        })
        .collect();
    if !twice.is_empty() {
        return Err(twice);
    }
    manifest.agents = agents;
    manifest.services.extend(granted);
    manifest.reach_services().map_err(|problem| vec![*problem])
}

/// Returns the tools, ready to be bound, under the names that the one table gives them.
///
/// # Errors
/// Two that would have one name.
pub(super) fn offered(
    all: &[Granted],
    schemas: &Schemas,
) -> Result<Vec<Result<Own, String>>, String> {
    let canonical: Vec<String> = all.iter().map(|one| one.tool.canonical()).collect();
    let names = Names::new(canonical.iter().map(String::as_str), []).map_err(|e| e.to_string())?;
    let is_http =
        |(one, _): &(&Granted, &String)| matches!(one.tool.transport, Transport::Http { .. });
    let own = |(one, canonical): (&Granted, &String)| {
        let definition = definition(one, names.presented(canonical).unwrap_or(canonical));
        Ok(Own {
            origin: Origin::Service { service: one.tool.service.clone() },
            code: ToolCode::Service(Arc::new(one.clone())),
            offered: Offered::new(&definition, schemas)?,
        })
    };
    // What an MCP server has is bound with it.
    Ok(all.iter().zip(&canonical).filter(is_http).map(own).collect())
}

fn definition(one: &Granted, name: &str) -> ToolDefinition {
    let tool = &one.tool;
    let mut input_schema = tool.input_schema.clone();
    // The host fills it in, whatever is said.
    if let Some(Value::Array(required)) = input_schema.get_mut("required") {
        required.retain(|name| name != CLAW_ID);
    }
    let definition = ToolDefinition::new(name, &tool.description, input_schema);
    ToolDefinition { annotations: hints(tool), ..definition }
}

/// Returns what a service says of a tool in hints: those of MCP, of which descriptors write one shorter.
pub(super) fn hints(tool: &ManagedTool) -> Annotations {
    let hint = |key: &str| tool.annotations.get(key).and_then(Value::as_bool);
    let own = Annotations::of(hint);
    Annotations { read_only: hint("readOnly").or(own.read_only), ..own }
}
