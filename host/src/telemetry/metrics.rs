//! Measurements: counters and a histogram, added up in this process.
//!
//! Nothing here is an event: sampling leaves it alone. Every label has few values; a tool that
//! does not exist is counted as `unknown`, whatever the caller called it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clawhost_core::manifest::MetricFlags;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, MeterProvider as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, Metric, MetricData, ResourceMetrics};
use opentelemetry_sdk::metrics::reader::MetricReader;
use opentelemetry_sdk::metrics::{
    InstrumentKind, ManualReader, Pipeline, SdkMeterProvider, Temporality,
};
use serde_json::{Value, json};

use super::event::{CallEvent, Event};

/// The name of the instrumentation scope.
pub(super) const SCOPE: &str = "clawhost";

#[derive(Debug)]
pub(super) struct Metrics {
    reader: Reader,
    _provider: SdkMeterProvider,
    /// Changes with every measurement.
    version: AtomicU64,
    calls: Counter<u64>,
    errors: Counter<u64>,
    dropped: Counter<u64>,
    duration: Option<Histogram<f64>>,
    tokens: Option<Counter<u64>>,
    cost: Option<Counter<f64>>,
    queries: Option<Counter<u64>>,
}

impl Metrics {
    pub(super) fn new(flags: MetricFlags, resource: Resource) -> Self {
        let reader = Reader(Arc::new(ManualReader::default()));
        let provider =
            SdkMeterProvider::builder().with_resource(resource).with_reader(reader.clone()).build();
        let meter = provider.meter(SCOPE);
        let count = |name: &'static str, what: &'static str| {
            meter.u64_counter(name).with_description(what).build()
        };
        Self {
            calls: count("clawhost.tool.calls", "Tool calls that ended."),
            errors: count("clawhost.errors", "Failures, of tool calls and beside them."),
            dropped: count("clawhost.telemetry.dropped", "Events that no exporter took."),
            duration: flags.latency_histogram.then(|| duration(&meter)),
            tokens: flags
                .token_usage
                .then(|| count("clawhost.provider.tokens", "Tokens of providers.")),
            cost: flags.cost_usd.then(|| {
                let cost = meter.f64_counter("clawhost.provider.cost").with_unit("{USD}");
                cost.with_description("Cost of providers.").build()
            }),
            queries: flags.retrieval_hit_rate.then(|| {
                count("clawhost.memory.queries", "Memory queries, by whether they found something.")
            }),
            version: AtomicU64::new(0),
            _provider: provider,
            reader,
        }
    }

    pub(super) fn record(&self, event: &Event) {
        self.version.fetch_add(1, Ordering::Relaxed);
        match event {
            Event::Call(call) => self.record_call(call),
            Event::Memory { outcome, .. } if *outcome != "ok" => {
                self.record_error("memory", outcome);
            }
            Event::Memory { operation: "query", entries, .. } => {
                if let Some(queries) = &self.queries {
                    queries.add(1, &[KeyValue::new("hit", *entries > 0)]);
                }
            }
            Event::Usage { provider, input_tokens, output_tokens, cost_usd } => {
                self.record_usage(provider, *input_tokens, *output_tokens, *cost_usd);
            }
            // An error is counted with what it was an error of.
            Event::Error { .. }
            | Event::Lifecycle { .. }
            | Event::Memory { .. }
            | Event::Swarm { .. } => {}
        }
    }

    fn record_call(&self, call: &CallEvent) {
        let known = call.outcome != "unknown-tool";
        let tool = if known { call.tool.clone() } else { "unknown".to_owned() };
        let labels = [KeyValue::new("tool", tool), KeyValue::new("outcome", call.outcome)];
        self.calls.add(1, &labels);
        if let Some(duration) = &self.duration {
            duration.record(call.duration.as_secs_f64(), &labels);
        }
        if call.outcome != "ok" {
            self.record_error("tool", call.outcome);
        }
    }

    fn record_error(&self, part: &'static str, kind: &'static str) {
        self.errors.add(1, &[KeyValue::new("part", part), KeyValue::new("kind", kind)]);
    }

    fn record_usage(&self, provider: &str, input: u64, output: u64, cost_usd: f64) {
        let provider = KeyValue::new("provider", provider.to_owned());
        if let Some(tokens) = &self.tokens {
            tokens.add(input, &[provider.clone(), KeyValue::new("direction", "input")]);
            tokens.add(output, &[provider.clone(), KeyValue::new("direction", "output")]);
        }
        if let Some(cost) = &self.cost {
            cost.add(cost_usd, &[provider]);
        }
    }

    pub(super) fn record_dropped(&self, count: u64) {
        self.version.fetch_add(1, Ordering::Relaxed);
        self.dropped.add(count, &[]);
    }

    pub(super) fn version(&self) -> u64 {
        self.version.load(Ordering::Relaxed)
    }

    pub(super) fn collect(&self) -> Option<ResourceMetrics> {
        let mut sums = ResourceMetrics::default();
        self.reader.collect(&mut sums).ok().map(|()| sums)
    }
}

fn duration(meter: &Meter) -> Histogram<f64> {
    let duration = meter.f64_histogram("clawhost.tool.duration").with_unit("s");
    let bounds = vec![0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0];
    duration.with_description("How long tool calls take.").with_boundaries(bounds).build()
}

/// Returns `sums` as one JSON object: each series with its labels.
pub(super) fn to_json(sums: &ResourceMetrics) -> Value {
    let metrics = sums.scope_metrics().flat_map(|scope| scope.metrics());
    Value::Object(metrics.map(|metric| (metric.name().to_owned(), all_series(metric))).collect())
}

/// Returns `sums` in the text format of Prometheus.
pub(super) fn to_text(sums: &ResourceMetrics) -> String {
    sums.scope_metrics().flat_map(|scope| scope.metrics()).map(exposed).collect()
}

fn exposed(metric: &Metric) -> String {
    let unit = match metric.unit() {
        "s" => "_seconds",
        "{USD}" => "_usd",
        _ => "",
    };
    let name = format!("{}{unit}", metric.name().replace('.', "_"));
    let series = all_series(metric);
    let series = series.as_array().map(Vec::as_slice).unwrap_or_default();
    let (kind, of) = match series.first().and_then(|point| point.get("value")) {
        Some(_) => ("counter", format!("{name}_total")),
        None => ("histogram", name),
    };
    let head = format!("# HELP {of} {}\n# TYPE {of} {kind}\n", metric.description());
    let lines = series.iter().flat_map(|point| match point.get("value") {
        Some(value) => vec![format!("{of}{} {value}\n", labels_of(point, None))],
        None => buckets(&of, point),
    });
    std::iter::once(head).chain(lines).collect()
}

/// Returns the lines of one series of a histogram, whose buckets add up.
fn buckets(of: &str, point: &Value) -> Vec<String> {
    let list = |key| point.get(key).and_then(Value::as_array).cloned().unwrap_or_default();
    let bounds = list("bounds").into_iter().map(|bound| bound.to_string());
    let counts = list("counts").into_iter().scan(0, |sum, count| {
        *sum += count.as_u64().unwrap_or_default();
        Some(*sum)
    });
    let bucket = |(bound, count): (String, u64)| {
        format!("{of}_bucket{} {count}\n", labels_of(point, Some(&bound)))
    };
    let bounds = bounds.chain(std::iter::once("+Inf".to_owned()));
    let mut lines: Vec<String> = bounds.zip(counts).map(bucket).collect();
    for part in ["sum", "count"] {
        lines.push(format!(
            "{of}_{part}{} {}\n",
            labels_of(point, None),
            point.get(part).unwrap_or(&Value::Null)
        ));
    }
    lines
}

fn labels_of(point: &Value, bound: Option<&str>) -> String {
    let labels = point.get("labels").and_then(Value::as_object).into_iter().flatten();
    // Texts are escaped as in JSON, which is how Prometheus does it too.
    let labels = labels.map(|(key, value)| format!("{}={value}", key.replace('.', "_")));
    let labels = labels.chain(bound.map(|bound| format!("le={bound:?}")));
    match labels.collect::<Vec<_>>().join(",") {
        none if none.is_empty() => none,
        labels => format!("{{{labels}}}"),
    }
}

fn all_series(metric: &Metric) -> Value {
    match metric.data() {
        AggregatedMetrics::F64(data) => series(data),
        AggregatedMetrics::U64(data) => series(data),
        AggregatedMetrics::I64(data) => series(data),
    }
}

fn series<T: Copy + Into<Value>>(data: &MetricData<T>) -> Value {
    match data {
        MetricData::Sum(sum) => {
            let points = sum.data_points();
            points
                .map(|p| json!({ "labels": labels(p.attributes()), "value": p.value().into() }))
                .collect()
        }
        MetricData::Histogram(histogram) => histogram
            .data_points()
            .map(|p| {
                json!({
                    "labels": labels(p.attributes()), "count": p.count(), "sum": p.sum().into(),
                    "bounds": p.bounds().collect::<Vec<_>>(),
                    "counts": p.bucket_counts().collect::<Vec<_>>(),
                })
            })
            .collect(),
        MetricData::ExponentialHistogram(_) | MetricData::Gauge(_) => Value::Null,
    }
}

fn labels<'a>(pairs: impl Iterator<Item = &'a KeyValue>) -> Value {
    let labels = pairs.map(|pair| (pair.key.to_string(), Value::from(pair.value.to_string())));
    Value::Object(labels.collect())
}

/// A reader that is shared by the provider, which owns one, and by who collects.
#[derive(Debug, Clone)]
struct Reader(Arc<ManualReader>);

impl MetricReader for Reader {
    fn register_pipeline(&self, pipeline: std::sync::Weak<Pipeline>) {
        self.0.register_pipeline(pipeline);
    }

    fn collect(&self, sums: &mut ResourceMetrics) -> OTelSdkResult {
        self.0.collect(sums)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.0.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.0.shutdown_with_timeout(timeout)
    }

    fn temporality(&self, kind: InstrumentKind) -> Temporality {
        self.0.temporality(kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::tests::plan;

    fn sums(flags: MetricFlags, events: &[Event]) -> Value {
        let metrics = Metrics::new(flags, Resource::builder_empty().build());
        events.iter().for_each(|event| metrics.record(event));
        to_json(&metrics.collect().unwrap())
    }

    fn call(tool: &str, outcome: &'static str) -> Event {
        let duration = Duration::from_millis(20);
        let tool = tool.to_owned();
        Event::Call(Box::new(CallEvent { tool, outcome, duration, ..CallEvent::default() }))
    }

    #[test]
    fn calls_errors_latency_and_tokens_are_added_up() {
        let usage = Event::Usage {
            provider: "main".into(),
            input_tokens: 7,
            output_tokens: 3,
            cost_usd: 0.5,
        };
        let events = [call("t", "ok"), call("t", "ok"), call("t", "timeout"), usage];
        let sums = sums(plan(Vec::new()).metrics, &events);
        let total = |name: &str| -> f64 {
            let points = sums[name].as_array().unwrap().iter();
            points.map(|point| point["value"].as_f64().unwrap()).sum()
        };
        assert_eq!(total("clawhost.tool.calls"), 3.0);
        assert_eq!(total("clawhost.errors"), 1.0);
        assert_eq!(total("clawhost.provider.tokens"), 10.0);
        assert_eq!(total("clawhost.provider.cost"), 0.5);
        let histogram = &sums["clawhost.tool.duration"];
        let counts: u64 =
            histogram.as_array().unwrap().iter().map(|p| p["count"].as_u64().unwrap()).sum();
        assert_eq!(counts, 3, "{histogram}");
    }

    #[test]
    fn what_is_switched_off_is_not_measured() {
        let off = MetricFlags {
            token_usage: false,
            cost_usd: false,
            latency_histogram: false,
            retrieval_hit_rate: false,
        };
        let sums = sums(off, &[call("t", "ok")]);
        assert_eq!(sums.as_object().unwrap().keys().collect::<Vec<_>>(), ["clawhost.tool.calls"]);
    }

    #[test]
    fn prometheus_reads_the_same() {
        let usage = Event::Usage {
            provider: "a \"b\"".into(),
            input_tokens: 7,
            output_tokens: 3,
            cost_usd: 0.5,
        };
        let metrics = Metrics::new(plan(Vec::new()).metrics, Resource::builder_empty().build());
        [call("t", "ok"), call("t", "ok"), usage].iter().for_each(|event| metrics.record(event));
        let text = to_text(&metrics.collect().unwrap());
        for line in [
            "# TYPE clawhost_tool_calls_total counter",
            "clawhost_tool_calls_total{outcome=\"ok\",tool=\"t\"} 2",
            "# TYPE clawhost_tool_duration_seconds histogram",
            "clawhost_tool_duration_seconds_bucket{outcome=\"ok\",tool=\"t\",le=\"0.01\"} 0",
            "clawhost_tool_duration_seconds_bucket{outcome=\"ok\",tool=\"t\",le=\"0.05\"} 2",
            "clawhost_tool_duration_seconds_bucket{outcome=\"ok\",tool=\"t\",le=\"+Inf\"} 2",
            "clawhost_tool_duration_seconds_sum{outcome=\"ok\",tool=\"t\"} 0.04",
            "clawhost_tool_duration_seconds_count{outcome=\"ok\",tool=\"t\"} 2",
            "clawhost_provider_tokens_total{direction=\"input\",provider=\"a \\\"b\\\"\"} 7",
            "clawhost_provider_cost_usd_total{provider=\"a \\\"b\\\"\"} 0.5",
        ] {
            assert!(text.lines().any(|of| of == line), "{line}\n{text}");
        }
    }

    #[test]
    fn names_that_callers_make_up_make_no_series() {
        let made_up: Vec<Event> =
            (0..100).map(|number| call(&number.to_string(), "unknown-tool")).collect();
        let sums = sums(plan(Vec::new()).metrics, &made_up);
        assert_eq!(sums["clawhost.tool.calls"].as_array().unwrap().len(), 1);
    }
}
