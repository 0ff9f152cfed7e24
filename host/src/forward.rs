//! Copies of the audit log in other places, where policies ask for them.
//!
//! The chain in the state folder stays what counts: it waits for no copy, and says how many
//! records are missing in one. Deliberately absent: reading copies back.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clawhost_core::limits::{
    AUDIT_COPY_BATCH_MAX, AUDIT_COPY_MS, AUDIT_COPY_QUEUE_MAX, AUDIT_COPY_RETRIES_MAX,
    AUDIT_COPY_RETRY_MS, AUDIT_COPY_ROWS_MAX,
};
use clawhost_core::manifest::AuditSettings;
use clawhost_core::policy::Destination;

use crate::audit::Copy;
use crate::outbox::{Carrier, Failure, Outbox, Terms};
use crate::place::{OutsidePlace, Table};
use crate::secrets::Secrets;
use crate::state::Database;
use crate::upstream::http::HttpClient;
use crate::upstream::post::Poster;

/// The tables of this module.
pub const MIGRATIONS: &[&str] = &[include_str!("forward/records.sql")];

/// Where the system's log listens.
pub const SYSLOG_SOCKET: &str = "/dev/log";

/// How patient the worker of a copy is.
const TERMS: Terms = Terms {
    queue_max: AUDIT_COPY_QUEUE_MAX,
    batch_max: AUDIT_COPY_BATCH_MAX,
    interval: Duration::ZERO,
    hands_over_empty: false,
    patience: Duration::from_millis(AUDIT_COPY_MS),
    retries_max: AUDIT_COPY_RETRIES_MAX,
    flush_retries_max: AUDIT_COPY_RETRIES_MAX,
    retry: Duration::from_millis(AUDIT_COPY_RETRY_MS),
    retry_max: Duration::from_millis(AUDIT_COPY_MS),
};

/// Starts a copy for each of `destinations` but the file, which is the chain itself.
///
/// # Errors
/// Why a webhook cannot be told; that of checked settings can.
pub(crate) fn start(
    destinations: &BTreeSet<Destination>,
    places: &AuditSettings,
    client: &HttpClient,
    database: &Database,
) -> Result<Vec<Copy>, String> {
    let mut copies = Vec::new();
    for destination in destinations {
        let (name, place) = match destination {
            Destination::File => continue,
            Destination::Sqlite => {
                let table = Table::of(database.clone(), "audit_records", AUDIT_COPY_ROWS_MAX);
                ("sqlite", OutsidePlace::Table(table))
            }
            Destination::Syslog => {
                let socket = places.syslog.clone();
                ("syslog", OutsidePlace::Syslog(socket.unwrap_or_else(|| SYSLOG_SOCKET.into())))
            }
            Destination::Webhook => ("webhook", OutsidePlace::Webhook(webhook(places, client)?)),
        };
        let missing = Arc::new(AtomicU64::new(0));
        let carrier = CopyCarrier { place, missing: Arc::clone(&missing) };
        copies.push(Copy { name, outbox: Outbox::start(carrier, TERMS), missing });
    }
    Ok(copies)
}

fn webhook(places: &AuditSettings, client: &HttpClient) -> Result<Poster, String> {
    let url = places.webhook.as_deref().ok_or("nothing says where the webhook is")?;
    Poster::new(client, url, None, &Secrets::none()).map_err(|failure| failure.reason)
}

/// Takes records to a copy, and counts what is missing there.
struct CopyCarrier {
    place: OutsidePlace,
    missing: Arc<AtomicU64>,
}

impl Carrier for CopyCarrier {
    type Item = Arc<str>;

    fn name(&self) -> String {
        format!("the copy of the audit log in {}", self.place.name())
    }

    async fn take(&mut self, lines: &[Arc<str>]) -> Result<(), Failure> {
        self.place.write(lines).await
    }

    fn lost(&self, count: u64) {
        self.missing.fetch_add(count, Ordering::Relaxed);
    }
}
