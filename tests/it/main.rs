//! The tests of clawhost, in one binary: one link for all of them.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "these are tests"
)]

mod approvals;
mod attack;
mod audit_terms;
mod bridge;
mod bridge_attacks;
mod built_in;
mod ckp;
mod cli;
mod components;
mod contracts;
mod damage;
mod disk;
mod distribution;
mod drop_in;
mod embedding;
mod endings;
mod escape;
mod example;
mod exec;
mod exposed;
mod files;
mod filters;
mod find_tool;
mod fuzz;
mod gate;
mod http;
mod interpreters;
mod isolation;
mod manifests;
mod memory;
mod narrowing;
mod plans;
mod policy;
mod promises;
mod provider;
mod quarantine;
mod readme;
mod record;
mod registry;
mod replay;
mod restricted;
mod retry;
mod secrets;
mod shell;
mod soak;
mod stdio;
mod swarm;
mod switches;
mod telemetry;
mod tidy;
mod tools;
mod web;
