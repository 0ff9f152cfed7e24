//! `kind: Telemetry`: where measurements go, read into a [`TelemetryPlan`].
//!
//! What a document leaves out about events and metrics is on, as the protocol has no other way to
//! say "all"; what it leaves out about redaction is stripped. Deliberately absent: prompts and the
//! bodies of providers, which no document can ask for.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::node::Node;
use super::primitive::Document;
use super::sandbox::tidy;
use crate::limits::{TELEMETRY_BATCH_MAX, TELEMETRY_FLUSH_MS, TELEMETRY_QUEUE_MAX};

/// Where measurements go, and which.
#[derive(Debug, Clone, PartialEq)]
pub struct TelemetryPlan {
    /// The document's name.
    pub name: String,
    /// Where they go.
    pub exporters: Vec<ExporterPlan>,
    /// Which events are emitted.
    pub events: EventFlags,
    /// Which measurements are taken.
    pub metrics: MetricFlags,
    /// The share of tool calls that become events, 0 to 1. Metrics count all of them.
    pub sampling_rate: f64,
    /// A placeholder stands for the arguments of calls.
    pub strip_arguments: bool,
    /// A placeholder stands for the results of calls.
    pub strip_results: bool,
}

impl TelemetryPlan {
    /// Returns a plan that emits nothing and measures everything, for who comes and asks.
    pub(crate) fn of_metrics() -> Self {
        Self {
            name: "metrics".to_owned(),
            exporters: Vec::new(),
            events: EventFlags::default(),
            metrics: MetricFlags::ALL,
            sampling_rate: 1.0,
            strip_arguments: true,
            strip_results: true,
        }
    }
}

/// One place that events and measurements go to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExporterPlan {
    /// Which.
    pub kind: ExporterKind,
    /// The name of the secret that is sent as a bearer token.
    pub secret: Option<String>,
    /// Events of one batch, at most.
    pub batch_max: usize,
    /// Time an event waits for its batch to fill.
    pub flush_interval: Duration,
}

/// What kind of place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExporterKind {
    /// Lines of JSON on standard error.
    Console,
    /// Lines of JSON in a file.
    File(PathBuf),
    /// A collector that takes OTLP over HTTP, below this URL.
    Otlp(String),
    /// A table in an SQLite file.
    Sqlite(PathBuf),
    /// A server that takes arrays of JSON at this URL.
    Webhook(String),
}

/// Which events are emitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventFlags {
    /// Tool calls.
    pub tool_calls: bool,
    /// Memory operations.
    pub memory_ops: bool,
    /// What happens in swarms.
    pub swarm_ops: bool,
    /// Changes of the host's state.
    pub lifecycle: bool,
    /// Failures beside tool calls.
    pub errors: bool,
}

/// Which measurements are taken, beside the counts of calls and errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetricFlags {
    /// Tokens of providers.
    pub token_usage: bool,
    /// Cost of providers, in US dollars.
    pub cost_usd: bool,
    /// How long calls take.
    pub latency_histogram: bool,
    /// Memory queries, and how many of them found something.
    pub retrieval_hit_rate: bool,
}

impl MetricFlags {
    /// Every measurement.
    pub const ALL: Self = Self {
        token_usage: true,
        cost_usd: true,
        latency_histogram: true,
        retrieval_hit_rate: true,
    };
}

/// Returns the plan a checked document holds; `directory` is absolute and the place that the
/// document's own directory is relative to.
pub(crate) fn read(of: &Document, directory: &Path) -> TelemetryPlan {
    let base = directory.join(&of.base);
    let exporters = of.spec.list(&["exporters"]);
    let on = |block: &str, key: &str| of.spec.flag(&[block, key]) != Some(false);
    TelemetryPlan {
        name: of.name.clone(),
        exporters: exporters.iter().filter_map(|node| exporter(node, &base)).collect(),
        events: EventFlags {
            tool_calls: on("events", "tool_calls"),
            memory_ops: on("events", "memory_ops"),
            swarm_ops: on("events", "swarm_ops"),
            lifecycle: on("events", "lifecycle"),
            errors: on("events", "errors"),
        },
        metrics: MetricFlags {
            token_usage: on("metrics", "token_usage"),
            cost_usd: on("metrics", "cost_usd"),
            latency_histogram: on("metrics", "latency_histogram"),
            retrieval_hit_rate: on("metrics", "retrieval_hit_rate"),
        },
        sampling_rate: of.spec.real(&["sampling", "rate"]).unwrap_or(1.0),
        strip_arguments: on("redaction", "strip_arguments"),
        strip_results: on("redaction", "strip_results"),
    }
}

fn exporter(node: &Node, base: &Path) -> Option<ExporterPlan> {
    let path = || Some(tidy(&base.join(node.text(&["path"])?)));
    let endpoint = || Some(node.text(&["endpoint"])?.to_owned());
    let kind = match node.text(&["type"])? {
        "file" => ExporterKind::File(path()?),
        "otlp" => ExporterKind::Otlp(endpoint()?),
        "sqlite" => ExporterKind::Sqlite(path()?),
        "webhook" => ExporterKind::Webhook(endpoint()?),
        _ => ExporterKind::Console,
    };
    let batch = node.number(&["batch", "max_size"]).and_then(|size| usize::try_from(size).ok());
    let flush = node.number(&["batch", "flush_interval_ms"]).unwrap_or(TELEMETRY_FLUSH_MS);
    Some(ExporterPlan {
        kind,
        secret: node.text(&["auth", "secret_ref"]).map(str::to_owned),
        batch_max: batch.unwrap_or(TELEMETRY_BATCH_MAX).min(TELEMETRY_QUEUE_MAX),
        flush_interval: Duration::from_millis(flush),
    })
}
