//! Where events go: into the measurements, and to every exporter.

use std::sync::Arc;
use std::time::Instant;

use clawhost_core::manifest::TelemetryPlan;
use opentelemetry::KeyValue;
use opentelemetry_sdk::Resource;
use tokio::time::timeout_at;

use super::event::Event;
use super::exporter::{self, Exporter};
use super::metrics::{self, Metrics};
use super::record::Record;
use crate::clock::now_ms;
use crate::outbox::Outbox;
use crate::random;
use crate::secrets::Secrets;
use crate::upstream::http::HttpClient;

/// Where events go. Cheap to clone; the last clone sends what is left and ends.
#[derive(Debug, Clone, Default)]
pub struct Telemetry(pub(super) Option<Arc<Inner>>);

#[derive(Debug)]
pub(super) struct Inner {
    plan: TelemetryPlan,
    secrets: Secrets,
    pub(super) metrics: Arc<Metrics>,
    exporters: Vec<Outbox<Arc<Record>>>,
}

impl Telemetry {
    /// Returns a telemetry that takes nothing.
    pub fn off() -> Self {
        Self::default()
    }

    /// Starts the exporters of `plan`, on the runtime of the caller, for the agent `claw`.
    ///
    /// Nothing is connected or opened yet. An exporter that cannot work at all is logged and left
    /// out: telemetry is no reason to be without a host.
    pub fn start(plan: &TelemetryPlan, claw: &str, client: &HttpClient, secrets: &Secrets) -> Self {
        let resource = resource(claw);
        let metrics = Arc::new(Metrics::new(plan.metrics, resource.clone()));
        let mut exporters = Vec::new();
        for plan in &plan.exporters {
            match Exporter::new(plan, client, secrets, &resource, Arc::clone(&metrics)) {
                Err(failure) => tracing::warn!("an exporter is left out: {}", failure.reason),
                Ok(exporter) => exporters.push(Outbox::start(exporter, exporter::terms(plan))),
            }
        }
        let (plan, secrets) = (plan.clone(), secrets.clone());
        Self(Some(Arc::new(Inner { plan, secrets, metrics, exporters })))
    }

    /// Says whether nothing is taken: then there is nothing to put together either.
    pub const fn is_off(&self) -> bool {
        self.0.is_none()
    }

    /// Says whether calls are to be emitted with their arguments.
    pub fn takes_arguments(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.emits_calls() && !inner.plan.strip_arguments)
    }

    /// Says whether calls are to be emitted with their results.
    pub fn takes_results(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.emits_calls() && !inner.plan.strip_results)
    }

    /// Says whether calls are to be emitted with the stages that they went through.
    pub fn takes_stages(&self) -> bool {
        self.0.as_ref().is_some_and(|inner| inner.emits_calls())
    }

    /// Takes `event`, without waiting for anything. Where an exporter has no room it is dropped
    /// for that exporter, and counted among the measurements.
    pub fn emit(&self, event: Event) {
        let Some(inner) = &self.0 else { return };
        inner.metrics.record(&event);
        let error = event.error();
        inner.take(event);
        if let Some(error) = error {
            inner.take(error);
        }
    }

    /// Returns the measurements of this moment as Prometheus reads them; none where telemetry is off.
    pub fn measurements(&self) -> String {
        let sums = self.0.as_ref().and_then(|inner| inner.metrics.collect());
        sums.as_ref().map(metrics::to_text).unwrap_or_default()
    }

    /// Hands over what is waiting, until `deadline` at the latest.
    pub async fn flush(&self, deadline: Instant) {
        let Some(inner) = &self.0 else { return };
        let all = futures_util::future::join_all(inner.exporters.iter().map(Outbox::flush));
        if timeout_at(deadline.into(), all).await.is_err() {
            tracing::warn!("telemetry was not handed over in time; what was left is lost");
        }
    }
}

impl Inner {
    fn take(&self, event: Event) {
        let redactor = self.secrets.redactor();
        let Some(record) = Record::of(&self.plan, &redactor, now_ms(), event) else { return };
        let record = Arc::new(record);
        for exporter in &self.exporters {
            if !exporter.put(Arc::clone(&record)) {
                self.metrics.record_dropped(1);
            }
        }
    }

    const fn emits_calls(&self) -> bool {
        self.plan.events.tool_calls
    }
}

/// Returns what stands beside all that a host sends. Each has an id of its own: of hosts beside each other a collector
/// would take the sums of one for those of another.
fn resource(claw: &str) -> Resource {
    let instance = random::uuid().ok().map(|id| KeyValue::new("service.instance.id", id));
    Resource::builder_empty()
        .with_attributes([
            KeyValue::new("service.name", "clawhost"),
            KeyValue::new("service.version", env!("CARGO_PKG_VERSION")),
            KeyValue::new("clawhost.claw", claw.to_owned()),
        ])
        .with_attributes(instance)
        .build()
}

#[cfg(test)]
mod tests {
    use opentelemetry::Key;

    use super::*;

    #[test]
    fn hosts_beside_each_other_are_told_apart() {
        let [one, other] = ["claw", "claw"].map(resource);
        let id = Key::new("service.instance.id");
        assert!(one.get(&id).is_some());
        assert_ne!(one.get(&id), other.get(&id));
        let claw = Key::new("clawhost.claw");
        assert_eq!(one.get(&claw), other.get(&claw));
    }
}
