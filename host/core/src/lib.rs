//! What clawhost decides: limits, errors, names, manifests, schemas, policy, egress, grants.
//!
//! Deliberately absent: I/O, async, clocks, randomness, wasmtime. All of them are arguments
//! here, so every decision can be tested in microseconds and fuzzed without a host.
#![forbid(unsafe_code)]

#[macro_use]
mod tables;

pub mod bridged;
pub mod catalog;
pub mod composite;
pub mod contract;
pub mod descriptor;
pub mod digest;
pub mod egress;
pub mod error;
pub mod exposed;
pub mod find;
pub mod foreign;
pub mod grants;
pub mod imports;
pub mod json;
pub mod lease;
pub mod limits;
pub mod manifest;
pub mod mediate;
pub mod merkle;
pub mod names;
pub mod oauth;
pub mod package;
pub mod policy;
pub mod quarantine;
pub mod quota;
pub mod redact;
pub mod release;
pub mod repair;
pub mod reply;
pub mod retry;
pub mod rpc;
pub mod schema;
pub mod screen;
pub mod shell;
pub mod skills;
pub mod truncate;
pub mod uri;
pub mod violation;
pub mod visible;
