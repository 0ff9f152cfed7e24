//! Where a tool's code comes from.

use crate::grants::NATIVE;
use crate::uri::RegistryUri;

/// Where a tool's code comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Shipped inside the host.
    BuiltIn {
        /// The component's name, for example `file-io`.
        component: &'static str,
    },
    /// A file of the drop-in directory.
    DropIn {
        /// Its file name.
        file: String,
    },
    /// A definition file that says what it is made of.
    Composite {
        /// The file.
        file: String,
    },
    /// A component that a registry has beside the tool's document.
    Registry {
        /// The address it was fetched from.
        uri: RegistryUri,
    },
    /// An MCP server that the host talks to.
    Bridged {
        /// What the runtime file calls it, or its address.
        server: String,
        /// The server's own name of the tool.
        tool: String,
    },
    /// A component of the version of the registry that is in service.
    Release,
    /// The host itself.
    Own,
    /// A service that the host asks itself.
    Service {
        /// Its name.
        service: String,
    },
    /// The program that the host is part of.
    Native {
        /// Who of it has the tool; empty where the tool stands alone.
        provider: String,
    },
}

impl Origin {
    /// Says whether it is the tool of the server that `<server>.<tool>` means.
    pub(super) fn is_bridged_as(&self, text: &str) -> bool {
        let Self::Bridged { server, tool } = self else { return false };
        text.strip_prefix(server.as_str()).and_then(|rest| rest.strip_prefix('.')) == Some(tool)
    }

    /// Says in a word or two where the code of a tool comes from.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Bridged { .. } => "bridged",
            Self::BuiltIn { .. } => "built-in",
            Self::Composite { .. } => "composite",
            Self::DropIn { .. } => "dropped in",
            Self::Native { .. } => "native",
            Self::Own => "the host's",
            Self::Registry { .. } => "registry",
            Self::Release => "registry version",
            Self::Service { .. } => "service",
        }
    }
}

impl std::fmt::Display for Origin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BuiltIn { component } => write!(f, "the built-in component `{component}`"),
            Self::Composite { file } => write!(f, "the definition file `{file}`"),
            Self::DropIn { file } => write!(f, "the file `{file}`"),
            Self::Registry { uri } => write!(f, "`{uri}`"),
            Self::Bridged { server, .. } => write!(f, "the MCP server `{server}`"),
            Self::Release => f.write_str("the version of the registry in service"),
            Self::Own => f.write_str("the host itself"),
            Self::Service { service } => write!(f, "the service `{service}`"),
            Self::Native { provider } if provider.is_empty() => {
                write!(f, "the embedding program ({NATIVE})")
            }
            Self::Native { provider } => {
                write!(f, "`{provider}` of the embedding program ({NATIVE})")
            }
        }
    }
}
