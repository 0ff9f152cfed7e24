//! Memory stores outlive `kill -9`: what was acknowledged is there, and no request is there in part.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use clawhost::audit::{AuditLog, Terms};
use clawhost::memory::{MIGRATIONS, Memory, NewEntry, Query, QueryKind, Scope};
use clawhost::state::Database;
use clawhost_core::error::ErrorKind;
use clawhost_core::limits::MEMORY_TOP_K_MAX;
use clawhost_core::manifest::{Manifest, Settings, Sharing, StoreKind, StorePlan};
use clawhost_tests::TestHost;
use serde_json::{Value, json};

const KILLS: u32 = 200;
/// Entries of one request.
const BATCH: usize = 3;
/// Requests that are acknowledged before a kill, at most; all entries of a round fit one answer.
const ACKNOWLEDGED_MAX: u32 = 24;
/// Tells the child where to store, and in which round.
const FOLDER: &str = "CLAWHOST_TEST_MEMORY_FOLDER";
const ROUND: &str = "CLAWHOST_TEST_MEMORY_ROUND";
const CHILD: &str = "memory::a_child_stores_until_it_is_killed";

pub(crate) fn store() -> StorePlan {
    StorePlan {
        name: "s".to_owned(),
        kind: StoreKind::Conversation,
        sharing: Sharing { per_identity: true, per_principal: true },
        file: None,
        max_age_ms: None,
        max_entries: None,
        max_bytes: 1 << 30,
        compacts_to: None,
        top_k: 10,
        embedding: None,
    }
}

fn open(folder: &Path) -> Memory {
    let database = Database::open(&folder.join("db"), &[("memory", MIGRATIONS)]).unwrap();
    let audit = Dir::open_ambient_dir(folder, ambient_authority()).unwrap();
    let audit = AuditLog::open(&audit, Terms::default());
    let audit = Arc::new(audit.unwrap());
    Memory::new(vec![store()], database, audit, Default::default(), None)
}

pub(crate) fn scope() -> Scope {
    Scope { principal: "agent".to_owned(), identity: "me".to_owned() }
}

/// Not a test of its own: the process that the test below starts and kills.
#[tokio::test]
async fn a_child_stores_until_it_is_killed() {
    let (Some(folder), Ok(round)) = (std::env::var_os(FOLDER), std::env::var(ROUND)) else {
        return;
    };
    let memory = open(Path::new(&folder));
    for request in 0_u32.. {
        let new = |part: usize| NewEntry {
            content: json!({"request": request, "part": part, "text": "x".repeat(part * 1_000)}),
            key: Some(round.clone()),
            metadata: None,
        };
        let ids = memory.store(&scope(), "s", (0..BATCH).map(new).collect()).await.unwrap();
        // One write a line: a kill leaves no half of one.
        let line = format!("{}\n", ids.join(" "));
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
}

fn start(folder: &Path, round: u32) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", CHILD, "--nocapture"])
        .env(FOLDER, folder)
        .env(ROUND, round.to_string())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Lets the child acknowledge some requests, kills it a random moment later, and returns the ids
/// of everything it acknowledged.
fn kill_at_random(folder: &Path, round: u32, random: &mut u64) -> Vec<String> {
    let mut child = start(folder, round);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut ids = Vec::new();
    let mut take = |line: String| ids.extend(line.split(' ').map(str::to_owned));
    for _ in 0..next(random) % ACKNOWLEDGED_MAX {
        take(lines.next().unwrap().unwrap());
    }
    for _ in 0..next(random) % 2_000_000 {
        std::hint::spin_loop();
    }
    child.kill().unwrap();
    lines.for_each(|line| take(line.unwrap()));
    child.wait().unwrap();
    ids
}

/// A generator of Knuth's: the moments of a run are the same each time, as far as they can be.
fn next(random: &mut u64) -> u32 {
    *random =
        random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    u32::try_from(*random >> 33).unwrap()
}

async fn check_round(memory: &Memory, round: u32, acknowledged: &[String]) {
    let kind = QueryKind::Key { key: round.to_string() };
    let query = Query { kind, top_k: Some(MEMORY_TOP_K_MAX) };
    let found = memory.query(&scope(), "s", query).await.unwrap().entries;
    let ids: Vec<&String> = found.iter().map(|entry| &entry.id).collect();
    assert!(ids.len() < MEMORY_TOP_K_MAX as usize, "round {round} does not fit one answer");
    assert_eq!(ids.get(..acknowledged.len()), Some(&*acknowledged.iter().collect::<Vec<_>>()));
    for (index, entry) in found.iter().enumerate() {
        let place = (entry.content["request"].as_u64(), entry.content["part"].as_u64());
        assert_eq!(place, (Some((index / BATCH) as u64), Some((index % BATCH) as u64)));
    }
    assert_eq!(found.len() % BATCH, 0, "round {round} holds a request in part");
}

#[tokio::test]
async fn what_was_acknowledged_outlives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = 7;
    let mut rounds = Vec::new();
    for round in 0..KILLS {
        let ids = kill_at_random(folder.path(), round, &mut random);
        check_round(&open(folder.path()), round, &ids).await;
        rounds.push(ids);
    }
    let acknowledged: usize = rounds.iter().map(Vec::len).sum();
    assert!(acknowledged > KILLS as usize, "the children hardly stored anything: {acknowledged}");
    let memory = open(folder.path());
    for (round, ids) in (0..).zip(&rounds) {
        check_round(&memory, round, ids).await;
    }
}

const STORES: &str = "\
claw: '0.3.0'
kind: Memory
metadata: { name: m }
spec: { stores: [{ name: s, type: conversation }] }
";

#[tokio::test]
async fn filters_of_a_reload_hold_for_what_is_stored_after_it() {
    let host = TestHost::builder().document("memory.yaml", STORES).build().await;
    let memory = host.host().memory();
    let text = "write to someone@example.com";
    let store = async |content: Value, key: Option<&str>| {
        let key = key.map(str::to_owned);
        memory.store(&scope(), "s", vec![NewEntry { content, key, metadata: None }]).await
    };
    store(json!(text), Some(text)).await.unwrap();
    let before = host.host().manifest();
    for (action, key_is) in [("block", ErrorKind::Policy), ("redact", ErrorKind::InvalidArguments)]
    {
        let file = format!(
            "version: 1\nfilters: {{ people: {{ kinds: [pii], boundaries: [memory], action: {action} }} }}"
        );
        let file = Some((Path::new("clawhost.yaml"), file.as_bytes()));
        let mut manifest = Manifest::clone(&before);
        Settings::read(file, []).unwrap().apply(&mut manifest).unwrap();
        host.host().reload(manifest).await.unwrap();
        let content = store(json!(text), None).await;
        assert_eq!(content.is_err(), action == "block", "{content:?}");
        assert_eq!(store(json!("harmless"), Some(text)).await.unwrap_err().kind, key_is);
        store(json!("harmless"), Some("also harmless")).await.unwrap();
    }
}
