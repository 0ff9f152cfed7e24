//! What came of the attacks.

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
