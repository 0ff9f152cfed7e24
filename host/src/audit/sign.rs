//! Signing a chain while it grows: batch after batch, on a thread of its own, so that no call waits
//! for a signature.
//!
//! A batch is the records since the last one, which the chain's head then knows. What is signed says which they
//! are, the hash of the last of them, and the root of a Merkle tree over all, so that one record can be shown to
//! somebody without the others (`receipt`).

use std::io::Write as _;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use cap_std::fs::File;
use clawhost_core::digest;
use clawhost_core::limits::{AUDIT_BATCH_MS, AUDIT_BATCH_RECORDS_MAX, AUDIT_UNSIGNED_MS};
use clawhost_core::merkle::{self, Hash, leaf};
use parking_lot::{Condvar, Mutex};
use serde::{Deserialize, Serialize};

use super::head;
use super::key::{PublicKey, SigningKey};

/// What is signed of a batch, in canonical form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Statement {
    /// The chain's name.
    pub chain: String,
    /// The number of its first record.
    pub first: u64,
    /// How many records.
    pub records: u64,
    /// The hash of the last of them, which holds for all records before it.
    pub head: String,
    /// The root of the tree over the hashes of the records, in hexadecimal digits.
    pub root: String,
}

/// A statement and its signature: one line of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Signed {
    pub statement: Statement,
    pub signature: String,
}

impl Statement {
    /// Returns what is said of the records with these hashes; none of none.
    pub(super) fn of(chain: &str, first: u64, hashes: &[String]) -> Option<Self> {
        let head = hashes.last()?.clone();
        let root = merkle::root(&leaves(hashes));
        let records = hashes.len() as u64;
        Some(Self { chain: chain.to_owned(), first, records, head, root: digest::hex(&root) })
    }

    fn text(&self) -> String {
        digest::canonical(&serde_json::json!(self))
    }
}

impl Signed {
    fn new(statement: Statement, key: &SigningKey) -> Self {
        let signature = key.sign(&statement.text());
        Self { statement, signature }
    }

    /// Says whether `key` signed it.
    pub(super) fn holds(&self, key: &PublicKey) -> bool {
        key.holds(&self.statement.text(), &self.signature)
    }
}

/// Returns the leaves of a batch's tree, from the records' hashes.
pub(super) fn leaves(hashes: &[String]) -> Vec<Hash> {
    hashes.iter().map(|hash| leaf(hash.as_bytes())).collect()
}

/// Signs what it is given. Dropping it signs the rest.
#[derive(Debug)]
pub(super) struct Signer {
    waiting: Arc<Waiting>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Waiting {
    queue: Mutex<Queue>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Queue {
    hashes: Vec<Hash>,
    closing: bool,
    /// Somebody waits for what is there to be signed.
    hurry: bool,
    /// A batch was taken and is being signed.
    signing: bool,
    /// What was taken could not all be signed: the disk was full.
    unsigned: bool,
    /// That is to be tried again at once.
    again: bool,
}

impl Signer {
    /// Signs the `first` record of the chain `name`, into `file`, and stores its `head`, and starts to do so with those
    /// after it. Once the first one is signed, `then` is done. Says whether it is by now.
    pub(super) fn start(
        name: &str,
        (file, head): (File, std::fs::File),
        key: SigningKey,
        first: Hash,
        then: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<(Self, bool)> {
        let (chain, unsigned) = (name.to_owned(), Vec::new());
        let mut sheet = Sheet { chain, file, head, key, len: 0, signed: 0, unsigned };
        let mut then = Some(then);
        let mut keep = move |batch| {
            let is_signed = sheet.keep(batch);
            if let Some(then) = then.take_if(|_| is_signed) {
                then();
            }
            is_signed
        };
        let is_signed = keep(vec![first]);
        let queue = Mutex::new(Queue { unsigned: !is_signed, ..Queue::default() });
        let waiting = Arc::new(Waiting { queue, ..Waiting::default() });
        let queue = Arc::clone(&waiting);
        let thread =
            std::thread::Builder::new().name("audit-signer".to_owned()).spawn(move || {
                let mut is_signed = is_signed;
                while let Some(batch) = queue.next(!is_signed) {
                    is_signed = keep(batch);
                }
            })?;
        Ok((Self { waiting, thread: Some(thread) }, is_signed))
    }

    /// Hands over the hash of the next record.
    pub(super) fn take(&self, hash: Hash) {
        let mut queue = self.waiting.queue.lock();
        queue.hashes.push(hash);
        if matches!(queue.hashes.len(), 1 | AUDIT_BATCH_RECORDS_MAX) {
            self.waiting.changed.notify_all();
        }
    }

    /// As [`Signer::flush`], for who may wait. Says whether all of it is signed.
    pub(super) fn wait(&self, patience: Duration) -> bool {
        self.waiting.flush(patience)
    }

    /// Waits until what was taken so far is signed, `patience` at the longest.
    pub(super) async fn flush(&self, patience: Duration) {
        let waiting = Arc::clone(&self.waiting);
        drop(tokio::task::spawn_blocking(move || waiting.flush(patience)).await);
    }
}

impl Drop for Signer {
    fn drop(&mut self) {
        self.waiting.close();
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the end of the audit log is not signed");
        }
    }
}

impl Waiting {
    /// Waits for the next batch; none where there will be none. What is `unsigned` is tried again with it, or else by
    /// itself: each second, when somebody waits for it, and once before the end.
    fn next(&self, unsigned: bool) -> Option<Vec<Hash>> {
        let mut queue = self.queue.lock();
        (queue.signing, queue.unsigned) = (false, unsigned);
        self.changed.notify_all();
        let idles = |queue: &mut Queue| queue.hashes.is_empty() && !queue.closing && !queue.again;
        if unsigned {
            let patience = Duration::from_millis(AUDIT_UNSIGNED_MS);
            self.changed.wait_while_for(&mut queue, idles, patience);
        } else {
            self.changed.wait_while(&mut queue, idles);
        }
        let gathers = |queue: &mut Queue| {
            queue.hashes.len() < AUDIT_BATCH_RECORDS_MAX && !queue.closing && !queue.hurry
        };
        self.changed.wait_while_for(&mut queue, gathers, Duration::from_millis(AUDIT_BATCH_MS));
        let records = queue.hashes.len().min(AUDIT_BATCH_RECORDS_MAX);
        let again = std::mem::take(&mut queue.again) || !queue.closing;
        queue.signing = records > 0 || (unsigned && again);
        queue.signing.then(|| queue.hashes.drain(..records).collect())
    }

    /// Says whether what was taken so far is signed within `patience`.
    fn flush(&self, patience: Duration) -> bool {
        let mut queue = self.queue.lock();
        queue.hurry = true;
        let again = queue.unsigned && !queue.signing;
        queue.again |= again;
        self.changed.notify_all();
        let is_left = |queue: &mut Queue| queue.signing || queue.again || !queue.hashes.is_empty();
        self.changed.wait_while_for(&mut queue, is_left, patience);
        queue.hurry = false;
        !queue.signing && !queue.unsigned && queue.hashes.is_empty()
    }

    fn close(&self) {
        let mut queue = self.queue.lock();
        (queue.closing, queue.again) = (true, queue.unsigned);
        self.changed.notify_all();
    }
}

struct Sheet {
    chain: String,
    file: File,
    head: std::fs::File,
    key: SigningKey,
    /// Bytes of whole lines.
    len: u64,
    /// Records before those that wait.
    signed: u64,
    /// Hashes that no line is there for yet: the disk was full.
    unsigned: Vec<Hash>,
}

impl Sheet {
    /// Takes a batch, and signs all that waits; says whether it could. That it could not is said once a batch.
    fn keep(&mut self, batch: Vec<Hash>) -> bool {
        let is_new = !batch.is_empty();
        self.unsigned.extend(batch);
        // Without it the signatures still say how many records there are.
        if let Err(error) = self.count()
            && is_new
        {
            tracing::error!("the audit log's head could not be stored: {error}");
        }
        let signed = self.sign();
        if let Err(error) = &signed
            && is_new
        {
            tracing::error!("records of the audit log could not be signed: {error}");
        }
        signed.is_ok()
    }

    /// Stores how many records there are, signed or not, and the hash of the last.
    fn count(&self) -> std::io::Result<()> {
        let Some(last) = self.unsigned.last() else { return Ok(()) };
        head::write(&self.head, self.signed + self.unsigned.len() as u64, &digest::text(last))
    }

    /// Signs what waits.
    fn sign(&mut self) -> std::io::Result<()> {
        while !self.unsigned.is_empty() {
            let records = self.unsigned.len().min(AUDIT_BATCH_RECORDS_MAX);
            let batch: Vec<_> = self.unsigned.iter().take(records).map(digest::text).collect();
            let Some(statement) = Statement::of(&self.chain, self.signed, &batch) else { break };
            let mut line = serde_json::to_string(&Signed::new(statement, &self.key))?;
            line.push('\n');
            // One write a line: a kill leaves a whole one or none.
            if let Err(error) = self.file.write_all(line.as_bytes()) {
                self.file.set_len(self.len)?;
                return Err(error);
            }
            self.len += line.len() as u64;
            self.signed += records as u64;
            self.unsigned.drain(..records);
        }
        Ok(())
    }
}
