//! What is compiled once, and what a PostgreSQL has to prove before it is told anything.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use clawhost_core::manifest::{self, PinMode, Surroundings};
use rustls::RootCertStore;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::postgres::Postgres;
use super::{MIGRATIONS, ReleaseError, Releases, gather};
use crate::attack::Guest;
use crate::engine::{CodeCache, Engine};
use crate::registry::{
    DEFAULT_MANIFEST, MIGRATIONS as PINS, Patience, Pins, Shelf, Sources, Watcher, open,
};
use crate::sandbox::Backends;
use crate::state::Database;
use crate::upstream::http::TrustedRoots;
use crate::upstream::http::tests::tls;

const NEVER: Duration = Duration::from_secs(30);

async fn seed(releases: &Releases, tokens: u32) {
    let folder = tempfile::tempdir().unwrap();
    let answer =
        Guest::parse("greet", ";;; call\n(return (call $answer (i32.const 0) (i32.const 0)))");
    std::fs::write(folder.path().join("greet.wat"), answer.wat()).unwrap();
    let document = "{claw: '0.3.0', kind: Tool, metadata: {name: greet}, spec: {description: d, input_schema: {type: object, maxProperties: 7}}}";
    std::fs::write(folder.path().join("greet.yaml"), document).unwrap();
    let said = format!("version: 1\ntools: {{greet: {{cost_hint: {{tokens: {tokens}}}}}}}");
    std::fs::write(folder.path().join("said.yaml"), said).unwrap();
    let seed =
        gather(&[folder.path().to_owned()], Arc::new(Engine::new(1, None).unwrap())).await.unwrap();
    releases.seed(&seed.release, seed.components, "test").await.unwrap();
}

/// Serves the pinned version as a host does when it starts, and when it reloads.
async fn serve(
    engine: &Arc<Engine>,
    releases: &Releases,
    database: &Database,
) -> (Arc<Shelf>, Watcher, watch::Sender<i64>) {
    let (tell, touched) = watch::channel(0);
    let profiles = manifest::builtin_profiles(Path::new("/")).unwrap();
    let around = Surroundings { directory: Path::new("/"), profiles: &profiles };
    let claw = manifest::OneDocument(DEFAULT_MANIFEST.as_bytes().to_vec());
    let mut manifest = manifest::load(&claw, &["claw.yaml".into()], around).unwrap();
    manifest.tools.clear();
    let sources = Sources {
        engine: Arc::clone(engine),
        manifest: Arc::new(manifest),
        backends: Backends::none(),
        replaceable: BTreeSet::new(),
        pins: Pins::new(database.clone(), None, PinMode::default()),
        releases: Some(releases.clone()),
        touched,
    };
    let shelf = Arc::new(Shelf::default());
    let watcher = open(sources, Vec::new(), None, Patience::default(), Arc::clone(&shelf)).await;
    (shelf, watcher.unwrap().unwrap(), tell)
}

#[tokio::test]
async fn a_schema_is_compiled_once_whatever_is_published_and_however_often() {
    let database = Database::in_memory(&[("registry", MIGRATIONS), ("pins", PINS)]).unwrap();
    let releases = Releases::embedded(database.clone(), "default");
    seed(&releases, 1).await;
    seed(&releases, 2).await;
    releases.pin(1, "test").await.unwrap();
    let engine = Arc::new(Engine::new(1, None).unwrap());
    let (shelf, _watcher, tell) = serve(&engine, &releases, &database).await;
    let compiled = engine.schemas().compiled();
    assert_eq!(shelf.catalog().find("greet").unwrap().input.len(), 2);
    assert!(compiled >= 2, "the component's and the document's");

    let (again, _watcher, _) = serve(&engine, &releases, &database).await;
    assert_eq!(again.catalog().release, Some(1));
    let mut versions = shelf.versions();
    versions.mark_unchanged();
    releases.pin(2, "test").await.unwrap();
    tell.send_replace(1);
    tokio::time::timeout(NEVER, versions.changed()).await.unwrap().unwrap();
    assert_eq!(shelf.catalog().release, Some(2));
    assert_eq!(engine.schemas().compiled(), compiled);
}

#[tokio::test]
async fn what_was_verified_outlives_a_reload_while_the_store_cannot_be_asked() {
    let database = Database::in_memory(&[("registry", MIGRATIONS), ("pins", PINS)]).unwrap();
    let releases = Releases::embedded(database.clone(), "default");
    seed(&releases, 1).await;
    releases.pin(1, "test").await.unwrap();
    let engine = Arc::new(Engine::new(1, None).unwrap());
    serve(&engine, &releases, &database).await;
    let gone = "ALTER TABLE registry_pins RENAME TO elsewhere";
    database.run(move |db| db.execute_batch(gone)).await.unwrap();
    let (again, _watcher, _) = serve(&engine, &releases, &database).await;
    let catalog = again.catalog();
    assert!(catalog.release == Some(1) && catalog.find("greet").is_some());
    let told = &catalog.refused[0].reason;
    assert!(told.contains("version 1 stays in service"), "{told}");
    // One that starts now has verified nothing.
    let other = Releases::embedded(database.clone(), "default");
    let (new, _watcher, _) = serve(&engine, &other, &database).await;
    assert!(new.catalog().find("greet").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_is_in_the_cache_is_served_without_its_code() {
    let database = Database::in_memory(&[("registry", MIGRATIONS), ("pins", PINS)]).unwrap();
    let releases = Releases::embedded(database.clone(), "default");
    seed(&releases, 1).await;
    releases.pin(1, "test").await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    for is_known in [false, true] {
        let cache = CodeCache::open(folder.path(), [7; 32]).unwrap();
        let engine = Arc::new(Engine::new(1, Some(cache)).unwrap());
        let releases = Releases::embedded(database.clone(), "default");
        let (_shelf, _watcher, _tell) = serve(&engine, &releases, &database).await;
        let verified = releases.verified.lock().clone().unwrap();
        let loaded = verified.components.values().next().unwrap().0.clone().unwrap();
        assert!(loaded.code_at_hand().is_none());
        if is_known {
            for entry in std::fs::read_dir(folder.path()).unwrap() {
                std::fs::remove_file(entry.unwrap().path()).unwrap();
            }
        }
        // Compiled anew, from what the registry has.
        assert!(loaded.code().await.is_ok());
    }
}

#[tokio::test]
async fn what_is_no_version_or_too_long_to_be_one_is_said() {
    let database = Database::in_memory(&[("registry", MIGRATIONS)]).unwrap();
    let releases = Releases::embedded(database.clone(), "default");
    seed(&releases, 1).await;
    releases.pin(1, "test").await.unwrap();
    assert_eq!(releases.verify().await, Ok(Vec::new()));
    let edit = |sql: &'static str| database.run(move |db| db.execute_batch(sql));
    edit("UPDATE registry_pins SET version = -1").await.unwrap();
    assert!(matches!(releases.pinned().await, Err(ReleaseError::Broken { .. })));
    let doubts = releases.verify().await.unwrap();
    assert!(matches!(doubts.as_slice(), [doubt] if doubt.ends_with("is -1")), "{doubts:?}");

    edit(
        "INSERT INTO tool_registries SELECT name, 2, 'sha256:0', printf('%.*c', 33554433, ' '), 0, '', 1 \
         FROM tool_registries",
    )
    .await
    .unwrap();
    let error = releases.get(2).await.unwrap_err().to_string();
    assert!(error.ends_with("its definitions are over 33554432 bytes"), "{error}");
}

/// Is a PostgreSQL as far as its first encrypted message, which it returns; nothing where none came.
async fn first_message(listener: &TcpListener, tls: &tokio_rustls::TlsAcceptor) -> Vec<u8> {
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut asked = [0; 8];
    stream.read_exact(&mut asked).await.unwrap();
    assert_eq!(asked, [0, 0, 0, 8, 4, 210, 22, 47], "it asks for TLS and says nothing else");
    stream.write_all(b"S").await.unwrap();
    let mut message = vec![0; 512];
    let read = match tls.accept(stream).await {
        Ok(mut stream) => stream.read(&mut message).await.unwrap_or(0),
        Err(_) => 0,
    };
    message.truncate(read);
    message
}

#[tokio::test]
async fn a_postgres_has_to_prove_its_name_before_it_is_told_a_user() {
    let pair = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = params.self_signed(&pair).unwrap();
    let (acceptor, _) = tls(&certificate, &pair);
    let pem = base64::engine::general_purpose::STANDARD.encode(certificate.der());
    let pem = format!("-----BEGIN CERTIFICATE-----\n{pem}\n-----END CERTIFICATE-----\n");
    let roots = TrustedRoots::read(pem.as_bytes()).unwrap();
    assert!(TrustedRoots::read(b"no certificate").is_err());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for (host, roots, is_told) in [
        ("localhost", roots.clone(), true),
        ("127.0.0.1", roots, false),
        ("localhost", TrustedRoots::Only(RootCertStore::empty()), false),
    ] {
        let url = format!("postgres://somebody@{host}:{port}/db?sslmode=require");
        let postgres = Postgres::new(&url, Some("hunter2"), &roots).unwrap();
        let statement = [("SELECT 1", Vec::new())];
        let (answer, told) =
            tokio::join!(postgres.run(&statement), first_message(&listener, &acceptor));
        assert!(!answer.unwrap_err().contains("hunter2"));
        let has_user = told.windows(8).any(|part| part == b"somebody");
        assert_eq!((has_user, !told.is_empty()), (is_told, is_told), "{host}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_postgres_that_takes_connections_and_says_nothing_is_given_up_soon() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("postgres://somebody@{}/db", listener.local_addr().unwrap());
    let postgres = Postgres::new(&url, None, &TrustedRoots::Mozilla).unwrap();
    let started = tokio::time::Instant::now();
    assert!(postgres.run(&[("SELECT 1", Vec::new())]).await.is_err());
    let most = Duration::from_millis(clawhost_core::limits::EGRESS_CONNECT_MS) * 2;
    assert!(started.elapsed() < most, "{:?}", started.elapsed());
}
