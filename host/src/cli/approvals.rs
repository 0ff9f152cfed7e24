//! `clawhost approvals`: what waits for a person, on every host that runs on the state folder.
//!
//! Deliberately absent: a host. These verbs talk to running ones, over their control sockets.

use std::path::Path;
use std::time::Duration;

use clap::{Args, Subcommand};
use clawhost_core::error::exit;
use clawhost_core::lease::Covers;
use clawhost_core::limits::{CONTROL_ANSWER_MS, LEASE_CEILING_MS, MESSAGE_BYTES_MAX};
use clawhost_core::visible;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::args::StateArgs;
use super::fail::Fail;
use super::{setup, show};
use crate::clock::now_ms;
use crate::serve::first_line;
use crate::state::connect_all;

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
    #[command(flatten)]
    pub(super) common: StateArgs,
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

pub(super) async fn run(args: ApprovalsArgs) -> Result<u8, Fail> {
    let folder = setup::state_path(args.common.state.as_deref())?.0;
    let mut hosts = Hosts::connect(&folder).await?;
    match &args.verb {
        ApprovalsVerb::List => print_all(
            &hosts.gather("clawhost.approvals.list", "pending").await?,
            args.common.json,
            "nothing waits for approval",
            print_pending,
        ),
        ApprovalsVerb::Leases => print_all(
            &hosts.gather("clawhost.approvals.leases", "leases").await?,
            args.common.json,
            "there are no leases",
            print_lease,
        ),
        ApprovalsVerb::Approve(wanted) => {
            let parameters = approval(&mut hosts, wanted).await?;
            acknowledged(hosts.tell("clawhost.approvals.approve", &parameters).await?, "approved")?;
        }
        ApprovalsVerb::Deny { id, reason } => {
            let mut parameters = json!({"id": id});
            if let (Some(reason), Some(object)) = (reason, parameters.as_object_mut()) {
                object.insert("reason".to_owned(), json!(reason));
            }
            acknowledged(hosts.tell("clawhost.approvals.deny", &parameters).await?, "denied")?;
        }
        ApprovalsVerb::Revoke { id } => {
            let parameters = json!({"id": id});
            acknowledged(hosts.tell("clawhost.approvals.revoke", &parameters).await?, "revoked")?;
        }
    }
    Ok(exit::OK)
}

/// Returns what `approve` sends. A lease without patterns is for the very same call, so the
/// question is looked up for its digest.
async fn approval(hosts: &mut Hosts, wanted: &ApproveArgs) -> Result<Value, Fail> {
    let until = match wanted.until {
        None => return Ok(json!({"id": wanted.id})),
        Some(LeaseTime::Session) => json!("session"),
        Some(LeaseTime::Time(time)) => {
            json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
        }
    };
    let covers = if wanted.any_arguments {
        Covers::Any
    } else if wanted.arguments.is_empty() {
        Covers::Exactly(digest(hosts, &wanted.id).await?)
    } else {
        let pairs =
            wanted.arguments.iter().map(|text| pair(text)).collect::<Result<Vec<_>, _>>()?;
        Covers::matching(pairs).map_err(|reason| Fail::usage(reason, PATTERN_HINT))?
    };
    Ok(json!({"id": wanted.id, "lease": {"until": until, "arguments": covers}}))
}

const PATTERN_HINT: &str = "write --arguments 'path=/a/*', once for each argument";

fn pair(text: &str) -> Result<(String, String), Fail> {
    let (name, pattern) = text
        .split_once('=')
        .ok_or_else(|| Fail::usage(format!("`{text}` is no argument=pattern"), PATTERN_HINT))?;
    Ok((name.to_owned(), pattern.to_owned()))
}

async fn digest(hosts: &mut Hosts, id: &str) -> Result<String, Fail> {
    let pending = hosts.gather("clawhost.approvals.list", "pending").await?;
    let named = |one: &&Value| [one.get("id"), one.get("request_id")].contains(&Some(&json!(id)));
    let found = pending.iter().find(named).and_then(|one| one.get("digest"));
    found.and_then(Value::as_str).map(str::to_owned).ok_or_else(nothing_there)
}

fn acknowledged(done: bool, word: &str) -> Result<(), Fail> {
    if !done {
        return Err(nothing_there());
    }
    show::line(word);
    Ok(())
}

fn nothing_there() -> Fail {
    Fail::usage(
        "there is nothing of that name; it may have been answered, withdrawn or out of time",
        "`clawhost approvals list` and `leases` show what there is",
    )
}

fn print_all(all: &[Value], as_json: bool, nothing: &str, print: fn(&Value) -> String) {
    if as_json {
        show::json(&json!(all));
    } else if all.is_empty() {
        show::line(nothing);
    }
    if !as_json {
        all.iter().for_each(|one| show::line(&print(one)));
    }
}

fn print_pending(one: &Value) -> String {
    let left_ms = number(one, "expires_at_ms").saturating_sub(now_ms()).max(0);
    let cut = if one.get("arguments_cut") == Some(&json!(true)) { " (cut)" } else { "" };
    let rule = match (text(one, "policy"), text(one, "rule_id")) {
        (policy, rule) if !policy.is_empty() => format!("\n  rule {policy}/{rule}"),
        _ => String::new(),
    };
    format!(
        "{id}\n  {principal} calls {tool} with{cut}\n    {arguments}\n  {reason}{rule}\n  \
         {left} s left; silence {silence} it",
        id = text(one, "id"),
        principal = text(one, "principal"),
        tool = text(one, "tool"),
        arguments = value(one, "arguments"),
        reason = text(one, "reason"),
        left = left_ms / 1_000,
        silence = text(one, "silence"),
    )
}

fn print_lease(one: &Value) -> String {
    let ends = match one.get("ends_at_ms").and_then(Value::as_i64) {
        Some(ends) => format!("for {} s more", ends.saturating_sub(now_ms()).max(0) / 1_000),
        None => "as long as its host runs".to_owned(),
    };
    format!(
        "{id}\n  {principal} may call {tool} {ends}, with arguments: {covers}\n  given by {by}",
        id = text(one, "id"),
        principal = text(one, "principal"),
        tool = text(one, "tool"),
        covers = value(one, "covers"),
        by = text(one, "granted_by"),
    )
}

/// Everything shown was written by callers: one line, nothing that drives a terminal.
fn text(one: &Value, key: &str) -> String {
    visible::line(one.get(key).and_then(Value::as_str).unwrap_or_default())
}

fn value(one: &Value, key: &str) -> String {
    visible::line(&one.get(key).unwrap_or(&Value::Null).to_string())
}

fn number(one: &Value, key: &str) -> i64 {
    one.get(key).and_then(Value::as_i64).unwrap_or_default()
}

/// The hosts that run on one state folder.
struct Hosts(Vec<UnixStream>);

impl Hosts {
    async fn connect(folder: &Path) -> Result<Self, Fail> {
        let streams = connect_all(folder).await.map_err(|error| {
            let text = format!("the host in {} cannot be reached: {error}", folder.display());
            Fail::new(exit::UPSTREAM, text)
        })?;
        if streams.is_empty() {
            return Err(Fail::Other {
                code: exit::UPSTREAM,
                reason: format!("no host runs on the state folder {}", folder.display()),
                hint: Some("start one with `clawhost run`, or name its --state DIR".to_owned()),
            });
        }
        Ok(Self(streams))
    }

    /// Asks all hosts and puts their lists together, each entry once: hosts share timed leases.
    async fn gather(&mut self, method: &str, key: &str) -> Result<Vec<Value>, Fail> {
        let mut all: Vec<Value> = Vec::new();
        for host in &mut self.0 {
            let result = ask(host, method, &json!({})).await?;
            for one in result.get(key).and_then(Value::as_array).into_iter().flatten() {
                if !all.contains(one) {
                    all.push(one.clone());
                }
            }
        }
        Ok(all)
    }

    /// Tells host after host until one has what is meant.
    async fn tell(&mut self, method: &str, parameters: &Value) -> Result<bool, Fail> {
        for host in &mut self.0 {
            let result = ask(host, method, parameters).await?;
            if result.get("acknowledged") == Some(&json!(true)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

async fn ask(host: &mut UnixStream, method: &str, parameters: &Value) -> Result<Value, Fail> {
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters});
    let exchange = async {
        host.write_all(format!("{line}\n").as_bytes()).await?;
        first_line(BufReader::new(&mut *host), MESSAGE_BYTES_MAX).await
    };
    let answer = timeout(Duration::from_millis(CONTROL_ANSWER_MS), exchange).await;
    let answer = answer.map_err(|_| Fail::new(exit::UPSTREAM, "the host does not answer"))?;
    let answer = answer.map_err(|error| Fail::new(exit::UPSTREAM, error))?;
    let mut answer: Value = clawhost_core::json::parse(&answer)
        .map_err(|error| Fail::new(exit::UPSTREAM, format!("the host says no JSON: {error}")))?;
    match answer.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => Err(refused(&answer)),
    }
}

fn refused(answer: &Value) -> Fail {
    let reason = answer.pointer("/error/message").and_then(Value::as_str);
    let code = match answer.pointer("/error/code").and_then(Value::as_i64) {
        Some(-32602) => exit::USAGE,
        _ => exit::UPSTREAM,
    };
    Fail::new(code, reason.unwrap_or("the host gives neither a result nor an error"))
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
