//! `clawhost learn`: runs a tool, looks at what it asked for and was refused, and prints the smallest profile
//! that lets it work.
//!
//! Nothing beyond its present profile is touched without a yes: where that has no folder it is shown an empty
//! one, and no host. What it is let read or reach it is tried with. Writing is not tried: the refusal says
//! which folder it takes. All else of the profile is kept, or left out where it was not used; ports, which
//! no document can name, stand above it as a line for the runtime file. Deliberately absent: whatever else only the
//! runtime file grants, which the refusal of a tool names.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clawhost_core::catalog::{Origin, Tool, ckp_name};
use clawhost_core::egress::{EgressRules, HostPattern, HostRules, PORTS_DEFAULT};
use clawhost_core::error::{CallError, ErrorKind, exit};
use clawhost_core::grants::{Access, Mount, Shell};
use clawhost_core::json::items;
use clawhost_core::limits::{FLUSH_MS, LEARN_ROUNDS_MAX, RECORDINGS_MAX};
use clawhost_core::manifest::{Manifest, PROFILE_NONE, Profile, ProfileLimits};
use clawhost_core::reply::ToolReply;
use clawhost_core::violation::Lack;
use clawhost_core::visible;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};
use tempfile::TempDir;
use url::Url;

use super::args::CallWords;
use super::call::unless_stopped;
use super::fail::{Blame as _, Fail};
use super::setup::{self, Purpose};
use super::{prompt, show, words};
use crate::host::{Host, Principal, ToolCall};

/// The name in records of calls made to learn, where no agent is named.
const PRINCIPAL: &str = "learn";

/// How recorded operations begin that look for something by its path. What was opened before is asked without
/// one: `stat` is no look, `stat notes.txt` is. Those that write are told by what they were refused.
const FINDS_BY_PATH: [&str; 4] = ["open ", "stat ", "readlink ", "metadata-hash "];
/// How recorded operations begin that write, or without which nothing is written to a file.
const WRITES: [&str; 8] = [
    "open to write", "set-times", "create-directory", "unlink-file", "remove-directory", "rename",
    "symlink", "link",
];

/// Print the smallest sandbox profile that lets a tool do what it is called for
///
/// Makes the call, again and again, and each time grants what was missing: a folder to read, a host, a port. It asks
/// before anything outside the tool's present profile is touched. Writing that the present profile does not
/// allow is not tried: it asks whether to print the profile with it. Prints a profile and writes none. Only for tools
/// that are components: an MCP server has one profile for all of its tools.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: clawhost learn --yes host/examples/manifest.yaml read_file path=hello.txt > reader.yaml"
)]
pub(super) struct LearnArgs {
    #[command(flatten)]
    call: CallWords,
    /// The folder that it may be shown where it asks for files and has none [default: the current directory]
    #[arg(long, value_name = "DIR", default_value = ".")]
    folder: PathBuf,
    /// Grant what is missing without asking
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(args: LearnArgs) -> Result<u8, Fail> {
    unless_stopped(rounds(args)).await?
}

async fn rounds(args: LearnArgs) -> Result<u8, Fail> {
    let mut trial = Trial::new(&args)?;
    for _ in 0..LEARN_ROUNDS_MAX {
        let mut seen = trial.round(&args).await?;
        if trial.learn(&seen, &args).await {
            continue;
        }
        if trial.is_blind(&seen) {
            return Err(Fail::new(exit::DENIED, "it looked for files and was shown none"));
        }
        if !seen.works() && !seen.may_write(&args).await {
            return Err(Fail::new(seen.code, format!("it does not work yet: {}", seen.why)));
        }
        // What it did not look into, it is not shown.
        seen.profile.mounts.retain(|mount| mount.host != trial.scratch.path());
        show::line(seen.smallest()?.trim_end());
        return Ok(exit::OK);
    }
    Err(Fail::new(exit::DENIED, format!("it does not work after {LEARN_ROUNDS_MAX} rounds")))
}

/// What the tool is tried with beside its present profile.
struct Trial {
    /// The empty folder, which is thrown away at the end.
    scratch: TempDir,
    /// The folder that it may be shown.
    folder: PathBuf,
    /// Whether it is.
    is_shown: bool,
    /// Hosts and ports that it may reach.
    granted: Vec<Lack>,
}

/// What became of one round.
struct Seen {
    /// As `call` would end.
    code: u8,
    why: String,
    profile: Profile,
    /// What it asked of the host, and the answers; nothing where that cannot be known.
    asked: Option<Vec<(String, Value)>>,
    /// Grants that it was refused something for want of.
    lacks: Vec<Lack>,
    egress: Vec<String>,
    /// Whether writing was let that was not tried.
    is_untried: bool,
}

impl Trial {
    fn new(args: &LearnArgs) -> Result<Self, Fail> {
        let failed = |error: std::io::Error| {
            let hint = "name a folder that is there with --folder DIR";
            Fail::usage_at(&args.folder, error, hint)
        };
        let folder = args.folder.canonicalize().map_err(failed)?;
        // A file, and a folder that cannot be looked into, would pass for one without anything in it.
        std::fs::read_dir(&folder).map_err(failed)?;
        told(&folder)?;
        let scratch = tempfile::tempdir().map_err(failed)?;
        Ok(Self { scratch, folder, is_shown: false, granted: Vec::new() })
    }

    async fn round(&self, args: &LearnArgs) -> Result<Seen, Fail> {
        let CallWords { manifest: path, tool, arguments, places, .. } = &args.call;
        let paths = std::slice::from_ref(path);
        let (mut manifest, settings) = setup::documents(paths, places)?;
        let profile = self.widen(&mut manifest, tool).ok_or_else(|| {
            Fail::usage(
                "the tool's profile is none of the manifest's",
                "name a tool of the manifest",
            )
        })?;
        let setup = setup::make(manifest, settings, places, Purpose::Call).await?;
        let _forgotten = Forgotten(setup.host.clone(), profile.clone());
        setup::arrived(&setup.host, tool).await;
        super::run::check_definitions(&setup, places)?;
        let catalog = setup.host.catalog();
        let found = catalog.find(tool).ok_or_else(|| words::unknown(tool, &setup.host))?;
        require_component(found)?;
        let arguments = words::arguments(Some(found), arguments)?;
        let principal = words::principal(&setup, &args.call, PRINCIPAL)?;
        let call = ToolCall::new(principal.clone(), tool, arguments);
        let outcome = setup::patiently("trying the tool", setup.host.call(call)).await;
        setup.host.flush(Duration::from_millis(FLUSH_MS)).await;
        // No profile mends that.
        let outcome = match outcome {
            Err(error) if error.kind == ErrorKind::InvalidArguments => {
                return Err(Fail::Call(error));
            }
            outcome => outcome,
        };
        Seen::of(&setup.host, &principal, &outcome, profile).or_fail(exit::UPSTREAM)
    }

    /// Gives the tool's profile what is tried, and returns it, to be recorded as its documents say.
    fn widen(&self, manifest: &mut Manifest, tool: &str) -> Option<Profile> {
        let ckp = ckp_name(tool);
        let binding = manifest.tools.iter().find(|binding| binding.name == ckp);
        let name = binding.map_or(PROFILE_NONE, |binding| binding.sandbox.as_str()).to_owned();
        let profile = manifest.profiles.get_mut(&name)?;
        let is_recorded = std::mem::replace(&mut profile.record, true);
        if profile.mounts.is_empty() {
            let host = if self.is_shown { &self.folder } else { self.scratch.path() };
            let (host, guest) = (host.to_owned(), "/".to_owned());
            profile.mounts = vec![Mount { host, guest, access: Access::ReadOnly, create: false }];
        }
        let nowhere = || EgressRules::of(HostRules::Only(Vec::new()));
        let rules = profile.network.get_or_insert_with(nowhere);
        for lack in &self.granted {
            match (lack, &mut rules.hosts) {
                (Lack::Host(host), HostRules::Only(hosts)) => {
                    hosts.extend(HostPattern::parse(host).ok());
                }
                (Lack::Port(port), _) if rules.ports.is_empty() => {
                    rules.ports = PORTS_DEFAULT.into_iter().chain([*port]).collect();
                }
                (Lack::Port(port), _) => rules.ports.push(*port),
                _ => {}
            }
        }
        Some(Profile { record: is_recorded, ..profile.clone() })
    }

    /// Adds what was missing; says whether there was anything.
    async fn learn(&mut self, seen: &Seen, args: &LearnArgs) -> bool {
        let folder = self.folder.display();
        if self.is_blind(seen) && may(args, &format!("let it read {folder}?")).await {
            self.is_shown = true;
            return true;
        }
        for lack in seen.lacks.iter().filter(|_| !seen.works()) {
            let question = match lack {
                Lack::Host(host) => format!("let it reach {host}?"),
                Lack::Port(port) => format!("let it reach port {port} of its hosts?"),
                Lack::Write(_) => continue,
            };
            if !self.granted.contains(lack) && may(args, &question).await {
                self.granted.push(lack.clone());
                return true;
            }
        }
        false
    }

    /// Says whether it looked into the empty folder.
    fn is_blind(&self, seen: &Seen) -> bool {
        seen.finds_files()
            && seen.profile.mounts.iter().any(|mount| mount.host == self.scratch.path())
    }
}

impl Seen {
    /// Reads what became of a call in its answer and its record.
    fn of(
        host: &Host,
        principal: &Principal,
        outcome: &Result<ToolReply, CallError>,
        profile: Profile,
    ) -> std::io::Result<Self> {
        let (code, why) = match outcome {
            Ok(reply) => (reply.exit_code(), reply.texts().collect::<Vec<_>>().join("\n")),
            Err(error) => (error.kind.exit_code(), error.to_string()),
        };
        let record = last_record(host, principal)?;
        let list = |key: &str| items(&record, key).iter();
        Ok(Self {
            code,
            why: visible::line(&why),
            profile,
            asked: asked(host, &record)?,
            lacks: list("lacks").filter_map(|lack| Lack::deserialize(lack).ok()).collect(),
            egress: list("egress").filter_map(|text| text.as_str().map(str::to_owned)).collect(),
            is_untried: false,
        })
    }

    fn works(&self) -> bool {
        self.code == exit::OK
    }

    fn asks(&self, of: &str) -> bool {
        self.asked.iter().flatten().any(|(asked, _)| asked.starts_with(of))
    }

    fn is_refused_writing(&self) -> bool {
        self.lacks.iter().any(|lack| matches!(lack, Lack::Write(_)))
    }

    fn finds_files(&self) -> bool {
        self.is_refused_writing() || FINDS_BY_PATH.iter().any(|of| self.asks(of))
    }

    /// What cannot be known is taken to be so.
    fn writes_files(&self) -> bool {
        self.is_untried || self.asked.is_none() || WRITES.iter().any(|of| self.asks(of))
    }

    /// Grants writing in the folders where it was refused, and does not try it.
    async fn may_write(&mut self, args: &LearnArgs) -> bool {
        for mount in self.profile.mounts.iter_mut().filter(|mount| mount.access == Access::ReadOnly)
        {
            let path = mount.host.display().to_string();
            if self.lacks.contains(&Lack::Write(mount.guest.clone()))
                && may(args, &format!("let it write {path}, which is not tried?")).await
            {
                mount.access = Access::ReadWrite;
                self.is_untried = true;
                eprintln!("not tried: writing {path}, and what it does then");
            }
        }
        self.is_untried
    }

    /// Returns the profile as a document.
    fn smallest(&self) -> Result<String, Fail> {
        let mut capabilities = Map::new();
        if (self.asked.is_none() || self.finds_files()) && !self.profile.mounts.is_empty() {
            capabilities.insert("filesystem".to_owned(), self.files()?);
        }
        let reached =
            self.egress.iter().filter_map(|line| Url::parse(line.split_once(' ')?.1).ok());
        let reached: Vec<Url> = reached.collect();
        let hosts = reached.iter().filter_map(|url| HostPattern::parse(url.host_str()?).ok());
        let hosts: BTreeSet<String> = hosts.map(|host| host.to_string()).collect();
        if !hosts.is_empty() {
            let inside = self.profile.network.as_ref().is_none_or(|rules| rules.block_private);
            let network = json!({
                "mode": "allowlist", "allowed_hosts": hosts,
                "ssrf_protection": {"block_private_ips": inside},
            });
            capabilities.insert("network".to_owned(), network);
        }
        let shell = self.shell();
        let is_native = shell.is_some() && self.profile.shell != Shell::Deny;
        capabilities.extend(shell.map(|shell| ("shell".to_owned(), shell)));
        let document = json!({
            "claw": "0.3.0", "kind": "Sandbox", "metadata": {"name": "learned"},
            "spec": {
                "level": if is_native { "process" } else { "wasm" },
                "capabilities": capabilities, "resource_limits": bounds(&self.profile.limits),
            },
        });
        let document = serde_saphyr::to_string(&document);
        let document = document.or_fail(exit::INTERNAL)?;
        let ports: BTreeSet<u16> = reached.iter().filter_map(Url::port_or_known_default).collect();
        Ok(if ports.iter().all(|port| PORTS_DEFAULT.contains(port)) {
            document
        } else {
            let ports: Vec<u16> = ports.into_iter().collect();
            format!("# in clawhost.yaml: profiles: {{learned: {{ports: {ports:?}}}}}\n{document}")
        })
    }

    fn files(&self) -> Result<Value, Fail> {
        let mount = |mount: &Mount| {
            let writes = mount.access == Access::ReadWrite && self.writes_files();
            let access = if writes { "rw" } else { "ro" };
            Ok(json!({"path": told(&straight(&mount.host))?, "permissions": access}))
        };
        let mounts = self.profile.mounts.iter().map(mount).collect::<Result<Vec<_>, Fail>>()?;
        let denied = self.profile.denied_paths.iter();
        let denied = denied.map(|path| told(&straight(path)).map(str::to_owned));
        let denied = denied.collect::<Result<Vec<_>, Fail>>()?;
        Ok(json!({"mode": "scoped", "mount_paths": mounts, "denied_paths": denied}))
    }

    /// Returns the shell as it is; nothing where no program was started.
    fn shell(&self) -> Option<Value> {
        let Profile { shell, wasm_shell, shell_rules: rules, .. } = &self.profile;
        let mode = match (shell, wasm_shell) {
            (Shell::Deny, Shell::Deny) => return None,
            (Shell::Full, _) | (Shell::Deny, Shell::Full) => "full",
            (Shell::Restricted, _) | (Shell::Deny, Shell::Restricted) => "restricted",
        };
        let is_unused = *shell != Shell::Deny && self.asked.is_some();
        (!is_unused).then(|| {
            json!({
                "mode": mode, "blocked_commands": rules.blocked_commands,
                "blocked_patterns": rules.blocked_patterns,
            })
        })
    }
}

/// Refuses a tool that is no component: what it asks goes past the host, so that nothing is learned of it.
fn require_component(tool: &Tool) -> Result<(), Fail> {
    let (name, origin) = (&tool.definition.name, &tool.origin);
    let more = match origin {
        Origin::BuiltIn { .. }
        | Origin::DropIn { .. }
        | Origin::Registry { .. }
        | Origin::Release => return Ok(()),
        Origin::Bridged { .. } => format!(", whose profile is `{}`", tool.grants.profile),
        _ => String::new(),
    };
    let reason = format!("`{name}` is no component: it comes from {origin}{more}");
    Err(Fail::usage(reason, "learn is for components: for others, write the profile by hand"))
}

/// Returns the bounds that the profile states.
fn bounds(limits: &ProfileLimits) -> Map<String, Value> {
    let timeout = limits.timeout.and_then(|timeout| u64::try_from(timeout.as_millis()).ok());
    let all = [
        ("memory_mb", limits.memory_mb),
        ("max_processes", limits.processes.map(u64::from)),
        ("max_open_files", limits.open_files.map(u64::from)),
        ("timeout_ms", timeout),
        ("max_output_bytes", limits.output_bytes),
    ];
    all.into_iter().filter_map(|(key, number)| Some((key.to_owned(), number?.into()))).collect()
}

/// Returns a path without the `..` of how its manifest was named. What leads up to the last of them is looked up, as it
/// may be a link; what comes after keeps its names, by which the tool knows its folders.
fn straight(path: &Path) -> PathBuf {
    let parts: Vec<Component<'_>> = path.components().collect();
    let last = parts.iter().rposition(|part| *part == Component::ParentDir);
    let (up, rest) = parts.split_at(last.map_or(0, |last| last + 1));
    match up.iter().collect::<PathBuf>().canonicalize() {
        Ok(mut found) => {
            found.extend(rest);
            found
        }
        Err(_) => path.to_owned(),
    }
}

/// Returns a path as a document can say it.
fn told(path: &Path) -> Result<&str, Fail> {
    let is_plain = |text: &&str| !text.contains(|c: char| c.is_control() || "*?$".contains(c));
    path.to_str().filter(is_plain).ok_or_else(|| {
        let reason = format!("no profile can name {}", path.display());
        Fail::usage(reason, "give the folder a plain name")
    })
}

/// Asks the person who sits here; nobody there has not said yes.
async fn may(args: &LearnArgs, question: &str) -> bool {
    if !args.yes && !prompt::is_attended() {
        eprintln!("{question} say --yes, or call it from a terminal");
        return false;
    }
    args.yes || prompt::says_yes(question).await
}

/// Returns the closing record of the call that was just made.
fn last_record(host: &Host, Principal(principal): &Principal) -> std::io::Result<Value> {
    let audit = host.audit();
    let is_ours = |call: &Value| call["principal"] == **principal && call["chain"] == audit.chain();
    let found = audit.search(None, 1, is_ours)?.calls.pop();
    found.ok_or_else(|| std::io::Error::other("the call left no record"))
}

/// Returns what was recorded; nothing where a program was started, which does more than it asks.
fn asked(host: &Host, record: &Value) -> std::io::Result<Option<Vec<(String, Value)>>> {
    let Some(digest) = record["recording"].as_str() else { return Ok(None) };
    let asked = host.recordings().find(digest)?;
    let asked: Option<Vec<_>> = asked.map(|recording| recording.answers().cloned().collect());
    Ok(asked.filter(|asked| !asked.iter().any(|(of, _)| of.starts_with("process."))))
}

/// Forgets the recordings of a trial on every way out of it.
struct Forgotten(Host, Profile);

impl Drop for Forgotten {
    fn drop(&mut self) {
        if let Err(error) = forget(&self.0, &self.1) {
            tracing::warn!("what a trial read stays among the recordings: {error}");
        }
    }
}

/// Removes what was recorded under `profile` for this alone: it holds what the tool read.
fn forget(host: &Host, profile: &Profile) -> std::io::Result<()> {
    if profile.record {
        return Ok(());
    }
    let (audit, catalog) = (host.audit(), host.catalog());
    let is_under =
        |tool: &str| catalog.find(tool).is_some_and(|tool| tool.grants.profile == profile.name);
    let is_ours = |call: &Value| {
        call["chain"] == audit.chain() && call["tool"].as_str().is_some_and(is_under)
    };
    let calls = audit.search(None, RECORDINGS_MAX, is_ours)?.calls;
    let mut digests = calls.iter().filter_map(|call| call["recording"].as_str());
    digests.try_for_each(|digest| host.recordings().remove(digest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_no_document_can_say_is_refused() {
        assert!(told(Path::new("/a b/c")).is_ok());
        for path in ["/a\nb", "/a*", "/$HOME"] {
            assert!(told(Path::new(path)).is_err(), "{path:?}");
        }
    }

    #[test]
    fn a_printed_path_does_not_go_up_and_keeps_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path().canonicalize().unwrap();
        std::fs::create_dir(here.join("a")).unwrap();
        std::os::unix::fs::symlink("a", here.join("link")).unwrap();
        assert_eq!(straight(&here.join("a/../link/x")), here.join("link/x"));
        assert_eq!(straight(&here.join("a/..")), here);
        for path in ["/nowhere/../x", "/link/x"] {
            assert_eq!(straight(Path::new(path)), Path::new(path));
        }
    }
}
