//! Services that are MCP servers: how the host reaches each.

use std::collections::BTreeMap;

use super::{Callers, Credential, Granted, Transport};
use crate::manifest::{McpEndpoint, McpReach, McpServer, McpValue, PROFILE_NONE};

/// Returns the servers that have those of `all` which are asked over MCP.
///
/// # Errors
/// A service with two addresses or two tokens: whoever calls is asked about on one connection.
pub fn servers(all: &[Granted]) -> Result<Vec<McpServer>, String> {
    let mut servers = BTreeMap::<&str, McpServer>::new();
    for Granted { tool, callers } in all {
        let Transport::Mcp { path } = &tool.transport else { continue };
        let credentials: Vec<&Credential> = match callers {
            Callers::Anybody(credential) => vec![credential],
            Callers::Only(agents) => agents.values().collect(),
        };
        for credential in credentials {
            let server = server(&tool.service, &format!("{}{path}", tool.base_url), credential)?;
            let first = servers.entry(&tool.service).or_insert_with(|| server.clone());
            if *first != server {
                return Err(format!(
                    "the MCP server `{}` has one address and one token for all agents, and is given two",
                    tool.service
                ));
            }
        }
    }
    Ok(servers.into_values().collect())
}

fn server(name: &str, url: &str, credential: &Credential) -> Result<McpServer, String> {
    let header = match credential {
        Credential::None => None,
        Credential::Bearer { secret } => {
            Some(("Authorization".to_owned(), McpValue::Bearer(secret.clone())))
        }
        Credential::Header { header, prefix, secret } if prefix.is_empty() => {
            Some((header.clone(), McpValue::Secret(secret.clone())))
        }
        Credential::Header { .. } => {
            return Err(format!("the MCP server `{name}` is sent no header with a prefix"));
        }
    };
    let url = McpEndpoint::of_service(url).ok_or_else(|| format!("`{name}` has no address"))?;
    let reach = McpReach::Url { url, headers: header.into_iter().collect(), auth: None };
    let server = McpServer::new(name, reach, PROFILE_NONE, &format!("the service `{name}`"));
    Ok(McpServer { internal_only: true, ..server })
}
