//! The built-in file and memory tools on their normal path: parameters, defaults, results; and that
//! a patch is applied as a whole or not at all.

use clawhost_tests::TestHost;
use clawhost_tests::host::text;
use serde_json::{Value, json};

/// Calls a tool that is expected to fail, and returns how.
pub(crate) async fn fails(
    host: &TestHost,
    tool: &str,
    arguments: Value,
) -> (Option<&'static str>, String) {
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
    let piece = host.ask("read_file", json!({"path": "notes/today.md", "limit": 8.0})).await;
    assert_eq!(piece["content"], "one drei", "what is an integer to JSON Schema is one");
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
    let blank = fails(&host, "memory_write", json!({"content": " \n"})).await;
    assert_eq!(blank.0, Some("invalid-args"));
    host.ask("memory_write", json!({"content": "", "mode": "overwrite"})).await;
    assert_eq!(host.ask("memory_read", json!({})).await["content"], "");
    let wrong = host.call("memory_write", json!({"content": "x", "mode": "prepend"})).await;
    assert_eq!(wrong.unwrap_err().kind.code(), -32602);
}

#[tokio::test]
async fn every_built_in_tool_has_closed_schemas_and_describes_every_parameter() {
    let tools = [
        "read-file", "write-file", "edit-file", "list-directory", "search-files", "apply-patch",
        "memory-read", "memory-write",
    ];
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

/// A host with the tools that look through a folder and change several files of it.
async fn with_search_and_patch() -> TestHost {
    TestHost::builder()
        .only(&["search-files", "apply-patch", "read-file", "list-directory"])
        .file("src/main.rs", "fn main() {\n    let answer = 42;\n}\n")
        .file("src/lib/deep.rs", "// answer\r\n// Answer\r\n")
        .file("notes.txt", "the answer is 42\n")
        .file("picture.bin", "\0answer")
        .build()
        .await
}

#[tokio::test]
async fn files_are_found_by_name_by_text_and_by_expression() {
    let host = with_search_and_patch().await;
    let paths = async |arguments: Value| {
        let found = host.ask("search_files", arguments).await;
        let lines = found["matches"].as_array().unwrap().iter().map(|found| {
            let line = found["line"].as_u64().map(|line| format!(":{line}")).unwrap_or_default();
            format!("{}{line}", found["path"].as_str().unwrap())
        });
        lines.collect::<Vec<_>>()
    };
    assert_eq!(paths(json!({"glob": "*.rs"})).await, ["src/lib/deep.rs", "src/main.rs"]);
    assert_eq!(paths(json!({"glob": "src/*.rs"})).await, ["src/main.rs"]);
    assert_eq!(paths(json!({"glob": "*.rs", "path": "src/lib"})).await, ["src/lib/deep.rs"]);
    let all = ["notes.txt:1", "src/lib/deep.rs:1", "src/main.rs:2"];
    assert_eq!(paths(json!({"text": "answer"})).await, all, "what is no text is left out");
    let both = json!({"text": "ANSWER", "ignore_case": true, "glob": "deep.*"});
    assert_eq!(paths(both).await, ["src/lib/deep.rs:1", "src/lib/deep.rs:2"]);
    let regex = json!({"text": "answer (=|is) \\d+", "regex": true});
    assert_eq!(paths(regex).await, ["notes.txt:1", "src/main.rs:2"]);
    assert_eq!(paths(json!({"text": "is ("})).await, Vec::<String>::new());
    let one = host.ask("search_files", json!({"text": "answer", "limit": 1})).await;
    assert_eq!(
        one["matches"],
        json!([{"path": "notes.txt", "line": 1, "text": "the answer is 42"}])
    );
    assert_eq!(one["incomplete"], "more than 1 matches");
    let one = json!({"text": "answer", "limit": 1, "path": "src/lib"});
    assert_eq!(host.ask("search_files", one).await.get("incomplete"), None, "one there was");
}

#[tokio::test]
async fn a_search_says_what_is_wrong_with_it() {
    let host = with_search_and_patch().await;
    for (arguments, kind) in [
        (json!({}), "invalid-args"),
        (json!({"text": "(", "regex": true}), "invalid-args"),
        (json!({"glob": "[a"}), "invalid-args"),
        (json!({"glob": "*", "path": "absent"}), "file-not-found"),
        (json!({"glob": "*", "path": "../outside"}), "invalid-path"),
    ] {
        assert_eq!(
            fails(&host, "search_files", arguments.clone()).await.0,
            Some(kind),
            "{arguments}"
        );
    }
}

const PATCH: &str = "--- a/src/main.rs
+++ b/src/main.rs
@@ -1,3 +1,3 @@
 fn main() {
-    let answer = 42;
+    let answer = 43;
 }
--- /dev/null
+++ b/new/file.txt
@@ -0,0 +1 @@
+made
--- a/notes.txt
+++ /dev/null
@@ -1 +0,0 @@
-the answer is 42
";

#[tokio::test]
async fn a_patch_changes_makes_and_removes_files_together() {
    let host = with_search_and_patch().await;
    let paths = json!(["src/main.rs", "new/file.txt", "notes.txt"]);
    let patched = host.ask("apply_patch", json!({"paths": paths, "patch_text": PATCH})).await;
    let expected = json!([
        {"path": "src/main.rs", "change": "changed", "bytes": 35},
        {"path": "new/file.txt", "change": "created", "bytes": 5},
        {"path": "notes.txt", "change": "deleted", "bytes": 0}]);
    assert_eq!(patched["files"], expected);
    let read = |name: &str| std::fs::read_to_string(host.workspace().join(name));
    assert_eq!(read("src/main.rs").unwrap(), "fn main() {\n    let answer = 43;\n}\n");
    assert_eq!(read("new/file.txt").unwrap(), "made\n");
    assert!(read("notes.txt").is_err());
}

#[tokio::test]
async fn a_patch_that_does_not_fit_changes_nothing() {
    let host = with_search_and_patch().await;
    let before = all_files(&host);
    let patch = async |paths: &[&str], patch: &str, says: &str| {
        let arguments = json!({"paths": paths, "patch_text": patch});
        let shown = fails(&host, "apply_patch", arguments).await.1;
        assert!(shown.contains(says), "{says}: {shown}");
        assert_eq!(all_files(&host), before, "{says}");
    };
    patch(&["src/main.rs", "new/file.txt"], PATCH, "notes.txt").await;
    for (old, new, says) in [
        ("answer is 42", "answer is 41", "notes.txt"),
        ("new/file.txt", "picture.bin", "picture.bin"),
        ("new/file.txt", "notes.txt", "twice"),
        ("new/file.txt", "notes.txt/below", "below"),
        ("new/file.txt", "../outside/file.txt", "outside"),
        ("new/file.txt", "./notes.txt", "./notes.txt"),
        ("a/notes.txt", "a/absent.txt", "absent.txt"),
    ] {
        let changed = PATCH.replace(old, new);
        patch(&paths_of(&changed), &changed, says).await;
    }
    host.canaries().check();
}

#[tokio::test]
async fn a_patch_that_fails_half_way_is_undone() {
    let host = with_search_and_patch().await;
    // The same file under two names: the second removal finds it changed, after the first.
    std::os::unix::fs::symlink("src", host.workspace().join("link")).unwrap();
    let before = all_files(&host);
    let removed = "--- a/src/lib/deep.rs\n+++ /dev/null\n@@ -1,2 +0,0 @@\n-// answer\n-// Answer\n";
    let patch = PATCH.to_owned() + removed + &removed.replace("a/src", "a/link");
    let arguments = json!({"paths": paths_of(&patch), "patch_text": patch});
    let (kind, shown) = fails(&host, "apply_patch", arguments).await;
    assert_eq!(kind, Some("execution-failed"), "{shown}");
    assert_eq!(all_files(&host), before);
}

/// The files that a patch names.
fn paths_of(patch: &str) -> Vec<&str> {
    let name = |line| str::strip_prefix(line, "+++ b/").or_else(|| line.strip_prefix("--- a/"));
    let names = patch.lines().filter_map(name);
    names.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

/// What the granted folder holds: nothing half-written may stay in it.
fn all_files(host: &TestHost) -> std::collections::BTreeMap<std::path::PathBuf, Vec<u8>> {
    let (mut found, mut pending) = (std::collections::BTreeMap::new(), vec![host.workspace()]);
    while let Some(folder) = pending.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                pending.push(path);
            } else {
                found.insert(path.clone(), std::fs::read(path).unwrap());
            }
        }
    }
    found
}
