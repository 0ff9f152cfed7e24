//! The few system calls of the jail that the standard library does not have, as safe functions.
//!
//! All of them are safe to call between fork and exec: none allocates or takes a lock.

#![expect(unsafe_code, reason = "raw system calls, each with its argument in a SAFETY comment")]

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// A process id, always above 0 here.
pub(super) type Pid = libc::pid_t;

/// The side of a fork that is running.
pub(super) enum Fork {
    Parent(Pid),
    Child,
}

/// Returns the error of the last call where `result` is negative.
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Forks this thread into a process in the namespaces of `flags`.
///
/// `clone` itself and not `fork`: the latter runs handlers that other code registered.
pub(super) fn clone(flags: libc::c_int) -> io::Result<Fork> {
    let flags = libc::c_long::from(flags);
    let zero: libc::c_long = 0;
    // SAFETY: without CLONE_VM the child has memory of its own, and a null stack means to go on
    // with its copy of this one; no pointer is passed. The callers run nothing but system
    // calls in the child.
    let pid = check(unsafe { libc::syscall(libc::SYS_clone, flags, zero, zero, zero, zero) })?;
    match Pid::try_from(pid) {
        Ok(0) => Ok(Fork::Child),
        Ok(pid) => Ok(Fork::Parent(pid)),
        Err(_) => Err(io::Error::from_raw_os_error(libc::ERANGE)),
    }
}

/// Ends this process at once, without running anything registered for its exit.
pub(super) fn exit(code: i32) -> ! {
    // SAFETY: takes no pointer and does not return.
    unsafe { libc::_exit(code) }
}

/// Makes this process the head of a session without a terminal.
pub(super) fn new_session() -> io::Result<()> {
    // SAFETY: takes no pointer.
    check(libc::c_long::from(unsafe { libc::setsid() })).map(drop)
}

/// Puts `pid` (0: this process) into a group of its own.
pub(super) fn new_group(pid: Pid) -> io::Result<()> {
    // SAFETY: takes no pointer.
    check(libc::c_long::from(unsafe { libc::setpgid(pid, 0) })).map(drop)
}

/// `prctl` with number arguments only.
pub(super) fn prctl(option: libc::c_int, value: libc::c_ulong) -> io::Result<()> {
    let zero: libc::c_ulong = 0;
    // SAFETY: no option used here takes a pointer (death signal, dumpable, no new privileges,
    // subreaper, keep capabilities, drop from the bounding set).
    check(libc::c_long::from(unsafe { libc::prctl(option, value, zero, zero, zero) })).map(drop)
}

/// Raises an ambient capability, which a program run as no root keeps.
pub(super) fn raise_ambient(capability: libc::c_ulong) -> io::Result<()> {
    let raise = libc::c_ulong::from(libc::PR_CAP_AMBIENT_RAISE.unsigned_abs());
    let zero: libc::c_ulong = 0;
    // SAFETY: takes no pointer.
    let done = unsafe { libc::prctl(libc::PR_CAP_AMBIENT, raise, capability, zero, zero) };
    check(libc::c_long::from(done)).map(drop)
}

/// The kernel's header of a set of capabilities.
#[repr(C)]
struct CapHeader {
    version: u32,
    pid: libc::c_int,
}

/// One half (32 bits) of the three sets of capabilities.
#[repr(C)]
struct CapData {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

/// The only version of the header in use since Linux 2.6.26.
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

/// Keeps of this process's capabilities exactly those in `low` (numbers 0 to 31).
pub(super) fn set_capabilities(low: u32) -> io::Result<()> {
    let header = CapHeader { version: CAPABILITY_VERSION_3, pid: 0 };
    let data = [
        CapData { effective: low, permitted: low, inheritable: low },
        CapData { effective: 0, permitted: 0, inheritable: 0 },
    ];
    // SAFETY: both structures have the layout of version 3 (a header, two halves) and outlive
    // the call.
    check(unsafe { libc::syscall(libc::SYS_capset, &raw const header, data.as_ptr()) }).map(drop)
}

/// Becomes `uid` and `gid` in every respect, with no further group.
pub(super) fn become_user(uid: libc::uid_t, gid: libc::gid_t) -> io::Result<()> {
    // The system calls and not the functions of the C library, which would take locks to tell
    // other threads; this process has one.
    let (gid, uid) = (libc::c_long::from(gid), libc::c_long::from(uid));
    let none: libc::c_long = 0;
    // SAFETY: an empty list of groups is never read; the others take no pointer.
    unsafe {
        check(libc::syscall(libc::SYS_setgroups, none, none))?;
        check(libc::syscall(libc::SYS_setresgid, gid, gid, gid))?;
        check(libc::syscall(libc::SYS_setresuid, uid, uid, uid))?;
    }
    Ok(())
}

/// A resource that can be limited, as this C library types it.
#[cfg(target_env = "gnu")]
pub(super) type Resource = libc::__rlimit_resource_t;
/// A resource that can be limited, as this C library types it.
#[cfg(not(target_env = "gnu"))]
pub(super) type Resource = libc::c_int;

/// Sets a soft and hard resource limit, where the hard one is not already lower.
pub(super) fn limit(resource: Resource, value: u64) -> io::Result<()> {
    let mut old = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the structure is valid for the call.
    check(libc::c_long::from(unsafe { libc::getrlimit(resource, &raw mut old) }))?;
    let value = value.min(old.rlim_max);
    let new = libc::rlimit { rlim_cur: value, rlim_max: value };
    // SAFETY: as above.
    check(libc::c_long::from(unsafe { libc::setrlimit(resource, &raw const new) })).map(drop)
}

/// Makes `dir` the working directory.
pub(super) fn change_dir(dir: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: takes no pointer; the descriptor is open while it is borrowed.
    check(libc::c_long::from(unsafe { libc::fchdir(dir.as_raw_fd()) })).map(drop)
}

/// Restricts this process by a Landlock ruleset, for good.
pub(super) fn restrict_self(ruleset: BorrowedFd<'_>) -> io::Result<()> {
    let (fd, flags) = (libc::c_long::from(ruleset.as_raw_fd()), 0 as libc::c_long);
    // SAFETY: takes no pointer; the descriptor is open while it is borrowed.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, fd, flags) }).map(drop)
}

/// Returns the kernel's Landlock ABI, or the error that says there is none.
pub(super) fn landlock_abi() -> io::Result<i32> {
    /// Asks for the version instead of making a ruleset.
    const CREATE_RULESET_VERSION: libc::c_long = 1;
    let zero: libc::c_long = 0;
    let call = libc::SYS_landlock_create_ruleset;
    // SAFETY: with this flag the pointer has to be null and the size 0.
    let abi = check(unsafe { libc::syscall(call, zero, zero, CREATE_RULESET_VERSION) })?;
    i32::try_from(abi).map_err(io::Error::other)
}

/// Returns whether the kernel can refuse system calls with an error code.
pub(super) fn seccomp_errno_available() -> bool {
    let action: u32 = libc::SECCOMP_RET_ERRNO;
    let ask = libc::c_long::from(libc::SECCOMP_GET_ACTION_AVAIL);
    let zero: libc::c_long = 0;
    // SAFETY: the pointer is to a u32 that outlives the call, as this operation wants.
    unsafe { libc::syscall(libc::SYS_seccomp, ask, zero, &raw const action) == 0 }
}

/// Marks or closes every descriptor from `first` up.
pub(super) fn close_from(first: u32, flags: u32) -> io::Result<()> {
    let (first, last) = (libc::c_long::from(first), libc::c_long::from(u32::MAX));
    let flags = libc::c_long::from(flags);
    // SAFETY: takes no pointer. Whoever owned the descriptors is not running in this process:
    // it either becomes another program or ends in `keeper`.
    check(unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) }).map(drop)
}

/// Copies `from` to the descriptor number `to`, closing what was there.
pub(super) fn copy_fd(from: RawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: takes no pointer; called only in processes whose descriptors nobody else uses.
    check(libc::c_long::from(unsafe { libc::dup2(from, to) })).map(drop)
}

/// Returns a descriptor that becomes readable when `pid` ends.
pub(super) fn open_pid(pid: Pid) -> io::Result<RawFd> {
    let (pid, flags) = (libc::c_long::from(pid), 0 as libc::c_long);
    // SAFETY: takes no pointer.
    let fd = check(unsafe { libc::syscall(libc::SYS_pidfd_open, pid, flags) })?;
    RawFd::try_from(fd).map_err(|_| io::Error::from_raw_os_error(libc::ERANGE))
}

/// Waits until one of two descriptors is readable or hung up, or `pause_ms` have passed (-1: for
/// as long as it takes). Says whether one is.
pub(super) fn wait_for_either(a: RawFd, b: RawFd, pause_ms: i32) -> bool {
    let mut set = [a, b].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    loop {
        // SAFETY: the array outlives the call and its length is 2.
        let ready = unsafe { libc::poll(set.as_mut_ptr(), 2, pause_ms) };
        if ready >= 0 {
            return ready > 0;
        }
    }
}

/// Kills a process, or the group `-target`. One that is gone already is as good as killed.
pub(super) fn kill(target: Pid) {
    // SAFETY: takes no pointer.
    unsafe { libc::kill(target, libc::SIGKILL) };
}

/// Waits for a child (-1: any) and returns its id and status.
pub(super) fn wait(pid: Pid) -> io::Result<(Pid, i32)> {
    let mut status = 0;
    loop {
        // SAFETY: the status is a valid place for the call.
        let ended = unsafe { libc::waitpid(pid, &raw mut status, libc::__WALL) };
        if ended >= 0 {
            return Ok((ended, status));
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINTR) {
            return Err(error);
        }
    }
}

/// Collects a child that has ended, if there is one.
pub(super) fn reap() -> Option<(Pid, i32)> {
    let mut status = 0;
    // SAFETY: the status is a valid place for the call.
    let ended = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::WNOHANG) };
    (ended > 0).then_some((ended, status))
}

/// Ends this process the way `status` says a child ended: its code, or killed.
pub(super) fn end_like(status: Option<i32>) -> ! {
    if let Some(status) = status.filter(|status| libc::WIFEXITED(*status)) {
        exit(libc::WEXITSTATUS(status));
    }
    // SAFETY: takes no pointer. The id is this process's own.
    kill(unsafe { libc::getpid() });
    exit(libc::EXIT_FAILURE)
}

/// Blocks every signal that can be, so that no handler of the host runs in its fork.
pub(super) fn block_signals() {
    // SAFETY: a signal set is plain bits, for which all zero is a value; the three calls get
    // valid pointers to it, and a null one where the old mask is not wanted.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
    }
}

/// Writes a few bytes at once.
pub(super) fn write(fd: RawFd, bytes: &[u8]) -> io::Result<()> {
    // SAFETY: the buffer and its length belong together.
    let written = unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) };
    if written < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Writes a status to `fd`; whoever waits for it makes do without, where that fails.
pub(super) fn send_status(fd: RawFd, status: i32) {
    drop(write(fd, &status.to_ne_bytes()));
}

/// Reads what [`send_status`] wrote, if it did.
pub(super) fn receive_status(fd: RawFd) -> Option<i32> {
    let mut bytes = [0_u8; 4];
    // SAFETY: the buffer and its length belong together.
    let count = unsafe { libc::read(fd, bytes.as_mut_ptr().cast(), bytes.len()) };
    (count == 4).then(|| i32::from_ne_bytes(bytes))
}

// What a mount refuses, `MOUNT_ATTR_…` of the kernel.
pub(super) const READ_ONLY: u64 = 1;
pub(super) const NO_SET_ID: u64 = 2;
pub(super) const NO_DEVICES: u64 = 4;
pub(super) const NO_CODE: u64 = 8;

/// The kernel's `struct mount_attr`.
#[repr(C)]
#[derive(Default)]
struct MountAttributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

fn mount_setattr(
    dir: libc::c_int,
    path: &CStr,
    flags: libc::c_int,
    attributes: &MountAttributes,
) -> io::Result<()> {
    let (dir, flags) = (libc::c_long::from(dir), libc::c_long::from(flags));
    let (call, size) = (libc::SYS_mount_setattr, size_of::<MountAttributes>());
    // SAFETY: the text and the structure, whose size is given, outlive the call.
    let done = unsafe {
        libc::syscall(call, dir, path.as_ptr(), flags, std::ptr::from_ref(attributes), size)
    };
    check(done).map(drop)
}

/// Lets no change of a mount in this namespace be seen in others, nor theirs here.
pub(super) fn keep_mounts_private() -> io::Result<()> {
    let private = MountAttributes { propagation: libc::MS_PRIVATE, ..Default::default() };
    mount_setattr(libc::AT_FDCWD, c"/", libc::AT_RECURSIVE, &private)
}

/// Has the mount `tree`, and `with_all` those in it, refuse more.
pub(super) fn set_attributes(tree: BorrowedFd<'_>, set: u64, with_all: bool) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | if with_all { libc::AT_RECURSIVE } else { 0 };
    let attributes = MountAttributes { set, ..Default::default() };
    mount_setattr(tree.as_raw_fd(), c"", flags, &attributes)
}

/// Takes what a call that makes a descriptor returned.
fn descriptor(result: libc::c_long) -> io::Result<OwnedFd> {
    let fd = RawFd::try_from(check(result)?).map_err(io::Error::other)?;
    // SAFETY: the kernel just made it, and nobody else knows its number.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes an empty file system in memory, which stands nowhere yet.
pub(super) fn memory_file_system() -> io::Result<OwnedFd> {
    /// `FSOPEN_CLOEXEC` and `FSMOUNT_CLOEXEC`.
    const CLOSE_ON_EXEC: libc::c_long = 1;
    /// `FSCONFIG_CMD_CREATE`
    const CREATE: libc::c_long = 6;
    let zero: libc::c_long = 0;
    let (open, config, mount) = (libc::SYS_fsopen, libc::SYS_fsconfig, libc::SYS_fsmount);
    // SAFETY: the name outlives the call.
    let made = descriptor(unsafe { libc::syscall(open, c"tmpfs".as_ptr(), CLOSE_ON_EXEC) })?;
    let fd = libc::c_long::from(made.as_raw_fd());
    // SAFETY: this command takes no key, value or number: null and zeros.
    check(unsafe { libc::syscall(config, fd, CREATE, zero, zero, zero) })?;
    // SAFETY: takes no pointer.
    descriptor(unsafe { libc::syscall(mount, fd, CLOSE_ON_EXEC, zero) })
}

/// Copies the mount of what lies at `path`, with those in it; the copy stands nowhere yet.
pub(super) fn copy_tree(path: &CStr) -> io::Result<OwnedFd> {
    /// `OPEN_TREE_CLONE`
    const CLONE: libc::c_int = 1;
    let here = libc::c_long::from(libc::AT_FDCWD);
    let flags = libc::c_long::from(CLONE | libc::O_CLOEXEC | libc::AT_RECURSIVE);
    // SAFETY: the path outlives the call.
    descriptor(unsafe { libc::syscall(libc::SYS_open_tree, here, path.as_ptr(), flags) })
}

/// Has the mount `tree` stand at `path` below `dir`.
pub(super) fn attach(tree: BorrowedFd<'_>, dir: BorrowedFd<'_>, path: &CStr) -> io::Result<()> {
    /// `MOVE_MOUNT_F_EMPTY_PATH`
    const TREE_ITSELF: libc::c_long = 4;
    let (tree, dir) = (libc::c_long::from(tree.as_raw_fd()), libc::c_long::from(dir.as_raw_fd()));
    let (call, empty) = (libc::SYS_move_mount, c"".as_ptr());
    // SAFETY: both texts outlive the call.
    check(unsafe { libc::syscall(call, tree, empty, dir, path.as_ptr(), TREE_ITSELF) }).map(drop)
}

/// Takes away the mount at `path` and all in it, which nobody finds from then on.
pub(super) fn detach(path: &CStr) -> io::Result<()> {
    // SAFETY: the path outlives the call.
    let done = unsafe { libc::umount2(path.as_ptr(), libc::MNT_DETACH) };
    check(libc::c_long::from(done)).map(drop)
}
