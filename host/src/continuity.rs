//! What runners never saw of their turns through the proxy, kept for the turns that follow, and which provider
//! keeps what it made for an agent.
//!
//! One agent's conversations are its own. The newest turns of each are kept, within a bound of bytes for
//! all of them. Deliberately absent: what a conversation is, and where messages belong, which
//! `core::mediate` knows.

use std::collections::BTreeMap;

use clawhost_core::limits::{
    PROXY_NAMES_KEPT_MAX, PROXY_TURN_BYTES_MAX, PROXY_TURNS_BYTES_MAX, PROXY_TURNS_KEPT_MAX,
};
use clawhost_core::mediate::Kept;
use rusqlite::{Connection, Transaction, params};
use serde_json::Value;

use crate::state::{Database, DatabaseError};

/// The tables of this module.
pub(crate) const MIGRATIONS: &[&str] = &[
    "CREATE TABLE proxy_turns (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    agent TEXT NOT NULL,
    conversation TEXT NOT NULL,
    anchor TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    hidden TEXT NOT NULL
) STRICT;
CREATE INDEX proxy_turns_of ON proxy_turns (agent, conversation, id)",
    "CREATE TABLE proxy_responses (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL,
    agent TEXT NOT NULL,
    provider TEXT NOT NULL,
    UNIQUE (provider, id)
) STRICT;
CREATE INDEX proxy_responses_of ON proxy_responses (agent, number)",
    "ALTER TABLE proxy_responses ADD COLUMN used INTEGER NOT NULL DEFAULT 0;
UPDATE proxy_responses SET used = number;
DROP INDEX proxy_responses_of;
CREATE INDEX proxy_responses_of ON proxy_responses (agent, used);
CREATE INDEX proxy_responses_called ON proxy_responses (id, agent)",
    "ALTER TABLE proxy_turns ADD COLUMN place INTEGER NOT NULL DEFAULT -1",
];

/// The kept turns of one store. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Continuity {
    database: Database,
}

impl Continuity {
    /// Returns the turns that `database` keeps, which has to have [`MIGRATIONS`].
    pub(crate) const fn new(database: Database) -> Self {
        Self { database }
    }

    /// Returns the kept turns of a conversation, the oldest first.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn turns(
        &self,
        agent: &str,
        conversation: &str,
    ) -> Result<Vec<Kept>, DatabaseError> {
        let (agent, conversation) = (agent.to_owned(), conversation.to_owned());
        self.database.run(move |db| read(db, &agent, &conversation)).await
    }

    /// Keeps a turn; one that is too long is not kept. A turn that is made again takes the place of the one
    /// before.
    ///
    /// # Errors
    /// The store cannot be used.
    pub(crate) async fn keep(
        &self,
        agent: &str,
        conversation: &str,
        mut turn: Kept,
    ) -> Result<(), DatabaseError> {
        let (agent, conversation) = (agent.to_owned(), conversation.to_owned());
        let hidden = Value::from(std::mem::take(&mut turn.hidden)).to_string();
        if hidden.len() > PROXY_TURN_BYTES_MAX {
            tracing::warn!(agent, "a turn's hidden messages are too long to be kept");
            return Ok(());
        }
        let work = move |db: &mut Connection| insert(db, &agent, &conversation, &turn, &hidden);
        self.database.run(work).await
    }

    /// Takes note that `provider` keeps these for `agent`. The first agent that has one of that provider keeps
    /// it; what was not used for longest makes room.
    ///
    /// # Errors
    /// The store cannot be used.
    pub(crate) async fn made(
        &self,
        agent: &str,
        ids: Vec<String>,
        provider: &str,
    ) -> Result<(), DatabaseError> {
        let [agent, provider] = [agent, provider].map(str::to_owned);
        self.database.run(move |db| insert_made(db, &agent, &ids, &provider)).await
    }

    /// Returns for each of `ids` the providers that keep it for `agent`, the first that made one of that name first,
    /// and takes note that it was used. None for those that it has not had made.
    ///
    /// # Errors
    /// The store cannot be used.
    pub(crate) async fn makers(
        &self,
        agent: &str,
        ids: Vec<String>,
    ) -> Result<Vec<Vec<String>>, DatabaseError> {
        let agent = agent.to_owned();
        self.database.run(move |db| use_made(db, &agent, &ids)).await
    }
}

fn use_made(
    db: &mut Connection,
    agent: &str,
    ids: &[String],
) -> rusqlite::Result<Vec<Vec<String>>> {
    let transaction = db.transaction()?;
    let mut update = transaction.prepare(
        "UPDATE proxy_responses SET used = (SELECT max(used) + 1 FROM proxy_responses WHERE agent = ?2)
             WHERE id = ?1 AND agent = ?2 RETURNING number, provider",
    )?;
    let mut makers = |id: &String| {
        let rows = update.query_map([id, agent], |row| Ok((row.get(0)?, row.get(1)?)))?;
        let makers = rows.collect::<rusqlite::Result<BTreeMap<i64, String>>>()?;
        Ok(makers.into_values().collect())
    };
    let makers = ids.iter().map(&mut makers).collect::<rusqlite::Result<_>>()?;
    drop(update);
    transaction.commit()?;
    Ok(makers)
}

fn insert_made(
    db: &mut Connection,
    agent: &str,
    ids: &[String],
    provider: &str,
) -> rusqlite::Result<()> {
    let transaction = db.transaction()?;
    for id in ids {
        // An agent's own is named again by what follows it.
        let owner: String = transaction.query_row(
            "INSERT INTO proxy_responses (id, agent, provider, used) VALUES (?1, ?2, ?3,
                 (SELECT coalesce(max(used), 0) + 1 FROM proxy_responses WHERE agent = ?2))
                 ON CONFLICT (provider, id) DO UPDATE
                 SET used = CASE agent WHEN excluded.agent THEN excluded.used ELSE used END
                 RETURNING agent",
            [id, agent, provider],
            |row| row.get(0),
        )?;
        if owner != agent {
            tracing::warn!(agent, provider, "a provider calls two things {id}");
        }
    }
    transaction.execute(
        "DELETE FROM proxy_responses WHERE agent = ?1 AND used <= (SELECT used FROM
             proxy_responses WHERE agent = ?1 ORDER BY used DESC LIMIT 1 OFFSET ?2)",
        params![agent, size(PROXY_NAMES_KEPT_MAX)],
    )?;
    transaction.commit()
}

fn read(db: &Connection, agent: &str, conversation: &str) -> rusqlite::Result<Vec<Kept>> {
    let mut select = db.prepare(
        "SELECT anchor, hidden, place FROM proxy_turns WHERE agent = ?1 AND conversation = ?2 ORDER BY id",
    )?;
    let row = |row: &rusqlite::Row<'_>| {
        let hidden: String = row.get(1)?;
        let hidden = serde_json::from_str(&hidden).unwrap_or_default();
        let place = usize::try_from(row.get::<_, i64>(2)?).unwrap_or(usize::MAX);
        Ok(Kept { anchor: row.get(0)?, place, hidden })
    };
    select.query_map([agent, conversation], row)?.collect()
}

fn insert(
    db: &mut Connection,
    agent: &str,
    conversation: &str,
    turn: &Kept,
    hidden: &str,
) -> rusqlite::Result<()> {
    let (anchor, place) = (&turn.anchor, size(turn.place));
    let transaction = db.transaction()?;
    transaction.execute(
        "DELETE FROM proxy_turns WHERE agent = ?1 AND conversation = ?2 AND anchor = ?3 AND hidden = ?4",
        params![agent, conversation, anchor, hidden],
    )?;
    transaction.execute(
        "INSERT INTO proxy_turns (agent, conversation, anchor, bytes, hidden, place)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![agent, conversation, anchor, size(hidden.len()), hidden, place],
    )?;
    transaction.execute(
        "DELETE FROM proxy_turns WHERE agent = ?1 AND conversation = ?2 AND id NOT IN (
             SELECT id FROM proxy_turns WHERE agent = ?1 AND conversation = ?2 ORDER BY id DESC LIMIT ?3)",
        params![agent, conversation, size(PROXY_TURNS_KEPT_MAX)],
    )?;
    make_room(&transaction, agent)?;
    transaction.commit()
}

/// Removes the oldest turns of an agent until the rest is within the bound. It may have tens of thousands, and every
/// host on the store waits meanwhile: they are added up, and otherwise only those are looked at that go. The sign
/// keeps SQLite from the index, by which the oldest are not the first.
fn make_room(transaction: &Transaction<'_>, agent: &str) -> rusqlite::Result<()> {
    let sum = "SELECT coalesce(sum(bytes), 0) FROM proxy_turns WHERE agent = ?1";
    let sum: i64 = transaction.query_row(sum, [agent], |row| row.get(0))?;
    let mut over = sum.saturating_sub(size(PROXY_TURNS_BYTES_MAX));
    let mut last = 0_i64;
    let oldest = "SELECT id, bytes FROM proxy_turns WHERE +agent = ?1 ORDER BY id";
    let mut oldest = transaction.prepare(oldest)?;
    let mut oldest = oldest.query([agent])?;
    while over > 0
        && let Some(row) = oldest.next()?
    {
        last = row.get(0)?;
        over = over.saturating_sub(row.get(1)?);
    }
    let delete = "DELETE FROM proxy_turns WHERE +agent = ?1 AND id <= ?2";
    transaction.execute(delete, params![agent, last]).map(drop)
}

fn size(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn turn(name: &str, bytes: usize) -> Kept {
        let hidden = vec![json!({ "content": "x".repeat(bytes) })];
        Kept { anchor: name.to_owned(), place: 1, hidden }
    }

    async fn kept(store: &Continuity, agent: &str, conversation: &str) -> Vec<String> {
        let turns = store.turns(agent, conversation).await.unwrap();
        turns.into_iter().map(|turn| turn.anchor).collect()
    }

    #[tokio::test]
    async fn the_newest_turns_of_a_conversation_are_kept_for_its_agent() {
        let store = Continuity::new(Database::in_memory(&[("proxy", MIGRATIONS)]).unwrap());
        for number in 0..=PROXY_TURNS_KEPT_MAX {
            store.keep("a", "c", turn(&number.to_string(), 1)).await.unwrap();
        }
        store.keep("a", "c", turn("8", 1)).await.unwrap();
        store.keep("a", "c", turn("long", PROXY_TURN_BYTES_MAX)).await.unwrap();
        assert_eq!(kept(&store, "a", "c").await, ["1", "2", "3", "4", "5", "6", "7", "8"]);
        assert!(kept(&store, "a", "other").await.is_empty());
        assert!(kept(&store, "b", "c").await.is_empty());
    }

    #[tokio::test]
    async fn the_oldest_turns_of_an_agent_make_room() {
        let store = Continuity::new(Database::in_memory(&[("proxy", MIGRATIONS)]).unwrap());
        let bytes = PROXY_TURN_BYTES_MAX - 100;
        store.keep("b", "c", turn("other", bytes)).await.unwrap();
        let fit = PROXY_TURNS_BYTES_MAX / (PROXY_TURN_BYTES_MAX - 80);
        for number in 0..=fit {
            store.keep("a", &number.to_string(), turn("t", bytes)).await.unwrap();
        }
        assert!(kept(&store, "a", "0").await.is_empty());
        assert_eq!(kept(&store, "a", "1").await, ["t"]);
        assert_eq!(kept(&store, "b", "c").await, ["other"]);
    }

    #[tokio::test]
    async fn what_was_made_is_of_the_agent_who_had_it_made_and_the_oldest_make_room() {
        let store = Continuity::new(Database::in_memory(&[("proxy", MIGRATIONS)]).unwrap());
        let made = async |agent: &str, id: &str, provider: &str| {
            store.made(agent, vec![id.to_owned()], provider).await.unwrap();
        };
        let makers = async |agent: &str, id: &str| {
            store.makers(agent, vec![id.to_owned()]).await.unwrap().concat()
        };
        made("b", "r", "main").await;
        made("a", "r", "main").await;
        assert_eq!(makers("b", "r").await, ["main"]);
        assert!(makers("a", "r").await.is_empty());
        // Another provider's names are its own, and take nothing from who made the first of that name.
        made("a", "r", "other").await;
        assert_eq!(makers("a", "r").await, ["other"]);
        made("b", "r", "third").await;
        made("b", "r", "main").await;
        assert_eq!(makers("b", "r").await, ["main", "third"]);
        let names = |from: usize, to: usize| (from..to).map(|number| number.to_string()).collect();
        store.made("a", names(0, PROXY_NAMES_KEPT_MAX), "main").await.unwrap();
        assert!(makers("a", "r").await.is_empty(), "the oldest");
        // What is named, or said to be made again, is used.
        assert_eq!(makers("a", "1").await, ["main"]);
        made("a", "2", "main").await;
        let end = PROXY_NAMES_KEPT_MAX + 3;
        store.made("a", names(PROXY_NAMES_KEPT_MAX, end), "main").await.unwrap();
        for (id, is_kept) in
            [("0", false), ("1", true), ("2", true), ("3", false), ("4", false), ("5", true)]
        {
            assert_eq!(!makers("a", id).await.is_empty(), is_kept, "{id}");
        }
        assert!(!makers("b", "r").await.is_empty());
    }
}
