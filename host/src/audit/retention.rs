//! Which chains are old enough to go.
//!
//! Only whole chains go, the oldest first, and the chain that is opened then says through which:
//! what is missing beyond that is still missed. A chain goes only where it holds: one that was tampered with
//! would be vouched for by what is signed of its removal. Deliberately absent: chains that still grow (their
//! owner holds a lock), and the newest one, which the next has to name.

use std::time::Duration;

use cap_std::fs::Dir;
use clawhost_core::visible;
use serde_json::Value;

use super::facts::Facts;
use super::files::{chains, has_ended, last_line, remove};
use super::key::PublicKey;
use super::opening::REMOVED_THROUGH;
use super::record;
use super::verify::{Trust, Verdict, judge};

/// Chains that go.
#[derive(Debug, Default)]
pub(super) struct Pruning(Vec<String>);

/// Returns the chains of which every record is older than `keep`, up to the first that is not, or that does not hold:
/// by `key` where the next chain is signed with it.
pub(super) fn plan(
    dir: &Dir,
    keep: Duration,
    now_ms: i64,
    key: Option<PublicKey>,
) -> std::io::Result<Pruning> {
    let oldest_ms = now_ms.saturating_sub(i64::try_from(keep.as_millis()).unwrap_or(i64::MAX));
    let mut names = chains(dir)?;
    names.pop();
    // By its last line alone first: only what may go is read as a whole.
    let may_go = |name: &String| match newest_ms(dir, name) {
        Some(newest_ms) => newest_ms < oldest_ms && has_ended(dir, name),
        None => {
            keeps(name, "no time can be read of it");
            false
        }
    };
    let names: Vec<String> = names.into_iter().take_while(may_go).collect();
    let trust = Trust { keys: key.into_iter().collect(), all_signed: key.is_some() };
    let going = |names: &[String]| -> std::io::Result<Vec<String>> {
        let judged = judge(dir, names, &trust)?.into_iter();
        Ok(judged.take_while(|it| goes(it, oldest_ms)).map(|it| it.chain).collect())
    };
    // Where the oldest stays, nothing behind it is read at each start.
    let oldest: Vec<String> = names.get(..1).map(going).transpose()?.unwrap_or_default();
    Ok(Pruning(if oldest.is_empty() { oldest } else { going(&names)? }))
}

/// Says whether a chain goes that is old by its last line, which anybody may have written.
fn goes(verdict: &Verdict, oldest_ms: i64) -> bool {
    let Verdict { chain, latest_ms, broken, is_removed } = verdict;
    if *is_removed {
        return true;
    }
    if let Some(broken) = broken {
        keeps(chain, broken);
        return false;
    }
    // The name says when it was begun.
    let begun_ms: Option<i64> = chain.split('-').next().and_then(|ms| ms.parse().ok());
    let is_old = begun_ms.unwrap_or(*latest_ms).max(*latest_ms) < oldest_ms;
    if !is_old {
        keeps(chain, "its name or a record says that it is newer than its end");
    }
    is_old
}

/// Says what keeps a chain, and all after it.
fn keeps(chain: &str, why: &str) {
    let (chain, why) = (visible::line(chain), visible::line(why));
    tracing::warn!(
        "the audit chain {chain} is kept, and so is all after it until its files are moved away: {why}."
    );
}

impl Pruning {
    /// Adds what the next chain says about it.
    pub(super) fn note(&self, facts: &mut Facts) {
        if let Some(last) = self.0.last() {
            facts.set(REMOVED_THROUGH, last.as_str());
            facts.set("removed_chains", self.0.len());
        }
    }

    /// Removes them; what cannot be removed is left for the next time.
    pub(super) fn carry_out(&self, dir: &Dir) {
        for name in &self.0 {
            remove(dir, name, |error| {
                tracing::warn!("the old audit chain {name} cannot be removed: {error}.");
            });
        }
    }
}

/// Returns the time of a chain's last record; nothing where it cannot be told.
fn newest_ms(dir: &Dir, name: &str) -> Option<i64> {
    let record: Value = serde_json::from_slice(&last_line(dir, name)?).ok()?;
    record::time_ms(&record)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Seek as _};
    use std::sync::Arc;

    use super::*;
    use crate::audit::files::{CHAIN_SUFFIXES, HEAD_SUFFIX, LOG_SUFFIX, file_names};
    use crate::audit::{AuditLog, Terms, Trust, verify};
    use cap_std::ambient_authority;

    fn folder() -> (tempfile::TempDir, Dir) {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        (folder, dir)
    }

    /// Opens a chain once the clock shows another millisecond than before: that is old here.
    fn opened(dir: &Dir, keep: Option<Duration>) -> AuditLog {
        let before = crate::clock::now_ms();
        while crate::clock::now_ms() == before {}
        AuditLog::open(dir, Terms { retention: keep, ..Terms::default() }).unwrap()
    }

    fn holds(dir: &Dir) -> bool {
        verify(dir, &Trust::default()).unwrap().iter().all(|report| report.broken.is_none())
    }

    #[test]
    fn old_chains_go_and_the_rest_still_verifies() {
        let (_folder, dir) = folder();
        (0..4).for_each(|_| drop(opened(&dir, None)));
        let first = chains(&dir).unwrap();
        drop(opened(&dir, Some(Duration::from_secs(3_600))));
        assert_eq!(chains(&dir).unwrap().len(), 5, "nothing is an hour old");
        drop(opened(&dir, Some(Duration::ZERO)));
        let left = chains(&dir).unwrap();
        assert!(left.len() == 2 && !first.contains(&left[0]), "{left:?}");
        assert!(holds(&dir), "{:?}", verify(&dir, &Trust::default()));
        drop(opened(&dir, Some(Duration::ZERO)));
        assert!(holds(&dir), "{:?}", verify(&dir, &Trust::default()));
    }

    #[test]
    fn a_chain_that_still_grows_stays_and_so_do_those_after_it() {
        let (_folder, dir) = folder();
        drop(opened(&dir, None));
        let growing = opened(&dir, None);
        (0..2).for_each(|_| drop(opened(&dir, None)));
        drop(opened(&dir, Some(Duration::ZERO)));
        assert_eq!(chains(&dir).unwrap().len(), 4);
        drop(growing);
        assert!(holds(&dir), "{:?}", verify(&dir, &Trust::default()));
    }

    #[test]
    fn a_chain_that_ends_in_half_a_line_goes_too() {
        let (folder, dir) = folder();
        (0..2).for_each(|_| drop(opened(&dir, None)));
        let first = chains(&dir).unwrap().remove(0);
        let log = folder.path().join(format!("{first}{LOG_SUFFIX}"));
        let text = std::fs::read_to_string(&log).unwrap();
        std::fs::write(log, text + "{\"v\"").unwrap();
        assert!(holds(&dir), "{:?}", verify(&dir, &Trust::default()));
        drop(opened(&dir, Some(Duration::ZERO)));
        assert!(!chains(&dir).unwrap().contains(&first));
    }

    #[test]
    fn what_a_host_leaves_of_a_chain_that_is_killed_as_it_removes_it_goes_with_the_next() {
        for gone in 0..CHAIN_SUFFIXES.len() {
            let (_folder, dir) = folder();
            (0..3).for_each(|_| drop(opened(&dir, None)));
            let oldest = chains(&dir).unwrap().remove(0);
            let files = CHAIN_SUFFIXES.map(|suffix| format!("{oldest}{suffix}"));
            let held = files.clone().map(|file| (dir.read(&file).unwrap_or_default(), file));
            drop(opened(&dir, Some(Duration::ZERO)));
            assert!(!chains(&dir).unwrap().contains(&oldest));
            held.iter().skip(gone).for_each(|(bytes, file)| dir.write(file, bytes).unwrap());
            drop(opened(&dir, Some(Duration::ZERO)));
            let left = file_names(&dir).unwrap();
            assert!(!left.iter().any(|file| files.contains(file)), "{gone}: {left:?}");
            assert!(holds(&dir), "{gone}: {:?}", verify(&dir, &Trust::default()));
        }
    }

    #[test]
    fn a_chain_that_does_not_hold_is_kept_and_so_is_all_after_it() {
        let edits = [("\"time\":\"20", "\"time\":\"19"), ("chain.opened", "chain.closed")];
        for (from, to) in edits {
            let (_folder, dir) = folder();
            (0..4).for_each(|_| drop(opened(&dir, None)));
            let edited = format!("{}{LOG_SUFFIX}", chains(&dir).unwrap()[1]);
            let text = dir.read_to_string(&edited).unwrap();
            dir.write(&edited, text.replace(from, to)).unwrap();
            drop(opened(&dir, Some(Duration::ZERO)));
            // The one before it has gone.
            assert_eq!(chains(&dir).unwrap().len(), 4);
            assert!(dir.exists(&edited) && !holds(&dir));
        }
    }

    #[test]
    fn a_chain_that_nobody_said_was_removed_is_still_missed() {
        let (_folder, dir) = folder();
        (0..3).for_each(|_| drop(opened(&dir, None)));
        drop(opened(&dir, Some(Duration::ZERO)));
        (0..2).for_each(|_| drop(opened(&dir, None)));
        assert!(holds(&dir));
        let later = chains(&dir).unwrap()[2].clone();
        for suffix in [LOG_SUFFIX, HEAD_SUFFIX] {
            dir.remove_file(format!("{later}{suffix}")).unwrap();
        }
        assert!(!holds(&dir));
    }

    #[test]
    fn what_keeps_old_chains_is_said() {
        let (folder, dir) = folder();
        (0..3).for_each(|_| drop(opened(&dir, None)));
        std::fs::write(folder.path().join("0\u{1b}.jsonl"), "nothing\n").unwrap();
        let mut shown = tempfile::tempfile().unwrap();
        let writer = Arc::new(shown.try_clone().unwrap());
        let subscriber = tracing_subscriber::fmt().with_writer(writer).with_ansi(false).finish();
        tracing::subscriber::with_default(subscriber, || {
            drop(opened(&dir, Some(Duration::ZERO)));
        });
        let mut text = String::new();
        shown.rewind().unwrap();
        shown.read_to_string(&mut text).unwrap();
        assert!(text.contains("the audit chain 0\\u{1b} is kept"), "{text}");
        assert!(text.contains("no time can be read of it"), "{text}");
        assert_eq!(chains(&dir).unwrap().len(), 5);
    }
}
