//! Quarantine over a store of its own, with a clock that the test moves.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use serde_json::json;

use super::*;
use crate::audit::Terms;
use crate::state::DATABASE_FILE;

const HOUR_MS: i64 = 3_600_000;
const KILLS: u32 = 300;
/// Tells the child where to keep what it learns.
const FOLDER: &str = "CLAWHOST_TEST_QUARANTINE_FOLDER";
const CHILD: &str = "quarantine::tests::a_child_fails_until_it_is_killed";

/// A quarantine, and the time there.
struct Ward {
    quarantine: Quarantine,
    now: Arc<AtomicI64>,
    immune: ImmuneSettings,
    threshold: Option<u32>,
    folder: tempfile::TempDir,
}

impl Ward {
    async fn new() -> Self {
        Self::on(Database::in_memory(&[("quarantine", MIGRATIONS)]).unwrap()).await
    }

    async fn on(database: Database) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let dir = Dir::open_ambient_dir(folder.path(), ambient_authority()).unwrap();
        let audit = Arc::new(AuditLog::open(&dir, Terms::default()).unwrap());
        let now = Arc::new(AtomicI64::new(1_000_000));
        let quarantine = Quarantine::open(database, audit, Clock::of(&now)).await.unwrap();
        Self { quarantine, now, immune: ImmuneSettings::default(), threshold: Some(3), folder }
    }

    fn wait(&self, ms: i64) {
        self.now.fetch_add(ms, Ordering::SeqCst);
    }

    async fn fails(&self, message: &str, is_trial: bool) -> Lesson {
        self.fails_for("a", message, is_trial).await
    }

    async fn fails_for(&self, principal: &str, message: &str, is_trial: bool) -> Lesson {
        let anomaly = Anomaly { code: "trap", message: message.to_owned() };
        let failure = Failure {
            tool: "t",
            principal,
            threshold: self.threshold,
            anomaly: &anomaly,
            arguments: &json!({"a": 1}),
            is_trial,
        };
        self.quarantine.learn(failure, &self.immune).await.unwrap()
    }

    async fn enter(&self) -> Result<Option<Trial>, CallError> {
        self.quarantine.enter("t", "a", &self.immune)
    }

    async fn is_open(&self) -> bool {
        matches!(self.enter().await, Ok(None))
    }

    /// Fails the trial that is due.
    async fn fails_its_trial(&self) {
        let trial = self.enter().await.unwrap().unwrap();
        self.fails("it crashed", true).await;
        drop(trial);
    }

    fn events(&self) -> Vec<String> {
        let dir = Dir::open_ambient_dir(self.folder.path(), ambient_authority()).unwrap();
        let records = crate::audit::records(&dir).unwrap().into_iter().skip(1);
        records.map(|record| record["event"].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test]
async fn three_failures_of_one_kind_put_a_tool_to_rest_and_three_kinds_do_not() {
    let ward = Ward::new().await;
    for message in ["it crashed", "it burst", "it froze", "it crashed", "it burst"] {
        ward.fails(message, false).await;
        assert!(ward.is_open().await, "{message}");
    }
    ward.fails("it crashed", false).await;
    let refused = ward.enter().await.unwrap_err();
    assert_eq!((refused.kind.code(), &refused.data["stage"]), (-32011, &"quarantine".into()));
    assert!(refused.message.contains("1970-01-01T01:16:40.000Z"), "{refused}");
    assert_eq!(ward.events(), ["tool.quarantined"]);
    let seen = ward.quarantine.anomalies().await.unwrap();
    let times =
        seen.iter().map(|seen| (seen.message.as_str(), seen.times)).collect::<BTreeMap<_, _>>();
    assert_eq!(times, BTreeMap::from([("it burst", 2), ("it crashed", 3), ("it froze", 1)]));
}

#[tokio::test]
async fn a_clock_that_is_set_back_keeps_no_tool_at_rest_for_longer_than_its_time() {
    let ward = Ward::new().await;
    for _ in 0..3 {
        ward.fails("it crashed", false).await;
    }
    let rests = || ward.quarantine.rests("t", "a", &ward.immune);
    assert!(rests());
    ward.wait(-1);
    assert!(!rests());
    ward.fails_its_trial().await;
    assert!(rests() && ward.enter().await.is_err(), "from now on");
}

#[tokio::test]
async fn after_its_time_one_call_tries_and_the_others_wait_for_it() {
    let ward = Ward::new().await;
    for _ in 0..3 {
        ward.fails("it crashed", false).await;
    }
    ward.wait(HOUR_MS - 1);
    let rests = |principal| ward.quarantine.rests("t", principal, &ward.immune);
    assert!(ward.enter().await.is_err() && rests("a") && !rests("b"));
    ward.wait(1);
    assert!(!rests("a"), "a call may try");
    let trial = ward.enter().await.unwrap().unwrap();
    assert!(ward.enter().await.is_err(), "one at a time");
    drop(trial);
    let trial = ward.enter().await.unwrap().unwrap();
    ward.quarantine.passed(trial).await;
    assert!(ward.is_open().await && ward.quarantine.holds().await.unwrap().is_empty());
    ward.fails("it crashed", false).await;
    assert!(ward.is_open().await, "failures are counted anew");
}

#[tokio::test]
async fn each_failed_trial_doubles_the_rest_up_to_a_day() {
    let ward = Ward::new().await;
    for _ in 0..3 {
        ward.fails("it crashed", false).await;
    }
    for hours in [1, 2, 4, 8, 16, 24, 24] {
        let hold = ward.quarantine.holds().await.unwrap().remove(0);
        assert_eq!(hold.ttl_ms, hours * HOUR_MS);
        ward.wait(hours * HOUR_MS);
        ward.fails_its_trial().await;
        assert!(ward.enter().await.is_err(), "{hours}");
    }
}

#[tokio::test]
async fn what_somebody_knows_a_cure_for_comes_with_it_and_does_not_count() {
    let ward = Ward::new().await;
    let Lesson { signature, procedure } = ward.fails("it crashed", false).await;
    assert_eq!(procedure, None);
    assert!(ward.quarantine.vaccinate(&signature, "Restart\u{1b} it.", "ada").await.unwrap());
    for _ in 0..5 {
        let lesson = ward.fails("it crashed", false).await;
        assert_eq!(lesson.procedure.as_deref(), Some("Restart\\u{1b} it."));
    }
    assert!(ward.is_open().await);
    assert!(!ward.quarantine.vaccinate("sha256:00", "Wait.", "ada").await.unwrap());
    assert_eq!(ward.events(), ["anomaly.resolved", "anomaly.resolved"]);
}

#[tokio::test]
async fn what_one_caller_makes_a_tool_do_takes_it_from_nobody_else() {
    let ward = Ward::new().await;
    for _ in 0..2 {
        ward.fails("it crashed", false).await;
        ward.fails_for("b", "it crashed", false).await;
    }
    assert!(ward.is_open().await, "four failures, and nobody met three");
    ward.fails_for("b", "it crashed", false).await;
    assert!(ward.quarantine.enter("t", "b", &ward.immune).is_err() && ward.is_open().await);
    ward.wait(HOUR_MS);
    let trial = ward.quarantine.enter("t", "b", &ward.immune).unwrap().unwrap();
    ward.quarantine.passed(trial).await;
    assert!(ward.quarantine.holds().await.unwrap().is_empty());
    // What the other one met counts on.
    for _ in 0..3 {
        ward.fails("it crashed", false).await;
    }
    assert_eq!(ward.quarantine.holds().await.unwrap()[0].principal, "a");
}

#[tokio::test]
async fn what_another_process_writes_counts_once_it_is_read_and_says_who_and_why() {
    let database = Database::in_memory(&[("quarantine", MIGRATIONS)]).unwrap();
    let ward = Ward::on(database.clone()).await;
    let other = Ward::on(database).await;
    for _ in 0..3 {
        ward.fails("it crashed", false).await;
    }
    assert!(ward.enter().await.is_err());
    other.quarantine.reread().await.unwrap();
    assert!(other.enter().await.is_err());
    assert!(other.quarantine.release("t", "ada", Some("mended")).await.unwrap());
    assert!(!other.quarantine.release("t", "ada", None).await.unwrap());
    ward.quarantine.reread().await.unwrap();
    assert!(ward.is_open().await);
    assert_eq!(other.events(), ["tool.released", "tool.released"]);
}

#[tokio::test]
async fn what_was_counted_outlives_the_host() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(DATABASE_FILE);
    let open = || Database::open(&path, &[("quarantine", MIGRATIONS)]).unwrap();
    for _ in 0..3 {
        Ward::on(open()).await.fails("it crashed", false).await;
    }
    assert!(Ward::on(open()).await.enter().await.is_err());
}

#[tokio::test]
async fn it_can_be_switched_off_as_a_whole_and_for_single_tools() {
    let mut ward = Ward::new().await;
    ward.threshold = None;
    for _ in 0..5 {
        ward.fails("it crashed", false).await;
    }
    assert!(ward.is_open().await);
    ward.threshold = Some(1);
    ward.fails("it crashed", false).await;
    assert!(ward.enter().await.is_err());
    ward.immune.enabled = false;
    assert!(ward.is_open().await);
}

#[tokio::test]
async fn what_is_old_is_forgotten_but_for_what_somebody_wrote() {
    let mut ward = Ward::new().await;
    ward.immune.retention = Duration::from_secs(60);
    let Lesson { signature, .. } = ward.fails("it crashed", false).await;
    ward.quarantine.vaccinate(&signature, "Restart it.", "ada").await.unwrap();
    ward.fails("it burst", false).await;
    ward.wait(60_001);
    ward.fails("it froze", false).await;
    let left = ward.quarantine.anomalies().await.unwrap();
    let left: Vec<&str> = left.iter().map(|seen| seen.message.as_str()).collect();
    assert_eq!(left, ["it froze", "it crashed"]);
}

fn kept(folder: &Path) -> Database {
    Database::open(&folder.join(DATABASE_FILE), &[("quarantine", MIGRATIONS)]).unwrap()
}

/// Not a test of its own: the process that the test below starts and kills.
#[tokio::test]
async fn a_child_fails_until_it_is_killed() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let ward = Ward { threshold: Some(2), ..Ward::on(kept(Path::new(&folder))).await };
    loop {
        let line = match ward.enter().await {
            Ok(_) => {
                ward.fails("boom", false).await;
                "failed\n"
            }
            Err(_) => {
                ward.quarantine.release("t", "test", None).await.unwrap();
                "released\n"
            }
        };
        // One write a line: a kill leaves no half of one.
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
}

#[tokio::test]
async fn what_was_counted_outlives_kill_9_and_stays_in_step() {
    let folder = tempfile::tempdir().unwrap();
    let mut failed = 0;
    for round in 0..KILLS {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", CHILD, "--nocapture"])
            .env(FOLDER, folder.path())
            .env("TMPDIR", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let mut take = |line: String| failed += i64::from(line == "failed");
        (0..=round % 7).for_each(|_| take(lines.next().unwrap().unwrap()));
        // At another moment of the next one each time.
        (0..(round % 16) * 10_000).for_each(|_| std::hint::spin_loop());
        child.kill().unwrap();
        lines.for_each(|line| take(line.unwrap()));
        child.wait().unwrap();
    }
    let ward = Ward::on(kept(folder.path())).await;
    let times = ward.quarantine.anomalies().await.unwrap()[0].times;
    // The one that was under way when a child was killed may be there too.
    assert!((failed..=failed + i64::from(KILLS)).contains(&times), "{failed} {times}");
    let read = |db: &mut Connection| {
        db.query_row("SELECT recent FROM anomalies", (), |row| row.get::<_, String>(0))
    };
    let recent: Value =
        serde_json::from_str(&ward.quarantine.database.run(read).await.unwrap()).unwrap();
    let counted = recent["a"].as_array().map_or(0, Vec::len);
    let rests = ward.quarantine.holds().await.unwrap().len();
    assert_eq!(rests == 1, counted == 2, "{rests} {recent}");
}
