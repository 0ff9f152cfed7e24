//! `claw.memory.store`, `query` and `compact`: from parameters to the stores.
//!
//! The requests name no identity, so the host's own remembers: a session's manifest cannot take
//! another one's part of a store.

use std::time::Instant;

use clawhost_core::error::CallError;
use clawhost_core::json::put;
use clawhost_core::truncate;
use clawhost_core::uri::Kind;
use serde_json::{Value, json};

use super::session::{Answer, ClawSession};
use crate::clock::{read_rfc3339, rfc3339};
use crate::memory::{Compacted, Entry, Found, Memory, NewEntry, Query, QueryKind, Scope};
use crate::serve::calls::Calls;
use crate::serve::message::Fault;
use crate::serve::params::Params;
use crate::telemetry::Event;

/// The name of a store that does not exist may be anything.
const STORE_SHOWN_BYTES_MAX: usize = 256;

impl<C: Calls> ClawSession<C> {
    pub(super) fn memory_store(&self, params: Params<'_>) -> Result<Answer, Fault> {
        let store = self.local_name(params, "store", Kind::Memory, params.name("store")?)?;
        let entries = params.list("entries")?.iter().enumerate();
        let entries: Vec<NewEntry> = entries
            .map(|(index, entry)| new_entry(params, index, entry))
            .collect::<Result<_, _>>()?;
        let context = Params::within(params.object("context")?, "context.");
        let request_id = context.request_id("request_id")?.to_owned();
        let ticket = self.ticket()?;
        let once = self.once("claw.memory.store", &request_id, params, &ticket);
        let (memory, scope) = self.memory("claw.memory.store")?;
        let calls = self.inner().calls.clone();
        Ok(ticket.later(once.run(async move {
            let work = memory.store(&scope, &store, entries);
            let ids = noted(&calls, ("store", &store), Vec::len, work).await?;
            Ok(json!({"stored": ids.len(), "ids": ids}))
        })))
    }

    pub(super) fn memory_query(&self, params: Params<'_>) -> Result<Answer, Fault> {
        let store = self.local_name(params, "store", Kind::Memory, params.name("store")?)?;
        let query = query(Params::within(params.object("query")?, "query."))?;
        let ticket = self.ticket()?;
        let (memory, scope) = self.memory("claw.memory.query")?;
        let calls = self.inner().calls.clone();
        Ok(ticket.later(async move {
            let work = memory.query(&scope, &store, query);
            let entries = |found: &Found| found.entries.len();
            let Found { entries, note } = noted(&calls, ("query", &store), entries, work).await?;
            let mut answer = json!({"entries": entries.into_iter().map(entry).collect::<Vec<_>>()});
            put(&mut answer, "note", note.map(Value::from));
            Ok(answer)
        }))
    }

    pub(super) fn memory_compact(&self, params: Params<'_>) -> Result<Answer, Fault> {
        let store = self.local_name(params, "store", Kind::Memory, params.name("store")?)?;
        let ticket = self.ticket()?;
        let (memory, scope) = self.memory("claw.memory.compact")?;
        let calls = self.inner().calls.clone();
        Ok(ticket.later(async move {
            let work = memory.compact(&scope, &store);
            let left = |done: &Compacted| usize::try_from(done.after).unwrap_or(usize::MAX);
            let compacted = noted(&calls, ("compact", &store), left, work).await?;
            Ok(json!({"entries_before": compacted.before, "entries_after": compacted.after}))
        }))
    }

    fn memory(&self, method: &str) -> Result<(Memory, Scope), Fault> {
        let inner = self.inner();
        let absent = || Fault::method(method, "this host has no memory");
        let memory = inner.calls.services().memory.cloned().ok_or_else(absent)?;
        let identity = inner.calls.services().manifest.identity.clone();
        Ok((memory, Scope { principal: inner.principal.0.clone(), identity }))
    }
}

/// Does `work` on a store, and tells how it ended: how many entries, not what is in them.
async fn noted<C: Calls, T>(
    calls: &C,
    (operation, store): (&'static str, &str),
    entries: impl Fn(&T) -> usize,
    work: impl Future<Output = Result<T, CallError>>,
) -> Result<T, CallError> {
    let started = Instant::now();
    let outcome = work.await;
    calls.services().telemetry.emit(Event::Memory {
        operation,
        store: truncate::text(store, STORE_SHOWN_BYTES_MAX).to_owned(),
        entries: outcome.as_ref().map_or(0, |done| entries(done) as u64),
        outcome: outcome.as_ref().map_or_else(|error| error.kind.name(), |_| "ok"),
        duration: started.elapsed(),
    });
    outcome
}

fn new_entry(params: Params<'_>, index: usize, entry: &Value) -> Result<NewEntry, Fault> {
    let at = format!("entries[{index}]");
    let members = entry.as_object().ok_or_else(|| params.fault(&at, "has to be an object"))?;
    let at = format!("{at}.");
    let entry = Params::within(members, &at);
    let content = entry.any("content")?;
    if !content.is_string() && !content.is_object() {
        return Err(entry.fault("content", "has to be text or an object"));
    }
    let metadata = entry.object_or_none("metadata")?.cloned().map(Value::Object);
    let key = entry.text_or_none("key")?.map(str::to_owned);
    Ok(NewEntry { content: content.clone(), key, metadata })
}

fn query(params: Params<'_>) -> Result<Query, Fault> {
    let kind = match params.text("type")? {
        "semantic" => QueryKind::Semantic { text: params.text("text")?.to_owned() },
        "key" => QueryKind::Key { key: params.text("key")?.to_owned() },
        "time-range" => {
            time_range(Params::within(params.object("time_range")?, "query.time_range."))?
        }
        _ => return Err(params.fault("type", "has to be semantic, key or time-range")),
    };
    let top_k = params.number_or_none("top_k", 1)?;
    // A number beyond all bounds is refused by the store, which knows its bound.
    let top_k = top_k.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
    Ok(Query { kind, top_k })
}

fn time_range(params: Params<'_>) -> Result<QueryKind, Fault> {
    Ok(QueryKind::TimeRange { from_ms: instant(params, "from")?, to_ms: instant(params, "to")? })
}

fn instant(params: Params<'_>, key: &str) -> Result<i64, Fault> {
    let wrong = || params.fault(key, "has to be a time such as 2026-02-22T10:32:00Z");
    read_rfc3339(params.text(key)?).ok_or_else(wrong)
}

fn entry(entry: Entry) -> Value {
    let mut found = json!({
        "id": entry.id, "content": entry.content, "timestamp": rfc3339(entry.timestamp_ms),
    });
    put(&mut found, "score", entry.score.map(Value::from));
    put(&mut found, "key", entry.key.map(Value::from));
    put(&mut found, "metadata", entry.metadata);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &Value) -> Result<Query, Fault> {
        query(Params::within(value.as_object().unwrap(), "query."))
    }

    #[test]
    fn each_type_of_query_needs_its_own_part() {
        let range = json!({"type": "time-range",
            "time_range": {"from": "1970-01-01T00:00:01Z", "to": "1970-01-01T01:00:02.5+01:00"}});
        let expected = QueryKind::TimeRange { from_ms: 1_000, to_ms: 2_500 };
        assert_eq!(read(&range).unwrap(), Query { kind: expected, top_k: None });
        let words = json!({"type": "semantic", "text": "w", "top_k": 5});
        assert_eq!(read(&words).unwrap().top_k, Some(5));
        for wrong in [
            json!({}),
            json!({"type": "fuzzy", "text": "w"}),
            json!({"type": "semantic"}),
            json!({"type": "semantic", "text": 42}),
            json!({"type": "semantic", "text": "w", "top_k": 0}),
            json!({"type": "semantic", "text": "w", "top_k": -1}),
            json!({"type": "semantic", "text": "w", "top_k": 1.5}),
            json!({"type": "key", "text": "w"}),
            json!({"type": "time-range"}),
            json!({"type": "time-range", "time_range": {"from": "1970-01-01T00:00:01Z"}}),
            json!({"type": "time-range", "time_range": {"from": "yesterday", "to": "today"}}),
        ] {
            assert_eq!(read(&wrong).unwrap_err().code, -32602, "{wrong}");
        }
    }

    #[test]
    fn an_entry_s_content_is_text_or_an_object() {
        let new = |value: Value| new_entry(Params::of(None), 0, &value);
        assert!(new(json!({"content": "t", "key": "k", "metadata": {}})).is_ok());
        assert!(new(json!({"content": {}})).is_ok());
        for wrong in [json!(1), json!({}), json!({"content": 1}), json!({"content": "t", "key": 1})]
        {
            assert!(new(wrong.clone()).is_err(), "{wrong}");
        }
    }
}
