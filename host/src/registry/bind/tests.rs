use std::path::Path;

use clawhost_core::composite::CompositeBounds;
use clawhost_core::manifest::{
    self, CatalogMode, Governance, McpEndpoint, McpSource, PinMode, SkillTerms, Surroundings,
};
use clawhost_core::policy::PolicySet;

use super::*;
use crate::engine::{Engine, LoadError, Schemas};
use crate::native::NativeTools;
use crate::registry::builtin::BUILT_IN_COMPONENTS;
use crate::registry::{DEFAULT_MANIFEST, FileDocuments, MIGRATIONS, Pins, drop_in};
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

/// What a binder needs, where nothing may be replaced.
fn sources(engine: &Arc<Engine>, manifest: &Arc<Manifest>) -> Sources {
    let database = Database::in_memory(&[("pins", MIGRATIONS)]).unwrap();
    Sources {
        engine: Arc::clone(engine),
        manifest: Arc::clone(manifest),
        backends: Backends::none(),
        replaceable: BTreeSet::new(),
        pins: Pins::new(database, None, PinMode::default()),
        releases: None,
        touched: tokio::sync::watch::channel(0).1,
    }
}

fn file(status: Status) -> DropIn {
    let print = drop_in::Fingerprint::default();
    DropIn { name: "mine.wasm".to_owned(), print, status, load: None }
}

/// The file of that name that offers this.
fn ready(name: &str, offer: &Offer, sidecars: Vec<ToolBinding>) -> DropIn {
    let origin = Origin::DropIn { file: name.to_owned() };
    let offer = Offer { origin, ..offer.clone() };
    DropIn { name: name.to_owned(), ..file(Status::Ready { offer, sidecars }) }
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
        let replaceable = names.iter().map(|name| (*name).to_owned()).collect();
        let sources = Sources { replaceable, ..sources(&engine, &manifest) };
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

#[tokio::test]
async fn a_built_in_name_is_reserved_in_either_form_and_as_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Arc::new(Engine::new(1, None).unwrap());
    let replaceable = BTreeSet::from(["web_fetch".to_owned()]);
    let manifest = Arc::new(default_manifest(folder.path()));
    let sources = Sources { replaceable, ..sources(&engine, &manifest) };
    let binder = Binder::new(sources, Vec::new(), Vec::new());
    for name in ["read_file", "read-file"] {
        assert!(binder.is_built_in(name), "{name}");
    }
    for name in ["web_fetch", "web-fetch", "Read-File", "other"] {
        assert!(!binder.is_built_in(name), "{name}");
    }
}

#[tokio::test]
async fn of_files_with_the_same_tool_none_serves_it_and_one_that_fails_keeps_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = Arc::new(default_manifest(folder.path()));
    let engine = Arc::new(Engine::new(1, None).unwrap());
    let (_, offer) = offers(&engine).await;
    let started = || {
        let replaceable = BTreeSet::from(["read_file".to_owned()]);
        let sources = Sources { replaceable, ..sources(&engine, &manifest) };
        Binder::new(sources, Vec::new(), Vec::new())
    };
    let whole = |name| ready(name, &offer, Vec::new());
    let (mine, other) = (whole("mine.wasm"), whole("a.wasm"));
    let failed = file(Status::Failed(LoadError::Passing("half of it".to_owned())));
    let none = BTreeSet::new();
    let both = started().snapshot(&[&other, &mine], &none);
    assert_eq!(serves(&both), None);
    for (of, beside) in [("mine.wasm", "`a.wasm`"), ("a.wasm", "`mine.wasm`")] {
        let source = format!("the file `{of}`");
        let is_said = |one: &Refused| one.source == source && one.reason.contains(beside);
        assert!(both.catalog.refused.iter().any(is_said), "{:?}", both.catalog.refused);
    }
    let mut binder = started();
    assert_eq!(serves(&binder.snapshot(&[&mine], &none)), Some(true));
    let shelf = Shelf::default();
    for _ in 0..2 {
        shelf.publish(binder.snapshot(&[&other, &failed], &none));
        assert_eq!(serves(&shelf.current.load()), None);
    }
    // A reload knows it still.
    let mut binder = started();
    binder.follow(&shelf.successor());
    assert_eq!(serves(&binder.snapshot(&[&other, &failed], &none)), None);
    assert_eq!(serves(&binder.snapshot(&[&other], &none)), Some(true));
}

#[tokio::test]
async fn what_was_pulled_is_what_the_manifest_binds_under_its_own_name_only() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = Arc::new(default_manifest(folder.path()));
    let engine = Arc::new(Engine::new(1, None).unwrap());
    let (_, offer) = offers(&engine).await;
    let (dropped, pulled) = (offer.clone(), Offer { is_pulled: true, ..offer });
    let own = find(&manifest, "read_file").unwrap().clone();
    for (name, offer, sidecars, served) in [
        ("mine.wasm", &dropped, vec![], Some(true)),
        ("mine.wasm", &pulled, vec![], None),
        ("mine.wasm", &pulled, vec![own], Some(true)),
        ("read-file.wasm", &pulled, vec![], Some(true)),
        ("read_file.wat", &pulled, vec![], Some(true)),
    ] {
        let replaceable = BTreeSet::from(["read_file".to_owned()]);
        let sources = Sources { replaceable, ..sources(&engine, &manifest) };
        let mut binder = Binder::new(sources, Vec::new(), Vec::new());
        let snapshot = binder.snapshot(&[&ready(name, offer, sidecars)], &BTreeSet::new());
        assert_eq!(serves(&snapshot), served, "{name}: {:?}", snapshot.catalog.refused);
        let refused = snapshot.catalog.refused_as("read_file");
        let is_said = refused.is_some_and(|one| one.reason.contains("is not what"));
        assert_eq!(is_said, served.is_none(), "{name}: {refused:?}");
        let by_address = snapshot.catalog.refused_as("claw://registry/team/read-file@1.0.0");
        assert_eq!(by_address.is_some(), refused.is_some(), "{name}");
    }
}

#[tokio::test]
async fn a_file_that_waits_is_not_loaded_again_and_is_served_while_what_it_needs_is_accepted() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = Arc::new(default_manifest(folder.path()));
    let engine = Arc::new(Engine::new(1, None).unwrap());
    let database = Database::in_memory(&[("pins", MIGRATIONS)]).unwrap();
    let pins = Pins::new(database, None, PinMode::Require);
    let replaceable = BTreeSet::from(["read_file".to_owned()]);
    let sources = Sources { replaceable, ..sources(&engine, &manifest) };
    let mut binder = Binder::new(sources, Vec::new(), Vec::new());
    let (_, dropped) = offers(&engine).await;
    let mut file = file(Status::accepted(&pins, dropped, Vec::new()).await);
    let waiting = binder.snapshot(&[&file], &BTreeSet::new());
    assert_eq!(serves(&waiting), None);
    let refused = &waiting.catalog.refused[0];
    assert!(refused.reason.contains("clawhost pins accept tool:read-file`"), "{}", refused.reason);
    assert!(!file.is_due_again() && !file.recheck(&pins).await, "nothing has changed");
    let pin = pins.list(None, None).await.unwrap();
    pins.accept(pin).await.unwrap();
    assert!(file.recheck(&pins).await);
    assert_eq!(serves(&binder.snapshot(&[&file], &BTreeSet::new())), Some(true));
    assert!(!file.recheck(&pins).await, "nothing has changed");
    pins.forget(pins.list(None, None).await.unwrap()).await.unwrap();
    assert!(file.recheck(&pins).await);
    assert_eq!(serves(&binder.snapshot(&[&file], &BTreeSet::new())), None);
}

#[tokio::test]
async fn a_rule_for_a_tool_that_nobody_offers_is_noted() {
    let folder = tempfile::tempdir().unwrap();
    let mut manifest = default_manifest(folder.path());
    let mut policy = manifest.policies.policies()[0].clone();
    policy.rules[0].matches.name = Some("raed-file".to_owned());
    manifest.policies = PolicySet::new(vec![policy]);
    let sources = sources(&Arc::new(Engine::new(1, None).unwrap()), &Arc::new(manifest));
    let snapshot = Binder::new(sources, Vec::new(), Vec::new()).snapshot(&[], &BTreeSet::new());
    let [note] = snapshot.catalog.notes.as_slice() else { panic!("one note") };
    assert!(note.ends_with("no tool is called that; did you mean `read-file`?"), "{note}");
}

#[tokio::test]
async fn a_refusal_alone_is_no_new_version() {
    let folder = tempfile::tempdir().unwrap();
    let engine = Arc::new(Engine::new(1, None).unwrap());
    let sources = sources(&engine, &Arc::new(default_manifest(folder.path())));
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

/// A composite of one step, which says beside that what `rest` does.
fn composite(name: &str, tool: &str, rest: &str) -> String {
    format!(
        "  {name}: {{ composite: {{ {rest} steps: [{{ tool_name: {tool}, output_key: k }}] }} }}\n"
    )
}

/// The catalog of the host's own tools and `manifest`'s composites.
fn own_tools(manifest: Manifest) -> Arc<Catalog> {
    let sources = sources(&Arc::new(Engine::new(1, None).unwrap()), &Arc::new(manifest));
    let (engine, manifest) = (Arc::clone(&sources.engine), Arc::clone(&sources.manifest));
    let own = || Own::all(&NativeTools::default(), &manifest, engine.schemas()).unwrap();
    let mut binder = Binder::new(sources, Vec::new(), Vec::new());
    binder.own = own();
    let snapshot = binder.snapshot(&[], &BTreeSet::new());
    let compiled = engine.schemas().compiled();
    own();
    assert_eq!(engine.schemas().compiled(), compiled, "what is in use is not compiled again");
    snapshot.catalog
}

#[tokio::test]
async fn a_composite_over_the_manifest_s_bounds_is_not_served_nor_what_calls_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut manifest = default_manifest(folder.path());
    manifest.catalog = CatalogMode::Search;
    manifest.tools.clear();
    let said = "description: d, input_schema: { type: object },";
    let tower = [("outer", "middle"), ("inner", "find_tool"), ("middle", "inner")];
    let tower: String = tower.map(|(name, tool)| composite(name, tool, said)).concat();
    let text = format!("version: 1\ntools:\n{tower}");
    manifest.governance.read(Path::new("d.yaml"), text.as_bytes()).unwrap();
    manifest.governance.settle(&[]).unwrap();
    let served = |depth_max| {
        let mut manifest = manifest.clone();
        manifest.governance.composites =
            CompositeBounds { depth_max, ..CompositeBounds::default() };
        let catalog = own_tools(manifest);
        let served = ["inner", "middle", "outer"].map(|name| catalog.find(name).is_some());
        (served, catalog.refused.iter().map(|one| one.reason.clone()).collect::<Vec<_>>())
    };
    assert_eq!(served(3), ([true; 3], Vec::new()));
    let (two, refused) = served(2);
    assert_eq!(two, [true, true, false]);
    assert!(refused[0].starts_with("d.yaml:3:"), "{refused:?}");
    assert!(refused[0].contains("nested deeper than 2"), "{refused:?}");
    assert_eq!(served(1).0, [true, false, false]);
}

#[tokio::test]
async fn a_schema_that_several_give_a_tool_holds_once() {
    let folder = tempfile::tempdir().unwrap();
    for (rest, schemas) in [("", 1), ("input_schema: { type: object, minProperties: 1 },", 2)] {
        let folder = folder.path().join(schemas.to_string());
        std::fs::create_dir(&folder).unwrap();
        let mut manifest = default_manifest(&folder);
        manifest.catalog = CatalogMode::Search;
        let document = ToolBinding {
            name: "find-twice".to_owned(),
            sandbox: PROFILE_NONE.to_owned(),
            description: Some("said".to_owned()),
            input_schema: Some(serde_json::json!({"type": "object"})),
            ..ToolBinding::default()
        };
        manifest.tools.push(document);
        let text = format!("version: 1\ntools:\n{}", composite("find-twice", "find_tool", rest));
        manifest.governance.read(Path::new("d.yaml"), text.as_bytes()).unwrap();
        manifest.governance.settle(&manifest.tools.clone()).unwrap();
        let catalog = own_tools(manifest);
        let tool = catalog.find("find-twice").unwrap();
        assert_eq!(tool.input.len(), schemas, "{:?}", catalog.refused);
    }
}

#[tokio::test]
async fn the_schema_of_a_definition_holds_and_is_shown_beside_the_tool_s_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut manifest = default_manifest(folder.path());
    manifest.catalog = CatalogMode::Search;
    let text = "version: 1\ntools: { find_tool: { schema: { properties: { query: { maxLength: 5, format: path } } } } }";
    manifest.governance.read(Path::new("d.yaml"), text.as_bytes()).unwrap();
    let catalog = own_tools(manifest);
    let tool = catalog.find("find_tool").unwrap();
    let shown = &tool.definition.input_schema;
    let query = serde_json::json!({"type": "string", "maxLength": 5, "format": "path"});
    assert_eq!((&shown["properties"]["query"], tool.input.len()), (&query, 2));
    assert_eq!(shown["additionalProperties"], false, "what it says itself is there still");
    assert_eq!(tool.paths.of_call(&serde_json::json!({"query": "a"})).len(), 1);
}

/// Returns why the composite `twice` of a registry is not served under this manifest.
fn refused_of_registry(manifest: Manifest) -> Option<String> {
    let sources = sources(&Arc::new(Engine::new(1, None).unwrap()), &Arc::new(manifest));
    let (manifest, schemas) = (Arc::clone(&sources.manifest), sources.engine.schemas());
    let own = Own::all(&NativeTools::default(), &manifest, schemas).unwrap();
    let said = "description: d, input_schema: { type: object },";
    let text = format!("version: 1\ntools:\n{}", composite("twice", "find_tool", said));
    let mut all = Governance::default();
    all.read(Path::new("the registry"), text.as_bytes()).unwrap();
    let composite = Own::composite(all.composites().next().unwrap(), &manifest, schemas);
    let composites = match composite {
        Ok(composite) => vec![composite],
        Err(reason) => return Some(reason),
    };
    let mut binder = Binder::new(sources, Vec::new(), Vec::new());
    binder.own = own;
    binder.take_released(Some(Arc::new(Served { composites, ..Served::default() })));
    let catalog = binder.snapshot(&[], &BTreeSet::new()).catalog;
    let refused = catalog.refused.iter().find(|one| one.tool.as_deref() == Some("twice"));
    assert_eq!(catalog.find("twice").is_some(), refused.is_none(), "{:?}", catalog.refused);
    refused.map(|one| one.reason.clone())
}

#[tokio::test]
async fn a_composite_of_the_registry_is_held_to_what_the_manifest_says_under_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let mut manifest = default_manifest(folder.path());
    manifest.catalog = CatalogMode::Search;
    let refused = |document: ToolBinding, definition: &str| {
        let (name, sandbox) = ("twice".to_owned(), PROFILE_NONE.to_owned());
        let mut manifest = manifest.clone();
        manifest.tools.push(ToolBinding { name, sandbox, ..document });
        let text = format!("version: 1\ntools: {{ twice: {{ {definition} }} }}");
        manifest.governance.read(Path::new("d.yaml"), text.as_bytes()).unwrap();
        refused_of_registry(manifest)
    };
    let skill = |tool: &str| {
        let (name, tools) = ("s".to_owned(), vec![tool.to_owned()]);
        let skill = Some(SkillTerms { name, tools, ..SkillTerms::default() });
        ToolBinding { skill, ..ToolBinding::default() }
    };
    let endpoint = McpEndpoint::parse("https://far.test/mcp").unwrap();
    let mcp = Some(McpSource { endpoint, tool: None, sandbox_is_stated: true });
    let bridged = ToolBinding { mcp, ..ToolBinding::default() };
    assert_eq!(refused(skill("find-tool"), ""), None);
    for (document, definition, expected) in [
        (skill("read-file"), "", "the skill `s` does not require `find_tool`"),
        (bridged, "", "the manifest has it from `https://far.test/mcp`"),
        (ToolBinding::default(), "network_policy: { mode: none }", "would not hold"),
    ] {
        let reason = refused(document, definition).unwrap();
        assert!(reason.contains(expected), "{reason}");
    }
}
