//! Memory stores that compare by meaning: what is found, and what a provider's failures come to.

use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use clawhost::audit::{AuditLog, Terms};
use clawhost::host::MIGRATIONS;
use clawhost::memory::{Entry, Found, Memory, NewEntry, Query, QueryKind};
use clawhost::secrets::Secrets;
use clawhost::state::Database;
use clawhost::upstream::http::HttpClient;
use clawhost::upstream::provider::Providers;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::limits::{MEMORY_EMBEDDED_PER_QUERY_MAX, MEMORY_EMBEDDED_TEXTS_MAX};
use clawhost_core::manifest::{
    EmbeddingPlan, ProviderAuth, ProviderAuthKind, ProviderPlan, ProviderProtocol, StoreKind,
    StorePlan,
};
use clawhost_core::policy::Rates;
use clawhost_core::quota::{Prices, ProviderLimits};
use clawhost_core::retry::RetryPlan;
use clawhost_tests::ckp::{Stdio, Transport as _, initialize};
use clawhost_tests::model::{Say, UNSPEAKABLE};
use clawhost_tests::{Cli, Model};
use serde_json::{Value, json};

use crate::cli::PROGRAM;
use crate::memory::scope;

/// How much of a text is about cats, and how much about engines.
fn meaning(text: &str) -> Option<Vec<f32>> {
    let about = |words: &[&str]| words.iter().any(|word| text.contains(word));
    let share = |words| if about(words) { 1.0 } else { 0.1 };
    (!about(&["poison"])).then(|| vec![share(&["kitten", "feline"]), share(&["motor", "engine"])])
}

/// As a model whose vectors are longer.
fn longer(text: &str) -> Option<Vec<f32>> {
    meaning(text).map(|vector| [vector, vec![0.0]].concat())
}

fn provider(model: &Model, tokens_per_day: Option<u64>) -> ProviderPlan {
    ProviderPlan {
        name: "p".to_owned(),
        protocol: ProviderProtocol::OpenAi,
        endpoint: model.endpoint("/v1"),
        model: "chat".to_owned(),
        auth: ProviderAuth { kind: ProviderAuthKind::None, secret_ref: None },
        limits: ProviderLimits { tokens_per_day, ..ProviderLimits::default() },
        prices: Prices::default(),
        fallback: Vec::new(),
        retry: RetryPlan::ONCE,
        unserved: None,
        at: "t.yaml:1".to_owned(),
    }
}

fn store(dimensions: u32, alone: bool) -> StorePlan {
    let (provider, model) = ("p".to_owned(), "m".to_owned());
    let embedding = Some(EmbeddingPlan { provider, model, dimensions, alone });
    StorePlan { kind: StoreKind::KeyValue, embedding, ..crate::memory::store() }
}

fn memory(store: StorePlan, database: &Database, providers: &Providers) -> Memory {
    let record = tempfile::tempdir().unwrap();
    let record = Dir::open_ambient_dir(record.path(), ambient_authority()).unwrap();
    let audit = Arc::new(AuditLog::open(&record, Terms::default()).unwrap());
    let asks = Some(providers.clone());
    Memory::new(vec![store], database.clone(), audit, Default::default(), asks)
}

/// One store, and the model that it asks.
struct Stored {
    memory: Memory,
    providers: Providers,
    database: Database,
    model: Model,
    _folder: tempfile::TempDir,
}

impl Stored {
    async fn new(says: impl IntoIterator<Item = Say>) -> Self {
        Self::with(Model::saying(says).await, None, store(2, false)).await
    }

    async fn with(model: Model, tokens_per_day: Option<u64>, store: StorePlan) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(&folder.path().join("db"), MIGRATIONS).unwrap();
        let plans = vec![provider(&model, tokens_per_day)];
        let (client, secrets) = (HttpClient::system(), Secrets::none());
        let providers = Providers::open(plans, Rates::default(), client, secrets, database.clone());
        let providers = providers.await.unwrap();
        let memory = memory(store, &database, &providers);
        Self { memory, providers, database, model, _folder: folder }
    }

    async fn put(&self, texts: impl IntoIterator<Item = impl Into<String>>) {
        let new = |text: String| NewEntry { content: text.into(), key: None, metadata: None };
        let new = texts.into_iter().map(|text| new(text.into())).collect();
        self.memory.store(&scope(), "s", new).await.unwrap();
    }

    async fn try_find(&self, text: &str) -> Result<Found, CallError> {
        let kind = QueryKind::Semantic { text: text.to_owned() };
        self.memory.query(&scope(), "s", Query { kind, top_k: None }).await
    }

    async fn find(&self, text: &str) -> (Vec<String>, Option<String>) {
        let Found { entries, note } = self.try_find(text).await.unwrap();
        let text = |entry: Entry| entry.content.as_str().unwrap().to_owned();
        (entries.into_iter().map(text).collect(), note)
    }

    async fn vectors(&self) -> i64 {
        let sql = "SELECT count(*) FROM memory_vectors";
        self.database.run(move |db| db.query_row(sql, (), |row| row.get(0))).await.unwrap()
    }

    /// Returns the texts of each request that was made.
    fn asked(&self) -> Vec<Vec<String>> {
        let texts = |input| serde_json::from_value(input).unwrap();
        self.model.asked().into_iter().map(|asked| texts(asked.body["input"].clone())).collect()
    }
}

#[tokio::test]
async fn what_means_the_like_is_found_without_a_common_word() {
    let stored = Stored::new([Say::Embed(meaning)]).await;
    stored.put(["a kitten", "a motor"]).await;
    assert!(stored.asked().is_empty(), "a write waits for nobody");
    assert_eq!(stored.find("feline").await, (vec!["a kitten".into(), "a motor".into()], None));
    assert_eq!(stored.find("engine").await.0[0], "a motor");
    let asked = [vec!["feline"], vec!["a motor\n", "a kitten\n"], vec!["engine"]];
    assert_eq!(stored.asked(), asked);
    let first = &stored.model.asked()[0];
    assert!(first.head.starts_with("post /v1/embeddings http/1.1\r\n"), "{}", first.head);
    assert_eq!(
        (&first.body["model"], &first.body["encoding_format"]),
        (&json!("m"), &json!("float"))
    );
    // A report of fewer tokens than such texts have is not believed.
    assert_eq!(stored.providers.usage().tokens_today, 2 + 5 + 2);
    assert_eq!(stored.providers.costs(1, Some("agent".to_owned())).await.unwrap()[0].requests, 3);
}

#[tokio::test]
async fn words_and_meaning_are_mixed_unless_meaning_stands_alone() {
    let texts = ["a motor of the word", "a kitten", "the word"];
    let stored = Stored::new([Say::Embed(meaning)]).await;
    stored.put(texts).await;
    assert_eq!(stored.find("motor word").await.0[0], "a motor of the word");
    assert_eq!(stored.find("feline word").await.0.len(), 3);
    let alone =
        Stored::with(Model::saying([Say::Embed(meaning)]).await, None, store(2, true)).await;
    alone.put(texts).await;
    assert_eq!(alone.find("feline word").await.0[0], "a kitten");
}

#[tokio::test]
async fn where_the_provider_fails_words_are_compared_and_the_answer_says_so() {
    const NAN: &[u8] = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n\
        {\"data\": [{\"index\": 0, \"embedding\": [NaN, 1]}]}";
    for say in [
        Say::Status(429, "retry-after: 1\r\n"),
        Say::Status(500, ""),
        Say::Status(401, ""),
        Say::HangUp,
        Say::Silence,
        Say::Endless,
        Say::Bytes(NAN),
        Say::Json(json!({})),
        Say::Json(json!({ "data": [] })),
        Say::Json(json!({ "data": [{ "index": 0, "embedding": ["NaN", 1] }] })),
        Say::Json(json!({ "data": [{ "index": 0, "embedding": [1e300, 1] }] })),
        Say::Json(json!({ "data": [{ "index": 7, "embedding": [1, 1] }] })),
        Say::Json(json!({ "data": [{ "embedding": [1, 1] }, { "embedding": [1, 1] }] })),
    ] {
        let stored = Stored::new([say.clone(), Say::Embed(meaning)]).await;
        stored.put(["a kitten", "a motor"]).await;
        let (found, note) = stored.find("motor").await;
        assert_eq!(found, ["a motor"], "{say:?}");
        let note = note.unwrap();
        assert!(note.starts_with("only words were compared: ") && note.contains("`p`"), "{note}");
        assert!(!note.contains(UNSPEAKABLE));
        // What was written meanwhile is compared as soon as the provider is back.
        assert_eq!(stored.find("feline").await, (vec!["a kitten".into(), "a motor".into()], None));
    }
}

#[tokio::test]
async fn vectors_of_another_length_are_an_error_that_says_what_to_write() {
    let stored = Stored::new([Say::Embed(longer)]).await;
    stored.put(["a kitten"]).await;
    let error = stored.try_find("feline").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::MemoryQuery);
    assert!(error.message.contains("write `dimensions: 3`"), "{}", error.message);
    // Under the other length the same entries are embedded anew.
    let stored = Stored::new([Say::Embed(meaning), Say::Embed(meaning), Say::Embed(longer)]).await;
    stored.put(["a kitten"]).await;
    assert_eq!(stored.find("feline").await.0, ["a kitten"]);
    let memory = memory(store(3, true), &stored.database, &stored.providers);
    let stored = Stored { memory, ..stored };
    assert_eq!(stored.find("feline").await, (vec!["a kitten".into()], None));
    assert_eq!(stored.vectors().await, 1);
}

#[tokio::test]
async fn a_text_that_the_model_refuses_is_found_by_its_words_and_asked_about_once() {
    let stored = Stored::new([Say::Embed(meaning)]).await;
    stored.put(["a kitten", "poison", "a motor"]).await;
    let (found, note) = stored.find("engine").await;
    assert_eq!((found[0].as_str(), note), ("a motor", None));
    assert_eq!(stored.find("poison").await.0, ["poison"]);
    let single = vec!["poison\n".to_owned()];
    assert_eq!(stored.asked().iter().filter(|texts| **texts == single).count(), 1);
    assert_eq!(stored.find("feline").await, (vec!["a kitten".into(), "a motor".into()], None));
}

#[tokio::test]
async fn the_provider_s_quota_holds() {
    let model = Model::saying([Say::Embed(meaning)]).await;
    let stored = Stored::with(model, Some(20), store(2, false)).await;
    stored.put(["a kitten with a very long description"]).await;
    let (found, note) = stored.find("kitten").await;
    assert_eq!(found.len(), 1);
    let note = note.unwrap();
    assert!(note.starts_with("some entries were compared by words only: "), "{note}");
    assert_eq!(stored.asked().len(), 1);
    let (_, note) = stored.find("a kitten of more than twenty tokens").await;
    assert!(note.unwrap().starts_with("only words were compared: "));
    assert_eq!(stored.asked().len(), 1);
}

#[tokio::test]
async fn one_query_embeds_so_many_entries_and_says_when_there_are_more() {
    let stored = Stored::new([Say::Embed(meaning)]).await;
    let most = MEMORY_EMBEDDED_PER_QUERY_MAX as usize;
    stored.put((0..most + 1).map(|n| format!("entry {n}"))).await;
    let note = stored.find("feline").await.1.unwrap();
    assert!(note.contains("more than one query embeds"), "{note}");
    let batches = most / MEMORY_EMBEDDED_TEXTS_MAX as usize;
    assert_eq!(stored.asked().len(), 1 + batches);
    assert_eq!(stored.find("feline").await.1, None);
    assert_eq!(stored.asked().len(), 1 + batches + 2);
}

#[tokio::test]
async fn what_is_dropped_takes_its_vector_along() {
    let stored = Stored::new([Say::Embed(meaning)]).await;
    for text in ["a kitten", "a motor"] {
        let key = Some("k".to_owned());
        let new = NewEntry { content: text.into(), key, metadata: None };
        stored.memory.store(&scope(), "s", vec![new]).await.unwrap();
        assert_eq!(stored.find("feline").await, (vec![text.to_owned()], None));
        assert_eq!(stored.vectors().await, 1);
    }
}

#[test]
fn an_agent_reads_in_the_answer_that_words_alone_were_compared() {
    let cli = Cli::new(PROGRAM);
    // Nobody listens on that port.
    cli.write(
        "claw.yaml",
        r#"claw: "0.3.0"
kind: Claw
metadata: { name: test }
spec:
  identity: { inline: { personality: careful, autonomy: autonomous } }
  providers:
    - inline: { name: p, protocol: openai-compatible, endpoint: "http://127.0.0.1:9/v1", model: m, auth: { type: none } }
  memory:
    inline:
      stores: [{ name: s, type: semantic, embedding: { provider_ref: p, model: e, dimensions: 3 } }]
"#,
    );
    let mut host = Stdio::start(&cli, &["claw.yaml".to_owned()]);
    let mut ask = |id: &str, method: &str, params: Value| {
        let line = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        host.ask(&line.to_string(), Some(id), false).unwrap()["result"].clone()
    };
    ask("i", "claw.initialize", initialize()["params"].clone());
    let context = json!({ "request_id": "550e8400-e29b-41d4-a716-446655440000" });
    let entries = json!([{ "content": "a kitten" }]);
    let stored = ask(
        "s",
        "claw.memory.store",
        json!({ "store": "s", "entries": entries, "context": context }),
    );
    assert_eq!(stored["stored"], 1);
    let query = json!({ "type": "semantic", "text": "kitten" });
    let found = ask("q", "claw.memory.query", json!({ "store": "s", "query": query }));
    assert_eq!(found["entries"][0]["content"], "a kitten");
    assert_eq!(
        found["note"],
        "only words were compared: no provider answers: `p` cannot be reached"
    );
}
