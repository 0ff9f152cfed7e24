//! OTLP over HTTP: spans of what happened, and the measurements.
//!
//! A call is a span within that of the call that made it, or of its caller's own, and its stages are
//! spans within it. The protocol's own crates make the bodies; what they send goes through this host's one way
//! out, to the configured collector only, whatever address or header they ask for.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use bytes::Bytes;
use opentelemetry::trace::{
    SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState,
};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::{HttpClient, HttpError};
use opentelemetry_otlp::{
    MetricExporter, Protocol, RetryPolicy, SpanExporter, WithExportConfig, WithHttpConfig,
};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkError;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter as _;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use parking_lot::Mutex;
use serde_json::Value;

use super::event::{CallEvent, Event};
use super::metrics::SCOPE;
use super::record::{Record, facts};
use crate::outbox::Failure;
use crate::random;
use crate::upstream::post::Poster;

const PROTOBUF: &str = "application/x-protobuf";

pub(super) struct Otlp {
    spans: SpanExporter,
    metrics: MetricExporter,
    /// Why the last request failed: the crates' errors do not say it.
    failure: LastFailure,
    /// Makes the ids of this host's spans differ from those of any other.
    key: [u8; 32],
}

type LastFailure = Arc<Mutex<Option<Failure>>>;

impl Otlp {
    pub(super) fn new(
        url: &str,
        poster: impl Fn(&str) -> Result<Poster, Failure>,
        resource: &Resource,
    ) -> Result<Self, Failure> {
        let failure = LastFailure::default();
        let url = url.trim_end_matches('/');
        let (traces, metrics) = (format!("{url}/v1/traces"), format!("{url}/v1/metrics"));
        let client = |url: &str| {
            Ok::<_, Failure>(Client { poster: poster(url)?, failure: Arc::clone(&failure) })
        };
        let mut spans = over_http(SpanExporter::builder().with_http(), &traces, client(&traces)?)
            .build()
            .map_err(Failure::lasting)?;
        spans.set_resource(resource);
        let metrics = over_http(MetricExporter::builder().with_http(), &metrics, client(&metrics)?)
            .build()
            .map_err(Failure::lasting)?;
        let key = random::bytes().map_err(Failure::lasting)?;
        Ok(Self { spans, metrics, failure, key })
    }

    /// Hands spans and sums over; says whether the sums are settled: taken, or refused for good.
    pub(super) async fn export(
        &self,
        records: &[Arc<Record>],
        metrics: Option<&ResourceMetrics>,
    ) -> Result<bool, Failure> {
        let spans = records.iter().enumerate();
        let spans: Vec<SpanData> = spans.flat_map(|(i, record)| self.spans(i, record)).collect();
        if !spans.is_empty() {
            let sent = self.spans.export(spans).await;
            sent.map_err(|error| self.why(&error))?;
        }
        let Some(sums) = metrics else { return Ok(true) };
        match self.metrics.export(sums).await.map_err(|error| self.why(&error)) {
            Ok(()) => Ok(true),
            Err(failure) if records.is_empty() => Err(failure),
            // Only a batch without spans is tried again: sums go out once more with the next.
            Err(failure) => Ok(failure.is_final),
        }
    }

    fn why(&self, error: &OTelSdkError) -> Failure {
        let failure = self.failure.lock().take();
        failure.unwrap_or_else(|| Failure::lasting(error))
    }

    /// Returns the span of a record; of a call, with those of its stages.
    fn spans(&self, index: usize, record: &Record) -> Vec<SpanData> {
        let end = SystemTime::UNIX_EPOCH
            + Duration::from_millis(u64::try_from(record.time_ms).unwrap_or(0));
        let start = end.checked_sub(duration(&record.event)).unwrap_or(end);
        let mut whole = span(name(&record.event), start, end);
        whole.status = status(&record.event);
        let mut facts = facts(&record.event);
        facts.remove("stages");
        whole.attributes = facts.into_iter().map(attribute).collect();
        if let Event::Call(call) = &record.event {
            whole.attributes.extend(by_convention(call));
            return self.of_call(call, whole);
        }
        let what = format!("{} {index} {:?}", record.time_ms, record.event);
        whole.span_context = context(self.id(&what), self.id(&what));
        vec![whole]
    }

    /// Gives the span of a call its place in a trace, and returns it behind those of its stages.
    fn of_call(&self, call: &CallEvent, whole: SpanData) -> Vec<SpanData> {
        let of = |call: &str| self.id(&format!("call {call}"));
        let outermost = call.root.as_ref().unwrap_or(&call.call);
        let trace = || self.id(&format!("trace of {outermost}"));
        let (trace, own) = (call.trace.map_or_else(trace, |said| said.trace), of(&call.call));
        let stages = call.stages.iter().enumerate().map(|(index, stage)| {
            let began = whole.start_time + stage.after;
            SpanData {
                span_context: context(trace, self.id(&format!("stage {index} of {}", call.call))),
                parent_span_id: SpanId::from_bytes(own),
                ..span(stage.stage.to_owned(), began, began + stage.duration)
            }
        });
        let mut spans: Vec<SpanData> = stages.collect();
        let callers = call.trace.filter(|_| call.parent.is_none());
        let parent = call.parent.as_deref().map(of).or_else(|| callers.map(|said| said.span));
        spans.push(SpanData {
            span_context: context(trace, own),
            parent_span_id: parent.map_or(SpanId::INVALID, SpanId::from_bytes),
            parent_span_is_remote: callers.is_some(),
            ..whole
        });
        spans
    }

    /// Derives an id from what it is of: a batch that is sent twice is the same, and a call finds the
    /// one that made it.
    fn id<const N: usize>(&self, of: &str) -> [u8; N] {
        let mut id = [0; N];
        let mut hash = blake3::Hasher::new_keyed(&self.key);
        hash.update(of.as_bytes()).finalize_xof().fill(&mut id);
        id
    }
}

fn context(trace: [u8; 16], span: [u8; 8]) -> SpanContext {
    let (trace, span) = (TraceId::from_bytes(trace), SpanId::from_bytes(span));
    SpanContext::new(trace, span, TraceFlags::SAMPLED, false, TraceState::NONE)
}

/// Returns a span that has no place in a trace yet.
fn span(name: String, start_time: SystemTime, end_time: SystemTime) -> SpanData {
    SpanData {
        span_context: SpanContext::NONE,
        parent_span_id: SpanId::INVALID,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: name.into(),
        start_time,
        end_time,
        attributes: Vec::new(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::builder(SCOPE).build(),
    }
}

fn over_http<B: WithHttpConfig + WithExportConfig>(builder: B, url: &str, client: Client) -> B {
    let builder = builder.with_http_client(client).with_retry_policy(RetryPolicy::disabled());
    builder.with_protocol(Protocol::HttpBinary).with_endpoint(url)
}

fn name(event: &Event) -> String {
    match event {
        Event::Call(call) => format!("{} {}", event.name(), call.tool),
        Event::Memory { operation, .. } | Event::Swarm { operation, .. } => {
            format!("{} {operation}", event.name())
        }
        Event::Error { .. } | Event::Lifecycle { .. } | Event::Usage { .. } => {
            event.name().to_owned()
        }
    }
}

const fn duration(event: &Event) -> Duration {
    match event {
        Event::Call(call) => call.duration,
        Event::Lifecycle { duration_ms, .. } => Duration::from_millis(*duration_ms),
        Event::Memory { duration, .. } => *duration,
        Event::Error { .. } | Event::Swarm { .. } | Event::Usage { .. } => Duration::ZERO,
    }
}

fn status(event: &Event) -> Status {
    match event {
        Event::Call(call) if call.outcome != "ok" => Status::error(call.outcome),
        Event::Error { kind, .. } => Status::error(*kind),
        _ => Status::Unset,
    }
}

/// Turns a fact into an attribute: `clawhost.tool`, …; what is no plain value as JSON.
fn attribute((key, fact): (String, Value)) -> KeyValue {
    let key = format!("clawhost.{key}");
    match fact {
        Value::Bool(flag) => KeyValue::new(key, flag),
        Value::Number(number) => match number.as_i64() {
            Some(whole) => KeyValue::new(key, whole),
            None => KeyValue::new(key, number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => KeyValue::new(key, text),
        other => KeyValue::new(key, other.to_string()),
    }
}

/// Returns what OpenTelemetry's conventions for agents call the same: whatever reads traces of agents finds tool calls
/// by these.
fn by_convention(call: &CallEvent) -> impl Iterator<Item = KeyValue> {
    let of_call = [
        KeyValue::new("gen_ai.operation.name", "execute_tool"),
        KeyValue::new("gen_ai.tool.name", call.tool.clone()),
    ];
    let failed = (call.outcome != "ok").then(|| KeyValue::new("error.type", call.outcome));
    of_call.into_iter().chain(failed)
}

/// Sends what the crates have made: to the collector, without the headers they add from the
/// environment.
#[derive(Debug)]
struct Client {
    poster: Poster,
    failure: LastFailure,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<Bytes>, HttpError> {
        self.poster.post(PROTOBUF, request.into_body()).await.map_err(|failure| {
            let reason = failure.reason.clone();
            *self.failure.lock() = Some(failure);
            reason.into()
        })
    }
}
