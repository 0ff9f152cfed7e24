//! `agents`: who may call, and as whom.

use std::collections::BTreeSet;
use std::path::PathBuf;

use crate::manifest::Manifest;
use crate::manifest::node::Place;
use crate::manifest::problem::{Problems, choices};
use crate::manifest::shape::shown;

/// Who calls over standard input. What `agents` says of that name is about this caller, who has no
/// token: over HTTP nobody is it.
pub const STDIO_PRINCIPAL: &str = "stdio";
/// Whom else the host itself calls and decides as; no agent is called so.
pub(super) const OWN_PRINCIPALS: [&str; 2] = ["cli", "operator"];

/// One of `agents`: somebody who may call tools.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentSettings {
    /// The name of its token.
    pub name: String,
    /// Whether its own client may ask its user to approve its calls.
    pub elicitation: bool,
    /// Who it is in the host's swarms; the host's own identity where this is absent.
    pub identity: Option<String>,
    /// The documents of its skills; it may have any tool where absent.
    pub(super) skills: Vec<(PathBuf, Place)>,
    pub(super) at: Place,
}

impl AgentSettings {
    /// An agent is the host's own identity, or a member of one of its swarms.
    pub(super) fn check(&self, manifest: &Manifest, problems: &mut Problems) {
        let Some(name) = self.identity.as_deref() else { return };
        let members = manifest.swarms.iter().flat_map(|swarm| &swarm.agents);
        let members = members.map(|agent| agent.identity.as_str());
        let known: BTreeSet<&str> = members.chain([manifest.identity.as_str()]).collect();
        if !known.contains(name) {
            let reason = format!("no swarm has an agent of the identity `{}`", shown(name));
            problems.missing(&self.at, reason, choices(name, known));
        }
    }
}
