//! What runners never saw of their turns through the proxy, kept for the turns that follow.
//!
//! One agent's conversations are its own. The newest turns of each are kept, within a bound of bytes for
//! all of them. Deliberately absent: what a conversation is, and where messages belong, which
//! `core::mediate` knows.

use clawhost_core::limits::{PROXY_TURN_BYTES_MAX, PROXY_TURNS_BYTES_MAX, PROXY_TURNS_KEPT_MAX};
use clawhost_core::mediate::Kept;
use rusqlite::{Connection, params};
use serde_json::Value;

use crate::state::{Database, DatabaseError};

/// The table of this module.
pub(crate) const MIGRATIONS: &[&str] = &["CREATE TABLE proxy_turns (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    agent TEXT NOT NULL,
    conversation TEXT NOT NULL,
    anchor TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    hidden TEXT NOT NULL
) STRICT;
CREATE INDEX proxy_turns_of ON proxy_turns (agent, conversation, id)"];

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
        turn: Kept,
    ) -> Result<(), DatabaseError> {
        let (agent, conversation) = (agent.to_owned(), conversation.to_owned());
        let hidden = Value::from(turn.hidden).to_string();
        if hidden.len() > PROXY_TURN_BYTES_MAX {
            tracing::warn!(agent, "a turn's hidden messages are too long to be kept");
            return Ok(());
        }
        let work =
            move |db: &mut Connection| insert(db, &agent, &conversation, &turn.anchor, &hidden);
        self.database.run(work).await
    }
}

fn read(db: &Connection, agent: &str, conversation: &str) -> rusqlite::Result<Vec<Kept>> {
    let mut select = db.prepare(
        "SELECT anchor, hidden FROM proxy_turns WHERE agent = ?1 AND conversation = ?2 ORDER BY id",
    )?;
    let row = |row: &rusqlite::Row<'_>| {
        let hidden: String = row.get(1)?;
        let hidden = serde_json::from_str(&hidden).unwrap_or_default();
        Ok(Kept { anchor: row.get(0)?, hidden })
    };
    select.query_map([agent, conversation], row)?.collect()
}

fn insert(
    db: &mut Connection,
    agent: &str,
    conversation: &str,
    anchor: &str,
    hidden: &str,
) -> rusqlite::Result<()> {
    let size = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    let transaction = db.transaction()?;
    transaction.execute(
        "DELETE FROM proxy_turns WHERE agent = ?1 AND conversation = ?2 AND anchor = ?3 AND hidden = ?4",
        params![agent, conversation, anchor, hidden],
    )?;
    transaction.execute(
        "INSERT INTO proxy_turns (agent, conversation, anchor, bytes, hidden) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![agent, conversation, anchor, size(hidden.len()), hidden],
    )?;
    transaction.execute(
        "DELETE FROM proxy_turns WHERE agent = ?1 AND conversation = ?2 AND id NOT IN (
             SELECT id FROM proxy_turns WHERE agent = ?1 AND conversation = ?2 ORDER BY id DESC LIMIT ?3)",
        params![agent, conversation, size(PROXY_TURNS_KEPT_MAX)],
    )?;
    transaction.execute(
        "DELETE FROM proxy_turns WHERE agent = ?1 AND id NOT IN (SELECT id FROM (
             SELECT id, sum(bytes) OVER (ORDER BY id DESC) AS sum FROM proxy_turns WHERE agent = ?1)
             WHERE sum <= ?2)",
        params![agent, size(PROXY_TURNS_BYTES_MAX)],
    )?;
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn turn(name: &str, bytes: usize) -> Kept {
        Kept { anchor: name.to_owned(), hidden: vec![json!({ "content": "x".repeat(bytes) })] }
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
}
