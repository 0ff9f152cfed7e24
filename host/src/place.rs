//! Places outside this process that take JSON, one object a line: standard error, a file, a table of
//! a database, the system's log, a webhook.
//!
//! Nothing is opened or connected to before something is written, so a place that cannot be
//! reached is found out when it is needed. Deliberately absent: queues and patience, which are
//! `outbox`'s, and reading anything back.

mod lines;
mod table;

use std::path::PathBuf;

use serde_json::Value;
use tokio::net::UnixDatagram;

use self::lines::Lines;
pub(crate) use self::lines::rotated;
pub(crate) use self::table::Table;
use crate::outbox::Failure;
use crate::upstream::post::Poster;

/// Facility `authpriv` (10), severity `informational` (6): RFC 5424, section 6.2.1.
const PRIORITY: u8 = 10 * 8 + 6;

/// One such place.
pub(crate) enum OutsidePlace {
    Lines(Lines),
    Syslog(PathBuf),
    Table(Table),
    /// A webhook that gets a list a request.
    Webhook(Poster),
    /// A webhook that gets one object a request.
    WebhookOfOne(Poster),
}

impl OutsidePlace {
    /// Returns standard error.
    pub(crate) fn console() -> Self {
        Self::Lines(Lines::console())
    }

    /// Returns a file of bounded size.
    pub(crate) fn file(path: PathBuf) -> Self {
        Self::Lines(Lines::file(path))
    }

    /// Returns a file that holds so many bytes.
    pub(crate) fn bounded_file(path: PathBuf, bytes_max: u64) -> Self {
        Self::Lines(Lines::bounded_file(path, bytes_max))
    }

    /// Returns what it is, for the log.
    pub(crate) const fn name(&self) -> &'static str {
        match self {
            Self::Lines(lines) => lines.name(),
            Self::Syslog(_) => "the system's log",
            Self::Table(_) => "a database",
            Self::Webhook(_) | Self::WebhookOfOne(_) => "a webhook",
        }
    }

    /// Writes objects in their order, each a text of JSON without a line break in it.
    pub(crate) async fn write(&self, objects: &[impl AsRef<str> + Sync]) -> Result<(), Failure> {
        let objects: Vec<&str> = objects.iter().map(|object| object.as_ref().trim_end()).collect();
        match self {
            Self::Lines(lines) => lines.write(&objects).await,
            Self::Syslog(socket) => log(socket, &objects).await,
            Self::Table(table) => table.insert(&objects).await,
            Self::Webhook(poster) => poster.post_json(format!("[{}]", objects.join(","))).await,
            Self::WebhookOfOne(poster) => {
                for object in objects {
                    poster.post_json(object.to_owned()).await?;
                }
                Ok(())
            }
        }
    }
}

/// Sends each object as one message (RFC 5424), anew connected: the log may have been restarted.
async fn log(socket: &PathBuf, objects: &[&str]) -> Result<(), Failure> {
    let sender = UnixDatagram::unbound().map_err(Failure::passing)?;
    sender.connect(socket).map_err(Failure::passing)?;
    for object in objects {
        let [time, event] = facts(object).map(|fact| fact.unwrap_or_else(|| "-".to_owned()));
        let process = std::process::id();
        let message = format!("<{PRIORITY}>1 {time} - clawhost {process} {event} - {object}");
        sender.send(message.as_bytes()).await.map_err(Failure::passing)?;
    }
    Ok(())
}

/// Returns the `time` and the `event` of an object.
fn facts(object: &str) -> [Option<String>; 2] {
    let object: Value = serde_json::from_str(object).unwrap_or_default();
    ["time", "event"].map(|key| object.get(key).and_then(Value::as_str).map(str::to_owned))
}
