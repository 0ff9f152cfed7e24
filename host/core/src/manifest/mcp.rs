//! MCP servers: where they are, what the runtime file says about them, and what a Tool document's
//! `mcp_source` asks for.
//!
//! Deliberately absent: finding programs and starting anything, which the host does.

use std::fmt;
use std::path::{Component, Path};

use url::Url;

use super::node::Node;
use super::problem::Problems;
use super::shape::shown;
use crate::egress;
use crate::exposed::Exposure;

const STDIO: &str = "stdio://";

/// Where a server is: `stdio://` and the absolute path of a program, or a URL.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct McpEndpoint(String);

impl McpEndpoint {
    /// Reads an address. A path is taken as it is: nothing in it is unescaped.
    ///
    /// # Errors
    /// What is wrong with it, and what would be right. The address is not repeated: somebody may
    /// have put a password into it.
    pub fn parse(text: &str) -> Result<Self, (String, &'static str)> {
        const HELP: &str = "write `stdio:///path/to/program`, or `https://host[:port]/path`";
        match text.split_once("://") {
            Some(("stdio", path)) => Self::of_program(Path::new(path))
                .ok_or_else(|| ("this is no absolute path of a program".to_owned(), HELP)),
            Some(("https" | "http", _)) => Self::of_url(text),
            Some(("mcp", _)) => Err(("the protocol reserves the scheme `mcp://`".to_owned(), HELP)),
            _ => Err(("this is no address of an MCP server".to_owned(), HELP)),
        }
    }

    /// Returns the address of a program; nothing where its path is not absolute and plain.
    pub fn of_program(path: &Path) -> Option<Self> {
        let text = path.to_str()?;
        let is_plain =
            |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
        let is_file = path.file_name().is_some() && !text.ends_with('/');
        let fits = path.is_absolute() && is_file && path.components().all(is_plain);
        (fits && !text.contains(['?', '#', '%', '\0'])).then(|| Self(format!("{STDIO}{text}")))
    }

    /// Returns the address of a service that the operator reaches over a network of its own, encrypted or
    /// not.
    pub fn of_service(url: &str) -> Option<Self> {
        egress::endpoint(url).ok()?;
        Url::parse(url).ok().map(|url| Self(url.into()))
    }

    /// Reads a URL: encrypted, or on this machine.
    fn of_url(text: &str) -> Result<Self, (String, &'static str)> {
        let wrong = || {
            let help = "write `https://host[:port]/path`; `http://` on 127.0.0.1, [::1] or localhost only; no user name or fragment";
            ("this is no address that an MCP server may have".to_owned(), help)
        };
        let url = Url::parse(text).map_err(|_| wrong())?;
        let is_here = url.host().is_some_and(egress::is_this_machine);
        let is_safe = url.scheme() == "https" || is_here;
        if is_safe && url.fragment().is_none() && egress::endpoint(text).is_ok() {
            Ok(Self(url.into()))
        } else {
            Err(wrong())
        }
    }

    /// Returns the program, where it is one.
    pub fn program(&self) -> Option<&Path> {
        self.0.strip_prefix(STDIO).map(Path::new)
    }

    /// Returns the address as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for McpEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The value of a variable or header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpValue {
    /// `Bearer` and the value of the secret of this name.
    Bearer(String),
    /// A text that is no secret.
    Literal(String),
    /// The value of the secret of this name.
    Secret(String),
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpReach {
    /// A program that is started.
    Program {
        /// A name that the system's folders have, or a path.
        command: String,
        /// Its arguments.
        args: Vec<String>,
        /// Its variables.
        env: Vec<(String, McpValue)>,
    },
    /// Over HTTP.
    Url {
        /// Where.
        url: McpEndpoint,
        /// What each request carries.
        headers: Vec<(String, McpValue)>,
        /// Where the token that each request carries comes from.
        auth: Option<McpAuth>,
    },
}

/// How a host comes to the tokens that a server wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpAuth {
    /// Who gives them, as it calls itself. Nobody else is asked.
    pub issuer: String,
    /// What for.
    pub grant: McpGrant,
    /// Under which id; where there is none, the host registers itself.
    pub client_id: Option<String>,
    /// The name of the secret that goes with the id.
    pub secret: Option<String>,
    /// All that is asked for.
    pub scopes: Vec<String>,
}

/// What a token is given for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum McpGrant {
    /// A person has logged in.
    AuthorizationCode,
    /// The host has a secret of its own.
    ClientCredentials,
}

/// One of `tools.mcp_servers` of the runtime file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpServer {
    /// What its tools are called after.
    pub name: String,
    /// How it is reached.
    pub reach: McpReach,
    /// The address by which Tool documents mean it, where the file states one.
    pub endpoint: Option<McpEndpoint>,
    /// The only addresses it may have, where a variable says so.
    pub pinned: Option<Vec<McpEndpoint>>,
    /// Only those of its tools are served that a Tool document names.
    pub internal_only: bool,
    /// What of it is served beside its tools.
    pub expose: Exposure,
    /// The profile that its program runs under.
    pub sandbox: String,
    /// The policy that also has to allow its tools.
    pub policy: Option<String>,
    /// `file:line`, for messages.
    pub at: String,
}

impl McpServer {
    /// Returns a server of which nothing is served but its tools.
    pub fn new(name: &str, reach: McpReach, sandbox: &str, at: &str) -> Self {
        Self {
            name: name.to_owned(),
            reach,
            endpoint: None,
            pinned: None,
            internal_only: false,
            expose: Exposure::default(),
            sandbox: sandbox.to_owned(),
            policy: None,
            at: at.to_owned(),
        }
    }

    /// Returns the names of the secrets it needs.
    pub fn secrets(&self) -> impl Iterator<Item = &str> {
        let (values, auth) = match &self.reach {
            McpReach::Program { env, .. } => (env, None),
            McpReach::Url { headers, auth, .. } => (headers, auth.as_ref()),
        };
        let values = values.iter().filter_map(|(_, value)| match value {
            McpValue::Bearer(name) | McpValue::Secret(name) => Some(name.as_str()),
            McpValue::Literal(_) => None,
        });
        values.chain(auth.and_then(|auth| auth.secret.as_deref()))
    }
}

/// What a Tool document's `mcp_source` asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct McpSource {
    /// The server.
    pub endpoint: McpEndpoint,
    /// Its tool, by the server's own name for it; by the document's where absent, or else all.
    pub tool: Option<String>,
    /// The document names the profile; where it does not, the runtime file's entry has it.
    pub sandbox_is_stated: bool,
}

impl McpSource {
    /// Reads what a Tool's specification says, once [`check`] has passed it.
    pub(super) fn read(spec: &Node) -> Option<Self> {
        Some(Self {
            endpoint: McpEndpoint::parse(spec.text(&["mcp_source", "uri"])?).ok()?,
            tool: spec.text(&["mcp_source", "tool_name"]).map(str::to_owned),
            sandbox_is_stated: spec.text(&["sandbox_ref"]).is_some(),
        })
    }
}

/// Reports an address that is none, and what a tool lacks that no server describes.
pub(super) fn check(spec: &Node, report: &mut Problems) {
    let Some(source) = spec.get(&["mcp_source"]) else {
        let missing = |(key, _): &(&str, &str)| spec.entry(key).is_none();
        for (key, value) in NEEDED.iter().filter(|row| missing(row)) {
            let reason = format!("`spec.{key}` is missing");
            report.invalid(&spec.at, reason, format!("add `{key}:` with {value}"));
        }
        return;
    };
    if let Err((reason, help)) = McpEndpoint::parse(source.text(&["uri"]).unwrap_or_default()) {
        let reason = format!("`mcp_source.uri`: {}", shown(&reason));
        report.invalid(source.place(&["uri"]), reason, help);
    }
}

/// What a Tool has to say itself unless an MCP server says it.
const NEEDED: [(&str, &str); 2] = [
    ("description", "a sentence that says what it does"),
    ("input_schema", "a JSON Schema, for example `{ type: object }`"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_a_program_or_an_encrypted_or_local_address() {
        for (text, canonical) in [
            ("stdio:///usr/bin/server", "stdio:///usr/bin/server"),
            ("https://Mcp.Example", "https://mcp.example/"),
            ("https://mcp.example:8443/mcp?team=a", "https://mcp.example:8443/mcp?team=a"),
            ("http://127.0.0.1:9/mcp", "http://127.0.0.1:9/mcp"),
            ("http://[::1]:9/", "http://[::1]:9/"),
        ] {
            assert_eq!(McpEndpoint::parse(text).unwrap().as_str(), canonical);
        }
        for text in [
            "",
            "server",
            "/usr/bin/server",
            "stdio://server",
            "stdio://host/usr/bin/server",
            "stdio:///",
            "stdio:///usr/bin/",
            "stdio:///usr/../bin/server",
            "stdio:///usr/bin/a%20b",
            "stdio:///usr/bin/server?x=1",
            "STDIO:///usr/bin/server",
            "mcp://server",
            "mcp://server/tool",
            "http://mcp.example/",
            "http://localhost.evil.example/",
            "https://user:hunter2@mcp.example/",
            "https://mcp.example/#f",
            "ftp://mcp.example/",
            "file:///usr/bin/server",
        ] {
            let (reason, _) = McpEndpoint::parse(text).unwrap_err();
            assert!(!reason.contains("hunter2"), "{text}");
        }
        assert!(McpEndpoint::parse("mcp://x").unwrap_err().0.contains("reserves"));
        let program = McpEndpoint::parse("stdio:///usr/bin/server").unwrap();
        assert_eq!(program.program(), Some(Path::new("/usr/bin/server")));
    }
}
