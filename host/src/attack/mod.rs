//! The escape lab: hostile guests run against the profiles of a manifest, and oracles tell from
//! outside whether anything got out.
//!
//! A profile is tried with its own grants and bounds on folders of the lab: nothing of the user's
//! is mounted, no secret of the user's is looked up, and requests go only to addresses that have to
//! be refused.
//!
//! Deliberately absent: what callers, servers and documents can do wrong; tests hold that.

mod corpus;
mod ground;
mod guest;
mod judge;
mod lab;
mod oracles;

use std::io;

use clawhost_core::manifest::{Manifest, Profile};

pub use corpus::{Attack, all, attacks};
pub use guest::{Case, Expected, Guest};
pub use judge::{judge, refusal};
pub use oracles::{CANARY, Snapshot};

/// What came of one attack under one profile.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The attack's name.
    pub attack: String,
    /// The rows of `tests/escape.md` that it tries.
    pub rows: Vec<String>,
    /// The profile that it was tried under.
    pub profile: String,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of an attack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It got nothing, and the host is well.
    Held,
    /// It would show nothing under this profile, for this reason.
    NotTried(String),
    /// The profile, or the guest's code in time, cannot be had on this machine, for this reason.
    Unavailable(String),
    /// Something gave way: what, one sentence each.
    Broken(Vec<String>),
}

/// Tries every attack under every profile that the tools of `manifest` run under, or that its own
/// documents bring, one at a time. No reply and no record may hold any of `hidden`.
///
/// The lab counts the memory, the descriptors and the children of this process: nothing else
/// should run in it.
///
/// # Errors
/// The lab cannot be set up.
pub async fn run(manifest: &Manifest, hidden: &[String]) -> io::Result<Vec<Finding>> {
    let lab = lab::Lab::open()?;
    let mut findings = Vec::new();
    for (number, profile) in profiles(manifest).into_iter().enumerate() {
        findings.extend(lab.attack(number, profile, hidden).await?);
    }
    Ok(findings)
}

/// Returns the profiles that are worth trying: those that something runs under.
fn profiles(manifest: &Manifest) -> Vec<&Profile> {
    let default = manifest.default_profile_name();
    let is_used = |profile: &&Profile| {
        profile.name == default || manifest.tools.iter().any(|tool| tool.sandbox == profile.name)
    };
    manifest.profiles.values().filter(is_used).collect()
}
