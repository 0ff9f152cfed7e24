//! From the command line to a host: runtime file, folders, documents, engine.

use std::borrow::Cow;
use std::fs::File;
use std::future::Future;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::Dir;
use clawhost_core::error::exit;
use clawhost_core::limits::{BRIDGE_LOOK_MS, COMPONENT_BYTES_MAX, DOCUMENT_BYTES_MAX, FLUSH_MS};
use clawhost_core::manifest::{
    self, DocumentError, Documents, Manifest, OneDocument, PinMode, RegistrySettings,
    ReleaseSettings, Settings, Surroundings,
};
use clawhost_core::package::Lock;
use clawhost_core::screen::Tokens;
use tempfile::TempDir;

use super::args::{Places, StateArgs};
use super::fail::{Blame as _, Fail};
use super::log;
use crate::audit::{self, AuditLog, SigningKey};
use crate::clock::Clock;
use crate::config::{self, Config};
use crate::distribution::Distribution;
use crate::engine::{CodeCache, Engine, LoadError, compiler};
use crate::host::MIGRATIONS;
use crate::quarantine::Quarantine;
use crate::registry::{
    DEFAULT_MANIFEST, FileDocuments, LOCK_FILE, Pins, Registries, Releases, built_in_tools,
    contexts, read_lock,
};
use crate::regular;
use crate::secrets::{Secret, SecretSources, Secrets};
use crate::state::{
    CREDENTIALS_FILE, Credentials, DATABASE_FILE, Database, FolderEnv, SecretStore, StateDir,
    existing_signing_seed, open_cache, signing_seed,
};
use crate::switches::Switches;
use crate::upstream::http::{HttpClient, TrustedRoots};
use crate::{Host, HostBuilder};

/// The manifest `run` looks for where no PATH is given.
pub(super) const MANIFEST_NAME: &str = "claw.yaml";
/// What would be right where no host keeps its state.
const STATE_HINT: &str = "name the state folder of a host with --state DIR";
/// Where the audit chains lie in the state folder.
const AUDIT_FOLDER: &str = "audit";
/// Names a folder with a file for each secret (CKP 0.3.0, runtime profile, section 7).
const SECRETS_DIR_VARIABLE: &str = "CLAW_SECRETS_DIR";
/// A client that connects does not wait longer than this for a component that compiles, or a server.
const SERVE_PATIENCE: Duration = Duration::from_secs(2);
/// Making a host is silent when it is quick, and shows that it works when it is not.
const SILENT_FOR: Duration = Duration::from_secs(1);
const SPINNER_TICK: Duration = Duration::from_millis(100);
/// Turns of tasks between two looks at sockets and pipes (tokio's own number is 61).
const TURNS_PER_LOOK: u32 = 8;
/// What the key of the code cache is derived for; changes when its format does.
const CACHE_KEY_CONTEXT: &str = "clawhost 2026-11 code cache v2";
/// What the key of tokens for what screens find is derived for.
const TOKEN_KEY_CONTEXT: &str = "clawhost 2026-11 tokens of screens";

/// A host, and what the verbs need beside it.
pub(super) struct Setup {
    pub(super) host: Host,
    pub(super) settings: Settings,
    pub(super) credentials: Arc<Credentials>,
    pub(super) state: StateDir,
    _signed: SignedInTheEnd,
}

/// Has the record of a host signed on every way out: its own end may never come, as tasks that hold it are dropped
/// with the process.
struct SignedInTheEnd(Host);

impl Drop for SignedInTheEnd {
    fn drop(&mut self) {
        if !self.0.audit().sign(Duration::from_millis(FLUSH_MS)) {
            tracing::warn!("the end of the audit log is not signed.");
        }
    }
}

/// What a host is made for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// One call: its own server is all that is [waited for](arrived).
    Call,
    /// Being looked at: nothing is accepted, and a slow server is waited for no longer than
    /// [`BRIDGE_LOOK_MS`].
    Look,
    /// Serving: it waits for nothing longer than a client waits for it.
    Serve,
}

/// Makes the host that `paths` and `places` describe.
pub(super) async fn open(
    paths: &[PathBuf],
    places: &Places,
    purpose: Purpose,
) -> Result<Setup, Fail> {
    let (manifest, settings) = documents(&with_default(paths), places)?;
    make(manifest, settings, places, purpose).await
}

/// Waits until the server that may have `tool` has said so or has failed; for no other. What it says
/// now is then held against what was accepted.
pub(super) async fn arrived(host: &Host, tool: &str) {
    let mut versions = host.catalog_version();
    let waiting = async {
        while host.catalog().may_come(tool) {
            // That a server failed is no other version.
            drop(tokio::time::timeout(SPINNER_TICK, versions.changed()).await);
        }
    };
    patiently("waiting for the MCP server", waiting).await;
}

/// As [`open`], for documents that were read already.
pub(super) async fn make(
    manifest: Manifest,
    settings: Settings,
    places: &Places,
    purpose: Purpose,
) -> Result<Setup, Fail> {
    let (state, credentials) = opened(&settings, places.state.as_deref())?;
    let builder = HostBuilder::new(manifest, audit_folder(&state)?)
        .limits(settings.limits)
        .cache(code_cache(&credentials))
        .compiler(compiler_if_any());
    let secrets = secrets(&state, &credentials);
    let own = credentials.all().map(|(name, token)| (name, token.reveal().to_owned().into()));
    let (own, of) = (own.collect::<Vec<_>>(), secrets.clone());
    // To make what searches for them takes as long as to open the store.
    let hiding = tokio::task::spawn_blocking(move || of.hide_all(&own));
    let database = database(&state)?;
    hiding.await.or_fail(exit::INTERNAL)?.or_fail(exit::UPSTREAM)?;
    let own = || Ok(database.clone());
    let releases = settings.releases.as_ref().map(|of| registry(of, own, &secrets)).transpose()?;
    let builder = builder
        .audit_key(Some(signing_key(&state)?))
        .tools_dir(places.tools.clone().or_else(|| settings.tools.directory.clone()))
        .patience((purpose == Purpose::Serve).then_some(SERVE_PATIENCE))
        .server_patience(match purpose {
            Purpose::Call => Some(Duration::ZERO),
            Purpose::Look => Some(Duration::from_millis(BRIDGE_LOOK_MS)),
            Purpose::Serve => None,
        })
        .replaceable(settings.tools.replace_builtins.clone())
        .database(Some(database))
        .registry(releases)
        .elicitation(settings.elicitors())
        .identities(settings.identities())
        .audit_places(settings.audit.clone())
        .secrets(secrets);
    // The log is of what happened: a look leaves nothing in it. Once it is open, its folder needs no name.
    let passing = || tempfile::tempdir_in(state.path());
    let passing = (purpose == Purpose::Look).then(passing).transpose();
    let passing = passing.or_fail(exit::UPSTREAM)?;
    let open = |folder: &TempDir| {
        Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).or_fail(exit::UPSTREAM)
    };
    let builder = builder.only_looking(passing.as_ref().map(open).transpose()?);
    let what = "preparing tools (compiled code is kept for the next start)";
    let host = patiently(what, builder.build()).await.or_fail(exit::UPSTREAM)?;
    let credentials = Arc::new(credentials);
    Ok(Setup { _signed: SignedInTheEnd(host.clone()), host, settings, credentials, state })
}

/// Returns an engine that compiles for one look, and keeps nothing.
pub(super) fn engine() -> Result<Arc<Engine>, String> {
    let engine = Engine::new(1, None).map(|engine| engine.compiled_by(compiler_if_any()));
    engine.map(Arc::new).map_err(|error| format!("{error:#}"))
}

/// Returns what compiles: the program that runs here, whatever lies at its path by now.
pub(super) fn compiler() -> Result<File, String> {
    let program = "/proc/self/exe";
    File::open(program).map_err(|error| format!("{program}: {error}"))
}

fn compiler_if_any() -> Option<File> {
    compiler().inspect_err(|why| compiler::none(why)).ok()
}

/// Opens the state folder and the credentials in it; what is missing is made.
fn opened(settings: &Settings, state: Option<&Path>) -> Result<(StateDir, Credentials), Fail> {
    let state = state.or(settings.state.as_deref());
    let state = state_dir(state)?;
    // With the first of them: where they are and it is not, a host ran and its record is gone.
    if !state.path().join(CREDENTIALS_FILE).exists() {
        audit_folder(&state)?;
    }
    let credentials = Credentials::open(&state, &settings.token_names()).or_fail(exit::UPSTREAM)?;
    Ok((state, credentials))
}

pub(super) fn state_dir(folder: Option<&Path>) -> Result<StateDir, Fail> {
    StateDir::open(folder, &FolderEnv::from_process()).or_fail(exit::UPSTREAM)
}

/// Reads and checks the runtime file and the documents, together.
pub(super) fn documents(
    paths: &[PathBuf],
    places: &Places,
) -> Result<(Manifest, Settings), Vec<DocumentError>> {
    documents_from(&FileDocuments, paths, places)
}

/// As [`documents`], with the definition files that `docs` has.
pub(super) fn documents_from(
    docs: &dyn Documents,
    paths: &[PathBuf],
    places: &Places,
) -> Result<(Manifest, Settings), Vec<DocumentError>> {
    let mut settings = config(paths, places.config.as_deref())?.settings;
    let mut manifest = manifest(paths, &settings.registries)?;
    settings.apply(&mut manifest)?;
    settings.define(docs, &mut manifest)?;
    if let Some(folder) = &places.context {
        contexts(folder, &mut manifest)?;
        settings.admit(manifest.agents.keys().cloned());
    }
    let is_folder = |folder: &Path| places.tools.is_some() || folder.is_dir();
    match settings.tools.missing(is_folder, &built_in_tools()) {
        missing if missing.is_empty() => Ok((manifest, settings)),
        missing => Err(missing),
    }
}

/// Reads and checks documents, asking `registries` for what they have; without any documents,
/// the embedded default.
pub(super) fn manifest(
    paths: &[PathBuf],
    registries: &[RegistrySettings],
) -> Result<Manifest, Vec<DocumentError>> {
    let components: Vec<_> = paths.iter().filter_map(|path| component(path)).collect();
    if !components.is_empty() {
        return Err(components);
    }
    let directory = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let profiles = manifest::builtin_profiles(&directory)?;
    let around = Surroundings { directory: &directory, profiles: &profiles };
    let folder = beside(paths);
    let mut manifest = if paths.is_empty() {
        let default = OneDocument(DEFAULT_MANIFEST.as_bytes().to_vec());
        manifest::load(&default, &["<embedded default>".into()], around)?
    } else {
        let registries = ask(registries).map_err(|reason| {
            vec![DocumentError::whole_file(Path::new("clawhost.yaml"), reason, None)]
        })?;
        let registries = registries.pinned(lock(&folder)?);
        manifest::load(&registries.beside(&FileDocuments), paths, around)?
    };
    manifest.locked = Some(folder);
    Ok(manifest)
}

/// Refuses what is no document by its name.
fn component(path: &Path) -> Option<DocumentError> {
    path.extension().filter(|of| ["wasm", "wat"].iter().any(|name| of == name))?;
    let help = "name its folder with --tools DIR; `clawhost inspect` says what it would need";
    Some(DocumentError::whole_file(path, "this is a component and no document", Some(help)))
}

fn ask(registries: &[RegistrySettings]) -> Result<Registries, String> {
    Registries::new(registries, HttpClient::system())
}

/// Reads the lock file that lies in `folder`.
pub(super) fn lock(folder: &Path) -> Result<Lock, Vec<DocumentError>> {
    read_lock(folder).map_err(|error| {
        let help = match error {
            LoadError::Passing(_) => "let yourself read the file and its folder",
            LoadError::Unusable(_) => {
                "mend it by hand, or delete it: `clawhost pull REFERENCE` writes it anew"
            }
        };
        vec![DocumentError::whole_file(&folder.join(LOCK_FILE), error.to_string(), Some(help))]
    })
}

/// Returns what `pull` and `push` ask, as whom the runtime file says.
pub(super) fn distribution(
    settings: &Settings,
    state: Option<&Path>,
) -> Result<Distribution, Fail> {
    let registries = ask(&settings.registries).or_fail(exit::DOCUMENT)?;
    let secrets = match settings.oci.values().any(|one| one.account.is_some()) {
        true => opened_secrets(settings, state)?,
        false => Secrets::none(),
    };
    Ok(Distribution::new(HttpClient::system(), settings.oci.clone(), registries, secrets))
}

/// Returns the secrets that a host on the state folder has. Where there is none and `only_looks`, it is not made: its
/// store holds nothing.
pub(super) fn secrets_of(common: &StateArgs, only_looks: bool) -> Result<Secrets, Fail> {
    if only_looks && !state_path(common)?.0.exists() {
        return Ok(secrets_from(None, Tokens::default()));
    }
    let settings = config(&[], common.config.as_deref())?.settings;
    opened_secrets(&settings, common.state.as_deref())
}

/// `claw.yaml` in the current directory stands in for no path at all.
pub(super) fn with_default(paths: &[PathBuf]) -> Vec<PathBuf> {
    let default = PathBuf::from(MANIFEST_NAME);
    if paths.is_empty() && default.symlink_metadata().is_ok() {
        vec![default]
    } else {
        paths.to_vec()
    }
}

/// Reads the runtime file: `explicit`, else the one beside the first of `paths`, else the one of the
/// current directory.
pub(super) fn config(
    paths: &[PathBuf],
    explicit: Option<&Path>,
) -> Result<Config, Vec<DocumentError>> {
    Config::load(explicit, Some(&beside(paths)), config::environment())
}

/// Returns the folder of what belongs to the first of `paths`: its own, or the current directory.
pub(super) fn beside(paths: &[PathBuf]) -> PathBuf {
    match paths.first().map(|path| (path, path.parent())) {
        Some((path, _)) if path.is_dir() => path.clone(),
        Some((_, Some(folder))) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    }
}

/// Opens the audit log of the [state folder](state_path) to read it. Makes nothing; none where no
/// host ever ran there, which is an error for a folder that was named.
pub(super) fn existing_audit_dir(args: &StateArgs) -> Result<Option<Dir>, Fail> {
    let (folder, is_named) = state_path(args)?;
    let path = folder.join(AUDIT_FOLDER);
    match (Dir::open_ambient_dir(&path, cap_std::ambient_authority()), is_named) {
        (Ok(dir), _) => Ok(Some(dir)),
        (Err(_), _) if folder.join(CREDENTIALS_FILE).exists() => Err(Fail::new(
            exit::AUDIT_BROKEN,
            format!("{}: a host ran here, and its audit log is gone", path.display()),
        )),
        (Err(error), false) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        (Err(error), _) => Err(Fail::usage_at(&path, error, STATE_HINT)),
    }
}

/// Returns the state folder that the user names, else `CLAWHOST_STATE` or the [runtime
/// file](config), else the default; and whether anybody named it. Makes nothing.
pub(super) fn state_path(args: &StateArgs) -> Result<(PathBuf, bool), Fail> {
    let settings = config(&[], args.config.as_deref())?.settings;
    let state = args.state.as_deref().or(settings.state.as_deref());
    let path = StateDir::locate(state, &FolderEnv::from_process()).or_fail(exit::UPSTREAM)?;
    Ok((path, state.is_some()))
}

fn audit_folder(state: &StateDir) -> Result<Dir, Fail> {
    let dir = Dir::open_ambient_dir(state.path(), cap_std::ambient_authority());
    let opened = dir.and_then(|dir| {
        dir.create_dir_all(AUDIT_FOLDER)?;
        dir.open_dir(AUDIT_FOLDER)
    });
    opened
        .map_err(|error| format!("the audit folder cannot be opened: {error}"))
        .or_fail(exit::UPSTREAM)
}

/// Opens a chain of its own in the log of a state folder, signed like a host's.
fn audit_log(state: &StateDir) -> Result<AuditLog, Fail> {
    let terms = audit::Terms { key: Some(signing_key(state)?), ..audit::Terms::default() };
    AuditLog::open(&audit_folder(state)?, terms)
        .map_err(|error| Fail::new(exit::UPSTREAM, format!("the audit log: {error}")))
}

/// Returns the key that signs the log of a state folder, and makes it where there is none.
pub(super) fn signing_key(state: &StateDir) -> Result<SigningKey, Fail> {
    signing_seed(state).or_fail(exit::UPSTREAM).and_then(|seed| key_of(&seed))
}

/// As [`signing_key`], if there is one. Makes nothing.
pub(super) fn existing_signing_key(common: &StateArgs) -> Result<Option<SigningKey>, Fail> {
    let seed = existing_signing_seed(&state_path(common)?.0).or_fail(exit::UPSTREAM)?;
    seed.map(|seed| key_of(&seed)).transpose()
}

fn key_of(seed: &[u8]) -> Result<SigningKey, Fail> {
    SigningKey::from_seed(seed)
        .ok_or_else(|| Fail::new(exit::INTERNAL, "the key of the audit log cannot sign"))
}

/// Opens the pins that hosts on a state folder keep, and the log of what becomes of them.
pub(super) fn pins(common: &StateArgs) -> Result<Pins, Fail> {
    let (database, audit) = kept(common)?;
    Ok(Pins::new(database, Some(audit), PinMode::default()))
}

/// As [`pins`], to look at what is there. Makes nothing, no log either.
pub(super) fn existing_pins(common: &StateArgs) -> Result<Option<Pins>, Fail> {
    let database = existing_database(common)?;
    Ok(database.map(|database| Pins::new(database, None, PinMode::default())))
}

/// As [`releases`], to look at what was seeded.
pub(super) fn seeded(common: &StateArgs) -> Result<Releases, Fail> {
    let settings = config(&[], common.config.as_deref())?.settings;
    if settings.releases.is_none_or(|of| of.postgres.is_none()) {
        require_state(common)?;
    }
    releases(common)
}

/// Opens the versions of the registry that the runtime file means, else those of the state folder.
pub(super) fn releases(common: &StateArgs) -> Result<Releases, Fail> {
    let settings = config(&[], common.config.as_deref())?.settings;
    let of = settings.releases.clone().unwrap_or_default();
    let path = state_path(common)?.0;
    let secrets = match of.password {
        Some(_) => opened_secrets(&settings, Some(&path))?,
        None => Secrets::none(),
    };
    registry(&of, || database(&state_dir(Some(&path))?), &secrets)
}

fn registry(
    of: &ReleaseSettings,
    own: impl FnOnce() -> Result<Database, Fail>,
    secrets: &Secrets,
) -> Result<Releases, Fail> {
    let Some(url) = &of.postgres else { return Ok(Releases::embedded(own()?, &of.name)) };
    let roots = of.ca.as_deref().map_or(Ok(TrustedRoots::Mozilla), roots);
    let password = of.password.as_ref().map(|name| secrets.resolve(name)).transpose();
    let password = password.or_fail(exit::UPSTREAM)?;
    let password = password.as_ref().map(Secret::expose);
    Releases::postgres(url.reveal(), password, &roots?, &of.name).or_fail(exit::DOCUMENT)
}

/// Reads the certificates that `registry.ca` names.
fn roots(file: &Path) -> Result<TrustedRoots, Fail> {
    let bytes = regular::read(file, DOCUMENT_BYTES_MAX as u64).map_err(|error| error.to_string());
    let roots = bytes.and_then(|bytes| TrustedRoots::read(&bytes));
    roots.map_err(|error| Fail::Other {
        code: exit::DOCUMENT,
        reason: format!("`registry.ca`: {}: {error}", file.display()),
        hint: Some(
            "name a file of certificates in PEM, as the server's administrator has it".to_owned(),
        ),
    })
}

/// Opens the log of a state folder.
pub(super) fn audit(common: &StateArgs) -> Result<Arc<AuditLog>, Fail> {
    Ok(kept(common)?.1)
}

/// Opens the operator's switches of a state folder, and the log of what becomes of them.
pub(super) async fn switches(common: &StateArgs) -> Result<Switches, Fail> {
    let (database, audit) = kept(common)?;
    Switches::open(database, audit).await.or_fail(exit::UPSTREAM)
}

fn kept(common: &StateArgs) -> Result<(Database, Arc<AuditLog>), Fail> {
    let state = state_dir(Some(&state_path(common)?.0))?;
    let audit = audit_log(&state)?;
    Ok((database(&state)?, Arc::new(audit)))
}

/// Opens the quarantine that hosts on a state folder share, and the log of what becomes of it.
pub(super) async fn quarantine(common: &StateArgs) -> Result<Quarantine, Fail> {
    let (database, audit) = kept(common)?;
    Quarantine::open(database, audit, Clock::system()).await.or_fail(exit::UPSTREAM)
}

/// Opens the store of the [state folder](state_path), if there is one. Makes nothing.
pub(super) fn existing_database(common: &StateArgs) -> Result<Option<Database>, Fail> {
    let path = state_path(common)?.0.join(DATABASE_FILE);
    let is_there = path.try_exists().or_fail_at(exit::UPSTREAM, &path)?;
    is_there.then(|| database_at(&path)).transpose()
}

/// Refuses a state folder that was named and is not there: a misspelt one is no host with nothing to tell.
pub(super) fn require_state(common: &StateArgs) -> Result<(), Fail> {
    let (folder, is_named) = state_path(common)?;
    let found = folder.metadata();
    let reason = match &found {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => "it is a file".to_owned(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && !is_named => return Ok(()),
        Err(error) => error.to_string(),
    };
    Err(Fail::usage_at(&folder, reason, STATE_HINT))
}

fn database(state: &StateDir) -> Result<Database, Fail> {
    database_at(&state.path().join(DATABASE_FILE))
}

fn database_at(path: &Path) -> Result<Database, Fail> {
    Database::open(path, MIGRATIONS).or_fail_at(exit::UPSTREAM, path)
}

/// Returns the secrets of a state folder.
pub(super) fn opened_secrets(settings: &Settings, state: Option<&Path>) -> Result<Secrets, Fail> {
    opened(settings, state).map(|(state, credentials)| secrets(&state, &credentials))
}

/// As [`secrets_from`], of a state folder.
fn secrets(state: &StateDir, credentials: &Credentials) -> Secrets {
    let tokens = Tokens::new(key(credentials, TOKEN_KEY_CONTEXT));
    secrets_from(Some(SecretStore::new(state)), tokens)
}

/// The secrets of the store, the environment and the secrets folder; the log shows none of them.
fn secrets_from(store: Option<SecretStore>, tokens: Tokens) -> Secrets {
    let folder = std::env::var_os(SECRETS_DIR_VARIABLE).filter(|folder| !folder.is_empty());
    let secrets = Secrets::new(SecretSources {
        store,
        environment: Some(Box::new(|name| std::env::var_os(name))),
        folder: folder.map(PathBuf::from),
        tokens,
    });
    log::redact(secrets.clone());
    secrets
}

/// The cache of compiled code; without one the host works and compiles again.
fn code_cache(credentials: &Credentials) -> Option<CodeCache> {
    let cache = open_cache(&FolderEnv::from_process()).map_err(|error| error.to_string());
    let open = |cache| Dir::open_ambient_dir(cache, cap_std::ambient_authority());
    let dir = cache.and_then(|cache| open(cache).map_err(|error| error.to_string()));
    let dir = dir.inspect_err(|error| tracing::warn!("compiled code is not kept: {error}")).ok()?;
    // Bound to this state folder: code cached under another one does not count.
    Some(CodeCache::new(dir, key(credentials, CACHE_KEY_CONTEXT)))
}

/// A key for one purpose; who has the state folder has it.
fn key(credentials: &Credentials, purpose: &str) -> [u8; blake3::KEY_LEN] {
    blake3::derive_key(purpose, credentials.operator().reveal().as_bytes())
}

/// Reads a component file, bounded.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, Fail> {
    regular::read(path, COMPONENT_BYTES_MAX).map_err(|error| {
        let here = std::env::current_dir().unwrap_or_default();
        let hint =
            format!("give a .wasm or .wat file; {} is where it was looked for", here.display());
        Fail::usage_at(path, error, &hint)
    })
}

/// Reads any other file that was named, bounded; `hint` says which would be right.
pub(super) fn read_document(path: &Path, hint: &str) -> Result<Vec<u8>, Fail> {
    let read = regular::read(path, DOCUMENT_BYTES_MAX as u64);
    read.map_err(|error| Fail::usage_at(path, error, hint))
}

/// Awaits `work`; where it takes longer than a second and a person watches, says what it is.
pub(super) async fn patiently<T>(
    what: impl Into<Cow<'static, str>>,
    work: impl Future<Output = T>,
) -> T {
    if !std::io::stderr().is_terminal() {
        return work.await;
    }
    let mut work = std::pin::pin!(work);
    if let Ok(done) = tokio::time::timeout(SILENT_FOR, work.as_mut()).await {
        return done;
    }
    let spinner = indicatif::ProgressBar::new_spinner().with_message(what);
    match in_a_line(&spinner) {
        Some(line) => eprintln!("{line}"),
        None => spinner.enable_steady_tick(SPINNER_TICK),
    }
    let done = work.await;
    spinner.finish_and_clear();
    done
}

/// Returns what a spinner says where it is not shown: a terminal that cannot take back what it wrote gets a line.
fn in_a_line(spinner: &indicatif::ProgressBar) -> Option<String> {
    spinner.is_hidden().then(|| spinner.message())
}

/// Lets a write beyond the limit on the size of files (`ulimit -f`) fail as on a full disk does; unheeded, its signal
/// ends the process.
fn heed_file_limit() {
    let signal = tokio::signal::unix::SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw());
    if let Err(error) = tokio::signal::unix::signal(signal) {
        tracing::warn!("a limit on the size of files ends the host: {error}");
    }
}

/// Runs one verb to its end.
pub(super) fn block_on<T>(work: impl Future<Output = Result<T, Fail>>) -> Result<T, Fail> {
    // Guests take turns as tasks; sockets and pipes are looked at after a few of them.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .event_interval(TURNS_PER_LOOK)
        .build();
    let runtime =
        runtime.map_err(|error| Fail::new(exit::UPSTREAM, format!("no runtime: {error}")))?;
    let done = runtime.block_on(async {
        heed_file_limit();
        work.await
    });
    // A read of standard input that never ends must not keep the process.
    runtime.shutdown_background();
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_that_shows_no_spinner_gets_a_line() {
        let hidden = indicatif::ProgressBar::hidden().with_message("preparing tools");
        assert_eq!(in_a_line(&hidden).as_deref(), Some("preparing tools"));
    }
}
