//! `clawhost pull`: components from registries and URLs into the tools folder, each locked at what it
//! was.

use std::path::{Path, PathBuf};

use clap::Args;
use clawhost_core::digest::is_digest;
use clawhost_core::error::exit;
use clawhost_core::manifest::Settings;
use clawhost_core::package::{ComponentName, Lock, Locked, Reference, VerifyingKey, signers};
use serde_json::{Value, json};

use super::args::HostArgs;
use super::fail::Fail;
use super::{setup, show};
use crate::distribution::{Distribution, Pulled, ToolsFolder, Trouble, change_lock};
use crate::registry::LOCK_FILE;

/// Put a component into the tools folder, and lock what it was
///
/// REFERENCE is oci://host[:port]/repository[:tag or @sha256:…], https://…/name.wasm, or
/// claw://registry/namespace/name@version. What it was is kept in clawhost.lock beside the manifest:
/// the same reference is that and nothing else from then on. Without REFERENCE, everything in the
/// lock file is fetched as it was locked. The folder is that of --tools, else `tools.directory` of the
/// runtime file; it has to be there.
///
/// What is pulled grants itself nothing: it runs under the profile `none` until a document beside
/// it says more, or the manifest does of a tool with the name of its file. It is served under no
/// other name that the manifest binds, and where another file has the same tool, neither is served.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  clawhost pull oci://oci.example.com/example/greet:1.0.0 --tools tools\n  clawhost pull https://example.com/greet.wasm --digest sha256:…\n  clawhost pull"
)]
pub(super) struct PullArgs {
    /// Where the component is [default: all in the lock file]
    #[arg(value_name = "REFERENCE")]
    reference: Option<String>,
    /// The manifest that the lock file lies beside [default: claw.yaml of the current directory]
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    #[command(flatten)]
    places: HostArgs,
    /// Take nothing but the component with this digest
    #[arg(long, value_name = "sha256:HEX", requires = "reference", value_parser = read_digest)]
    digest: Option<String>,
    /// Call its file this, without an ending [default: the last part of REFERENCE]
    #[arg(long, value_name = "NAME", requires = "reference", value_parser = ComponentName::parse)]
    name: Option<ComponentName>,
    /// Accept that a reference is something else than what is locked
    #[arg(long)]
    update: bool,
    /// Overwrite a file that is not as it was pulled
    #[arg(long)]
    replace: bool,
    /// Fetch and check everything, and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn read_digest(text: &str) -> Result<String, String> {
    let wrong = || "write sha256: and 64 hex digits in lower case".to_owned();
    is_digest(text).then(|| text.to_owned()).ok_or_else(wrong)
}

/// One run of the verb.
struct Run<'a> {
    args: &'a PullArgs,
    settings: Settings,
    distribution: Distribution,
    tools: ToolsFolder,
    /// Where the lock file lies.
    beside: PathBuf,
}

pub(super) async fn run(args: PullArgs) -> Result<u8, Fail> {
    let paths = setup::with_default(args.manifest.as_slice());
    let settings = setup::config(&paths, args.places.config.as_deref())?;
    let tools = args.places.tools.clone().or_else(|| settings.tools.directory.clone());
    let tools = tools.ok_or_else(|| {
        let hint = "name the folder with --tools DIR, or as `tools.directory` in clawhost.yaml";
        Fail::usage("no tools folder to put components into is named", hint)
    })?;
    if !tools.is_dir() {
        let reason = format!("the tools folder {} is not there", tools.display());
        return Err(Fail::usage(reason, "make it first, or name another one with --tools DIR"));
    }
    let distribution = setup::distribution(&settings, args.places.state.as_deref())?;
    let beside = setup::beside(&paths);
    let lock = setup::lock(&beside)?;
    if let Some(manifest) = elsewhere(&tools, &beside).filter(|_| args.manifest.is_none()) {
        let beside = beside.display();
        tracing::warn!(
            "{manifest} looks for {LOCK_FILE} beside itself, and this is written in {beside}: name it with --manifest"
        );
    }
    let tools = ToolsFolder::new(tools);
    let run = Run { args: &args, settings, distribution, tools, beside };
    let mut pulled = Vec::new();
    for reference in run.references(&lock)? {
        pulled.push(run.one(&reference, &lock).await?);
    }
    if args.json {
        show::json(&json!({ "pulled": pulled }));
    } else if pulled.is_empty() {
        show::line("nothing is locked: name what to pull");
    }
    Ok(exit::OK)
}

impl Run<'_> {
    /// Returns what to pull: the one that is named, or everything that is locked.
    fn references(&self, lock: &Lock) -> Result<Vec<Reference>, Fail> {
        let hint = "write oci://host/repository:tag, https://host/name.wasm or claw://registry/namespace/name@version";
        let read = |text: &str| {
            Reference::parse(text).map_err(|why| Fail::usage(format!("{text:?}: {why}"), hint))
        };
        match &self.args.reference {
            Some(text) => Ok(vec![read(text)?]),
            None => lock.iter().map(|(text, _)| read(text)).collect(),
        }
    }

    async fn one(&self, reference: &Reference, lock: &Lock) -> Result<Value, Fail> {
        let locked = lock.get(&reference.to_string());
        let name = self.name(reference, locked, lock)?;
        // Only somebody who names a reference asks what it is now.
        let again = locked.filter(|_| self.args.reference.is_none() && !self.args.update);
        let exactly = match again {
            Some(locked) => {
                locked.exactly(reference).map_err(|why| Fail::new(exit::DOCUMENT, why))?
            }
            None => reference.clone(),
        };
        let keys = self.settings.signing_keys();
        let pulling = self.distribution.pull(&exactly, !keys.is_empty());
        let pulled = setup::patiently(format!("fetching {exactly}"), pulling).await?;
        self.check(reference, &pulled, locked)?;
        let signed_by = self.signer(reference, &keys, &pulled)?;
        let (file, is_new) = self.tools.look(&name, &pulled, locked, self.args.replace)?;
        let former = locked.filter(|locked| locked.name != name.as_str());
        let former =
            former.map(|locked| self.tools.former(locked)).transpose()?.unwrap_or_default();
        let now = Locked {
            digest: pulled.digest.clone(),
            bytes: pulled.bytes.len() as u64,
            name: name.as_str().to_owned(),
            source: pulled.source.clone(),
            document: pulled.document.clone(),
            signed_by,
        };
        if !self.args.dry_run {
            let staged = self.tools.stage(&file, &pulled, is_new)?.in_place_of(former.clone());
            let change = |lock: &mut Lock| insert(lock, reference, locked, &now);
            change_lock(&self.beside, change, || staged.place())?;
        }
        let said = json!({
            "reference": reference.to_string(), "digest": now.digest, "bytes": now.bytes,
            "source": now.source, "file": file, "signed_by": now.signed_by,
            "written": is_new && !self.args.dry_run,
            "removed": if self.args.dry_run { &[] } else { former.as_slice() },
        });
        if !self.args.json {
            show::line(&told(&said, self.args.dry_run, is_new));
            let what = if self.args.dry_run { "would remove" } else { "removed" };
            former.iter().for_each(|file| show::line(&format!("{what} {}", file.display())));
        }
        Ok(said)
    }

    /// Returns what the file is called: no two references have the same.
    fn name(
        &self,
        reference: &Reference,
        locked: Option<&Locked>,
        lock: &Lock,
    ) -> Result<ComponentName, Fail> {
        let hint = "give it another name with --name NAME";
        let wrong = |reason: String| Fail::usage(format!("{reference}: {reason}"), hint);
        let name = match (&self.args.name, locked) {
            (Some(name), _) => name.clone(),
            (None, Some(locked)) => ComponentName::parse(&locked.name).map_err(wrong)?,
            (None, None) => reference.name().map_err(wrong)?,
        };
        match namesake(lock, reference, name.as_str()) {
            Some(other) => Err(wrong(format!("`{}` is what {other} is called", name.as_str()))),
            None => Ok(name),
        }
    }

    /// Compares what came with what was asked for, by whoever said so.
    fn check(&self, of: &Reference, pulled: &Pulled, locked: Option<&Locked>) -> Result<(), Fail> {
        let stated = match of {
            Reference::Web(web) => web.digest.as_ref(),
            Reference::Oci(_) | Reference::Registry(_) => None,
        };
        let differs = |wanted: &&String| **wanted != pulled.digest;
        if let Some(wanted) = self.args.digest.iter().chain(stated).find(differs) {
            let reason = format!("{of} is {}, and not {wanted}", pulled.digest);
            let hint = "ask whoever publishes it which of the two is right";
            return Err(Trouble::Refused { reason, hint }.into());
        }
        let Some(locked) = locked.filter(|_| !self.args.update) else { return Ok(()) };
        let hint = "`--update` accepts what it is now; nothing was written";
        if locked.digest != pulled.digest {
            let reason =
                format!("{of} is locked as {}, and is {} now", locked.digest, pulled.digest);
            return Err(Trouble::Refused { reason, hint }.into());
        }
        if locked.document != pulled.document {
            let shown = |document: &Option<String>| document.clone().unwrap_or_default();
            let (before, now) = (shown(&locked.document), shown(&pulled.document));
            let reason = format!("the document of {of} is locked as {before}, and is {now} now");
            return Err(Trouble::Refused { reason, hint }.into());
        }
        Ok(())
    }

    /// Returns the key that signed it, of those that the runtime file names.
    fn signer(
        &self,
        of: &Reference,
        keys: &[VerifyingKey],
        pulled: &Pulled,
    ) -> Result<Option<String>, Fail> {
        let text = pulled.signature.as_deref().unwrap_or_default();
        let signed = signers(keys, &pulled.bytes, text);
        let wanted = &self.settings.tools.signed_by;
        if !wanted.is_empty() && !signed.iter().any(|key| wanted.contains(key)) {
            let reason = match &pulled.signature {
                Some(_) => format!("{of} carries no signature of a key in `tools.signed_by`"),
                None => format!("{of} carries no signature, and `tools.signed_by` wants one"),
            };
            let hint =
                "whoever publishes it signs it with `minisign -S -m FILE` before `clawhost push`";
            return Err(Trouble::Refused { reason, hint }.into());
        }
        Ok(signed.first().map(ToString::to_string))
    }
}

/// Returns the manifest that lies with the tools folder, where what is pulled is locked in another folder.
fn elsewhere(tools: &Path, beside: &Path) -> Option<String> {
    let folder = tools.canonicalize().ok()?.parent()?.to_owned();
    let manifest = folder.join(setup::MANIFEST_NAME);
    let is_elsewhere = manifest.is_file() && beside.canonicalize().ok()? != folder;
    is_elsewhere.then(|| manifest.display().to_string())
}

/// Returns the other reference whose file is called that.
fn namesake<'a>(lock: &'a Lock, reference: &Reference, name: &str) -> Option<&'a str> {
    let reference = reference.to_string();
    let mut others = lock.iter().filter(|(other, _)| *other != reference);
    others.find(|(_, locked)| locked.name == name).map(|(other, _)| other)
}

/// Locks a reference, as long as the lock file says of it what it did `before`, when that was checked.
fn insert(
    lock: &mut Lock,
    reference: &Reference,
    before: Option<&Locked>,
    now: &Locked,
) -> Result<(), Trouble> {
    let found = lock.get(&reference.to_string());
    let is_as_checked = found == before || found == Some(now);
    if !is_as_checked || namesake(lock, reference, &now.name).is_some() {
        let reason = format!("{reference}: another pull has changed {LOCK_FILE} meanwhile");
        return Err(Trouble::Refused { reason, hint: "nothing was written; pull it again" });
    }
    lock.insert(reference, now.clone());
    Ok(())
}

fn told(said: &Value, is_dry: bool, is_new: bool) -> String {
    let text = |key: &str| said.get(key).and_then(Value::as_str).unwrap_or("nobody that is known");
    let what = match (is_dry, is_new) {
        (true, true) => "would write",
        (true, false) => "would leave",
        (false, true) => "wrote",
        (false, false) => "as it was:",
    };
    format!(
        "{what} {}\n  reference  {}\n  digest     {}\n  source     {}\n  signed by  {}",
        text("file"),
        text("reference"),
        text("digest"),
        text("source"),
        text("signed_by"),
    )
}

impl From<Trouble> for Fail {
    fn from(trouble: Trouble) -> Self {
        let reason = trouble.to_string();
        match trouble {
            Trouble::Refused { hint, .. } => {
                Self::Other { code: exit::DENIED, reason, hint: Some(hint.to_owned()) }
            }
            Trouble::Server(_) => Self::new(exit::UPSTREAM, reason),
            Trouble::Unsound(_) => Self::new(exit::DOCUMENT, reason),
        }
    }
}
