//! What can be typed, and the help that explains it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Args, Parser, Subcommand};
use clawhost_core::limits::LEASE_CEILING_MS;

const EXIT_CODES: &str = "Exit codes: 0 worked; 1 a defect of clawhost; 2 wrong command line or \
arguments; 3 a wrong document or component; 4 refused by policy, sandbox or a limit; 5 the tool \
failed or ran out of time; 6 a system service failed; 7 an audit log does not verify.";

/// Run tools for AI agents, each call in a fresh WebAssembly sandbox
///
/// Every call walks one path: checked against its schema, decided by policy, run in a sandbox
/// that holds only what was granted, bounded in time, memory and output, and recorded.
#[derive(Debug, Parser)]
#[command(name = "clawhost", version, after_help = EXIT_CODES, arg_required_else_help = true)]
pub(super) struct Cli {
    /// Say more on standard error; twice for everything
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(super) verbose: u8,
    #[command(subcommand)]
    pub(super) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(super) enum Verb {
    #[cfg(unix)]
    Approvals(ApprovalsArgs),
    Audit(AuditArgs),
    Call(CallArgs),
    Explain(ExplainArgs),
    Inspect(InspectArgs),
    Limits(LimitsArgs),
    Registry(RegistryArgs),
    Run(RunArgs),
    Secrets(SecretsArgs),
    Tools(ToolsArgs),
    Validate(ValidateArgs),
}

/// Where things are kept and found; shared by every verb that makes a host.
#[derive(Debug, Args, Clone)]
pub(super) struct Places {
    /// Serve the components in this directory too, and watch it
    #[arg(long, value_name = "DIR")]
    pub(super) tools: Option<PathBuf>,
    /// Keep credentials and the audit log here [default: $XDG_STATE_HOME/clawhost]
    #[arg(long, value_name = "DIR")]
    pub(super) state: Option<PathBuf>,
    /// Read this runtime file [default: clawhost.yaml beside the manifest]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
}

/// Serve the tools of a manifest over MCP
///
/// Each PATH is a `kind: Claw` manifest, another CKP document (Tool, Sandbox, Policy, …), or a
/// directory of them. Without any, `claw.yaml` in the current directory is used, else an
/// embedded default: the built-in tools on ./workspace.
///
/// With a terminal on standard input it serves streamable HTTP on 127.0.0.1 and prints what to
/// paste into a client; otherwise it speaks MCP on standard input and output.
#[derive(Debug, Args)]
pub(super) struct RunArgs {
    /// Manifests, documents, or directories of them
    #[arg(value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) places: Places,
    /// Speak newline-delimited JSON-RPC on standard input and output
    #[arg(long, conflicts_with = "http")]
    pub(super) stdio: bool,
    /// Serve streamable HTTP on this address
    #[arg(long, value_name = "ADDR")]
    pub(super) http: Option<SocketAddr>,
    /// Ask for no token; loopback addresses only
    #[arg(long)]
    pub(super) no_auth: bool,
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
    /// A manifest, document, or directory of documents
    #[arg(value_name = "MANIFEST")]
    pub(super) manifest: PathBuf,
    /// The tool, by any of its names
    #[arg(value_name = "TOOL")]
    pub(super) tool: String,
    /// A JSON object, or key=value pairs
    #[arg(value_name = "ARGUMENTS")]
    pub(super) arguments: Vec<String>,
    #[command(flatten)]
    pub(super) places: Places,
    /// Give the call this long, in milliseconds; the tool's own limit binds too
    #[arg(long, value_name = "MS")]
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
    /// A manifest, document, or directory of documents
    #[arg(value_name = "MANIFEST")]
    pub(super) manifest: PathBuf,
    /// The tool, by any of its names
    #[arg(value_name = "TOOL")]
    pub(super) tool: String,
    /// A JSON object, or key=value pairs
    #[arg(value_name = "ARGUMENTS")]
    pub(super) arguments: Vec<String>,
    #[command(flatten)]
    pub(super) places: Places,
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
/// let a tool be called at all. What could not be served stands below the table, with its reason;
/// the exit code is 0 all the same.
#[derive(Debug, Args)]
#[command(after_help = "Example: clawhost tools host/examples/manifest.yaml")]
pub(super) struct ToolsArgs {
    /// Manifests, documents, or directories of them
    #[arg(value_name = "PATH")]
    pub(super) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) places: Places,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Check documents and print every problem, with file, line and what would be right
///
/// Documents are read together with everything they refer to, in files and in registries, and
/// nothing is compiled, run or made. The runtime file is checked as well. An unknown key is a
/// problem, as a misspelt restriction would otherwise restrict nothing. The exit code is 3 where there is any problem.
#[derive(Debug, Args)]
#[command(after_help = "Example: clawhost validate host/examples/manifest.yaml")]
pub(super) struct ValidateArgs {
    /// Documents, or directories of them
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,
    /// Check with this runtime file [default: clawhost.yaml beside the documents]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Publish documents and components for other hosts
///
/// A registry answers `claw://registry/<namespace>/<name>@<version>` addresses of manifests. The
/// runtime file of a host lists those that it asks, under `registries`.
#[derive(Debug, Args)]
#[command(after_help = "Example: clawhost registry serve ./published")]
pub(super) struct RegistryArgs {
    #[command(subcommand)]
    pub(super) verb: RegistryVerb,
}

#[derive(Debug, Subcommand)]
pub(super) enum RegistryVerb {
    Serve(ServeRegistryArgs),
}

/// Serve a folder of packages over HTTP, on this machine, to be read only
///
/// The folder holds <namespace>/<name>/<version>/document.yaml (or .json), and beside the document
/// of a Tool its component.wasm (or .wat). Files are read anew for each request. To publish to
/// other machines, put a proxy with TLS in front.
#[derive(Debug, Args)]
#[command(after_help = "Example: clawhost registry serve ./published --address 127.0.0.1:7334")]
pub(super) struct ServeRegistryArgs {
    /// The folder that holds the packages
    #[arg(value_name = "DIR")]
    pub(super) directory: PathBuf,
    /// Listen here; port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7334")]
    pub(super) address: SocketAddr,
}

/// Say what a component is, what it imports, and what it would need granted
///
/// Nothing is granted while it is inspected: the component is asked to describe itself in an
/// empty sandbox, within one second. A file that can be no tool is described too, as far as its
/// structure says; the reason follows, and the exit code is 3.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  clawhost inspect greet.wasm\n  clawhost inspect --manifest greet.wasm > greet.yaml"
)]
pub(super) struct InspectArgs {
    /// A component, in binary or text form
    #[arg(value_name = "FILE")]
    pub(super) file: PathBuf,
    /// Print a CKP Tool document to save beside it; name one TOOL of several
    #[arg(long, conflicts_with = "json", value_name = "TOOL", num_args = 0..=1, require_equals = true)]
    pub(super) manifest: Option<Option<String>>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Print every built-in bound, its value and its reason
///
/// Each name ends in its unit. These are the values where nothing else is said: the block
/// `limits` of the runtime file sets some of them for a host, a profile or a tool its own time,
/// memory and output. None can be switched off.
#[derive(Debug, Args)]
#[command(after_help = "Example: clawhost limits --json")]
pub(super) struct LimitsArgs {
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
}

/// Keep the secrets that tools and providers need
///
/// The store is a file in the state folder that only its owner can read. A secret that is not in
/// it is looked for in the environment, then in the folder that CLAW_SECRETS_DIR names. No verb
/// prints a value.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  clawhost secrets set API_TOKEN < token.txt\n  clawhost secrets list\n  clawhost secrets remove API_TOKEN"
)]
pub(super) struct SecretsArgs {
    #[command(subcommand)]
    pub(super) verb: SecretsVerb,
    /// The state folder that holds the store [default: $XDG_STATE_HOME/clawhost]
    #[arg(long, value_name = "DIR", global = true)]
    pub(super) state: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum SecretsVerb {
    /// Print the names of the secrets in the store
    #[command(after_help = "Example: clawhost secrets list --json")]
    List,
    /// Forget a secret
    #[command(after_help = "Example: clawhost secrets remove API_TOKEN")]
    Remove {
        /// Its name
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Keep a secret, in the place of one of that name
    ///
    /// The value is typed unseen, or is all of standard input but one line break at its end. A
    /// host that runs uses it from now on.
    #[command(after_help = "Example: clawhost secrets set API_TOKEN < token.txt")]
    Set {
        /// Its name: letters, digits, `_`, `-` and `.`
        #[arg(value_name = "NAME")]
        name: String,
    },
}

/// Read the audit log back
///
/// Every call leaves two records, when it arrives and when it ends, in a chain of hashes: one
/// for each time a host ran. Reading makes nothing and needs no host; the log holds digests of
/// arguments and results, not these themselves.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  clawhost audit show\n  clawhost audit verify --json")]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    pub(super) verb: AuditVerb,
    /// The state folder that holds the log [default: $XDG_STATE_HOME/clawhost]
    #[arg(long, value_name = "DIR", global = true)]
    pub(super) state: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum AuditVerb {
    /// Check that no line was edited, dropped or reordered
    ///
    /// Prints each chain with its verdict: it holds, or where it breaks. The exit code is 7
    /// where any chain does not hold. An unfinished call is one that a host was stopped in.
    #[command(after_help = "Example: clawhost audit verify")]
    Verify,
    /// Print the calls that were recorded, oldest first
    ///
    /// One line a call that ended: when, who asked, which tool, how it ended, how long it took,
    /// and why it was refused or failed. The chains are not checked here; `verify` does that.
    #[command(after_help = "Example: clawhost audit show --json")]
    Show,
}

/// Answer the calls that wait for a person
///
/// A policy rule `require-approval`, or a supervised identity, makes a call wait until somebody
/// answers here, until its client gives up, or until its time is over. These verbs reach every
/// host that runs on the state folder; only its owner can use them.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  clawhost approvals list\n  clawhost approvals approve ID --for 10m\n  clawhost approvals deny ID --reason 'not today'"
)]
pub(super) struct ApprovalsArgs {
    #[command(subcommand)]
    pub(super) verb: ApprovalsVerb,
    /// The state folder of the host [default: $XDG_STATE_HOME/clawhost]
    #[arg(long, value_name = "DIR", global = true)]
    pub(super) state: Option<PathBuf>,
    /// Print JSON
    #[arg(long, global = true)]
    pub(super) json: bool,
}

#[derive(Debug, Subcommand)]
pub(super) enum ApprovalsVerb {
    Approve(ApproveArgs),
    /// Refuse a waiting call
    ///
    /// The caller gets the error -32013, and reads the reason.
    #[command(after_help = "Example: clawhost approvals deny ID --reason 'not today'")]
    Deny {
        /// The question's id, or the caller's own request id
        #[arg(value_name = "ID")]
        id: String,
        /// What the caller is told
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
    /// List what later calls may run without a question
    #[command(after_help = "Example: clawhost approvals leases --json")]
    Leases,
    /// List the calls that wait
    #[command(after_help = "Example: clawhost approvals list --json")]
    List,
    /// End a lease
    #[command(after_help = "Example: clawhost approvals revoke ID")]
    Revoke {
        /// The lease's id
        #[arg(value_name = "ID")]
        id: String,
    },
}

/// Let a waiting call run
///
/// With --for, later calls of the same agent to the same tool run too: those with exactly the
/// same arguments, or those that --arguments or --any-arguments cover. A tool whose component is
/// replaced is asked about again.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  clawhost approvals approve ID\n  clawhost approvals approve ID --for 24h --arguments 'path=/notes/*'"
)]
pub(super) struct ApproveArgs {
    /// The question's id, or the caller's own request id
    #[arg(value_name = "ID")]
    pub(super) id: String,
    /// Approve later calls as well: as long as the host runs, or for a time
    #[arg(long = "for", value_name = "session|10m|24h", value_parser = lease_time)]
    pub(super) until: Option<LeaseTime>,
    /// Of later calls, those whose argument fits this pattern, in which * stands for any text;
    /// once for each argument
    #[arg(long, value_name = "NAME=PATTERN", requires = "until", conflicts_with = "any_arguments")]
    pub(super) arguments: Vec<String>,
    /// Of later calls, all, whatever their arguments
    #[arg(long, requires = "until")]
    pub(super) any_arguments: bool,
}

/// How long an approval covers later calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseTime {
    /// As long as the host runs.
    Session,
    /// For this long.
    Time(Duration),
}

/// Reads `session`, or a number with `s`, `m`, `h` or `d`.
fn lease_time(text: &str) -> Result<LeaseTime, String> {
    if text == "session" {
        return Ok(LeaseTime::Session);
    }
    let seconds = |unit| match unit {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3_600),
        'd' => Some(86_400),
        _ => None,
    };
    let time = text.char_indices().next_back().and_then(|(at, unit)| {
        let count: u64 = text.get(..at)?.parse().ok()?;
        count.checked_mul(seconds(unit)?)
    });
    match time.map(Duration::from_secs) {
        Some(time) if time.is_zero() => Err("that is no time at all".to_owned()),
        Some(time) if time > Duration::from_millis(LEASE_CEILING_MS) => {
            Err("the longest is 30d".to_owned())
        }
        Some(time) => Ok(LeaseTime::Time(time)),
        None => Err("write `session`, or a time: 90s, 10m, 24h, 7d".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_lease_is_read_strictly() {
        let minutes = |count: u64| Ok(LeaseTime::Time(Duration::from_secs(count * 60)));
        assert_eq!(lease_time("session"), Ok(LeaseTime::Session));
        assert_eq!(lease_time("10m"), minutes(10));
        assert_eq!(lease_time("24h"), minutes(24 * 60));
        for text in
            ["", "m", "0m", "-1m", "10", "1.5h", "31d", "10 m", "10ü", "99999999999999999999s"]
        {
            assert!(lease_time(text).is_err(), "{text}");
        }
    }
}
