//! Writing one chain: an append-only file, and its head stored beside it.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cap_std::fs::{Dir, File};
use clawhost_core::digest;
use clawhost_core::merkle::Hash;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::watch;

use super::copies::{Copies, Copy};
use super::facts::Facts;
use super::files::{
    HEAD_SUFFIX, LINE_BYTES_MAX, LOG_SUFFIX, NEWEST, NEWEST_SUFFIX, SIGNATURES_SUFFIX,
    UNNAMED_SUFFIX, create, remove,
};
use super::head::{self, Ends};
use super::key::{PublicKey, SigningKey};
use super::opening::{CHAIN, SIGNED_WITH};
use super::record::{CHAIN_START, Draft, Event};
use super::retention::{self, Pruning};
use super::room::Room;
use super::sign::Signer;
use crate::clock::now_ms;
use crate::secrets::Secrets;
use crate::watched::change;

/// Chains one process may open in one millisecond.
const CHAINS_PER_MS_MAX: u32 = 1_000;
/// How long a log that has a name is taken to keep it, in milliseconds: each call would ask the system else.
const NAME_LOOK_MS: u64 = 100;
/// How often who waits for a turn looks before it sleeps: some 8 µs, and a record takes 2.
const TURN_SPINS_MAX: u32 = 200;

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
    /// It did not take a record, which was said, and no call has begun since.
    refuses: AtomicBool,
}

#[derive(Debug)]
struct Chain {
    log: File,
    head: std::fs::File,
    /// Bytes of whole lines.
    len: u64,
    room: Room,
    records: u64,
    last_hash: Hash,
    /// A failed write could not be undone; nothing may follow it.
    broken: bool,
    /// Its file system counts a file's names.
    counts_names: bool,
    /// When it was last seen to have one.
    looked_at_ms: i64,
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
    /// that is there but for what `terms` remove. Its first record is signed when this returns, unless the disk is full.
    ///
    /// # Errors
    /// The folder cannot be read or written.
    pub fn open(dir: &Dir, terms: Terms) -> std::io::Result<Self> {
        let Terms { retention, copies, key } = terms;
        let ends = Ends::find(dir)?;
        let public = key.as_ref().map(SigningKey::public);
        let old = match retention {
            Some(keep) => retention::plan(dir, keep, now_ms(), public)?,
            None => Pruning::default(),
        };
        let (name, file) = create_log(dir)?;
        let mut facts = ends.facts();
        old.note(&mut facts);
        let log = Self::begin(dir, &name, file, facts, copies, public).inspect_err(|_| {
            // A chain without its first record would read as a broken one.
            remove(dir, &name, drop);
        })?;
        // Before there is a second: a chain whose first record is not signed anybody may have written. Where this
        // fails, a run of one record stays: the file `newest` names it by now, so it would be missed. The next
        // start names its end.
        let sign = |key| log.chain.lock().sign(dir, &name, key, ends);
        if key.map(sign).transpose()?.unwrap_or(true) {
            // Only now that the new chain says so: a kill in between leaves what nobody misses.
            old.carry_out(dir);
        }
        Ok(log)
    }

    /// Writes the first record, and names the chain as the newest.
    fn begin(
        dir: &Dir,
        name: &str,
        file: File,
        mut facts: Facts,
        copies: Vec<Copy>,
        key: Option<PublicKey>,
    ) -> std::io::Result<Self> {
        let log = Self {
            chain: Mutex::new(Chain::new(dir, name, file, key.is_some())?),
            secrets: Secrets::none(),
            copies: Copies::new(copies),
            dir: dir.try_clone()?,
            name: name.to_owned(),
            key,
            grown: watch::Sender::new(0),
            refuses: AtomicBool::new(false),
        };
        facts.extend([("host", env!("CARGO_PKG_VERSION")), (CHAIN, name)]);
        facts.extend(key.map(|key| (SIGNED_WITH, key.to_string())));
        // No more than this one: who signs begins with the last record that is there.
        log.append_one(Event::ChainOpened, &facts)?;
        name_newest(dir, name)?;
        Ok(log)
    }

    /// Keeps the values of `secrets` out of every later record.
    #[must_use]
    pub fn without(mut self, secrets: Secrets) -> Self {
        self.secrets = secrets;
        self
    }

    /// Returns the start of a text that is too long for a record, without secrets.
    pub(super) fn short(&self, text: &str, bytes_max: usize) -> String {
        self.secrets.short(text, bytes_max)
    }

    /// Appends one record; it has reached the kernel when this returns, so that it outlives
    /// the process. The head has it then too; of a signed chain the head follows with the signature,
    /// and the host goes on where the disk refuses those two, and says so.
    ///
    /// # Errors
    /// The disk refuses the record. The caller must then refuse the call: no record, no execution.
    pub fn append(&self, event: Event, facts: &Facts) -> std::io::Result<()> {
        let appended = self.append_one(event, &facts.without_secrets(&self.secrets.redactor()));
        self.tell(event, &appended);
        appended?;
        self.note_gaps(self.copies.gaps());
        Ok(())
    }

    /// Says once why there is no record: whoever called is told that there is none, and nothing of the reason. That
    /// a call can end says nothing of whether one can begin.
    fn tell(&self, event: Event, appended: &std::io::Result<()>) {
        match appended {
            Ok(()) if event == Event::Received => self.refuses.store(false, Ordering::Relaxed),
            Err(error) if !self.refuses.swap(true, Ordering::Relaxed) => {
                tracing::error!("the audit log takes no record, so no call begins: {error}");
            }
            _ => {}
        }
    }

    /// Appends a record of something other than a call, with its facts by name; otherwise as
    /// [`AuditLog::append`].
    ///
    /// # Errors
    /// The disk refuses.
    pub fn note<'f>(
        &self,
        event: Event,
        facts: impl IntoIterator<Item = (&'static str, &'f str)>,
    ) -> std::io::Result<()> {
        self.append(event, &facts.into_iter().collect())
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

    /// As [`AuditLog::flush`], for who may block, and without the copies. Says whether all of it is signed, as
    /// far as it is to be.
    pub(crate) fn sign(&self, patience: Duration) -> bool {
        let signer = self.chain.lock().signer.clone();
        signer.is_none_or(|signer| signer.wait(patience))
    }

    /// Says in the chain how many records are missing in copies. What cannot be said now is said later: the record
    /// that it stands after is there, and who wrote that goes on.
    fn note_gaps(&self, gaps: Vec<(&Copy, u64)>) {
        for (copy, missing) in gaps {
            let mut facts = Facts::default();
            facts.set("copy", copy.name);
            facts.set("missing", missing);
            if let Err(error) = self.append_one(Event::CopyIncomplete, &facts) {
                copy.miss(missing);
                tracing::error!(
                    "what is missing in a copy of the audit log is not recorded: {error}"
                );
            }
        }
    }

    /// Waits for its turn awake while others write a record or two: to sleep and be woken takes longer than that.
    fn its_turn(&self) -> MutexGuard<'_, Chain> {
        for _ in 0..TURN_SPINS_MAX {
            if let Some(chain) = self.chain.try_lock() {
                return chain;
            }
            std::hint::spin_loop();
        }
        self.chain.lock()
    }

    fn append_one(&self, event: Event, facts: &Facts) -> std::io::Result<()> {
        let draft = Draft::new(event, facts);
        let chain = &mut *self.its_turn();
        let now_ms = now_ms();
        let mut line = draft.line(chain.records, &chain.last_hash, now_ms);
        if line.len() > LINE_BYTES_MAX {
            return Err(std::io::Error::other(
                "the record is longer than a line of the log may be",
            ));
        }
        let hash = digest::sha256(line.as_bytes());
        line.push('\n');
        if chain.broken {
            return Err(std::io::Error::other(
                "the log ends in half a line that cannot be taken back",
            ));
        }
        if event == Event::Received && chain.is_gone(now_ms)? {
            return Err(std::io::Error::other(
                "the log was deleted, so nobody would find the record: start the host anew",
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
        chain.last_hash = hash;
        chain.count()?;
        // Under the lock, so that a copy has them in the same order.
        self.copies.take(&line);
        change(&self.grown, |grown| *grown = chain.len);
        Ok(())
    }
}

impl Drop for AuditLog {
    fn drop(&mut self) {
        self.note_gaps(self.copies.all_gaps());
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
    fn new(dir: &Dir, name: &str, log: File, to_sign: bool) -> std::io::Result<Self> {
        let head = create(dir, &format!("{name}{HEAD_SUFFIX}"), false)?.into_std();
        // Held as long as the chain grows: nobody takes it for an old one.
        head.try_lock()?;
        // From before the first record on: whenever it ends, a later one names the end.
        if to_sign {
            drop(create(dir, &format!("{name}{UNNAMED_SUFFIX}"), false)?);
        }
        let counts_names = has_name(&log)?;
        Ok(Self {
            log,
            head,
            counts_names,
            looked_at_ms: 0,
            len: 0,
            room: Room::default(),
            records: 0,
            last_hash: CHAIN_START,
            broken: false,
            signer: None,
        })
    }

    /// Signs the first record, and has a thread of its own sign those after it, and store count and hash of each batch.
    /// The first record names `ends`, so nobody has to do that again once it is signed. Says whether it is by now.
    fn sign(
        &mut self,
        dir: &Dir,
        name: &str,
        key: SigningKey,
        ends: Ends,
    ) -> std::io::Result<bool> {
        let file = create(dir, &format!("{name}{SIGNATURES_SUFFIX}"), true)?;
        let dir = dir.try_clone()?;
        let then = move || ends.forget(&dir);
        let files = (file, self.head.try_clone()?);
        let (signer, is_signed) = Signer::start(name, files, key, self.last_hash, then)?;
        self.signer = Some(Arc::new(signer));
        Ok(is_signed)
    }

    /// Says whether somebody deleted the file: it takes all that is written to it, until the host ends.
    fn is_gone(&mut self, now_ms: i64) -> std::io::Result<bool> {
        if !self.counts_names || now_ms.abs_diff(self.looked_at_ms) < NAME_LOOK_MS {
            return Ok(false);
        }
        let is_gone = !has_name(&self.log)?;
        if !is_gone {
            self.looked_at_ms = now_ms;
        }
        Ok(is_gone)
    }

    /// Stores count and hash after the record, or with its batch where it is signed: an end that was dropped
    /// shows by either.
    fn count(&self) -> std::io::Result<()> {
        match &self.signer {
            Some(signer) => signer.take(self.last_hash),
            None => head::write(&self.head, self.records, &digest::text(&self.last_hash))?,
        }
        Ok(())
    }
}

/// Says whether a file has a name in any folder.
fn has_name(file: &File) -> std::io::Result<bool> {
    Ok(rustix::fs::fstat(file)?.st_nlink != 0)
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

/// Names the chain as the newest, so that deleting it whole shows. A kill leaves the old name or the new one, and no
/// more than a file of this chain, which goes when a later one names its end, or with the chain.
fn name_newest(dir: &Dir, chain: &str) -> std::io::Result<()> {
    let aside = format!("{chain}{NEWEST_SUFFIX}");
    create(dir, &aside, false)?.write_all(chain.as_bytes())?;
    dir.rename(&aside, dir, NEWEST)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};

    use super::*;

    #[tokio::test]
    async fn what_is_missing_in_a_copy_and_cannot_be_said_is_still_to_be_said() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).unwrap();
        let copy = Copy::anywhere(3);
        let missing = Arc::clone(&copy.missing);
        let log = AuditLog::open(&dir, Terms { copies: vec![copy], ..Terms::default() }).unwrap();
        // As after a write that failed.
        log.chain.lock().broken = true;
        log.note_gaps(log.copies.gaps());
        assert_eq!(missing.load(Ordering::Relaxed), 3);
        log.chain.lock().broken = false;
        log.note(Event::Reloaded, []).unwrap();
        assert_eq!(missing.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_record_that_could_not_be_read_back_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).unwrap();
        let log = AuditLog::open(&dir, Terms::default()).unwrap();
        for bytes in [LINE_BYTES_MAX, LINE_BYTES_MAX / 2] {
            let noted = log.note(Event::Reloaded, [("name", "x".repeat(bytes).as_str())]);
            assert_eq!(noted.is_ok(), bytes < LINE_BYTES_MAX);
        }
        let report = log.verify().unwrap().remove(0);
        assert_eq!((report.records, report.broken), (2, None));
    }

    #[test]
    fn no_call_begins_on_a_log_that_was_deleted_and_those_that_run_end() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).unwrap();
        let log = AuditLog::open(&dir, Terms::default()).unwrap();
        let facts = Facts::default();
        log.append(Event::Received, &facts).unwrap();
        dir.rename(format!("{}{LOG_SUFFIX}", log.name), &dir, "elsewhere").unwrap();
        log.append(Event::Received, &facts).unwrap();
        dir.remove_file("elsewhere").unwrap();
        log.chain.lock().looked_at_ms = 0;
        let mut shown = tempfile::tempfile().unwrap();
        let writer = Arc::new(shown.try_clone().unwrap());
        let subscriber = tracing_subscriber::fmt().with_writer(writer).with_ansi(false).finish();
        tracing::subscriber::with_default(subscriber, || {
            for _ in 0..2 {
                let error = log.append(Event::Received, &facts).unwrap_err();
                assert!(error.to_string().contains("was deleted"), "{error}");
                log.append(Event::Finished, &facts).unwrap();
            }
        });
        let mut told = String::new();
        shown.rewind().unwrap();
        shown.read_to_string(&mut told).unwrap();
        assert_eq!(told.matches("takes no record, so no call begins: the log was").count(), 1);
    }

    #[test]
    fn the_end_of_a_host_that_is_killed_at_its_first_record_will_be_named() {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), cap_std::ambient_authority()).unwrap();
        for to_sign in [true, false] {
            let (name, log) = create_log(&dir).unwrap();
            let chain = Chain::new(&dir, &name, log, to_sign).unwrap();
            assert_eq!((chain.records, dir.exists(name + UNNAMED_SUFFIX)), (0, to_sign));
        }
    }
}
