use super::*;
use crate::manifest::primitive::read_document;
use crate::manifest::problem::DocumentError;
use crate::manifest::problem::Problems;

fn document(stores: &str) -> String {
    format!("claw: \"0.3.0\"\nkind: Memory\nmetadata: {{name: m}}\nspec:\n  stores: [{stores}]\n")
}

fn load(text: &str) -> Result<Vec<StorePlan>, Vec<String>> {
    let mut problems = Problems::default();
    let read = read_document(Path::new("d/m.yaml"), text.as_bytes(), &mut problems);
    let of = [read.unwrap()];
    check_all(&of, &mut problems);
    let plan = plan(&of, Path::new("/here"));
    let lines = |list: Vec<DocumentError>| list.iter().map(DocumentError::one_line).collect();
    problems.finish(Some(plan)).map_err(lines)
}

fn store(text: &str) -> StorePlan {
    load(&document(text)).unwrap().remove(0)
}

fn refused(text: &str, expected: &str) {
    let lines = load(&document(text)).unwrap_err();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].contains(expected), "{} should say {expected}", lines[0]);
}

#[test]
fn a_store_that_says_little_shares_nothing_and_is_bounded() {
    let plan = store("{name: talk, type: conversation}");
    assert_eq!(
        plan,
        StorePlan {
            name: "talk".to_owned(),
            kind: StoreKind::Conversation,
            sharing: Sharing { per_identity: true, per_principal: true },
            file: None,
            max_age_ms: None,
            max_entries: None,
            max_bytes: MEMORY_PART_MB << 20,
            compacts_to: None,
            top_k: MEMORY_TOP_K_PER_CALL,
            embedding: None,
        }
    );
}

#[test]
fn everything_a_store_says_is_read() {
    let plan = store(
        "{name: s, type: checkpoint, backend: sqlite, retention: {max_age: 2h, max_entries: 9}, \
         compaction: {strategy: truncate}, search: {strategy: fts-only, top_k: 3}, scope: global, \
         isolation: per-identity, encryption: false, path: 'm/{identity_name}.db', max_size_mb: 7, \
         checkpoint: {max_snapshots: 5, ttl: 90m}}",
    );
    assert_eq!(
        plan,
        StorePlan {
            name: "s".to_owned(),
            kind: StoreKind::Checkpoint,
            sharing: Sharing { per_identity: true, per_principal: false },
            file: Some(FileTemplate("/here/d/m/{identity_name}.db".into())),
            max_age_ms: Some(5_400_000),
            max_entries: Some(5),
            max_bytes: 7 << 20,
            compacts_to: Some(3),
            top_k: 3,
            embedding: None,
        }
    );
}

#[test]
fn each_of_scope_and_isolation_narrows() {
    for (said, per_identity, per_principal) in [
        ("scope: global", false, false),
        ("isolation: shared", false, false),
        ("scope: per-channel", false, true),
        ("scope: global, isolation: per-identity", true, false),
        ("scope: per-channel, isolation: per-identity", true, true),
        ("scope: per-channel, isolation: shared", false, true),
    ] {
        let plan = store(&format!("{{name: s, type: semantic, {said}}}"));
        assert_eq!(plan.sharing, Sharing { per_identity, per_principal }, "{said}");
    }
}

#[test]
fn compaction_is_what_was_asked_for() {
    for (said, left) in [
        ("", None),
        (", compaction: {}", None),
        (", compaction: {enabled: true}", Some(10)),
        (", compaction: {strategy: sliding-window}", Some(10)),
        (", compaction: {strategy: truncate, enabled: true}", Some(5)),
        (", compaction: {strategy: truncate, enabled: false}", None),
        (", compaction: {strategy: summarize, enabled: false}", None),
    ] {
        let plan =
            store(&format!("{{name: s, type: semantic, retention: {{max_entries: 10}}{said}}}"));
        assert_eq!(plan.compacts_to, left, "{said}");
    }
    let plan = store("{name: s, type: semantic, compaction: {enabled: true}}");
    assert_eq!(plan.compacts_to, Some(MEMORY_WINDOW_ENTRIES_MAX));
}

#[test]
fn what_is_not_served_is_refused() {
    for backend in ["postgresql", "filesystem", "sqlite-vec", "pgvector", "qdrant", "custom"] {
        let text = format!("{{name: s, type: semantic, backend: {backend}}}");
        refused(&text, &format!("backend: {backend}` is not served"));
    }
    for (said, expected) in [
        ("embedding: {provider_ref: p, model: m}", "dimensions` is missing"),
        ("embedding: {provider_ref: p, model: m, dimensions: 8193}", "is the number 8193"),
        ("encryption: true", "encryption: true` is not served"),
        ("compaction: {strategy: summarize}", "`strategy: summarize` is not served"),
        ("search: {strategy: hybrid}", "`strategy: hybrid` compares vectors"),
        ("search: {strategy: vector-only}", "`strategy: vector-only` compares vectors"),
        ("search: {fusion: reciprocal-rank}", "fusion` is not served"),
        ("search: {top_k: 1001}", "top_k` is the number 1001"),
        ("max_size_mb: 1000000", "max_size_mb` is the number 1000000"),
        ("checkpoint: {ttl: 1d}", "`checkpoint` does not go with"),
    ] {
        refused(&format!("{{name: s, type: semantic, {said}}}"), expected);
    }
}

#[test]
fn vectors_are_made_unless_words_alone_are_wanted() {
    let store = |said: &str| {
        let embedding =
            "embedding: {provider_ref: 'claw://local/provider/p', model: m, dimensions: 3}";
        store(&format!("{{name: s, type: semantic, {embedding}{said}}}")).embedding
    };
    let (provider, model) = ("p".to_owned(), "m".to_owned());
    let mixed = EmbeddingPlan { provider, model, dimensions: 3, alone: false };
    assert_eq!(store(""), Some(mixed.clone()));
    assert_eq!(store(", search: {strategy: hybrid}"), Some(mixed.clone()));
    assert_eq!(
        store(", search: {strategy: vector-only}"),
        Some(EmbeddingPlan { alone: true, ..mixed })
    );
    assert_eq!(store(", search: {strategy: fts-only}"), None);
}

#[test]
fn a_path_leads_to_a_file_and_nowhere_else() {
    refused("{name: s, type: semantic, path: ''}", "is an empty text");
    refused("{name: s, type: semantic, path: ~/a}", "is `~/a`, which is not expanded");
    for path in [".", "..", "a/../b", "../a", "a/", "{secret}", "{a", "a*", "/"] {
        refused(&format!("{{name: s, type: semantic, path: '{path}'}}"), "is no path of a store");
    }
    for (path, resolved) in [
        ("a.db", "/here/d/a.db"),
        ("./a/b.db", "/here/d/a/b.db"),
        ("/srv/{tenant_id}/{identity_name}", "/srv/t.1/me"),
    ] {
        let plan = store(&format!("{{name: s, type: semantic, path: '{path}'}}"));
        assert_eq!(plan.file.unwrap().resolve("me", "t.1"), Some(resolved.into()));
    }
}

#[test]
fn a_name_that_could_lead_elsewhere_is_not_filled_in() {
    let file = FileTemplate("/a/{identity_name}/{tenant_id}".into());
    for name in ["", "..", ".", ".a", "a/b", "/a", "a\0", "-a", "{tenant_id}", "é"] {
        assert_eq!(file.resolve(name, "t"), None, "{name}");
        assert_eq!(file.resolve("i", name), None, "{name}");
    }
    assert_eq!(file.resolve("i", &"a".repeat(NAME_BYTES_MAX + 1)), None);
    assert_eq!(FileTemplate("/a".into()).resolve("..", ".."), Some("/a".into()));
}

#[test]
fn a_store_name_is_taken_once() {
    let two = "{name: s, type: semantic}, {name: s, type: key-value}";
    refused(two, "the store name `s` is taken: the first is of d/m.yaml:5");
}
