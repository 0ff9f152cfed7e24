//! The two processes around a jailed program, both forks of the host that never run anything
//! but this file: the keeper, and in a process-id namespace its first process, the init.
//!
//! ```text
//! host ── keeper ── init (pid 1 of the namespace) ── /bin/sh ── …
//! host ── keeper ── /bin/sh ── …                          without a namespace
//! ```
//! Neither keeps a descriptor of the host; neither can be traced or signalled from inside.

use std::os::fd::RawFd;

use super::sys::{self, Pid};

/// Where the keeper puts its end of the leash.
const LEASH: RawFd = 0;
/// Where the keeper reads, and init writes, how the program ended.
const STATUS: RawFd = 1;
/// The first descriptor that is not one of these.
const OTHERS: u32 = 2;
/// Time between two looks for children that have ended: they count as processes until then.
const REAP_PAUSE_MS: i32 = 50;
/// No time after which to stop waiting.
const FOREVER: i32 = -1;

/// Holds a program that is a direct child and heads a process group.
///
/// Nothing in the group can leave it (seccomp refuses `setsid` and `setpgid`), and what loses
/// its parent becomes the keeper's child, so that nothing is left when this process ends.
pub(super) fn keep_group(leash: RawFd, program: Pid) -> ! {
    settle(leash, None);
    let mut status = None;
    let mut note = |(pid, ended)| {
        if pid == program {
            status = Some(ended);
        }
    };
    if let Ok(end) = sys::open_pid(program) {
        while !sys::wait_for_either(LEASH, end, REAP_PAUSE_MS) {
            std::iter::from_fn(sys::reap).for_each(&mut note);
        }
    }
    sys::kill(-program);
    // The group is made by the program's first step, which it may not have reached.
    sys::kill(program);
    // Those killed end by themselves; the kernel lets no fork slip past a signal to a group.
    while let Ok(child) = sys::wait(-1) {
        note(child);
    }
    sys::end_like(status)
}

/// Holds a namespace through its init, whose end is the end of all in it.
pub(super) fn keep_namespace(leash: RawFd, init: Pid, status: RawFd) -> ! {
    settle(leash, Some(status));
    wait_for_end(init);
    sys::kill(init);
    // Returns when the kernel has ended every process of the namespace.
    drop(sys::wait(init));
    sys::end_like(sys::receive_status(STATUS))
}

/// Is the init of a namespace: collects whatever ends in it, until the program does.
pub(super) fn init(status: RawFd, program: Pid) -> ! {
    isolate();
    // In both places, so that the program's pipes are not kept open here.
    let moved = sys::copy_fd(status, STATUS)
        .and_then(|()| sys::copy_fd(status, LEASH))
        .and_then(|()| sys::close_from(OTHERS, 0));
    if moved.is_err() {
        sys::exit(libc::EXIT_FAILURE);
    }
    while let Ok((pid, ended)) = sys::wait(-1) {
        if pid == program {
            sys::send_status(STATUS, ended);
            break;
        }
    }
    sys::exit(libc::EXIT_SUCCESS)
}

/// Makes this process nobody's target.
fn isolate() {
    sys::block_signals();
    // Not readable through `/proc` by its own user: this memory is a copy of the host's.
    if sys::prctl(libc::PR_SET_DUMPABLE, 0).is_err() {
        sys::exit(libc::EXIT_FAILURE);
    }
}

/// Puts the descriptors the keeper needs where it expects them and closes all others.
fn settle(leash: RawFd, status: Option<RawFd>) {
    isolate();
    // A duplicate of the leash in the status place is closed with the keeper, harmlessly.
    // The status goes first: the numbers given are above 2, so neither overwrites the other.
    let moved = sys::copy_fd(status.unwrap_or(leash), STATUS)
        .and_then(|()| sys::copy_fd(leash, LEASH))
        .and_then(|()| sys::close_from(OTHERS, 0));
    if moved.is_err() {
        // Without a leash there is nobody to end the tree: end it now, by ending its parent.
        sys::end_like(None);
    }
}

/// Waits until `child` ends or the leash is let go, whichever is first.
fn wait_for_end(child: Pid) {
    // Without the descriptor there is no way to wait for both: then end it now.
    if let Ok(ended) = sys::open_pid(child) {
        sys::wait_for_either(LEASH, ended, FOREVER);
    }
}
