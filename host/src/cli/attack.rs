//! `clawhost attack`: the escape lab against the profiles of a manifest.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use clawhost_core::error::exit;
use serde_json::{Value, json};

use super::fail::{Blame as _, Fail};
use super::{setup, show};
use crate::attack::{self, Finding, Outcome};

/// Values of the environment that are shorter are no canaries: they appear by chance.
const HIDDEN_BYTES_MIN: usize = 16;

/// Run hostile components against the profiles of a manifest, and say what held
///
/// Every profile that a tool of the documents runs under, or else of the embedded default, is
/// attacked with its own grants and bounds. Nothing of yours is touched: its folders are replaced
/// by folders of a temporary one, its secrets by made-up ones, and requests go only where they
/// have to be refused. Oracles outside the sandboxes judge: canary files, a port that nobody may
/// connect to, the environment, memory, descriptors, processes, the record, and a good call after
/// each. The exit code is 1 where something did not hold, and 6 where a profile could not be tried.
#[derive(Debug, Args)]
#[command(after_help = "Example: clawhost attack host/examples/manifest.yaml")]
pub(super) struct AttackArgs {
    /// Manifests, documents, or directories of them
    #[arg(value_name = "MANIFEST")]
    paths: Vec<PathBuf>,
    /// Read this runtime file [default: clawhost.yaml beside the manifest]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: AttackArgs) -> Result<u8, Fail> {
    let paths = setup::with_default(&args.paths);
    let settings = setup::config(&paths, args.config.as_deref())?;
    let mut manifest = setup::manifest(&paths, &settings.registries)?;
    settings.apply(&mut manifest)?;
    let hidden = hidden();
    let findings =
        setup::patiently("attacking each profile", attack::run(&manifest, &hidden)).await;
    let findings = findings
        .map_err(|error| format!("the lab cannot be set up: {error}"))
        .or_fail(exit::UPSTREAM)?;
    show::done(args.json, || as_json(&findings), || table(&findings))?;
    Ok(code(&findings))
}

/// Returns what of the environment no guest may see. Paths are left out: what a guest may do with
/// the lab's own shows parts of them.
fn hidden() -> Vec<String> {
    let values = std::env::vars_os().filter_map(|(_, value)| value.into_string().ok());
    values.filter(|value| value.len() >= HIDDEN_BYTES_MIN && !value.starts_with('/')).collect()
}

fn code(findings: &[Finding]) -> u8 {
    let any = |is: fn(&Outcome) -> bool| findings.iter().any(|finding| is(&finding.outcome));
    if any(|outcome| matches!(outcome, Outcome::Broken(_))) {
        exit::INTERNAL
    } else if any(|outcome| matches!(outcome, Outcome::Unavailable(_))) {
        exit::UPSTREAM
    } else {
        exit::OK
    }
}

/// One line for each row and profile, then everything that did not hold.
fn table(findings: &[Finding]) -> String {
    let mut rows = BTreeMap::<(&str, (&str, usize), &str), BTreeMap<&str, usize>>::new();
    for finding in findings {
        for row in &finding.rows {
            let attack = finding.attack.split(' ').next().unwrap_or_default();
            let key = (finding.profile.as_str(), place(row), word(&finding.outcome));
            *rows.entry(key).or_default().entry(attack).or_default() += 1;
        }
    }
    let mut table = show::table(&["row", "attacks", "profile", "result"]);
    for ((profile, (kind, number), result), attacks) in rows {
        let attacks = attacks.into_iter().map(|(attack, times)| match times {
            1 => attack.to_owned(),
            _ => format!("{attack} ({times})"),
        });
        let attacks = attacks.collect::<Vec<_>>().join(", ");
        table.add_row([&format!("{kind}{number}"), &attacks, profile, result]);
    }
    let broken = findings.iter().filter_map(|finding| match &finding.outcome {
        Outcome::Broken(reasons) => Some((finding, reasons.join("; "))),
        Outcome::Unavailable(reason) => Some((finding, reason.clone())),
        Outcome::Held | Outcome::NotTried(_) => None,
    });
    let broken = broken.map(|(finding, reason)| {
        format!("\n{}, profile `{}`: {reason}", finding.attack, finding.profile)
    });
    format!("{}{}\n{}", table.trim_fmt(), broken.collect::<String>(), summary(findings))
}

/// Rows are sorted by kind, then by number.
fn place(row: &str) -> (&str, usize) {
    let (kind, number) = row.split_at_checked(1).unwrap_or((row, ""));
    (kind, number.parse().unwrap_or_default())
}

fn summary(findings: &[Finding]) -> String {
    let count =
        |wanted: &str| findings.iter().filter(|finding| word(&finding.outcome) == wanted).count();
    format!(
        "{} attacks: {} held, {} did NOT hold, {} were not tried. Tried on folders of the lab's own, in the place of yours.",
        findings.len(),
        count("held"),
        count("NOT held"),
        count("not tried") + count("cannot be tried")
    )
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Held => "held",
        Outcome::NotTried(_) => "not tried",
        Outcome::Unavailable(_) => "cannot be tried",
        Outcome::Broken(_) => "NOT held",
    }
}

fn as_json(findings: &[Finding]) -> Value {
    let all = findings.iter().map(|finding| {
        let why = match &finding.outcome {
            Outcome::Held => Value::Null,
            Outcome::NotTried(reason) | Outcome::Unavailable(reason) => reason.as_str().into(),
            Outcome::Broken(reasons) => reasons.join("; ").into(),
        };
        json!({
            "attack": finding.attack,
            "rows": finding.rows,
            "profile": finding.profile,
            "result": word(&finding.outcome).to_ascii_lowercase(),
            "why": why,
        })
    });
    json!({"findings": Value::from_iter(all), "summary": summary(findings)})
}
