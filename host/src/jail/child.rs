//! What happens between fork and exec: system calls only, in an order that matters.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::{
    Signal, fchdir, getpid, set_child_subreaper, set_parent_process_death_signal, setpgid,
    setpriority_process, setsid,
};
use rustix::thread::set_no_new_privs;

use super::keeper;
use super::namespaces::Namespaces;
use super::plan::Plan;
use super::sys::{self, Fork};

/// The first descriptor that is no standard stream.
const FIRST_PRIVATE: u32 = 3;

/// Turns this fork of the host into the keeper, and a fork of it into the jailed program, in
/// which alone it returns, unless that has an image.
///
/// # Errors
/// A step that failed: then nothing may be executed.
pub(super) fn enter(plan: &Plan) -> io::Result<()> {
    setsid()?;
    if let Some((nice, text)) = &plan.nice {
        yield_to_others(*nice, text.as_bytes());
    }
    set_child_subreaper(Some(getpid()))?;
    match &plan.namespaces {
        Some(namespaces) => enter_namespaces(plan, namespaces)?,
        None => enter_group(plan)?,
    }
    restrict(plan)?;
    match &plan.image {
        Some(image) => Err(sys::execute(image.program.as_fd(), &image.words)),
        None => Ok(()),
    }
}

/// Takes a lower priority. Failing to is harmless.
fn yield_to_others(nice: i32, text: &[u8]) {
    let _ = setpriority_process(None, nice);
    // A new session may have been given a share of its own, in which that counts for nothing.
    if let Ok(group) = open(c"/proc/self/autogroup", OFlags::WRONLY, Mode::empty()) {
        let _ = rustix::io::write(group, text);
    }
}

fn enter_group(plan: &Plan) -> io::Result<()> {
    match sys::clone(libc::SIGCHLD)? {
        Fork::Parent(program) => keeper::keep_group(plan.leash.as_fd(), program),
        Fork::Child => Ok(()),
    }
}

fn enter_namespaces(plan: &Plan, namespaces: &Namespaces) -> io::Result<()> {
    let (read, write) = io::pipe()?;
    if let Fork::Parent(init) = namespaces.fork(libc::SIGCHLD)? {
        keeper::keep_namespace(plan.leash.as_fd(), init, read.as_fd());
    }
    // The init: it ends with the keeper, and the namespaces with it.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if let Some(view) = &namespaces.view {
        view.enter()?;
    }
    if let Fork::Parent(program) = sys::clone(libc::SIGCHLD)? {
        keeper::init(write.as_fd(), program);
    }
    Ok(())
}

/// Gives up everything, in the program itself.
fn restrict(plan: &Plan) -> io::Result<()> {
    // A group of its own, so that `kill 0` inside does not reach the keeper.
    setpgid(None, None)?;
    // The handle leads past the mounts of a view, which is in its directory already.
    if plan.namespaces.as_ref().is_none_or(|namespaces| namespaces.view.is_none()) {
        fchdir(&plan.workdir)?;
    }
    for (resource, value) in plan.limits {
        sys::limit(resource, value)?;
    }
    for members in &plan.members {
        rustix::io::write(members, b"0")?;
    }
    plan.identity.assume()?;
    // After the change of user, which resets it.
    set_parent_process_death_signal(Some(Signal::KILL))?;
    set_no_new_privs(true)?;
    sys::restrict_self(plan.ruleset.as_fd())?;
    sys::close_from(FIRST_PRIVATE, libc::CLOSE_RANGE_CLOEXEC)?;
    for filter in &plan.filters {
        seccompiler::apply_filter(filter).map_err(|_| io::Error::last_os_error())?;
    }
    Ok(())
}
