//! Recordings: what one call of a component was given and what the host answered it, so that the call can
//! be run again with nothing granted, and shown to come to the same.
//!
//! A [`Tape`] is at each place where an answer of the host reaches a guest: the clocks, random numbers, the
//! environment, files, requests over HTTP, and what `claw:host` offers. It keeps the answers, or plays what was kept.
//! An answer that holds a known secret is not kept, nor is anything after it; and nothing at all where answers of one
//! kind that follow each other hold one together.
//!
//! Deliberately absent: requests over HTTP that failed, where a call that made one has no recording, and says so; which
//! of several answers came first; and secrets that a guest reads in pieces out of order, or in turns with another file.

mod bytes;
mod exchange;
mod shelf;

use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use clawhost_core::grants::{CallLimits, Grants};
use clawhost_core::limits::RECORDING_BYTES_MAX;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(crate) use bytes::Blob;
pub use shelf::Recordings;

use self::exchange::Exchange;
use crate::clock;
use crate::secrets::Secrets;

/// Version of the format of a recording.
const FORMAT_VERSION: u64 = 1;

/// What a guest gets for an answer that the recording does not have, before it is ended.
pub(crate) const LOST: &str = "the recording has no such answer";

/// Why a call has no recording that was given a secret.
const SECRET: &str = "the guest was given the value of a secret";

/// One recorded call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    v: u64,
    /// The version of the host that recorded it: what fuel costs is its engine's.
    pub host: String,
    /// The component's digest.
    pub component: String,
    /// The tool's name in the component.
    pub tool: String,
    /// Its arguments as JSON text, as the guest read them.
    pub arguments: String,
    timeout_ms: u64,
    memory_bytes: u64,
    output_bytes: u64,
    /// What was asked, and the answer.
    answers: VecDeque<(String, Value)>,
    /// What was requested over HTTP, and the answers.
    #[serde(default, skip_serializing_if = "VecDeque::is_empty")]
    requests: VecDeque<Exchange>,
    /// Units of work that the host did for the guest before its host call of this number, where it did any.
    work: VecDeque<(u64, u64)>,
    /// How it ended.
    pub end: End,
}

/// What a call came to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct End {
    /// `ok`, `tool-error`, or why the guest was ended.
    pub outcome: String,
    /// The digest of the result, as the guest gave it.
    pub result_digest: Option<String>,
    /// The fuel it took, host calls included.
    pub fuel: u64,
}

/// Keeps the host's answers of one call, plays those of a recorded one, or does nothing. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Tape(Option<Arc<Mutex<Reel>>>);

#[derive(Debug)]
struct Reel {
    recording: Recording,
    plays: bool,
    secrets: Secrets,
    bytes: usize,
    host_calls: u64,
    /// Why nothing more is kept, or where what is played parts from what was recorded.
    stopped: Option<String>,
}

impl Recording {
    fn of(tool: &str, grants: &Grants) -> Self {
        let limits = grants.limits;
        Self {
            v: FORMAT_VERSION,
            host: env!("CARGO_PKG_VERSION").to_owned(),
            component: String::new(),
            tool: tool.to_owned(),
            arguments: String::new(),
            timeout_ms: clock::whole_ms(limits.timeout),
            memory_bytes: limits.memory_bytes,
            output_bytes: limits.output_bytes,
            answers: VecDeque::new(),
            requests: VecDeque::new(),
            work: VecDeque::new(),
            end: End::default(),
        }
    }

    /// Returns what was asked, each with its answer.
    pub fn answers(&self) -> impl Iterator<Item = &(String, Value)> {
        self.answers.iter()
    }

    /// Returns what it is played under: its bounds, and nothing else.
    pub fn grants(&self) -> Grants {
        let limits = CallLimits {
            timeout: Duration::from_millis(self.timeout_ms),
            memory_bytes: self.memory_bytes,
            output_bytes: self.output_bytes,
            ..CallLimits::default()
        };
        Grants { profile: "none".to_owned(), limits, ..Grants::default() }
    }
}

impl Tape {
    /// Starts to keep the answers of a call of `tool` under `grants`, but for the values of `secrets`.
    pub(crate) fn keeping(tool: &str, grants: &Grants, secrets: Secrets) -> Self {
        Self::on(Recording::of(tool, grants), secrets, false)
    }

    /// Plays what was recorded.
    pub(crate) fn playing(recording: Recording) -> Self {
        Self::on(recording, Secrets::none(), true)
    }

    fn on(recording: Recording, secrets: Secrets, plays: bool) -> Self {
        let (bytes, host_calls, stopped) = (0, 0, None);
        let reel = Reel { recording, plays, secrets, bytes, host_calls, stopped };
        Self(Some(Arc::new(Mutex::new(reel))))
    }

    /// Says whether it keeps or plays.
    pub(crate) fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// Says whether it neither keeps nor plays, as in most calls.
    pub(crate) fn is_off(&self) -> bool {
        self.0.is_none()
    }

    /// Says whether answers come from a recording.
    pub(crate) fn plays(&self) -> bool {
        self.0.as_ref().is_some_and(|reel| reel.lock().plays)
    }

    /// Notes what the guest is given, and for how long.
    pub(crate) fn begin(&self, arguments: &str, timeout: Duration) {
        self.keeps(|reel| {
            reel.weigh(arguments);
            let recording = &mut reel.recording;
            arguments.clone_into(&mut recording.arguments);
            recording.timeout_ms = clock::whole_ms(timeout);
        });
    }

    /// Answers `of` with what `live` returns, and keeps that; or plays what was kept.
    pub(crate) fn now<T: Serialize + DeserializeOwned>(
        &self,
        of: impl Display,
        lost: T,
        live: impl FnOnce() -> T,
    ) -> T {
        self.played(&of, || lost).unwrap_or_else(|| {
            let answer = live();
            self.keep(of, &answer);
            answer
        })
    }

    /// Returns the next answer where it plays: `lost` where that is not one to `of`.
    pub(crate) fn played<T: DeserializeOwned>(
        &self,
        of: impl Display,
        lost: impl FnOnce() -> T,
    ) -> Option<T> {
        let mut reel = self.0.as_ref()?.lock();
        reel.plays.then(|| reel.next(&of.to_string()).unwrap_or_else(lost))
    }

    /// Keeps an answer, where it keeps any.
    pub(crate) fn keep<T: Serialize>(&self, of: impl Display, answer: &T) {
        self.keeps(|reel| {
            let (of, answer) = (of.to_string(), json!(answer));
            reel.weigh(&of);
            reel.weigh(&answer.to_string());
            reel.recording.answers.push_back((of, answer));
        });
    }

    /// Notes that the call does what no recording holds.
    pub(crate) fn give_up(&self, why: &str) {
        self.keeps(|reel| reel.stop(why));
    }

    /// Counts a host call before which the host did `work` for the guest; returns what that counts for.
    pub(crate) fn work(&self, work: u64) -> u64 {
        let Some(reel) = &self.0 else { return work };
        let mut reel = reel.lock();
        reel.host_calls += 1;
        let now = reel.host_calls;
        if reel.plays {
            let kept = &mut reel.recording.work;
            return kept.pop_front_if(|(at, _)| *at == now).map_or(0, |(_, work)| work);
        }
        if work > 0 && reel.stopped.is_none() {
            reel.bytes += size_of::<(u64, u64)>();
            reel.recording.work.push_back((now, work));
        }
        work
    }

    /// Says where what is played parts from what was recorded, once it has.
    pub(crate) fn parted(&self) -> Option<String> {
        let reel = self.0.as_ref()?.lock();
        reel.stopped.clone().filter(|_| reel.plays)
    }

    /// Ends it. Gives out what was kept, once, or why there is nothing; nothing at all where nothing was to be kept.
    pub(crate) fn kept(
        &self,
        component: &str,
        end: impl FnOnce() -> End,
    ) -> Option<Result<Recording, String>> {
        let mut reel = self.0.as_ref()?.lock();
        if reel.plays {
            return None;
        }
        Some(match reel.stopped.replace("the call has ended".to_owned()) {
            Some(why) => Err(why),
            None if reel.has_secret_in_pieces() => Err(SECRET.to_owned()),
            None => {
                let mut recording = std::mem::take(&mut reel.recording);
                (recording.component, recording.end) = (component.to_owned(), end());
                Ok(recording)
            }
        })
    }

    /// Says how many answers were not asked for.
    pub(crate) fn unasked(&self) -> usize {
        let left = |recording: &Recording| recording.answers.len() + recording.requests.len();
        self.0.as_ref().map_or(0, |reel| left(&reel.lock().recording))
    }

    fn keeps(&self, work: impl FnOnce(&mut Reel)) {
        let Some(reel) = &self.0 else { return };
        let mut reel = reel.lock();
        if !reel.plays && reel.stopped.is_none() {
            work(&mut reel);
        }
    }
}

impl Reel {
    fn stop(&mut self, why: &str) {
        self.stopped.get_or_insert_with(|| why.to_owned());
    }

    /// Takes a text in, unless it is too much or holds a secret.
    fn weigh(&mut self, text: &str) {
        self.bytes = self.bytes.saturating_add(text.len());
        if self.bytes > RECORDING_BYTES_MAX {
            self.stop(&format!("it would be over {RECORDING_BYTES_MAX} bytes"));
        } else if matches!(self.secrets.redactor().text(text), Cow::Owned(_)) {
            self.stop(SECRET);
        }
    }

    /// Says whether the answers of one kind, as that of reading on, or the pieces of a body hold a secret together.
    fn has_secret_in_pieces(&self) -> bool {
        let redactor = self.secrets.redactor();
        if redactor.is_empty() {
            return false;
        }
        let mut joined: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
        for (of, answer) in &self.recording.answers {
            let kind = of.split(' ').next().unwrap_or_default();
            bytes::join(answer, joined.entry(kind).or_default());
        }
        let bodies = self.recording.requests.iter().map(Exchange::joined);
        let mut all = joined.into_values().chain(bodies);
        all.any(|text| matches!(redactor.bytes(&text), Cow::Owned(_)))
    }

    fn next<T: DeserializeOwned>(&mut self, of: &str) -> Option<T> {
        if self.stopped.is_some() {
            return None;
        }
        let told = match self.recording.answers.pop_front() {
            Some((asked, answer)) if asked == of => match serde_json::from_value(answer) {
                Ok(answer) => return Some(answer),
                Err(_) => format!("the recorded answer to `{of}` cannot be read"),
            },
            Some((asked, _)) => format!("`{asked}` was asked then, and `{of}` now"),
            None => format!("nothing more was asked then, and `{of}` now"),
        };
        self.stop(&told);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(tape: &Tape) -> Result<Recording, String> {
        tape.kept("sha256:0", End::default).unwrap()
    }

    #[test]
    fn what_was_kept_is_played_in_order_and_parts_where_something_else_is_asked() {
        let tape = Tape::keeping("t", &Grants::default(), Secrets::none());
        tape.begin("{}", Duration::from_millis(7));
        assert_eq!(tape.now("clock", 0, || 41), 41);
        assert_eq!([tape.work(0), tape.work(5)], [0, 5]);
        assert_eq!(tape.now("read f", String::new(), || "text".to_owned()), "text");
        let recording = kept(&tape).unwrap();
        assert_eq!(recording.grants().limits.timeout, Duration::from_millis(7));
        let tape = Tape::playing(recording);
        assert_eq!(tape.now("clock", 0, || 42), 41);
        assert_eq!([tape.work(9), tape.work(9)], [0, 5]);
        assert_eq!((tape.unasked(), tape.parted()), (1, None));
        assert_eq!(tape.now("read g", "lost".to_owned(), || "live".to_owned()), "lost");
        let parted = tape.parted().unwrap();
        assert!(parted.contains("`read f`") && parted.contains("`read g`"), "{parted}");
        assert!(tape.kept("sha256:0", End::default).is_none());
    }

    #[test]
    fn what_was_kept_is_given_out_once() {
        let tape = Tape::keeping("t", &Grants::default(), Secrets::none());
        tape.keep("clock", &41);
        assert_eq!(kept(&tape).unwrap().answers().count(), 1);
        tape.keep("clock", &42);
        assert!(kept(&tape).unwrap_err().contains("ended"));
        assert_eq!(tape.unasked(), 0);
    }

    #[test]
    fn more_than_the_bound_is_not_kept_and_what_is_off_keeps_nothing() {
        let tape = Tape::keeping("t", &Grants::default(), Secrets::none());
        assert_eq!(
            tape.now("read", String::new(), || "x".repeat(RECORDING_BYTES_MAX)).len(),
            RECORDING_BYTES_MAX
        );
        assert!(kept(&tape).unwrap_err().contains("bytes"));
        let off = Tape::default();
        assert_eq!((off.now("clock", 0, || 3), off.work(4), off.plays()), (3, 4, false));
        assert!(off.kept("sha256:0", End::default).is_none());
    }

    #[test]
    fn a_secret_is_never_kept() {
        let secrets = Secrets::none();
        secrets.hide("token", "hunter2-hunter2").unwrap();
        for held in ["hunter2-hunter2", "aHVudGVyMi1odW50ZXIy"] {
            let tape = Tape::keeping("t", &Grants::default(), secrets.clone());
            tape.keep("read", &Blob(held.as_bytes().to_vec()));
            assert!(kept(&tape).unwrap_err().contains("secret"), "{held}");
        }
        let tape = Tape::keeping("t", &Grants::default(), secrets.clone());
        for (at, piece) in b"hunter2-hunter2".chunks(4).enumerate() {
            tape.keep(format_args!("read 4 {at}"), &Ok::<_, ()>((Blob(piece.to_vec()), false)));
            tape.keep("stat f", &"regular");
        }
        assert!(kept(&tape).unwrap_err().contains("secret"), "in pieces");
        let mut binary = vec![0xff, 0];
        binary.extend(b"hunter2-hunter2");
        let tape = Tape::keeping("t", &Grants::default(), secrets);
        tape.keep("read", &Blob(binary));
        assert!(kept(&tape).unwrap_err().contains("secret"));
    }
}
