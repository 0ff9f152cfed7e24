//! A tool that was named, and what is left of it where another one has to hold it as well.

use std::sync::Arc;

use clawhost_core::catalog::Tool;
use clawhost_core::egress::parse_url;
use clawhost_core::grants::{Grants, NATIVE, Shell};
use clawhost_core::imports;

use super::shelf::Runnable;
use super::{Bridged, ToolCode, builtin};
use crate::sandbox::Sandbox;
use crate::sandbox::fs::FolderBounds;

/// A tool a caller named, pinned to the component that was in service at that moment.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub(super) tool: Arc<Tool>,
    /// The version of the registry that was in service.
    pub(super) release: Option<u64>,
    pub(super) runnable: Runnable,
}

impl Resolved {
    /// Returns what the tool is.
    pub fn tool(&self) -> &Arc<Tool> {
        &self.tool
    }

    /// Returns the version of the registry that was in service.
    pub fn release(&self) -> Option<u64> {
        self.release
    }

    /// Returns what the call may touch.
    pub fn grants(&self) -> &Grants {
        self.runnable.sandbox.grants()
    }

    /// Returns the tool under what `other` grants as well, whose paths lead to `places`, and nothing
    /// more. A server runs already: only the time and the output of a call are its own.
    ///
    /// # Errors
    /// What is left cannot be opened, is less than the component needs to be linked at all, or less
    /// than an MCP server runs under; and whatever it is, for a tool that nothing contains.
    pub(crate) fn within(self, other: &Grants, places: &FolderBounds) -> Result<Self, String> {
        if self.grants().native {
            return Err(format!("it cannot hold the tool, which is {NATIVE}"));
        }
        let sandbox = self.runnable.sandbox.within(other, places);
        let sandbox = sandbox.map_err(|error| error.to_string())?;
        if self.is_shell() && is_shut(self.grants(), other, sandbox.grants()) {
            return Err("its shell is not one that both profiles grant".to_owned());
        }
        let code = &self.runnable.code;
        imports::check(code.imports(), sandbox.grants()).map_err(|reasons| reasons.join("; "))?;
        if let ToolCode::Bridged(bridged) = code {
            self.check_server(bridged, sandbox.grants())?;
        }
        let runnable = Runnable { sandbox: Arc::new(sandbox), ..self.runnable };
        Ok(Self { runnable, ..self })
    }

    /// A server runs already: of one of the web its address has to be within what is `left`, of a program all
    /// that it runs under.
    fn check_server(&self, bridged: &Bridged, left: &Grants) -> Result<(), String> {
        let own = self.grants();
        let Some(url) = &bridged.url else {
            let refused = || {
                format!("its MCP server runs under `{}` already, which grants more", own.profile)
            };
            return is_same_place(own, left).then_some(()).ok_or_else(refused);
        };
        let url = parse_url(url).map_err(|error| error.internal())?;
        let is_open = left.network.as_ref().is_some_and(|rules| rules.check_url(&url).is_ok());
        is_open.then_some(()).ok_or_else(|| "it does not open its MCP server's address".to_owned())
    }

    /// Says whether it runs scripts, which the rules of a shell inside the sandbox are for.
    pub(crate) fn is_shell(&self) -> bool {
        builtin::is_shell(&self.tool.origin)
    }

    /// Says whether it is a tool of a server of the web, which no sandbox contains.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.runnable.code.server_url().is_some()
    }

    /// Says whether it sees the folders of its sandbox, and none but these.
    pub(crate) fn sees_folders(&self) -> bool {
        let code = &self.runnable.code;
        matches!(code, ToolCode::Component(_) | ToolCode::Bridged(_)) && !self.is_elsewhere()
    }

    pub(crate) fn code(&self) -> &ToolCode {
        &self.runnable.code
    }

    pub(crate) fn sandbox(&self) -> &Sandbox {
        &self.runnable.sandbox
    }
}

/// Says whether what runs under `own` would run under `left` alike, but for the bounds of one call.
fn is_same_place(own: &Grants, left: &Grants) -> bool {
    let mut left = left.clone();
    left.profile.clone_from(&own.profile);
    left.limits.timeout = own.limits.timeout;
    left.limits.output_bytes = own.limits.output_bytes;
    left == *own
}

/// Says whether a shell that one of two profiles has rules for is not in what both grant.
fn is_shut(own: &Grants, other: &Grants, left: &Grants) -> bool {
    let is_granted = |grants: &Grants| *grants.any_shell() != Shell::Deny;
    (is_granted(own) || is_granted(other)) && !is_granted(left)
}
