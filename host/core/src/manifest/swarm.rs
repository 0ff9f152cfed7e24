//! `kind: Swarm`: agents that work together. Checked here; this version joins none.

use super::shape::{COUNT, FLAG, NUMBER, POSITIVE, Shape, TEXT, opt, req};

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
