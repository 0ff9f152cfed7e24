//! Where batches go: the five kinds of exporter.

mod lines;
mod otlp;
mod sqlite;

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::Arc;

use clawhost_core::manifest::{ExporterKind, ExporterPlan};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use serde_json::{Value, json};

use super::metrics;
use super::record::Record;
use crate::clock::{now_ms, rfc3339};
pub(super) use crate::outbox::Failure;
use crate::secrets::Secrets;
use crate::upstream::http::HttpClient;
use crate::upstream::post::Poster;

/// What is handed over at once.
#[derive(Clone, Copy)]
pub(super) struct Batch<'a> {
    pub(super) records: &'a [Arc<Record>],
    /// The measurements, where they changed.
    pub(super) metrics: Option<&'a ResourceMetrics>,
}

/// One exporter's place.
pub(super) enum Sink {
    Lines(lines::Lines),
    Otlp(Box<otlp::Otlp>),
    Sqlite(sqlite::Sqlite),
    Webhook(Poster),
}

impl Sink {
    /// Opens nothing yet: a place that cannot be reached is found out when it is needed.
    pub(super) fn new(
        plan: &ExporterPlan,
        client: &HttpClient,
        secrets: &Secrets,
        resource: &Resource,
    ) -> Result<Self, Failure> {
        let poster = |url: &str| {
            Poster::new(client.clone().for_call(), url, plan.secret.clone(), secrets.clone())
        };
        Ok(match &plan.kind {
            ExporterKind::Console => Self::Lines(lines::Lines::console()),
            ExporterKind::File(path) => Self::Lines(lines::Lines::file(path.clone())),
            ExporterKind::Otlp(url) => {
                Self::Otlp(Box::new(otlp::Otlp::new(url, poster, resource)?))
            }
            ExporterKind::Sqlite(path) => Self::Sqlite(sqlite::Sqlite::new(path.clone())),
            ExporterKind::Webhook(url) => Self::Webhook(poster(url)?),
        })
    }

    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Lines(lines) => lines.name(),
            Self::Otlp(_) => "telemetry to a collector",
            Self::Sqlite(_) => "telemetry to a database",
            Self::Webhook(_) => "telemetry to a webhook",
        }
    }

    pub(super) async fn export(&self, batch: Batch<'_>) -> Result<(), Failure> {
        match self {
            Self::Lines(lines) => lines.write(&batch.to_json()).await,
            Self::Otlp(otlp) => otlp.export(batch).await,
            Self::Sqlite(sqlite) => sqlite.write(batch.to_json()).await,
            Self::Webhook(poster) => poster.post_json(&Value::Array(batch.to_json())).await,
        }
    }
}

/// Opens a file to append to; it and its folder are made where they are missing, for this user
/// only: events may hold what tools were given.
fn open_private(path: &Path) -> io::Result<File> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("{} cannot be used: {error}", path.display()))
    };
    // Opening a FIFO would wait for its reader.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(named(io::Error::other("it is no regular file")));
    }
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(named)?;
    }
    OpenOptions::new().append(true).create(true).mode(0o600).open(path).map_err(named)
}

impl Batch<'_> {
    /// Returns each event, and the measurements as one more.
    fn to_json(self) -> Vec<Value> {
        let metrics = self.metrics.map(|sums| {
            let (time, metrics) = (rfc3339(now_ms()), metrics::to_json(sums));
            json!({ "event": "metrics", "time": time, "metrics": metrics })
        });
        self.records.iter().map(|record| record.to_json()).chain(metrics).collect()
    }
}
