//! Pins: what a server said about a tool when it was accepted. A tool that says something else is not
//! served until the operator accepts that.
//!
//! Whoever first starts a server accepts what it says then, unless the runtime file wants each tool
//! accepted by itself. Hosts that share a state folder share the pins.

use std::sync::Arc;

use clawhost_core::bridged;
use clawhost_core::digest;
use clawhost_core::limits::{PINS_BYTES_PER_SERVER_MAX, PINS_PER_SERVER_MAX};
use clawhost_core::manifest::PinMode;
use rusqlite::{Connection, OptionalExtension as _, Row, TransactionBehavior, params};
use serde_json::{Value, json};

use crate::audit::{AuditLog, Event};
use crate::clock;
use crate::state::{Database, DatabaseError};

/// The table of pins.
pub const MIGRATIONS: &[&str] = &[include_str!("pins.sql"), include_str!("pins_alike.sql")];

/// The pins of one store.
#[derive(Debug, Clone)]
pub struct Pins {
    database: Database,
    audit: Option<Arc<AuditLog>>,
    mode: PinMode,
    /// Nothing is accepted or noted.
    only_looks: bool,
    /// Who asks was told nothing new.
    asks_again: bool,
}

/// Tells a component's tool from a server: no server's name has a colon.
pub(in crate::registry) const COMPONENT: &str = "tool:";

/// What is kept about one tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pin {
    /// What the runtime file calls the server, or its address; of what a component needs, `tool:` and
    /// the tool's name.
    pub server: String,
    /// What the tool is remembered under.
    pub tool: String,
    /// Where it is, how it is reached and its definition as they were accepted, as JSON.
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

clawhost_core::table! {
    /// Returns the word for it.
    pub PinState::name: &'static str {
        Accepted: "accepted", Changed: "changed", New: "new",
    }
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

    /// Returns the digest of what it says now.
    pub fn digest(&self) -> String {
        digest::of_bytes(self.offered.as_bytes())
    }

    /// Says whether a host that is told what has this digest, and serves it or has it wait, has to judge it anew.
    ///
    /// The server of that name may be another one to another host of this store, so what counts is what was accepted,
    /// and what waits leaves in its place what the other host waits for: the two would take turns without end. It is
    /// put there once nothing else waits.
    pub(super) fn is_due(&self, digest: &str, waits: bool) -> bool {
        let accepted = self.accepted.as_ref().map(|accepted| digest::of_bytes(accepted.as_bytes()));
        let is_accepted = accepted.is_some_and(|accepted| accepted == digest);
        is_accepted == waits || (waits && self.state() == PinState::Accepted)
    }

    /// Returns what it says now and did not when it was accepted, and the other way round, a line each.
    pub fn changes(&self) -> Vec<String> {
        let read = |text: &str| serde_json::from_str(text).unwrap_or(Value::Null);
        let accepted = self.accepted.as_deref().map_or_else(|| json!({}), read);
        bridged::changes(&accepted, &read(&self.offered))
    }

    /// Returns the tool whose component it is about, where it is about no server.
    pub fn component_of(&self) -> Option<&str> {
        self.server.strip_prefix(COMPONENT)
    }

    /// Returns it as programs read it.
    pub fn to_json(&self) -> Value {
        json!({
            "server": self.server, "tool": self.tool, "component_of": self.component_of(),
            "state": self.state().name(), "digest": self.digest(),
            "changed_at_ms": self.changed_at_ms, "changes": self.changes(),
        })
    }

    fn verdict(&self, is_new: bool) -> Verdict {
        match self.state() {
            PinState::Accepted => Verdict::Accepted,
            PinState::Changed => Verdict::Changed { is_new },
            PinState::New => Verdict::New,
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
#[derive(Debug, Clone)]
pub(in crate::registry) struct Seen {
    /// What it is remembered under.
    pub(in crate::registry) tool: String,
    /// Where it is, how it is reached and its definition, as canonical JSON.
    pub(in crate::registry) definition: String,
    /// The digest of that.
    pub(in crate::registry) digest: String,
}

impl Seen {
    fn bytes(&self) -> i64 {
        i64::try_from(self.definition.len()).unwrap_or(i64::MAX)
    }
}

/// What is to become of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::registry) enum Verdict {
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
    pub(in crate::registry) fn waits(self) -> bool {
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
            Self::Full => format!(
                "more than {PINS_PER_SERVER_MAX} tools or {PINS_BYTES_PER_SERVER_MAX} bytes would be remembered of its server: `clawhost pins list {server}` shows them, `clawhost pins forget {server}` makes room"
            ),
            Self::Unknown => "the store cannot say whether it was accepted".to_owned(),
        };
        Some(reason)
    }
}

impl Pins {
    /// Returns the pins in `database`; what becomes of them is noted in `audit`.
    pub fn new(database: Database, audit: Option<Arc<AuditLog>>, mode: PinMode) -> Self {
        Self { database, audit, mode, only_looks: false, asks_again: false }
    }

    /// Returns the same pins for whoever only looks: nothing is accepted by it, and nothing noted.
    #[must_use]
    pub fn only_looking(self, only_looks: bool) -> Self {
        Self { only_looks, ..self }
    }

    /// Returns the same pins for whoever was told nothing new, and asks as others wrote to the store: what waits there
    /// stays in its place, as two hosts that are told different things would take turns otherwise.
    #[must_use]
    pub(in crate::registry) fn again(&self) -> Self {
        Self { asks_again: true, ..self.clone() }
    }

    /// Says for each tool of `server` whether it is served.
    pub(in crate::registry) async fn judge(&self, server: &str, seen: Vec<Seen>) -> Vec<Verdict> {
        let names: Vec<_> = seen.iter().map(|it| (it.tool.clone(), it.digest.clone())).collect();
        let verdicts = self.judge_quietly(server, seen).await;
        for ((name, digest), verdict) in names.iter().zip(&verdicts) {
            self.note(server, name, digest, *verdict);
        }
        verdicts
    }

    /// As [`Pins::judge`], and says nothing of it.
    pub(in crate::registry) async fn judge_quietly(
        &self,
        server: &str,
        seen: Vec<Seen>,
    ) -> Vec<Verdict> {
        let count = seen.len();
        let (of, mode, now_ms) = (server.to_owned(), self.mode, clock::now_ms());
        let (writes, asks_again) = (!self.only_looks, self.asks_again);
        // Who only looks writes nothing, and so waits for nobody who does.
        let behavior = match writes {
            true => TransactionBehavior::Immediate,
            false => TransactionBehavior::Deferred,
        };
        let work = move |db: &mut Connection| {
            let transaction = db.transaction_with_behavior(behavior)?;
            let verdicts = judge(&transaction, &of, &seen, (mode, asks_again, writes), now_ms)?;
            transaction.commit()?;
            Ok(verdicts)
        };
        self.database.run(work).await.unwrap_or_else(|error| {
            tracing::warn!("the pins of `{server}` cannot be used: {error}");
            vec![Verdict::Unknown; count]
        })
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
        let one = |db: &Connection, pin: &Pin| {
            db.execute(TEXT, params![pin.server, pin.tool, pin.offered])
        };
        self.change(pins, Event::PinAccepted, one).await
    }

    /// Forgets `pins`, whatever they say now: what their servers say next is seen for the first time. Returns how
    /// many it was.
    ///
    /// # Errors
    /// [`DatabaseError`].
    pub async fn forget(&self, pins: Vec<Pin>) -> Result<usize, DatabaseError> {
        const TEXT: &str = "DELETE FROM pins WHERE server = ?1 AND tool = ?2";
        let one = |db: &Connection, pin: &Pin| db.execute(TEXT, params![pin.server, pin.tool]);
        self.change(pins, Event::PinForgotten, one).await
    }

    /// Changes `pins`, each by `one`, together, and records those that it changed. Returns how many it was.
    async fn change(
        &self,
        pins: Vec<Pin>,
        event: Event,
        one: fn(&Connection, &Pin) -> rusqlite::Result<usize>,
    ) -> Result<usize, DatabaseError> {
        let work = move |db: &mut Connection| {
            let transaction = db.transaction()?;
            let mut changed = Vec::new();
            for pin in pins {
                if one(&transaction, &pin)? > 0 {
                    changed.push(pin);
                }
            }
            transaction.commit()?;
            Ok(changed)
        };
        let changed = self.database.run(work).await?;
        for pin in &changed {
            self.record(event, &pin.server, &pin.tool, &pin.digest());
        }
        Ok(changed.len())
    }

    /// Says aloud, and records, what changes for a tool.
    pub(in crate::registry) fn note(
        &self,
        server: &str,
        tool: &str,
        digest: &str,
        verdict: Verdict,
    ) {
        match verdict {
            _ if self.only_looks => {}
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
        if let Err(error) = audit.note(event, facts) {
            tracing::warn!("what became of a pin could not be recorded: {error}");
        }
    }
}

/// What is remembered of one server.
struct Total {
    rows: i64,
    bytes: i64,
}

impl Total {
    fn of(db: &Connection, server: &str) -> rusqlite::Result<Self> {
        const TEXT: &str = "SELECT count(*), coalesce(sum(length(CAST(offered AS BLOB)) \
             + coalesce(length(CAST(accepted AS BLOB)), 0)), 0) FROM pins WHERE server = ?1";
        db.query_row(TEXT, [server], |row| Ok(Self { rows: row.get(0)?, bytes: row.get(1)? }))
    }

    /// Counts `rows` and `bytes` more; where they are too many it is as it was.
    fn takes(&mut self, rows: i64, bytes: i64) -> bool {
        let (rows, bytes) = (self.rows + rows, self.bytes.saturating_add(bytes));
        let fits = rows <= PINS_PER_SERVER_MAX && bytes <= PINS_BYTES_PER_SERVER_MAX;
        if fits {
            *self = Self { rows, bytes };
        }
        fits
    }
}

fn judge(
    db: &Connection,
    server: &str,
    seen: &[Seen],
    (mode, asks_again, writes): (PinMode, bool, bool),
    now_ms: i64,
) -> rusqlite::Result<Vec<Verdict>> {
    let mut total = Total::of(db, server)?;
    let one = |tool: &Seen| match kept(db, server, &tool.tool)? {
        // Once as it is offered, and once as it is accepted.
        None if !total.takes(1, 2 * tool.bytes()) => Ok(Verdict::Full),
        None => {
            let verdict = first(mode);
            if writes {
                insert(db, server, tool, verdict == Verdict::Trusted, now_ms)?;
            }
            Ok(verdict)
        }
        Some(pin) if pin.offered == tool.definition => Ok(pin.verdict(false)),
        Some(pin) if asks_again && pin.state() != PinState::Accepted => {
            Ok(Pin { offered: tool.definition.clone(), ..pin }.verdict(false))
        }
        Some(_) if !total.takes(0, tool.bytes()) => Ok(Verdict::Full),
        Some(pin) => {
            if writes {
                update(db, server, tool, now_ms)?;
            }
            Ok(Pin { offered: tool.definition.clone(), ..pin }.verdict(true))
        }
    };
    seen.iter().map(one).collect()
}

fn kept(db: &Connection, server: &str, tool: &str) -> rusqlite::Result<Option<Pin>> {
    let text = "SELECT server, tool, accepted, offered, changed_at_ms FROM pins WHERE server = ?1 AND tool = ?2";
    db.query_row(text, [server, tool], Pin::read).optional()
}

/// What is said of a tool that was never seen.
fn first(mode: PinMode) -> Verdict {
    if mode == PinMode::FirstUse { Verdict::Trusted } else { Verdict::New }
}

fn insert(
    db: &Connection,
    server: &str,
    tool: &Seen,
    is_trusted: bool,
    now_ms: i64,
) -> rusqlite::Result<usize> {
    let accepted = is_trusted.then_some(&tool.definition);
    let text = "INSERT INTO pins (server, tool, accepted, offered, changed_at_ms) VALUES (?1, ?2, ?3, ?4, ?5)";
    db.execute(text, params![server, tool.tool, accepted, tool.definition, now_ms])
}

fn update(db: &Connection, server: &str, tool: &Seen, now_ms: i64) -> rusqlite::Result<usize> {
    let text = "UPDATE pins SET offered = ?3, changed_at_ms = ?4 WHERE server = ?1 AND tool = ?2";
    db.execute(text, params![server, tool.tool, tool.definition, now_ms])
}

#[cfg(test)]
mod tests;
