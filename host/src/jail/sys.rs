//! The few system calls of the jail that rustix does not have, as safe functions, and what is made
//! of some that it has.
//!
//! All of them, and those of rustix, are safe to call between fork and exec: none allocates or takes
//! a lock.

#![expect(unsafe_code, reason = "raw system calls, each with its argument in a SAFETY comment")]

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;

use rustix::fs::CWD;
use rustix::io::retry_on_intr;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags,
    fsconfig_create, fsmount, fsopen, move_mount, open_tree, unmount,
};
use rustix::process::{self, getpid, getrlimit, kill_process, setrlimit, waitpid};
use rustix::process::{Pid, Resource, Rlimit, Signal, WaitOptions, WaitStatus};

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
    // Ids have less bits than what a call returns.
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ERANGE))?;
    Ok(Pid::from_raw(pid).map_or(Fork::Child, Fork::Parent))
}

/// Ends this process at once, without running anything registered for its exit.
pub(super) fn exit(code: i32) -> ! {
    // SAFETY: takes no pointer and does not return.
    unsafe { libc::_exit(code) }
}

/// Words that a program is given at most, its name among them.
pub(super) const WORDS_MAX: usize = 7;

/// Executes an open program with these words and no environment. Returns where that fails.
pub(super) fn execute(program: BorrowedFd<'_>, words: &[CString]) -> io::Error {
    let (mut argv, envp) = ([ptr::null(); WORDS_MAX + 1], [ptr::null::<libc::c_char>()]);
    argv.iter_mut().zip(words.iter().take(WORDS_MAX)).for_each(|(at, word)| *at = word.as_ptr());
    let (fd, flags) =
        (libc::c_long::from(program.as_raw_fd()), libc::c_long::from(libc::AT_EMPTY_PATH));
    let call = libc::SYS_execveat;
    // SAFETY: the path and the words end with NUL, and both lists with a null pointer; all of them live as long
    // as this image of the process. The descriptor is open while it is borrowed.
    unsafe { libc::syscall(call, fd, c"".as_ptr(), argv.as_ptr(), envp.as_ptr(), flags) };
    io::Error::last_os_error()
}

/// Sets a soft and hard resource limit, where the hard one is not already lower.
pub(super) fn limit(resource: Resource, value: u64) -> io::Result<()> {
    let most = getrlimit(resource).maximum.map_or(value, |most| most.min(value));
    Ok(setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?)
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

/// Kills a process. One that is gone already is as good as killed.
pub(super) fn kill(process: Pid) {
    let _ = kill_process(process, Signal::KILL);
}

/// A child, whatever tells of its end.
const ALL: WaitOptions = WaitOptions::from_bits_retain(libc::__WALL.unsigned_abs());

/// Waits for a child, any where none is named, and returns its id and status.
pub(super) fn wait(child: Option<Pid>) -> io::Result<(Pid, WaitStatus)> {
    // No id means any child of the same group to `waitpid`.
    let ended = retry_on_intr(|| match child {
        Some(child) => waitpid(Some(child), ALL),
        None => process::wait(ALL),
    })?;
    ended.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Collects a child that has ended, if there is one.
pub(super) fn reap() -> Option<(Pid, WaitStatus)> {
    process::wait(ALL | WaitOptions::NOHANG).ok().flatten()
}

/// Ends this process the way a child ended: with its code, or killed.
pub(super) fn end_like(code: Option<i32>) -> ! {
    if let Some(code) = code {
        exit(code);
    }
    kill(getpid());
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

/// Makes an empty file system in memory, which stands nowhere yet.
pub(super) fn memory_file_system() -> io::Result<OwnedFd> {
    let made = fsopen(c"tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&made)?;
    Ok(fsmount(&made, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?)
}

/// Copies the mount of what lies at `path`, with those in it; the copy stands nowhere yet.
pub(super) fn copy_tree(path: &CStr) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    Ok(open_tree(CWD, path, flags | OpenTreeFlags::AT_RECURSIVE)?)
}

/// Has the mount `tree` stand at `path` below `dir`.
pub(super) fn attach(tree: BorrowedFd<'_>, dir: BorrowedFd<'_>, path: &CStr) -> io::Result<()> {
    Ok(move_mount(tree, c"", dir, path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?)
}

/// Takes away the mount at `path` and all in it, which nobody finds from then on.
pub(super) fn detach(path: &CStr) -> io::Result<()> {
    Ok(unmount(path, UnmountFlags::DETACH)?)
}
