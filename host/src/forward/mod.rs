//! Copies of the audit log in other places, where policies ask for them.
//!
//! The chain in the state folder stays what counts: it waits for no copy, and says how many
//! records are missing in one. Deliberately absent: reading copies back.

mod place;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use clawhost_core::limits::{
    AUDIT_COPY_BATCH_MAX, AUDIT_COPY_MS, AUDIT_COPY_QUEUE_MAX, AUDIT_COPY_RETRIES_MAX,
    AUDIT_COPY_RETRY_MS,
};
use clawhost_core::manifest::AuditSettings;
use clawhost_core::policy::Destination;

pub use self::place::MIGRATIONS;
use self::place::{CopyPlace, To};
use crate::audit::Copy;
use crate::outbox::{Outbox, Terms};
use crate::secrets::Secrets;
use crate::state::Database;
use crate::upstream::http::HttpClient;
use crate::upstream::post::Poster;

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
        let (name, to) = match destination {
            Destination::File => continue,
            Destination::Sqlite => ("sqlite", To::Database(database.clone())),
            Destination::Syslog => {
                let socket = places.syslog.clone();
                ("syslog", To::Syslog(socket.unwrap_or_else(|| SYSLOG_SOCKET.into())))
            }
            Destination::Webhook => ("webhook", To::Webhook(webhook(places, client)?)),
        };
        let missing = Arc::new(AtomicU64::new(0));
        let place = CopyPlace { to, missing: Arc::clone(&missing) };
        copies.push(Copy { name, outbox: Outbox::start(place, TERMS), missing });
    }
    Ok(copies)
}

fn webhook(places: &AuditSettings, client: &HttpClient) -> Result<Poster, String> {
    let url = places.webhook.as_deref().ok_or("nothing says where the webhook is")?;
    Poster::new(client.clone().for_call(), url, None, Secrets::none())
        .map_err(|failure| failure.reason)
}
