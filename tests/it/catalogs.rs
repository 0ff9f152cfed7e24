//! Versions of the registry: seeded once, never changed, verified wherever they are read, and followed by
//! hosts that run. The same tests for the embedded store and for PostgreSQL.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use clawhost::engine::Engine;
use clawhost::host::MIGRATIONS;
use clawhost::registry::{ReleaseError, ReleasePin, Releases, gather};
use clawhost::state::Database;
use clawhost::upstream::http::TrustedRoots;
use clawhost_core::catalog::ToolDefinition;
use clawhost_core::digest;
use clawhost_core::release::{Release, Released, ReleasedCode};
use clawhost_tests::host::text;
use clawhost_tests::{Cli, Guest, Postgres, TestHost, wait};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_postgres::NoTls;

use crate::cli::PROGRAM;
use crate::drop_in::saying;

/// With those of the quarantine's test these are more than two hundred.
const KILLS_EMBEDDED: u32 = 160;
const KILLS_POSTGRES: u32 = 60;
/// Tells the child where to seed.
const STORE: &str = "CLAWHOST_TEST_CATALOGS_STORE";
const CHILD: &str = "catalogs::a_child_seeds_until_it_is_killed";
const POSTGRES_TABLES: &str = include_str!("../../host/src/registry/releases/postgres.sql");
/// A store of a test's own.
enum Store {
    Embedded(TempDir),
    Postgres(Postgres),
}

impl Store {
    fn embedded() -> Self {
        Self::Embedded(tempfile::tempdir().unwrap())
    }

    /// Returns what [`open`] opens.
    fn place(&self) -> String {
        match self {
            Self::Embedded(folder) => folder.path().join("db").to_str().unwrap().to_owned(),
            Self::Postgres(postgres) => postgres.url(),
        }
    }

    fn releases(&self) -> Releases {
        open(&self.place())
    }

    /// Does what a stranger with the store's own client does.
    async fn sql(&self, text: &str) -> Result<(), String> {
        match self {
            Self::Postgres(postgres) => postgres.sql(text).await,
            Self::Embedded(_) => {
                let (store, text) = (database(&self.place()), text.to_owned());
                let done = store.run(move |db| db.execute_batch(&text)).await;
                done.map_err(|error| error.to_string())
            }
        }
    }

    /// Takes away what keeps hands off, as somebody who owns the store can.
    async fn unlock(&self) {
        let text = match self {
            Self::Embedded(_) => {
                "DROP TRIGGER tool_registries_update; DROP TRIGGER registry_components_update; \
                 DROP TRIGGER tool_registries_delete"
            }
            Self::Postgres(_) => {
                "ALTER TABLE tool_registries DISABLE TRIGGER ALL; \
                 ALTER TABLE registry_components DISABLE TRIGGER ALL"
            }
        };
        self.sql(text).await.unwrap();
    }
}

fn database(path: &str) -> Database {
    Database::open(Path::new(path), MIGRATIONS).unwrap()
}

fn open(place: &str) -> Releases {
    match place.starts_with("postgres:") {
        true => Releases::postgres(place, None, &TrustedRoots::Mozilla, "default").unwrap(),
        false => Releases::embedded(database(place), "default"),
    }
}

/// Has each test once for each store.
macro_rules! over_both {
    ($($test:ident)*) => {
        mod embedded {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(super::Store::embedded()).await;
            })*
        }
        mod postgres {
            $(#[cfg_attr(not(postgres), ignore = "SKIPPED: there is no PostgreSQL on this machine")]
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                super::$test(super::Store::Postgres(super::Postgres::start().await)).await;
            })*
        }
    };
}

over_both! {
    the_same_content_is_the_same_version_and_a_changed_byte_a_new_one
    no_statement_changes_a_version
    what_was_edited_by_hand_is_an_error_and_the_version_before_stays_in_service
    a_running_host_follows_the_pin_and_a_running_call_keeps_its_version
    nothing_of_a_version_grants_anything
    what_was_seeded_outlives_kill_9
    who_comes_first_at_once_makes_the_tables_once
}

/// A folder with what is to be seeded.
struct Folder(TempDir);

impl Folder {
    fn greeting(answer: &str) -> Self {
        let own = Self(tempfile::tempdir().unwrap());
        own.write("greet.wat", &saying("greet", answer).wat());
        own
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    async fn seed(&self, releases: &Releases) -> (ReleasePin, bool) {
        self.try_seed(releases).await.unwrap()
    }

    async fn try_seed(&self, releases: &Releases) -> Result<(ReleasePin, bool), ReleaseError> {
        let seed =
            gather(&[self.0.path().to_owned()], Arc::new(Engine::new(1, None).unwrap())).await;
        let seed = seed.unwrap_or_else(|all| panic!("{}", all[0].one_line()));
        releases.seed(&seed.release, seed.components, "test").await
    }
}

fn document(spec: &str) -> String {
    format!(
        "claw: '0.3.0'\nkind: Tool\nmetadata: {{name: greet}}\nspec: {{description: Greets., input_schema: {{type: object}}{spec}}}\n"
    )
}

async fn the_same_content_is_the_same_version_and_a_changed_byte_a_new_one(store: Store) {
    let (releases, folder) = (store.releases(), Folder::greeting("one"));
    folder.write("greet.yaml", &document(""));
    folder.write("said.yaml", "version: 1\ntools: {greet: {cost_hint: {tokens: 5}}}\n");
    let (first, is_new) = folder.seed(&releases).await;
    assert_eq!((first.version, is_new), (1, true));
    assert_eq!(folder.seed(&store.releases()).await, (first.clone(), false));
    folder.write("said.yaml", "version: 1\ntools: {greet: {cost_hint: {tokens: 6}}}\n");
    let (second, is_new) = folder.seed(&releases).await;
    assert_eq!((second.version, is_new), (2, true));
    assert_ne!(first.hash, second.hash);
    folder.write("said.yaml", "version: 1\ntools: {greet: {cost_hint: {tokens: 5}}}\n");
    assert_eq!(folder.seed(&releases).await, (first.clone(), false));

    assert_eq!(releases.numbers().await.unwrap(), [1, 2]);
    let (one, two) = (releases.get(1).await.unwrap(), releases.get(2).await.unwrap());
    assert_eq!((one.hash, one.supersedes, two.supersedes), (first.hash, None, Some(1)));
    assert_eq!(one.created_by, "test");
    let changes = one.release.changes(&two.release);
    assert_eq!(changes, ["- /greet/cost_hint/tokens: 5", "+ /greet/cost_hint/tokens: 6"]);
    assert_eq!(releases.get(3).await, Err(ReleaseError::Unknown(3)));
    assert_eq!(releases.verify().await.unwrap(), Vec::<String>::new());
}

async fn no_statement_changes_a_version(store: Store) {
    let releases = store.releases();
    Folder::greeting("one").seed(&releases).await;
    let before = releases.get(1).await.unwrap();
    let copy = "SELECT name, version, 'x', definition_json, created_at, created_by, supersedes FROM tool_registries";
    let same =
        "SELECT name, 9, hash, '[]', created_at, created_by, supersedes FROM tool_registries";
    let component = "SELECT digest, bytes FROM registry_components";
    let mut statements = vec![
        "UPDATE tool_registries SET created_by = 'x'".to_owned(),
        "UPDATE tool_registries SET definition_json = '[]', hash = 'x'".to_owned(),
        "DELETE FROM tool_registries".to_owned(),
        "UPDATE registry_components SET digest = 'x'".to_owned(),
        "DELETE FROM registry_components".to_owned(),
        format!("INSERT INTO tool_registries {copy}"),
        format!("INSERT INTO tool_registries {same}"),
        format!("INSERT INTO registry_components {component}"),
        format!(
            "INSERT INTO tool_registries {copy} WHERE 1 = 1 ON CONFLICT (name, version) DO UPDATE SET hash = 'x'"
        ),
    ];
    statements.extend(match store {
        Store::Embedded(_) => vec![
            format!("INSERT OR REPLACE INTO tool_registries {copy}"),
            format!("INSERT OR REPLACE INTO tool_registries {same}"),
            format!("REPLACE INTO registry_components {component}"),
            "UPDATE OR REPLACE tool_registries SET version = 2".to_owned(),
        ],
        Store::Postgres(_) => vec![
            "TRUNCATE tool_registries".to_owned(),
            "TRUNCATE registry_components".to_owned(),
            "MERGE INTO tool_registries USING (SELECT 1) AS one ON true WHEN MATCHED THEN DELETE"
                .to_owned(),
        ],
    });
    for statement in statements {
        assert!(store.sql(&statement).await.is_err(), "{statement}");
        assert_eq!(releases.get(1).await.as_ref(), Ok(&before), "{statement}");
    }
    assert_eq!(releases.verify().await.unwrap(), Vec::<String>::new());
}

async fn what_was_edited_by_hand_is_an_error_and_the_version_before_stays_in_service(store: Store) {
    let releases = store.releases();
    let (first, _) = Folder::greeting("one").seed(&releases).await;
    Folder::greeting("two").seed(&releases).await;
    Folder::greeting("three").seed(&releases).await;
    releases.pin(first.version, "test").await.unwrap();
    let host = TestHost::builder().registry(store.releases()).build().await;
    assert_eq!(text(&host.call("greet", json!({})).await.unwrap()), "one");

    store.unlock().await;
    let edit = "UPDATE tool_registries SET definition_json = replace(definition_json, 'read_only', 'read-only') WHERE version = 2";
    store.sql(edit).await.unwrap();
    let three = releases.get(3).await.unwrap();
    let digest = *three.release.components().first().unwrap();
    let bytes = format!(
        "UPDATE registry_components SET bytes = (SELECT bytes FROM registry_components WHERE digest <> '{digest}' LIMIT 1) WHERE digest = '{digest}'"
    );
    store.sql(&bytes).await.unwrap();

    let again = Folder::greeting("three").try_seed(&releases).await;
    assert!(matches!(again, Err(ReleaseError::Broken { version: 3, .. })), "{again:?}");
    let broken = |error: ReleaseError| matches!(error, ReleaseError::Broken { .. });
    assert!(broken(releases.get(2).await.unwrap_err()));
    assert!(broken(releases.pin(2, "test").await.unwrap_err()));
    assert!(broken(releases.pin(3, "test").await.unwrap_err()), "its component is another one");
    let doubts = releases.verify().await.unwrap();
    assert!(doubts.len() == 2 && doubts[0].contains("version 2") && doubts[1].contains(digest));

    for version in [2, 3, 7] {
        let pin = format!(
            "UPDATE registry_pins SET version = {version}, hash = coalesce((SELECT hash FROM tool_registries WHERE version = {version}), 'x')"
        );
        store.sql(&pin).await.unwrap();
        let told = || {
            let refused = host.refused();
            let stays = refused.contains("version 1 stays in service");
            (stays && refused.contains(&format!("version {version} "))
                || refused.contains(&format!("version {version};")))
            .then_some(())
        };
        wait::until(&format!("the refusal of {version}: {}", host.refused()), told).await;
        assert_eq!(text(&host.call("greet", json!({})).await.unwrap()), "one");
    }
    store.sql("UPDATE registry_pins SET version = 1, hash = 'x'").await.unwrap();
    assert!(!releases.verify().await.unwrap().is_empty(), "a pin with another hash");
    let next = TestHost::builder().registry(store.releases()).build().await;
    assert!(!next.names().contains(&"greet".to_owned()), "nothing runs of what cannot be verified");
    assert!(next.refused().contains("is not what was seeded"), "{}", next.refused());
    store.sql("DELETE FROM tool_registries WHERE version = 1").await.unwrap();
    assert!(
        releases.verify().await.unwrap().concat().contains("version 1 of the registry is gone")
    );
}

async fn a_running_host_follows_the_pin_and_a_running_call_keeps_its_version(store: Store) {
    let releases = store.releases();
    let slow =
        ";; imports: clock\n;;; call\n(call $block (call $subscribe (i64.const 1500000000)))";
    let folder = Folder::greeting("one");
    folder.write("slow.wat", &Guest::parse("slow", slow).wat());
    folder.seed(&releases).await;
    let other = Folder::greeting("two");
    other.write("slow.wat", &saying("slow", "another").wat());
    other.seed(&releases).await;

    let host = TestHost::builder().limits("timeout_ms: 20000").registry(store.releases());
    let host = host.build().await;
    assert!(host.refused().contains("no version is pinned"), "{}", host.refused());
    let serving = |version: u64| {
        move |host: &TestHost| (host.host().catalog().release == Some(version)).then_some(())
    };
    releases.pin(1, "test").await.unwrap();
    wait::until("the first version", || serving(1)(&host)).await;
    assert!(!host.refused().contains("registry"), "{}", host.refused());
    assert_eq!(text(&host.call("greet", json!({})).await.unwrap()), "one");
    let task = host.begin("slow", json!({}));
    // After the greeting.
    host.arrived(2).await;

    let mut changes = host.host().catalog_version();
    changes.mark_unchanged();
    releases.pin(2, "test").await.unwrap();
    wait::until("the second version", || serving(2)(&host)).await;
    wait::within("clients are told", changes.changed()).await.unwrap();
    assert_eq!(text(&host.call("greet", json!({})).await.unwrap()), "two");
    let kept = wait::within("the running call", task).await.unwrap().unwrap();
    assert_eq!(text(&kept), "slow");
    let mut versions: Vec<(Value, Value)> = host
        .finished()
        .into_iter()
        .map(|mut record| (record["tool"].take(), record["registry_version"].take()))
        .collect();
    // Where the new version took its time, the slow call ended first.
    versions.sort_by_key(|(tool, version)| format!("{tool} {version}"));
    let expected = [("greet", 1), ("greet", 2), ("slow", 1)];
    assert_eq!(versions, expected.map(|(tool, version)| (json!(tool), json!(version))));
    releases.pin(1, "test").await.unwrap();
    wait::until("the first version again", || serving(1)(&host)).await;
    assert_eq!(text(&host.call("greet", json!({})).await.unwrap()), "one");
    host.check_audit();
}

async fn nothing_of_a_version_grants_anything(store: Store) {
    let (releases, folder) = (store.releases(), Folder::greeting("one"));
    let spec = ", sandbox_ref: workspace, policy_ref: no-such-policy, timeout_ms: 77, annotations: {readOnlyHint: true}";
    folder.write("greet.yaml", &document(spec));
    folder.write("other.wat", &saying("other", "two").wat());
    folder.write("read_file.wat", &saying("read_file", "stolen").wat());
    folder.seed(&releases).await;
    let kept = releases.get(1).await.unwrap().release;
    assert!(!kept.canonical().contains("_ref"), "{}", kept.canonical());
    releases.pin(1, "test").await.unwrap();
    let host = TestHost::builder().only(&["greet", "read-file"]).registry(store.releases());
    let host = host.build().await;
    let catalog = host.host().catalog();
    let profile = |tool: &str| catalog.find(tool).unwrap().grants.profile.clone();
    assert_eq!((profile("greet"), profile("other")), ("sandbox-0".to_owned(), "none".to_owned()));
    let greet = catalog.find("greet").unwrap();
    assert_eq!((greet.timeout(), greet.policy_refs.len()), (Duration::from_millis(77), 0));
    assert_eq!(greet.definition.description, "Greets.");
    assert!(greet.declared.is_empty(), "a version's word relaxes nothing");
    assert!(host.refused().contains("the name is a built-in tool's"), "{}", host.refused());
    let read = host.ask("list_directory", json!({"path": "."}));
    drop(read);
    assert_ne!(catalog.find("read_file").unwrap().origin, greet.origin);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_version_says_of_its_tools_holds_and_its_composites_run() {
    let store = Store::embedded();
    let (releases, folder) = (store.releases(), Folder::greeting("one"));
    let said = |needs: &str| {
        format!(
            "version: 1\ntools:\n  greet: {{contract: {{preconditions: [{{field: args.{needs}, operator: exists}}]}}}}\n  twice:\n    composite:\n      description: Greets.\n      input_schema: {{type: object}}\n      steps: [{{tool_name: greet, arg_mapping: {{name: input.who}}, output_key: first}}, {{tool_name: greet, arg_mapping: {{name: first.value}}, output_key: second}}]\n"
        )
    };
    for needs in ["name", "age"] {
        folder.write("said.yaml", &said(needs));
        folder.seed(&releases).await;
    }
    releases.pin(1, "test").await.unwrap();
    let host = TestHost::builder().registry(store.releases()).build().await;
    let refused = host.call("greet", json!({})).await.unwrap_err();
    assert_eq!(refused.kind.code(), -32602, "{refused:?}");
    assert_eq!(text(&host.call("greet", json!({"name": "a"})).await.unwrap()), "one");
    let twice = host.call("twice", json!({"who": "a"})).await.unwrap();
    assert_eq!(twice.structured.unwrap()["result"], json!({"value": "one"}));
    releases.pin(2, "test").await.unwrap();
    let moved = || (host.host().catalog().release == Some(2)).then_some(());
    wait::until("the second version", moved).await;
    let refused = host.call("greet", json!({"name": "a"})).await.unwrap_err();
    assert_eq!(refused.kind.code(), -32602, "{refused:?}");
    // What the host's own definition files say of a tool stands in the place of all of it.
    let own = TestHost::builder().definitions("version: 1\ntools: {greet: {}}");
    let own = own.registry(store.releases()).build().await;
    assert_eq!(text(&own.call("greet", json!({})).await.unwrap()), "one");
}

/// What a child seeds: another version each time, with a component of its own.
fn sown(round: &str, count: u32) -> (Release, Vec<u8>) {
    let bytes = format!("{round} {count} ").repeat(10_000).into_bytes();
    let definition =
        ToolDefinition::new("sown", format!("{round} {count}"), json!({"type": "object"}));
    let component = digest::of_bytes(&bytes);
    let code = ReleasedCode { definition, component, signature: None, document: None };
    let tool = Released { name: "sown".to_owned(), code: Some(code), said: Default::default() };
    (Release::new(vec![tool]).unwrap(), bytes)
}

/// Not a test of its own: the process that the test below starts and kills.
#[tokio::test]
async fn a_child_seeds_until_it_is_killed() {
    let Ok(place) = std::env::var(STORE) else { return };
    let (place, round) = place.rsplit_once(' ').unwrap();
    let releases = open(place);
    for count in 0.. {
        let (release, bytes) = sown(round, count);
        let (pin, _) = releases.seed(&release, vec![bytes], "test").await.unwrap();
        // One write a line: a kill leaves no half of one.
        let line = format!("{} {}\n", pin.version, pin.hash);
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
}

async fn what_was_seeded_outlives_kill_9(store: Store) {
    let kills = match store {
        Store::Embedded(_) => KILLS_EMBEDDED,
        Store::Postgres(_) => KILLS_POSTGRES,
    };
    let mut acknowledged = Vec::new();
    for round in 0..kills {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", CHILD, "--nocapture"])
            .env(STORE, format!("{} {round}", store.place()))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        for _ in 0..=round % 4 {
            acknowledged.push(lines.next().unwrap().unwrap());
        }
        for _ in 0..(round % 16) * 100_000 {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        acknowledged.extend(lines.map(Result::unwrap));
        child.wait().unwrap();
    }
    let releases = store.releases();
    assert_eq!(releases.verify().await.unwrap(), Vec::<String>::new());
    let there = releases.numbers().await.unwrap().len();
    // The one that was under way when a child was killed may be there too.
    assert!((acknowledged.len()..=acknowledged.len() + kills as usize).contains(&there));
    for line in acknowledged {
        let (version, hash) = line.split_once(' ').unwrap();
        assert_eq!(releases.get(version.parse().unwrap()).await.unwrap().hash, hash);
    }
}

async fn who_comes_first_at_once_makes_the_tables_once(store: Store) {
    let seed = |number: u32| {
        let releases = store.releases();
        tokio::spawn(async move {
            let (release, bytes) = sown("first", number);
            releases.seed(&release, vec![bytes], "test").await
        })
    };
    for seeded in (0..8).map(seed).collect::<Vec<_>>() {
        assert!(seeded.await.unwrap().unwrap().1);
    }
    assert_eq!(store.releases().numbers().await.unwrap(), (1..=8).collect::<Vec<_>>());
}

const CLAW: &str = clawhost_tests::claw!(
    "catalogs",
    "autonomous",
    "  tools: [{name: greet}]\n  policies: [{inline: {name: all, rules: [{id: all, action: allow, scope: all}]}}]\n"
);

fn cli(store: &str) -> Cli {
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", CLAW);
    cli.write("workspace/file", "");
    cli.write("clawhost.yaml", format!("version: 1\nregistry: {{ store: '{store}' }}\ntools: {{ directory: tools }}\ndefinitions: [said.yaml]\n"));
    cli.write("tools/greet.wat", saying("greet", "one").wat());
    cli.write("said.yaml", "version: 1\ntools: {greet: {cost_hint: {tokens: 5}}, read_file: {repair_policy: {max_attempts: 9}}}\n");
    cli
}

fn json_of(cli: &Cli, words: &[&str]) -> Value {
    let run = cli.run(words);
    assert_eq!(run.code, Some(0), "{words:?}: {}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

#[test]
fn a_composite_is_shown_with_what_it_does_and_each_tool_that_it_calls_once() {
    let cli = cli("embedded");
    let steps = "[{tool_name: greet, output_key: a}, {tool_name: greet, output_key: b}]";
    let composite =
        format!("{{description: Greets again., input_schema: {{type: object}}, steps: {steps}}}");
    cli.write("said.yaml", format!("version: 1\ntools: {{twice: {{composite: {composite}}}}}\n"));
    let seeded = cli.run(&["registry", "seed", "tools", "said.yaml"]);
    assert_eq!(seeded.code, Some(0), "{}", seeded.stderr);
    let shown = cli.run(&["registry", "show", "1"]).stdout;
    assert!(shown.contains("Greets again."), "{shown}");
    let served = cli.run(&["tools", "claw.yaml"]).stdout;
    assert!(served.contains("calls greet") && !served.contains("greet, greet"), "{served}");
}

fn verbs(store: &str) {
    let cli = cli(store);
    let seeded = json_of(&cli, &["registry", "seed", "claw.yaml", "--json"]);
    assert_eq!((&seeded["version"], &seeded["new"]), (&json!(1), &json!(true)));
    assert!(digest::is_digest(seeded["hash"].as_str().unwrap()));
    let again = cli.run(&["registry", "seed", "tools", "said.yaml"]);
    assert!(again.stdout.contains("was there already"), "{}", again.stdout);
    assert!(again.stderr.contains("`read-file` comes with the host"), "{}", again.stderr);
    cli.write("tools/greet.wat", saying("greet", "two").wat());
    let second = cli.run(&["registry", "seed", "tools/greet.wat"]);
    assert!(second.stdout.starts_with("version 2: sha256:"), "{}", second.stdout);

    let listed = json_of(&cli, &["registry", "list", "--json"]);
    assert_eq!(
        (listed["versions"].as_array().unwrap().len(), &listed["pinned"]),
        (2, &json!(null))
    );
    let shown = json_of(&cli, &["registry", "show", "1", "--json"]);
    assert_eq!(shown["tools"][0]["cost_hint"], json!({"tokens": 5}));
    assert_eq!(shown["hash"], seeded["hash"]);
    let differ = json_of(&cli, &["registry", "diff", "1", "2", "--json"]);
    assert!(differ["changes"].to_string().contains("/greet/component"), "{differ}");
    assert_eq!(json_of(&cli, &["registry", "pin", "1", "--json"])["version"], 1);
    assert_eq!(json_of(&cli, &["registry", "verify", "--json"])["doubts"], json!([]));
    for words in [["registry", "show", "9"], ["registry", "pin", "9"]] {
        assert_eq!(cli.run(&words).code, Some(2), "{words:?}");
    }

    std::fs::remove_file(cli.here().join("tools/greet.wat")).unwrap();
    std::fs::write(cli.here().join("said.yaml"), "version: 1\ntools: {}\n").unwrap();
    let called = cli.run(&["call", "claw.yaml", "greet"]);
    assert_eq!((called.stdout.trim(), called.code), ("one", Some(0)), "{}", called.stderr);
    assert_eq!(cli.run(&["registry", "pin", "2"]).code, Some(0));
    assert_eq!(cli.run(&["call", "claw.yaml", "greet"]).stdout.trim(), "two");
    let log = cli.log();
    for part in ["registry.seeded", "registry.pinned", "\"registry_version\":2"] {
        assert!(log.contains(part), "{part}");
    }
    for (path, says) in [("nowhere", "nowhere"), ("claw.json", "claw.json")] {
        let refused = cli.run(&["registry", "seed", path]);
        assert!(refused.code == Some(3) && refused.stderr.contains(says), "{}", refused.stderr);
    }
}

#[test]
fn the_verbs_work_on_the_embedded_store() {
    verbs("embedded");
}

#[cfg_attr(not(postgres), ignore = "SKIPPED: there is no PostgreSQL on this machine")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_verbs_work_on_postgres() {
    let postgres = Postgres::start().await;
    let url = postgres.url();
    tokio::task::spawn_blocking(move || verbs(&url)).await.unwrap();
}

#[test]
fn a_password_is_in_no_error() {
    let cli = cli("embedded");
    let url = "postgres://u:hunter2@127.0.0.1:1/db";
    let told = |words: &[&str]| {
        let mut command = cli.command(words);
        let run = command.env("CLAWHOST_REGISTRY_STORE", url).output().unwrap();
        let said = [run.stdout, run.stderr].concat();
        (run.status.code(), String::from_utf8(said).unwrap())
    };
    let (code, said) = told(&["registry", "list"]);
    assert_eq!(code, Some(6), "{said}");
    assert!(said.contains("PostgreSQL") && !said.contains("hunter2"), "{said}");
    let (_, said) = told(&["tools", "claw.yaml"]);
    assert!(said.contains("PostgreSQL") && !said.contains("hunter2"), "{said}");
    assert!(!cli.log().contains("hunter2"));
}

#[cfg_attr(not(postgres), ignore = "SKIPPED: there is no PostgreSQL on this machine")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_is_not_asked_in_the_clear_where_tls_is_wanted() {
    let postgres = Postgres::start().await;
    let url = format!("{}?sslmode=require", postgres.url());
    let releases = Releases::postgres(&url, None, &TrustedRoots::Mozilla, "default").unwrap();
    let error = releases.numbers().await.unwrap_err();
    assert!(error.to_string().contains("TLS"), "{error}");
}

#[cfg_attr(not(postgres), ignore = "SKIPPED: there is no PostgreSQL on this machine")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_comes_while_another_makes_the_tables_touches_none_of_them() {
    let postgres = Postgres::start().await;
    let (other, connection) = tokio_postgres::connect(&postgres.url(), NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    // A host that came before, and seeds.
    let seeds = format!("BEGIN; SELECT pg_advisory_xact_lock(7236832946128); {POSTGRES_TABLES}");
    other.batch_execute(&seeds).await.unwrap();
    let releases = open(&postgres.url());
    let asked = tokio::spawn(async move { releases.numbers().await });
    let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted";
    let is_waiting = async || {
        let count: i64 = other.query_one(waits, &[]).await.unwrap().get(0);
        (count > 0).then_some(())
    };
    wait::until_found("it to wait its turn", is_waiting).await;
    other.batch_execute("COMMIT").await.unwrap();
    assert_eq!(asked.await.unwrap(), Ok(Vec::new()));
    drop(other);
    connection.await.unwrap().unwrap();
}

#[cfg_attr(not(postgres), ignore = "SKIPPED: there is no PostgreSQL on this machine")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_of_another_program_is_told_and_left_alone() {
    let postgres = Postgres::start().await;
    postgres.sql("CREATE TABLE tool_registries (name TEXT, version BIGINT)").await.unwrap();
    let error = open(&postgres.url()).numbers().await.unwrap_err().to_string();
    assert!(error.contains("another program has them"), "{error}");
    postgres.sql("TRUNCATE tool_registries").await.unwrap();
    assert!(postgres.sql("SELECT FROM registry_pins").await.is_err());
}

#[cfg_attr(not(postgres), ignore = "SKIPPED: there is no PostgreSQL on this machine")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_vanishes_keeps_nobody_waiting_for_longer_than_it_would_have_waited() {
    let postgres = Postgres::start().await;
    let releases = open(&postgres.url());
    releases.numbers().await.unwrap();
    // The server itself ends what nobody goes on with, also where its operator wrote otherwise.
    let tells = "ALTER DATABASE postgres SET default_transaction_isolation = 'serializable'; \
        CREATE FUNCTION tells() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
        RAISE EXCEPTION 'within %, %: %', current_setting('statement_timeout'), \
        current_setting('idle_in_transaction_session_timeout'), current_setting('transaction_isolation'); END $$; \
        CREATE TRIGGER tells BEFORE INSERT ON tool_registries FOR EACH ROW EXECUTE FUNCTION tells()";
    postgres.sql(tells).await.unwrap();
    let error = Folder::greeting("one").try_seed(&open(&postgres.url())).await.unwrap_err();
    assert!(error.to_string().ends_with("within 1min, 1min: read committed"), "{error}");
}
