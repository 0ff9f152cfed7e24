//! Requests as they arrive, checked: entries into rows, queries against their bounds.

use clawhost_core::error::{CallError, ErrorKind, Limit};
use clawhost_core::limits::{
    MEMORY_CONTENT_BYTES_MAX, MEMORY_ENTRIES_PER_CALL, MEMORY_ENTRY_COST_BYTES,
    MEMORY_KEY_BYTES_MAX, MEMORY_METADATA_BYTES_MAX, MEMORY_QUERY_BYTES_MAX, MEMORY_TOP_K_MAX,
};
use clawhost_core::manifest::StorePlan;

use super::words;
use super::{NewEntry, Query, QueryKind};
use crate::random;

/// An entry that can be written as it is.
pub(super) struct Row {
    /// Given to it where no other of its key has one.
    pub(super) id: String,
    pub(super) key: Option<String>,
    pub(super) content: String,
    pub(super) metadata: Option<String>,
    /// What full-text search looks at.
    pub(super) words: String,
    /// What it counts of its part's size.
    pub(super) bytes: u64,
}

/// Checks what is to be stored, and names each entry.
pub(super) fn entries(new: Vec<NewEntry>) -> Result<Vec<Row>, CallError> {
    if new.is_empty() || new.len() > MEMORY_ENTRIES_PER_CALL {
        let reason = format!("`entries` has {}: 1 to {MEMORY_ENTRIES_PER_CALL}", new.len());
        return Err(invalid(reason).with_limit(Limit::MemoryEntries));
    }
    new.into_iter().map(row).collect()
}

fn row(new: NewEntry) -> Result<Row, CallError> {
    let content = new.content.to_string();
    let metadata = new.metadata.map(|metadata| metadata.to_string());
    let [key_len, metadata_len] =
        [&new.key, &metadata].map(|text| text.as_ref().map_or(0, String::len));
    within("content", content.len(), Limit::MemoryContentBytes, MEMORY_CONTENT_BYTES_MAX)?;
    within("metadata", metadata_len, Limit::MemoryMetadataBytes, MEMORY_METADATA_BYTES_MAX)?;
    within("key", key_len, Limit::MemoryKeyBytes, MEMORY_KEY_BYTES_MAX)?;
    let words = words::of_entry(new.key.as_deref(), &new.content);
    let bytes = (content.len() + metadata_len + key_len) as u64 + MEMORY_ENTRY_COST_BYTES;
    Ok(Row { id: random::uuid()?, key: new.key, content, metadata, words, bytes })
}

fn within(what: &str, len: usize, limit: Limit, most: usize) -> Result<(), CallError> {
    if len <= most {
        return Ok(());
    }
    let reason = format!("the `{what}` of an entry has {len} bytes, more than {most}");
    Err(invalid(reason).with_limit(limit))
}

/// Checks a query, and returns how many entries its answer has at most.
pub(super) fn query(query: &Query, plan: &StorePlan) -> Result<u32, CallError> {
    match &query.kind {
        QueryKind::Semantic { text } if text.len() > MEMORY_QUERY_BYTES_MAX => {
            let reason = format!("`text` has more than {MEMORY_QUERY_BYTES_MAX} bytes");
            return Err(invalid(reason).with_limit(Limit::MemoryQueryBytes));
        }
        QueryKind::TimeRange { from_ms, to_ms } if from_ms > to_ms => {
            return Err(invalid("`time_range.from` is after `time_range.to`"));
        }
        QueryKind::Key { .. } | QueryKind::Semantic { .. } | QueryKind::TimeRange { .. } => {}
    }
    let silent = match query.kind {
        QueryKind::Semantic { .. } => plan.top_k,
        QueryKind::Key { .. } | QueryKind::TimeRange { .. } => MEMORY_TOP_K_MAX,
    };
    match query.top_k.unwrap_or(silent) {
        top_k @ 1..=MEMORY_TOP_K_MAX => Ok(top_k),
        top_k => Err(invalid(format!("`top_k` is {top_k}: 1 to {MEMORY_TOP_K_MAX}"))),
    }
}

fn invalid(reason: impl Into<String>) -> CallError {
    CallError::new(ErrorKind::InvalidArguments, reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn entry(content: Value, key: Option<String>, metadata: Option<Value>) -> NewEntry {
        NewEntry { content, key, metadata }
    }

    fn refusal(new: Vec<NewEntry>) -> (ErrorKind, Value) {
        let error = entries(new).err().unwrap();
        (error.kind, error.data["limit"].clone())
    }

    #[test]
    fn each_bound_of_an_entry_holds_at_its_edge() {
        let long = |len: usize| "x".repeat(len);
        for (most, over, limit) in [
            (
                entry(long(MEMORY_CONTENT_BYTES_MAX - 2).into(), None, None),
                entry(long(MEMORY_CONTENT_BYTES_MAX - 1).into(), None, None),
                "MEMORY_CONTENT_BYTES_MAX",
            ),
            (
                entry(json!(0), Some(long(MEMORY_KEY_BYTES_MAX)), None),
                entry(json!(0), Some(long(MEMORY_KEY_BYTES_MAX + 1)), None),
                "MEMORY_KEY_BYTES_MAX",
            ),
            (
                entry(json!(0), None, Some(long(MEMORY_METADATA_BYTES_MAX - 2).into())),
                entry(json!(0), None, Some(long(MEMORY_METADATA_BYTES_MAX - 1).into())),
                "MEMORY_METADATA_BYTES_MAX",
            ),
        ] {
            assert!(entries(vec![most]).is_ok(), "{limit}");
            assert_eq!(refusal(vec![over]), (ErrorKind::InvalidArguments, json!(limit)));
        }
        let one = entry(json!(0), None, None);
        assert!(entries(vec![one.clone(); MEMORY_ENTRIES_PER_CALL]).is_ok());
        for count in [0, MEMORY_ENTRIES_PER_CALL + 1] {
            let limit = json!("MEMORY_ENTRIES_PER_CALL");
            assert_eq!(refusal(vec![one.clone(); count]), (ErrorKind::InvalidArguments, limit));
        }
    }
}
