//! `clawhost audit`: shows the record, checks it, and shows single records to others.

use std::path::{Path, PathBuf};

use cap_std::fs::Dir;
use clap::{Args, Subcommand};
use clawhost_core::error::exit;
use clawhost_core::visible;
use serde_json::{Value, json};

use super::args::StateArgs;
use super::events::EventArgs;
use super::fail::Fail;
use super::{events, setup, show};
use crate::audit::{self, ChainReport, PublicKey, Receipt, Trust};

/// Say what agents did: their calls and, through the proxy, their turns, in the order in which they ended
///
/// One line an event: a turn, which `proxy.history` keeps, a call that was made in one, or any other call of the
/// record; and what they come to for each agent. A call's status is its own, whatever became of its turn.
/// The chains are not checked here; `verify` does that.
///
/// Every call leaves two records, when it arrives and when it ends, in a chain of hashes: one
/// for each time a host ran. The chains are signed with the state folder's key, batch after batch.
/// Reading makes nothing and needs no host. The log holds digests of arguments and results, and these
/// themselves only where the `audit` of a policy asks for them.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  clawhost audit --since 12h --status error\n  clawhost audit --agent ada --type tool_call --read-only --json\n  clawhost audit verify --log ./copy --key ed25519:…"
)]
pub(super) struct AuditArgs {
    #[command(subcommand)]
    pub(super) verb: Option<AuditVerb>,
    #[command(flatten)]
    pub(super) events: EventArgs,
    #[command(flatten)]
    pub(super) common: StateArgs,
}

#[derive(Debug, Subcommand)]
pub(super) enum AuditVerb {
    /// Print the public key, for those who check signatures without this state folder
    #[command(after_help = "Example: clawhost audit key")]
    Key,
    /// Print the receipt of a call: its closing record, and what shows that it was signed
    ///
    /// Who has the public key can check it without the log. It holds what the record holds, of this
    /// call and no other. A record is signed within a moment of its end.
    #[command(after_help = "Example: clawhost audit receipt 1795256914175-9124-0/3 > receipt.json")]
    Receipt {
        /// The call, as `clawhost audit` names it
        #[arg(value_name = "CALL")]
        call: String,
    },
    /// Check that no line was edited, dropped or reordered, and that the signatures hold
    ///
    /// Prints each chain with its verdict: it holds, or where it breaks. The exit code is 7
    /// where any chain does not hold. An unfinished call is one that a host was stopped in; a host that
    /// is killed leaves its last moment unsigned. A later chain vouches for up to a second of it.
    ///
    /// With `--key`, only these keys count, and a chain has to be signed to its end, or a later one to name
    /// that end, as of a host that was killed. Otherwise the key of the state folder counts, which whoever can
    /// write that folder can replace; what is not signed is said.
    #[command(
        after_help = "Examples:\n  clawhost audit verify\n  clawhost audit verify --log ./copy --key ed25519:…\n  clawhost audit verify --receipt receipt.json --key ed25519:…"
    )]
    Verify {
        /// Check these chains [default: those of the state folder]
        #[arg(long, value_name = "DIR")]
        log: Option<PathBuf>,
        /// Trust this public key, as `clawhost audit key` prints it, and no other; may be repeated
        #[arg(long, value_name = "KEY")]
        key: Vec<PublicKey>,
        /// Check one receipt instead, and print its record
        #[arg(long, value_name = "FILE", conflicts_with = "log")]
        receipt: Option<PathBuf>,
    },
}

pub(super) fn run(args: &AuditArgs) -> Result<u8, Fail> {
    let common = &args.common;
    let Some(verb) = &args.verb else { return events::run(&args.events, common) };
    match verb {
        AuditVerb::Key => print_key(common),
        AuditVerb::Receipt { call } => print_receipt(common, call),
        AuditVerb::Verify { receipt: Some(file), key, .. } => {
            printed(&checked(file, &trust(key, common)?)?)
        }
        AuditVerb::Verify { log, key, .. } => verify(log.as_deref(), key, common),
    }
}

fn print_receipt(common: &StateArgs, call: &str) -> Result<u8, Fail> {
    let (receipt, own) = (receipt_of(common, call)?, trust(&[], common)?);
    // A copy of a log comes without a key; whom the receipt is for has it.
    if !own.keys.is_empty() {
        proven(&receipt, call, &own)?;
    }
    printed(&json!(receipt))
}

fn printed(value: &Value) -> Result<u8, Fail> {
    show::json(value);
    Ok(exit::OK)
}

fn verify(log: Option<&Path>, key: &[PublicKey], common: &StateArgs) -> Result<u8, Fail> {
    let dir = match log {
        Some(log) => Some(folder(log)?),
        None => setup::existing_audit_dir(common)?,
    };
    let Some(dir) = dir else {
        // A host that never ran has no log; that is no fault of the log's.
        return show::done(common.json, || json!([]), || NO_LOG.to_owned());
    };
    let reports = audit::verify(&dir, &trust(key, common)?).map_err(unreadable)?;
    if let (Some(log), true) = (log, reports.is_empty()) {
        return Err(Fail::usage_at(log, "holds no audit log", LOG_HINT));
    }
    let all_hold = reports.iter().all(|report| report.broken.is_none());
    show::done(common.json, || json!(reports), || verdicts(&reports))?;
    Ok(if all_hold { exit::OK } else { exit::AUDIT_BROKEN })
}

pub(super) const NO_LOG: &str = "no audit log yet";
const LOG_HINT: &str = "name a folder of logs, as `audit` in a state folder is one";

#[expect(clippy::needless_pass_by_value, reason = "it stands in `map_err`")]
fn unreadable(error: std::io::Error) -> Fail {
    Fail::new(exit::UPSTREAM, format!("the audit log cannot be read: {error}"))
}

fn folder(log: &Path) -> Result<Dir, Fail> {
    Dir::open_ambient_dir(log, cap_std::ambient_authority())
        .map_err(|error| Fail::usage_at(log, error, LOG_HINT))
}

/// Whose signatures count: of those that were named, else of the state folder's own key.
pub(super) fn trust(named: &[PublicKey], common: &StateArgs) -> Result<Trust, Fail> {
    if !named.is_empty() {
        return Ok(Trust { keys: named.to_vec(), all_signed: true });
    }
    let own = setup::existing_signing_key(common)?;
    let keys = own.iter().map(audit::SigningKey::public).collect();
    Ok(Trust { keys, all_signed: false })
}

fn print_key(common: &StateArgs) -> Result<u8, Fail> {
    setup::require_state(common)?;
    let key = setup::existing_signing_key(common)?.ok_or_else(|| {
        Fail::usage("there is no key yet", "the first host on a state folder makes one")
    })?;
    let key = key.public().to_string();
    show::done(common.json, || json!({ "key": key }), || key.clone())
}

/// Returns the receipt of a call's end.
pub(super) fn receipt_of(common: &StateArgs, call: &str) -> Result<Receipt, Fail> {
    let none =
        |reason: &str| Fail::usage(format!("{call}: {reason}"), "`clawhost audit` names the calls");
    let dir = setup::existing_audit_dir(common)?.ok_or_else(|| none(NO_LOG))?;
    let (chain, number) =
        call.split_once('/').ok_or_else(|| none("no name of a call, and no file"))?;
    let is_it = |record: &Value| record["event"] == "call.finished" && record["call"] == number;
    let receipt = Receipt::find(&dir, chain, is_it).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => none("no chain of that name"),
        _ => unreadable(error),
    })?;
    let why = "no signed record of its end: it is not there, it runs, or its host was killed";
    receipt.ok_or_else(|| none(why))
}

/// Returns the record that a receipt shows, once that is sure.
pub(super) fn checked(file: &Path, trust: &Trust) -> Result<Value, Fail> {
    let bytes = setup::read_document(file, "name a file that `audit receipt` printed")?;
    let name = file.display().to_string();
    let receipt: Receipt = serde_json::from_slice(&bytes)
        .map_err(|error| unproven(&name, &format!("is no receipt: {error}")))?;
    proven(&receipt, &name, trust)
}

fn unproven(name: &str, why: &str) -> Fail {
    Fail::new(exit::AUDIT_BROKEN, format!("{name}: {why}"))
}

/// As [`checked`], of a receipt that is called `name`.
pub(super) fn proven(receipt: &Receipt, name: &str, trust: &Trust) -> Result<Value, Fail> {
    let mut why = "there is no key to check it with: name one with --key KEY".to_owned();
    for key in &trust.keys {
        match receipt.verify(key) {
            Ok(record) => return Ok(record),
            Err(error) => why = error.to_string(),
        }
    }
    Err(unproven(name, &why))
}

fn verdict(report: &ChainReport) -> String {
    let unsigned = report.signed.map_or(0, |signed| report.records.saturating_sub(signed));
    match (&report.broken, report.begun, unsigned) {
        (Some(broken), ..) => broken.clone(),
        (None, true, _) => {
            "was begun and has no head yet: its host starts, or was killed".to_owned()
        }
        (None, false, 0) => "holds".to_owned(),
        (None, false, _) => format!("holds, but its last {unsigned} are not signed"),
    }
}

fn verdicts(reports: &[ChainReport]) -> String {
    let row = |report: &ChainReport| {
        let signed = report.signed.map_or_else(|| "no".to_owned(), |signed| signed.to_string());
        let (records, unfinished) = (report.records, report.unfinished_calls);
        // A copied log says what it likes.
        let (chain, verdict) = (visible::line(&report.chain), visible::line(&verdict(report)));
        [chain, records.to_string(), signed, unfinished.to_string(), verdict]
    };
    let header = ["chain", "records", "signed", "unfinished calls", "verdict"];
    show::rows(&header, reports.iter().map(row), NO_LOG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verdict_says_what_was_only_begun_and_what_is_not_signed() {
        let told = |begun, signed, broken: Option<&str>| {
            let (chain, broken) = ("c".to_owned(), broken.map(str::to_owned));
            verdict(&ChainReport { chain, records: 3, signed, unfinished_calls: 0, begun, broken })
        };
        assert!(told(true, Some(0), None).starts_with("was begun and has no head"));
        assert_eq!(told(true, Some(0), Some("line 1: no")), "line 1: no");
        assert_eq!(told(false, Some(3), None), "holds");
        assert_eq!(told(false, None, None), "holds");
        assert_eq!(told(false, Some(1), None), "holds, but its last 2 are not signed");
    }

    #[test]
    fn what_a_copied_log_says_moves_no_cursor() {
        let said = "\u{1b}[2Jx\n".to_owned();
        let broken = Some(said.clone());
        let (records, unfinished_calls, begun) = (0, 0, false);
        let chain = said;
        let report = ChainReport { chain, records, signed: None, unfinished_calls, begun, broken };
        let shown = verdicts(&[report]);
        assert!(!shown.contains('\u{1b}') && shown.matches("2Jx").count() == 2, "{shown}");
    }
}
