//! Secrets by name: looked up when they are needed, and never shown.
//!
//! A name is looked for in this order: the operator's store, the environment, the folder that
//! `CLAW_SECRETS_DIR` names. Whoever needs a secret that is nowhere fails; nothing stands in for
//! it. Every value that was ever handed out is known to the [`Redactor`], which takes it out of
//! what leaves the host. Only where they are more than [`SECRETS_BYTES_MAX`] together is the oldest
//! forgotten that is neither a name's value nor the one before that.
//!
//! In the environment a name is looked for as it is, then in upper snake case: `openai-key` is
//! `OPENAI_KEY` there. In the folder it is a file of that very name.
//!
//! Deliberately absent: reading the process's environment (the environment is an argument), and
//! any decision on who may have a secret.

mod folder;
mod secret;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use clawhost_core::grants::{is_secret_name, is_variable_name};
use clawhost_core::limits::{SECRET_NAME_BYTES_MAX, SECRETS_BYTES_MAX};
use clawhost_core::redact::Redactor;
use clawhost_core::screen::Tokens;
use clawhost_core::truncate;
use parking_lot::Mutex;

pub use self::secret::Secret;
use crate::state::{PrivateFileError, SecretStore};

/// Looks up a variable of an environment.
pub type Environment = dyn Fn(&str) -> Option<OsString> + Send + Sync;

/// Where secrets come from. Whatever is not given is not looked at.
#[derive(Default)]
pub struct SecretSources {
    /// The operator's store.
    pub store: Option<SecretStore>,
    /// The environment.
    pub environment: Option<Box<Environment>>,
    /// A folder with a file for each secret.
    pub folder: Option<PathBuf>,
    /// What is written in the place of what screens find, which may be secrets nobody looks up.
    pub tokens: Tokens,
}

clawhost_core::shows!(SecretSources { store, folder });

/// Why a secret cannot be had. Names a secret, never a value.
#[derive(Debug, thiserror::Error)]
#[error("the secret {name:?} {why}")]
pub struct SecretError {
    /// The secret.
    pub name: String,
    /// Why not.
    pub why: NoSecret,
}

/// What keeps a secret from being had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoSecret {
    /// The place it is in cannot be read.
    #[error("cannot be read: {0}")]
    Io(#[from] io::Error),
    /// No source has it; then, where there is a store, how to put it there.
    #[error("is in no store, environment variable or secrets folder{0}")]
    Missing(String),
    /// The store cannot be used.
    #[error("cannot be looked up: the secret store {0}")]
    Store(#[from] PrivateFileError),
    /// All the values together are more than can be kept out of replies and logs.
    #[error("would be one more than this host can keep from showing")]
    TooMany,
    /// What was found can be no secret.
    #[error("is not usable: {0}")]
    Unusable(&'static str),
}

impl SecretError {
    /// Returns the error of the secret `name`, of which a document can make anything.
    pub(crate) fn new(name: &str, why: NoSecret) -> Self {
        Self { name: truncate::text(name, SECRET_NAME_BYTES_MAX).to_owned(), why }
    }
}

/// The secrets of one host. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Secrets(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    sources: SecretSources,
    known: Mutex<Vec<Known>>,
    redactor: ArcSwap<Redactor>,
}

/// A name and a value that was handed out for it, the latest last: what was handed out before a
/// change may still be on its way.
type Known = (String, Secret);

impl Secrets {
    /// Returns the secrets that `sources` have.
    pub fn new(sources: SecretSources) -> Self {
        let redactor = ArcSwap::from_pointee(Redactor::default());
        Self(Arc::new(Inner { sources, known: Mutex::default(), redactor }))
    }

    /// Returns none: every look-up fails.
    pub fn none() -> Self {
        Self::new(SecretSources::default())
    }

    /// Returns those of an environment alone, whose variables `look_up` looks up.
    pub fn of_environment(
        look_up: impl Fn(&str) -> Option<OsString> + Send + Sync + 'static,
    ) -> Self {
        let environment: Option<Box<Environment>> = Some(Box::new(look_up));
        Self::new(SecretSources { environment, ..SecretSources::default() })
    }

    /// Looks the secret `name` up, anew each time: one that was changed is the new one.
    ///
    /// Reads a small file or two, so it does not belong on a path that must not wait for a disk.
    ///
    /// # Errors
    /// [`SecretError`]. A source that cannot be read ends the search: what comes after it might
    /// be an older value.
    pub fn resolve(&self, name: &str) -> Result<Secret, SecretError> {
        let found = self.look_up(name).and_then(|secret| {
            self.remember(&[(name.to_owned(), secret.clone())])?;
            Ok(secret)
        });
        found.map_err(|why| SecretError::new(name, why))
    }

    /// As [`Secrets::resolve`], off the threads that serve.
    pub(crate) async fn find(&self, name: &str) -> Result<Secret, SecretError> {
        let (secrets, wanted) = (self.clone(), name.to_owned());
        let looking = tokio::task::spawn_blocking(move || secrets.resolve(&wanted)).await;
        looking.unwrap_or_else(|ended| Err(SecretError::new(name, NoSecret::Io(ended.into()))))
    }

    /// Looks these secrets up for the redactor's sake, before anybody needs them, and logs which
    /// are missing.
    pub fn learn<'n>(&self, names: impl IntoIterator<Item = &'n str>) {
        for name in names {
            if let Err(error) = self.resolve(name) {
                tracing::warn!("{error}.");
            }
        }
    }

    /// As [`learn`](Self::learn), of secrets that may never be needed: whoever needs one hears that it is missing.
    pub fn learn_any<'n>(&self, names: impl IntoIterator<Item = &'n str>) {
        names.into_iter().for_each(|name| drop(self.resolve(name)));
    }

    /// Lets the redactor know a value that nobody looks up: a credential of the host's own. `name`
    /// is no secret's.
    ///
    /// # Errors
    /// All values together are more than can be kept from showing.
    pub fn hide(&self, name: &str, value: &str) -> Result<(), SecretError> {
        self.hide_all(&[(name.to_owned(), Secret::from(value.to_owned()))])
    }

    /// As [`hide`](Self::hide), of several values: what searches for them is made once.
    ///
    /// # Errors
    /// As [`hide`](Self::hide).
    pub(crate) fn hide_all(&self, all: &[Known]) -> Result<(), SecretError> {
        let name = all.last().map_or("", |(name, _)| name);
        self.remember(all).map_err(|why| SecretError::new(name, why))
    }

    /// Returns the operator's store, for what is kept there without being looked up.
    pub(crate) fn store(&self) -> Option<&SecretStore> {
        self.0.sources.store.as_ref()
    }

    /// Returns the folders that secrets are kept in, which nobody is granted.
    pub fn folders(&self) -> impl Iterator<Item = &Path> {
        let SecretSources { store, folder, .. } = &self.0.sources;
        store.iter().map(SecretStore::folder).chain(folder.as_deref())
    }

    /// Returns what is written in the place of what screens find.
    pub fn tokens(&self) -> &Tokens {
        &self.0.sources.tokens
    }

    /// Returns what takes every value that was handed out so far out of a text.
    pub fn redactor(&self) -> Arc<Redactor> {
        self.0.redactor.load_full()
    }

    /// Returns `text` without these values, cut to `bytes_max`: in that order, as nothing recognises a part of one.
    pub fn short(&self, text: &str, bytes_max: usize) -> String {
        self.redactor().short(text, bytes_max)
    }

    /// Returns the values that were handed out for `name` and are still known, the latest last.
    pub fn known(&self, name: &str) -> Vec<Secret> {
        let known = self.0.known.lock();
        known.iter().filter(|(other, _)| other == name).map(|(_, value)| value.clone()).collect()
    }

    fn look_up(&self, name: &str) -> Result<Secret, NoSecret> {
        let found = match self.in_store(name)? {
            Some(secret) => Some(secret),
            None => match self.in_environment(name)? {
                Some(secret) => Some(secret),
                None => self.in_folder(name)?,
            },
        };
        found.ok_or_else(|| self.missing(name))?.checked().map_err(NoSecret::Unusable)
    }

    fn missing(&self, name: &str) -> NoSecret {
        let store = self.0.sources.store.as_ref().filter(|_| is_secret_name(name));
        let how = store.map(|store| {
            format!("; set it with: clawhost secrets set {name} --state {:?}", store.folder())
        });
        NoSecret::Missing(how.unwrap_or_default())
    }

    fn in_store(&self, name: &str) -> Result<Option<Secret>, NoSecret> {
        let Some(store) = &self.0.sources.store else {
            return Ok(None);
        };
        Ok(store.get(name)?.map(Secret::from))
    }

    fn in_environment(&self, name: &str) -> Result<Option<Secret>, NoSecret> {
        let Some(environment) = &self.0.sources.environment else {
            return Ok(None);
        };
        let snake = snake_case(name);
        let value = [name, &snake]
            .into_iter()
            .filter(|variable| is_variable_name(variable))
            .find_map(|variable| environment(variable).filter(|value| !value.is_empty()));
        let value = value.map(OsString::into_string).transpose();
        Ok(value.map_err(|_| NoSecret::Unusable(secret::NO_TEXT))?.map(Secret::from))
    }

    fn in_folder(&self, name: &str) -> Result<Option<Secret>, NoSecret> {
        match &self.0.sources.folder {
            Some(folder) if is_secret_name(name) => folder::read(folder, name),
            _ => Ok(None),
        }
    }

    /// Lets the redactor know the secrets `new` before anybody has them.
    fn remember(&self, new: &[Known]) -> Result<(), NoSecret> {
        let mut known = self.0.known.lock();
        let mut all = known.clone();
        for one in new {
            let latest = all.iter().rev().find(|(name, _)| *name == one.0);
            if latest.is_none_or(|latest| latest != one) {
                all.retain(|other| other != one);
                all.push(one.clone());
            }
        }
        if all == *known {
            return Ok(());
        }
        let redactor = redactor_of(&mut all).ok_or(NoSecret::TooMany)?;
        *known = all;
        self.0.redactor.store(Arc::new(redactor));
        Ok(())
    }
}

/// Returns a redactor of all values, the oldest earlier ones forgotten where they are too many;
/// none where what is left is still too many.
fn redactor_of(known: &mut Vec<Known>) -> Option<Redactor> {
    while known.iter().map(|(_, value)| value.expose().len()).sum::<usize>() > SECRETS_BYTES_MAX {
        known.remove(oldest_replaced(known)?);
    }
    let values = known.iter().map(|(name, value)| (name.as_str(), value.expose().as_bytes()));
    Redactor::new(values).ok()
}

/// Returns where the first value stands that its name has had two others since.
fn oldest_replaced(known: &[Known]) -> Option<usize> {
    let is_old = |(index, (name, _)): (usize, &Known)| {
        known.iter().skip(index + 1).filter(|(other, _)| other == name).count() >= 2
    };
    known.iter().enumerate().position(is_old)
}

fn snake_case(name: &str) -> String {
    let snake = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    name.chars().map(snake).collect()
}
