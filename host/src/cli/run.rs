//! `clawhost run`: serve until told to stop.

use std::io::IsTerminal as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clawhost_core::error::exit;
use clawhost_core::limits::FLUSH_MS;
use clawhost_core::manifest::{DocumentError, Manifest, Settings};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

use super::args::{HostArgs, RunArgs};
use super::fail::Fail;
use super::reload::{Hangups, on_hangup};
use super::setup::{self, Setup};
use super::validate::{tools_may_come, undefined};
use super::{prompt, proxy, show, tools};
use crate::Host;
use crate::serve::serve_control;
use crate::serve::{
    BoundServer, HttpOptions, STDIO_PRINCIPAL, Shutdown, client_config, serve_http, serve_metrics,
    serve_stdio,
};
use crate::state::DEFAULT_AGENT;

/// Where HTTP is served when nothing says otherwise: only this machine can reach it.
pub(super) const DEFAULT_ADDRESS: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 7333);

pub(super) async fn run(args: RunArgs) -> Result<u8, Fail> {
    let hangups = Hangups::catch();
    let setup = setup::open(&args.paths, &args.places, setup::Purpose::Serve).await?;
    check_definitions(&setup, &args.places)?;
    serve(setup, args, false, hangups).await
}

/// Refuses what [`strays`] finds for a host that was made.
pub(super) fn check_definitions(setup: &Setup, places: &HostArgs) -> Result<(), Fail> {
    match strays(&setup.host, &setup.host.manifest(), &setup.settings, places) {
        wrong if wrong.is_empty() => Ok(()),
        wrong => Err(Fail::Documents(wrong)),
    }
}

/// Returns what `validate` refuses of the definitions of `manifest`. While something still loads that may
/// have a tool, only a slip of the pen is a problem.
pub(super) fn strays(
    host: &Host,
    manifest: &Manifest,
    settings: &Settings,
    places: &HostArgs,
) -> Vec<DocumentError> {
    let catalog = host.catalog();
    let offered = catalog.tools().flat_map(|tool| tool.names());
    let may_come = !catalog.loading.is_empty() || tools_may_come(settings, places.tools.as_deref());
    undefined(manifest, offered, may_come)
}

/// Serves what `setup` holds as `args` say.
pub(super) async fn serve(
    setup: Setup,
    args: RunArgs,
    is_proxy: bool,
    hangups: Hangups,
) -> Result<u8, Fail> {
    let wants_http = wants_http(&args, &setup.settings)?;
    for note in &setup.host.manifest().notes {
        tracing::info!("{note}");
    }
    let grace = Duration::from_millis(setup.settings.limits.shutdown_grace_ms);
    let shutdown = Shutdown { told: stop_signal(), grace };
    metrics(&setup, &shutdown).await?;
    let control = Control::start(&setup, &shutdown.told).await;
    on_hangup(hangups, &setup, &args, is_proxy, shutdown.told.clone());
    let host = setup.host.clone();
    let outcome = if wants_http {
        http(setup, &args, is_proxy, shutdown).await
    } else {
        warn_of_absent(&setup.settings);
        if !serve_stdio(setup.host, shutdown.clone()).await && !shutdown.told.is_cancelled() {
            eprintln!("hint: standard input ended before a client spoke; {NO_CLIENT_HINT}");
        }
        Ok(exit::OK)
    };
    control.end().await;
    host.flush(Duration::from_millis(FLUSH_MS)).await;
    outcome
}

/// Serves measurements where the runtime file names an address for them.
async fn metrics(setup: &Setup, shutdown: &Shutdown) -> Result<(), Fail> {
    let http = &setup.settings.http;
    let Some(address) = http.metrics else { return Ok(()) };
    let allowed_hosts = http.allowed_hosts.clone();
    let options = HttpOptions { allowed_hosts, ..HttpOptions::new(address) };
    let server = serve_metrics(setup.host.clone(), options, shutdown.clone()).await;
    let server = server.map_err(|error| cannot_listen(address, &error, "`http.metrics`"))?;
    tracing::info!("measurements are served on http://{}/metrics", server.local_addr);
    Ok(())
}

pub(super) fn cannot_listen(address: SocketAddr, error: &std::io::Error, with: &str) -> Fail {
    let reason = format!("HTTP cannot be served on {address}: {error}");
    let hint = Some(format!("choose another address with {with}"));
    // What was asked for is refused, or the address cannot be had.
    let is_refused = error.kind() == std::io::ErrorKind::InvalidInput;
    Fail::Other { code: if is_refused { exit::USAGE } else { exit::UPSTREAM }, reason, hint }
}

/// On standard input there is one agent, so what is set for the user of another one does nothing.
fn warn_of_absent(settings: &Settings) {
    for agent in settings.elicitors().iter().filter(|agent| *agent != STDIO_PRINCIPAL) {
        tracing::warn!(
            "the user of agent `{agent}` is asked nothing: on standard input the agent is called \
             `{STDIO_PRINCIPAL}`, and others call over HTTP"
        );
    }
}

/// The operator's way into a running host, and what happens to open questions when it stops.
struct Control {
    socket: Option<tokio::task::JoinHandle<()>>,
    stop: CancellationToken,
}

impl Control {
    /// Opens the control socket; a host without one works, but nobody can approve by command.
    async fn start(setup: &Setup, told: &CancellationToken) -> Self {
        let stop = told.child_token();
        let (approvals, stopping) = (setup.host.approvals().clone(), stop.clone());
        tokio::spawn(async move {
            stopping.cancelled().await;
            approvals.close();
        });
        Self {
            socket: crate::state::ControlSocket::listen(setup.state.path())
                .await
                .inspect_err(|error| tracing::warn!("`clawhost approvals` does not work: {error}"))
                .ok()
                .map(|socket| serve_control(setup.host.clone(), socket, stop.clone())),
            stop,
        }
    }

    /// Closes the socket and takes its name away.
    async fn end(self) {
        self.stop.cancel();
        if let Some(socket) = self.socket {
            // A task that panicked has let go of the socket too.
            let _ = socket.await;
        }
    }
}

/// What to do where nobody can speak on standard input.
const NO_CLIENT_HINT: &str =
    "start it from an MCP client, or serve HTTP with --http 127.0.0.1:7333";

/// HTTP where it is asked for, where a person started the host, and where the runtime file names
/// an address and nobody can speak on standard input (a service).
fn wants_http(args: &RunArgs, settings: &Settings) -> Result<bool, Fail> {
    if args.http.is_some() || (!args.stdio && std::io::stdin().is_terminal()) {
        return Ok(true);
    }
    if args.no_auth {
        return Err(Fail::usage("--no-auth is about HTTP", "add --http 127.0.0.1:7333"));
    }
    match (stdin_is_closed(), settings.http.address) {
        (false, _) => Ok(false),
        (true, Some(_)) if !args.stdio => Ok(true),
        (true, _) => Err(Fail::usage(
            "standard input is closed, so no client can speak on it",
            NO_CLIENT_HINT,
        )),
    }
}

async fn http(
    setup: Setup,
    args: &RunArgs,
    is_proxy: bool,
    shutdown: Shutdown,
) -> Result<u8, Fail> {
    let address = args.http.or(setup.settings.http.address).unwrap_or(DEFAULT_ADDRESS);
    let defaults = HttpOptions::new(address);
    let has_console = setup.settings.http.console.unwrap_or(defaults.console);
    let options = HttpOptions {
        require_token: !args.no_auth,
        allowed_hosts: setup.settings.http.allowed_hosts.clone(),
        allowed_origins: setup.settings.http.allowed_origins.clone(),
        console: has_console,
        proxy: proxy::options(&setup),
        ..defaults
    };
    let credentials = &setup.credentials;
    let server = serve_http(setup.host.clone(), Arc::clone(credentials), options, shutdown).await;
    let server: BoundServer =
        server.map_err(|error| cannot_listen(address, &error, "--http ADDR"))?;
    let (host, settings, state) = (&setup.host, &setup.settings, setup.state.path());
    greet(host, settings, &server, credentials, args, state, has_console);
    if !is_proxy {
        show::line("\nor into one that starts the host itself:");
        show::json(&client_config::stdio(&program(), &given(args, settings)));
    }
    if std::io::stderr().is_terminal() {
        let state = setup.state.path().to_owned();
        tokio::spawn(prompt::announce_all(setup.host.approvals().clone(), state));
    }
    server.task.await.map_err(|error| Fail::new(exit::INTERNAL, error))?;
    Ok(exit::OK)
}

/// Prints what is served and what to paste into a client.
fn greet(
    host: &Host,
    settings: &Settings,
    server: &BoundServer,
    credentials: &crate::state::Credentials,
    args: &RunArgs,
    state: &std::path::Path,
    has_console: bool,
) {
    let address = server.local_addr;
    let agent = credentials.agents().next().unwrap_or(DEFAULT_AGENT);
    let lines = [
        Some(tools::table(host, &host.catalog())),
        host.manifest().supplied_by_host.then(|| {
            "no Claw manifest was given: an autonomous identity and the policy `host-supplied` stand in".to_owned()
        }),
        Some(format!(
            "\nserving MCP on http://{address}/mcp and the Claw Kernel Protocol on http://{address}/claw; native programs: {}",
            crate::jail::support(),
        )),
        settings.proxy.enabled.then(|| format!(
            "serving completions: the base URL is http://{address}/v1 for OpenAI's protocol and http://{address} for Anthropic's, the key is the agent's token",
        )),
        has_console.then(|| format!("serving the operator's console on http://{address}/console")),
        Some(format!(
            "\npaste into an MCP client that speaks HTTP (agent `{agent}`; the operator's credential is in {}):",
            state.display()
        )),
    ];
    lines.iter().flatten().for_each(|line| show::line(line));
    let token = if args.no_auth { None } else { credentials.agent(agent) };
    show::json(&client_config::http(address, token));
}

fn program() -> String {
    std::env::current_exe()
        .map_or_else(|_| "clawhost".to_owned(), |path| path.display().to_string())
}

/// Returns the arguments that serve the same from any directory: a client that leaves one out
/// would serve something else.
fn given(args: &RunArgs, settings: &Settings) -> Vec<String> {
    let absolute = |path: &PathBuf| {
        std::path::absolute(path).unwrap_or_else(|_| path.clone()).display().to_string()
    };
    let HostArgs { tools, state, config, context } = &args.places;
    // A variable of this shell is not there for a client.
    let state = &state.clone().or_else(|| settings.state.clone());
    let mut given: Vec<String> = setup::with_default(&args.paths).iter().map(absolute).collect();
    if given.is_empty() {
        // What stands in for a manifest is about the current directory.
        given.extend(["--directory".to_owned(), absolute(&PathBuf::from("."))]);
    }
    let options =
        [("--tools", tools), ("--state", state), ("--config", config), ("--context", context)];
    for (option, path) in options {
        if let Some(path) = path {
            given.extend([option.to_owned(), absolute(path)]);
        }
    }
    given
}

/// Cancelled by SIGINT or SIGTERM; running calls then have a grace to end.
pub(super) fn stop_signal() -> CancellationToken {
    let token = CancellationToken::new();
    for kind in [SignalKind::interrupt(), SignalKind::terminate()] {
        // Heeded from now on, and not from when the task first runs: that may be after the greeting.
        let Ok(mut signal) = signal(kind) else { continue };
        let told = token.clone();
        tokio::spawn(async move {
            signal.recv().await;
            told.cancel();
        });
    }
    token
}

/// Says whether standard input was closed, or is the null device, from the start.
fn stdin_is_closed() -> bool {
    #[cfg(target_os = "linux")]
    {
        // A closed descriptor is opened on the null device by the runtime before main.
        std::fs::read_link("/proc/self/fd/0").is_ok_and(|path| path.as_os_str() == "/dev/null")
    }
    #[cfg(not(target_os = "linux"))]
    {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_client_is_given_means_the_same_from_any_directory() {
        let places = HostArgs { tools: None, state: Some("s".into()), config: None, context: None };
        let args = |paths: Vec<PathBuf>| RunArgs {
            paths,
            places: places.clone(),
            stdio: false,
            http: None,
            no_auth: false,
        };
        let here = std::env::current_dir().unwrap();
        let at = |name: &str| here.join(name).display().to_string();
        let here = here.display().to_string();
        // There is no `claw.yaml` beside this package.
        let mut settings = Settings::default();
        assert_eq!(given(&args(vec![]), &settings), ["--directory", &here, "--state", &at("s")]);
        settings.state = Some("t".into());
        let mut args = args(vec!["a.yaml".into()]);
        assert_eq!(given(&args, &settings), [&at("a.yaml"), "--state", &at("s")]);
        args.places.state = None;
        assert_eq!(given(&args, &settings), [&at("a.yaml"), "--state", &at("t")]);
    }
}
