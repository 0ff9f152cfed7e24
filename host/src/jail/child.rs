//! What happens between fork and exec: system calls only, in an order that matters.

use std::io;
use std::os::fd::{AsFd, AsRawFd};

use super::keeper;
use super::namespaces::Namespaces;
use super::plan::Plan;
use super::sys::{self, Fork, Pid};

/// The first descriptor that is no standard stream.
const FIRST_PRIVATE: u32 = 3;

/// Turns this fork of the host into the keeper, and a fork of it into the jailed program, in
/// which alone it returns.
///
/// # Errors
/// A step that failed: then nothing may be executed.
pub(super) fn enter(plan: &Plan) -> io::Result<()> {
    sys::new_session()?;
    sys::prctl(libc::PR_SET_CHILD_SUBREAPER, 1)?;
    match &plan.namespaces {
        Some(namespaces) => enter_namespaces(plan, namespaces)?,
        None => enter_group(plan)?,
    }
    restrict(plan)
}

fn enter_group(plan: &Plan) -> io::Result<()> {
    match sys::clone(libc::SIGCHLD)? {
        Fork::Parent(program) => keeper::keep_group(plan.leash.as_raw_fd(), program),
        Fork::Child => Ok(()),
    }
}

fn enter_namespaces(plan: &Plan, namespaces: &Namespaces) -> io::Result<()> {
    let (read, write) = io::pipe()?;
    if let Fork::Parent(init) = namespaces.fork(libc::SIGCHLD)? {
        keeper::keep_namespace(plan.leash.as_raw_fd(), init, read.as_raw_fd());
    }
    // The init: it ends with the keeper, and the namespaces with it.
    sys::prctl(libc::PR_SET_PDEATHSIG, signal(libc::SIGKILL))?;
    if let Some(view) = &namespaces.view {
        view.enter()?;
    }
    if let Fork::Parent(program) = sys::clone(libc::SIGCHLD)? {
        keeper::init(write.as_raw_fd(), program);
    }
    Ok(())
}

/// Gives up everything, in the program itself.
fn restrict(plan: &Plan) -> io::Result<()> {
    // A group of its own, so that `kill 0` inside does not reach the keeper.
    sys::new_group(THIS)?;
    // The handle leads past the mounts of a view, which is in its directory already.
    if plan.namespaces.as_ref().is_none_or(|namespaces| namespaces.view.is_none()) {
        sys::change_dir(plan.workdir.as_fd())?;
    }
    for (resource, value) in plan.limits {
        sys::limit(resource, value)?;
    }
    for members in &plan.members {
        sys::write(members.as_raw_fd(), b"0")?;
    }
    plan.identity.assume()?;
    // After the change of user, which resets it.
    sys::prctl(libc::PR_SET_PDEATHSIG, signal(libc::SIGKILL))?;
    sys::prctl(libc::PR_SET_NO_NEW_PRIVS, 1)?;
    sys::restrict_self(plan.ruleset.as_fd())?;
    sys::close_from(FIRST_PRIVATE, libc::CLOSE_RANGE_CLOEXEC)?;
    for filter in &plan.filters {
        seccompiler::apply_filter(filter).map_err(|_| io::Error::last_os_error())?;
    }
    Ok(())
}

/// This process, to calls that take a process id.
const THIS: Pid = 0;

fn signal(number: libc::c_int) -> libc::c_ulong {
    number.unsigned_abs().into()
}
