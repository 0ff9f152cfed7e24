//! `kind: Telemetry`: where measurements go. Checked here; this version sends none.

use super::node::Node;
use super::problem::{Problems, Source};
use super::shape::{FLAG, POSITIVE, SHARE, STRING, Shape, TEXT, opt, req};

const EXPORTER: Shape = Shape::Record(&[
    req("type", &Shape::OneOf(&["otlp", "file", "sqlite", "webhook", "console"])),
    opt("endpoint", &STRING),
    opt("path", &STRING),
    opt("auth", &Shape::Record(&[opt("secret_ref", &TEXT)])),
    opt(
        "batch",
        &Shape::Record(&[
            opt("max_size", &POSITIVE),
            opt("flush_interval_ms", &Shape::Int { min: 100 }),
        ]),
    ),
]);

const EVENTS: Shape = Shape::Record(&[
    opt("tool_calls", &FLAG),
    opt("memory_ops", &FLAG),
    opt("world_model_ops", &FLAG),
    opt("planning_ops", &FLAG),
    opt("swarm_ops", &FLAG),
    opt("lifecycle", &FLAG),
    opt("errors", &FLAG),
]);

const METRICS: Shape = Shape::Record(&[
    opt("token_usage", &FLAG),
    opt("cost_usd", &FLAG),
    opt("latency_histogram", &FLAG),
    opt("prediction_error", &FLAG),
    opt("retrieval_hit_rate", &FLAG),
    opt("plan_revision_count", &FLAG),
]);

pub(crate) const SPEC: Shape = Shape::Record(&[
    req("exporters", &Shape::List { of: &EXPORTER, min: 1 }),
    opt("events", &EVENTS),
    opt("metrics", &METRICS),
    opt("sampling", &Shape::Record(&[opt("rate", &SHARE)])),
    opt("redaction", &Shape::Record(&[opt("strip_arguments", &FLAG), opt("strip_results", &FLAG)])),
]);

/// Checks what the shape cannot say: each exporter has somewhere to go.
pub(crate) fn check(source: &Source, spec: &Node, problems: &mut Problems) {
    for exporter in spec.get(&["exporters"]).map(Node::items).unwrap_or_default() {
        let kind = exporter.text(&["type"]).unwrap_or_default();
        let key = match kind {
            "otlp" | "webhook" => "endpoint",
            "file" | "sqlite" => "path",
            _ => continue,
        };
        if exporter.text(&[key]).is_none_or(str::is_empty) {
            let reason = format!("the exporter has no `{key}`");
            problems.invalid(source, exporter.at, reason, format!("`type: {kind}` needs it"));
        }
    }
}
