//! What this system gives a jail, asked of the kernel once.

use std::sync::OnceLock;

use super::cgroup::{self, Parent};
use super::identity::host_is_root;
use super::{Support, files, namespaces, sys};

/// Returns what this system gives a jail. The answer does not change while the host runs.
pub fn support() -> Support {
    static SUPPORT: OnceLock<Support> = OnceLock::new();
    *SUPPORT.get_or_init(|| Support {
        landlock_abi: landlock_abi(),
        seccomp: sys::seccomp_errno_available(),
        pid_namespace: namespaces::best() & libc::CLONE_NEWPID != 0,
        mount_namespace: namespaces::best() & libc::CLONE_NEWNS != 0,
        user_namespace: namespaces::best() & libc::CLONE_NEWUSER != 0,
        cgroup: !cgroups().is_empty(),
        other_user: host_is_root(),
    })
}

pub(super) fn cgroups() -> &'static [Parent] {
    static PARENTS: OnceLock<Vec<Parent>> = OnceLock::new();
    PARENTS.get_or_init(cgroup::parents)
}

fn landlock_abi() -> u32 {
    sys::landlock_abi().map_or(0, |abi| files::abi_used(u32::try_from(abi).unwrap_or(0)))
}
