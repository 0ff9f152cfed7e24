//! Files that one call alone changes, from reading them to replacing them.
//!
//! WASI has no locks. Whoever holds a file has made an empty one beside it, `.name.lock-0`, and
//! removes it at the end. A call that is killed leaves its own behind: one that is older than
//! anybody holds a file is removed by who comes upon it. What does not ask to hold a file is not
//! kept from it: the shell, another program.

use std::cmp::Reverse;
use std::time::Duration;

use super::place::Place;
use crate::bindings::wasi::clocks::{monotonic_clock, wall_clock};
use crate::bindings::wasi::filesystem::types::{
    Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags,
};
use crate::error::ToolError;

/// How long a file is held: who has taken longer changes nothing any more.
const HELD_MAX: Duration = Duration::from_secs(5);
/// The age from which nobody holds a file: above that, as the last change may be slow, and not far
/// above it, as a call that was stopped leaves its files held for so long.
const LEFT_AFTER: Duration = Duration::from_secs(8);
/// How long to wait for all of them: a little longer, so that what was left stops nobody, and less
/// than most calls have.
const WAIT_MAX: Duration = Duration::from_secs(9);
/// The first pause between two looks; each is twice as long as the one before, up to the longest.
const PAUSE_MIN: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(32);
/// Links that are followed to one file: as many as systems follow.
const LINKS_MAX: usize = 40;

/// Files that no other call holds as long as this is there.
#[derive(Debug)]
pub struct Held<'a> {
    locks: Vec<Lock<'a>>,
    /// When the first of them was taken, since the Unix epoch.
    since: Duration,
    /// How long other calls were waited for.
    waited: Duration,
}

#[derive(Debug)]
struct Lock<'a> {
    place: Place<'a>,
    name: String,
}

/// Waits until nobody else holds any of the files at `paths`, and holds them: of a link, what it leads
/// to. One in a folder that is not there yet is not held, as nobody can have read it, nor is one in a
/// folder where no lock may be made: the change itself is told whether it may be.
///
/// # Errors
/// `invalid-path`, `permission-denied`, or `execution-failed` where somebody holds one for too long.
pub fn hold<'a>(paths: impl IntoIterator<Item = &'a str>) -> Result<Held<'a>, ToolError> {
    let places = paths.into_iter().map(|path| Place::find(path).map(Place::followed));
    let mut places = places.collect::<Result<Vec<_>, _>>()?;
    // In one order, the first at the end, so that two calls seldom have what the other wants.
    places.sort_by_key(|place| Reverse((place.below.text(), place.path)));
    let mut held = Held { locks: Vec::new(), since: now(), waited: Duration::ZERO };
    held.take_all(places)?;
    Ok(held)
}

impl<'a> Held<'a> {
    /// Fails where it took so long that others may hold the files by now.
    pub(super) fn require_time(&self) -> Result<(), ToolError> {
        if self.age() <= HELD_MAX {
            return Ok(());
        }
        Err(ToolError::failed("the change took too long, and was not made; try again"))
    }

    fn age(&self) -> Duration {
        now().abs_diff(self.since)
    }

    /// Takes all of them, the last one first. Where another call has one, all others are let go until it
    /// is free: two calls could wait for each other, as a folder has other names through links, and no
    /// order of names prevents that.
    fn take_all(&mut self, mut places: Vec<Place<'a>>) -> Result<(), ToolError> {
        let mut pause = PAUSE_MIN;
        while let Some(place) = places.pop() {
            let Some(taken) = self.take(place)? else { continue };
            places.extend(self.let_go());
            places.push(taken);
            sleep(pause);
            self.waited += pause;
            pause = PAUSE_MAX.min(pause * 2);
        }
        Ok(())
    }

    /// Takes the file at `place`, or returns that where another call has it.
    fn take(&mut self, place: Place<'a>) -> Result<Option<Place<'a>>, ToolError> {
        let names = [place.below.beside("lock-0"), place.below.beside("lock-1")];
        let [Some(name), Some(cleaning)] = names else {
            return Err(place.error(ErrorCode::IsDirectory));
        };
        if self.locks.is_empty() {
            self.since = now();
        }
        match place.require_mutable().and_then(|()| place.make(&name)) {
            Ok(()) => self.locks.push(Lock { place, name }),
            Err(code) if can_have_none(code) => {}
            // Another name of the same file, or one that begins as this one does.
            Err(ErrorCode::Exist) if self.has(&place, &name) => {}
            Err(ErrorCode::Exist) if self.waited >= WAIT_MAX => return Err(busy(place.path)),
            Err(ErrorCode::Exist) if place.clear(&name, &cleaning).is_ok() => {
                return Ok(Some(place));
            }
            // What cannot be removed is nobody's lock.
            Err(ErrorCode::Exist) => {}
            Err(code) => return Err(place.error(code)),
        }
        Ok(None)
    }

    /// Says whether the lock of that name is one of these.
    fn has(&self, place: &Place<'_>, name: &str) -> bool {
        let there = id(&place.root, name);
        let mut own = self.locks.iter();
        there.is_some() && own.any(|lock| id(&lock.place.root, &lock.name) == there)
    }

    /// Lets go of all files, and returns where they are.
    fn let_go(&mut self) -> Vec<Place<'a>> {
        // After so long they may be of somebody else.
        let is_own = self.age() <= LEFT_AFTER;
        let places = self.locks.drain(..).map(|Lock { place, name }| {
            if is_own {
                // What stays counts for nothing after a while.
                let _ = place.remove(&name);
            }
            place
        });
        places.collect()
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        drop(self.let_go());
    }
}

impl Place<'_> {
    /// Returns the place that links lead to from here: whoever writes here changes that.
    fn followed(mut self) -> Self {
        for _ in 0..LINKS_MAX {
            let Ok(target) = self.root.readlink_at(&self.below.text()) else { break };
            self.below = self.below.linked(&target);
        }
        self
    }

    /// Fails where nothing may be changed, as the file itself would: the caller is told of that, and
    /// knows nothing of a lock.
    fn require_mutable(&self) -> Result<(), ErrorCode> {
        if self.root.get_flags()?.contains(DescriptorFlags::MUTATE_DIRECTORY) {
            return Ok(());
        }
        let path = self.below.text();
        self.root
            .open_at(PathFlags::empty(), &path, OpenFlags::CREATE, DescriptorFlags::WRITE)
            .map(drop)
    }

    /// Makes an empty file that must not be there.
    fn make(&self, name: &str) -> Result<(), ErrorCode> {
        let how = OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
        self.root.open_at(PathFlags::empty(), name, how, DescriptorFlags::WRITE).map(drop)
    }

    fn remove(&self, name: &str) -> Result<(), ErrorCode> {
        match self.root.unlink_file_at(name) {
            Err(ErrorCode::NoEntry) => Ok(()),
            removed => removed,
        }
    }

    /// Removes the lock `name` where it was left. Only who has made `cleaning` does, and looks once
    /// more: of two who came upon it, the second would remove the lock that the first has made since.
    /// A file system may have a clock of its own, so it is that file which says what time it is there.
    ///
    /// # Errors
    /// What was left cannot be removed.
    fn clear(&self, name: &str, cleaning: &str) -> Result<(), ErrorCode> {
        let is_left_by_ours = |name: &str| is_left(self.changed(name), Some(now()));
        if !is_left_by_ours(name) {
            return Ok(());
        }
        let cleared = match self.make(cleaning) {
            Ok(()) if is_left(self.changed(name), self.changed(cleaning)) => self.remove(name),
            Ok(()) => Ok(()),
            Err(ErrorCode::Exist) if is_left_by_ours(cleaning) => Ok(()),
            Err(ErrorCode::Exist) => return Ok(()),
            Err(code) => return Err(code),
        };
        let cleaned = self.remove(cleaning);
        cleared.and(cleaned)
    }

    fn changed(&self, name: &str) -> Option<Duration> {
        let stat = self.root.stat_at(PathFlags::empty(), name).ok()?;
        stat.data_modification_timestamp.map(time)
    }
}

/// Says whether a lock of that age is too old at that time to be anybody's. Of what is not known, nobody says so. One
/// from the future is of a clock that was set back, and counts as one from as long ago.
fn is_left(changed: Option<Duration>, now: Option<Duration>) -> bool {
    changed.zip(now).is_some_and(|(changed, now)| now.abs_diff(changed) > LEFT_AFTER)
}

/// Says whether a file is nobody's to hold where a lock was refused so: its folder is not there, so nobody can have
/// read it; or, as where a link leads, it may be written where no lock may be made.
const fn can_have_none(code: ErrorCode) -> bool {
    matches!(code, ErrorCode::NoEntry | ErrorCode::Access | ErrorCode::NotPermitted)
}

/// What tells a file from all others.
fn id(root: &Descriptor, name: &str) -> Option<(u64, u64)> {
    let hash = root.metadata_hash_at(PathFlags::empty(), name).ok()?;
    Some((hash.lower, hash.upper))
}

fn busy(path: &str) -> ToolError {
    ToolError::failed(format!("{path:?} is being changed by other calls; try again"))
}

fn now() -> Duration {
    time(wall_clock::now())
}

fn time(at: wall_clock::Datetime) -> Duration {
    Duration::new(at.seconds, at.nanoseconds)
}

fn sleep(pause: Duration) {
    let nanoseconds = u64::try_from(pause.as_nanos()).unwrap_or(u64::MAX);
    monotonic_clock::subscribe_duration(nanoseconds).block();
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_lock_is_as_old_as_its_own_file_system_has_it() {
        let ours = Duration::from_secs(1_800_000_000);
        for theirs in [ours - HOUR, ours, ours + HOUR] {
            // Made and looked at there, by the clock that is there.
            let aged = |age| is_left(Some(theirs), Some(theirs + age));
            assert!(!aged(Duration::ZERO) && !aged(LEFT_AFTER), "{theirs:?}");
            assert!(aged(LEFT_AFTER + Duration::from_nanos(1)), "{theirs:?}");
        }
        // Ours alone would take a new lock for one that was left.
        assert!(is_left(Some(ours - HOUR), Some(ours)) && is_left(Some(ours + HOUR), Some(ours)));
        assert!(!is_left(None, Some(ours)) && !is_left(Some(ours), None));
    }

    #[test]
    fn who_may_make_no_lock_waits_for_nobody_and_other_refusals_are_told() {
        for code in [ErrorCode::NoEntry, ErrorCode::Access, ErrorCode::NotPermitted] {
            assert!(can_have_none(code), "{code:?}");
        }
        for code in [ErrorCode::Exist, ErrorCode::ReadOnly, ErrorCode::Io, ErrorCode::Loop] {
            assert!(!can_have_none(code), "{code:?}");
        }
    }
}
