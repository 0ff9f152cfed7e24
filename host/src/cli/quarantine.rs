//! `clawhost quarantine`: tools that failed again and again, why, and what helps.
//!
//! Deliberately absent: a host. These verbs read and write the store, and running hosts notice.

use clap::{Args, Subcommand};
use clawhost_core::catalog::meant;
use clawhost_core::error::exit;
use clawhost_core::visible;
use serde_json::json;

use super::args::{StateArgs, Who};
use super::fail::{Blame as _, Fail};
use super::{setup, show};
use crate::clock::rfc3339;
use crate::quarantine::{Hold, Quarantine, Seen};

/// Say which tools are in quarantine and why, release them, and say what helps
///
/// A tool that fails three times within ten minutes in the same way for one caller is not called for
/// that caller for an hour; then one call tries it, and a failure doubles the time. What policy refuses
/// never counts, nor what a tool says of its arguments. Running hosts heed these verbs within a second.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  clawhost quarantine list\n  clawhost quarantine release word_count --reason 'new build'\n  clawhost quarantine vaccinate sha256:4f0c --procedure 'Ask for fewer rows.'"
)]
pub(super) struct QuarantineArgs {
    #[command(subcommand)]
    verb: QuarantineVerb,
    #[command(flatten)]
    common: StateArgs,
}

#[derive(Debug, Subcommand)]
enum QuarantineVerb {
    /// List every kind of failure that is remembered, the newest first
    #[command(after_help = "Example: clawhost quarantine anomalies --json")]
    Anomalies,
    /// List the tools that are in quarantine
    #[command(after_help = "Example: clawhost quarantine list")]
    List,
    /// Let a tool be called again, by everybody
    #[command(after_help = "Example: clawhost quarantine release word_count --reason 'new build'")]
    Release {
        /// The tool, by any of its names
        #[arg(value_name = "TOOL")]
        tool: String,
        /// Why, for the record
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// Say what would be done, and do nothing
        #[arg(long)]
        dry_run: bool,
        #[command(flatten)]
        who: Who,
    },
    /// Say what helps against a kind of failure
    ///
    /// Who meets it is told, and it no longer counts.
    #[command(
        after_help = "Example: clawhost quarantine vaccinate sha256:4f0c --procedure 'Ask for fewer rows.'"
    )]
    Vaccinate {
        /// The signature of the failure, or how it begins
        #[arg(value_name = "SIGNATURE")]
        signature: String,
        /// What helps, in words that callers read
        #[arg(long, value_name = "TEXT")]
        procedure: String,
        #[command(flatten)]
        who: Who,
    },
}

pub(super) async fn run(args: QuarantineArgs) -> Result<u8, Fail> {
    let QuarantineArgs { verb, common } = args;
    setup::require_state(&common)?;
    match verb {
        QuarantineVerb::Anomalies => {
            let seen = setup::look_into(&common, Quarantine::remembered).await?;
            show::done(common.json, || json!(seen), || seen_words(&seen))
        }
        QuarantineVerb::List => {
            let holds = setup::look_into(&common, Quarantine::kept).await?;
            show::done(common.json, || json!(holds), || holds_words(&holds))
        }
        QuarantineVerb::Release { tool, reason, dry_run, who } => {
            let said = Some(reason.as_str()).filter(|_| !dry_run);
            release(&common, &tool, said, &who).await
        }
        QuarantineVerb::Vaccinate { signature, procedure, who } => {
            vaccinate(&common, &signature, &procedure, &who).await
        }
    }
}

/// Releases a tool for a `reason`; without one it only says what that would do.
async fn release(
    common: &StateArgs,
    tool: &str,
    reason: Option<&str>,
    who: &Who,
) -> Result<u8, Fail> {
    let hint = "`clawhost quarantine list` shows which tools are";
    let tool = meant(tool).map_err(|error| Fail::usage(error, hint))?;
    let holds = setup::look_into(common, Quarantine::kept).await?;
    if !holds.iter().any(|hold| hold.tool == tool) {
        return Err(Fail::usage(format!("`{tool}` is not in quarantine"), hint));
    }
    let done = if reason.is_none() { "would be released" } else { "released" };
    if reason.is_some() {
        let quarantine = setup::quarantine(common).await?;
        quarantine.release(&tool, &who.by, reason).await.or_fail(exit::UPSTREAM)?;
    }
    show::done(common.json, || json!({ done: tool }), || format!("{done}: {tool}"))
}

async fn vaccinate(
    common: &StateArgs,
    begin: &str,
    procedure: &str,
    who: &Who,
) -> Result<u8, Fail> {
    let mut seen = setup::look_into(common, Quarantine::remembered).await?;
    seen.retain(|seen| seen.signature.starts_with(begin));
    let [one] = seen.as_slice() else {
        let how_many = if seen.is_empty() {
            "no kind of failure begins"
        } else {
            "several kinds of failures begin"
        };
        let reason = format!("{how_many} like `{begin}`");
        return Err(Fail::usage(reason, "`clawhost quarantine anomalies --json` shows them"));
    };
    let quarantine = setup::quarantine(common).await?;
    let known =
        quarantine.vaccinate(&one.signature, procedure, &who.by).await.or_fail(exit::UPSTREAM)?;
    if !known {
        return Err(Fail::new(exit::UPSTREAM, "it was forgotten meanwhile"));
    }
    let signature = &one.signature;
    let words = || format!("{}: who meets it is told what helps", show::short(signature));
    show::done(common.json, || json!({ "vaccinated": signature }), words)
}

fn holds_words(holds: &[Hold]) -> String {
    let row = |hold: &Hold| {
        let (since, until) = (rfc3339(hold.since_ms), rfc3339(hold.until_ms));
        let failure = show::short(&hold.signature).to_owned();
        [hold.tool.clone(), hold.principal.clone(), since, until, failure]
    };
    let header = ["tool", "for", "since", "until", "failure"];
    show::rows(&header, holds.iter().map(row), "no tool is in quarantine")
}

fn seen_words(seen: &[Seen]) -> String {
    let row = |seen: &Seen| {
        let what = format!("{}: {}", seen.code, visible::line(&seen.message));
        let helps = seen.procedure.as_deref().map(visible::line).unwrap_or_default();
        let (times, last) = (seen.times.to_string(), rfc3339(seen.last_ms));
        [show::short(&seen.signature).to_owned(), seen.tool.clone(), times, last, what, helps]
    };
    let header = ["failure", "tool", "times", "last", "what", "what helps"];
    show::rows(&header, seen.iter().map(row), "no failure is remembered")
}
