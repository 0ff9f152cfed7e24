//! The lab: a temporary folder that stands for this machine, and a host in it for each profile.

use std::borrow::Cow;
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::grants::{CallLimits, Grants};
use clawhost_core::manifest::{
    self, DocumentError, LimitSettings, Manifest, OneDocument, Profile, Surroundings,
};
use clawhost_core::reply::{Content, ToolReply};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::time::error::Elapsed;

use super::corpus::{self, Attack};
use super::ground::{Filled, moved, plant};
use super::judge::{judge, refusal};
use super::oracles::Oracles;
use super::{Expected, Finding, Guest, Outcome};
use crate::engine::CodeCache;
use crate::host::{Principal, ToolCall};
use crate::secrets::Secrets;
use crate::{Host, HostBuilder, audit, random};

/// What the lab says in the place of the user's documents: everything may be called.
const DOCUMENT: &str = include_str!("lab.yaml");
/// What every secret of the user's is in the lab.
const SECRET: &str = "canary-9d41-no-secret-of-yours";
/// The guest that does nothing wrong.
const GOOD: &str = "answer";
/// The time of a call that ends by itself or at a bound other than time: more than that takes however busy the
/// machine is, as a call that runs out of time has not shown how it ends.
const ENDS: Duration = Duration::from_secs(30);
/// The time of one that may last: enough to misbehave in.
const LASTS: Duration = Duration::from_millis(250);
/// The time of one that is to use all of it up.
const SPINS: Duration = Duration::from_millis(50);
/// A call that is not over by then hangs; a jail takes a while to end.
const HANGS: Duration = Duration::from_secs(60);
/// What calls of a guest whose code is not there yet wait for it, together.
const LOADS: Duration = Duration::from_secs(60);
/// Calls that may run at once: the lab makes one at a time.
const CALLS_RUNNING: usize = 4;

/// Tries every attack under every profile that the tools of `manifest` run under, or that its own
/// documents bring, one at a time. No reply and no record may hold any of `hidden`.
///
/// The lab counts the memory, the descriptors and the children of this process: nothing else
/// should run in it.
///
/// # Errors
/// The lab cannot be set up.
pub async fn run(manifest: &Manifest, hidden: &[String]) -> io::Result<Vec<Finding>> {
    let lab = Lab::open()?;
    let mut findings = Vec::new();
    for (number, profile) in profiles(manifest).into_iter().enumerate() {
        findings.extend(lab.attack(number, profile, hidden).await?);
    }
    Ok(findings)
}

/// Returns the profiles that are worth trying: those that something runs under.
fn profiles(manifest: &Manifest) -> Vec<&Profile> {
    let default = manifest.default_profile_name();
    let is_used = |profile: &&Profile| {
        profile.name == default || manifest.tools.iter().any(|tool| tool.sandbox == profile.name)
    };
    manifest.profiles.values().filter(is_used).collect()
}

/// What every profile is attacked with.
#[derive(Debug)]
struct Lab {
    folder: TempDir,
    attacks: Vec<Attack>,
    key: [u8; 32],
}

impl Lab {
    fn open() -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("clawhost-attack-").tempdir()?;
        std::fs::create_dir(folder.path().join("tools"))?;
        for guest in corpus::all() {
            let (name, bytes) = guest.file();
            // Read once here rather than by the host of each profile; some are no text to read.
            let binary = wat::parse_bytes(&bytes).map(Cow::into_owned);
            let bytes = if name.ends_with(".wat") { binary.unwrap_or(bytes) } else { bytes };
            std::fs::write(folder.path().join("tools").join(name), bytes)?;
        }
        let key = random::bytes().map_err(io::Error::other)?;
        Ok(Self { folder, attacks: corpus::attacks(), key })
    }

    /// Tries every attack under `profile`, in a part of the lab of its own.
    async fn attack(
        &self,
        number: usize,
        profile: &Profile,
        hidden: &[String],
    ) -> io::Result<Vec<Finding>> {
        let root = self.folder.path().canonicalize()?.join(number.to_string());
        let profile = moved(profile, &root);
        let open = plant(&root, &profile)?;
        let oracles = Oracles::watch(&root, open, hidden)?;
        let audit = self.folder.path().join(format!("audit-{number}"));
        std::fs::create_dir(&audit)?;
        let record = Dir::open_ambient_dir(&audit, ambient_authority())?;
        let host = self.host(&profile, record.try_clone()?).await?;
        let place =
            Place { filled: Filled::of(&root, &profile, oracles.port()?), oracles, profile, host };
        let mut findings = Vec::new();
        for attack in &self.attacks {
            findings.push(place.attack(attack).await);
        }
        findings.push(place.record(&record));
        Ok(findings)
    }

    async fn host(&self, profile: &Profile, audit: Dir) -> io::Result<Host> {
        let cache = CodeCache::open(&self.folder.path().join("cache"), self.key);
        let secrets = Secrets::of_environment(|_| Some(OsString::from(SECRET)));
        let mut manifest = manifest(self.folder.path(), profile).map_err(|errors| {
            io::Error::other(errors.iter().map(DocumentError::one_line).collect::<String>())
        })?;
        // The sandbox has to hold each of many attempts, and not only the first ones.
        manifest.governance.immune.enabled = false;
        let limits = LimitSettings { calls_running_max: CALLS_RUNNING, ..LimitSettings::default() };
        let builder = HostBuilder::new(manifest, audit)
            .tools_dir(Some(self.folder.path().join("tools")))
            .limits(limits)
            .secrets(secrets)
            .cache(Some(cache.map_err(io::Error::other)?));
        builder.build().await.map_err(io::Error::other)
    }
}

/// One profile under attack.
#[derive(Debug)]
struct Place {
    filled: Filled,
    oracles: Oracles,
    profile: Profile,
    host: Host,
}

impl Place {
    async fn attack(&self, attack: &Attack) -> Finding {
        let grants = self.profile.grants(None);
        let reaches_here = grants.network.as_ref().is_some_and(|rules| !rules.block_private);
        let outcome = match self.why_nothing_is_served() {
            Some(reason) => Outcome::Unavailable(reason),
            // It would be no escape.
            None if reaches_here && attack.rows.iter().any(|row| is_of_the_network(row)) => {
                Outcome::NotTried("the profile grants addresses of this machine".to_owned())
            }
            None => self.try_it(attack, &grants).await,
        };
        let (attack, rows) = (attack.name.clone(), attack.rows.clone());
        Finding { attack, rows, profile: self.profile.name.clone(), outcome }
    }

    /// A profile that this machine cannot give, such as one with a jail, serves nothing at all.
    fn why_nothing_is_served(&self) -> Option<String> {
        let catalog = self.host.catalog();
        if catalog.find(GOOD).is_some() {
            return None;
        }
        let refused = catalog.refused.iter().find(|it| it.source.contains(&format!("{GOOD}.wat")));
        Some(refused.map_or_else(|| "nothing is served".to_owned(), |it| it.reason.clone()))
    }

    async fn try_it(&self, attack: &Attack, grants: &Grants) -> Outcome {
        let expected = attack.guest.expected_under(grants);
        let before = self.oracles.before();
        let mut broken = Vec::new();
        let mut shown = String::new();
        match &expected {
            Expected::Refused(reason) => {
                broken.extend(refusal(&self.host.catalog(), &attack.guest, reason).err());
            }
            _ => match self.call(attack, time_of(&expected)).await {
                Ok(Err(error)) if has_not_run(&error) => {
                    return Outcome::Unavailable(error.message);
                }
                Ok(outcome) => {
                    let is_stricter = grants.limits != limits_of(grants);
                    broken.extend(judge(&expected, &outcome, is_stricter).err());
                    shown = what_is_shown(&outcome);
                }
                Err(_) => broken.push(format!("it hangs for {} s", HANGS.as_secs())),
            },
        }
        broken.extend(self.oracles.after(before, &shown, grants.limits.memory_bytes).await);
        broken.extend(self.is_unwell().await);
        if broken.is_empty() { Outcome::Held } else { Outcome::Broken(broken) }
    }

    /// Calls the guest of `attack`; each call ends, or hangs.
    async fn call(&self, attack: &Attack, within: Duration) -> Result<Ended, Elapsed> {
        let fill = |text: &str| self.filled.fill(text);
        let arguments = attack.case.as_ref().map_or_else(|| json!({}), |it| it.arguments(fill));
        let attempt = || {
            let call = call(attack.guest.tool(), arguments.clone(), within);
            tokio::time::timeout(HANGS, self.host.call(call))
        };
        once_loaded(within, attempt).await
    }

    /// Says what is wrong with a good call, if anything is.
    async fn is_unwell(&self) -> Option<String> {
        let good = self.host.call(call(GOOD, json!({}), HANGS));
        match tokio::time::timeout(HANGS, good).await {
            Ok(Ok(reply)) if reply.content == [Content::Text(GOOD.to_owned())] => None,
            other => Some(format!("a good call after it fails: {other:?}")),
        }
    }

    /// The record holds every call and nothing that is hidden.
    fn record(&self, record: &Dir) -> Finding {
        let mut broken = Vec::new();
        match (audit::verify(record, &audit::Trust::default()), audit::records(record)) {
            (Ok(reports), Ok(records)) => {
                let is_whole = |report: &audit::ChainReport| {
                    report.broken.is_none() && report.unfinished_calls == 0
                };
                if !reports.iter().all(is_whole) {
                    broken.push(format!("the record does not hold: {reports:?}"));
                }
                broken.extend(self.oracles.seen_in(&Value::from(records).to_string()));
            }
            (verified, read) => {
                broken.push(format!("no record: {:?} {:?}", verified.err(), read.err()))
            }
        }
        let outcome = if broken.is_empty() { Outcome::Held } else { Outcome::Broken(broken) };
        let (attack, rows) = ("record".to_owned(), vec!["M32".to_owned(), "D8".to_owned()]);
        Finding { attack, rows, profile: self.profile.name.clone(), outcome }
    }
}

/// How a call ended.
type Ended = Result<ToolReply, CallError>;

/// Makes attempts `within` a time each until the code is there, which the first ones load in their own time. The
/// last one counts.
async fn once_loaded<F: Future<Output = Result<Ended, Elapsed>>>(
    within: Duration,
    mut attempt: impl FnMut() -> F,
) -> Result<Ended, Elapsed> {
    for _ in 1..LOADS.as_millis() / within.as_millis().max(1) {
        let ended = attempt().await?;
        if !ended.as_ref().is_err_and(has_not_run) {
            return Ok(ended);
        }
    }
    attempt().await
}

/// Says whether a call ended before the code of its tool was there.
fn has_not_run(error: &CallError) -> bool {
    let stage = error.data.get("stage").and_then(Value::as_str);
    error.kind == ErrorKind::Overloaded && stage == Some("code")
}

/// What a call that ends as `expected` needs to show it.
fn time_of(expected: &Expected) -> Duration {
    match expected {
        Expected::Exceeds(code, _) if *code == ErrorKind::Timeout.code() => SPINS,
        Expected::Answers | Expected::Exceeds(..) | Expected::Fails(_) => ENDS,
        Expected::Any | Expected::Denied | Expected::Refused(_) => LASTS,
    }
}

/// The rows whose attacks make requests, or have a program make them.
fn is_of_the_network(row: &str) -> bool {
    row.starts_with('N') || row == "X13"
}

fn call(tool: &str, arguments: Value, within: Duration) -> ToolCall {
    let call = ToolCall::new(Principal("attack".to_owned()), tool, arguments);
    ToolCall { timeout: Some(within), ..call }
}

/// Returns all that a caller sees of a call.
fn what_is_shown(outcome: &Result<ToolReply, CallError>) -> String {
    match outcome {
        Ok(reply) => format!("{:?} {:?}", reply.content, reply.structured),
        Err(error) => format!("{} {:?}", error.message, error.data),
    }
}

/// The default limits, but for the time, which the lab sets itself.
fn limits_of(grants: &Grants) -> CallLimits {
    CallLimits { timeout: grants.limits.timeout, ..CallLimits::default() }
}

/// Returns the documents of the lab with every tool under `profile`.
fn manifest(folder: &Path, profile: &Profile) -> Result<Manifest, Vec<DocumentError>> {
    let is_served = |guest: &Guest| !matches!(guest.expected(), Expected::Refused(_));
    let tools = corpus::all().into_iter().filter(is_served);
    let tools: String = tools.map(|guest| format!("    - {{name: {}}}\n", guest.tool())).collect();
    let profiles = manifest::builtin_profiles(folder)?;
    let around = Surroundings { directory: folder, profiles: &profiles };
    let document = OneDocument(DOCUMENT.replace("    []\n", &tools).into_bytes());
    let mut manifest = manifest::load(&document, &["lab.yaml".into()], around)?;
    for tool in &mut manifest.tools {
        tool.sandbox.clone_from(&profile.name);
    }
    manifest.profiles.insert(profile.name.clone(), profile.clone());
    Ok(manifest)
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn attempts_until(code_is_there: usize) -> (usize, Ended) {
        let mut made = 0;
        let ended = once_loaded(SPINS, || {
            made += 1;
            let stage = if made < code_is_there { "code" } else { "rates" };
            std::future::ready(Ok(Err(
                CallError::new(ErrorKind::Overloaded, "").with("stage", stage)
            )))
        });
        let ended = ended.await.unwrap();
        (made, ended)
    }

    #[tokio::test]
    async fn a_guest_whose_code_does_not_come_is_called_so_often_and_the_last_error_is_the_answer()
    {
        let (made, ended) = attempts_until(3).await;
        assert_eq!((made, has_not_run(&ended.unwrap_err())), (3, false));
        let (made, ended) = attempts_until(usize::MAX).await;
        assert_eq!((made, has_not_run(&ended.unwrap_err())), (1_200, true));
    }
}
