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
mod bridge_hostile;
mod budgets;
mod built_in;
mod catalogs;
mod ckp;
mod cli;
mod code_mode;
mod commands;
mod components;
mod composites;
mod conformance;
mod console;
mod contracts;
mod damage;
mod discover;
mod disk;
mod distribution;
mod docs;
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
mod heap;
mod http;
mod http_tools;
mod interpreters;
mod isolation;
mod leaks;
mod learn;
mod long_results;
mod manifests;
mod manners;
mod memory;
mod narrowing;
mod network_policy;
mod oauth;
mod pictures;
mod plans;
mod pods;
mod policy;
mod promises;
mod provider;
mod proxy;
mod pulls;
mod quarantine;
mod receipts;
mod record;
mod registry;
mod replay;
mod responses;
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
mod turns;
mod vector_memory;
mod web;
mod wrap;
