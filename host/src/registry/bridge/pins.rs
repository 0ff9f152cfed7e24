//! Pins: what a server said about a tool when it was accepted. A tool that says something else is not
//! served until the operator accepts that.
//!
//! Whoever first starts a server accepts what it says then, unless the runtime file wants each tool
//! accepted by itself. Hosts that share a state folder share the pins.

use std::sync::Arc;

use clawhost_core::digest;
use clawhost_core::limits::PINS_PER_SERVER_MAX;
use clawhost_core::manifest::PinMode;
use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde_json::{Map, Value};

use crate::audit::{AuditLog, Event};
use crate::clock;
use crate::state::{Database, DatabaseError};

/// The table of pins.
pub const MIGRATIONS: &[&str] = &[include_str!("pins.sql")];

/// The pins of one store.
#[derive(Debug, Clone)]
pub struct Pins {
    database: Database,
    audit: Option<Arc<AuditLog>>,
    mode: PinMode,
}

/// What is kept about one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// What the runtime file calls the server, or its address.
    pub server: String,
    /// What the server calls the tool.
    pub tool: String,
    /// Endpoint and definition as they were accepted, as JSON.
    pub accepted: Option<String>,
    /// The same as it was last offered.
    pub offered: String,
    /// When that last changed, in milliseconds since 1970, UTC.
    pub changed_at_ms: i64,
}

/// Whether a tool is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinState {
    /// It is what was accepted.
    Accepted,
    /// It is something else now.
    Changed,
    /// Nobody has accepted anything yet.
    New,
}

impl Pin {
    /// Says whether the tool is served.
    pub fn state(&self) -> PinState {
        match &self.accepted {
            Some(accepted) if *accepted == self.offered => PinState::Accepted,
            Some(_) => PinState::Changed,
            None => PinState::New,
        }
    }

    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            server: row.get(0)?,
            tool: row.get(1)?,
            accepted: row.get(2)?,
            offered: row.get(3)?,
            changed_at_ms: row.get(4)?,
        })
    }
}

/// A tool as a server offers it now.
pub(super) struct Seen {
    pub(super) tool: String,
    /// Endpoint and definition, as canonical JSON.
    pub(super) definition: String,
}

/// What is to become of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is what was accepted.
    Accepted,
    /// It was seen for the first time, which was good enough.
    Trusted,
    /// It is not what was accepted; the flag says that this is new.
    Changed { is_new: bool },
    /// Somebody has to accept it first.
    New,
    /// The store keeps no more tools of one server.
    Full,
    /// The store cannot say.
    Unknown,
}

impl Verdict {
    pub(super) fn waits(self) -> bool {
        !matches!(self, Self::Accepted | Self::Trusted)
    }

    /// Says why the tool is not served, if it is not.
    pub(super) fn reason(self, server: &str) -> Option<String> {
        let reason = match self {
            Self::Accepted | Self::Trusted => return None,
            Self::Changed { .. } => format!(
                "its server says something else about it than what was accepted: look at `clawhost pins diff {server}`, then `clawhost pins accept {server}`"
            ),
            Self::New => format!("nobody has accepted it yet: `clawhost pins accept {server}`"),
            Self::Full => format!("its server has named more than {PINS_PER_SERVER_MAX} tools"),
            Self::Unknown => "the store cannot say whether it was accepted".to_owned(),
        };
        Some(reason)
    }
}

impl Pins {
    /// Returns the pins in `database`; what becomes of them is noted in `audit`.
    pub fn new(database: Database, audit: Option<Arc<AuditLog>>, mode: PinMode) -> Self {
        Self { database, audit, mode }
    }

    /// Returns for each tool of `server` the digest of what it says, and whether it is served.
    pub(super) async fn judge(&self, server: &str, seen: Vec<Seen>) -> Vec<(String, Verdict)> {
        let digests: Vec<String> =
            seen.iter().map(|tool| digest::of_bytes(tool.definition.as_bytes())).collect();
        let names: Vec<String> = seen.iter().map(|tool| tool.tool.clone()).collect();
        let (of, mode, now_ms) = (server.to_owned(), self.mode, clock::now_ms());
        let judged = self.database.run(move |db| judge(db, &of, &seen, mode, now_ms)).await;
        let verdicts = judged.unwrap_or_else(|error| {
            tracing::warn!("the pins of the MCP server `{server}` cannot be used: {error}");
            vec![Verdict::Unknown; names.len()]
        });
        for ((name, digest), verdict) in names.iter().zip(&digests).zip(&verdicts) {
            self.note(server, name, digest, *verdict);
        }
        digests.into_iter().zip(verdicts).collect()
    }

    /// Returns what is kept of every tool, or of one server's, or of one.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn list(
        &self,
        server: Option<String>,
        tool: Option<String>,
    ) -> Result<Vec<Pin>, DatabaseError> {
        const TEXT: &str = "SELECT server, tool, accepted, offered, changed_at_ms FROM pins \
             WHERE (?1 IS NULL OR server = ?1) AND (?2 IS NULL OR tool = ?2) ORDER BY server, tool";
        let rows = self.database.run(move |db| {
            let mut statement = db.prepare(TEXT)?;
            statement.query_map(params![server, tool], Pin::read)?.collect::<Result<Vec<_>, _>>()
        });
        rows.await
    }

    /// Accepts what `pins` say now, if that is still what they say. Returns how many it was.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn accept(&self, pins: Vec<Pin>) -> Result<usize, DatabaseError> {
        const TEXT: &str =
            "UPDATE pins SET accepted = offered WHERE server = ?1 AND tool = ?2 AND offered = ?3";
        let work = move |db: &mut Connection| {
            let transaction = db.transaction()?;
            let mut accepted = Vec::new();
            for pin in pins {
                if transaction.execute(TEXT, params![pin.server, pin.tool, pin.offered])? > 0 {
                    accepted.push(pin);
                }
            }
            transaction.commit()?;
            Ok(accepted)
        };
        let accepted = self.database.run(work).await?;
        for pin in &accepted {
            let digest = digest::of_bytes(pin.offered.as_bytes());
            self.record(Event::PinAccepted, &pin.server, &pin.tool, &digest);
        }
        Ok(accepted.len())
    }

    /// Says aloud, and records, what changes for a tool.
    fn note(&self, server: &str, tool: &str, digest: &str, verdict: Verdict) {
        match verdict {
            Verdict::Trusted => {
                tracing::info!(
                    "accepted what the MCP server `{server}` says about `{}`: it is the first time",
                    clawhost_core::visible::line(tool)
                );
                self.record(Event::PinAccepted, server, tool, digest);
            }
            Verdict::Changed { is_new: true } => {
                self.record(Event::PinChanged, server, tool, digest);
            }
            _ => {}
        }
    }

    fn record(&self, event: Event, server: &str, tool: &str, digest: &str) {
        let Some(audit) = &self.audit else { return };
        let facts = [("server", server), ("tool", tool), ("digest", digest)];
        let facts: Map<String, Value> =
            facts.into_iter().map(|(key, value)| (key.to_owned(), value.into())).collect();
        if let Err(error) = audit.append(event, facts) {
            tracing::warn!("what became of a pin could not be recorded: {error}");
        }
    }
}

fn judge(
    db: &mut Connection,
    server: &str,
    seen: &[Seen],
    mode: PinMode,
    now_ms: i64,
) -> rusqlite::Result<Vec<Verdict>> {
    let transaction = db.transaction()?;
    let count = "SELECT count(*) FROM pins WHERE server = ?1";
    let mut rows: i64 = transaction.query_row(count, [server], |row| row.get(0))?;
    let mut verdicts = Vec::with_capacity(seen.len());
    for tool in seen {
        let verdict = match kept(&transaction, server, &tool.tool)? {
            None if rows >= PINS_PER_SERVER_MAX => Verdict::Full,
            None => {
                rows += 1;
                insert(&transaction, server, tool, mode, now_ms)?
            }
            Some(pin) => {
                let is_new = pin.offered != tool.definition;
                if is_new {
                    update(&transaction, server, tool, now_ms)?;
                }
                match pin.accepted {
                    Some(accepted) if accepted == tool.definition => Verdict::Accepted,
                    Some(_) => Verdict::Changed { is_new },
                    None => Verdict::New,
                }
            }
        };
        verdicts.push(verdict);
    }
    transaction.commit()?;
    Ok(verdicts)
}

fn kept(db: &Connection, server: &str, tool: &str) -> rusqlite::Result<Option<Pin>> {
    let text = "SELECT server, tool, accepted, offered, changed_at_ms FROM pins WHERE server = ?1 AND tool = ?2";
    db.query_row(text, [server, tool], Pin::read).optional()
}

fn insert(
    db: &Connection,
    server: &str,
    tool: &Seen,
    mode: PinMode,
    now_ms: i64,
) -> rusqlite::Result<Verdict> {
    let is_trusted = mode == PinMode::FirstUse;
    let accepted = is_trusted.then_some(&tool.definition);
    let text = "INSERT INTO pins (server, tool, accepted, offered, changed_at_ms) VALUES (?1, ?2, ?3, ?4, ?5)";
    db.execute(text, params![server, tool.tool, accepted, tool.definition, now_ms])?;
    Ok(if is_trusted { Verdict::Trusted } else { Verdict::New })
}

fn update(db: &Connection, server: &str, tool: &Seen, now_ms: i64) -> rusqlite::Result<usize> {
    let text = "UPDATE pins SET offered = ?3, changed_at_ms = ?4 WHERE server = ?1 AND tool = ?2";
    db.execute(text, params![server, tool.tool, tool.definition, now_ms])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pins(mode: PinMode) -> Pins {
        Pins::new(Database::in_memory(&[("pins", MIGRATIONS)]).unwrap(), None, mode)
    }

    async fn judged(pins: &Pins, definition: &str) -> Verdict {
        let seen = Seen { tool: "t".to_owned(), definition: definition.to_owned() };
        pins.judge("s", vec![seen]).await.remove(0).1
    }

    async fn accept(pins: &Pins) -> usize {
        pins.accept(pins.list(Some("s".to_owned()), None).await.unwrap()).await.unwrap()
    }

    #[tokio::test]
    async fn the_first_sight_counts_and_a_change_waits_until_it_is_accepted() {
        let pins = pins(PinMode::FirstUse);
        assert_eq!(judged(&pins, "a").await, Verdict::Trusted);
        assert_eq!(judged(&pins, "a").await, Verdict::Accepted);
        assert_eq!(judged(&pins, "b").await, Verdict::Changed { is_new: true });
        assert_eq!(judged(&pins, "b").await, Verdict::Changed { is_new: false });
        assert_eq!(judged(&pins, "a").await, Verdict::Accepted, "it came back");
        assert_eq!(judged(&pins, "b").await, Verdict::Changed { is_new: true });
        assert_eq!(accept(&pins).await, 1);
        assert_eq!(judged(&pins, "b").await, Verdict::Accepted);
        assert_eq!(judged(&pins, "a").await, Verdict::Changed { is_new: true });
    }

    #[tokio::test]
    async fn where_it_is_required_nothing_is_served_unaccepted() {
        let pins = pins(PinMode::Require);
        assert_eq!(judged(&pins, "a").await, Verdict::New);
        assert!(Verdict::New.reason("s").unwrap().contains("clawhost pins accept s"));
        assert_eq!(accept(&pins).await, 1);
        assert_eq!(judged(&pins, "a").await, Verdict::Accepted);
    }

    #[tokio::test]
    async fn only_what_the_operator_saw_is_accepted() {
        let pins = pins(PinMode::Require);
        judged(&pins, "a").await;
        let seen = pins.list(None, None).await.unwrap();
        assert_eq!(seen[0].state(), PinState::New);
        judged(&pins, "b").await;
        assert_eq!(pins.accept(seen).await.unwrap(), 0);
        assert_eq!(judged(&pins, "b").await, Verdict::New);
    }

    #[tokio::test]
    async fn a_server_that_names_ever_new_tools_fills_nothing() {
        let pins = pins(PinMode::FirstUse);
        let seen = |name: i64| Seen { tool: name.to_string(), definition: "d".to_owned() };
        let all = (0..PINS_PER_SERVER_MAX + 1).map(seen).collect();
        let verdicts = pins.judge("s", all).await;
        assert_eq!(verdicts.last().unwrap().1, Verdict::Full);
        assert_eq!(verdicts.iter().filter(|one| one.1 == Verdict::Full).count(), 1);
    }
}
