//! Stores with a file of their own.

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::*;

/// Returns a plan as a document in `folder` with that `path` gives it.
fn with_path(folder: &Path, path: &str) -> StorePlan {
    let text = format!(
        "claw: '0.3.0'\nkind: Memory\nmetadata: {{name: m}}\nspec: {{stores: [{{name: s, type: conversation, path: '{path}'}}]}}\n"
    );
    let file = folder.join("m.yaml");
    std::fs::write(&file, text).unwrap();
    let documents = crate::registry::FileDocuments;
    let around =
        clawhost_core::manifest::Surroundings { directory: folder, profiles: &Default::default() };
    let mut manifest = clawhost_core::manifest::load(&documents, &[file], around).unwrap();
    manifest.memory.remove(0)
}

#[tokio::test]
async fn each_name_has_a_private_file() {
    let folder = tempfile::tempdir().unwrap();
    let plan = with_path(folder.path(), "m/{tenant_id}/{identity_name}.db");
    let stores = Stores::new(&[plan]);
    stores.put(None, 1).await;
    let you = scope("agent", "you");
    assert_eq!(stores.memory.query(&you, "s", any_time()).await.unwrap().entries, []);
    let file = folder.path().join("m/agent/me.db");
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert!(folder.path().join("m/agent/you.db").exists());
    assert_eq!(stores.sql::<i64>("SELECT count(*) FROM memory_entries").await, 0);
    let stores = stores.restarted();
    assert_eq!(stores.contents().await, [1]);
}

#[tokio::test]
async fn a_name_that_leads_elsewhere_makes_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let stores = Stores::new(&[with_path(folder.path(), "m/{identity_name}.db")]);
    for name in ["../x", "a/b", "/tmp/x", "", ".."] {
        let refused = stores.memory.query(&scope("agent", name), "s", any_time()).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::MemoryQuery);
    }
    assert!(!folder.path().join("m").exists());
}

#[tokio::test]
async fn a_file_that_is_no_database_is_a_failing_backend() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("x.db"), "not a database, but long enough to be read as one")
        .unwrap();
    let stores = Stores::new(&[with_path(folder.path(), "x.db")]);
    let error = stores.memory.query(&me(), "s", any_time()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::MemoryBackend);
    assert!(!error.message.contains("x.db"), "{error}");
}

#[tokio::test]
async fn more_files_than_may_be_open_are_served_all_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let stores = Stores::new(&[with_path(folder.path(), "{identity_name}.db")]);
    let names: Vec<String> =
        (0..=clawhost_core::limits::MEMORY_FILES_MAX).map(|n| format!("i{n}")).collect();
    for name in &names {
        let new = vec![entry(None, name.as_str())];
        stores.memory.store(&scope("agent", name), "s", new).await.unwrap();
    }
    for name in &names {
        let found =
            stores.memory.query(&scope("agent", name), "s", any_time()).await.unwrap().entries;
        assert_eq!(found[0].content, name.as_str());
    }
}
