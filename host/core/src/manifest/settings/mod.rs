//! The runtime file `clawhost.yaml`: everything that is not a CKP document.
//!
//! Closed and versioned like the documents, read by the same machinery. Each key also has an
//! environment variable, `CLAWHOST_HTTP_ADDRESS` for `http.address`; where both say something, the
//! variable wins.
//! Deliberately absent: finding the file and reading the environment, which the host does.

mod agents;
mod audit;
mod channels;
mod file;
mod filters;
mod governance;
mod mcp;
mod packages;
mod profiles;
mod providers;
mod proxy;
mod reader;
mod registries;
mod releases;
mod secrets;
mod services;
mod shapes;
#[cfg(test)]
mod tests;
mod tools;
mod variables;
mod web;

pub use self::agents::{AgentSettings, STDIO_PRINCIPAL};
pub use self::audit::AuditSettings;
pub use self::channels::{ChannelPlace, ChannelSettings};
pub use self::file::{HttpSettings, LimitSettings, Settings};
pub use self::mcp::McpServerSettings;
pub use self::packages::OciSettings;
pub use self::profiles::ProfileSettings;
pub use self::providers::ProviderSettings;
pub use self::proxy::ProxySettings;
pub use self::registries::RegistrySettings;
pub use self::releases::{PostgresUrl, ReleaseSettings};
pub use self::secrets::SecretSettings;
pub use self::tools::{CatalogMode, PinMode, ToolSettings};
pub use self::variables::is_own_variable;
pub use self::web::WebSettings;
