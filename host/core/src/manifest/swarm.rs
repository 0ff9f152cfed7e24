//! `kind: Swarm`: agents that work together, read into a [`SwarmPlan`].
//!
//! The agents are names: they may be identities of this host or of others, which connect to it.
//! Deliberately absent: starting an agent. Who works is who connects.

use std::time::Duration;

use super::node::Node;
use super::primitive::Primitive;
use super::problem::Problems;
use super::refs::local_name;
use super::shape::{COUNT, FLAG, NUMBER, POSITIVE, Shape, TEXT, opt, req, shown};
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
    /// Tasks outlive the host: `backend: sqlite-wal`.
    pub durable: bool,
    /// Tasks that run at the same time, in the whole swarm; nothing means no bound of its own.
    pub parallel_max: Option<usize>,
    /// An agent runs one task at a time for each that there is of it.
    pub sequential: bool,
    /// What becomes of failures.
    pub failure: FailurePlan,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// What becomes of failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct FailurePlan {
    /// Times a failed task is given out again.
    pub retries: u64,
    /// Tasks that failed for good are kept to be looked at.
    pub dead_letter: bool,
    /// When an agent gets no more work for a while.
    pub breaker: Option<Breaker>,
}

/// When an agent gets no more work for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Breaker {
    /// Failures in a row.
    pub failures: u64,
    /// How long.
    pub reset: Duration,
}

/// How long an agent gets no more work where the document does not say.
const BREAKER_RESET_MS: u64 = 60_000;

const AGENT: Shape = Shape::Record(&[
    req("identity_ref", &TEXT),
    req("role", &TEXT),
    opt("provider_ref", &TEXT),
    opt("count", &POSITIVE),
]);

const CONCURRENCY: Shape =
    Shape::Record(&[opt("max_parallel", &POSITIVE), opt("sequential_within_agent", &FLAG)]);

const COORDINATION: Shape = Shape::Record(&[
    req("message_passing", &Shape::OneOf(&["queue", "shared-memory", "event-bus", "direct"])),
    req("backend", &Shape::OneOf(&["sqlite-wal", "redis", "nats", "in-process"])),
    req("concurrency", &CONCURRENCY),
]);

const AGGREGATION: Shape = Shape::Record(&[
    req(
        "strategy",
        &Shape::OneOf(&["leader-decides", "majority-vote", "merge", "chain", "best-of-n"]),
    ),
    opt("cost_aware", &FLAG),
    opt("timeout_ms", &COUNT),
]);

const FAILURE: Shape = Shape::Record(&[
    opt("retry_per_agent", &COUNT),
    opt("dead_letter", &Shape::Record(&[opt("enabled", &FLAG), opt("max_retries", &COUNT)])),
    opt(
        "circuit_breaker",
        &Shape::Record(&[opt("failure_threshold", &POSITIVE), opt("reset_timeout_ms", &COUNT)]),
    ),
]);

const RESOURCES: Shape = Shape::Record(&[
    opt("max_total_tokens", &COUNT),
    opt("max_total_cost_usd", &NUMBER),
    opt("max_duration_ms", &COUNT),
]);

pub(crate) const SPEC: Shape = Shape::Record(&[
    req(
        "topology",
        &Shape::OneOf(&["leader-worker", "peer-to-peer", "pipeline", "broadcast", "hierarchical"]),
    ),
    req("agents", &Shape::List { of: &AGENT, min: 1 }),
    req("coordination", &COORDINATION),
    req("aggregation", &AGGREGATION),
    opt("failure", &FAILURE),
    opt("resource_limits", &RESOURCES),
]);

/// Checks what the shape cannot say: names of agents, their number, a backend this host has.
pub(crate) fn check(of: &Primitive, problems: &mut Problems) {
    let agents = of.spec.get(&["agents"]).map(Node::items).unwrap_or_default();
    for agent in agents {
        let Some(node) = agent.get(&["identity_ref"]) else { continue };
        let text = node.as_text().unwrap_or_default();
        if local_name(text, Kind::Identity).is_none() {
            let reason = format!("`{}` names no identity", shown(text));
            let help = "write the name of an identity, or claw://identity/<name>";
            problems.invalid(&of.source, node.at, reason, help);
        }
    }
    let counts = agents.iter().map(|agent| agent.number(&["count"]).unwrap_or(1));
    if counts.fold(0_u64, u64::saturating_add) > SWARM_AGENTS_MAX as u64 {
        let help = format!("a swarm has at most {SWARM_AGENTS_MAX}, counting each of a role's");
        problems.invalid(&of.source, of.at, "too many agents", help);
    }
    check_backend(of, problems);
}

fn check_backend(of: &Primitive, problems: &mut Problems) {
    let Some(node) = of.spec.get(&["coordination", "backend"]) else { return };
    let backend = node.as_text().unwrap_or_default();
    if matches!(backend, "redis" | "nats") {
        let reason = format!("`backend: {backend}` is not served by this version");
        problems.invalid(
            &of.source,
            node.at,
            reason,
            "write `backend: in-process`, or `sqlite-wal` to keep tasks",
        );
    }
}

/// Returns the plan a checked document holds.
pub(crate) fn read(of: &Primitive) -> SwarmPlan {
    let spec = &of.spec;
    let agents = spec.get(&["agents"]).map(Node::items).unwrap_or_default();
    let size = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
    let concurrency = |key| ["coordination", "concurrency", key];
    SwarmPlan {
        name: of.name.clone(),
        topology: topology(spec),
        agents: agents.iter().filter_map(agent).collect(),
        durable: spec.text(&["coordination", "backend"]) == Some("sqlite-wal"),
        parallel_max: spec.number(&concurrency("max_parallel")).map(size),
        sequential: spec.flag(&concurrency("sequential_within_agent")) == Some(true),
        failure: failure(spec),
        tokens_max: spec.number(&["resource_limits", "max_total_tokens"]),
        duration_max: spec
            .number(&["resource_limits", "max_duration_ms"])
            .map(Duration::from_millis),
    }
}

fn topology(spec: &Node) -> Topology {
    match spec.text(&["topology"]) {
        Some("broadcast") => Topology::Broadcast,
        Some("hierarchical") => Topology::Hierarchical,
        Some("peer-to-peer") => Topology::PeerToPeer,
        Some("pipeline") => Topology::Pipeline,
        _ => Topology::LeaderWorker,
    }
}

fn agent(node: &Node) -> Option<SwarmAgent> {
    let count = node.number(&["count"]).and_then(|count| usize::try_from(count).ok());
    Some(SwarmAgent {
        identity: local_name(node.text(&["identity_ref"])?, Kind::Identity)?,
        role: node.text(&["role"])?.to_owned(),
        count: count.unwrap_or(1),
    })
}

fn failure(spec: &Node) -> FailurePlan {
    let dead_letter = spec.flag(&["failure", "dead_letter", "enabled"]) == Some(true);
    let again = spec.number(&["failure", "dead_letter", "max_retries"]).filter(|_| dead_letter);
    let breaker = |key| spec.number(&["failure", "circuit_breaker", key]);
    let retries = spec.number(&["failure", "retry_per_agent"]).unwrap_or(0);
    FailurePlan {
        retries: retries.saturating_add(again.unwrap_or(0)),
        dead_letter,
        breaker: breaker("failure_threshold").map(|failures| Breaker {
            failures,
            reset: Duration::from_millis(breaker("reset_timeout_ms").unwrap_or(BREAKER_RESET_MS)),
        }),
    }
}

/// Names what a document asks for and this host leaves to the agents.
pub(crate) fn unserved(spec: &Node) -> impl Iterator<Item = String> {
    const UNSERVED: [(&[&str], &str); 4] = [
        (
            &["aggregation", "strategy"],
            "`aggregation.strategy` (whoever gave a task gets each report)",
        ),
        (&["aggregation", "cost_aware"], "`aggregation.cost_aware`"),
        (&["aggregation", "timeout_ms"], "`aggregation.timeout_ms`"),
        (
            &["resource_limits", "max_total_cost_usd"],
            "`resource_limits.max_total_cost_usd` (reports state no cost)",
        ),
    ];
    let asked = UNSERVED.into_iter().filter(|(path, _)| spec.get(path).is_some());
    asked.map(|(_, what)| what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::primitive::{Document, read_document};
    use crate::manifest::problem::DocumentError;
    use std::path::Path;

    fn document(agents: &str, rest: &str) -> Result<SwarmPlan, Vec<String>> {
        let text = format!(
            "claw: '0.3.0'\nkind: Swarm\nmetadata: {{ name: crew }}\nspec:\n  topology: pipeline\n  agents: {agents}\n  aggregation: {{ strategy: chain }}\n{rest}"
        );
        let mut problems = Problems::default();
        let read = read_document(Path::new("s.yaml"), text.as_bytes(), &mut problems);
        let plan = match read {
            Some(Document::Primitive(of)) if of.sound => Some(super::read(&of)),
            _ => None,
        };
        problems.finish(plan).map_err(|list| list.iter().map(DocumentError::one_line).collect())
    }

    #[test]
    fn a_document_becomes_a_plan() {
        let rest = "  coordination: { message_passing: queue, backend: sqlite-wal, concurrency: { max_parallel: 3, sequential_within_agent: true } }\n  failure: { retry_per_agent: 1, dead_letter: { enabled: true, max_retries: 2 }, circuit_breaker: { failure_threshold: 4 } }\n  resource_limits: { max_total_tokens: 9, max_duration_ms: 50 }\n";
        let agents = "[{ identity_ref: a, role: first }, { identity_ref: 'claw://identity/b', role: x, count: 2 }]";
        let plan = document(agents, rest).unwrap();
        assert_eq!(plan.topology, Topology::Pipeline);
        assert_eq!(plan.agents[1], SwarmAgent { identity: "b".into(), role: "x".into(), count: 2 });
        assert!(plan.durable && plan.sequential && plan.failure.dead_letter);
        assert_eq!(
            (plan.parallel_max, plan.failure.retries, plan.tokens_max),
            (Some(3), 3, Some(9))
        );
        let reset = Duration::from_millis(BREAKER_RESET_MS);
        assert_eq!(plan.failure.breaker, Some(Breaker { failures: 4, reset }));
        assert_eq!(plan.duration_max, Some(Duration::from_millis(50)));
    }

    #[test]
    fn foreign_backends_wrong_names_and_crowds_are_refused() {
        let here =
            "  coordination: { message_passing: queue, backend: in-process, concurrency: {} }\n";
        let redis = here.replace("in-process", "redis");
        let fine = "[{ identity_ref: a, role: r }]";
        for (agents, rest, part) in [
            (fine, redis.as_str(), "not served by this version"),
            ("[{ identity_ref: 'claw://tool/a', role: r }]", here, "names no identity"),
            ("[{ identity_ref: a, role: r, count: 1001 }]", here, "too many agents"),
        ] {
            let problems = document(agents, rest).unwrap_err();
            assert!(problems.len() == 1 && problems[0].contains(part), "{problems:?}");
        }
        assert!(document(fine, here).is_ok());
    }
}
