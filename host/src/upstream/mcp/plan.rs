//! How servers are reached.

use clawhost_core::egress::EgressRules;
use clawhost_core::exposed::Exposure;
use clawhost_core::grants::Grants;
use clawhost_core::manifest::{McpAuth, McpValue};

use crate::secrets::Secrets;
use crate::upstream::http::HttpClient;

/// How one server is reached: plain data, made from settings and manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPlan {
    /// The operator's name for it.
    pub name: String,
    /// Where it is.
    pub endpoint: Endpoint,
    /// What of it is served beside its tools.
    pub expose: Exposure,
}

/// Where a server is, and what it is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    /// A program, spoken to over its standard input and output.
    Stdio {
        /// The program's absolute path, and its arguments.
        argv: Vec<String>,
        /// Its environment, beside `PATH`, `HOME` and `LANG`; nothing is inherited.
        env: Vec<(String, McpValue)>,
        /// What its jail holds. Files of read-only mounts may be executed.
        grants: Box<Grants>,
    },
    /// An HTTP server.
    Http {
        /// Its URL. No other host or port is reached.
        url: String,
        /// What is sent with each request.
        headers: Vec<(String, McpValue)>,
        /// Where the token that goes with them comes from.
        auth: Option<McpAuth>,
        /// The network that it has to lie in as well, with all that its name leads to.
        within: Option<Box<EgressRules>>,
    },
}

/// What servers are reached with.
#[derive(Debug, Clone)]
pub struct ServerParts {
    /// The way out.
    pub client: HttpClient,
    /// Where the values of secrets come from.
    pub secrets: Secrets,
}
