//! The namespaces of a jail: which there can be here, whose ids are in them, and the fork into them.
//!
//! A user namespace has the kernel count the processes of each jail for itself, for root too;
//! one of process ids ends as one; one of mounts has a root of its own ([`View`]).

use std::ffi::CStr;
use std::fs;
use std::io::{self, Read, Write};
use std::sync::OnceLock;

use libc::{CLONE_NEWNS, CLONE_NEWPID, CLONE_NEWUSER, c_int};
use rustix::fs::{Mode, OFlags, open};
use rustix::process::{Pid, getegid, geteuid};

use super::identity::host_is_root;
use super::spec::Opened;
use super::sys::{self, Fork};
use super::view::View;
use super::{JailError, JailSpec};

/// What a jail can be made of, the best first. A jail without process ids of its own is a group.
const FORMS: [c_int; 4] = [
    CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS,
    CLONE_NEWPID | CLONE_NEWNS,
    CLONE_NEWUSER | CLONE_NEWPID,
    CLONE_NEWPID,
];
/// Room for `/proc`, a process id of at most ten digits and the name of a file.
const PATH_BYTES: usize = 40;

#[derive(Debug)]
pub(super) struct Namespaces {
    flags: c_int,
    /// Files of the first process in `/proc`, and what to write there.
    ids: Vec<(&'static str, String)>,
    pub(super) view: Option<View>,
}

/// Returns the best namespaces that this system gives a jail; 0 are none.
pub(super) fn best() -> c_int {
    static BEST: OnceLock<c_int> = OnceLock::new();
    *BEST.get_or_init(|| FORMS.into_iter().find(|flags| can_be_had(*flags)).unwrap_or(0))
}

/// Tries them with a process that ends at once.
fn can_be_had(flags: c_int) -> bool {
    let Ok(tried) = Namespaces::with(flags, &[], false) else { return false };
    // No signal tells the host of its end, so that no handler takes it for a child of its own.
    match tried.fork(0) {
        Ok(Fork::Child) => {
            let entered = tried.view.as_ref().map_or(Ok(()), View::enter);
            sys::exit(entered.is_err().into())
        }
        Ok(Fork::Parent(pid)) => sys::wait(Some(pid)).is_ok_and(|it| it.1.as_raw() == 0),
        Err(_) => false,
    }
}

impl Namespaces {
    /// Returns those of `spec`, if it has any.
    ///
    /// # Errors
    /// As [`View::of`].
    pub(super) fn of(spec: &JailSpec) -> Result<Option<Self>, JailError> {
        let flags = best() & spec.most.namespaces;
        let are_some = flags & CLONE_NEWPID != 0;
        are_some.then(|| Self::with(flags, &spec.mounts, spec.network)).transpose()
    }

    fn with(flags: c_int, mounts: &[Opened], network: bool) -> Result<Self, JailError> {
        let failed = |error: io::Error| JailError::Failed(error.to_string());
        let ids = if flags & CLONE_NEWUSER == 0 { Vec::new() } else { ids().map_err(failed)? };
        let view = if flags & CLONE_NEWNS == 0 { None } else { View::of(mounts, network)? };
        Ok(Self { flags, ids, view })
    }

    /// Says whether the kernel counts the processes of this jail and of no other.
    pub(super) fn count_alone(&self) -> bool {
        self.flags & CLONE_NEWUSER != 0
    }

    /// Forks into the namespaces; the child goes on when it has its ids. Its end is told to its
    /// parent by `signal`.
    ///
    /// # Errors
    /// What the system says, in the parent only.
    pub(super) fn fork(&self, signal: c_int) -> io::Result<Fork> {
        let (mut go, mut ready) = io::pipe()?;
        let Fork::Parent(pid) = sys::clone(self.flags | signal)? else {
            // Where the parent is gone, there is nobody to write.
            drop(ready);
            return match go.read_exact(&mut [0]) {
                Ok(()) => Ok(Fork::Child),
                Err(_) => sys::exit(libc::EXIT_FAILURE),
            };
        };
        let written = self.ids.iter().try_for_each(|(file, text)| write_of(pid, file, text));
        if let Err(error) = written.and_then(|()| ready.write_all(&[0])) {
            sys::kill(pid);
            drop(sys::wait(Some(pid)));
            return Err(error);
        }
        Ok(Fork::Parent(pid))
    }
}

/// Writes `text` to a file of `pid` in `/proc`. Only system calls.
fn write_of(pid: Pid, file: &str, text: &str) -> io::Result<()> {
    let mut path = [0; PATH_BYTES];
    // The last byte stays zero.
    let (room, _) = path.split_at_mut(PATH_BYTES - 1);
    write!(&mut *room, "/proc/{}/{file}", pid.as_raw_nonzero())?;
    let path = CStr::from_bytes_until_nul(&path).map_err(io::Error::other)?;
    let file = open(path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(rustix::io::write(file, text.as_bytes()).map(drop)?)
}

/// Returns what gives a user namespace the ids of the host: to root all that it has itself, to
/// another user that one.
fn ids() -> io::Result<Vec<(&'static str, String)>> {
    if host_is_root() {
        let of = |file| Ok((file, same(&fs::read_to_string(format!("/proc/self/{file}"))?)));
        return ["uid_map", "gid_map"].into_iter().map(of).collect();
    }
    let one = |id: u32| format!("{id} {id} 1");
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    // Whoever may set no groups may map one, which it has.
    let none = ("setgroups", "deny".to_owned());
    Ok(vec![none, ("uid_map", one(user)), ("gid_map", one(group))])
}

/// Returns the map in which every id that `map` has is itself.
fn same(map: &str) -> String {
    let lines = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace();
        let (first, count) = (numbers.next()?, numbers.nth(1)?);
        Some(format!("{first} {first} {count}\n"))
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_of_the_same_ids_has_those_of_the_host_and_no_others() {
        let container = "         0     100000      65536\n     70000       1000          1\n";
        assert_eq!(same(container), "0 0 65536\n70000 70000 1\n");
    }
}
