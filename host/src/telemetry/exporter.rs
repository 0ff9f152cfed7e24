//! One exporter as a place that batches go to: events, and the measurements where they changed.

use std::sync::Arc;
use std::time::Duration;

use clawhost_core::limits::{
    TELEMETRY_EXPORT_MS, TELEMETRY_QUEUE_MAX, TELEMETRY_RETRIES_MAX, TELEMETRY_RETRY_AFTER_MS,
    TELEMETRY_RETRY_MS,
};
use clawhost_core::manifest::ExporterPlan;

use super::metrics::Metrics;
use super::record::Record;
use super::sink::{Batch, Failure, Sink};
use crate::outbox::{Place, Terms};

/// What one exporter needs to work.
pub(super) struct Exporter {
    pub(super) sink: Sink,
    pub(super) metrics: Arc<Metrics>,
    /// The measurements that were handed over last.
    pub(super) exported: u64,
}

impl Place for Exporter {
    type Item = Arc<Record>;

    fn name(&self) -> &'static str {
        self.sink.name()
    }

    async fn take(&mut self, records: &[Arc<Record>]) -> Result<(), Failure> {
        let version = self.metrics.version();
        let metrics = if version == self.exported { None } else { self.metrics.collect() };
        if !records.is_empty() || metrics.is_some() {
            self.sink.export(Batch { records, metrics: metrics.as_ref() }).await?;
        }
        self.exported = version;
        Ok(())
    }

    fn lost(&self, count: u64) {
        self.metrics.record_dropped(count);
    }
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
