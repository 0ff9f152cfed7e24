//! What can be typed, and the help that explains it. Verbs with verbs of their own have theirs.

use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgAction, Args, Parser, Subcommand};
use clawhost_core::limits::TOOL_TIMEOUT_CEILING_MS;

use super::{
    approvals, attack, audit, compile, completions, compose, discover, doctor, import, learn, man,
    new, pins, pull, push, quarantine, registry, replay, secrets, stats, switch, wrap,
};

const EXIT_CODES: &str = "Exit codes: 0 worked; 1 a defect of clawhost; 2 wrong command line or \
arguments; 3 a wrong document or component; 4 refused by policy, sandbox or a limit; 5 the tool \
failed or ran out of time; 6 a system service failed; 7 an audit log does not verify.";

/// In the help of a verb its own options stand first, then those of its group, then everybody's.
pub(super) const LATER: usize = 900;
const LAST: usize = 950;

/// Run tools for AI agents, each call in a fresh WebAssembly sandbox
///
/// Every call walks one path: checked against its schema, decided by policy, run in a sandbox
/// that holds only what was granted, bounded in time, memory and output, and recorded.
#[derive(Debug, Parser)]
#[command(name = "clawhost", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub(super) struct Cli {
    /// Say more on standard error; twice for everything
    #[arg(short, long, global = true, action = ArgAction::Count, display_order = LAST)]
    pub(super) verbose: u8,
    /// Work as if started in this directory
    #[arg(long, global = true, value_name = "DIR", display_order = LAST + 1)]
    pub(super) directory: Option<PathBuf>,
    #[command(subcommand)]
    pub(super) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    Approvals(approvals::ApprovalsArgs),
    Attack(attack::AttackArgs),
    Audit(audit::AuditArgs),
    Call(CallArgs),
    Compile(compile::CompileArgs),
    Completions(completions::CompletionsArgs),
    Compose(compose::ComposeArgs),
    Disable(switch::DisableArgs),
    Discover(discover::DiscoverArgs),
    Doctor(doctor::DoctorArgs),
    Enable(switch::EnableArgs),
    Explain(ExplainArgs),
    Import(import::ImportArgs),
    Inspect(InspectArgs),
    Learn(learn::LearnArgs),
    Limits(LimitsArgs),
    Man(man::ManArgs),
    New(new::NewArgs),
    Pins(pins::PinsArgs),
    Proxy(ProxyArgs),
    Pull(pull::PullArgs),
    Push(push::PushArgs),
    Quarantine(quarantine::QuarantineArgs),
    Registry(registry::RegistryArgs),
    Replay(replay::ReplayArgs),
    Run(RunArgs),
    Secrets(secrets::SecretsArgs),
    Stats(stats::StatsArgs),
    Tools(ToolsArgs),
    Validate(ValidateArgs),
    Wrap(wrap::WrapArgs),
}

/// Where things are kept and found; shared by every verb that makes a host.
#[derive(Debug, Args, Clone)]
pub(super) struct HostArgs {
    /// Serve the components in this directory too, and watch it
    #[arg(long, value_name = "DIR")]
    pub(super) tools: Option<PathBuf>,
    /// Keep credentials and the audit log here [default: $XDG_STATE_HOME/clawhost]
    #[arg(long, value_name = "DIR")]
    pub(super) state: Option<PathBuf>,
    /// Read this runtime file [default: clawhost.yaml beside the manifest, else of the current
    /// directory]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Serve what `clawhost compile` wrote here as well, to the agents that it names
    #[arg(long, value_name = "DIR")]
    pub(super) context: Option<PathBuf>,
}

/// Which call is meant; shared by the verbs that make one or tell of it.
#[derive(Debug, Args)]
pub(super) struct CallWords {
    /// A manifest, document, or directory of documents
    #[arg(value_name = "MANIFEST")]
    pub(super) manifest: PathBuf,
    /// The tool, by any of its names
    #[arg(value_name = "TOOL")]
    pub(super) tool: String,
    /// A JSON object, or key=value pairs
    #[arg(value_name = "ARGUMENTS")]
    pub(super) arguments: Vec<String>,
    /// As this agent of the runtime file or of --context; without it, `explain` has somebody who has every tool
    #[arg(long, value_name = "NAME")]
    pub(super) agent: Option<String>,
    #[command(flatten)]
    pub(super) places: HostArgs,
}

/// Which state folder is meant, and how to print; shared by the verbs that make no host.
#[derive(Debug, Args)]
pub(super) struct StateArgs {
    /// The state folder of the host [default: $XDG_STATE_HOME/clawhost]
    #[arg(long, value_name = "DIR", global = true, display_order = LATER)]
    pub(super) state: Option<PathBuf>,
    /// Read this runtime file [default: clawhost.yaml of the current directory]
    #[arg(long, value_name = "FILE", global = true, display_order = LATER + 1)]
    pub(super) config: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true, display_order = LATER + 2)]
    pub(super) json: bool,
}

/// Who is at work; shared by the verbs that write it down.
#[derive(Debug, Args)]
pub(super) struct Who {
    /// Who says so, for the record
    #[arg(long, value_name = "NAME", default_value = "operator")]
    pub(super) by: String,
}

/// Serve the tools of a manifest over MCP and the Claw Kernel Protocol
///
/// Each PATH is a `kind: Claw` manifest, another CKP document (Tool, Sandbox, Policy, …), or a
/// directory of them. Without any, `claw.yaml` in the current directory is used, else an
/// embedded default: the built-in tools on ./workspace.
///
/// With a terminal on standard input it serves HTTP on 127.0.0.1, MCP at /mcp and the Claw Kernel
/// Protocol at /claw, and prints what to paste into a client; otherwise it speaks both on standard
/// input and output, where the agent is called `stdio`.
///
/// On SIGHUP the documents and the runtime file are read anew. Where they are wrong, that is said and
/// the host goes on as it was.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Manifests, documents, or directories of them
    #[arg(value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) places: HostArgs,
    /// Speak newline-delimited JSON-RPC on standard input and output
    #[arg(long, conflicts_with = "http")]
    pub(super) stdio: bool,
    /// Serve HTTP on this address, or port of 127.0.0.1: MCP at /mcp, the Claw Kernel Protocol at
    /// /claw
    #[arg(long, value_name = "ADDR", value_parser = http_address)]
    pub(super) http: Option<SocketAddr>,
    /// Ask for no token; loopback addresses only
    #[arg(long)]
    pub(super) no_auth: bool,
}

/// Serve completions to agents whose clients can be told a base URL, with the tools of a manifest in them
///
/// POST /v1/chat/completions and /v1/responses (OpenAI's protocol) and POST /v1/messages (Anthropic's) go to
/// the manifest's providers of that protocol; `model` names a provider, or its model. What the agent may call is put beside
/// its own tools, and what the model calls of it is carried out here, through the same checks and records as
/// every call. The key that a client is given is the agent's token. MCP and the Claw Kernel Protocol are
/// served beside it, as `run` does, which serves completions too where the runtime file says
/// `proxy: {enabled: true}`.
#[derive(Debug, Args)]
#[command(after_help = "Example: clawhost proxy claw.yaml --http 127.0.0.1:7333")]
pub(super) struct ProxyArgs {
    /// A manifest, document, or directory of documents
    #[arg(value_name = "MANIFEST")]
    pub(super) manifest: PathBuf,
    #[command(flatten)]
    pub(super) places: HostArgs,
    /// Serve HTTP on this address, or port of 127.0.0.1 [default: 127.0.0.1:7333]
    #[arg(long, value_name = "ADDR", value_parser = http_address)]
    pub(super) http: Option<SocketAddr>,
    /// Ask for no token; loopback addresses only
    #[arg(long)]
    pub(super) no_auth: bool,
}

/// Reads an address with its port, or a port that only this machine can reach.
pub(super) fn http_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse().map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
    let wrong = |_| "write an address and a port, 127.0.0.1:7333, or only a port, 7333".to_owned();
    text.parse().or(port).map_err(wrong)
}

/// Returns what reads a whole number of `range`; of anything else it says which there are.
pub(super) fn whole_number<T>(
    range: RangeInclusive<T>,
) -> impl Fn(&str) -> Result<T, String> + Clone
where
    T: Clone + Display + FromStr + PartialOrd,
{
    move |text| {
        let wrong = || format!("write a whole number from {} to {}", range.start(), range.end());
        text.parse().ok().filter(|number| range.contains(number)).ok_or_else(wrong)
    }
}

/// Make one call and print its result
///
/// ARGUMENTS are one JSON object, or `key=value` pairs: a value is read as JSON where the
/// tool's schema wants something else than text.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: clawhost call host/examples/manifest.yaml read_file path=hello.txt"
)]
pub(super) struct CallArgs {
    #[command(flatten)]
    pub(super) call: CallWords,
    /// Give the call this long, in milliseconds; the tool's own limit binds too
    #[arg(long, value_name = "MS", value_parser = whole_number(1..=TOOL_TIMEOUT_CEILING_MS))]
    pub(super) timeout_ms: Option<u64>,
    /// Print the whole result as JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Say what would become of a call, and why; nothing is called
///
/// Prints which rule decides, every rule looked at before it with its place and the first thing
/// that did not match, and what the schema, screens, autonomy, sandbox and quotas add. Without
/// ARGUMENTS, rules about arguments count as they suit the call. The exit code is 0 whether the
/// call would be allowed or refused.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: clawhost explain host/examples/manifest.yaml write_file path=a.txt content=b"
)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    pub(super) call: CallWords,
    /// A policy that has to allow the call as well, as a caller may name one
    #[arg(long, value_name = "NAME")]
    pub(super) policy: Option<String>,
    /// A sandbox whose bounds bind as well, as a caller may name one
    #[arg(long, value_name = "NAME")]
    pub(super) sandbox: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// List the tools of a manifest, what each may touch, and what was refused
///
/// The table is made as `run` would make it: documents are checked, components compiled and
/// bound to their profiles, and nothing is called. The column `policy` says whether the rules
/// let a tool be called at all. What could not be served is said on standard error, with its reason,
/// and the exit code is 3 then; it is 6 where an MCP server has not said yet what it offers, which the
/// list ends with.
#[derive(Debug, Args)]
#[command(after_help = "Example: clawhost tools host/examples/manifest.yaml")]
pub(super) struct ToolsArgs {
    /// Manifests, documents, or directories of them
    #[arg(value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) places: HostArgs,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Check documents and print every problem, with file, line and what would be right
///
/// Documents are read together with everything they refer to, in files and in registries. The runtime
/// file is checked as well, and so is the tools folder, whose components are asked in an empty sandbox
/// what they offer; no tool is called, and nothing is made. An unknown key is a problem, as a misspelt
/// restriction would otherwise restrict nothing. The exit code is 3 where there is any problem.
#[derive(Debug, Args)]
#[command(after_help = "Example: clawhost validate host/examples/manifest.yaml")]
pub(super) struct ValidateArgs {
    /// Documents, or directories of them
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,
    /// Check with this runtime file [default: clawhost.yaml beside the documents]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Check the components and documents in this directory too [default: the runtime file's]
    #[arg(long, value_name = "DIR")]
    pub(super) tools: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Say what a component is, what it imports, and what it would need granted
///
/// A component of the world `claw:tool` is asked to describe itself, in an empty sandbox and within
/// one second; of any other, each exported function is a tool. A program for WASI is one tool, which
/// has its file's name. A file that can be no tool is described too, as far as its
/// structure says; the reason follows, and the exit code is 3. Of a service, its tools are told with the
/// requests that they are, which no agent is shown.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  clawhost inspect greet.wasm\n  clawhost inspect --manifest greet.wasm > greet.yaml"
)]
pub(super) struct InspectArgs {
    /// A component, in binary or text form; or a service of the runtime file, or its descriptor
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// Print a CKP Tool document to save beside it; name one TOOL of several
    #[arg(long, conflicts_with = "json", value_name = "TOOL", num_args = 0..=1, require_equals = true)]
    pub(super) manifest: Option<Option<String>>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Print the built-in bounds, their values and their reasons
///
/// They bound what a caller, a tool, a service or a document may use of this host. Each name ends in its unit. These
/// are the values where nothing else is said: the block `limits` of the runtime file sets some of them for a host, a
/// profile or a tool its own time, memory and output. None can be switched off.
#[derive(Debug, Args)]
#[command(after_help = "Example: clawhost limits --json")]
pub(super) struct LimitsArgs {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_one_with_a_port_or_a_port_of_this_machine() {
        assert_eq!(http_address("7400"), Ok("127.0.0.1:7400".parse().unwrap()));
        assert_eq!(http_address("0.0.0.0:80"), Ok("0.0.0.0:80".parse().unwrap()));
        for text in ["", "localhost", ":7400", "70000", "127.0.0.1"] {
            assert!(http_address(text).unwrap_err().contains("7333"), "{text}");
        }
    }
}
