//! `clawhost approvals`: what waits for a person, on every host that runs on the state folder.
//!
//! Deliberately absent: a host. These verbs talk to running ones, over their control sockets.

use std::time::Duration;

use clap::{Args, Subcommand};
use clawhost_core::json::{put, text};
use clawhost_core::lease::Covers;
use clawhost_core::limits::LEASE_CEILING_MS;
use clawhost_core::manifest::duration;
use serde_json::{Value, json};

use super::args::{LATER, StateArgs};
use super::fail::Fail;
use super::hosts::Hosts;
use super::{question, setup, show};
use crate::clock::{now_ms, whole_ms};

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
    /// With approve, deny and revoke: say what is meant, and answer nothing
    #[arg(long, global = true, display_order = LATER)]
    pub(super) dry_run: bool,
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
        /// The question's id, or over CKP the caller's own request id
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
    /// Show a waiting call with all of its arguments
    #[command(after_help = "Example: clawhost approvals show ID")]
    Show {
        /// The question's id, or over CKP the caller's own request id
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
    after_help = "Examples:\n  clawhost approvals approve ID\n  clawhost approvals approve ID --for 24h --arguments 'path=notes/*'"
)]
pub(super) struct ApproveArgs {
    /// The question's id, or over CKP the caller's own request id
    #[arg(value_name = "ID")]
    pub(super) id: String,
    /// Approve later calls as well: as long as the host runs, or for a time
    #[arg(long = "for", value_name = "session|10m|24h", value_parser = lease_time)]
    pub(super) until: Option<LeaseTime>,
    /// Of later calls, those whose argument fits this pattern, in which * stands for any text
    /// without line breaks and ; & | $ ( ) \ ` < >; once for each argument
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
    match duration(text) {
        Some(time) if time.is_zero() => Err("that is no time at all".to_owned()),
        Some(time) if time > Duration::from_millis(LEASE_CEILING_MS) => {
            Err("the longest is 30d".to_owned())
        }
        Some(time) => Ok(LeaseTime::Time(time)),
        None => Err("write `session`, or a time: 90s, 10m, 24h, 7d".to_owned()),
    }
}

pub(super) async fn run(args: ApprovalsArgs) -> Result<u8, Fail> {
    let folder = setup::state_path(&args.common)?.0;
    let mut hosts = Hosts::connect(&folder).await?;
    let as_json = args.common.json;
    let done = Done { word: "", as_json, dry_run: args.dry_run };
    match &args.verb {
        ApprovalsVerb::List => {
            let all = hosts.gather("clawhost.approvals.list", &json!({}), "pending").await?;
            let words = || lines(&all, "nothing waits for approval", print_pending);
            show::done(as_json, || json!(all), words)
        }
        ApprovalsVerb::Leases => {
            let all = hosts.gather("clawhost.approvals.leases", &json!({}), "leases").await?;
            let lease = |one: &Value| question::lease(one, now_ms());
            show::done(as_json, || json!(all), || lines(&all, "there are no leases", lease))
        }
        ApprovalsVerb::Show { id } => {
            let id = json!({"id": meant(&mut hosts, id).await?.id});
            let one = hosts.gather("clawhost.approvals.show", &id, "pending").await?;
            let one = one.first().ok_or_else(nothing_there)?;
            show::done(as_json, || one.clone(), || print_pending(one))
        }
        ApprovalsVerb::Approve(wanted) => {
            let meant = meant(&mut hosts, &wanted.id).await?;
            let parameters = approval(&meant, wanted)?;
            let method = "clawhost.approvals.approve";
            tell(&mut hosts, method, &parameters, Done { word: "approved", ..done }).await
        }
        ApprovalsVerb::Deny { id, reason } => {
            let mut parameters = json!({"id": meant(&mut hosts, id).await?.id});
            put(&mut parameters, "reason", reason.clone().map(Value::from));
            let method = "clawhost.approvals.deny";
            tell(&mut hosts, method, &parameters, Done { word: "denied", ..done }).await
        }
        ApprovalsVerb::Revoke { id } => {
            if args.dry_run {
                let all = hosts.gather("clawhost.approvals.leases", &json!({}), "leases").await?;
                all.iter().find(|one| text(one, "id") == *id).ok_or_else(nothing_there)?;
            }
            let method = "clawhost.approvals.revoke";
            tell(&mut hosts, method, &json!({"id": id}), Done { word: "revoked", ..done }).await
        }
    }
}

/// Returns what `approve` sends. A lease without patterns is for the very same call.
fn approval(meant: &Meant, wanted: &ApproveArgs) -> Result<Value, Fail> {
    let until = match wanted.until {
        None => return Ok(json!({"id": meant.id})),
        Some(LeaseTime::Session) => json!("session"),
        Some(LeaseTime::Time(time)) => json!(whole_ms(time)),
    };
    let covers = if wanted.any_arguments {
        Covers::Any
    } else if wanted.arguments.is_empty() {
        Covers::Exactly(meant.digest.clone())
    } else {
        let pairs =
            wanted.arguments.iter().map(|text| pair(text)).collect::<Result<Vec<_>, _>>()?;
        Covers::matching(pairs).map_err(|reason| Fail::usage(reason, PATTERN_HINT))?
    };
    Ok(json!({"id": meant.id, "lease": {"until": until, "arguments": covers}}))
}

const PATTERN_HINT: &str = "write --arguments 'path=/a/*', once for each argument";

fn pair(text: &str) -> Result<(String, String), Fail> {
    let (name, pattern) = text
        .split_once('=')
        .ok_or_else(|| Fail::usage(format!("`{text}` is no argument=pattern"), PATTERN_HINT))?;
    Ok((name.to_owned(), pattern.to_owned()))
}

fn nothing_there() -> Fail {
    Fail::usage(
        "there is nothing of that name; it may have been answered, withdrawn or out of time",
        "`clawhost approvals list` and `leases` show what there is",
    )
}

fn lines(all: &[Value], nothing: &str, print: fn(&Value) -> String) -> String {
    let lines: Vec<String> = all.iter().map(print).collect();
    if lines.is_empty() { nothing.to_owned() } else { lines.join("\n") }
}

fn print_pending(one: &Value) -> String {
    format!("{}\n  {}", question::text(one, "id"), question::waiting(one, now_ms()))
}

/// The one question that is meant.
struct Meant {
    id: String,
    digest: String,
}

impl Meant {
    /// Callers choose their own request ids, so several may have chosen the same.
    fn of(named: &[Value]) -> Result<Self, Fail> {
        match named {
            [] => Err(nothing_there()),
            [one] => {
                Ok(Self { id: text(one, "id").to_owned(), digest: text(one, "digest").to_owned() })
            }
            several => {
                let each: Vec<_> = several
                    .iter()
                    .map(|one| format!("`{}` of {}", text(one, "id"), text(one, "principal")))
                    .collect();
                Err(Fail::usage(
                    format!("{} calls have that request id: {}", several.len(), each.join(", ")),
                    "name one by its own id",
                ))
            }
        }
    }
}

/// What is printed when it is done.
#[derive(Clone, Copy)]
struct Done {
    word: &'static str,
    as_json: bool,
    dry_run: bool,
}

/// Returns the question that `id` names: its own id, or the request id of one caller only.
async fn meant(hosts: &mut Hosts, id: &str) -> Result<Meant, Fail> {
    let parameters = json!({"id": id});
    Meant::of(&hosts.gather("clawhost.approvals.list", &parameters, "pending").await?)
}

/// Tells all hosts; ids are their own, so it concerns one at most.
async fn tell(hosts: &mut Hosts, method: &str, parameters: &Value, done: Done) -> Result<u8, Fail> {
    let told = |word: String| {
        let value = || json!({"id": parameters.get("id"), "result": word});
        show::done(done.as_json, value, || word.clone())
    };
    if done.dry_run {
        return told(format!("would be {}", done.word));
    }
    let results = hosts.ask(method, parameters).await?;
    if !results.iter().any(|result| result.get("acknowledged") == Some(&json!(true))) {
        return Err(nothing_there());
    }
    told(done.word.to_owned())
}

#[cfg(test)]
mod tests {
    use clawhost_core::error::exit;

    use super::*;

    #[test]
    fn a_request_id_of_several_callers_is_refused_with_their_ids() {
        let one = |id: &str, agent: &str| json!({"id": id, "principal": agent, "digest": "d"});
        assert_eq!(Meant::of(&[one("i", "a")]).ok().map(|meant| meant.id), Some("i".to_owned()));
        assert!(Meant::of(&[]).is_err());
        let several = Meant::of(&[one("i", "a"), one("j", "b")]).err().unwrap();
        assert_eq!(several.code(), exit::USAGE);
        let text = format!("{several:?}");
        assert!(
            ["2 calls have", "`i` of a", "`j` of b"].iter().all(|part| text.contains(part)),
            "{text}"
        );
    }

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
