use std::sync::atomic::{AtomicI64, Ordering};

use clawhost_core::limits::{MEMORY_ANSWER_BYTES_MAX, MEMORY_CONTENT_BYTES_MAX, MEMORY_TOP_K_MAX};
use clawhost_core::manifest::{Sharing, StoreKind};

use super::*;
use crate::audit::Terms;

mod files;
mod model;

const START_MS: i64 = 1_700_000_000_000;

/// Stores, their record, and a clock that only the test moves.
struct Stores {
    memory: Memory,
    time: Arc<AtomicI64>,
    folder: tempfile::TempDir,
    plans: Vec<StorePlan>,
}

impl Stores {
    fn new(plans: &[StorePlan]) -> Self {
        Self::over(tempfile::tempdir().unwrap(), plans)
    }

    fn over(folder: tempfile::TempDir, plans: &[StorePlan]) -> Self {
        let database =
            Database::open(&folder.path().join("db"), &[("memory", MIGRATIONS)]).unwrap();
        let authority = cap_std::ambient_authority();
        let dir = cap_std::fs::Dir::open_ambient_dir(folder.path(), authority).unwrap();
        let audit = Arc::new(AuditLog::open(&dir, Terms::default()).unwrap());
        let time = Arc::new(AtomicI64::new(START_MS));
        let (stores, clock) = (plans.to_vec(), Clock::of(&time));
        let memory = Memory::with_clock(stores, database, audit, Default::default(), None, clock);
        Self { memory, time, folder, plans: plans.to_vec() }
    }

    /// Ends the host and starts another on what it left.
    fn restarted(self) -> Self {
        let Self { memory, folder, plans, .. } = self;
        drop(memory);
        Self::over(folder, &plans)
    }

    fn pass(&self, ms: i64) {
        self.time.fetch_add(ms, Ordering::SeqCst);
    }

    async fn put(&self, key: Option<&str>, content: impl Into<Value>) -> String {
        let new = entry(key, content);
        self.memory.store(&me(), "s", vec![new]).await.unwrap().remove(0)
    }

    async fn all(&self) -> Vec<Entry> {
        self.find(QueryKind::TimeRange { from_ms: i64::MIN, to_ms: i64::MAX }, None).await
    }

    async fn contents(&self) -> Vec<Value> {
        self.all().await.into_iter().map(|entry| entry.content).collect()
    }

    async fn find(&self, kind: QueryKind, top_k: Option<u32>) -> Vec<Entry> {
        self.memory.query(&me(), "s", Query { kind, top_k }).await.unwrap().entries
    }

    async fn search(&self, text: &str) -> Vec<Value> {
        let found = self.find(QueryKind::Semantic { text: text.to_owned() }, None).await;
        found.into_iter().map(|entry| entry.content).collect()
    }

    async fn key(&self, key: &str) -> Vec<Value> {
        let found = self.find(QueryKind::Key { key: key.to_owned() }, None).await;
        found.into_iter().map(|entry| entry.content).collect()
    }

    async fn sql<T>(&self, sql: &'static str) -> T
    where
        T: Send + 'static + rusqlite::types::FromSql,
    {
        let read = self.memory.0.database.run(move |db| db.query_row(sql, (), |row| row.get(0)));
        read.await.unwrap()
    }

    fn records(&self, event: &str) -> Vec<Value> {
        let authority = cap_std::ambient_authority();
        let dir = cap_std::fs::Dir::open_ambient_dir(self.folder.path(), authority).unwrap();
        let mut records = crate::audit::records(&dir).unwrap();
        records.retain(|record| record["event"] == event);
        records
    }
}

fn plan(kind: StoreKind) -> StorePlan {
    StorePlan {
        name: "s".to_owned(),
        kind,
        sharing: Sharing { per_identity: true, per_principal: true },
        file: None,
        max_age_ms: None,
        max_entries: None,
        max_bytes: 1 << 20,
        compacts_to: None,
        top_k: 10,
        embedding: None,
    }
}

fn talk() -> StorePlan {
    plan(StoreKind::Conversation)
}

fn scope(principal: &str, identity: &str) -> Scope {
    Scope { principal: principal.to_owned(), identity: identity.to_owned() }
}

fn me() -> Scope {
    scope("agent", "me")
}

fn entry(key: Option<&str>, content: impl Into<Value>) -> NewEntry {
    NewEntry { content: content.into(), key: key.map(str::to_owned), metadata: None }
}

fn any_time() -> Query {
    Query { kind: QueryKind::TimeRange { from_ms: i64::MIN, to_ms: i64::MAX }, top_k: None }
}

#[tokio::test]
async fn what_was_stored_is_found_as_it_was_and_in_its_order() {
    let stores = Stores::new(&[talk()]);
    let new = NewEntry {
        content: json!({"role": "user", "n": [1, 2.5, null, "é\0"]}),
        key: Some("k\0é".to_owned()),
        metadata: Some(json!({"a": 1})),
    };
    let ids = stores.memory.store(&me(), "s", vec![new.clone(), entry(None, 2)]).await.unwrap();
    stores.pass(5);
    stores.put(None, "three").await;
    let found = stores.all().await;
    let first = Entry {
        id: ids[0].clone(),
        content: new.content,
        key: new.key,
        score: None,
        timestamp_ms: START_MS,
        metadata: new.metadata,
    };
    assert_eq!(found[0], first);
    assert_eq!((&found[1].id, &found[1].content), (&ids[1], &json!(2)));
    assert_eq!((found[2].timestamp_ms, &found[2].content), (START_MS + 5, &json!("three")));
    assert_eq!(stores.key("k\0é").await.len(), 1);
}

#[tokio::test]
async fn a_store_that_is_not_there_is_the_callers_mistake() {
    let stores = Stores::new(&[talk()]);
    let query = stores.memory.query(&me(), "t", any_time()).await.map(drop);
    let store = stores.memory.store(&me(), "t", vec![entry(None, 1)]).await.map(drop);
    let compact = stores.memory.compact(&me(), "t").await.map(drop);
    for refused in [query, store, compact] {
        assert_eq!(refused.unwrap_err().kind, ErrorKind::InvalidArguments);
    }
}

#[tokio::test]
async fn the_last_writer_of_a_key_wins_and_the_id_stays() {
    for kind in [StoreKind::KeyValue, StoreKind::Workspace] {
        let stores = Stores::new(&[plan(kind)]);
        let first = stores.put(Some("a"), "old words").await;
        stores.put(Some("b"), "other").await;
        assert_eq!(stores.put(Some("a"), "new").await, first);
        assert_eq!(stores.key("a").await, ["new"]);
        assert_eq!(stores.contents().await, ["other", "new"]);
        assert_eq!(stores.search("old").await, [json!(null); 0]);
        let twice = vec![entry(Some("c"), 1), entry(Some("c"), 2)];
        let ids = stores.memory.store(&me(), "s", twice).await.unwrap();
        assert_eq!(ids[0], ids[1]);
        assert_eq!(stores.key("c").await, [2]);
    }
}

#[tokio::test]
async fn an_entry_without_a_key_is_kept_in_every_kind_of_store() {
    for kind in [
        StoreKind::Checkpoint,
        StoreKind::Conversation,
        StoreKind::KeyValue,
        StoreKind::Semantic,
        StoreKind::Workspace,
    ] {
        let stores = Stores::new(&[plan(kind)]);
        let ids = [stores.put(None, 1).await, stores.put(None, 2).await];
        assert_ne!(ids[0], ids[1]);
        assert_eq!(stores.contents().await, [1, 2], "{kind:?}");
    }
}

#[tokio::test]
async fn a_key_of_a_conversation_has_all_its_entries_and_of_too_many_the_newest() {
    let stores = Stores::new(&[talk()]);
    for n in 0..5 {
        stores.put(Some(if n == 2 { "other" } else { "k" }), n).await;
    }
    assert_eq!(stores.key("k").await, [0, 1, 3, 4]);
    let found = stores.find(QueryKind::Key { key: "k".to_owned() }, Some(2)).await;
    assert_eq!(
        found.iter().map(|entry| &entry.content).collect::<Vec<_>>(),
        [&json!(3), &json!(4)]
    );
}

#[tokio::test]
async fn a_time_has_both_its_ends_and_of_too_many_entries_the_newest() {
    let stores = Stores::new(&[talk()]);
    for n in 0..5 {
        stores.put(None, n).await;
        stores.pass(10);
    }
    let range = |from, to| QueryKind::TimeRange { from_ms: START_MS + from, to_ms: START_MS + to };
    for (from, to, top_k, contents) in [
        (10, 30, None, vec![1, 2, 3]),
        (11, 29, None, vec![2]),
        (0, 40, Some(2), vec![3, 4]),
        (20, 20, None, vec![2]),
        (41, 99, None, vec![]),
    ] {
        let found = stores.find(range(from, to), top_k).await;
        assert_eq!(found.iter().map(|e| e.content.as_i64().unwrap()).collect::<Vec<_>>(), contents);
    }
    let query = Query { kind: range(1, 0), top_k: None };
    let refused = stores.memory.query(&me(), "s", query).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::InvalidArguments);
}

#[tokio::test]
async fn a_clock_that_goes_back_mixes_up_no_conversation() {
    let stores = Stores::new(&[talk()]);
    stores.put(Some("k"), 1).await;
    stores.pass(-10);
    stores.put(Some("k"), 2).await;
    assert_eq!(stores.key("k").await, [1, 2]);
    assert_eq!(stores.contents().await, [2, 1]);
}

#[tokio::test]
async fn words_are_found_the_better_answer_first_and_of_equal_ones_the_newer() {
    let stores = Stores::new(&[plan(StoreKind::Semantic)]);
    for text in ["the cat sat", "a dog and a cat and a cat", "nothing of it", "the cat sat "] {
        stores.put(None, text).await;
    }
    let found = stores.find(QueryKind::Semantic { text: "CÁT".to_owned() }, None).await;
    let contents: Vec<&Value> = found.iter().map(|entry| &entry.content).collect();
    assert_eq!(contents.len(), 3);
    assert_eq!(contents.iter().filter(|text| **text == "nothing of it").count(), 0);
    let position = |text: &str| contents.iter().position(|content| *content == text).unwrap();
    assert!(position("the cat sat ") < position("the cat sat"), "{contents:?}");
    let scores: Vec<f64> = found.iter().map(|entry| entry.score.unwrap()).collect();
    assert!(scores.windows(2).all(|pair| pair[0] >= pair[1]) && scores[2] > 0.0, "{scores:?}");
    assert_eq!(stores.search("dog nothing").await.len(), 2);
    let one = stores.find(QueryKind::Semantic { text: "cat dog".to_owned() }, Some(1)).await;
    assert_eq!(one[0].content, "a dog and a cat and a cat");
}

#[tokio::test]
async fn no_text_is_read_as_the_language_of_the_search_engine() {
    let stores = Stores::new(&[plan(StoreKind::Semantic)]);
    stores.put(None, "plain words").await;
    for text in [
        "\"", "\"\"\"", "words\"", "words OR", "NEAR(", "words*", "* ", "words:x", "{words}: x",
        "-words", "^words", "(words", "words AND NOT", "\0words", "a\0\"", "+words +",
        "words ; --",
    ] {
        stores.search(text).await;
    }
    assert_eq!(stores.search("words*").await, ["plain words"]);
    assert_eq!(stores.search("NOT words").await, ["plain words"]);
    let many: Vec<String> = (0..10_000).map(|n| format!("w{n}")).collect();
    stores.search(&many.join(" ")).await;
}

#[tokio::test]
async fn nobody_reads_what_is_not_shared_with_them() {
    for (per_identity, per_principal) in
        [(true, true), (true, false), (false, true), (false, false)]
    {
        let sharing = Sharing { per_identity, per_principal };
        let stores = Stores::new(&[StorePlan { sharing, ..talk() }]);
        stores.put(Some("k"), "secret words").await;
        for (principal, identity) in
            [("agent", "me"), ("agent", "you"), ("other", "me"), ("me", "agent"), ("", "")]
        {
            let shared =
                (identity == "me" || !per_identity) && (principal == "agent" || !per_principal);
            let scope = scope(principal, identity);
            for kind in [
                QueryKind::Key { key: "k".to_owned() },
                QueryKind::Semantic { text: "words".to_owned() },
                any_time().kind,
            ] {
                let query = Query { kind, top_k: None };
                let found = stores.memory.query(&scope, "s", query).await.unwrap().entries;
                assert_eq!(found.len(), usize::from(shared), "{scope:?} {sharing:?}");
            }
            if !shared {
                let done = stores.memory.compact(&scope, "s").await.unwrap();
                assert_eq!(done, Compacted { before: 0, after: 0 });
            }
        }
        assert_eq!(stores.contents().await.len(), 1);
    }
}

#[tokio::test]
async fn the_words_of_one_part_change_no_score_in_another() {
    let stores = Stores::new(&[plan(StoreKind::Semantic)]);
    stores.put(None, "rare words here").await;
    stores.put(None, "others").await;
    let query = || Query { kind: QueryKind::Semantic { text: "rare".to_owned() }, top_k: None };
    let before = stores.memory.query(&me(), "s", query()).await.unwrap();
    let new = (0..50).map(|_| entry(None, "rare rare")).collect();
    stores.memory.store(&scope("other", "me"), "s", new).await.unwrap();
    assert_eq!(stores.memory.query(&me(), "s", query()).await.unwrap(), before);
}

#[tokio::test]
async fn stores_do_not_mix() {
    let other = StorePlan { name: "t".to_owned(), ..talk() };
    let stores = Stores::new(&[talk(), other]);
    stores.put(Some("k"), "words").await;
    assert_eq!(stores.memory.query(&me(), "t", any_time()).await.unwrap().entries, []);
    assert_eq!(stores.memory.stores().collect::<Vec<_>>(), ["s", "t"]);
}

#[tokio::test]
async fn what_is_too_old_is_shown_to_nobody_and_dropped_with_the_next_write() {
    let stores = Stores::new(&[StorePlan { max_age_ms: Some(100), ..talk() }]);
    stores.put(Some("k"), "words").await;
    stores.pass(100);
    assert_eq!(stores.contents().await, ["words"]);
    stores.pass(1);
    assert_eq!(stores.contents().await, [json!(null); 0]);
    assert_eq!(stores.key("k").await, [json!(null); 0]);
    assert_eq!(stores.search("words").await, [json!(null); 0]);
    assert_eq!(stores.sql::<i64>("SELECT count(*) FROM memory_entries").await, 1);
    stores.put(None, 2).await;
    assert_eq!(stores.sql::<i64>("SELECT count(*) FROM memory_entries").await, 1);
    stores.pass(101);
    let done = stores.memory.compact(&me(), "s").await.unwrap();
    assert_eq!(done, Compacted { before: 1, after: 0 });
}

#[tokio::test]
async fn what_is_too_old_of_somebody_who_writes_no_more_is_dropped_with_others_writes() {
    let aged = |name: &str| StorePlan { name: name.to_owned(), max_age_ms: Some(100), ..talk() };
    let stores = Stores::new(&[aged("s"), StorePlan { max_age_ms: None, ..aged("t") }]);
    for store in ["s", "t"] {
        let gone = vec![entry(Some("k"), "words"), entry(None, 2)];
        stores.memory.store(&scope("gone", "me"), store, gone).await.unwrap();
    }
    stores.pass(101);
    stores.put(None, 3).await;
    let left = "SELECT group_concat(store || ' ' || entries, ', ') FROM memory_parts";
    assert_eq!(stores.sql::<String>(left).await, "s 0, t 2, s 1");
    assert_eq!(stores.sql::<i64>("SELECT count(*) FROM memory_words_1_docsize").await, 0);
}

#[tokio::test]
async fn of_many_that_are_over_no_change_drops_so_many_that_it_would_be_broken_off() {
    let stores = Stores::new(&[StorePlan { max_age_ms: Some(100), ..talk() }]);
    stores.put(None, 1).await;
    let fill = async || {
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?1)
            INSERT INTO memory_entries (part, at_ms, bytes, id, content)
            SELECT 1, 0, 1, i, '0' FROM n";
        let many = i64::try_from(rows::DROPPED_ENTRIES_MAX).unwrap() * 2 + 1;
        stores.memory.0.database.run(move |db| db.execute(sql, [many])).await.unwrap() as u64
    };
    let many = fill().await;
    let done = stores.memory.compact(&me(), "s").await.unwrap();
    assert_eq!(done, Compacted { before: many + 1, after: 1 });
    let dropped: Vec<u64> = stores
        .records("memory.compacted")
        .iter()
        .map(|one| one["before"].as_u64().unwrap() - one["after"].as_u64().unwrap())
        .collect();
    let most = rows::DROPPED_ENTRIES_MAX as u64;
    assert_eq!(dropped, [most, most, 1]);
    fill().await;
    stores.put(None, 2).await;
    assert_eq!(stores.sql::<i64>("SELECT count(*) FROM memory_entries").await, 2);
}

#[tokio::test]
async fn of_too_many_entries_the_newest_are_kept() {
    let stores = Stores::new(&[StorePlan { max_entries: Some(3), ..plan(StoreKind::Checkpoint) }]);
    for n in 0..5 {
        stores.put(None, n).await;
    }
    assert_eq!(stores.contents().await, [2, 3, 4]);
    let many = (0..4).map(|n| entry(None, n)).collect();
    stores.memory.store(&me(), "s", many).await.unwrap();
    assert_eq!(stores.contents().await, [1, 2, 3]);
}

#[tokio::test]
async fn compacting_leaves_what_it_says_and_counts_truly() {
    for (compacts_to, left) in [(None, 5), (Some(2), 2), (Some(9), 5)] {
        let stores = Stores::new(&[StorePlan { compacts_to, ..talk() }]);
        for n in 0..5 {
            stores.put(None, n).await;
        }
        let done = stores.memory.compact(&me(), "s").await.unwrap();
        assert_eq!(done, Compacted { before: 5, after: left });
        assert_eq!(stores.contents().await.len() as u64, left);
        let again = stores.memory.compact(&me(), "s").await.unwrap();
        assert_eq!(again, Compacted { before: left, after: left });
        let record = &stores.records("memory.compacted")[0];
        assert_eq!((&record["before"], &record["after"]), (&json!(5), &json!(left)));
    }
}

#[tokio::test]
async fn a_part_that_is_full_takes_nothing_more_and_keeps_what_it_has() {
    let stores = Stores::new(&[StorePlan { compacts_to: Some(1), ..talk() }]);
    let large = || vec![entry(None, "x".repeat(400_000)), entry(None, "x".repeat(400_000))];
    let first = stores.memory.store(&me(), "s", large()).await.unwrap();
    let refused = stores.memory.store(&me(), "s", large()).await.unwrap_err();
    assert_eq!(
        (refused.kind, &refused.data["limit"]),
        (ErrorKind::MemoryQuery, &json!("max_size_mb"))
    );
    let kept: Vec<String> = stores.all().await.into_iter().map(|entry| entry.id).collect();
    assert_eq!(kept, first);
    // Another's part has its own room, and compacting makes room here.
    stores.memory.store(&scope("other", "me"), "s", large()).await.unwrap();
    stores.memory.compact(&me(), "s").await.unwrap();
    stores.memory.store(&me(), "s", vec![entry(None, 1)]).await.unwrap();
    assert_eq!(stores.records("memory.stored").len(), 3);
}

#[test]
fn who_has_a_full_store_is_told_to_compact_it_only_where_that_makes_room() {
    for (compacts_to, told) in [(None, "; give it"), (Some(1), "; compact it or give it")] {
        let full = too_large(&StorePlan { compacts_to, ..talk() }).message;
        assert!(full.contains(told), "{full}");
    }
}

#[tokio::test]
async fn an_answer_that_is_too_long_is_refused_rather_than_cut() {
    let stores = Stores::new(&[StorePlan { max_bytes: 64 << 20, ..talk() }]);
    let half = MEMORY_CONTENT_BYTES_MAX - 2;
    let fit = MEMORY_ANSWER_BYTES_MAX / MEMORY_CONTENT_BYTES_MAX;
    for _ in 0..=fit {
        stores.put(None, "x".repeat(half)).await;
    }
    let refused = stores.memory.query(&me(), "s", any_time()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::MemoryQuery);
    let top_k = Some(u32::try_from(fit).unwrap());
    assert_eq!(stores.find(any_time().kind, top_k).await.len(), fit);
}

#[tokio::test]
async fn a_query_asks_for_a_number_of_entries_that_an_answer_may_have() {
    let stores = Stores::new(&[StorePlan { top_k: 2, ..plan(StoreKind::Semantic) }]);
    for _ in 0..3 {
        stores.put(None, "words").await;
    }
    assert_eq!(stores.search("words").await.len(), 2);
    assert_eq!(stores.find(any_time().kind, Some(MEMORY_TOP_K_MAX)).await.len(), 3);
    for top_k in [0, MEMORY_TOP_K_MAX + 1] {
        let query = Query { top_k: Some(top_k), ..any_time() };
        let refused = stores.memory.query(&me(), "s", query).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::InvalidArguments);
    }
}

#[tokio::test]
async fn every_change_is_recorded_with_its_owner_and_without_its_content() {
    let stores = Stores::new(&[talk()]);
    let id = stores.put(Some("canary"), "canary").await;
    let records = stores.records("memory.stored");
    assert_eq!(records.len(), 1);
    let expected = [
        ("principal", json!("agent")),
        ("identity", json!("me")),
        ("store", json!("s")),
        ("entries", json!(1)),
        ("ids_digest", json!(digest::of_json(&json!([id])))),
    ];
    for (key, value) in expected {
        assert_eq!(records[0][key], value);
    }
    assert!(!records[0].to_string().contains("canary"));
}

#[tokio::test]
async fn a_restart_forgets_nothing() {
    let stores = Stores::new(&[talk()]);
    let id = stores.put(Some("k"), "words").await;
    let stores = stores.restarted();
    assert_eq!(stores.all().await[0].id, id);
    assert_eq!(stores.search("words").await, ["words"]);
    stores.put(None, 2).await;
    assert_eq!(stores.contents().await.len(), 2);
}
