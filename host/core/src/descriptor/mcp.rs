//! Services that are MCP servers: how the host reaches each, and as whom.

use std::collections::BTreeMap;

use super::{Credential, Granted, ManagedTool, Transport};
use crate::manifest::{McpEndpoint, McpReach, McpServer, McpValue, PROFILE_NONE};

/// Returns the servers that have those of `all` which are asked over MCP, each as the first of its
/// [`credentials`].
///
/// # Errors
/// A service with two addresses, and a token that cannot be sent.
pub fn servers(all: &[Granted]) -> Result<Vec<McpServer>, String> {
    let mut servers = BTreeMap::<&str, (String, McpServer)>::new();
    for (tool, path, credential) in known(all) {
        let (name, url) = (tool.service.as_str(), format!("{}{path}", tool.base_url));
        let server = server(name, &url, credential)?;
        let (address, _) = servers.entry(name).or_insert_with(|| (url.clone(), server));
        if *address != url {
            return Err(format!("the MCP server `{name}` has one address, and is given two"));
        }
    }
    Ok(servers.into_values().map(|(_, server)| server).collect())
}

/// Returns as whom the callers of a service's tools come over MCP, each once.
pub fn credentials<'a>(all: &'a [Granted], service: &str) -> Vec<&'a Credential> {
    let mut found = Vec::new();
    for (_, _, credential) in known(all).filter(|(tool, ..)| tool.service == service) {
        if !found.contains(&credential) {
            found.push(credential);
        }
    }
    found
}

/// Returns what is asked over MCP, at which path and as whom: in the one order that says who comes first.
fn known(all: &[Granted]) -> impl Iterator<Item = (&ManagedTool, &str, &Credential)> {
    let asked = all.iter().filter_map(|Granted { tool, callers }| match &tool.transport {
        Transport::Mcp { path } => Some((tool, path.as_str(), callers)),
        Transport::Http { .. } => None,
    });
    asked.flat_map(|(tool, path, callers)| {
        callers.credentials().map(move |credential| (tool, path, credential))
    })
}

fn server(name: &str, url: &str, credential: &Credential) -> Result<McpServer, String> {
    let headers = headers(credential);
    let headers = headers
        .ok_or_else(|| format!("the MCP server `{name}` is sent no header with a prefix"))?;
    let url = McpEndpoint::of_service(url).ok_or_else(|| format!("`{name}` has no address"))?;
    let reach = McpReach::Url { url, headers, auth: None };
    let server = McpServer::new(name, reach, PROFILE_NONE, &format!("the service `{name}`"));
    Ok(McpServer { internal_only: true, ..server })
}

/// Returns what whoever comes as `credential` sends with each request; nothing where that cannot be said.
pub fn headers(credential: &Credential) -> Option<Vec<(String, McpValue)>> {
    let header = match credential {
        Credential::None => return Some(Vec::new()),
        Credential::Bearer { secret } => {
            ("Authorization".to_owned(), McpValue::Bearer(secret.clone()))
        }
        Credential::Header { header, prefix, secret } if prefix.is_empty() => {
            (header.clone(), McpValue::Secret(secret.clone()))
        }
        Credential::Header { .. } => return None,
    };
    Some(vec![header])
}
