//! `tools`: where tools come from, who has to accept them, and what clients are shown of them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::services::ServiceSettings;
use super::{McpServerSettings, WebSettings};
use crate::manifest::node::Place;
use crate::manifest::problem::{DocumentError, choices};
use crate::manifest::shape::shown;
use crate::package::VerifyingKey;

/// `tools`: where tools come from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ToolSettings {
    /// The drop-in directory.
    pub directory: Option<PathBuf>,
    /// Built-in tools that a dropped-in tool, or a document's of an MCP server, of the same name replaces.
    pub replace_builtins: BTreeSet<String>,
    /// Whose signature every component needs that is not built in; any or none where this is empty.
    pub signed_by: Vec<VerifyingKey>,
    /// The MCP servers that may be bridged, by name.
    pub mcp_servers: BTreeMap<String, McpServerSettings>,
    /// What the tools of MCP servers have to be accepted by.
    pub pins: PinMode,
    /// What clients are shown.
    pub catalog: CatalogMode,
    /// Whom some of the built-in tools may ask.
    pub web: WebSettings,
    pub(super) services: Vec<ServiceSettings>,
    pub(super) directory_at: Place,
    pub(super) replace_at: Place,
}

/// `tools.pins`: who has to accept what an MCP server says about its tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PinMode {
    /// What a tool says when it is first seen counts, and a change has to be accepted.
    #[default]
    FirstUse,
    /// Each tool has to be accepted before it is served.
    Require,
}

/// `tools.catalog`: what clients are shown of the tools.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CatalogMode {
    /// All that they may call.
    #[default]
    List,
    /// The tools that find and call the others.
    Search,
}

impl ToolSettings {
    /// Says which folders and built-in tools are named that are not there.
    pub fn missing<'a>(
        &self,
        is_folder: impl Fn(&Path) -> bool,
        built_in: &(impl Iterator<Item = &'a str> + Clone),
    ) -> Vec<DocumentError> {
        let folder = self.directory.iter().filter(|folder| !is_folder(folder)).map(|folder| {
            let reason = format!("there is no folder `{}`", shown(&folder.to_string_lossy()));
            let help = "make it, or name the folder that holds the components";
            self.directory_at.missing(reason, help)
        });
        let strange = |name: &&String| !built_in.clone().any(|other| other == *name);
        let names = self.replace_builtins.iter().filter(strange).map(|name| {
            let reason = format!("no built-in tool is called `{}`", shown(name));
            let help = choices(name, built_in.clone());
            self.replace_at.missing(reason, help)
        });
        folder.chain(names).collect()
    }
}
