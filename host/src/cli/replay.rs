//! `clawhost replay`: a recorded call run again, with nothing granted, and held against what it was.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use clawhost_core::error::exit;
use clawhost_core::visible;
use serde_json::{Value, json};

use super::args::{HostArgs, StateArgs};
use super::audit;
use super::fail::{Blame as _, Fail};
use super::setup::{self, Purpose};
use super::show;
use crate::audit::PublicKey;
use crate::engine::{LoadError, Loaded};
use crate::exec::{self, Again};
use crate::recording::{End, Recording, Recordings};

/// Run a recorded call again, and show that its result and its fuel are the same
///
/// A call is recorded where `record: true` stands for its profile in the runtime file. Its component is
/// run again in a sandbox that grants nothing: clocks, random numbers, the environment, files, requests and what the
/// host offers are answered from the recording. The exit code is 0 where result and fuel are equal, and 7
/// where they part. A call of which a request over HTTP failed has no recording.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  clawhost replay 1795256914175-9124-0/3\n  clawhost replay receipt.json --component greet.wasm"
)]
pub(super) struct ReplayArgs {
    /// The call, as `audit` names it; or a file that `audit receipt` printed
    #[arg(value_name = "CALL|RECEIPT")]
    call: String,
    /// A manifest, document, or directory of documents that has the tool
    #[arg(value_name = "MANIFEST")]
    manifest: Vec<PathBuf>,
    /// Take the component from this file, and not from the manifest
    #[arg(long, value_name = "FILE")]
    component: Option<PathBuf>,
    /// Trust what this key signed, and nothing else; may be repeated
    #[arg(long, value_name = "KEY")]
    key: Vec<PublicKey>,
    #[command(flatten)]
    places: HostArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(args: ReplayArgs) -> Result<u8, Fail> {
    let HostArgs { state, config, .. } = &args.places;
    let common = StateArgs { state: state.clone(), config: config.clone(), json: args.json };
    let record = record(&args, &common)?;
    let recording = recording(&record, &common)?;
    let loaded = component(&args, &recording.tool).await?;
    if loaded.digest != recording.component {
        let (then, now) = (show::short(&recording.component), show::short(&loaded.digest));
        let why = format!("another component: {then} was recorded, and this is {now}");
        return Err(Fail::new(exit::DOCUMENT, why));
    }
    let then = recording.end.clone();
    let again = exec::again(&loaded, recording).await.map_err(Fail::Call)?;
    let is_equal = again.parted.is_none() && again.end == then;
    if args.json {
        show::json(&json!({
            "equal": is_equal, "recorded": then, "replayed": again.end, "parted": again.parted,
        }));
    } else {
        print(&then, &again, is_equal, &record);
    }
    Ok(if is_equal { exit::OK } else { exit::AUDIT_BROKEN })
}

/// Returns the closing record of the call that is meant.
fn record(args: &ReplayArgs, common: &StateArgs) -> Result<Value, Fail> {
    let file = Path::new(&args.call);
    let trust = audit::trust(&args.key, common)?;
    if file.is_file() {
        return audit::checked(file, &trust);
    }
    audit::proven(&audit::receipt_of(common, &args.call)?, &args.call, &trust)
}

fn recording(record: &Value, common: &StateArgs) -> Result<Recording, Fail> {
    let hint = "write `record: true` for its profile under `profiles` of clawhost.yaml; calls from then on are recorded";
    let digest = match record["recording"].as_str() {
        None if record["outcome"] != "ok" && record["fuel"].is_null() => {
            let why = record["message"].as_str().or_else(|| record["error"].as_str());
            let why = format!("the call ran no component: {}", why.unwrap_or_default());
            return Err(Fail::new(exit::DENIED, why));
        }
        None => return Err(Fail::usage("the call was not recorded", hint)),
        Some(none) if none.starts_with("none") => {
            return Err(Fail::new(exit::DENIED, format!("the call has no recording; {none}")));
        }
        Some(digest) => digest,
    };
    let broken = |why: String| Fail::new(exit::AUDIT_BROKEN, why);
    let dir = setup::existing_audit_dir(common)?;
    let found = dir.map(|dir| Recordings::beside(&dir).and_then(|all| all.find(digest)));
    let found = found.transpose().map_err(|error| broken(error.to_string()))?.flatten();
    let recording = found.ok_or_else(|| {
        let hint =
            "it lies in `audit/recordings` of the state folder, where the newest ones are kept";
        Fail::usage(format!("the recording {digest} is not there"), hint)
    })?;
    let own = env!("CARGO_PKG_VERSION");
    if recording.host != own {
        let why = format!(
            "clawhost {} recorded it, and this is {own}: its engine counts fuel differently",
            recording.host
        );
        return Err(Fail::new(exit::DENIED, why));
    }
    let is_of = record["digest"] == recording.component && record["fuel"] == recording.end.fuel;
    if is_of {
        Ok(recording)
    } else {
        Err(broken("the recording is not of this record".to_owned()))
    }
}

async fn component(args: &ReplayArgs, tool: &str) -> Result<Arc<Loaded>, Fail> {
    if let Some(file) = &args.component {
        let engine = setup::engine().or_fail(exit::UPSTREAM)?;
        let loaded = engine.load(setup::read_file(file)?).await.map_err(|error| match error {
            LoadError::Passing(reason) => Fail::new(exit::UPSTREAM, reason),
            LoadError::Unusable(reason) => Fail::new(exit::DOCUMENT, reason),
        });
        return loaded;
    }
    let opened = setup::open(&args.manifest, &args.places, Purpose::Look).await;
    let setup = opened.map_err(|fail| match fail {
        // The runtime file may be of a manifest that was not named.
        Fail::Documents(mut problems) if setup::with_default(&args.manifest).is_empty() => {
            let help =
                "name the manifest of the call after it, or its component with --component FILE";
            problems.iter_mut().for_each(|problem| problem.help = Some(help.to_owned()));
            Fail::Documents(problems)
        }
        other => other,
    })?;
    setup.host.component(tool).ok_or_else(|| {
        let hint = "name the manifest that has it, or its file with --component FILE";
        Fail::usage(format!("no component here offers `{tool}`"), hint)
    })
}

fn print(then: &End, again: &Again, is_equal: bool, record: &Value) {
    let row = |name: &str, of: fn(&End) -> String| [name.to_owned(), of(then), of(&again.end)];
    let result = |end: &End| end.result_digest.as_deref().map_or("none", show::short).to_owned();
    let rows = [
        row("outcome", |end| end.outcome.to_string()),
        row("result", result),
        row("fuel", |end| end.fuel.to_string()),
    ];
    show::line(&show::rows(&["", "recorded", "replayed"], rows, ""));
    match &again.parted {
        Some(parted) => show::line(&format!("they part: {}", visible::line(parted))),
        None if is_equal => show::line("they are equal"),
        None => show::line("they part"),
    }
    if then.result_digest.is_some() && record["result_digest"] != json!(then.result_digest) {
        show::line("the caller got another result: filters changed it on its way out");
    }
}
