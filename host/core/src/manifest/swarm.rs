//! `kind: Swarm`: agents that work together, read into a [`SwarmPlan`].
//!
//! The agents are names: the Claw's own identity, and those that the runtime file gives to who connects.
//! Deliberately absent: starting an agent. Who works is who connects.

use std::time::Duration;

use serde::Deserialize;

use super::node::{Node, Place};
use super::primitive::Document;
use super::problem::Problems;
use super::refs::local_name;
use crate::limits::SWARM_AGENTS_MAX;
use crate::uri::Kind;

/// Agents that work together, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwarmPlan {
    /// The document's name.
    pub name: String,
    /// Who may give work to whom.
    pub topology: Topology,
    /// The agents, in the order of the document.
    pub agents: Vec<SwarmAgent>,
    /// Tasks that run at the same time, in the whole swarm; nothing means no bound of its own.
    pub parallel_max: Option<usize>,
    /// An agent runs one task at a time for each that there is of it.
    pub sequential: bool,
    /// Times a failed task is given out again.
    pub retries: u64,
    /// Tokens that reports may add up to; then no task is taken any more.
    pub tokens_max: Option<u64>,
    /// Time a task may take, from when it was given.
    pub duration_max: Option<Duration>,
}

/// One of the agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SwarmAgent {
    /// The name of its identity.
    pub identity: String,
    /// What it does; `leader` means something to [`Topology::LeaderWorker`].
    pub role: String,
    /// How many there are of it.
    pub count: usize,
}

/// Who may give work to whom. Somebody outside the swarm gives work to its first agent or leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// To all others at once; the first to complete it ends it.
    Broadcast,
    /// To those that are listed after it.
    Hierarchical,
    /// Leaders to those that are none, and these to leaders.
    LeaderWorker,
    /// To any other.
    PeerToPeer,
    /// To the next in the list.
    Pipeline,
}

/// Checks what the shape cannot say: the number of agents.
pub(crate) fn check(of: &Document, report: &mut Problems) {
    let agents = of.spec.list(&["agents"]);
    let counts = agents.iter().map(|agent| agent.number(&["count"]).unwrap_or(1));
    if counts.fold(0_u64, u64::saturating_add) > SWARM_AGENTS_MAX as u64 {
        let help = format!("a swarm has at most {SWARM_AGENTS_MAX}, counting each of a role's");
        report.invalid(&of.at, "too many agents", help);
    }
}

/// Returns the plan a checked document holds.
pub(crate) fn read(of: &Document) -> SwarmPlan {
    let spec = &of.spec;
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let concurrency = |key| ["coordination", "concurrency", key];
    SwarmPlan {
        name: of.name.clone(),
        topology: spec.read(&["topology"]).unwrap_or(Topology::LeaderWorker),
        agents: spec.list(&["agents"]).iter().filter_map(agent).collect(),
        parallel_max: spec.number(&concurrency("max_parallel")).map(size),
        sequential: spec.flag(&concurrency("sequential_within_agent")) == Some(true),
        retries: spec.number(&["failure", "retry_per_agent"]).unwrap_or(0),
        tokens_max: spec.number(&["resource_limits", "max_total_tokens"]),
        duration_max: spec
            .number(&["resource_limits", "max_duration_ms"])
            .map(Duration::from_millis),
    }
}

/// Returns the identities of a document's agents, and where each stands.
pub(crate) fn members(of: &Document) -> impl Iterator<Item = (String, Place)> {
    of.spec.list(&["agents"]).iter().filter_map(|agent| {
        let node = agent.get(&["identity_ref"])?;
        Some((local_name(node.as_text()?, Kind::Identity)?, node.at.clone()))
    })
}

fn agent(node: &Node) -> Option<SwarmAgent> {
    let count = node.number(&["count"]).and_then(|count| usize::try_from(count).ok());
    Some(SwarmAgent {
        identity: local_name(node.text(&["identity_ref"])?, Kind::Identity)?,
        role: node.text(&["role"])?.to_owned(),
        count: count.unwrap_or(1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::primitive::read_document;
    use crate::manifest::problem::{DocumentError, Problems};
    use crate::manifest::refs::{self, Known};
    use std::path::Path;

    fn document(agents: &str, rest: &str) -> Result<SwarmPlan, Vec<String>> {
        let text = format!(
            "claw: '0.3.0'\nkind: Swarm\nmetadata: {{ name: crew }}\nspec:\n  topology: pipeline\n  agents: {agents}\n  aggregation: {{ strategy: chain }}\n{rest}"
        );
        let mut problems = Problems::default();
        let read = read_document(Path::new("s.yaml"), text.as_bytes(), &mut problems);
        let plan = match read {
            Some(of) if of.sound => {
                refs::check(&of, &Known::default(), &mut problems);
                Some(super::read(&of))
            }
            _ => None,
        };
        problems.finish(plan).map_err(|list| list.iter().map(DocumentError::one_line).collect())
    }

    #[test]
    fn a_document_becomes_a_plan() {
        let rest = "  coordination: { message_passing: queue, backend: in-process, concurrency: { max_parallel: 3, sequential_within_agent: true } }\n  failure: { retry_per_agent: 1, dead_letter: { enabled: true, max_retries: 2 }, circuit_breaker: { failure_threshold: 4 } }\n  resource_limits: { max_total_tokens: 9, max_duration_ms: 50 }\n";
        let agents = "[{ identity_ref: a, role: first }, { identity_ref: 'claw://identity/b', role: x, count: 2 }]";
        let plan = document(agents, rest).unwrap();
        assert_eq!(plan.topology, Topology::Pipeline);
        assert_eq!(plan.agents[1], SwarmAgent { identity: "b".into(), role: "x".into(), count: 2 });
        assert!(plan.sequential);
        assert_eq!((plan.parallel_max, plan.retries, plan.tokens_max), (Some(3), 1, Some(9)));
        assert_eq!(plan.duration_max, Some(Duration::from_millis(50)));
    }

    #[test]
    fn foreign_backends_wrong_names_and_crowds_are_refused() {
        let here =
            "  coordination: { message_passing: queue, backend: in-process, concurrency: {} }\n";
        let redis = here.replace("in-process", "redis");
        let kept = here.replace("in-process", "sqlite-wal");
        let fine = "[{ identity_ref: a, role: r }]";
        for (agents, rest, part) in [
            (fine, redis.as_str(), "not served by this version"),
            (fine, kept.as_str(), "not served by this version"),
            ("[{ identity_ref: 'claw://tool/a', role: r }]", here, "is a Tool"),
            ("[{ identity_ref: a, role: r, count: 1001 }]", here, "too many agents"),
        ] {
            let problems = document(agents, rest).unwrap_err();
            assert!(problems.len() == 1 && problems[0].contains(part), "{problems:?}");
        }
        assert!(document(fine, here).is_ok());
    }
}
