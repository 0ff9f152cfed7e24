//! The secrets that a host has, and the keys that are derived of its credentials.

use std::path::{Path, PathBuf};

use clawhost_core::manifest::Settings;
use clawhost_core::screen::Tokens;

use super::documents::config;
use super::state::{opened, state_path};
use crate::cli::args::StateArgs;
use crate::cli::fail::Fail;
use crate::cli::log;
use crate::engine::CodeCache;
use crate::secrets::{SecretSources, Secrets};
use crate::state::{Credentials, FolderEnv, SecretStore, StateDir, cache_folder};

/// Names a folder with a file for each secret (CKP 0.3.0, runtime profile, section 7).
const SECRETS_DIR_VARIABLE: &str = "CLAW_SECRETS_DIR";
/// What the key of the code cache is derived for; changes when its format does.
const CACHE_KEY_CONTEXT: &str = "clawhost 2026-11 code cache v2";
/// What the key of tokens for what screens find is derived for.
const TOKEN_KEY_CONTEXT: &str = "clawhost 2026-11 tokens of screens";

/// Returns the secrets that a host on the state folder has. Where there is none and `only_looks`, it is not made: its
/// store holds nothing.
pub(in crate::cli) fn secrets_of(common: &StateArgs, only_looks: bool) -> Result<Secrets, Fail> {
    if only_looks && !state_path(common)?.0.exists() {
        return Ok(secrets_from(None, Tokens::default()));
    }
    let settings = config(&[], common.config.as_deref())?;
    opened_secrets(&settings, common.state.as_deref())
}

/// Returns the secrets of a state folder.
pub(in crate::cli) fn opened_secrets(
    settings: &Settings,
    state: Option<&Path>,
) -> Result<Secrets, Fail> {
    opened(settings, state).map(|(state, credentials)| secrets(&state, &credentials))
}

/// As [`secrets_from`], of a state folder.
pub(super) fn secrets(state: &StateDir, credentials: &Credentials) -> Secrets {
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
pub(super) fn code_cache(credentials: &Credentials) -> Option<CodeCache> {
    // Bound to this state folder: code cached under another one does not count.
    let key = key(credentials, CACHE_KEY_CONTEXT);
    let folder = cache_folder(&FolderEnv::from_process());
    let cache = folder.and_then(|folder| CodeCache::open(&folder, key));
    cache.inspect_err(|error| tracing::warn!("compiled code is not kept: {error}")).ok()
}

/// A key for one purpose; who has the state folder has it.
fn key(credentials: &Credentials, purpose: &str) -> [u8; blake3::KEY_LEN] {
    blake3::derive_key(purpose, credentials.operator().reveal().as_bytes())
}
