//! `clawhost secrets login`: a person's way to the tokens of an MCP server.

use clawhost_core::error::exit;
use clawhost_core::manifest::{McpAuth, McpGrant, McpReach, Settings};
use clawhost_core::visible;
use serde_json::json;

use super::args::StateArgs;
use super::fail::Fail;
use super::{setup, show};
use crate::upstream::http::HttpClient;
use crate::upstream::oauth::{Pasted, Tokens};

pub(super) async fn run(common: &StateArgs, server: &str, paste: bool) -> Result<u8, Fail> {
    let settings = setup::config(&[], common.config.as_deref())?;
    let (url, auth) = reached(&settings, server)?;
    let secrets = setup::opened_secrets(&settings, common.state.as_deref())?;
    let failed = |reason: String| Fail::new(exit::UPSTREAM, format!("{server}: {reason}"));
    let tokens = Tokens::new(server, url, auth, &HttpClient::system(), secrets).map_err(failed)?;
    let how = match paste {
        true => {
            "in any browser, within five minutes, and paste the address at which it ends, though no page is there"
        }
        false => "in a browser on this machine, within five minutes",
    };
    let show = |url: &url::Url| {
        eprintln!("open this {how}:");
        eprintln!("{url}");
    };
    let pasted = paste.then(|| Box::new(tokio::io::stdin()) as Pasted);
    let scope = tokens.login(show, pasted).await.map_err(failed)?;
    if common.json {
        show::json(&json!({"server": server, "secret": tokens.secret(), "scope": scope}));
        return Ok(exit::OK);
    }
    show::line(&format!("logged in to {server}: its tokens are the secret {}", tokens.secret()));
    if let Some(scope) = scope {
        show::line(&format!("they are good for: {}", visible::line(&scope)));
    }
    Ok(exit::OK)
}

/// Returns where a server is that people log in to, and how.
fn reached<'s>(settings: &'s Settings, name: &str) -> Result<(&'s str, &'s McpAuth), Fail> {
    let Some(entry) = settings.tools.mcp_servers.get(name) else {
        let reason = format!("there is no server {name:?} in the runtime file");
        return Err(Fail::usage(
            reason,
            "name one of `tools.mcp_servers`; --config names the file",
        ));
    };
    match &entry.server.reach {
        McpReach::Url { url, auth: Some(auth), .. }
            if auth.grant == McpGrant::AuthorizationCode =>
        {
            Ok((url.as_str(), auth))
        }
        _ => {
            let reason = format!("nobody logs in to the server `{name}`");
            let hint = "write `auth: { type: oauth, issuer: …, client_id: … }` beside its `url`";
            Err(Fail::usage(reason, hint))
        }
    }
}
