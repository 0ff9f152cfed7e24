//! The built-in file and memory tools on their normal path: parameters, defaults, results.

use clawhost_tests::TestHost;
use clawhost_tests::host::text;
use serde_json::{Value, json};

/// Calls a tool that is expected to fail, and returns how.
async fn fails(host: &TestHost, tool: &str, arguments: Value) -> (Option<&'static str>, String) {
    let reply = host.call(tool, arguments).await.unwrap();
    assert!(reply.is_error, "{tool}: {}", text(&reply));
    (reply.error_kind, text(&reply))
}

#[tokio::test]
async fn a_file_is_written_read_edited_and_listed() {
    let host = TestHost::builder().build().await;
    let wrote =
        host.ask("write_file", json!({"path": "notes/today.md", "content": "one two"})).await;
    assert_eq!(wrote, json!({"path": "notes/today.md", "bytes": 7}));
    let edit = json!({"path": "notes/today.md", "old_text": "two", "new_text": "drei ü"});
    host.ask("edit_file", edit).await;
    let read = host.ask("read_file", json!({"path": "notes/today.md"})).await;
    assert_eq!(read, json!({"content": "one drei ü"}));
    host.ask("write_file", json!({"path": "a.txt", "content": ""})).await;
    let listed = host.ask("list_directory", json!({"path": "."})).await;
    let expected = json!({"entries": [
        {"name": "a.txt", "is_dir": false, "size": 0},
        {"name": "notes", "is_dir": true, "size": 0}]});
    assert_eq!(listed, expected);
    let on_disk = std::fs::read_to_string(host.workspace().join("notes/today.md")).unwrap();
    assert_eq!(on_disk, "one drei ü");
}

#[tokio::test]
async fn an_edit_needs_exactly_one_match_and_otherwise_changes_nothing() {
    let host = TestHost::builder().file("a.txt", "aaa b").build().await;
    for (old, says) in [("a", "3"), ("aa", "2"), ("x", ""), ("", "")] {
        let edit = json!({"path": "a.txt", "old_text": old, "new_text": "new"});
        let (kind, shown) = fails(&host, "edit_file", edit).await;
        assert_eq!(kind, Some("invalid-args"), "{old:?}: {shown}");
        assert!(shown.contains(says), "{old:?}: {shown}");
    }
    assert_eq!(host.ask("read_file", json!({"path": "a.txt"})).await["content"], "aaa b");
}

#[tokio::test]
async fn what_cannot_be_read_says_why() {
    let host = TestHost::builder().build().await;
    std::fs::write(host.workspace().join("binary"), [0xff, 0xfe, 0x00]).unwrap();
    std::fs::create_dir(host.workspace().join("folder")).unwrap();
    let absent = fails(&host, "read_file", json!({"path": "absent"})).await;
    assert_eq!(absent.0, Some("file-not-found"));
    let binary = fails(&host, "read_file", json!({"path": "binary"})).await;
    assert!(binary.1.contains("UTF-8"), "{}", binary.1);
    fails(&host, "read_file", json!({"path": "folder"})).await;
    fails(&host, "list_directory", json!({"path": "binary"})).await;
    fails(&host, "list_directory", json!({"path": "absent"})).await;
    for shown in [absent.1, binary.1] {
        assert!(!shown.contains(host.workspace().to_str().unwrap()), "a path of the host: {shown}");
    }
}

#[tokio::test]
async fn memory_is_kept_in_one_file_and_searched_by_paragraph() {
    let host = TestHost::builder().build().await;
    let empty = host.ask("memory_read", json!({})).await;
    assert_eq!(empty["content"], "");
    host.ask("memory_write", json!({"content": "Ada likes tea.\nBlack, no sugar."})).await;
    host.ask("memory_write", json!({"content": "Bob likes coffee.", "mode": "append"})).await;
    let all = host.ask("memory_read", json!({})).await;
    let notes = all["content"].as_str().unwrap();
    assert_eq!(notes.trim_end(), "Ada likes tea.\nBlack, no sugar.\n\nBob likes coffee.");
    assert!(host.workspace().join("MEMORY.md").is_file());
    let found = host.ask("memory_read", json!({"query": "SUGAR"})).await;
    assert_eq!(found["count"], 1);
    assert_eq!(found["matches"], json!(["Ada likes tea.\nBlack, no sugar."]));
    host.ask("memory_write", json!({"content": "Fresh.", "mode": "overwrite"})).await;
    let all = host.ask("memory_read", json!({})).await;
    assert_eq!(all["content"].as_str().unwrap().trim_end(), "Fresh.");
    let wrong = host.call("memory_write", json!({"content": "x", "mode": "prepend"})).await;
    assert_eq!(wrong.unwrap_err().kind.code(), -32602);
}

#[tokio::test]
async fn every_built_in_tool_has_closed_schemas_and_describes_every_parameter() {
    let tools =
        ["read-file", "write-file", "edit-file", "list-directory", "memory-read", "memory-write"];
    let host = TestHost::builder().only(&tools).build().await;
    for tool in host.host().catalog().tools() {
        let definition = &tool.definition;
        let schema = &definition.input_schema;
        assert_eq!(schema["additionalProperties"], false, "{}", definition.name);
        for (name, property) in schema["properties"].as_object().unwrap() {
            let described = property["description"].as_str().is_some_and(|text| text.len() > 5);
            assert!(described, "{}: {name}: {property}", definition.name);
        }
        assert!(definition.description.len() > 20, "{}", definition.name);
        assert!(definition.annotations.open_world == Some(false), "{}", definition.name);
    }
}
