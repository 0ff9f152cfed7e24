//! The tests of clawhost, in one binary: one link for all of them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "these are tests"
)]

mod built_in;
mod cli;
mod damage;
mod drop_in;
mod endings;
mod escape;
mod example;
mod exec;
mod gate;
mod http;
mod isolation;
mod manifests;
mod plans;
mod readme;
mod record;
mod stdio;
mod tidy;
mod web;
