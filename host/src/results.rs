//! Results that were cut, kept for a while: who got the reply reads the rest in pages.
//!
//! Only the agent that called can read one, by an id that nobody guesses. What is kept has passed every
//! screen and holds no secret. Deliberately absent: pictures and other bytes, which are cut as ever.

use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::limits::{
    RESULT_KEPT_MS, RESULT_PAGE_BYTES_MAX, RESULTS_BYTES_MAX, RESULTS_PER_AGENT_MAX,
};
use clawhost_core::reply::{Content, ToolReply};
use clawhost_core::truncate;
use rusqlite::{Connection, OptionalExtension as _, params};
use serde_json::{Map, Value};

use crate::state::{Database, DatabaseError};
use crate::{clock, random};

/// The table of this module.
pub const MIGRATIONS: &[&str] = &[include_str!("results/results.sql")];

/// A text that is shorter stays in the value that has it as well: which member says it is more than its few bytes.
const SAID_BYTES_MIN: usize = 256;

/// The longest a character is.
const CHARACTER_BYTES_MAX: usize = 4;

/// The kept results of one store. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Results {
    database: Database,
}

/// A part of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Its text.
    pub text: String,
    /// Where it ends, in bytes from the beginning.
    pub end: usize,
    /// How long the whole result is, in bytes.
    pub bytes: usize,
}

impl Results {
    /// Returns the results that `database` keeps, which has to have [`MIGRATIONS`].
    pub fn new(database: Database) -> Self {
        Self { database }
    }

    /// Keeps `text` for `owner` and returns its id. The owner's oldest make room for it.
    ///
    /// # Errors
    /// It is larger than all that one agent may have, or the store cannot be used.
    pub async fn keep(&self, owner: &str, text: String) -> Result<String, CallError> {
        if text.len() > RESULTS_BYTES_MAX {
            let error = CallError::new(ErrorKind::Sandbox, "the result is too large to be kept");
            return Err(error.with_limit(Limit::ResultsBytes));
        }
        let id = random::hex::<16>()?;
        let (owner, own, now_ms) = (owner.to_owned(), id.clone(), clock::now_ms());
        let work = move |db: &mut Connection| insert(db, &own, &owner, &text, now_ms);
        self.database.run(work).await.map_err(unavailable)?;
        Ok(id)
    }

    /// Returns the part of a result of `owner` that begins at `offset` and takes at most `bytes_max` as
    /// JSON; nothing where there is none of that id, or it ends before, or no character begins there.
    ///
    /// # Errors
    /// The store cannot be used.
    pub async fn page(
        &self,
        owner: &str,
        id: &str,
        offset: usize,
        bytes_max: usize,
    ) -> Result<Option<Page>, CallError> {
        let (owner, id, now_ms) = (owner.to_owned(), id.to_owned(), clock::now_ms());
        let work = move |db: &mut Connection| read(db, &id, &owner, offset, now_ms);
        let read = self.database.run(work).await.map_err(unavailable)?;
        Ok(read.and_then(|(bytes, part)| Page::of(bytes, &part, offset, bytes_max)))
    }
}

impl Page {
    /// Takes as much of `part` as `bytes_max` of JSON hold.
    fn of(bytes: usize, part: &[u8], offset: usize, bytes_max: usize) -> Option<Self> {
        let text = match std::str::from_utf8(part) {
            Ok(text) => text,
            // A character may go on behind the part, and none may have begun before it.
            Err(error) => std::str::from_utf8(part.get(..error.valid_up_to())?).ok()?,
        };
        let text = truncate::escaped(text, bytes_max).to_owned();
        (!text.is_empty()).then(|| Self { end: offset + text.len(), bytes, text })
    }
}

/// Returns all that a reply says as one text, where it is texts and a structured value: last what of that no
/// text says.
pub(crate) fn whole(reply: &ToolReply) -> Option<String> {
    let content = reply.content.as_slice();
    let texts = content.iter().map(|block| match block {
        Content::Text(text) => Some(text.as_str()),
        _ => None,
    });
    let mut all = texts.collect::<Option<Vec<_>>>()?;
    let is_more = |it: &&Value| content.is_empty() || !truncate::is_shown_alone(content, it);
    let more = reply.structured.as_ref().filter(is_more).and_then(|value| unsaid(value, &all));
    all.extend(more.as_deref());
    Some(all.join("\n"))
}

/// Returns `value` as JSON without those of its members that are long and among `texts`: what a program writes is
/// both, and twice it could be more than is kept.
fn unsaid(value: &Value, texts: &[&str]) -> Option<String> {
    let is_long = |text: &str| text.len() >= SAID_BYTES_MIN && texts.contains(&text);
    let is_said = |part: &Value| part.as_str().is_some_and(is_long);
    match value {
        Value::Object(members) if members.values().any(is_said) => {
            let others = members.iter().filter(|(_, part)| !is_said(part));
            let others: Map<_, _> =
                others.map(|(name, part)| (name.clone(), part.clone())).collect();
            (!others.is_empty()).then(|| Value::Object(others).to_string())
        }
        value => Some(value.to_string()),
    }
}

fn unavailable(error: DatabaseError) -> CallError {
    error.into_call_error(ErrorKind::Internal)
}

/// Puts a result in, after what has expired and what has to make room for it.
fn insert(
    db: &mut Connection,
    id: &str,
    owner: &str,
    text: &str,
    now_ms: i64,
) -> rusqlite::Result<()> {
    let transaction = db.transaction()?;
    transaction.execute("DELETE FROM results WHERE expires_ms <= ?1", [now_ms])?;
    let size = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
    let room = size(RESULTS_BYTES_MAX - text.len());
    // Those stay that, counted from the newest, leave room.
    transaction.execute(
        "DELETE FROM results WHERE owner = ?1 AND id NOT IN (SELECT id FROM (
             SELECT id, sum(bytes) OVER newest AS sum, row_number() OVER newest AS place
             FROM results WHERE owner = ?1 WINDOW newest AS (ORDER BY expires_ms DESC, rowid DESC))
             WHERE sum <= ?2 AND place < ?3)",
        params![owner, room, size(RESULTS_PER_AGENT_MAX)],
    )?;
    let expires_ms = now_ms.saturating_add_unsigned(RESULT_KEPT_MS);
    transaction.execute(
        "INSERT INTO results (id, owner, bytes, expires_ms, text) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![id, owner, size(text.len()), expires_ms, text.as_bytes()],
    )?;
    transaction.commit()
}

/// Returns how long the result is, and a part of it.
fn read(
    db: &mut Connection,
    id: &str,
    owner: &str,
    offset: usize,
    now_ms: i64,
) -> rusqlite::Result<Option<(usize, Vec<u8>)>> {
    let select = "SELECT bytes, substr(text, ?3, ?4) FROM results \
         WHERE id = ?1 AND owner = ?2 AND expires_ms > ?5";
    let from = i64::try_from(offset).unwrap_or(i64::MAX).saturating_add(1);
    let most = i64::try_from(RESULT_PAGE_BYTES_MAX + CHARACTER_BYTES_MAX).unwrap_or(i64::MAX);
    let row = |row: &rusqlite::Row<'_>| {
        let bytes: i64 = row.get(0)?;
        Ok((usize::try_from(bytes).unwrap_or(0), row.get(1)?))
    };
    db.query_row(select, params![id, owner, from, most, now_ms], row).optional()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn results() -> Results {
        Results::new(Database::in_memory(&[("results", MIGRATIONS)]).unwrap())
    }

    async fn page(results: &Results, owner: &str, id: &str, offset: usize) -> Option<Page> {
        results.page(owner, id, offset, RESULT_PAGE_BYTES_MAX).await.unwrap()
    }

    #[tokio::test]
    async fn a_result_is_read_in_pages_by_who_got_it_and_nobody_else() {
        let results = results();
        let text = "ä\u{1}\"x".repeat(20_000);
        let id = results.keep("a", text.clone()).await.unwrap();
        assert_eq!(page(&results, "b", &id, 0).await, None);
        assert_eq!(page(&results, "a", "0123", 0).await, None);
        let (mut all, mut pages) = (String::new(), 0);
        while let Some(part) = page(&results, "a", &id, all.len()).await {
            let json = serde_json::to_string(&part.text).unwrap();
            assert!(json.len() <= RESULT_PAGE_BYTES_MAX + 2, "{}", json.len());
            assert_eq!((part.bytes, part.end), (text.len(), all.len() + part.text.len()));
            all.push_str(&part.text);
            pages += 1;
        }
        assert_eq!(all, text);
        assert!(pages > 3, "{pages}");
        for inside in [1, text.len(), usize::MAX] {
            assert_eq!(page(&results, "a", &id, inside).await, None, "{inside}");
        }
    }

    #[test]
    fn a_result_is_whole_with_its_texts_and_its_structured_value_each_once() {
        let value = || json!({"a": [1]});
        let text = || value().to_string();
        let long = || "x".repeat(SAID_BYTES_MIN);
        for (texts, structured, all) in [
            (vec![], Some(value()), text()),
            (vec![text()], Some(value()), text()),
            (vec!["x".to_owned()], Some(value()), format!("x\n{}", text())),
            (vec!["x".to_owned(), "y".to_owned()], None, "x\ny".to_owned()),
            (
                vec![long()],
                Some(json!({"exit_code": 0, "stdout": long()})),
                format!("{}\n{{\"exit_code\":0}}", long()),
            ),
            (vec![long()], Some(json!({"result": long()})), long()),
            (vec!["x".to_owned()], Some(json!({"is": "x"})), "x\n{\"is\":\"x\"}".to_owned()),
        ] {
            let content = texts.into_iter().map(Content::Text).collect();
            let reply = ToolReply { content, structured, ..ToolReply::default() };
            assert_eq!(whole(&reply), Some(all));
        }
    }

    #[tokio::test]
    async fn the_oldest_of_the_same_agent_make_room() {
        let results = results();
        let others = results.keep("b", "b".to_owned()).await.unwrap();
        let first = results.keep("a", "a".to_owned()).await.unwrap();
        for _ in 1..RESULTS_PER_AGENT_MAX {
            results.keep("a", "a".to_owned()).await.unwrap();
        }
        assert!(page(&results, "a", &first, 0).await.is_some());
        let last = results.keep("a", "a".to_owned()).await.unwrap();
        assert_eq!(page(&results, "a", &first, 0).await, None);
        let large = results.keep("a", "x".repeat(RESULTS_BYTES_MAX)).await.unwrap();
        assert_eq!(page(&results, "a", &last, 0).await, None);
        assert!(page(&results, "a", &large, 0).await.is_some());
        assert!(page(&results, "b", &others, 0).await.is_some());
        assert!(results.keep("a", "x".repeat(RESULTS_BYTES_MAX + 1)).await.is_err());
    }

    #[tokio::test]
    async fn what_has_expired_is_gone() {
        let results = results();
        let past = clock::now_ms() - i64::try_from(RESULT_KEPT_MS).unwrap();
        let work = move |db: &mut Connection| insert(db, "old", "a", "text", past);
        results.database.run(work).await.unwrap();
        assert_eq!(page(&results, "a", "old", 0).await, None);
    }
}
