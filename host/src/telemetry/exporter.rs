//! One exporter: takes batches of events, and the measurements where they changed, to a place that
//! takes JSON or to a collector that takes the protocol's own.

use std::sync::Arc;
use std::time::Duration;

use clawhost_core::limits::{
    TELEMETRY_EXPORT_MS, TELEMETRY_QUEUE_MAX, TELEMETRY_RETRIES_MAX, TELEMETRY_RETRY_AFTER_MS,
    TELEMETRY_RETRY_MS, TELEMETRY_ROWS_MAX,
};
use clawhost_core::manifest::{ExporterKind, ExporterPlan};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use serde_json::json;

use super::metrics::{self, Metrics};
use super::otlp::Otlp;
use super::record::Record;
use crate::clock::{now_ms, rfc3339};
use crate::outbox::{Carrier, Failure, Terms};
use crate::place::{OutsidePlace, Table};
use crate::secrets::Secrets;
use crate::state::Migrations;
use crate::upstream::http::HttpClient;
use crate::upstream::post::Poster;

/// The tables of a file of telemetry's own.
const MIGRATIONS: &[Migrations] = &[("telemetry", &[include_str!("events.sql")])];

pub(super) struct Exporter {
    to: To,
    metrics: Arc<Metrics>,
    /// The measurements that were settled last.
    exported: u64,
}

enum To {
    Collector(Box<Otlp>),
    Place(OutsidePlace),
}

impl Exporter {
    pub(super) fn new(
        plan: &ExporterPlan,
        client: &HttpClient,
        secrets: &Secrets,
        resource: &Resource,
        metrics: Arc<Metrics>,
    ) -> Result<Self, Failure> {
        let poster = |url: &str| Poster::new(client, url, plan.secret.as_ref(), secrets);
        let to = match &plan.kind {
            ExporterKind::Console => To::Place(OutsidePlace::console()),
            ExporterKind::File(path) => To::Place(OutsidePlace::file(path.clone())),
            ExporterKind::Otlp(url) => To::Collector(Box::new(Otlp::new(url, poster, resource)?)),
            ExporterKind::Sqlite(path) => To::Place(OutsidePlace::Table(Table::in_file(
                path.clone(),
                MIGRATIONS,
                "events",
                TELEMETRY_ROWS_MAX,
            ))),
            ExporterKind::Webhook(url) => To::Place(OutsidePlace::Webhook(poster(url)?)),
        };
        Ok(Self { to, metrics, exported: 0 })
    }
}

impl Carrier for Exporter {
    type Item = Arc<Record>;

    fn name(&self) -> String {
        let to = match &self.to {
            To::Collector(_) => "a collector",
            To::Place(place) => place.name(),
        };
        format!("telemetry to {to}")
    }

    async fn take(&mut self, records: &[Arc<Record>]) -> Result<(), Failure> {
        let version = self.metrics.version();
        let metrics = if version == self.exported { None } else { self.metrics.collect() };
        let is_settled = match &self.to {
            _ if records.is_empty() && metrics.is_none() => true,
            To::Collector(otlp) => otlp.export(records, metrics.as_ref()).await?,
            To::Place(place) => {
                place.write(&to_json(records, metrics.as_ref())).await?;
                true
            }
        };
        if is_settled {
            self.exported = version;
        }
        Ok(())
    }

    fn lost(&self, count: u64) {
        self.metrics.record_dropped(count);
    }
}

/// Returns each event, and the measurements as one more.
fn to_json(records: &[Arc<Record>], metrics: Option<&ResourceMetrics>) -> Vec<String> {
    let metrics = metrics.map(|sums| {
        let (time, metrics) = (rfc3339(now_ms()), metrics::to_json(sums));
        json!({ "event": "metrics", "time": time, "metrics": metrics })
    });
    let events = records.iter().map(|record| record.to_json());
    events.chain(metrics).map(|object| object.to_string()).collect()
}

/// Returns how patient an exporter is; while somebody waits, not at all.
pub(super) fn terms(plan: &ExporterPlan) -> Terms {
    Terms {
        queue_max: TELEMETRY_QUEUE_MAX,
        batch_max: plan.batch_max,
        interval: plan.flush_interval,
        hands_over_empty: true,
        patience: Duration::from_millis(TELEMETRY_EXPORT_MS),
        retries_max: TELEMETRY_RETRIES_MAX,
        flush_retries_max: 0,
        retry: Duration::from_millis(TELEMETRY_RETRY_MS),
        retry_max: Duration::from_millis(TELEMETRY_RETRY_AFTER_MS),
    }
}
