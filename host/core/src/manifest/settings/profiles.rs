//! `profiles`: what sandbox profiles get beside their documents.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::SecretSettings;
use crate::grants::{AgentGrants, Shell};
use crate::manifest::Profile;
use crate::manifest::node::Place;
use crate::manifest::problem::Problems;
use crate::package::VerifyingKey;

/// One of `profiles`: what a sandbox profile gets beside its document.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default)]
pub struct ProfileSettings {
    /// The environment of guests and processes.
    pub env: BTreeMap<String, String>,
    /// Ports that may be reached instead of the web's.
    pub ports: Option<Vec<u16>>,
    /// Programs that a restricted shell runs beside its own list, with any arguments.
    pub programs: Vec<String>,
    /// Whether the manifest's language model providers may be asked.
    pub provider: bool,
    /// Whether keys and values are kept for agents; as the profile has it where this is absent.
    pub memory: Option<bool>,
    /// Whether tools are told what completions cost all agents.
    pub all_costs: bool,
    /// The channels its tools may send messages to.
    pub channels: BTreeSet<String>,
    /// Calls of other tools that one call may make; as the profile has it where this is absent.
    pub tool_calls_max: Option<usize>,
    /// What becomes of results that are too large for a reply.
    pub oversize: Oversize,
    /// Whether calls are recorded, to be run again.
    pub record: bool,
    /// Bytes one call may write to its directories; the host's bound where this is absent.
    pub write_bytes_max: Option<u64>,
    /// Files and directories one call may create; the host's bound where this is absent.
    pub create_entries_max: Option<u64>,
    /// The secrets its tools may use.
    #[serde(skip)]
    pub secrets: Vec<SecretSettings>,
    /// Whose signature its tools need, as [`super::ToolSettings::signed_by`].
    #[serde(skip)]
    pub signed_by: Vec<VerifyingKey>,
    #[serde(skip)]
    pub(super) at: Place,
}

/// `profiles.<name>.oversize`: what becomes of results that are too large for a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Oversize {
    /// They are cut.
    #[default]
    Cut,
    /// They are cut, and kept for a while to be read in pages.
    Keep,
}

impl ProfileSettings {
    pub(super) fn apply(&self, profile: &mut Profile, problems: &mut Problems) {
        profile.env.clone_from(&self.env);
        profile.provider = self.provider;
        profile.record = self.record;
        profile.signed_by.clone_from(&self.signed_by);
        profile.agent = AgentGrants {
            memory: self.memory.unwrap_or(profile.agent.memory),
            all_costs: self.all_costs,
            channels: self.channels.clone(),
            tool_calls: self.tool_calls_max.unwrap_or(profile.agent.tool_calls),
        };
        profile.shell_rules.programs.clone_from(&self.programs);
        profile.limits.write_bytes = self.write_bytes_max;
        profile.limits.create_entries = self.create_entries_max;
        profile.secrets.clear();
        self.secrets.iter().for_each(|secret| secret.apply(profile, problems));
        if let (Some(ports), Some(rules)) = (&self.ports, &mut profile.network) {
            rules.ports.clone_from(ports);
        }
        for (key, why, help) in self.unfit(profile) {
            let reason = format!("`{key}` for the profile `{}`, {why}", profile.name);
            problems.invalid(
                &self.at,
                reason,
                format!("give its document {help}, or leave it out"),
            );
        }
    }

    /// Returns which keys do nothing for `profile`, why, and what its document would have to say.
    fn unfit(
        &self,
        profile: &Profile,
    ) -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
        let is_restricted = [&profile.shell, &profile.wasm_shell].contains(&&Shell::Restricted);
        let is_native = profile.shell != Shell::Deny;
        // What guests write is counted, and what native programs write is not.
        let (binds_not, deny) = ("whose native programs it cannot bind", "`shell.mode: deny`");
        let (no_network, open) = ("which has no network", "`network.mode: allowlist`");
        let (is_open, restricted) = ("whose shell is not restricted", "`shell.mode: restricted`");
        let rows = [
            (self.ports.is_some() && profile.network.is_none(), ("ports", no_network, open)),
            (!self.programs.is_empty() && !is_restricted, ("programs", is_open, restricted)),
            (self.write_bytes_max.is_some() && is_native, ("write_bytes_max", binds_not, deny)),
            (
                self.create_entries_max.is_some() && is_native,
                ("create_entries_max", binds_not, deny),
            ),
        ];
        rows.into_iter().filter(|(is_unfit, _)| *is_unfit).map(|(_, row)| row)
    }
}

/// Notes what makes a restricted shell as good as a full one.
pub(super) fn unbounded(profile: &Profile) -> Option<String> {
    let programs: Vec<&str> = profile.shell_rules.unbounded().collect();
    (!programs.is_empty()).then(|| format!(
        "the profile `{}` lists {}, which run whatever they are told: that is as much as `shell.mode: full`",
        profile.name,
        programs.join(", ")
    ))
}
