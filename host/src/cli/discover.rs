//! `clawhost discover`: what an MCP server has, written down as a descriptor.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use clawhost_core::catalog::{Origin, Tool};
use clawhost_core::descriptor::{Descriptor, FILE_NAME};
use clawhost_core::digest;
use clawhost_core::error::exit;
use clawhost_core::limits::DOCUMENT_BYTES_MAX;
use clawhost_core::manifest::{McpReach, McpServer};
use serde_json::{Value, json};

use super::args::Places;
use super::fail::Fail;
use super::setup::{self, Purpose};
use super::show;
use crate::{Host, clock, regular};

/// What a server has is no secret; the user's mask may take more away.
const MODE: u32 = 0o644;

/// Write down which tools an MCP server has
///
/// Starts the server of the runtime file that is called SERVICE, in the jail of its profile, lists its tools, and
/// writes them to DIR/SERVICE.claw-describe.json with the digest of what it said. `compile` reads that file, so that what
/// agents get does not depend on what a server says today. Where an earlier file says otherwise, that is told.
/// A server that fails leaves the file as it was.
#[derive(Debug, Args)]
#[command(after_help = "Example: clawhost discover perplexity")]
pub(super) struct DiscoverArgs {
    /// One of `tools.mcp_servers`
    #[arg(value_name = "SERVICE")]
    service: String,
    /// The folder to write to
    #[arg(long, value_name = "DIR", default_value = ".claw-discovered")]
    out: PathBuf,
    /// Say what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    places: Places,
}

pub(super) async fn run(args: DiscoverArgs) -> Result<u8, Fail> {
    let paths = setup::with_default(&[]);
    let (mut manifest, settings) =
        setup::documents(&paths, &args.places).map_err(Fail::Documents)?;
    let server = manifest.mcp_servers.iter().find(|one| one.name == args.service).cloned();
    let Some(server) = server else {
        let reason = format!("the runtime file has no MCP server `{}`", args.service);
        return Err(Fail::usage(reason, "name one of `tools.mcp_servers`"));
    };
    let reach = server.reach.clone();
    // This server only, and all that it has.
    manifest.tools.retain(|tool| tool.mcp.is_none());
    manifest.services.clear();
    manifest.mcp_servers = vec![McpServer { internal_only: false, ..server }];
    let setup = setup::make(manifest, settings, &args.places, Purpose::Look).await?;
    setup::arrived(&setup.host, &args.service).await;
    let tools = tools(&setup.host, &args.service)?;
    let text = Descriptor::snapshot(&tools, &found(&reach, &tools));
    let file = args.out.join(format!("{}.{FILE_NAME}", args.service));
    warn(&file, &text);
    if !args.dry_run {
        fs::create_dir_all(&args.out)
            .and_then(|()| regular::replace(&file, text.as_bytes(), MODE))
            .map_err(|error| Fail::new(exit::UPSTREAM, format!("{}: {error}", file.display())))?;
    }
    show::line(&format!("{}: {} tools", file.display(), tools.len()));
    Ok(exit::OK)
}

/// Returns what the server has, as descriptors write it.
fn tools(host: &Host, service: &str) -> Result<Vec<Value>, Fail> {
    let catalog = host.catalog();
    let own = |tool: &&std::sync::Arc<Tool>| matches!(&tool.origin, Origin::Bridged { server, .. } if server == service);
    let told = |tool: &std::sync::Arc<Tool>| {
        let Origin::Bridged { tool: name, .. } = &tool.origin else { return Value::Null };
        let definition = &tool.definition;
        json!({
            "name": name,
            "description": definition.description,
            "inputSchema": definition.input_schema,
        })
    };
    let tools: Vec<Value> = catalog.tools().filter(own).map(told).collect();
    if tools.is_empty() {
        let why = catalog.refused.first().map(|refused| format!(": {}", refused.reason));
        let why = why.unwrap_or_default();
        return Err(Fail::new(exit::UPSTREAM, format!("`{service}` has shown no tool{why}")));
    }
    Ok(tools)
}

fn found(reach: &McpReach, tools: &[Value]) -> Value {
    let (command, arguments) = match reach {
        McpReach::Program { command, args, .. } => (command.clone(), args.clone()),
        McpReach::Url { url, .. } => (url.to_string(), Vec::new()),
    };
    json!({
        "command": command,
        "args": arguments,
        "digest": digest::of_json(&Value::from(tools)),
        "discovered_at": clock::now_ms(),
        "tool_count": tools.len(),
    })
}

/// Says what differs from what was written down before.
fn warn(file: &Path, text: &str) {
    let Ok(before) = regular::read(file, DOCUMENT_BYTES_MAX as u64) else { return };
    let read = |bytes: &[u8]| clawhost_core::json::parse(bytes).unwrap_or_default();
    let (before, now) = (read(&before), read(text.as_bytes()));
    for (key, what) in
        [("digest", "its tools"), ("command", "its command"), ("args", "its arguments")]
    {
        let at = format!("/x-claw-discovery/{key}");
        if before.pointer(&at) != now.pointer(&at) {
            tracing::warn!("{}: {what} are not what they were", file.display());
        }
    }
}
