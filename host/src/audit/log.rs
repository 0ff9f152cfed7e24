//! Writing one chain: an append-only file, and its head stored beside it.

use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::Duration;

use cap_std::fs::{Dir, File, OpenOptions, OpenOptionsExt as _};
use clawhost_core::digest;
use parking_lot::Mutex;
use serde_json::{Map, Value};
use tokio::sync::watch;

use super::copies::{Copies, Copy};
use super::key::{PublicKey, SigningKey};
use super::record::{self, CHAIN_START, Event};
use super::retention::{self, Pruning};
use super::room::Room;
use super::sign::{SIGNATURES_SUFFIX, Signer};
use crate::clock::now_ms;
use crate::regular;
use crate::secrets::Secrets;

/// Ending of a chain's file.
pub(super) const LOG_SUFFIX: &str = ".jsonl";
/// Name of the file that names the newest chain.
pub(super) const NEWEST: &str = "newest";
/// Ending of the file that holds its count and last hash.
pub(super) const HEAD_SUFFIX: &str = ".head";

/// The fact of a chain's first record that names the key that signs it.
pub(super) const SIGNED_WITH: &str = "signed_with";

/// Chains one process may open in one millisecond.
const CHAINS_PER_MS_MAX: u32 = 1_000;

/// The log of this process: one chain, linked to the head of the newest one before it.
#[derive(Debug)]
pub struct AuditLog {
    chain: Mutex<Chain>,
    /// What may not be in a record.
    secrets: Secrets,
    copies: Copies,
    pub(super) dir: Dir,
    pub(super) name: String,
    /// What its signatures are checked with.
    pub(super) key: Option<PublicKey>,
    /// Bytes of whole lines, for who looks at the chain as it grows.
    pub(super) grown: watch::Sender<u64>,
}

#[derive(Debug)]
struct Chain {
    log: File,
    head: std::fs::File,
    /// Bytes of whole lines.
    len: u64,
    room: Room,
    records: u64,
    last_hash: String,
    /// A failed write could not be undone; nothing may follow it.
    broken: bool,
    signer: Option<Arc<Signer>>,
}

/// What a log does beside keeping its records.
#[derive(Debug, Default)]
pub struct Terms {
    /// Removes whole chains of which every record is older.
    pub retention: Option<Duration>,
    /// Get each record too.
    pub(crate) copies: Vec<Copy>,
    /// Signs the records.
    pub key: Option<SigningKey>,
}

impl AuditLog {
    /// Starts a new chain in `dir`, which is made private to the user by its owner, and keeps all
    /// that is there but for what `terms` remove.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn open(dir: &Dir, terms: Terms) -> std::io::Result<Self> {
        let previous = newest_head(dir)?;
        let old = match terms.retention {
            Some(keep) => retention::plan(dir, keep, now_ms())?,
            None => Pruning::default(),
        };
        let (name, log) = create_log(dir)?;
        let begun = Self::begin(dir, &name, log, (previous, &old), terms).inspect_err(|_| {
            // A chain without its first record would read as a broken one.
            remove(dir, &name, drop);
        })?;
        // Only now that the new chain says so: a kill in between leaves what nobody misses.
        old.carry_out(dir);
        Ok(begun)
    }

    fn begin(
        dir: &Dir,
        name: &str,
        log: File,
        (previous, old): (Value, &Pruning),
        terms: Terms,
    ) -> std::io::Result<Self> {
        let Terms { copies, key, .. } = terms;
        let public = key.as_ref().map(SigningKey::public);
        let sign = |key| {
            Signer::start(name, create(dir, &format!("{name}{SIGNATURES_SUFFIX}"), true)?, key)
        };
        let chain = Chain {
            log,
            head: create(dir, &format!("{name}{HEAD_SUFFIX}"), false)?.into_std(),
            len: 0,
            room: Room::default(),
            records: 0,
            last_hash: CHAIN_START.to_owned(),
            broken: false,
            signer: key.map(sign).transpose()?.map(Arc::new),
        };
        // Held as long as the chain grows: nobody takes it for an old one.
        chain.head.try_lock()?;
        let (chain, copies) = (Mutex::new(chain), Copies::new(copies));
        let log = Self {
            chain,
            secrets: Secrets::none(),
            copies,
            dir: dir.try_clone()?,
            name: name.to_owned(),
            key: public,
            grown: watch::Sender::new(0),
        };
        let mut facts = old.facts();
        facts.insert("host".to_owned(), env!("CARGO_PKG_VERSION").into());
        facts.insert("previous_chain".to_owned(), previous);
        facts.insert("chain".to_owned(), name.into());
        facts.extend(public.map(|key| (SIGNED_WITH.to_owned(), key.to_string().into())));
        log.append(Event::ChainOpened, facts)?;
        // So that deleting it whole shows.
        regular::replace_in(dir, NEWEST, name.as_bytes())?;
        Ok(log)
    }

    /// Keeps the values of `secrets` out of every later record.
    #[must_use]
    pub fn without(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Appends one record; it has reached the kernel when this returns, so that it outlives
    /// the process.
    ///
    /// # Errors
    /// The disk refuses. The caller must then refuse the call: no record, no execution.
    pub fn append(&self, event: Event, facts: Map<String, Value>) -> std::io::Result<()> {
        self.append_one(event, self.redacted(facts))?;
        self.note_gaps(self.copies.gaps())
    }

    /// Appends a record of something other than a call, with its facts by name; otherwise as
    /// [`AuditLog::append`].
    ///
    /// # Errors
    /// The disk refuses.
    pub fn note<'f>(
        &self,
        event: Event,
        facts: impl IntoIterator<Item = (&'f str, &'f str)>,
    ) -> std::io::Result<()> {
        let facts = facts.into_iter().map(|(key, fact)| (key.to_owned(), fact.into()));
        self.append(event, facts.collect())
    }

    /// Waits until what was appended so far is signed and the copies have it, `patience` at the longest.
    /// The chain itself waits for nothing.
    pub async fn flush(&self, patience: Duration) {
        let signer = self.chain.lock().signer.clone();
        let signed = async {
            if let Some(signer) = signer {
                signer.flush(patience).await;
            }
        };
        tokio::join!(signed, self.copies.flush(patience));
    }

    /// Says in the chain how many records are missing in copies.
    fn note_gaps(&self, gaps: Vec<(&'static str, u64)>) -> std::io::Result<()> {
        for (copy, missing) in gaps {
            let mut facts = Map::new();
            facts.insert("copy".to_owned(), copy.into());
            facts.insert("missing".to_owned(), missing.into());
            self.append_one(Event::CopyIncomplete, facts)?;
        }
        Ok(())
    }

    fn append_one(&self, event: Event, facts: Map<String, Value>) -> std::io::Result<()> {
        let chain = &mut *self.chain.lock();
        let mut line = record::line(chain.records, now_ms(), event, facts, &chain.last_hash);
        let hash = digest::of_bytes(line.as_bytes());
        line.push('\n');
        if chain.broken {
            return Err(std::io::Error::other(
                "the log ends in half a line that cannot be taken back",
            ));
        }
        chain.room.keep(&chain.log, chain.len, event, line.len() as u64)?;
        // One write a line: a reader never sees half of one.
        if let Err(error) = chain.log.write_all(line.as_bytes()) {
            // Half a line (a full disk) would read as tampering: take it back.
            chain.broken = chain.log.set_len(chain.len).is_err();
            chain.room.lose();
            return Err(error);
        }
        chain.room.count(event);
        chain.len += line.len() as u64;
        chain.records += 1;
        if let Some(signer) = &chain.signer {
            signer.take(hash.clone());
        }
        chain.last_hash = hash;
        chain.write_head()?;
        // Under the lock, so that a copy has them in the same order.
        self.copies.take(&line);
        self.grown.send_replace(chain.len);
        Ok(())
    }

    fn redacted(&self, facts: Map<String, Value>) -> Map<String, Value> {
        let redactor = self.secrets.redactor();
        if redactor.is_empty() {
            return facts;
        }
        match redactor.json(Value::Object(facts)) {
            Value::Object(facts) => facts,
            other => Map::from_iter([("record".to_owned(), other)]),
        }
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        if let Err(error) = self.note_gaps(self.copies.all_gaps()) {
            tracing::error!("what is missing in a copy of the audit log is not recorded: {error}");
        }
    }
}

impl Drop for Chain {
    fn drop(&mut self) {
        // Gives back the room that nothing will need.
        if let Err(error) = self.log.set_len(self.len) {
            tracing::warn!("the end of the audit log cannot be tidied: {error}");
        }
    }
}

impl Chain {
    /// Stores count and hash after the record, so that a dropped last line shows.
    fn write_head(&self) -> std::io::Result<()> {
        let text = format!("{:020} {}\n", self.records, self.last_hash);
        // In place and of fixed size: one system call, never torn by a kill.
        self.head.write_all_at(text.as_bytes(), 0)
    }
}

/// Names the chain by time and process, and by a number where one process opens several.
fn create_log(dir: &Dir) -> std::io::Result<(String, File)> {
    let stem = format!("{:013}-{}", now_ms(), std::process::id());
    for number in 0..CHAINS_PER_MS_MAX {
        let name = format!("{stem}-{number}");
        match create(dir, &format!("{name}{LOG_SUFFIX}"), true) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            created => return Ok((name, created?)),
        }
    }
    Err(std::io::ErrorKind::AlreadyExists.into())
}

/// Removes the files of a chain, the log first, as far as they are there.
pub(super) fn remove(dir: &Dir, chain: &str, failed: impl Fn(std::io::Error)) {
    for suffix in [LOG_SUFFIX, HEAD_SUFFIX, SIGNATURES_SUFFIX] {
        match dir.remove_file(format!("{chain}{suffix}")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => failed(error),
            _ => {}
        }
    }
}

fn create(dir: &Dir, name: &str, appending: bool) -> std::io::Result<File> {
    dir.open_with(
        name,
        OpenOptions::new().append(appending).write(true).create_new(true).mode(0o600),
    )
}

/// Returns the newest chain's name and head, as the link of the next one.
fn newest_head(dir: &Dir) -> std::io::Result<Value> {
    let mut newest: Option<String> = None;
    for name in file_names(dir)? {
        if name.ends_with(HEAD_SUFFIX) && newest.as_ref().is_none_or(|best| *best < name) {
            newest = Some(name);
        }
    }
    let Some(name) = newest else { return Ok(Value::Null) };
    let head = dir.read_to_string(&name)?;
    let chain = name.strip_suffix(HEAD_SUFFIX).unwrap_or(&name);
    Ok(serde_json::json!({ "chain": chain, "head": head.trim() }))
}

/// Returns the names of the regular files in `dir`: reading anything else could block.
pub(super) fn file_names(dir: &Dir) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in dir.entries()? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    Ok(names)
}
