//! Where copies are, and that the chain waits for none of them.

use std::collections::BTreeSet;
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use clawhost_core::limits::AUDIT_COPY_QUEUE_MAX;
use clawhost_core::manifest::AuditSettings;
use clawhost_core::policy::Destination;
use serde_json::Value;
use tokio::net::{TcpListener, UnixDatagram};

use super::{MIGRATIONS, start};
use crate::audit::{AuditLog, Event, Facts, Terms, Trust, records, verify};
use crate::state::Database;
use crate::upstream::http::HttpClient;

const PATIENCE: Duration = Duration::from_secs(20);

struct Place {
    folder: tempfile::TempDir,
    dir: Dir,
    database: Database,
}

fn place() -> Place {
    let folder = tempfile::tempdir().unwrap();
    let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
    let database = Database::in_memory(&[("audit", MIGRATIONS)]).unwrap();
    Place { folder, dir, database }
}

fn log(place: &Place, to: Destination, places: &AuditSettings) -> AuditLog {
    let destinations = BTreeSet::from([Destination::File, to]);
    let copies = start(&destinations, places, &HttpClient::system(), &place.database).unwrap();
    AuditLog::open(&place.dir, Terms { copies, ..Terms::default() }).unwrap()
}

#[tokio::test]
async fn the_store_has_every_record_as_the_chain_has_it() {
    let place = place();
    let log = log(&place, Destination::Sqlite, &AuditSettings::default());
    (0..100).for_each(|_| log.append(Event::Received, &Facts::default()).unwrap());
    log.flush(PATIENCE).await;
    let read = |db: &mut rusqlite::Connection| {
        let mut rows = db.prepare("SELECT record FROM audit_records ORDER BY id")?;
        let texts = rows.query_map((), |row| row.get::<_, String>(0))?;
        texts.collect::<rusqlite::Result<Vec<String>>>()
    };
    let texts = place.database.run(read).await.unwrap();
    let copied: Vec<Value> = texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
    assert_eq!(copied, records(&place.dir).unwrap());
}

#[tokio::test]
async fn the_system_s_log_is_told_each_record_as_a_message() {
    let place = place();
    let socket = place.folder.path().join("log");
    let system = UnixDatagram::bind(&socket).unwrap();
    let places = AuditSettings { syslog: Some(socket), ..AuditSettings::default() };
    let log = log(&place, Destination::Syslog, &places);
    log.flush(PATIENCE).await;
    let mut bytes = [0; 4_096];
    let length = system.recv(&mut bytes).await.unwrap();
    let text = std::str::from_utf8(&bytes[..length]).unwrap();
    assert!(text.starts_with("<86>1 2") && text.contains(" chain.opened - {"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_dead_webhook_loses_nothing_but_its_own_and_the_chain_says_how_much() {
    let place = place();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    drop(listener);
    let places = AuditSettings { webhook: Some(url), ..AuditSettings::default() };
    let log = log(&place, Destination::Webhook, &places);
    (0..10).for_each(|_| log.append(Event::Received, &Facts::default()).unwrap());
    log.flush(Duration::from_secs(3_600)).await;
    drop(log);
    let records = records(&place.dir).unwrap();
    let received = records.iter().filter(|record| record["event"] == "call.received").count();
    let last = records.last().unwrap();
    assert_eq!((received, &last["copy"], &last["missing"]), (10, &"webhook".into(), &11.into()));
    assert!(verify(&place.dir, &Trust::default()).unwrap()[0].broken.is_none());
}

#[tokio::test]
async fn a_copy_that_has_no_room_loses_records_and_the_chain_says_how_many() {
    let place = place();
    let log = log(&place, Destination::Sqlite, &AuditSettings::default());
    // Nobody takes them away yet: the chain's first record waits, and all but five of these.
    for _ in 0..AUDIT_COPY_QUEUE_MAX + 4 {
        log.append(Event::Received, &Facts::default()).unwrap();
    }
    log.flush(PATIENCE).await;
    log.append(Event::Finished, &Facts::default()).unwrap();
    let last = records(&place.dir).unwrap().pop().unwrap();
    assert_eq!((&last["event"], &last["missing"]), (&"copy.incomplete".into(), &5.into()));
    assert!(verify(&place.dir, &Trust::default()).unwrap()[0].broken.is_none());
}
