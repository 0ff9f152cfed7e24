//! What runners never saw of their turns through the proxy, kept for the turns that follow, and which provider
//! keeps which of an agent's answers.
//!
//! One agent's conversations are its own. The newest turns of each are kept, within a bound of bytes for
//! all of them. Deliberately absent: what a conversation is, and where messages belong, which
//! `core::mediate` knows.

use clawhost_core::limits::{
    PROXY_RESPONSES_KEPT_MAX, PROXY_TURN_BYTES_MAX, PROXY_TURNS_BYTES_MAX, PROXY_TURNS_KEPT_MAX,
};
use clawhost_core::mediate::Kept;
use rusqlite::{Connection, OptionalExtension as _, params};
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

    /// Takes note that `provider` keeps an answer for `agent`. The first agent that has it of that provider keeps
    /// it; the oldest make room.
    ///
    /// # Errors
    /// The store cannot be used.
    pub(crate) async fn made(
        &self,
        agent: &str,
        id: &str,
        provider: &str,
    ) -> Result<(), DatabaseError> {
        let [agent, id, provider] = [agent, id, provider].map(str::to_owned);
        let work = move |db: &mut Connection| {
            let new = db.execute(
                "INSERT OR IGNORE INTO proxy_responses (id, agent, provider) VALUES (?1, ?2, ?3)",
                [&id, &agent, &provider],
            )?;
            if new == 0 {
                tracing::warn!(agent, provider, "a provider calls two responses {id}");
            }
            db.execute(
                "DELETE FROM proxy_responses WHERE agent = ?1 AND number <= (SELECT number FROM
                     proxy_responses WHERE agent = ?1 ORDER BY number DESC LIMIT 1 OFFSET ?2)",
                params![agent, PROXY_RESPONSES_KEPT_MAX],
            )
        };
        self.database.run(work).await.map(drop)
    }

    /// Returns the provider that keeps an answer for `agent`; of several, the last that made one of that id.
    ///
    /// # Errors
    /// The store cannot be read.
    pub(crate) async fn maker(
        &self,
        agent: &str,
        id: &str,
    ) -> Result<Option<String>, DatabaseError> {
        let [agent, id] = [agent, id].map(str::to_owned);
        let work = move |db: &mut Connection| {
            let select = "SELECT provider FROM proxy_responses WHERE id = ?1 AND agent = ?2
                ORDER BY number DESC LIMIT 1";
            db.query_row(select, [&id, &agent], |row| row.get(0)).optional()
        };
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

    #[tokio::test]
    async fn a_response_is_of_the_agent_who_had_it_made_and_the_oldest_make_room() {
        let store = Continuity::new(Database::in_memory(&[("proxy", MIGRATIONS)]).unwrap());
        store.made("b", "r", "main").await.unwrap();
        store.made("a", "r", "main").await.unwrap();
        let maker = async |agent: &str, id: &str| store.maker(agent, id).await.unwrap();
        assert_eq!(maker("b", "r").await.as_deref(), Some("main"));
        assert_eq!(maker("a", "r").await, None);
        // Another provider's names are its own.
        store.made("a", "r", "other").await.unwrap();
        assert_eq!(maker("a", "r").await.as_deref(), Some("other"));
        assert_eq!(maker("b", "r").await.as_deref(), Some("main"));
        for number in 0..=PROXY_RESPONSES_KEPT_MAX {
            store.made("a", &number.to_string(), "main").await.unwrap();
        }
        assert_eq!(maker("a", "0").await, None);
        assert!(maker("a", "1").await.is_some() && maker("b", "r").await.is_some());
    }
}
