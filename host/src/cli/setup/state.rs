//! What lies in a state folder: the record and its key, and the store of what hosts keep.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;
use clawhost_core::error::exit;
use clawhost_core::limits::DOCUMENT_BYTES_MAX;
use clawhost_core::manifest::{PinMode, ReleaseSettings, Settings};
use clawhost_core::visible;

use super::documents::config;
use super::keys::opened_secrets;
use crate::audit::{self, AuditLog, SigningKey};
use crate::cli::args::StateArgs;
use crate::cli::fail::{Blame as _, Fail};
use crate::clock::Clock;
use crate::host::MIGRATIONS;
use crate::quarantine::Quarantine;
use crate::registry::{Pins, Releases};
use crate::regular;
use crate::secrets::{Secret, Secrets};
use crate::state::{
    CREDENTIALS_FILE, Credentials, DATABASE_FILE, Database, FolderEnv, StateDir,
    existing_signing_seed, signing_seed,
};
use crate::switches::Switches;
use crate::upstream::http::TrustedRoots;

/// What would be right where no host keeps its state.
const STATE_HINT: &str = "name the state folder of a host with --state DIR";
/// Where the audit chains lie in the state folder.
const AUDIT_FOLDER: &str = "audit";

/// Opens the state folder and the credentials in it; what is missing is made.
pub(super) fn opened(
    settings: &Settings,
    state: Option<&Path>,
) -> Result<(StateDir, Credentials), Fail> {
    let state = state.or(settings.state.as_deref());
    let state = state_dir(state)?;
    // With the first of them: where they are and it is not, a host ran and its record is gone.
    if !state.path().join(CREDENTIALS_FILE).exists() {
        audit_folder(&state)?;
    }
    let credentials = Credentials::open(&state, &settings.token_names()).or_fail(exit::UPSTREAM)?;
    Ok((state, credentials))
}

pub(in crate::cli) fn state_dir(folder: Option<&Path>) -> Result<StateDir, Fail> {
    StateDir::open(folder, &FolderEnv::from_process()).or_fail(exit::UPSTREAM)
}

/// Opens the audit log of the [state folder](state_path) to read it. Makes nothing; none where no
/// host ever ran there, which is an error for a folder that was named.
pub(in crate::cli) fn existing_audit_dir(args: &StateArgs) -> Result<Option<Dir>, Fail> {
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
pub(in crate::cli) fn state_path(args: &StateArgs) -> Result<(PathBuf, bool), Fail> {
    let settings = config(&[], args.config.as_deref())?;
    let state = args.state.as_deref().or(settings.state.as_deref());
    let path = StateDir::locate(state, &FolderEnv::from_process()).or_fail(exit::UPSTREAM)?;
    Ok((path, state.is_some()))
}

/// Opens the folder of the audit log, which is made where it is missing. Where hosts ran before, that it is missing
/// is said.
pub(super) fn audit_folder(state: &StateDir) -> Result<Dir, Fail> {
    let dir = Dir::open_ambient_dir(state.path(), cap_std::ambient_authority());
    let opened = dir.and_then(|dir| {
        // From here on `audit verify` finds a log that holds.
        if dir.exists(CREDENTIALS_FILE) && !dir.exists(AUDIT_FOLDER) {
            let folder = visible::line(&state.path().join(AUDIT_FOLDER).to_string_lossy());
            tracing::warn!(
                "{folder}: a host ran here, and its audit log is gone: a new one begins"
            );
        }
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
pub(in crate::cli) fn existing_signing_key(common: &StateArgs) -> Result<Option<SigningKey>, Fail> {
    let seed = existing_signing_seed(&state_path(common)?.0).or_fail(exit::UPSTREAM)?;
    seed.map(|seed| key_of(&seed)).transpose()
}

fn key_of(seed: &[u8]) -> Result<SigningKey, Fail> {
    SigningKey::from_seed(seed)
        .ok_or_else(|| Fail::new(exit::INTERNAL, "the key of the audit log cannot sign"))
}

/// Opens the pins that hosts on a state folder keep, and the log of what becomes of them.
pub(in crate::cli) fn pins(common: &StateArgs) -> Result<Pins, Fail> {
    let (database, audit) = kept(common)?;
    Ok(Pins::new(database, Some(audit), PinMode::default()))
}

/// As [`pins`], to look at what is there. Makes nothing, no log either.
pub(in crate::cli) fn existing_pins(common: &StateArgs) -> Result<Option<Pins>, Fail> {
    let database = existing_database(common)?;
    Ok(database.map(|database| Pins::new(database, None, PinMode::default())))
}

/// As [`releases`], to look at what was seeded.
pub(in crate::cli) fn seeded(common: &StateArgs) -> Result<Releases, Fail> {
    let settings = config(&[], common.config.as_deref())?;
    if settings.releases.is_none_or(|of| of.postgres.is_none()) {
        require_state(common)?;
    }
    releases(common)
}

/// Opens the versions of the registry that the runtime file means, else those of the state folder.
pub(in crate::cli) fn releases(common: &StateArgs) -> Result<Releases, Fail> {
    let settings = config(&[], common.config.as_deref())?;
    let of = settings.releases.clone().unwrap_or_default();
    let path = state_path(common)?.0;
    let secrets = match of.password {
        Some(_) => opened_secrets(&settings, Some(&path))?,
        None => Secrets::none(),
    };
    registry(&of, || database(&state_dir(Some(&path))?), &secrets)
}

pub(super) fn registry(
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
pub(in crate::cli) fn audit(common: &StateArgs) -> Result<Arc<AuditLog>, Fail> {
    Ok(kept(common)?.1)
}

/// Opens the operator's switches of a state folder, and the log of what becomes of them.
pub(in crate::cli) async fn switches(common: &StateArgs) -> Result<Switches, Fail> {
    let (database, audit) = kept(common)?;
    Switches::open(database, audit).await.or_fail(exit::UPSTREAM)
}

fn kept(common: &StateArgs) -> Result<(Database, Arc<AuditLog>), Fail> {
    let state = state_dir(Some(&state_path(common)?.0))?;
    let audit = audit_log(&state)?;
    Ok((database(&state)?, Arc::new(audit)))
}

/// Opens the quarantine that hosts on a state folder share, and the log of what becomes of it.
pub(in crate::cli) async fn quarantine(common: &StateArgs) -> Result<Quarantine, Fail> {
    let (database, audit) = kept(common)?;
    Quarantine::open(database, audit, Clock::system()).await.or_fail(exit::UPSTREAM)
}

/// Opens the store of the [state folder](state_path), if there is one. Makes nothing.
pub(in crate::cli) fn existing_database(common: &StateArgs) -> Result<Option<Database>, Fail> {
    let path = state_path(common)?.0.join(DATABASE_FILE);
    let is_there = path.try_exists().or_fail_at(exit::UPSTREAM, &path)?;
    is_there.then(|| database_at(&path)).transpose()
}

/// Returns what `look` finds in the store: whoever only looks begins no log. Without a store, there is nothing.
pub(in crate::cli) async fn look_into<T: Default, E: std::fmt::Display>(
    common: &StateArgs,
    look: impl AsyncFnOnce(&Database) -> Result<T, E>,
) -> Result<T, Fail> {
    match existing_database(common)? {
        Some(database) => look(&database).await.or_fail(exit::UPSTREAM),
        None => Ok(T::default()),
    }
}

/// Refuses a state folder that was named and is not there: a misspelt one is no host with nothing to tell.
pub(in crate::cli) fn require_state(common: &StateArgs) -> Result<(), Fail> {
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

pub(super) fn database(state: &StateDir) -> Result<Database, Fail> {
    database_at(&state.path().join(DATABASE_FILE))
}

fn database_at(path: &Path) -> Result<Database, Fail> {
    Database::open(path, MIGRATIONS).or_fail_at(exit::UPSTREAM, path)
}

/// Returns the log of a look, which leaves nothing, as a log is of what happened. Once it is open its folder needs no
/// name, and a look that is killed leaves none. It begins where a host's does: where that cannot be, a look says so.
pub(super) fn nobodys_log(state: &StateDir) -> Result<AuditLog, Fail> {
    let log = tempfile::tempdir_in(state.path().join(AUDIT_FOLDER)).and_then(|folder| {
        let dir = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority())?;
        AuditLog::open(&dir, audit::Terms::default())
    });
    log.map_err(|error| format!("the audit log cannot be opened: {error}")).or_fail(exit::UPSTREAM)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;
    use crate::audit::Event;

    #[test]
    fn that_the_log_of_earlier_hosts_is_gone_is_said_where_a_new_one_begins() {
        let root = tempfile::tempdir().unwrap();
        let mut shown = tempfile::tempfile().unwrap();
        let writer = Arc::new(shown.try_clone().unwrap());
        let subscriber = tracing_subscriber::fmt().with_writer(writer).with_ansi(false).finish();
        let begin = || {
            let (state, _) = opened(&Settings::default(), Some(root.path())).unwrap();
            audit_folder(&state).unwrap();
        };
        tracing::subscriber::with_default(subscriber, || {
            (0..2).for_each(|_| begin());
            std::fs::remove_dir(root.path().join(AUDIT_FOLDER)).unwrap();
            (0..2).for_each(|_| begin());
        });
        let mut text = String::new();
        shown.rewind().unwrap();
        shown.read_to_string(&mut text).unwrap();
        assert_eq!(text.matches("its audit log is gone: a new one begins").count(), 1, "{text}");
    }

    #[test]
    fn the_log_of_a_look_lies_nowhere_and_begins_only_where_a_host_s_could() {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::open(Some(root.path()), &FolderEnv::default()).unwrap();
        assert!(nobodys_log(&state).is_err());
        let folder = audit_folder(&state).unwrap();
        let log = nobodys_log(&state).unwrap();
        log.note(Event::Reloaded, []).unwrap();
        assert_eq!(folder.entries().unwrap().count(), 0);
    }
}
