//! `clawhost learn`: runs a tool, looks at what it asked for and was refused, and prints the smallest profile
//! that lets it work.
//!
//! Nothing beyond its present profile is touched without a yes: it begins with an empty folder that is thrown
//! away and with no host to reach, a folder is read where it lies, and written in a copy. Deliberately
//! absent: what only the runtime file grants, which the refusal of a tool names.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clawhost_core::catalog::ckp_name;
use clawhost_core::egress::{EgressRules, HostPattern, HostRules, Schemes};
use clawhost_core::error::exit;
use clawhost_core::grants::{Access, Mount, Shell};
use clawhost_core::limits::FLUSH_MS;
use clawhost_core::manifest::{Manifest, PROFILE_NONE, Profile};
use clawhost_core::visible;
use serde_json::{Value, json};
use tempfile::TempDir;
use url::Url;

use super::args::{CallWords, StateArgs};
use super::fail::Fail;
use super::setup::{self, Purpose};
use super::{prompt, show, words};
use crate::audit;
use crate::host::{Principal, ToolCall};
use crate::recording::Recordings;

/// The name in records of calls made to learn.
const PRINCIPAL: &str = "learn";
/// Each round grants one thing more; a tool that needs so many needs a person who thinks.
const ROUNDS_MAX: usize = 8;
/// What a folder may hold that is copied to be written.
const COPY_BYTES_MAX: u64 = 67_108_864;

/// Operations that begin so are about a path.
const LOOKS: [&str; 9] = [
    "open",
    "stat ",
    "readlink",
    "create-directory",
    "unlink-file",
    "remove-directory",
    "rename",
    "symlink",
    "set-times ",
];
/// Operations that begin so change something.
const CHANGES: [&str; 9] = [
    "open to write",
    "write",
    "set-",
    "create-directory",
    "unlink-file",
    "remove-directory",
    "rename",
    "symlink",
    "stream write",
];

/// Print the smallest sandbox profile that lets a tool do what it is called for
///
/// Makes the call, again and again, and each time grants what was missing: a folder to read, a copy of it to
/// write, a host. It asks before anything outside the tool's present profile is touched; changes of files that the
/// present profile does not allow go to a copy that is thrown away. Prints a profile and writes none.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: clawhost learn --yes host/examples/manifest.yaml read_file path=hello.txt > reader.yaml"
)]
pub(super) struct LearnArgs {
    #[command(flatten)]
    call: CallWords,
    /// The folder that it may be shown where it asks for files [default: the current directory]
    #[arg(long, value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Grant what is missing without asking
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(args: LearnArgs) -> Result<u8, Fail> {
    let mut trial = Trial::new(&args)?;
    for _ in 0..ROUNDS_MAX {
        let seen = trial.round(&args).await?;
        if seen.works {
            show::line(trial.smallest(&seen)?.trim_end());
            return Ok(exit::OK);
        }
        if !trial.learn(&seen, &args).await? {
            return Err(Fail::new(exit::DENIED, format!("it does not work yet: {}", seen.why)));
        }
    }
    Err(Fail::new(exit::DENIED, format!("it does not work after {ROUNDS_MAX} rounds")))
}

/// What the tool is tried with beside its present profile.
struct Trial {
    /// Thrown away at the end.
    scratch: TempDir,
    /// The folder that it may be shown.
    folder: PathBuf,
    /// What is shown of it: the empty one, itself, or a copy.
    shown: Option<(PathBuf, Access)>,
    hosts: BTreeSet<String>,
}

/// What became of one round.
struct Seen {
    works: bool,
    why: String,
    profile: Profile,
    /// What it asked of the host, and the answers; nothing where they could not be recorded.
    asked: Option<Vec<(String, Value)>>,
    violations: Vec<String>,
    egress: Vec<String>,
}

impl Trial {
    fn new(args: &LearnArgs) -> Result<Self, Fail> {
        let failed = |error: std::io::Error| {
            let hint = "name a folder that is there with --folder DIR";
            Fail::usage(format!("{}: {error}", args.folder.display()), hint)
        };
        let folder = args.folder.canonicalize().map_err(failed)?;
        let scratch = tempfile::tempdir().map_err(failed)?;
        let shown = Some((scratch.path().to_owned(), Access::ReadWrite));
        Ok(Self { scratch, folder, shown, hosts: BTreeSet::new() })
    }

    async fn round(&self, args: &LearnArgs) -> Result<Seen, Fail> {
        let CallWords { manifest: path, tool, arguments, places } = &args.call;
        let paths = std::slice::from_ref(path);
        let (mut manifest, settings) = setup::documents(paths, places).map_err(Fail::Documents)?;
        let profile = self.widen(&mut manifest, tool).ok_or_else(|| {
            Fail::usage(
                "the tool's profile is none of the manifest's",
                "name a tool of the manifest",
            )
        })?;
        let setup = setup::make(manifest, settings, places, Purpose::Call).await?;
        setup::arrived(&setup.host, tool).await;
        let catalog = setup.host.catalog();
        let found = catalog.find(tool).ok_or_else(|| words::unknown(tool, &setup.host))?;
        let arguments = words::arguments(Some(found), arguments)?;
        let call = ToolCall::new(Principal(PRINCIPAL.to_owned()), tool, arguments);
        let outcome = setup.host.call(call).await;
        setup.host.flush(Duration::from_millis(FLUSH_MS)).await;
        let works = outcome.as_ref().is_ok_and(|reply| !reply.is_error);
        let why = match &outcome {
            Ok(reply) => reply.texts().collect::<Vec<_>>().join("\n"),
            Err(error) => error.to_string(),
        };
        let why = visible::line(&why);
        let record = last_record(args).map_err(|error| Fail::new(exit::UPSTREAM, error))?;
        let list = |key: &str| {
            let texts = record.get(key).and_then(Value::as_array).into_iter().flatten();
            texts.filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let asked = asked(args, &record).map_err(|error| Fail::new(exit::UPSTREAM, error))?;
        Ok(Seen {
            works,
            why,
            profile,
            asked,
            violations: list("violations"),
            egress: list("egress"),
        })
    }

    /// Gives the tool's profile what is tried, and returns it.
    fn widen(&self, manifest: &mut Manifest, tool: &str) -> Option<Profile> {
        let ckp = ckp_name(tool);
        let binding = manifest.tools.iter().find(|binding| binding.name == ckp);
        let name = binding.map_or(PROFILE_NONE, |binding| binding.sandbox.as_str()).to_owned();
        let profile = manifest.profiles.get_mut(&name)?;
        profile.record = true;
        if let Some((host, access)) = self.shown.clone()
            && (profile.mounts.is_empty() || host != self.scratch.path())
        {
            profile.mounts = vec![Mount { host, guest: "/".to_owned(), access, create: false }];
        }
        let mut learnt: Vec<HostPattern> =
            self.hosts.iter().filter_map(|host| HostPattern::parse(host).ok()).collect();
        let nowhere = || EgressRules {
            hosts: HostRules::Only(Vec::new()),
            blocked: Vec::new(),
            block_private: true,
            ports: Vec::new(),
            schemes: Schemes::ALL,
        };
        if let HostRules::Only(hosts) = &mut profile.network.get_or_insert_with(nowhere).hosts {
            hosts.append(&mut learnt);
        }
        Some(profile.clone())
    }

    /// Adds what was missing; says whether there was anything.
    async fn learn(&mut self, seen: &Seen, args: &LearnArgs) -> Result<bool, Fail> {
        let folder = self.folder.display().to_string();
        let refused = |(_, answer): &(String, Value)| answer["Err"] == "ReadOnly";
        let mounted = seen.profile.mounts.first().map(|mount| mount.host.clone());
        if seen.asked.iter().flatten().any(refused)
            && let Some(from) = mounted
        {
            let copy = self.scratch.path().join("copy");
            copied(&from, &copy, &mut 0).map_err(|error| Fail::new(exit::DENIED, error))?;
            self.shown = Some((copy, Access::ReadWrite));
            return Ok(true);
        }
        let is_empty = mounted.as_deref() == Some(self.scratch.path());
        if is_empty && seen.looks() && may(args, &format!("let it read {folder}?")).await {
            self.shown = Some((self.folder.clone(), Access::ReadOnly));
            return Ok(true);
        }
        for host in seen.violations.iter().filter_map(|line| host_of(line)) {
            if !self.hosts.contains(&host) && may(args, &format!("let it reach {host}?")).await {
                self.hosts.insert(host);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the profile as a document.
    fn smallest(&self, seen: &Seen) -> Result<String, Fail> {
        let access = if seen.changes() { "rw" } else { "ro" };
        let place = |mount: &Mount| {
            let is_ours = mount.host.starts_with(self.scratch.path());
            let path = if is_ours { &self.folder } else { &mount.host };
            json!({"path": path, "permissions": access})
        };
        let mut capabilities = serde_json::Map::new();
        if seen.looks() {
            let mounts: Vec<Value> = seen.profile.mounts.iter().map(place).collect();
            let files = json!({"mode": "scoped", "mount_paths": mounts});
            capabilities.insert("filesystem".to_owned(), files);
        }
        let hosts: BTreeSet<String> = seen.egress.iter().filter_map(|line| host_of(line)).collect();
        if !hosts.is_empty() {
            let network = json!({"mode": "allowlist", "allowed_hosts": hosts});
            capabilities.insert("network".to_owned(), network);
        }
        let runs = seen.profile.shell != Shell::Deny && seen.asks("process.run");
        if runs {
            capabilities.insert("shell".to_owned(), json!({"mode": "full"}));
        }
        let level = if runs { "process" } else { "wasm" };
        let document = json!({
            "claw": "0.3.0", "kind": "Sandbox", "metadata": {"name": "learned"},
            "spec": {"level": level, "capabilities": capabilities},
        });
        serde_saphyr::to_string(&document).map_err(|error| Fail::new(exit::INTERNAL, error))
    }
}

impl Seen {
    fn asks(&self, of: &str) -> bool {
        self.asked.iter().flatten().any(|(asked, _)| asked.starts_with(of))
    }

    /// What cannot be known is taken to be so where the profile has folders of its own.
    fn looks(&self) -> bool {
        self.asked.is_none() && !self.profile.mounts.is_empty()
            || LOOKS.iter().any(|of| self.asks(of))
    }

    fn changes(&self) -> bool {
        let is_writable = |mount: &Mount| mount.access == Access::ReadWrite;
        match &self.asked {
            None => self.profile.mounts.iter().any(is_writable),
            Some(asked) => asked.iter().any(|(of, answer)| {
                CHANGES.iter().any(|change| of.starts_with(change)) && answer.get("Ok").is_some()
            }),
        }
    }
}

/// Asks the person who sits here; nobody there has not said yes.
async fn may(args: &LearnArgs, question: &str) -> bool {
    if !args.yes && !prompt::is_attended() {
        eprintln!("{question} say --yes, or call it from a terminal");
        return false;
    }
    args.yes || prompt::says_yes(question).await
}

/// Returns the host of the address in a line of a record.
fn host_of(line: &str) -> Option<String> {
    let word = line.split_whitespace().find(|word| word.contains("://"));
    match word {
        Some(word) => Some(Url::parse(word).ok()?.host_str()?.to_owned()),
        None => Some(line.strip_prefix("network: ")?.rsplit(": ").next()?.to_owned()),
    }
}

fn state(args: &LearnArgs) -> StateArgs {
    let places = &args.call.places;
    StateArgs { state: places.state.clone(), config: places.config.clone(), json: false }
}

/// Returns the closing record of the call that was just made.
fn last_record(args: &LearnArgs) -> std::io::Result<Value> {
    let dir = setup::existing_audit_dir(&state(args)).ok().flatten();
    let records = dir.map(|dir| audit::records(&dir)).transpose()?.unwrap_or_default();
    let is_ours =
        |record: &&Value| record["event"] == "call.finished" && record["principal"] == PRINCIPAL;
    Ok(records.iter().rfind(is_ours).cloned().unwrap_or_default())
}

fn asked(args: &LearnArgs, record: &Value) -> std::io::Result<Option<Vec<(String, Value)>>> {
    let dir = setup::existing_audit_dir(&state(args)).ok().flatten();
    let (Some(dir), Some(digest)) = (dir, record["recording"].as_str()) else { return Ok(None) };
    let recording = Recordings::beside(&dir)?.find(digest)?;
    Ok(recording.map(|recording| recording.answers().cloned().collect()))
}

/// Copies regular files and folders, and no links, as long as they are few bytes.
fn copied(from: &Path, to: &Path, bytes: &mut u64) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let (kind, target) = (entry.file_type()?, to.join(entry.file_name()));
        if kind.is_dir() {
            copied(&entry.path(), &target, bytes)?;
        } else if kind.is_file() {
            *bytes += std::fs::copy(entry.path(), target)?;
        }
        if *bytes > COPY_BYTES_MAX {
            let why = format!(
                "the folder holds over {COPY_BYTES_MAX} bytes: it is not copied to be written"
            );
            return Err(std::io::Error::other(why));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read_from_records() {
        for (line, host) in [
            ("GET https://a.example.com", Some("a.example.com")),
            ("network: host not allowed: http://b.example.com:81/x", Some("b.example.com")),
            ("network: host not allowed: c.example.com", Some("c.example.com")),
            ("open \"a: b\": the path leaves the granted directory", None),
        ] {
            assert_eq!(host_of(line).as_deref(), host, "{line}");
        }
    }
}
