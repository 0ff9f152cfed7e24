//! The two processes around a jailed program, both forks of the host that never run anything
//! but this file: the keeper, and in a process-id namespace its first process, the init.
//!
//! ```text
//! host ── keeper ── init (pid 1 of the namespace) ── /bin/sh ── …
//! host ── keeper ── /bin/sh ── …                          without a namespace
//! ```
//! Neither keeps a descriptor of the host; neither can be traced or signalled from inside.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::retry_on_intr;
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, WaitStatus, kill_process_group, pidfd_open,
    set_dumpable_behavior,
};
use rustix::stdio::{dup2_stdin, dup2_stdout, stdin, stdout};

use super::sys;

// The keeper puts its end of the leash where standard input was, and where standard output was what
// it reads, and init writes, of how the program ended.

/// The first descriptor that is not one of these.
const OTHERS: u32 = 2;
/// Time between two looks for children that have ended: they count as processes until then.
const REAP_PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Holds a program that is a direct child and heads a process group.
///
/// Nothing in the group can leave it (seccomp refuses `setsid` and `setpgid`), and what loses
/// its parent becomes the keeper's child, so that nothing is left when this process ends.
pub(super) fn keep_group(leash: BorrowedFd<'_>, program: Pid) -> ! {
    settle(leash, None);
    let mut status = None;
    let mut note = |(pid, ended): (_, WaitStatus)| {
        if pid == program {
            status = ended.exit_status();
        }
    };
    if let Ok(end) = pidfd_open(program, PidfdFlags::empty()) {
        while !wait_for_either(&end, Some(&REAP_PAUSE)) {
            std::iter::from_fn(sys::reap).for_each(&mut note);
        }
    }
    let _ = kill_process_group(program, Signal::KILL);
    // The group is made by the program's first step, which it may not have reached.
    sys::kill(program);
    // Those killed end by themselves; the kernel lets no fork slip past a signal to a group.
    while let Ok(child) = sys::wait(None) {
        note(child);
    }
    sys::end_like(status)
}

/// Holds a namespace through its init, whose end is the end of all in it.
pub(super) fn keep_namespace(leash: BorrowedFd<'_>, init: Pid, status: BorrowedFd<'_>) -> ! {
    settle(leash, Some(status));
    wait_for_end(init);
    sys::kill(init);
    // Returns when the kernel has ended every process of the namespace.
    drop(sys::wait(Some(init)));
    sys::end_like(received())
}

/// Is the init of a namespace: collects whatever ends in it, until the program does.
pub(super) fn init(status: BorrowedFd<'_>, program: Pid) -> ! {
    isolate();
    // In both places, so that the program's pipes are not kept open here.
    if place(status, status).is_err() {
        sys::exit(libc::EXIT_FAILURE);
    }
    while let Ok((pid, ended)) = sys::wait(None) {
        if pid == program {
            // One that was killed has no code. Whoever waits makes do without, where this fails.
            if let Some(code) = ended.exit_status() {
                let _ = rustix::io::write(stdout(), &code.to_ne_bytes());
            }
            break;
        }
    }
    sys::exit(libc::EXIT_SUCCESS)
}

/// Makes this process nobody's target.
fn isolate() {
    sys::block_signals();
    // Not readable through `/proc` by its own user: this memory is a copy of the host's.
    if set_dumpable_behavior(DumpableBehavior::NotDumpable).is_err() {
        sys::exit(libc::EXIT_FAILURE);
    }
}

/// Puts the descriptors the keeper needs where it expects them and closes all others.
fn settle(leash: BorrowedFd<'_>, status: Option<BorrowedFd<'_>>) {
    isolate();
    // A duplicate of the leash in the status place is closed with the keeper, harmlessly.
    if place(leash, status.unwrap_or(leash)).is_err() {
        // Without a leash there is nobody to end the tree: end it now, by ending its parent.
        sys::end_like(None);
    }
}

/// Puts `leash` and `status`, whose numbers are above 2, in their places and closes all others.
fn place(leash: BorrowedFd<'_>, status: BorrowedFd<'_>) -> io::Result<()> {
    dup2_stdout(status)?;
    dup2_stdin(leash)?;
    sys::close_from(OTHERS, 0)
}

/// Reads the code that init wrote, if the program ended with one.
fn received() -> Option<i32> {
    let mut code = [0; 4];
    let count = rustix::io::read(stdout(), &mut code).ok()?;
    (count == code.len()).then(|| i32::from_ne_bytes(code))
}

/// Waits until `child` ends or the leash is let go, whichever is first.
fn wait_for_end(child: Pid) {
    // Without the descriptor there is no way to wait for both: then end it now.
    if let Ok(ended) = pidfd_open(child, PidfdFlags::empty()) {
        wait_for_either(&ended, None);
    }
}

/// Waits until the leash or `end` is readable or hung up, or the pause is over, if there is one.
/// Says whether one of them is.
fn wait_for_either(end: &OwnedFd, pause: Option<&Timespec>) -> bool {
    let wanted = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
    let mut both = [wanted(stdin()), wanted(end.as_fd())];
    retry_on_intr(|| poll(&mut both, pause)).is_ok_and(|ready| ready > 0)
}
