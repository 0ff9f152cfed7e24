//! As whom a jailed program runs.
//!
//! A host that is no root shares its user with its jails. Root does not: its programs run as
//! the owner of the working directory or, where that is root too, as `nobody` with the one
//! capability to pass over file modes, which Landlock holds to the mounts. Root itself would
//! stand outside the limit of processes and could signal every process of the system.

use std::os::fd::AsFd;

use rustix::fs::fstat;
use rustix::process::{Gid, Uid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, configure_capability_in_ambient_set,
    remove_capability_from_bounding_set, set_capabilities, set_keep_capabilities,
    set_thread_groups, set_thread_res_gid, set_thread_res_uid,
};

use super::JailError;

/// The user and group that own nothing.
const NOBODY: u32 = 65_534;
/// Passes over the modes of files (`capabilities(7)`); it does not make anybody their owner.
const ANY_FILE: CapabilitySet = CapabilitySet::DAC_OVERRIDE;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Identity {
    /// As the host's own user, who is no root.
    Same,
    /// As another user, with the one capability or without any.
    Other { uid: u32, gid: u32, any_file: bool },
}

impl Identity {
    /// Returns as whom a program runs whose working directory is `workdir`.
    pub(super) fn of(workdir: impl AsFd) -> Result<Self, JailError> {
        if !host_is_root() {
            return Ok(Self::Same);
        }
        let stat = fstat(workdir).map_err(|error| {
            JailError::Failed(format!("cannot look at the working directory: {error}"))
        })?;
        Ok(match stat.st_uid {
            0 => Self::Other { uid: NOBODY, gid: NOBODY, any_file: true },
            uid => Self::Other { uid, gid: stat.st_gid, any_file: false },
        })
    }

    pub(super) fn uid(self) -> u32 {
        match self {
            Self::Same => rustix::process::geteuid().as_raw(),
            Self::Other { uid, .. } => uid,
        }
    }

    /// Becomes it, giving up every capability it does not have. Only system calls.
    pub(super) fn assume(self) -> std::io::Result<()> {
        let (keep, other) = match self {
            Self::Same => (CapabilitySet::empty(), None),
            Self::Other { uid, gid, any_file: true } => (ANY_FILE, Some((uid, gid))),
            Self::Other { uid, gid, any_file: false } => (CapabilitySet::empty(), Some((uid, gid))),
        };
        for number in 0..u64::BITS {
            let capability = CapabilitySet::from_bits_retain(1 << number);
            if !keep.contains(capability) {
                // No such capability, or none to give up: what is left is dropped below.
                let _ = remove_capability_from_bounding_set(capability);
            }
        }
        if let Some((uid, gid)) = other {
            set_keep_capabilities(true)?;
            become_user(Uid::from_raw(uid), Gid::from_raw(gid))?;
        }
        let sets = CapabilitySets { effective: keep, permitted: keep, inheritable: keep };
        set_capabilities(None, sets)?;
        if !keep.is_empty() {
            // A program run as no root keeps it.
            configure_capability_in_ambient_set(keep, true)?;
        }
        Ok(())
    }
}

/// Becomes `uid` and `gid` in every respect, with no further group. The system calls and not the
/// functions of the C library, which would tell other threads; this process has one.
fn become_user(uid: Uid, gid: Gid) -> std::io::Result<()> {
    set_thread_groups(&[])?;
    set_thread_res_gid(gid, gid, gid)?;
    Ok(set_thread_res_uid(uid, uid, uid)?)
}

pub(super) fn host_is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the processes and threads `uid` has on the whole system, which is what the kernel
/// counts its limit against outside a user namespace. Those it cannot see it does not count.
pub(super) fn tasks_of(uid: u32) -> u64 {
    let Ok(processes) = std::fs::read_dir("/proc") else {
        return 0;
    };
    let numbered = processes.flatten().filter(|entry| {
        entry.file_name().to_str().is_some_and(|name| name.bytes().all(|b| b.is_ascii_digit()))
    });
    let status = numbered.filter_map(|p| std::fs::read_to_string(p.path().join("status")).ok());
    status
        .filter(|text| field(text, "Uid:") == Some(uid.into()))
        .map(|t| field(&t, "Threads:").unwrap_or(1))
        .sum()
}

/// Returns the first number of a line of `/proc/PID/status`.
fn field(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tasks_of_a_user_include_this_test() {
        assert!(tasks_of(rustix::process::getuid().as_raw()) >= 1);
        assert_eq!(tasks_of(4_123_456_789), 0);
    }

    #[test]
    fn a_field_of_a_status_is_its_first_number() {
        let text = "Name:\tx\nUid:\t1000\t0\t0\t0\nThreads:\t7\n";
        assert_eq!((field(text, "Uid:"), field(text, "Threads:")), (Some(1000), Some(7)));
        assert_eq!(field(text, "Gid:"), None);
    }
}
