//! One copy at work: batches, tries again for a while, then counts what is missing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clawhost_core::limits::{
    AUDIT_COPY_BATCH_MAX, AUDIT_COPY_MS, AUDIT_COPY_RETRIES_MAX, AUDIT_COPY_RETRY_MS,
};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::place::Place;
use crate::audit::Line;
use crate::upstream::post::Failure;

/// Works until the log is closed.
pub(super) async fn run(
    name: &'static str,
    place: Place,
    mut lines: mpsc::Receiver<Line>,
    missing: Arc<AtomicU64>,
) {
    let mut batch = Vec::new();
    while lines.recv_many(&mut batch, AUDIT_COPY_BATCH_MAX).await > 0 {
        let (records, flushes) = parted(std::mem::take(&mut batch));
        if !records.is_empty()
            && let Err(failure) = hand_over(&place, &records).await
        {
            missing.fetch_add(records.len() as u64, Ordering::Relaxed);
            tracing::warn!(
                "{} audit records are missing in {name}: {}.",
                records.len(),
                failure.reason
            );
        }
        for done in flushes {
            // Whoever asked may have stopped waiting.
            let _ = done.send(());
        }
    }
}

type Flushes = Vec<oneshot::Sender<()>>;

/// Whoever waits is told a little later than it could be, never earlier.
fn parted(batch: Vec<Line>) -> (Vec<Arc<str>>, Flushes) {
    let (mut records, mut flushes) = (Vec::new(), Vec::new());
    for line in batch {
        match line {
            Line::Flush(done) => flushes.push(done),
            Line::Record(record) => records.push(record),
        }
    }
    (records, flushes)
}

async fn hand_over(place: &Place, records: &[Arc<str>]) -> Result<(), Failure> {
    let time = Duration::from_millis(AUDIT_COPY_MS);
    let mut pause = Duration::from_millis(AUDIT_COPY_RETRY_MS);
    let mut tries = 0;
    loop {
        let taken = timeout(time, place.take(records)).await;
        let failure = match taken.unwrap_or_else(|_| Err(Failure::passing("it takes too long"))) {
            Ok(()) => return Ok(()),
            Err(failure) => failure,
        };
        if failure.is_final || tries >= AUDIT_COPY_RETRIES_MAX {
            return Err(failure);
        }
        tries += 1;
        sleep(pause.max(failure.retry_after.unwrap_or_default()).min(time)).await;
        pause *= 2;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::time::Duration;

    use cap_std::ambient_authority;
    use cap_std::fs::Dir;
    use clawhost_core::policy::Destination;
    use serde_json::{Map, Value};
    use tokio::net::{TcpListener, UnixDatagram};

    use super::super::{ForwardError, ForwardPlaces, MIGRATIONS, start};
    use crate::audit::{AuditLog, Event, records, verify};
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

    fn log(place: &Place, to: Destination, places: &ForwardPlaces) -> AuditLog {
        let destinations = BTreeSet::from([Destination::File, to]);
        let copies = start(&destinations, places, &HttpClient::system(), &place.database).unwrap();
        AuditLog::open_with(&place.dir, None, copies).unwrap()
    }

    #[tokio::test]
    async fn the_store_has_every_record_as_the_chain_has_it() {
        let place = place();
        let log = log(&place, Destination::Sqlite, &ForwardPlaces::default());
        (0..100).for_each(|_| log.append(Event::Received, Map::new()).unwrap());
        log.flush_copies(PATIENCE).await;
        let read = |db: &mut rusqlite::Connection| {
            let mut rows = db.prepare("SELECT record FROM audit_records ORDER BY id")?;
            let texts = rows.query_map((), |row| row.get::<_, String>(0))?;
            texts.collect::<rusqlite::Result<Vec<String>>>()
        };
        let texts = place.database.run(read).await.unwrap();
        let copied: Vec<Value> =
            texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
        assert_eq!(copied, records(&place.dir).unwrap());
    }

    #[tokio::test]
    async fn the_system_s_log_is_told_each_record_as_a_message() {
        let place = place();
        let socket = place.folder.path().join("log");
        let system = UnixDatagram::bind(&socket).unwrap();
        let places = ForwardPlaces { syslog: Some(socket), ..ForwardPlaces::default() };
        let log = log(&place, Destination::Syslog, &places);
        log.flush_copies(PATIENCE).await;
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
        let places = ForwardPlaces { webhook: Some(url), ..ForwardPlaces::default() };
        let log = log(&place, Destination::Webhook, &places);
        (0..10).for_each(|_| log.append(Event::Received, Map::new()).unwrap());
        log.flush_copies(Duration::from_secs(3_600)).await;
        drop(log);
        let records = records(&place.dir).unwrap();
        let received = records.iter().filter(|record| record["event"] == "call.received").count();
        let last = records.last().unwrap();
        assert_eq!(
            (received, &last["copy"], &last["missing"]),
            (10, &"webhook".into(), &11.into())
        );
        assert!(verify(&place.dir).unwrap()[0].broken.is_none());
    }

    #[tokio::test]
    async fn a_webhook_without_an_address_is_a_mistake() {
        let place = place();
        let destinations = BTreeSet::from([Destination::Webhook]);
        let client = HttpClient::system();
        let start = |url: Option<&str>| {
            let webhook = url.map(str::to_owned);
            let places = ForwardPlaces { webhook, ..ForwardPlaces::default() };
            start(&destinations, &places, &client, &place.database)
        };
        assert!(matches!(start(None), Err(ForwardError::NoWebhook)));
        assert!(matches!(start(Some("nonsense")), Err(ForwardError::Webhook(_))));
        assert!(start(Some("https://audit.example.com/in")).is_ok());
    }
}
