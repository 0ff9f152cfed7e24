//! From the command line to a host: runtime file, folders, documents, engine.

mod documents;
mod keys;
mod state;
mod waiting;

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clawhost_core::error::exit;
use clawhost_core::limits::{BRIDGE_LOOK_MS, FLUSH_MS};
use clawhost_core::manifest::{Manifest, Settings};

pub(super) use self::documents::{
    MANIFEST_NAME, beside, config, distribution, documents, documents_from, lock, manifest,
    read_document, read_file, with_default,
};
use self::keys::{code_cache, secrets};
pub(super) use self::keys::{opened_secrets, secrets_of};
pub(super) use self::state::{
    audit, existing_audit_dir, existing_database, existing_pins, existing_signing_key, look_into,
    pins, quarantine, releases, require_state, seeded, state_dir, state_path, switches,
};
use self::state::{audit_folder, database, nobodys_log, opened, registry, signing_key};
use self::waiting::SPINNER_TICK;
pub(super) use self::waiting::{block_on, patiently};
use super::args::HostArgs;
use super::fail::{Blame as _, Fail};
use crate::engine::{Engine, compiler};
use crate::state::{Credentials, StateDir};
use crate::{Host, HostBuilder};

/// A client that connects does not wait longer than this for a component that compiles, or a server.
const SERVE_PATIENCE: Duration = Duration::from_secs(2);

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
    places: &HostArgs,
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
    places: &HostArgs,
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
    let nobodys = (purpose == Purpose::Look).then(|| nobodys_log(&state)).transpose()?;
    let builder = builder.only_looking(nobodys);
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
