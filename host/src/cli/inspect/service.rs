//! What a service says of itself, with the addresses that no agent is shown.

use std::path::Path;

use clawhost_core::descriptor::{Credential, Described, Descriptor, Transport};
use clawhost_core::error::exit;
use clawhost_core::limits::DOCUMENT_BYTES_MAX;
use clawhost_core::visible;
use serde_json::{Value, json};

use super::super::fail::Fail;
use super::super::show;
use crate::regular;

/// Says what the descriptor `file` says.
pub(super) fn run(file: &Path, as_json: bool) -> Result<u8, Fail> {
    let bytes = regular::read(file, DOCUMENT_BYTES_MAX as u64).map_err(|error| Fail::Other {
        code: exit::DOCUMENT,
        reason: format!("{}: {error}", file.display()),
        hint: Some("name what a service says of itself, `NAME.claw-describe.json`".to_owned()),
    })?;
    let service = Descriptor::read(file, &bytes)?;
    if as_json {
        show::json(&json!({
            "description": service.description,
            "auth": auth(&service.auth),
            "tools": service.tools.iter().map(tool).collect::<Vec<_>>(),
            "endpoints": service.endpoints,
        }));
        return Ok(exit::OK);
    }
    // None of it may look like a line of its own.
    let [description, auth] =
        [&service.description, &auth(&service.auth)].map(|of| visible::line(of));
    show::line(&format!("{description}\nauth  {auth}\n"));
    let mut table = show::table(&["tool", "request", "what it does"]);
    for tool in &service.tools {
        let cells = [&tool.name, &request(tool), &tool.description];
        table.add_row(cells.map(|cell| visible::line(cell)));
    }
    show::line(&table.trim_fmt());
    for endpoint in &service.endpoints {
        show::line(&format!("endpoint {}", visible::line(endpoint)));
    }
    Ok(exit::OK)
}

fn tool(tool: &Described) -> Value {
    json!({"name": tool.name, "request": request(tool), "description": tool.description})
}

fn request(tool: &Described) -> String {
    match &tool.transport {
        Transport::Http { method, path, .. } => format!("{method} {path}"),
        Transport::Mcp { path } => format!("MCP {path}"),
    }
}

fn auth(credential: &Credential) -> String {
    match credential {
        Credential::None => "none".to_owned(),
        Credential::Bearer { secret } => format!("bearer, of `{secret}`"),
        Credential::Header { header, secret, .. } => format!("`{header}`, of `{secret}`"),
    }
}
