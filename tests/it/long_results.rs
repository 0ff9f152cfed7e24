//! Built-in tools that have more to say than a reply holds: clients refuse a reply that is not what
//! the tool's output schema promises, and show nothing of it.

use clawhost_core::limits::REPLY_BYTES_MAX;
use clawhost_core::schema::Schema;
use clawhost_core::truncate;
use clawhost_tests::TestHost;
use serde_json::{Value, json};

const TOOLS: [&str; 4] = ["read-file", "memory-read", "list-directory", "search-files"];

/// Files of the folder `many`.
const FILES: usize = 3_000;

fn name(number: usize) -> String {
    format!("{number:05}")
}

async fn host() -> TestHost {
    let notes = "\"a note\"\n".repeat(20_000);
    let builder = TestHost::builder().only(&TOOLS).file("MEMORY.md", &notes);
    let host = builder.limits("timeout_ms: 30000").build().await;
    let folder = host.workspace().join("many");
    std::fs::create_dir(&folder).unwrap();
    for number in 0..FILES {
        std::fs::write(folder.join(name(number)), "").unwrap();
    }
    host
}

#[tokio::test]
async fn a_long_result_fits_its_reply_and_is_what_its_schema_promises() {
    let host = host().await;
    for (tool, arguments) in [
        ("read_file", json!({"path": "MEMORY.md"})),
        ("memory_read", json!({})),
        ("list_directory", json!({"path": "many"})),
        ("search_files", json!({"text": "note", "limit": 1_000})),
    ] {
        let reply = host.call(tool, arguments).await.unwrap();
        assert!(!reply.is_error, "{tool}: {reply:?}");
        let bytes = truncate::size_of(&reply);
        assert!((REPLY_BYTES_MAX / 2..=REPLY_BYTES_MAX).contains(&bytes), "{tool}: {bytes}");
        let catalog = host.host().catalog();
        let schema = catalog.find(tool).unwrap().definition.output_schema.clone().unwrap();
        let structured = reply.structured.unwrap_or_default();
        assert_eq!(Schema::compile(&schema).unwrap().check(&structured), Ok(()), "{tool}");
    }
}

#[tokio::test]
async fn of_long_notes_the_latest_are_read_and_found() {
    let notes = (0..3_000).map(|number| format!("note {number} {}", "x".repeat(60)));
    let notes = notes.collect::<Vec<_>>().join("\n\n");
    let host = TestHost::builder().only(&TOOLS).file("MEMORY.md", &notes).build().await;
    let reply = host.call("memory_read", json!({})).await.unwrap();
    assert_eq!(reply.cut_from_bytes, None);
    let read = reply.structured.unwrap();
    assert!(notes.ends_with(read["content"].as_str().unwrap()), "{read}");
    assert_eq!(read["size"], notes.len());
    let reply = host.call("memory_read", json!({"query": "NOTE"})).await.unwrap();
    assert_eq!((reply.is_error, reply.cut_from_bytes), (false, None));
    let found = reply.structured.unwrap();
    assert_eq!(found["count"], 3_000);
    let last = found["matches"].as_array().unwrap().last().unwrap().as_str().unwrap();
    assert!(last.starts_with("note 2999 "), "{last}");
}

#[tokio::test]
async fn pages_of_a_large_directory_are_whole_and_together_all_of_it() {
    let host = host().await;
    let (mut seen, mut after, mut pages) = (Vec::new(), String::new(), 0);
    loop {
        let page = json!({"path": "many", "after": after});
        let reply = host.call("list_directory", page).await.unwrap();
        assert_eq!(reply.cut_from_bytes, None);
        let page = reply.structured.unwrap();
        let names = page["entries"].as_array().unwrap().iter();
        seen.extend(names.map(|entry| entry["name"].as_str().unwrap().to_owned()));
        pages += 1;
        if page.get("truncated").is_none() {
            break;
        }
        assert_eq!(page["total"], FILES);
        after = seen.last().cloned().unwrap();
    }
    assert_eq!(seen, (0..FILES).map(name).collect::<Vec<_>>());
    assert!((4..12).contains(&pages), "a page is filled: {pages}");
}

#[tokio::test]
async fn a_search_ends_where_its_reply_is_full_and_says_so() {
    let host = host().await;
    let found = host.ask("search_files", json!({"text": "note", "limit": 1_000})).await;
    assert_eq!(found["incomplete"], "more matches than a reply holds");
    assert!(found["matches"].as_array().map_or(0, Vec::len) > 300, "{found}");
    let found = host.ask("search_files", json!({"text": "note", "limit": 3})).await;
    assert_eq!(found["incomplete"], "more than 3 matches");
    assert_ne!(found["matches"], Value::Null);
}
