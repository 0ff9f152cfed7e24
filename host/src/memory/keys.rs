//! Keys and values: what tools keep for the agent that calls them, and its preferences.
//!
//! A store of the host's own, beside those of Memory documents, which neither sees of the other.
//! Each agent has its own part under each identity. A key is a text that is compared byte by byte,
//! and never a path. Nothing is dropped to make room: what would exceed a bound is refused.

use std::sync::Arc;
use std::time::Duration;

use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::limits::{
    KEY_BYTES_MAX, KEY_VALUE_BYTES_MAX, KEYS_BYTES_MAX, KEYS_LISTED_MAX, KEYS_PER_AGENT_MAX,
    MEMORY_QUERY_MS,
};
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::json;

use super::{Outcome, Sql, backend};
use crate::clock;
use crate::state::Database;

/// The tables of this module. The second index alone tells what an agent has.
pub const MIGRATIONS: &[&str] = &[include_str!("keys.sql")];

/// What a part is for: those of one agent do not see each other either.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// What tools keep.
    Tools,
    /// What the agent prefers.
    Preferences,
}

/// The store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Keys {
    database: Database,
    identity: Arc<str>,
}

/// One entry, without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyEntry {
    /// Its key.
    pub key: String,
    /// Bytes of its value.
    pub bytes: u64,
    /// When it was set, in milliseconds since 1970, UTC.
    pub set_at_ms: u64,
}

/// One agent's part of the store.
#[derive(Debug, Clone)]
pub struct OwnKeys {
    database: Database,
    owner: String,
}

impl Keys {
    /// Returns the store of the agents of `identity` in `database`, which has to have
    /// [`MIGRATIONS`].
    pub fn new(database: Database, identity: &str) -> Self {
        Self { database, identity: identity.into() }
    }

    /// Returns the part of `agent`.
    pub fn of(&self, agent: &str, space: Space) -> OwnKeys {
        let space = match space {
            Space::Tools => "tools",
            Space::Preferences => "preferences",
        };
        // As JSON, no two owners have the same text.
        let owner = json!([space, &*self.identity, agent]).to_string();
        OwnKeys { database: self.database.clone(), owner }
    }
}

impl OwnKeys {
    /// Returns the value under `key`.
    ///
    /// # Errors
    /// -32602 for what can be no key; -32030 where the store does not answer.
    pub async fn get(&self, key: &str) -> Result<Option<String>, CallError> {
        let (owner, key) = (self.owner.clone(), checked(key)?);
        let select = "SELECT value FROM key_values WHERE owner = ?1 AND key = ?2";
        self.read(move |db| db.query_row(select, [owner, key], |row| row.get(0)).optional()).await
    }

    /// Puts `value` under `key`, in the place of what was there. When it returns it is on disk.
    ///
    /// # Errors
    /// -32602 for what can be no key, -32031 where a bound would be exceeded, which `data.limit`
    /// names; -32030 where the store does not answer.
    pub async fn set(&self, key: &str, value: &str) -> Result<(), CallError> {
        let (owner, key) = (self.owner.clone(), checked(key)?);
        if value.len() > KEY_VALUE_BYTES_MAX {
            let text =
                format!("the value has {} bytes; the most is {KEY_VALUE_BYTES_MAX}", value.len());
            return Err(full(text, Limit::KeyValueBytes));
        }
        let (value, now_ms) = (value.to_owned(), clock::now_ms());
        self.database.run(move |db| put(db, &owner, &key, &value, now_ms)).await.map_err(backend)?
    }

    /// Takes away what is under `key`, and says whether anything was.
    ///
    /// # Errors
    /// As [`OwnKeys::get`].
    pub async fn delete(&self, key: &str) -> Result<bool, CallError> {
        let (owner, key) = (self.owner.clone(), checked(key)?);
        let delete = "DELETE FROM key_values WHERE owner = ?1 AND key = ?2";
        let deleted = self.database.run(move |db| db.execute(delete, [owner, key])).await;
        deleted.map(|count| count > 0).map_err(backend)
    }

    /// Returns up to `limit` entries, [`KEYS_LISTED_MAX`] at most, whose keys begin with `prefix`
    /// and come after `after` in the order of bytes; and whether there are more.
    ///
    /// # Errors
    /// -32030 where the store does not answer.
    pub async fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        limit: u32,
    ) -> Result<(Vec<KeyEntry>, bool), CallError> {
        let (owner, prefix) = (self.owner.clone(), prefix.to_owned());
        let after = after.map(str::to_owned);
        let limit = usize::try_from(limit.min(KEYS_LISTED_MAX)).unwrap_or_default();
        self.read(move |db| page(db, &owner, &prefix, after.as_deref(), limit)).await
    }

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Connection) -> Sql<T> + Send + 'static,
    ) -> Result<T, CallError> {
        let limit = Duration::from_millis(MEMORY_QUERY_MS);
        self.database.search(limit, work).await.map_err(backend)
    }
}

/// Writes one entry, if there is room. Nothing counts before it is known that there is.
fn put(db: &mut Connection, owner: &str, key: &str, value: &str, now_ms: i64) -> Outcome<()> {
    let change = db.transaction()?;
    let bytes = i64::try_from(key.len() + value.len()).unwrap_or(i64::MAX);
    change.execute(
        "INSERT INTO key_values (owner, key, bytes, set_at_ms, value) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (owner, key) DO UPDATE SET bytes = ?3, set_at_ms = ?4, value = ?5",
        params![owner, key, bytes, now_ms, value],
    )?;
    let sums = "SELECT count(*), sum(bytes) FROM key_values WHERE owner = ?1";
    let (entries, bytes): (i64, i64) =
        change.query_row(sums, [owner], |row| Ok((row.get(0)?, row.get(1)?)))?;
    if u64::try_from(entries).unwrap_or_default() > KEYS_PER_AGENT_MAX {
        let text =
            format!("there are {KEYS_PER_AGENT_MAX} entries, the most there may be: delete some");
        return Ok(Err(full(text, Limit::KeysPerAgent)));
    }
    if u64::try_from(bytes).unwrap_or_default() > KEYS_BYTES_MAX {
        let text =
            format!("all keys and values would have more than {KEYS_BYTES_MAX} bytes: delete some");
        return Ok(Err(full(text, Limit::KeysBytes)));
    }
    change.commit()?;
    Ok(Ok(()))
}

/// Keys with one prefix lie beside each other in the order of bytes, from the prefix on.
fn page(
    db: &Connection,
    owner: &str,
    prefix: &str,
    after: Option<&str>,
    limit: usize,
) -> Sql<(Vec<KeyEntry>, bool)> {
    let mut select = db.prepare(
        "SELECT key, bytes, set_at_ms FROM key_values
         WHERE owner = ?1 AND key >= ?2 AND (?3 IS NULL OR key > ?3) ORDER BY key",
    )?;
    let from = after.unwrap_or_default().max(prefix);
    let mut rows = select.query(params![owner, from, after])?;
    let mut entries = Vec::new();
    while let Some(row) = rows.next()? {
        let key: String = row.get(0)?;
        if !key.starts_with(prefix) {
            break;
        }
        if entries.len() == limit {
            return Ok((entries, true));
        }
        let number = |at| row.get::<_, i64>(at).map(|n| u64::try_from(n).unwrap_or_default());
        // The column has the key's as well, which count among all that an agent may keep.
        let bytes = number(1)?.saturating_sub(key.len() as u64);
        entries.push(KeyEntry { key, bytes, set_at_ms: number(2)? });
    }
    Ok((entries, false))
}

fn checked(key: &str) -> Result<String, CallError> {
    if (1..=KEY_BYTES_MAX).contains(&key.len()) {
        return Ok(key.to_owned());
    }
    let text = format!("a key has 1 to {KEY_BYTES_MAX} bytes, this one has {}", key.len());
    Err(CallError::new(ErrorKind::InvalidArguments, text))
}

fn full(text: String, limit: Limit) -> CallError {
    CallError::new(ErrorKind::MemoryQuery, text).with_limit(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys() -> Keys {
        Keys::new(Database::in_memory(&[("keys", MIGRATIONS)]).unwrap(), "me")
    }

    async fn names(own: &OwnKeys, prefix: &str) -> Vec<String> {
        let (entries, more) = own.list(prefix, None, 100).await.unwrap();
        assert!(!more);
        entries.into_iter().map(|entry| entry.key).collect()
    }

    #[tokio::test]
    async fn a_key_is_the_same_only_byte_by_byte_and_never_a_path() {
        let own = keys().of("a", Space::Tools);
        let all = ["../x", "/etc/passwd", "A", "a", "a\0b", "a%", "a_", "\u{e9}", "e\u{301}", "🦀"];
        for key in all {
            own.set(key, key).await.unwrap();
        }
        for key in all {
            assert_eq!(own.get(key).await.unwrap().as_deref(), Some(key), "{key:?}");
        }
        assert_eq!(names(&own, "a").await, ["a", "a\0b", "a%", "a_"]);
        assert_eq!(names(&own, "a%").await, ["a%"]);
        assert_eq!(names(&own, "").await.len(), all.len());
        assert!(own.delete("A").await.unwrap() && !own.delete("A").await.unwrap());
        assert_eq!(own.get("a").await.unwrap().as_deref(), Some("a"));
        let long = "k".repeat(KEY_BYTES_MAX + 1);
        for key in ["", long.as_str()] {
            assert_eq!(own.set(key, "").await.unwrap_err().kind, ErrorKind::InvalidArguments);
            assert_eq!(own.get(key).await.unwrap_err().kind, ErrorKind::InvalidArguments);
        }
    }

    #[tokio::test]
    async fn nobody_sees_what_another_keeps() {
        let keys = keys();
        let other = Keys { identity: "other".into(), ..keys.clone() };
        keys.of("a", Space::Tools).set("k", "mine").await.unwrap();
        for own in [
            keys.of("b", Space::Tools),
            keys.of("A", Space::Tools),
            keys.of("a", Space::Preferences),
            other.of("a", Space::Tools),
            keys.of("a\",\"tools", Space::Tools),
        ] {
            assert_eq!(own.get("k").await.unwrap(), None, "{own:?}");
            assert!(!own.delete("k").await.unwrap() && names(&own, "").await.is_empty());
        }
        assert!(keys.of("a", Space::Tools).get("k").await.unwrap().is_some());
    }

    #[tokio::test]
    async fn pages_hold_every_key_once_and_in_order() {
        let own = keys().of("a", Space::Tools);
        for number in 0..25 {
            own.set(&format!("n{number:02}"), "v").await.unwrap();
        }
        own.set("m", "").await.unwrap();
        own.set("o", "").await.unwrap();
        let (mut found, mut after) = (Vec::new(), None::<String>);
        loop {
            let (entries, more) = own.list("n", after.as_deref(), 10).await.unwrap();
            found.extend(entries.into_iter().map(|entry| entry.key));
            after = found.last().cloned();
            if !more {
                break;
            }
        }
        let expected: Vec<String> = (0..25).map(|number| format!("n{number:02}")).collect();
        assert_eq!(found, expected);
        assert_eq!(own.list("n", None, 1).await.unwrap().0[0].bytes, 1, "of the value alone");
        // A cursor that is no key, and one before the prefix.
        assert_eq!(own.list("n", Some("n000"), 1).await.unwrap().0[0].key, "n01");
        assert_eq!(own.list("n", Some("a"), 1).await.unwrap().0[0].key, "n00");
    }

    #[tokio::test]
    async fn every_bound_is_kept_and_named_and_nothing_is_lost_to_it() {
        let own = keys().of("a", Space::Tools);
        let limit = |error: CallError| error.data["limit"].as_str().unwrap().to_owned();
        let long = "v".repeat(KEY_VALUE_BYTES_MAX + 1);
        assert_eq!(limit(own.set("k", &long).await.unwrap_err()), "KEY_VALUE_BYTES_MAX");
        let value = &long[1..];
        let room = KEYS_BYTES_MAX / (KEY_VALUE_BYTES_MAX as u64 + 3);
        for number in 0..room {
            own.set(&format!("{number:03}"), value).await.unwrap();
        }
        assert_eq!(limit(own.set("one", value).await.unwrap_err()), "KEYS_BYTES_MAX");
        assert_eq!(own.get("one").await.unwrap(), None);
        own.set("000", value).await.unwrap();
        assert!(own.delete("000").await.unwrap());
        own.set("one", value).await.unwrap();
    }

    #[tokio::test]
    async fn entries_are_counted() {
        let keys = keys();
        let own = keys.of("a", Space::Tools);
        let owner = own.owner.clone();
        let most = i64::try_from(KEYS_PER_AGENT_MAX).unwrap();
        let fill = move |db: &mut Connection| {
            db.execute(
                "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
                 INSERT INTO key_values SELECT ?1, 'k' || i, 3, 0, 'v' FROM n",
                params![owner, most],
            )
        };
        keys.database.run(fill).await.unwrap();
        let refused = own.set("one more", "v").await.unwrap_err();
        assert_eq!(refused.data["limit"], "KEYS_PER_AGENT_MAX");
        own.set("k1", "another").await.unwrap();
        keys.of("b", Space::Tools).set("k", "v").await.unwrap();
    }
}
