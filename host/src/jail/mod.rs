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
//! elsewhere resource limits bound each process.
//!
//! Deliberately absent: a terminal, `/proc`, `/tmp`, executing files of the
//! granted directories, making files that run as their owner, changing modes, owners or times of
//! files by path (Landlock does not look at those calls, so seccomp refuses them everywhere), and
//! a filter of addresses where the network is granted (it is the whole of it, or nothing).
//!
//! What stays open, as no kernel call could be refused for it: an interpreter or the dynamic
//! loader runs code that it reads from a granted directory, inside this same jail. And Landlock
//! does not look at metadata: `stat` tells of any path that the user may walk to, granted or not,
//! whether it is there, its size, owner and times; and through an open file its owner changes its
//! mode and times, in a read-only directory as well.

#![allow(clippy::disallowed_methods, reason = "the one place that starts native programs")]
#![cfg_attr(
    not(target_os = "linux"),
    allow(dead_code, reason = "a jail is described but not made")
)]

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
mod plan;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod support;
#[cfg(target_os = "linux")]
mod sys;

#[cfg(not(target_os = "linux"))]
mod elsewhere;

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;

pub use programs::find;
pub use spec::{Command, JailError, JailLimits, JailMount, JailSpec, Outcome, Support};

#[cfg(not(target_os = "linux"))]
pub use elsewhere::{run, support};
#[cfg(target_os = "linux")]
pub use run::run;
#[cfg(target_os = "linux")]
pub use support::support;
