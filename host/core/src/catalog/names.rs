//! What tools are called.

use crate::bridged;
use crate::limits::TOOL_NAME_BYTES_MAX;
use crate::truncate;
use crate::uri::ClawUri;

/// What the host's own tool is called that calls others by their names.
pub const CALL_TOOL: &str = "call_tool";

/// Returns the CKP form of a component's tool name: CKP names know no underscore.
///
/// Two names of one catalog that map to the same CKP name are a collision, found by
/// [`super::Catalog::add`]; nothing is ever mapped back by arithmetic.
pub fn ckp_name(name: &str) -> String {
    name.replace('_', "-")
}

/// Why what somebody wrote is no tool's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoTool {
    /// It may be a server's tool, or one that is called so itself.
    #[error("{0:?} may be two tools: only a host that runs can tell which")]
    Ambiguous(String),
    /// No tool can be called so.
    #[error("{0:?} is no name of a tool")]
    Malformed(String),
}

/// Returns the CKP name that somebody means who writes `tool`, whether or not there is such a tool.
///
/// # Errors
/// See [`NoTool`].
pub fn meant(tool: &str) -> Result<String, NoTool> {
    let shown = || truncate::text(tool, TOOL_NAME_BYTES_MAX).to_owned();
    if tool.contains("__") {
        return Err(NoTool::Ambiguous(shown()));
    }
    let name = bridged::dotted(tool).or_else(|| ClawUri::parse_tool_name(tool));
    let name = name.unwrap_or_else(|| ckp_name(tool));
    if !is_tool_name(&name) || name.contains('_') {
        return Err(NoTool::Malformed(shown()));
    }
    Ok(name)
}

/// Says whether MCP has tools of that name.
pub(crate) fn is_tool_name(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    (1..=TOOL_NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(fits)
}

/// Checks the name of a tool.
///
/// # Errors
/// As [`super::check_definition`].
pub(crate) fn check_name(name: &str) -> Result<(), String> {
    if !is_tool_name(name) {
        return Err(format!(
            "tool name {name:?} is not 1 to {TOOL_NAME_BYTES_MAX} of `a-z A-Z 0-9 _ -`"
        ));
    }
    if !name.starts_with(|c: char| c.is_ascii_alphanumeric()) || name.len() > 63 {
        return Err(format!(
            "tool name {name:?} has no CKP form: start with a letter or digit, at most 63 characters"
        ));
    }
    Ok(())
}
