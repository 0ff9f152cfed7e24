//! What runs a tool, and what it is without being run.

use std::borrow::Cow;
use std::sync::Arc;

use clawhost_core::composite::Composite;
use clawhost_core::descriptor::Granted;

use super::{Bridged, OwnTool};
use crate::engine::Loaded;
use crate::native::Native;

/// What runs a tool.
#[derive(Debug, Clone)]
pub(crate) enum ToolCode {
    /// A tool of an MCP server.
    Bridged(Arc<Bridged>),
    /// Other tools, called by steps.
    Composite(Arc<Composite>),
    /// A component, linked.
    Component(Arc<Loaded>),
    /// The embedding program's own code.
    Native(Arc<Native>),
    /// A tool of the host itself.
    Own(OwnTool),
    /// A request to a service.
    Service(Arc<Granted>),
}

impl ToolCode {
    /// Says whether it is the very same.
    pub(super) fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Bridged(own), Self::Bridged(other)) => Arc::ptr_eq(own, other),
            (Self::Composite(own), Self::Composite(other)) => Arc::ptr_eq(own, other),
            (Self::Component(own), Self::Component(other)) => Arc::ptr_eq(own, other),
            (Self::Native(own), Self::Native(other)) => Arc::ptr_eq(own, other),
            (Self::Own(own), Self::Own(other)) => own == other,
            (Self::Service(own), Self::Service(other)) => own == other,
            _ => false,
        }
    }

    pub(super) fn digest(&self) -> Cow<'_, str> {
        match self {
            Self::Bridged(bridged) => Cow::Borrowed(&bridged.digest),
            Self::Composite(composite) => Cow::Borrowed(composite.digest()),
            Self::Component(loaded) => Cow::Borrowed(&loaded.digest),
            Self::Native(native) => Cow::Borrowed(&native.digest),
            Self::Own(own) => Cow::Borrowed(own.digest()),
            Self::Service(granted) => Cow::Owned(granted.tool.digest()),
        }
    }

    /// Returns it as a service's tool, where it is one.
    pub(super) fn managed(&self) -> Option<&Arc<Granted>> {
        if let Self::Service(granted) = self { Some(granted) } else { None }
    }

    /// Returns it as an MCP server's tool, where it is one.
    pub(super) fn bridged(&self) -> Option<&Arc<Bridged>> {
        if let Self::Bridged(bridged) = self { Some(bridged) } else { None }
    }

    /// Returns the policy that comes with it: that of an MCP server's entry.
    pub(super) fn policy(&self) -> Option<&String> {
        self.bridged()?.policy.as_ref()
    }

    /// Returns the address of the MCP server that has it, where that is one of the web.
    pub(super) fn server_url(&self) -> Option<&str> {
        self.bridged()?.url.as_deref()
    }

    /// Returns what it needs granted to be linked.
    pub(super) fn imports(&self) -> impl Iterator<Item = &str> + Clone {
        let imports = match self {
            Self::Bridged(_)
            | Self::Composite(_)
            | Self::Native(_)
            | Self::Own(_)
            | Self::Service(_) => &[],
            Self::Component(loaded) => loaded.imports.as_slice(),
        };
        imports.iter().map(String::as_str)
    }
}
