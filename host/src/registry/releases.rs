//! The versions of the registry: what was seeded, which of them hosts serve, and whether each still is
//! what it was.
//!
//! A version is whole or not there, and never changes: nothing here could say so, the tables refuse it,
//! and whatever is read is held against its hash, so that what somebody edited all the same is an error
//! and nothing runs of it. Deliberately absent: what grants a tool anything, which is for manifests.

mod follow;
mod postgres;
mod seed;
mod store;

use std::collections::BTreeSet;
use std::sync::Arc;

use clawhost_core::digest;
use clawhost_core::limits::{
    COMPONENT_BYTES_MAX, DROP_IN_RESCAN_MS, RELEASE_BYTES_MAX, RELEASE_RETRY_MS,
};
use clawhost_core::release::Release;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use self::follow::Verified;
pub(super) use self::follow::{Follower, Served};
use self::postgres::Postgres;
pub use self::seed::{Seed, gather};
pub use self::store::MIGRATIONS;
use self::store::{Cell, Row, Store};
use crate::clock;
use crate::engine::{LoadError, Source};
use crate::state::Database;
use crate::upstream::http::TrustedRoots;

const COMPONENT: &str = "INSERT INTO registry_components (digest, bytes) SELECT $1, $2 \
     WHERE NOT EXISTS (SELECT 1 FROM registry_components WHERE digest = $1)";
const SEED: &str = "INSERT INTO tool_registries \
     (name, version, hash, definition_json, created_at, created_by, supersedes) \
     SELECT CAST($1 AS TEXT), coalesce(max(version), 0) + 1, CAST($2 AS TEXT), CAST($3 AS TEXT), \
     CAST($4 AS BIGINT), CAST($5 AS TEXT), max(version) FROM tool_registries WHERE name = $1 \
     HAVING count(CASE WHEN hash = $2 THEN 1 END) = 0 RETURNING version";
const BY_HASH: &str = "SELECT version FROM tool_registries WHERE name = $1 AND hash = $2";
const NUMBERS: &str = "SELECT version FROM tool_registries WHERE name = $1 ORDER BY version";
/// What is over its bound is not read at all.
const VERSION: &str = "SELECT version, hash, \
     CASE WHEN octet_length(definition_json) <= CAST($1 AS BIGINT) THEN definition_json END, \
     created_at, created_by, supersedes FROM tool_registries WHERE name = $2 AND version = $3";
const BYTES: &str = "SELECT CASE WHEN octet_length(bytes) <= CAST($1 AS BIGINT) THEN bytes END \
     FROM registry_components WHERE digest = $2";
const DIGESTS: &str = "SELECT digest FROM registry_components ORDER BY digest";
const PINNED: &str = "SELECT version, hash FROM registry_pins WHERE name = $1";
const PIN: &str = "INSERT INTO registry_pins (name, version, hash, pinned_at, pinned_by) \
     SELECT name, version, hash, CAST($1 AS BIGINT), CAST($2 AS TEXT) FROM tool_registries \
     WHERE name = $3 AND version = $4 AND hash = $5 ON CONFLICT (name) DO UPDATE SET \
     version = excluded.version, hash = excluded.hash, pinned_at = excluded.pinned_at, \
     pinned_by = excluded.pinned_by RETURNING version";

/// One registry in its store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Releases {
    store: Store,
    name: Arc<str>,
    /// The version that was in service last: it goes on where the store cannot be asked.
    verified: Arc<Mutex<Option<Arc<Verified>>>>,
}

/// Why a version cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReleaseError {
    /// It is not what was seeded.
    #[error("version {version} of the registry is not what was seeded: {reason}")]
    Broken {
        /// Which version.
        version: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The store cannot be asked.
    #[error("the registry cannot be used: {0}")]
    Store(String),
    /// Nobody seeded it.
    #[error("there is no version {0} of the registry")]
    Unknown(u64),
}

/// A version as it was seeded.
#[derive(Debug, Clone, PartialEq)]
pub struct Version {
    /// Its number, from 1.
    pub number: u64,
    /// `sha256:…` of its definitions.
    pub hash: String,
    /// What it holds.
    pub release: Release,
    /// When it was seeded, in milliseconds since 1970, UTC.
    pub created_at_ms: i64,
    /// Who seeded it.
    pub created_by: String,
    /// The newest version before it.
    pub supersedes: Option<u64>,
}

/// A version by number and hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// Its number.
    pub version: u64,
    /// Its hash.
    pub hash: String,
}

impl Releases {
    /// Returns the registry `name` of a store that has [`MIGRATIONS`].
    pub fn embedded(database: Database, name: &str) -> Self {
        Self { store: Store::Embedded(database), name: name.into(), verified: Arc::default() }
    }

    /// Returns the registry `name` of a PostgreSQL, which proves its name to `roots`. Nothing is connected to
    /// yet.
    ///
    /// # Errors
    /// [`ReleaseError::Store`]: the URL cannot be read. No error says what is in it.
    pub fn postgres(
        url: &str,
        password: Option<&str>,
        roots: &TrustedRoots,
        name: &str,
    ) -> Result<Self, ReleaseError> {
        let postgres = Postgres::new(url, password, roots).map_err(ReleaseError::Store)?;
        let store = Store::Postgres(Arc::new(postgres));
        Ok(Self { store, name: name.into(), verified: Arc::default() })
    }

    /// Keeps a version with its `components`, all of it or nothing; says which it is, and whether it was
    /// not there before.
    ///
    /// # Errors
    /// [`ReleaseError`]: the store cannot be asked, or some of it was there and is another thing now.
    pub async fn seed(
        &self,
        release: &Release,
        components: Vec<Vec<u8>>,
        by: &str,
    ) -> Result<(Pin, bool), ReleaseError> {
        let (text, hash) = (release.canonical(), release.hash());
        // What could not be read again would stay for ever.
        Release::read(&text, &hash).map_err(ReleaseError::Store)?;
        let component = |bytes: Vec<u8>| {
            (COMPONENT, vec![Cell::Text(digest::of_bytes(&bytes)), Cell::Bytes(bytes)])
        };
        let mut all: Vec<_> = components.into_iter().map(component).collect();
        let own = || vec![self.own(), Cell::Text(hash.clone())];
        let rest = [Cell::Text(text), Cell::Int(clock::now_ms()), Cell::Text(by.to_owned())];
        all.push((SEED, own().into_iter().chain(rest).collect()));
        all.push((BY_HASH, own()));
        let answers = self.store.run(all).await.map_err(ReleaseError::Store)?;
        let mut answers = answers.iter().rev();
        let (found, made) = (answers.next(), answers.next());
        let version = found.and_then(|rows| rows.first()).and_then(|row| row.first());
        let gone = || ReleaseError::Store("what was seeded is not there".to_owned());
        let is_new = made.is_some_and(|rows| !rows.is_empty());
        let version = number(version.ok_or_else(gone)?)?;
        // What was there already may have been edited.
        self.whole(version).await?;
        Ok((Pin { version, hash }, is_new))
    }

    /// Returns the numbers of all versions.
    ///
    /// # Errors
    /// [`ReleaseError`]: the store cannot be asked, or one of them is none.
    pub async fn numbers(&self) -> Result<Vec<u64>, ReleaseError> {
        let rows = self.ask(NUMBERS, vec![self.own()]).await?;
        rows.iter().flatten().map(number).collect()
    }

    /// Returns a version, which is what was seeded.
    ///
    /// # Errors
    /// [`ReleaseError`].
    pub async fn get(&self, version: u64) -> Result<Version, ReleaseError> {
        let rows = self
            .ask(VERSION, vec![cell(RELEASE_BYTES_MAX as u64), self.own(), cell(version)])
            .await?;
        let row = rows.into_iter().next().ok_or(ReleaseError::Unknown(version))?;
        Version::read(version, row).map_err(|reason| ReleaseError::Broken { version, reason })
    }

    /// As [`Releases::get`], after its components were looked at too.
    async fn whole(&self, version: u64) -> Result<Version, ReleaseError> {
        let found = self.get(version).await?;
        for digest in found.release.components() {
            let component = self.component(digest).await?;
            component.map_err(|reason| ReleaseError::Broken { version, reason })?;
        }
        Ok(found)
    }

    /// Returns the component of a digest, which is what was seeded.
    ///
    /// # Errors
    /// [`ReleaseError::Store`], or why it is not what was seeded.
    pub async fn component(&self, digest: &str) -> Result<Result<Vec<u8>, String>, ReleaseError> {
        let rows =
            self.ask(BYTES, vec![cell(COMPONENT_BYTES_MAX), Cell::Text(digest.to_owned())]).await?;
        Ok(match rows.into_iter().next().and_then(|mut row| row.pop()) {
            Some(Cell::Bytes(bytes)) if digest::of_bytes(&bytes) == digest => Ok(bytes),
            Some(_) => Err(format!("the component {digest} has another digest")),
            None => Err(format!("the component {digest} is gone")),
        })
    }

    /// Returns the component of a digest, to be read where it has to be compiled.
    fn source(&self, digest: &str) -> Source {
        // Not with what was verified, which has what comes of this.
        let releases = Self { verified: Arc::default(), ..self.clone() };
        let (runtime, wanted) = (Handle::current(), digest.to_owned());
        let read = move || match runtime.block_on(releases.component(&wanted)) {
            Ok(found) => Ok(found?.into()),
            Err(error) => Err(LoadError::Passing(error.to_string())),
        };
        Source::new(read).known(digest)
    }

    /// Returns the version that hosts serve.
    ///
    /// # Errors
    /// [`ReleaseError`]: the store cannot be asked, or what is pinned is no version.
    pub async fn pinned(&self) -> Result<Option<Pin>, ReleaseError> {
        let rows = self.ask(PINNED, vec![self.own()]).await?;
        let pin = rows.into_iter().next().map(|row| match <[Cell; 2]>::try_from(row) {
            Ok([version, Cell::Text(hash)]) => Ok(Pin { version: number(&version)?, hash }),
            _ => Err(no_number("in another form")),
        });
        pin.transpose()
    }

    /// Returns the embedded store, whose version shows that somebody else has written to it.
    pub(crate) fn database(&self) -> Option<&Database> {
        match &self.store {
            Store::Embedded(database) => Some(database),
            Store::Postgres(_) => None,
        }
    }

    /// Returns how often to ask for the pin beside the times when the embedded store shows it.
    fn asked_each_ms(&self) -> u64 {
        match self.store {
            Store::Embedded(_) => RELEASE_RETRY_MS,
            Store::Postgres(_) => DROP_IN_RESCAN_MS,
        }
    }

    /// Lets hosts serve a version, after every byte of it was looked at.
    ///
    /// # Errors
    /// [`ReleaseError`].
    pub async fn pin(&self, version: u64, by: &str) -> Result<Pin, ReleaseError> {
        let found = self.whole(version).await?;
        let when = [Cell::Int(clock::now_ms()), Cell::Text(by.to_owned())];
        let which = [self.own(), cell(version), Cell::Text(found.hash.clone())];
        let rows = self.ask(PIN, when.into_iter().chain(which).collect()).await?;
        let pin = Pin { version, hash: found.hash };
        rows.first().map(|_| pin).ok_or(ReleaseError::Unknown(version))
    }

    /// Looks at every byte of every version, and returns whatever gives doubt.
    ///
    /// # Errors
    /// [`ReleaseError::Store`].
    pub async fn verify(&self) -> Result<Vec<String>, ReleaseError> {
        let (mut doubts, mut needed) = (Vec::new(), BTreeSet::new());
        let (mut hashes, mut expected) = (Vec::new(), 1);
        for version in self.numbers().await? {
            if version != expected {
                doubts.push(format!("version {expected} of the registry is gone"));
            }
            expected = version.saturating_add(1);
            match self.get(version).await {
                Ok(found) => {
                    needed.extend(found.release.components().into_iter().map(str::to_owned));
                    let said = found.release.definitions().err();
                    doubts.extend(said.map(|why| format!("version {version}: {why}")));
                    hashes.push(Pin { version, hash: found.hash });
                }
                Err(error @ ReleaseError::Store(_)) => return Err(error),
                Err(error) => doubts.push(error.to_string()),
            }
        }
        let kept = self.ask(DIGESTS, Vec::new()).await?;
        needed.extend(kept.into_iter().filter_map(|mut row| text(row.pop())));
        for digest in &needed {
            doubts.extend(self.component(digest).await?.err());
        }
        match self.pinned().await {
            Ok(Some(pin)) if !hashes.contains(&pin) => {
                let Pin { version, hash } = pin;
                let doubt = "is pinned with the hash";
                doubts.push(format!("version {version} {doubt} {hash}, and is no such"));
            }
            Ok(_) => {}
            Err(error @ ReleaseError::Store(_)) => return Err(error),
            Err(error) => doubts.push(error.to_string()),
        }
        Ok(doubts)
    }

    async fn ask(&self, sql: &'static str, cells: Vec<Cell>) -> Result<Vec<Row>, ReleaseError> {
        self.store.one(sql, cells).await.map_err(ReleaseError::Store)
    }

    fn own(&self) -> Cell {
        Cell::Text(self.name.to_string())
    }
}

impl Version {
    fn read(number: u64, row: Row) -> Result<Self, String> {
        let (hash, text, created_at_ms, by, before) = match <[Cell; 6]>::try_from(row) {
            Ok([_, Cell::Text(hash), Cell::Text(text), Cell::Int(at_ms), by, before]) => {
                (hash, text, at_ms, by, before)
            }
            Ok([_, _, Cell::Null, ..]) => {
                return Err(format!("its definitions are over {RELEASE_BYTES_MAX} bytes"));
            }
            _ => return Err("its row has another form".to_owned()),
        };
        let supersedes = self::number(&before).ok();
        let is_read = supersedes.is_some() || before == Cell::Null;
        if !is_read || supersedes.unwrap_or(0).checked_add(1) != Some(number) {
            return Err("it supersedes another version than the one before it".to_owned());
        }
        let release = Release::read(&text, &hash)?;
        let created_by = self::text(Some(by)).unwrap_or_default();
        Ok(Self { number, hash, release, created_at_ms, created_by, supersedes })
    }
}

/// Reads the number of a version.
fn number(cell: &Cell) -> Result<u64, ReleaseError> {
    match cell {
        Cell::Int(number) => u64::try_from(*number).map_err(|_| no_number(number)),
        _ => Err(no_number("in another form")),
    }
}

fn no_number(found: impl std::fmt::Display) -> ReleaseError {
    let reason = format!("the number of a version, or what is pinned, is {found}");
    ReleaseError::Broken { version: 0, reason }
}

fn text(cell: Option<Cell>) -> Option<String> {
    match cell {
        Some(Cell::Text(text)) => Some(text),
        _ => None,
    }
}

/// More than a column can hold is no version.
fn cell(version: u64) -> Cell {
    Cell::Int(i64::try_from(version).unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests;
