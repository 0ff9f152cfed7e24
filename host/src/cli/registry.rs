//! `clawhost registry`: versions of tools, seeded once and never changed; and publishing packages.
//!
//! Deliberately absent: a host. These verbs read and write the store, whose pin running hosts follow.

mod serve;

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use clawhost_core::error::exit;
use clawhost_core::json::set;
use clawhost_core::limits::DOCUMENT_BYTES_MAX;
use clawhost_core::manifest::is_claw;
use clawhost_core::release::Released;
use clawhost_core::visible;
use serde_json::{Value, json};

use super::args::{HostArgs, StateArgs, Who, whole_number};
use super::fail::{Blame as _, Fail};
use super::{setup, show};
use crate::audit::Event;
use crate::clock::rfc3339;
use crate::registry::{FileDocuments, ReleaseError, ReleasePin, Seed, Version, gather};
use crate::regular;
use serve::ServeRegistryArgs;

/// The numbers that versions have.
const VERSIONS: RangeInclusive<u64> = 1..=i64::MAX.cast_unsigned();

/// Keep versions of tools that never change, and publish packages for other hosts
///
/// A version holds components and everything that is said of their tools, under a number and a hash.
/// A host whose runtime file has `registry` serves the one that is pinned, under the profiles and policies
/// of its own manifest, and follows the pin without a restart. Versions lie in the state folder, or in
/// PostgreSQL: `registry.store` of the runtime file.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  clawhost registry seed ./tools definitions.yaml\n  clawhost registry pin 1\n  clawhost registry serve ./published"
)]
pub(super) struct RegistryArgs {
    #[command(subcommand)]
    verb: RegistryVerb,
}

#[derive(Debug, Subcommand)]
enum RegistryVerb {
    /// Show what differs between two versions
    #[command(after_help = "Example: clawhost registry diff 1 2")]
    Diff {
        /// The version before
        #[arg(value_name = "VERSION", value_parser = whole_number(VERSIONS))]
        from: u64,
        /// The version after
        #[arg(value_name = "VERSION", value_parser = whole_number(VERSIONS))]
        to: u64,
        #[command(flatten)]
        common: StateArgs,
    },
    /// List the versions, and which of them is pinned
    #[command(after_help = "Example: clawhost registry list --json")]
    List {
        #[command(flatten)]
        common: StateArgs,
    },
    /// Let hosts serve a version
    ///
    /// Every byte of it is looked at first. Running hosts take it within a second; calls that run end
    /// with the version they began with.
    #[command(after_help = "Example: clawhost registry pin 2")]
    Pin {
        /// The version
        #[arg(value_name = "VERSION", value_parser = whole_number(VERSIONS))]
        version: u64,
        #[command(flatten)]
        who: Who,
        #[command(flatten)]
        common: StateArgs,
    },
    /// Make a version of tools, and print its number and its hash
    ///
    /// A PATH is a folder of components with their documents and signatures, as a tools folder has them; a
    /// component; a definition file, also of composites; or a manifest, which stands for the tools folder
    /// and the definition files of its runtime file. All of them together are one version. What is in one
    /// already is that version. Profiles and policies that documents name are left out: whoever serves a
    /// tool binds it.
    #[command(after_help = "Example: clawhost registry seed ./tools definitions.yaml")]
    Seed {
        /// Folders, components, definition files, manifests
        #[arg(value_name = "PATH", required = true)]
        paths: Vec<PathBuf>,
        #[command(flatten)]
        who: Who,
        #[command(flatten)]
        common: StateArgs,
    },
    Serve(ServeRegistryArgs),
    /// Show the tools of a version
    #[command(after_help = "Example: clawhost registry show 1 --json")]
    Show {
        /// The version
        #[arg(value_name = "VERSION", value_parser = whole_number(VERSIONS))]
        version: u64,
        #[command(flatten)]
        common: StateArgs,
    },
    /// Look at every byte of every version
    ///
    /// Says what is not what was seeded; the exit code is 3 then.
    #[command(after_help = "Example: clawhost registry verify")]
    Verify {
        #[command(flatten)]
        common: StateArgs,
    },
}

pub(super) async fn run(args: RegistryArgs) -> Result<u8, Fail> {
    match args.verb {
        RegistryVerb::Diff { from, to, common } => diff(from, to, &common).await,
        RegistryVerb::List { common } => list(&common).await,
        RegistryVerb::Pin { version, who, common } => pin(version, &who.by, &common).await,
        RegistryVerb::Seed { paths, who, common } => seed(&paths, &who.by, &common).await,
        RegistryVerb::Serve(args) => serve::serve(&args).await,
        RegistryVerb::Show { version, common } => display(version, &common).await,
        RegistryVerb::Verify { common } => verify(&common).await,
    }
}

async fn seed(paths: &[PathBuf], by: &str, common: &StateArgs) -> Result<u8, Fail> {
    let mut meant = Vec::new();
    for path in paths {
        meant.extend(expanded(path, common)?);
    }
    let engine = setup::engine().or_fail(exit::UPSTREAM)?;
    let reading = setup::patiently("reading the components", gather(&meant, engine));
    let Seed { release, components, left_out } = reading.await?;
    let releases = setup::releases(common)?;
    let (tools, audit) = (release.tools().len(), setup::audit(common)?);
    let (pin, is_new) = releases.seed(&release, components, by).await?;
    if is_new {
        note(&audit, Event::RegistrySeeded, &pin, by)?;
    }
    for name in &left_out {
        eprintln!(
            "note: `{name}` comes with the host and is in no version: name what is said of it under `definitions`"
        );
    }
    let ReleasePin { version, hash } = &pin;
    let word = if is_new { "" } else { ", which was there already" };
    show::done(
        common.json,
        || json!({"version": version, "hash": hash, "tools": tools, "new": is_new}),
        || format!("version {version}: {hash}, tools: {tools}{word}"),
    )
}

/// A manifest stands for what its runtime file names.
fn expanded(path: &Path, common: &StateArgs) -> Result<Vec<PathBuf>, Fail> {
    let bytes = regular::read(path, DOCUMENT_BYTES_MAX as u64).unwrap_or_default();
    if !is_claw(&bytes) {
        return Ok(vec![path.to_owned()]);
    }
    let config = common.config.clone();
    let places = HostArgs { tools: None, state: None, config, context: None };
    let path = [path.to_owned()];
    let (_, settings) = setup::documents(&path, &places)?;
    let files = settings.definition_files(&FileDocuments)?;
    let all: Vec<PathBuf> = settings.tools.directory.into_iter().chain(files).collect();
    if all.is_empty() {
        let hint =
            "write `tools.directory` into its clawhost.yaml, or name the folder of its components";
        return Err(Fail::usage("the runtime file of the manifest names nothing to seed", hint));
    }
    Ok(all)
}

async fn pin(version: u64, by: &str, common: &StateArgs) -> Result<u8, Fail> {
    let (releases, audit) = (setup::seeded(common)?, setup::audit(common)?);
    let pin = releases.pin(version, by).await?;
    note(&audit, Event::RegistryPinned, &pin, by)?;
    let ReleasePin { version, hash } = &pin;
    show::done(
        common.json,
        || json!({"version": version, "hash": hash}),
        || format!("pinned: version {version}, {hash}"),
    )
}

fn note(
    audit: &crate::audit::AuditLog,
    event: Event,
    pin: &ReleasePin,
    by: &str,
) -> Result<(), Fail> {
    let version = pin.version.to_string();
    let facts = [("version", version.as_str()), ("hash", &pin.hash), ("by", by)];
    let noted = audit.note(event, facts);
    noted.map_err(|error| format!("done, and not recorded: {error}")).or_fail(exit::UPSTREAM)
}

async fn list(common: &StateArgs) -> Result<u8, Fail> {
    let releases = setup::seeded(common)?;
    let pinned = releases.pinned().await?;
    let (mut found, mut code) = (Vec::new(), exit::OK);
    for number in releases.numbers().await? {
        match releases.get(number).await {
            Ok(version) => found.push(version),
            Err(error) => {
                eprintln!("error: {error}");
                code = Fail::from(error).code();
            }
        }
    }
    let pinned = pinned.map(|pin| pin.version);
    if common.json {
        let versions: Value = found.iter().map(head).collect();
        show::json(&json!({"versions": versions, "pinned": pinned}));
    } else if found.is_empty() && code == exit::OK {
        show::line("there is no version yet: `clawhost registry seed PATH` makes one");
    } else {
        let row = |of: &Version| {
            let word = if pinned == Some(of.number) { "pinned" } else { "" };
            let (number, tools) = (of.number.to_string(), of.release.tools().len().to_string());
            let (at, by) = (rfc3339(of.created_at_ms), visible::line(&of.created_by));
            [number, of.hash.clone(), tools, at, by, word.to_owned()]
        };
        let header = ["version", "hash", "tools", "seeded", "by", ""];
        show::line(&show::rows(&header, found.iter().map(row), ""));
    }
    Ok(code)
}

fn head(version: &Version) -> Value {
    let Version { number, hash, release, created_at_ms, created_by, supersedes } = version;
    json!({
        "version": number, "hash": hash, "tools": release.tools().len(),
        "created_at": rfc3339(*created_at_ms), "created_by": created_by, "supersedes": supersedes,
    })
}

async fn display(version: u64, common: &StateArgs) -> Result<u8, Fail> {
    let found = setup::seeded(common)?.get(version).await?;
    let tools = found.release.tools();
    if common.json {
        let mut all = head(&found);
        let tools = tools.iter().map(Released::to_json).collect();
        set(&mut all, "tools", tools);
        show::json(&all);
        return Ok(exit::OK);
    }
    show::line(&format!("version {version}: {}", found.hash));
    let mut table = show::table(&["tool", "what it does", "component", "said"]);
    for Released { name, code, said } in tools {
        let composed = || said.get("composite")?.get("description")?.as_str();
        let does = code.as_ref().map(|code| code.definition.description.as_str());
        let does = does.or_else(composed).map(visible::line);
        let component = code.as_ref().map_or("composite", |code| &code.component);
        let said = said.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        table.add_row([name, &does.unwrap_or_default(), component, &said]);
    }
    show::line(&table.trim_fmt());
    Ok(exit::OK)
}

async fn diff(from: u64, to: u64, common: &StateArgs) -> Result<u8, Fail> {
    let releases = setup::seeded(common)?;
    let (from, to) = (releases.get(from).await?, releases.get(to).await?);
    let changes = from.release.changes(&to.release);
    let same = || "they are the same".to_owned();
    show::done(
        common.json,
        || json!({"from": from.number, "to": to.number, "changes": changes}),
        || if changes.is_empty() { same() } else { changes.join("\n") },
    )
}

async fn verify(common: &StateArgs) -> Result<u8, Fail> {
    let releases = setup::seeded(common)?;
    let versions = releases.numbers().await?.len();
    let doubts = releases.verify().await?;
    if common.json {
        show::json(&json!({"versions": versions, "doubts": doubts}));
    } else {
        doubts.iter().for_each(|doubt| eprintln!("error: {doubt}"));
        show::line(&format!("versions: {versions}, doubts: {}", doubts.len()));
    }
    Ok(if doubts.is_empty() { exit::OK } else { exit::DOCUMENT })
}

impl From<ReleaseError> for Fail {
    fn from(error: ReleaseError) -> Self {
        match error {
            ReleaseError::Broken { .. } => Self::new(exit::DOCUMENT, error),
            ReleaseError::Store(_) => Self::new(exit::UPSTREAM, error),
            ReleaseError::Unknown(_) => Self::usage(error, "`clawhost registry list` shows them"),
        }
    }
}
