//! `clawhost wrap`: one MCP server that speaks on standard input and output, served over HTTP.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clawhost_core::error::exit;
use clawhost_core::limits::{
    BRIDGE_MESSAGE_BYTES_MAX, SECRET_BYTES_MAX, SHUTDOWN_GRACE_MS, TOOL_TIMEOUT_CEILING_MS,
    WRAP_BODY_BYTES, WRAP_REQUEST_MS, WRAP_RESTART_CEILING_MS, WRAP_RESTART_MS,
};
use clawhost_core::manifest::{McpReach, McpServer, Settings};
use tokio::sync::watch;

use super::args::{HostArgs, http_address, whole_number};
use super::discover::Named;
use super::fail::Fail;
use super::{run, setup, show};
use crate::registry::plan_alone;
use crate::regular;
use crate::sandbox::Backends;
use crate::secrets::{Secret, Secrets};
use crate::serve::{HttpOptions, Shutdown, WrapOptions, serve_wrapped};
use crate::state::{FolderEnv, cache_folder};
use crate::upstream::mcp::{Restart, Server, ServerOffers, ServerParts, State};

/// What stands before the names of this verb's variables.
const VARIABLE: &str = "CLAW_MCP_STDIO_";
const VARIABLES: [&str; 10] = [
    "ADDR", "ARGS", "AUTH_TOKEN", "COMMAND", "MAX_BODY_BYTES", "PATH", "PORT",
    "REQUEST_TIMEOUT_MS", "RESTART_BACKOFF_MS", "RESTART_MAX_MS",
];
const ADDRESS: &str = "127.0.0.1:8080";
const PATH: &str = "/mcp";
/// What a server is called that is given as a command.
const NAME: &str = "wrapped";

/// Serve an MCP server that speaks on standard input and output over HTTP
///
/// Starts SERVICE, or COMMAND, in the jail of its profile, keeps it going, and serves it as streamable HTTP to
/// clients that can be told a URL only. All clients share the one process, each with a session of its own, which
/// DELETE ends. How far a request is, its own client hears; what the process says unasked, all hear who listen with
/// GET. GET /healthz answers 200 while it can be asked, else 503.
///
/// This is a transport and no gate: whoever may connect may call every tool of it, and nothing is recorded. Let a
/// host bridge it (`tools.mcp_servers.NAME.url`): that one applies policy.
///
/// What no option says, CLAW_MCP_STDIO_COMMAND, _ARGS (a list in JSON), _ADDR, _PORT, _PATH, _AUTH_TOKEN,
/// _REQUEST_TIMEOUT_MS, _RESTART_BACKOFF_MS, _RESTART_MAX_MS and _MAX_BODY_BYTES say.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  clawhost wrap finder --http 127.0.0.1:8080\n  clawhost wrap --sandbox process --token-file token.txt -- mcp-server-git --repository ."
)]
pub(super) struct WrapArgs {
    #[command(flatten)]
    named: Named,
    /// Serve HTTP on this address, or port of 127.0.0.1 [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR", value_parser = http_address)]
    http: Option<SocketAddr>,
    /// The path that messages are sent to [default: /mcp]
    #[arg(long, value_name = "PATH")]
    path: Option<String>,
    /// Ask every client for the token in this file; needed on addresses that others can reach
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Let the process ask the client whose request it is, where only one is under way, as `expose: [questions]` does
    #[arg(long)]
    questions: bool,
    #[command(flatten)]
    places: HostArgs,
    /// A program and its arguments
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "service")]
    command: Vec<String>,
}

pub(super) async fn run(args: WrapArgs) -> Result<u8, Fail> {
    let variables = Variables::of_process()?;
    let (manifest, settings) = setup::documents(&args.named.paths(), &args.places)?;
    let mut entry = match variables.command(&args)? {
        Some((command, rest)) => {
            let profile = manifest.default_profile_name();
            let profile = args.named.sandbox.as_deref().unwrap_or(profile);
            let reach = McpReach::Program { command, args: rest, env: Vec::new() };
            McpServer::new(NAME, reach, profile, "the command line")
        }
        None => args.named.server(&manifest)?,
    };
    let secrets = setup::opened_secrets(&settings, args.places.state.as_deref())?;
    entry.expose.questions |= args.questions;
    secrets.learn(entry.secrets());
    let options = variables.options(&args, &settings, &secrets)?;
    if options.token.is_none() && !options.http.address.ip().is_loopback() {
        let reason = "a token is needed where others can reach the address";
        return Err(Fail::usage(reason, "say which with --token-file FILE"));
    }
    // Of no use to it, but hosts of this user run what lies there.
    let code_folder = cache_folder(&FolderEnv::from_process()).ok();
    let backends = Backends { secrets: secrets.clone(), code_folder, ..Backends::none() };
    let plan = plan_alone(&entry, &manifest, &backends).map_err(|reason| {
        let profiles: Vec<_> = manifest.profiles.keys().map(String::as_str).collect();
        let hint = format!(
            "name a program that is there, and its profile with --sandbox, one of {}",
            profiles.join(", ")
        );
        Fail::usage(reason, &hint)
    })?;
    let parts = ServerParts { client: backends.client, secrets };
    let server = Server::relayed(plan, parts, variables.restart()?);
    serve(server, options, entry.sandbox).await
}

async fn serve(server: Server, options: WrapOptions, profile: String) -> Result<u8, Fail> {
    let offers = server.offers();
    let (address, path) = (options.http.address, options.path.clone());
    let door = if options.token.is_some() { "a token opens it" } else { "no token is asked for" };
    let grace = Duration::from_millis(SHUTDOWN_GRACE_MS);
    let shutdown = Shutdown { told: run::stop_signal(), grace };
    let bound = serve_wrapped(server, options, shutdown).await;
    let bound = bound.map_err(|error| run::cannot_listen(address, &error, "--http ADDR"))?;
    show::line(&format!("serving MCP on http://{}{path}; {door}", bound.local_addr));
    show::line("this is a transport, not a gate: let a host bridge it, which applies policy");
    if profile != "workspace" {
        show::line(&format!(
            "of your files it finds what `{profile}` mounts: `--sandbox workspace` mounts ./workspace, read and written"
        ));
    }
    // Not before: an address that cannot be had ends the program, which is nothing to tell of.
    let told = tokio::spawn(tell(offers));
    let ended = bound.task.await;
    told.abort();
    ended.map_err(|error| Fail::new(exit::INTERNAL, error))?;
    Ok(exit::OK)
}

/// Says whenever the program has ended, and why.
async fn tell(mut offers: watch::Receiver<ServerOffers>) {
    while offers.changed().await.is_ok() {
        if let State::Failed { reason, attempt, wait, .. } = &offers.borrow_and_update().state {
            let wait_ms = wait.as_millis();
            tracing::warn!("not available, attempt {attempt}, the next in {wait_ms} ms: {reason}");
        }
    }
}

/// What the environment says of this verb, by the ends of the names.
struct Variables(BTreeMap<String, String>);

impl Variables {
    /// Reads them all: one that nobody knows might be a restriction.
    fn of_process() -> Result<Self, Fail> {
        let mut all = BTreeMap::new();
        for (name, value) in std::env::vars_os() {
            let name = name.to_string_lossy();
            let Some(end) = name.strip_prefix(VARIABLE) else { continue };
            let known = VARIABLES.contains(&end).then(|| value.into_string().ok()).flatten();
            let value = known.ok_or_else(|| {
                let known = VARIABLES.join(", ");
                Fail::usage(format!("{name} is none of the variables of wrap, or no text"), &known)
            })?;
            all.extend((!value.is_empty()).then(|| (end.to_owned(), value)));
        }
        Ok(Self(all))
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    fn read<T>(&self, name: &str, read: impl Fn(&str) -> Option<T>) -> Result<Option<T>, Fail> {
        let Some(text) = self.text(name) else { return Ok(None) };
        let wrong = || {
            Fail::usage(format!("{VARIABLE}{name} cannot be read"), "see `clawhost wrap --help`")
        };
        read(text).map(Some).ok_or_else(wrong)
    }

    fn number(&self, name: &str, range: RangeInclusive<u64>, default: u64) -> Result<u64, Fail> {
        let Some(text) = self.text(name) else { return Ok(default) };
        let wrong = |hint: String| Fail::usage(format!("{VARIABLE}{name} cannot be read"), &hint);
        whole_number(range)(text).map_err(wrong)
    }

    /// Returns the program and its arguments, where none is meant by its name.
    fn command(&self, args: &WrapArgs) -> Result<Option<(String, Vec<String>)>, Fail> {
        if args.named.service.is_some() {
            return Ok(None);
        }
        if let Some((command, rest)) = args.command.split_first() {
            return Ok(Some((command.clone(), rest.to_vec())));
        }
        let rest = self.read("ARGS", |text| serde_json::from_str(text).ok())?;
        let command = self.text("COMMAND").ok_or_else(|| {
            let hint = "name a server of the runtime file, or write the program behind `--`";
            Fail::usage("nothing says which server is meant", hint)
        })?;
        Ok(Some((command.to_owned(), rest.unwrap_or_default())))
    }

    fn restart(&self) -> Result<Restart, Fail> {
        let number = |name, default| self.number(name, 1..=TOOL_TIMEOUT_CEILING_MS, default);
        let first_ms = number("RESTART_BACKOFF_MS", WRAP_RESTART_MS)?;
        let ceiling_ms = number("RESTART_MAX_MS", WRAP_RESTART_CEILING_MS)?;
        Ok(Restart { first_ms, ceiling_ms: ceiling_ms.max(first_ms) })
    }

    fn options(
        &self,
        args: &WrapArgs,
        settings: &Settings,
        secrets: &Secrets,
    ) -> Result<WrapOptions, Fail> {
        let body = self.number(
            "MAX_BODY_BYTES",
            1..=BRIDGE_MESSAGE_BYTES_MAX as u64,
            WRAP_BODY_BYTES as u64,
        )?;
        let mut http = HttpOptions::new(self.address(args)?);
        http.allowed_hosts.clone_from(&settings.http.allowed_hosts);
        http.allowed_origins.clone_from(&settings.http.allowed_origins);
        Ok(WrapOptions {
            http,
            path: self.path(args)?,
            token: self.token(args, secrets)?,
            request_ms: self.number(
                "REQUEST_TIMEOUT_MS",
                1..=TOOL_TIMEOUT_CEILING_MS,
                WRAP_REQUEST_MS,
            )?,
            body_bytes_max: usize::try_from(body).unwrap_or(WRAP_BODY_BYTES),
        })
    }

    fn address(&self, args: &WrapArgs) -> Result<SocketAddr, Fail> {
        let read = |text: &str| http_address(text).ok();
        let named = match args.http {
            Some(address) => Some(address),
            None => self.read("ADDR", read)?.or(self.read("PORT", read)?),
        };
        named.or_else(|| read(ADDRESS)).ok_or_else(|| Fail::new(exit::INTERNAL, "no address"))
    }

    fn path(&self, args: &WrapArgs) -> Result<String, Fail> {
        let path = args.path.as_deref().or_else(|| self.text("PATH")).unwrap_or(PATH);
        let is_path = path.parse::<http::uri::PathAndQuery>().is_ok_and(|read| read.path() == path);
        if path.starts_with('/') && is_path {
            return Ok(path.to_owned());
        }
        Err(Fail::usage(format!("`{path}` is no path"), "write --path /mcp"))
    }

    /// Returns what clients have to show; it is said nowhere.
    fn token(&self, args: &WrapArgs, secrets: &Secrets) -> Result<Option<Secret>, Fail> {
        let read = match (&args.token_file, self.text("AUTH_TOKEN")) {
            (Some(file), _) => regular::read(file, SECRET_BYTES_MAX as u64)
                .map_err(|error| error.to_string())
                .and_then(|bytes| Secret::parse(&bytes).map_err(str::to_owned)),
            (None, Some(text)) => Secret::parse(text.as_bytes()).map_err(str::to_owned),
            (None, None) => return Ok(None),
        };
        let wrong = |reason| {
            Fail::usage(format!("the token cannot be used: {reason}"), "a file with one line")
        };
        let token = read.map_err(wrong)?;
        secrets
            .hide("the token of wrap", token.expose())
            .map_err(|error| Fail::new(exit::UPSTREAM, error))?;
        Ok(Some(token))
    }
}
