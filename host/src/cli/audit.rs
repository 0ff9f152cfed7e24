//! `clawhost audit verify` and `show`.

use clap::{Args, Subcommand};
use clawhost_core::error::exit;
use clawhost_core::visible;
use serde_json::{Value, json};

use super::args::StateArgs;
use super::fail::Fail;
use super::{setup, show};
use crate::audit::{self, ChainReport};

/// Read the audit log back
///
/// Every call leaves two records, when it arrives and when it ends, in a chain of hashes: one
/// for each time a host ran. Reading makes nothing and needs no host. The log holds digests of
/// arguments and results, and these themselves only where the `audit` of a policy asks for them.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  clawhost audit show\n  clawhost audit verify --json")]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    pub(super) verb: AuditVerb,
    #[command(flatten)]
    pub(super) common: StateArgs,
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

pub(super) fn run(args: &AuditArgs) -> Result<u8, Fail> {
    let Some(dir) = setup::existing_audit_dir(&args.common)? else {
        return Ok(no_log(args.common.json));
    };
    let unreadable = |error: std::io::Error| {
        Fail::new(exit::UPSTREAM, format!("the audit log cannot be read: {error}"))
    };
    match args.verb {
        AuditVerb::Verify => {
            Ok(verify(&audit::verify(&dir).map_err(unreadable)?, args.common.json))
        }
        AuditVerb::Show => {
            show_records(&audit::records(&dir).map_err(unreadable)?, args.common.json);
            Ok(exit::OK)
        }
    }
}

/// A host that never ran has no log; that is no fault of the log's.
fn no_log(as_json: bool) -> u8 {
    if as_json {
        show::json(&json!([]))
    } else {
        show::line("no audit log yet")
    }
    exit::OK
}

fn verify(reports: &[ChainReport], as_json: bool) -> u8 {
    if as_json {
        show::json(&json!(reports));
    } else {
        let mut table = show::table(&["chain", "records", "unfinished calls", "verdict"]);
        for report in reports {
            let verdict = report.broken.as_deref().unwrap_or("holds");
            table.add_row([
                &report.chain,
                &report.records.to_string(),
                &report.unfinished_calls.to_string(),
                verdict,
            ]);
        }
        show::line(&table.to_string());
    }
    if reports.iter().all(|report| report.broken.is_none()) { exit::OK } else { exit::AUDIT_BROKEN }
}

fn show_records(records: &[Value], as_json: bool) {
    let finished: Vec<&Value> =
        records.iter().filter(|record| record["event"] == "call.finished").collect();
    if as_json {
        show::json(&json!(finished));
        return;
    }
    let mut table = show::table(&["time", "principal", "tool", "outcome", "ms", "why"]);
    for record in finished {
        let text = |key: &str| {
            record.get(key).and_then(Value::as_str).map(visible::line).unwrap_or_default()
        };
        let micros = record.get("duration_us").and_then(Value::as_u64).unwrap_or_default();
        let why = [text("message"), text("error")]
            .into_iter()
            .find(|why| !why.is_empty())
            .unwrap_or_default();
        let ms = format!("{}.{:03}", micros / 1000, micros % 1000);
        table.add_row([text("time"), text("principal"), text("tool"), text("outcome"), ms, why]);
    }
    show::line(&table.to_string());
}
