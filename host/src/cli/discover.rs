//! `clawhost discover`: what an MCP server has, written down as a descriptor.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use clawhost_core::catalog::{Origin, Tool};
use clawhost_core::descriptor::{DISCOVERED, Descriptor, FILE_NAME, is_service_name, pod_server};
use clawhost_core::digest;
use clawhost_core::error::exit;
use clawhost_core::limits::DOCUMENT_BYTES_MAX;
use clawhost_core::manifest::{Manifest, McpReach, McpServer};
use serde_json::{Value, json};

use super::args::HostArgs;
use super::fail::Fail;
use super::setup::{self, Purpose};
use super::{show, words};
use crate::{Host, clock, regular};

/// What a pod in the current directory is called.
const POD_NAME: &str = "claw-pod.yml";

/// What a server has is no secret; the user's mask may take more away.
const MODE: u32 = 0o644;

/// Write down which tools an MCP server has
///
/// Starts the server that is called SERVICE, in the jail of its profile, lists its tools, and writes them to
/// DIR/SERVICE.claw-describe.json with the digest of what it said. `compile` reads that file, unless the pod names
/// another by `describe-file`, so that what agents get does not depend on what a server says today. Where an
/// earlier file says otherwise, that is told. A server that fails leaves the file as it was.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  clawhost discover perplexity\n  clawhost discover finder --pod pods/claw-pod.yml --sandbox servers"
)]
pub(super) struct DiscoverArgs {
    #[command(flatten)]
    named: Named,
    /// The folder to write to [default: .claw-discovered, beside the pod]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Say what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    places: HostArgs,
}

/// Which server is meant; shared by the verbs that are about one.
#[derive(Debug, Args)]
pub(super) struct Named {
    /// One of `tools.mcp_servers` or `tools.services`; with --pod, a service of it
    #[arg(value_name = "SERVICE")]
    pub(super) service: Option<String>,
    /// A pod, of which SERVICE says by `x-claw.mcp-stdio` which program it is [default: claw-pod.yml, where the runtime file has no such server]
    #[arg(long, value_name = "POD", requires = "service")]
    pod: Option<PathBuf>,
    /// The manifest whose profiles there are [default: claw.yaml, else the embedded default]
    #[arg(long, value_name = "MANIFEST")]
    manifest: Option<PathBuf>,
    /// Start the program under this profile [default: that of its entry, else the manifest's]
    #[arg(long, value_name = "PROFILE")]
    pub(super) sandbox: Option<String>,
}

impl Named {
    /// Returns the documents that profiles are looked for in.
    pub(super) fn paths(&self) -> Vec<PathBuf> {
        setup::with_default(&Vec::from_iter(self.manifest.clone()))
    }

    /// Returns the server, as the pod or `manifest` has it.
    pub(super) fn server(&self, manifest: &Manifest) -> Result<McpServer, Fail> {
        let name = self.service.as_deref().unwrap_or_default();
        let profile = self.sandbox.as_deref();
        let found = manifest.mcp_servers.iter().find(|one| one.name == name);
        if let Some(pod) = self.pod(found.is_some()) {
            let bytes = setup::read_document(pod, "name a pod with --pod")?;
            let profile = profile.unwrap_or_else(|| manifest.default_profile_name());
            return pod_server(pod, &bytes, name, profile).map_err(Fail::Documents);
        }
        let server = found.ok_or_else(|| no_server(name, manifest))?;
        let sandbox = profile.unwrap_or(&server.sandbox).to_owned();
        Ok(McpServer { sandbox, ..server.clone() })
    }

    /// Returns the pod that it is looked for in: the one that is named, else the one of the current directory unless the
    /// server `is_known`.
    fn pod(&self, is_known: bool) -> Option<&Path> {
        let is_sought = self.service.is_some() && !is_known;
        let default = Path::new(POD_NAME);
        let default = (is_sought && default.is_file()).then_some(default);
        self.pod.as_deref().or(default)
    }

    /// Returns the folder that what is seen of it is looked for in.
    fn folder(&self) -> PathBuf {
        let pod = self.pod.as_deref().and_then(Path::parent);
        pod.unwrap_or_else(|| Path::new("")).join(DISCOVERED)
    }
}

fn no_server(name: &str, manifest: &Manifest) -> Fail {
    let reason = match name {
        "" => "nothing says which MCP server is meant".to_owned(),
        name => format!("the runtime file has no MCP server `{name}`"),
    };
    let names: Vec<&str> = manifest.mcp_servers.iter().map(|one| one.name.as_str()).collect();
    let told = words::told(name, &names);
    Fail::usage(reason, &format!("name one of `tools.mcp_servers`, or a pod with --pod; {told}"))
}

pub(super) async fn run(args: DiscoverArgs) -> Result<u8, Fail> {
    let paths = args.named.paths();
    let (mut manifest, settings) = setup::documents(&paths, &args.places)?;
    let server = args.named.server(&manifest)?;
    let (name, reach) = (server.name.clone(), server.reach.clone());
    if !is_service_name(&name) {
        let reason = format!("no file can be called after `{name}`");
        let hint = "call it by letters, digits, `.`, `_` and `-`; the first a letter or digit";
        return Err(Fail::usage(reason, hint));
    }
    // This server only, and all that it has.
    manifest.tools.retain(|tool| tool.mcp.is_none());
    manifest.services.clear();
    manifest.mcp_servers = vec![McpServer { internal_only: false, ..server }];
    let setup = setup::make(manifest, settings, &args.places, Purpose::Look).await?;
    setup::arrived(&setup.host, &name).await;
    let (tools, revision) = tools(&setup.host, &name)?;
    let text = Descriptor::snapshot(&tools, &found(&reach, &tools, revision));
    let out = args.out.unwrap_or_else(|| args.named.folder());
    let file = out.join(format!("{name}.{FILE_NAME}"));
    // What nobody could read would take the place of what somebody can.
    Descriptor::read(&file, text.as_bytes())?;
    warn(&file, &text);
    if !args.dry_run {
        fs::create_dir_all(&out)
            .and_then(|()| regular::replace(&file, text.as_bytes(), MODE))
            .map_err(|error| Fail::new(exit::UPSTREAM, format!("{}: {error}", file.display())))?;
    }
    show::line(&format!("{}: {} tools", file.display(), tools.len()));
    Ok(exit::OK)
}

/// Returns what the server has, as descriptors write it, and the revision of MCP that it speaks.
fn tools(host: &Host, service: &str) -> Result<(Vec<Value>, &'static str), Fail> {
    let catalog = host.catalog();
    let own = |tool: &&std::sync::Arc<Tool>| matches!(&tool.origin, Origin::Bridged { server, .. } if server == service);
    let told = |tool: &std::sync::Arc<Tool>| {
        let Origin::Bridged { tool: name, .. } = &tool.origin else { return Value::Null };
        let definition = &tool.definition;
        let read_only = definition.annotations.read_only;
        let read_only = read_only.map_or_else(|| json!({}), |it| json!({ "readOnly": it }));
        json!({
            "name": name,
            "description": definition.description,
            "inputSchema": definition.input_schema,
            "annotations": read_only,
        })
    };
    let server = catalog.tools().find(own).and_then(|tool| host.server(&tool.ckp_name));
    let Some(server) = server else {
        let why = catalog.refused.first().map(|refused| format!(": {}", refused.reason));
        let why = why.unwrap_or_default();
        return Err(Fail::new(exit::UPSTREAM, format!("`{service}` has shown no tool{why}")));
    };
    let revision = server.offers().borrow().revision;
    Ok((catalog.tools().filter(own).map(told).collect(), revision))
}

fn found(reach: &McpReach, tools: &[Value], revision: &str) -> Value {
    let (command, arguments) = match reach {
        McpReach::Program { command, args, .. } => (command.clone(), args.clone()),
        McpReach::Url { url, .. } => (url.to_string(), Vec::new()),
    };
    json!({
        "command": command,
        "args": arguments,
        "digest": digest::of_json(&Value::from(tools)),
        "discovered_at": clock::now_ms(),
        "mcp_protocol_version": revision,
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
