//! The jail: native programs under Landlock, seccomp, resource limits and a session of their own.
//!
//! This is the only place of the host that starts a process. What makes a jail is built before
//! the fork; between fork and exec there are system calls and nothing else, so that it works
//! inside any multi-threaded program. A system that cannot give both Landlock and seccomp gets
//! a refusal, never a weaker jail.
//!
//! A jailed program is a tree of processes below a *keeper*, a fork of the host that holds one
//! end of a pipe, the leash. When the other end closes, be it at the deadline, because the call
//! was dropped or because the host was killed, the keeper kills the tree and waits for it.
//!
//! Where the host may make control groups, one bounds the memory and the processes of the tree;
//! elsewhere resource limits bound the memory of each process and, in a user namespace, the
//! processes of the tree. Where it may make mount namespaces, the tree has a root of its own
//! (`view`); without one, Landlock alone stands before the files.
//!
//! Deliberately absent: a terminal, `/proc`, `/tmp`, executing files of the
//! granted directories, making files that run as their owner, changing modes, owners or times of
//! files by path and setting extended attributes (Landlock does not look at those calls, so seccomp
//! refuses them everywhere), opening files for neither reading nor writing, which passes it too, and
//! a filter of addresses where the network is granted (it is the whole of it, or nothing).
//!
//! Without process ids of its own a tree sees those outside, and a filter of system calls cannot
//! tell whose an id is: a program then sets priority, processors and limits of itself alone.
//! Landlock keeps signals inside from ABI 6 up; below, a program signals its whole group and nothing
//! else, not even its own children.
//!
//! What stays open: an interpreter runs what it reads in a granted directory, inside this same
//! jail. Without a mount namespace the dynamic loader does so, too; `stat` tells of any path that
//! the user may walk to whether it is there, its size, owner and times; and through an open file
//! its owner changes its mode and times, in a read-only directory as well.

#![expect(clippy::disallowed_methods, reason = "the one place that starts native programs")]
#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "a jail is described but not made")
)]

mod granted;
mod programs;
mod spec;

#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
mod child;
#[cfg(target_os = "linux")]
mod files;
#[cfg(target_os = "linux")]
mod filter;
#[cfg(target_os = "linux")]
mod identity;
#[cfg(target_os = "linux")]
mod keeper;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod plan;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod support;
#[cfg(target_os = "linux")]
mod sys;
#[cfg(target_os = "linux")]
mod view;

#[cfg(not(target_os = "linux"))]
mod elsewhere;

#[cfg(test)]
#[cfg(target_os = "linux")]
pub(crate) mod tests;

pub use granted::grants_network;
pub use programs::find;
pub(crate) use programs::not_found;
pub(crate) use spec::NOWHERE;
pub use spec::{Command, JailError, JailLimits, JailMount, JailSpec, Outcome, Support};

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{Child, run, start, support};
#[cfg(target_os = "linux")]
pub use run::{Child, run, start};
#[cfg(target_os = "linux")]
pub use support::support;
