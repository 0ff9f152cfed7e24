use std::path::Path;

use clawhost_core::manifest::{self, PinMode, Surroundings};
use clawhost_core::policy::PolicySet;

use super::*;
use crate::engine::{Engine, LoadError, Schemas};
use crate::registry::builtin::BUILT_IN_COMPONENTS;
use crate::registry::{DEFAULT_MANIFEST, FileDocuments, MIGRATIONS, Pins};
use crate::sandbox::Backends;
use crate::state::Database;

fn default_manifest(folder: &Path) -> Manifest {
    let file = folder.join("claw.yaml");
    std::fs::write(&file, DEFAULT_MANIFEST).unwrap();
    std::fs::create_dir(folder.join("workspace")).unwrap();
    let profiles = manifest::builtin_profiles(folder).unwrap();
    let around = Surroundings { directory: folder, profiles: &profiles };
    manifest::load(&FileDocuments, &[file], around).unwrap()
}

/// Two offers of the component that has `read_file`: the host's own, and a file's.
async fn offers(engine: &Arc<Engine>) -> (Offer, Offer) {
    let files = BUILT_IN_COMPONENTS.iter().find(|artifact| artifact.name == "file-io").unwrap();
    let loaded = engine.load(files.bytes.to_vec()).await.unwrap();
    let own = Origin::BuiltIn { component: "file-io" };
    let file = Origin::DropIn { file: "mine.wasm".to_owned() };
    let schemas = Schemas::default();
    let own = Offer::new(own, Arc::clone(&loaded), &schemas).unwrap();
    (own, Offer::new(file, loaded, &schemas).unwrap())
}

fn pins() -> Pins {
    let database = Database::in_memory(&[("pins", MIGRATIONS)]).unwrap();
    Pins::new(database, None, PinMode::default())
}

fn file(status: Status) -> DropIn {
    let print = drop_in::Fingerprint::default();
    DropIn { name: "mine.wasm".to_owned(), seen: 1, print, status, load: None }
}

fn serves(snapshot: &Snapshot) -> Option<bool> {
    let tool = snapshot.catalog.find("read_file")?;
    assert!(snapshot.runnables.contains_key("read_file"));
    Some(matches!(tool.origin, Origin::DropIn { .. }))
}

#[tokio::test]
async fn a_file_has_a_built_in_name_only_where_it_may_replace_it_and_can_be_bound() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = Arc::new(default_manifest(folder.path()));
    let engine = Arc::new(Engine::new(1, None).unwrap());
    let (built_in, dropped) = offers(&engine).await;
    let mut unbindable = find(&manifest, "read_file").unwrap().clone();
    unbindable.sandbox = "no-such-profile".to_owned();
    let failed = Err(Refused::new("built-in component `file-io`", "no room"));
    for (replaceable, sidecars, own, dropped_in) in [
        (false, vec![], Ok(built_in.clone()), Some(false)),
        // What the manifest grants to the built-in tool is not inherited.
        (false, vec![], failed.clone(), None),
        (true, vec![], Ok(built_in.clone()), Some(true)),
        (true, vec![], failed, Some(true)),
        (true, vec![unbindable], Ok(built_in), Some(false)),
    ] {
        let names = if replaceable { &["read_file"][..] } else { &[] };
        let sources = Sources {
            engine: Arc::clone(&engine),
            manifest: Arc::clone(&manifest),
            backends: Backends::none(),
            replaceable: names.iter().map(|name| (*name).to_owned()).collect(),
            pins: pins(),
            releases: None,
            touched: tokio::sync::watch::channel(0).1,
        };
        let mut binder = Binder::new(sources, vec![own], Vec::new());
        let file = file(Status::Ready { offer: dropped.clone(), sidecars });
        let first = binder.snapshot(&[&file], &BTreeSet::new());
        assert_eq!(serves(&first), dropped_in, "{:?}", first.catalog.refused);
        let again = binder.snapshot(&[&file], &BTreeSet::new());
        assert_eq!(again.catalog.version, first.catalog.version, "nothing has changed");
        let without = binder.snapshot(&[], &BTreeSet::new());
        assert_eq!(without.catalog.version > first.catalog.version, dropped_in == Some(true));
    }
}

#[test]
fn the_word_of_a_registry_tightens_and_never_relaxes() {
    let said = |text: &str| {
        let hints: serde_json::Value = serde_json::from_str(text).unwrap();
        hints.as_object().unwrap().clone()
    };
    let own = Annotations {
        read_only: Some(true),
        destructive: Some(true),
        idempotent: None,
        open_world: Some(false),
    };
    let other = said(
        r#"{"readOnlyHint": false, "destructiveHint": false, "idempotentHint": true, "openWorldHint": true}"#,
    );
    let both = Annotations {
        read_only: Some(false),
        destructive: Some(true),
        idempotent: Some(true),
        open_world: Some(true),
    };
    assert_eq!(careful(own, &other), both);
    assert_eq!(careful(own, &said("{}")), own);
}

#[tokio::test]
async fn a_rule_for_a_tool_that_nobody_offers_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let mut manifest = default_manifest(folder.path());
    let mut policy = manifest.policies.policies()[0].clone();
    policy.rules[0].matches.name = Some("raed-file".to_owned());
    manifest.policies = PolicySet::new(vec![policy]);
    let sources = Sources {
        engine: Arc::new(Engine::new(1, None).unwrap()),
        manifest: Arc::new(manifest),
        backends: Backends::none(),
        replaceable: BTreeSet::new(),
        pins: pins(),
        releases: None,
        touched: tokio::sync::watch::channel(0).1,
    };
    let snapshot = Binder::new(sources, Vec::new(), Vec::new()).snapshot(&[], &BTreeSet::new());
    let [note] = snapshot.catalog.notes.as_slice() else { panic!("one note") };
    assert!(note.ends_with("no tool is called that; did you mean `read-file`?"), "{note}");
}

#[tokio::test]
async fn a_refusal_alone_is_no_new_version() {
    let folder = tempfile::tempdir().unwrap();
    let sources = Sources {
        engine: Arc::new(Engine::new(1, None).unwrap()),
        manifest: Arc::new(default_manifest(folder.path())),
        backends: Backends::none(),
        replaceable: BTreeSet::new(),
        pins: pins(),
        releases: None,
        touched: tokio::sync::watch::channel(0).1,
    };
    let mut binder = Binder::new(sources, Vec::new(), Vec::new());
    assert_eq!(binder.snapshot(&[], &BTreeSet::new()).catalog.version, 1);
    let failed = file(Status::Failed(LoadError::Passing("busy".to_owned())));
    let strays = BTreeSet::from(["orphan.yaml".to_owned()]);
    let snapshot = binder.snapshot(&[&failed], &strays);
    assert_eq!(snapshot.catalog.version, 1);
    for source in ["mine.wasm", "orphan.yaml"] {
        assert!(snapshot.catalog.refused.iter().any(|refused| refused.source == source));
    }
}
