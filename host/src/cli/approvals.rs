//! `clawhost approvals`: what waits for a person, on every host that runs on the state folder.
//!
//! Deliberately absent: a host. These verbs talk to running ones, over their control sockets.

use std::path::Path;
use std::time::Duration;

use clawhost_core::error::exit;
use clawhost_core::lease::Covers;
use clawhost_core::limits::{CONTROL_ANSWER_MS, MESSAGE_BYTES_MAX};
use clawhost_core::visible;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::args::{ApprovalsArgs, ApprovalsVerb, ApproveArgs, LeaseTime};
use super::fail::Fail;
use super::{setup, show};
use crate::clock::now_ms;
use crate::serve::first_line;
use crate::state::connect_all;

pub(super) async fn run(args: ApprovalsArgs) -> Result<u8, Fail> {
    let folder = setup::state_path(args.state.as_deref())?;
    let mut hosts = Hosts::connect(&folder).await?;
    match &args.verb {
        ApprovalsVerb::List => print_all(
            &hosts.gather("clawhost.approvals.list", "pending").await?,
            args.json,
            "nothing waits for approval",
            print_pending,
        ),
        ApprovalsVerb::Leases => print_all(
            &hosts.gather("clawhost.approvals.leases", "leases").await?,
            args.json,
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
