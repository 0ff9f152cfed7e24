//! `clawhost pins`: what MCP servers said about their tools, accepting what they say now, and forgetting it.
//!
//! Deliberately absent: a host. These verbs read and write the store, which running hosts look at.

use clap::{Args, Subcommand};
use clawhost_core::bridged;
use clawhost_core::error::exit;
use clawhost_core::visible;
use serde_json::{Value, json};

use super::args::StateArgs;
use super::fail::{Blame as _, Fail};
use super::{setup, show};
use crate::clock::rfc3339;
use crate::registry::{Pin, PinState};

/// Say what MCP servers said about their tools, and accept what they say now
///
/// What a server says about a tool is remembered when it is first seen. When it says something else,
/// the tool is not served until that is accepted here. So it is with a dropped-in component that needs more than
/// before: `tool:NAME` stands for the server's name, and `imports` for the tool's. `tools.pins: require` of the runtime file wants
/// each tool accepted before it is served at all. Running hosts heed it within a second.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  clawhost pins list\n  clawhost pins diff github\n  clawhost pins accept github search_code"
)]
pub(super) struct PinsArgs {
    #[command(subcommand)]
    verb: PinsVerb,
    #[command(flatten)]
    common: StateArgs,
}

#[derive(Debug, Subcommand)]
enum PinsVerb {
    /// Accept what a server says now, about all of its tools or one
    ///
    /// Prints what is accepted, as `diff` does.
    #[command(after_help = "Example: clawhost pins accept github search_code")]
    Accept {
        /// The server's name in the runtime file, or its address
        #[arg(value_name = "SERVER")]
        server: String,
        /// The tool, by the server's own name for it
        #[arg(value_name = "TOOL")]
        tool: Option<String>,
        /// Show what would be accepted, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// Show what differs from what was accepted
    #[command(after_help = "Example: clawhost pins diff github")]
    Diff(Which),
    /// Forget what is remembered of a server, about all of its tools or one
    ///
    /// Makes room where a server has named more tools than are remembered. What it says next is seen
    /// for the first time, and taken on as `tools.pins` of the runtime file says. Prints what is
    /// forgotten, as `list` does.
    #[command(after_help = "Example: clawhost pins forget github old_tool")]
    Forget {
        /// The server's name in the runtime file, or its address
        #[arg(value_name = "SERVER")]
        server: String,
        /// The tool, by the server's own name for it
        #[arg(value_name = "TOOL")]
        tool: Option<String>,
        /// Show what would be forgotten, and do nothing
        #[arg(long)]
        dry_run: bool,
    },
    /// List every tool that is remembered
    #[command(after_help = "Example: clawhost pins list --json")]
    List(Which),
}

/// Where a difference is that somebody has read of.
const SEEN_HINT: &str = "`clawhost run` or `clawhost call` has to meet the server first: what only looks, as `tools` and `doctor`, keeps nothing";

/// What is said where a server or tool is named that nobody has met.
const NOTHING_OF_IT: &str = "nothing is remembered of that server or tool";

/// Which pins are meant.
#[derive(Debug, Args)]
struct Which {
    /// Only this server's, by its name in the runtime file or its address
    #[arg(value_name = "SERVER")]
    server: Option<String>,
    /// Only this tool's, by the server's own name for it
    #[arg(value_name = "TOOL")]
    tool: Option<String>,
}

pub(super) async fn run(args: PinsArgs) -> Result<u8, Fail> {
    setup::require_state(&args.common)?;
    let (server, tool) = match &args.verb {
        PinsVerb::Accept { server, tool, .. } | PinsVerb::Forget { server, tool, .. } => {
            (Some(server), tool.as_ref())
        }
        PinsVerb::Diff(which) | PinsVerb::List(which) => {
            (which.server.as_ref(), which.tool.as_ref())
        }
    };
    // However its server spells it: what is called alike is remembered as one.
    let tool = tool.map(|tool| bridged::remembered_as(tool));
    let all = match setup::existing_pins(&args.common)? {
        Some(pins) => pins.list(server.cloned(), tool).await.or_fail(exit::UPSTREAM)?,
        None => Vec::new(),
    };
    if let PinsVerb::List(_) = args.verb {
        let nothing = match server {
            Some(_) => NOTHING_OF_IT,
            None => "nothing is remembered of any server or tool",
        };
        print(&all, args.common.json, line, nothing);
        return Ok(exit::OK);
    }
    if all.is_empty() && server.is_some() {
        return Err(Fail::usage(NOTHING_OF_IT, SEEN_HINT));
    }
    if let PinsVerb::Forget { dry_run, .. } = args.verb {
        return forget(&args.common, all, dry_run).await;
    }
    let other: Vec<Pin> =
        all.iter().filter(|pin| pin.state() != PinState::Accepted).cloned().collect();
    print(&other, args.common.json, difference, "nothing differs from what was accepted");
    let PinsVerb::Accept { dry_run, .. } = args.verb else {
        if other.is_empty() && !args.common.json {
            eprintln!("hint: {SEEN_HINT}");
        }
        return Ok(exit::OK);
    };
    let told = accept(&args.common, other, dry_run).await?;
    if !args.common.json {
        show::line(&told);
    }
    Ok(exit::OK)
}

/// Accepts all of them, or says that it would; none that changed meanwhile.
async fn accept(common: &StateArgs, other: Vec<Pin>, dry_run: bool) -> Result<String, Fail> {
    let wanted = other.len();
    if dry_run {
        return Ok(format!("would be accepted: {wanted}"));
    }
    let done = setup::pins(common)?.accept(other).await.or_fail(exit::UPSTREAM)?;
    if done < wanted {
        let reason = format!("{} of {wanted} changed once more meanwhile", wanted - done);
        return Err(Fail::new(exit::DENIED, reason));
    }
    Ok(format!("accepted: {done}"))
}

/// Forgets all of them, or says that it would.
async fn forget(common: &StateArgs, all: Vec<Pin>, dry_run: bool) -> Result<u8, Fail> {
    print(&all, common.json, line, "");
    let told = if dry_run {
        format!("would be forgotten: {}", all.len())
    } else {
        let done = setup::pins(common)?.forget(all).await.or_fail(exit::UPSTREAM)?;
        format!("forgotten: {done}")
    };
    if !common.json {
        show::line(&told);
    }
    Ok(exit::OK)
}

/// Prints them; where there are none, `none`.
fn print(pins: &[Pin], as_json: bool, text: fn(&Pin) -> String, none: &str) {
    if as_json {
        return show::json(&json!({"pins": Value::from_iter(pins.iter().map(Pin::to_json))}));
    }
    if pins.is_empty() {
        show::line(none);
    }
    pins.iter().for_each(|pin| show::line(&text(pin)));
}

/// Returns the word for it; what waits stands out.
fn word(state: PinState) -> String {
    let is_accepted = state == PinState::Accepted;
    if is_accepted { state.name().to_owned() } else { state.name().to_uppercase() }
}

/// What a server says is made visible: whoever accepts it does not trust it yet.
fn title(pin: &Pin) -> String {
    format!("{} {}", visible::line(&pin.server), visible::line(&pin.tool))
}

fn line(pin: &Pin) -> String {
    let since = rfc3339(pin.changed_at_ms);
    format!("{}: {}, as it is since {since}", title(pin), word(pin.state()))
}

fn difference(pin: &Pin) -> String {
    let mut text = format!("{}: {}", title(pin), word(pin.state()));
    for line in pin.changes() {
        text.push_str("\n  ");
        text.push_str(&line);
    }
    text
}
