//! What this system gives a jail, asked of the kernel once.

use std::sync::OnceLock;

use super::cgroup::{self, Parent};
use super::identity::host_is_root;
use super::sys::{self, Fork};
use super::{Support, files};

/// Returns what this system gives a jail. The answer does not change while the host runs.
pub fn support() -> Support {
    static SUPPORT: OnceLock<Support> = OnceLock::new();
    *SUPPORT.get_or_init(|| Support {
        landlock_abi: landlock_abi(),
        seccomp: sys::seccomp_errno_available(),
        pid_namespace: can_clone(namespace_flags()),
        cgroup: !cgroups().is_empty(),
        other_user: host_is_root(),
    })
}

/// Returns where groups of jails can be made.
pub(super) fn cgroups() -> &'static [Parent] {
    static PARENTS: OnceLock<Vec<Parent>> = OnceLock::new();
    PARENTS.get_or_init(cgroup::parents)
}

/// Returns the namespaces a jail is made with: root needs no user namespace, and could not
/// become another user in one.
pub(super) fn namespace_flags() -> libc::c_int {
    if host_is_root() { libc::CLONE_NEWPID } else { libc::CLONE_NEWPID | libc::CLONE_NEWUSER }
}

fn landlock_abi() -> u32 {
    sys::landlock_abi().map_or(0, |abi| files::abi_used(u32::try_from(abi).unwrap_or(0)))
}

/// Tries to make a process in such namespaces, which ends at once.
fn can_clone(flags: libc::c_int) -> bool {
    // No signal tells the host of its end, so that no handler takes it for a child of its own.
    match sys::clone(flags) {
        Ok(Fork::Child) => sys::exit(libc::EXIT_SUCCESS),
        Ok(Fork::Parent(pid)) => sys::wait(pid).is_ok(),
        Err(_) => false,
    }
}
