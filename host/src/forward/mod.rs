//! Copies of the audit log in other places, where policies ask for them.
//!
//! The chain in the state folder stays what counts: it waits for no copy, and says how many
//! records are missing in one. Deliberately absent: reading copies back.

mod place;
mod worker;

use std::collections::BTreeSet;
use std::path::PathBuf;

use clawhost_core::policy::Destination;

pub use self::place::MIGRATIONS;
use self::place::Place;
use crate::audit::{self, Copy};
use crate::secrets::Secrets;
use crate::state::Database;
use crate::upstream::http::HttpClient;
use crate::upstream::post::Poster;

/// Where copies go, as the operator has it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForwardPlaces {
    /// The URL that is told, with arrays of records.
    pub webhook: Option<String>,
    /// The socket of the system's log; [`SYSLOG_SOCKET`] where absent.
    pub syslog: Option<PathBuf>,
}

/// Where the system's log listens.
pub const SYSLOG_SOCKET: &str = "/dev/log";

/// Why a copy cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum ForwardError {
    /// A policy asks for a webhook, and nobody says where it is.
    #[error(
        "a policy sends audit records to a webhook: name its URL with `audit.webhook` in the runtime file"
    )]
    NoWebhook,
    /// The URL is none.
    #[error("`audit.webhook` is no URL that can be told: {0}")]
    Webhook(String),
}

/// Starts a copy for each of `destinations` but the file, which is the chain itself.
///
/// # Errors
/// [`ForwardError`].
pub fn start(
    destinations: &BTreeSet<Destination>,
    places: &ForwardPlaces,
    client: &HttpClient,
    database: &Database,
) -> Result<Vec<Copy>, ForwardError> {
    let mut copies = Vec::new();
    for destination in destinations {
        let (name, place) = match destination {
            Destination::File => continue,
            Destination::Sqlite => ("sqlite", Place::Database(database.clone())),
            Destination::Syslog => {
                let socket = places.syslog.clone();
                ("syslog", Place::Syslog(socket.unwrap_or_else(|| SYSLOG_SOCKET.into())))
            }
            Destination::Webhook => ("webhook", Place::Webhook(webhook(places, client)?)),
        };
        let (copy, lines, missing) = audit::copy(name);
        tokio::spawn(worker::run(name, place, lines, missing));
        copies.push(copy);
    }
    Ok(copies)
}

fn webhook(places: &ForwardPlaces, client: &HttpClient) -> Result<Poster, ForwardError> {
    let url = places.webhook.as_deref().ok_or(ForwardError::NoWebhook)?;
    Poster::new(client.clone().for_call(), url, None, Secrets::none())
        .map_err(|failure| ForwardError::Webhook(failure.reason))
}
