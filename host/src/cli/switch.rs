//! `clawhost disable` and `clawhost enable`: the operator's switches, on every host that runs on the
//! state folder and on those that are started later.

use clap::Args;
use clawhost_core::catalog::{NoTool, meant};
use clawhost_core::error::exit;
use clawhost_core::manifest::nearest;
use serde_json::{Map, Value, json};

use super::args::StateArgs;
use super::fail::Fail;
use super::hosts::Hosts;
use super::{setup, show};
use crate::clock::rfc3339;
use crate::registry::built_in_names;
use crate::switches::{Off, SwitchError, Switches, Turn};

/// Switch a tool off, whatever the manifest says
///
/// From then on it is neither listed nor called, on every host that runs on the state folder at once and
/// on those that are started later, until `clawhost enable`. Calls that run may end. A tool that nobody
/// offers now can be switched off too: it is off when it comes.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  clawhost disable exec_shell --reason 'until the review'\n  clawhost disable github__create_issue --now"
)]
pub(super) struct DisableArgs {
    #[command(flatten)]
    which: Which,
    /// End the calls that run
    #[arg(long)]
    now: bool,
    /// Also where no host that runs offers such a tool
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    common: StateArgs,
}

/// Switch a tool on again
///
/// It is then what the manifest makes of it.
#[derive(Debug, Args)]
#[command(after_help = "Example: clawhost enable exec_shell")]
pub(super) struct EnableArgs {
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    common: StateArgs,
}

/// Which tool, and what is said about it.
#[derive(Debug, Args)]
struct Which {
    /// The tool, by any of its names
    #[arg(
        value_name = "TOOL",
        required_unless_present = "list",
        default_value = "",
        hide_default_value = true
    )]
    tool: String,
    /// List the tools that are off, and do nothing
    #[arg(long, conflicts_with = "tool")]
    list: bool,
    /// Why: callers read it where a tool is off, and it is recorded
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

pub(super) async fn disable(args: DisableArgs) -> Result<u8, Fail> {
    turn(&args.which, Turn::Off { now: args.now }, args.force, &args.common).await
}

pub(super) async fn enable(args: EnableArgs) -> Result<u8, Fail> {
    turn(&args.which, Turn::On, true, &args.common).await
}

/// Asks the running hosts to turn the switch; without any, turns it in their store. A name that no
/// host knows is turned by `force` only.
async fn turn(which: &Which, to: Turn, force: bool, common: &StateArgs) -> Result<u8, Fail> {
    setup::require_state(common)?;
    if which.list {
        return list(common).await;
    }
    let folder = setup::state_path(common)?.0;
    let done = match Hosts::running(&folder).await? {
        Some(mut hosts) => {
            let looked = ask(&mut hosts, which, &to, true).await?;
            if !force && !is(&looked, "known") {
                return Err(unknown(which, &looked));
            }
            if which.dry_run { looked } else { ask(&mut hosts, which, &to, false).await? }
        }
        None => alone(which, to.clone(), force, common).await?,
    };
    show::done(common.json, || done.clone(), || told(&done, which, &to))
}

/// Returns the answer of a host that offers the tool, or of any.
async fn ask(hosts: &mut Hosts, which: &Which, to: &Turn, dry_run: bool) -> Result<Value, Fail> {
    let (method, parameters) = request(which, to, dry_run);
    let answers = hosts.ask(method, &parameters).await?;
    let best = answers.iter().find(|answer| is(answer, "known"));
    Ok(best.or_else(|| answers.first()).cloned().unwrap_or_default())
}

fn unknown(which: &Which, looked: &Value) -> Fail {
    let near = near(looked).map(|near| near + " ").unwrap_or_default();
    let hint = format!(
        "{near}`clawhost tools` lists the names; --force switches it off for when it comes"
    );
    Fail::usage(format!("no host that runs offers `{}`", which.tool), &hint)
}

/// Lists what is off, by what the store says.
async fn list(common: &StateArgs) -> Result<u8, Fail> {
    let kept = setup::look_into(common, Switches::kept).await?;
    let row = |(tool, off): (&String, &Off)| {
        let (tool, reason) = (tool.clone(), off.reason.clone().unwrap_or_default());
        [tool, rfc3339(off.since_ms), off.by.clone(), reason]
    };
    let header = ["tool", "since", "by", "reason"];
    show::done(
        common.json,
        || kept.iter().map(|(tool, off)| off.to_json(tool)).collect(),
        || show::rows(&header, kept.iter().map(row), "no tool is disabled"),
    )
}

fn request(which: &Which, to: &Turn, dry_run: bool) -> (&'static str, Value) {
    let mut parameters = Map::from_iter([("tool".to_owned(), json!(which.tool))]);
    parameters.extend(which.reason.as_ref().map(|text| ("reason".to_owned(), json!(text))));
    parameters.extend(dry_run.then(|| ("dry_run".to_owned(), json!(true))));
    let method = match to {
        Turn::On => "clawhost.tools.enable",
        Turn::Off { now } => {
            parameters.extend(now.then(|| ("now".to_owned(), json!(true))));
            "clawhost.tools.disable"
        }
    };
    (method, Value::Object(parameters))
}

/// Turns the switch where no host runs: the names of built-in tools are known, and those that are off.
async fn alone(which: &Which, to: Turn, force: bool, common: &StateArgs) -> Result<Value, Fail> {
    let tool = meant(&which.tool).map_err(|error| fail(&error.into()))?;
    let off = setup::look_into(common, Switches::kept).await?;
    let mut names: Vec<String> = off.keys().cloned().collect();
    if to != Turn::On {
        names.extend(built_in_names());
    }
    let near = nearest(&tool, names.iter().map(String::as_str)).filter(|near| *near != tool);
    if !force && !names.contains(&tool) {
        return Err(unknown(which, &json!({"near": near})));
    }
    let changed = if which.dry_run {
        off.contains_key(&tool) == (to == Turn::On)
    } else {
        let switches = setup::switches(common).await?;
        let turned = switches.turn(&tool, to, "operator", which.reason.as_deref()).await;
        turned.map_err(|error| fail(&error))?
    };
    Ok(json!({"tool": tool, "known": Value::Null, "changed": changed, "near": near}))
}

fn fail(error: &SwitchError) -> Fail {
    match error {
        SwitchError::Name(NoTool::Malformed(_)) => {
            Fail::usage(error, "`clawhost tools` lists the names")
        }
        SwitchError::Name(NoTool::Ambiguous(_)) => Fail::usage(
            error,
            "write `mcp.<server>.<tool>` for a server's tool; for another one, each `_` of its name as `-`",
        ),
        _ => Fail::new(exit::UPSTREAM, error),
    }
}

fn near(answer: &Value) -> Option<String> {
    Some(format!("did you mean `{}`?", answer.get("near")?.as_str()?))
}

fn is(answer: &Value, key: &str) -> bool {
    answer.get(key) == Some(&Value::Bool(true))
}

fn told(done: &Value, which: &Which, to: &Turn) -> String {
    let tool = done.get("tool").and_then(Value::as_str).unwrap_or(&which.tool);
    let word = if *to == Turn::On { "enabled" } else { "disabled" };
    let mut text = match (is(done, "changed"), which.dry_run) {
        (false, _) => format!("`{tool}` is {word} already"),
        (true, true) => format!("`{tool}` would be {word}"),
        (true, false) => format!("`{tool}` is {word}"),
    };
    match done.get("known") {
        Some(Value::Bool(false)) => text.push_str("; no host that runs offers it now"),
        Some(Value::Null) => text.push_str("; no host runs on this state folder"),
        _ => {}
    }
    let is_known = is(done, "known");
    text.extend(near(done).filter(|_| !is_known).map(|near| format!("\n{near}")));
    text
}
