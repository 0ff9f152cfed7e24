use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use clawhost_core::limits::{
    REPLAY_BYTES_MAX, REPLAY_KEPT_MS, REPLAY_ROWS_MAX, REPLAY_UNKNOWN_KEPT_MS, REPLAY_WINDOW_MS,
};
use serde_json::json;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::*;

const START_MS: i64 = 1_700_000_000_000;

/// A window, a clock that only the test moves, and a count of the work that was done.
struct Window {
    replay: Replay,
    database: Database,
    time: Arc<AtomicI64>,
    runs: Arc<AtomicU32>,
}

impl Window {
    fn new() -> Self {
        Self::over(Database::in_memory(&[("replay", MIGRATIONS)]).unwrap())
    }

    fn over(database: Database) -> Self {
        let time = Arc::new(AtomicI64::new(START_MS));
        let replay = Replay::new(database.clone(), Clock::of(&time));
        Self { replay, database, time, runs: Arc::default() }
    }

    fn pass(&self, ms: i64) {
        self.time.fetch_add(ms, Ordering::SeqCst);
    }

    fn runs(&self) -> u32 {
        self.runs.load(Ordering::SeqCst)
    }

    /// Returns work that counts, and answers with its number.
    fn work(&self) -> impl Future<Output = Answer> + Send + 'static {
        self.ending(|run| Ok(json!(run)))
    }

    fn ending(
        &self,
        end: impl FnOnce(u32) -> Answer + Send + 'static,
    ) -> impl Future<Output = Answer> + Send + 'static {
        let runs = Arc::clone(&self.runs);
        async move { end(runs.fetch_add(1, Ordering::SeqCst)) }
    }

    async fn once(&self, key: Key, digest: &str) -> Answer {
        self.replay.once(key, digest, CancellationToken::new(), self.work()).await
    }

    /// Fills the part of `principal` in the store, as that many answered requests would.
    async fn fill(&self, principal: &str, rows: i64, bytes: i64) {
        let (principal, at_ms) = (principal.to_owned(), self.time.load(Ordering::SeqCst));
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
            INSERT INTO replays SELECT ?1, 'm', 'filler ' || i, 'd', ?3, '{\"result\":0}', ?4 FROM n";
        let filled = self.database.run(move |db| db.execute(sql, (principal, rows, at_ms, bytes)));
        assert_eq!(filled.await.unwrap(), usize::try_from(rows).unwrap());
    }
}

fn key(principal: &str, method: &'static str, id: &str) -> Key {
    Key { principal: principal.to_owned(), method, request_id: id.to_owned() }
}

fn call(id: &str) -> Key {
    key("agent", "claw.tool.call", id)
}

fn kind(answer: Answer) -> ErrorKind {
    answer.unwrap_err().kind
}

#[tokio::test]
async fn the_same_request_is_answered_alike_and_run_once() {
    let window = Window::new();
    for _ in 0..3 {
        assert_eq!(window.once(call("1"), "d").await, Ok(json!(0)));
    }
    assert_eq!(window.runs(), 1);
}

#[tokio::test]
async fn an_error_that_was_decided_is_given_again() {
    let window = Window::new();
    let denied = CallError::new(ErrorKind::ApprovalDenied, "no").with("rule_id", "r").with("n", 1);
    let answer = Err(denied);
    let first = answer.clone();
    let work = window.ending(move |_| first);
    assert_eq!(window.replay.once(call("1"), "d", CancellationToken::new(), work).await, answer);
    assert_eq!(window.once(call("1"), "d").await, answer);
    assert_eq!(window.runs(), 1);
}

#[tokio::test]
async fn a_request_that_found_no_room_may_be_tried_again() {
    let no_room = |stage| CallError::new(ErrorKind::Overloaded, "full").with("stage", stage);
    let stages = ["approval", "pool", "queue", "quota", "replay"].map(no_room);
    let store = CallError::new(ErrorKind::MemoryBackend, "full");
    for passing in stages.into_iter().chain([store]) {
        let window = Window::new();
        let answer = Err(passing);
        let first = answer.clone();
        let work = window.ending(move |_| first);
        assert_eq!(
            window.replay.once(call("1"), "d", CancellationToken::new(), work).await,
            answer
        );
        assert_eq!(window.once(call("1"), "d").await, Ok(json!(1)));
    }
}

#[tokio::test]
async fn a_tool_that_ran_until_its_provider_had_no_room_is_not_run_again() {
    // As `core::quota` refuses a tool that asks for more than its caps, and whoever says no stage.
    let full = CallError::new(ErrorKind::Overloaded, "full");
    // And whoever was tried before, or had a step that was done.
    let no_room = full.clone().with("stage", "quota");
    let again = no_room.clone().with("attempts", 2);
    let step = no_room.with("step", 2);
    let store = CallError::new(ErrorKind::MemoryBackend, "full").with("step", 2);
    for error in [full.clone().with("stage", "provider"), full, again, step, store] {
        let window = Window::new();
        let answer = Err(error);
        let first = answer.clone();
        let work = window.ending(move |_| first);
        assert_eq!(
            window.replay.once(call("1"), "d", CancellationToken::new(), work).await,
            answer
        );
        assert_eq!(window.once(call("1"), "d").await, answer);
        assert_eq!(window.runs(), 1);
    }
}

#[tokio::test]
async fn other_parameters_under_the_same_id_are_refused_whether_it_runs_or_ran() {
    let window = Window::new();
    let (end, ended) = oneshot::channel::<()>();
    let replay = window.replay.clone();
    let work = async move { ended.await.map(|()| Value::Null).map_err(|_| unknown()) };
    let first =
        tokio::spawn(
            async move { replay.once(call("1"), "d", CancellationToken::new(), work).await },
        );
    while window.replay.0.running.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(kind(window.once(call("1"), "other").await), ErrorKind::InvalidArguments);
    end.send(()).unwrap();
    first.await.unwrap().unwrap();
    assert_eq!(kind(window.once(call("1"), "other").await), ErrorKind::InvalidArguments);
    assert_eq!(window.runs(), 0);
}

#[tokio::test]
async fn principals_and_methods_have_ids_of_their_own() {
    let window = Window::new();
    let keys =
        [call("1"), key("other", "claw.tool.call", "1"), key("agent", "claw.memory.store", "1")];
    for (run, key) in keys.into_iter().enumerate() {
        assert_eq!(window.once(key, "d").await, Ok(json!(run)));
    }
}

#[tokio::test]
async fn a_second_caller_joins_and_is_answered_though_the_first_is_gone() {
    let window = Window::new();
    let (end, ended) = oneshot::channel::<()>();
    let count = window.work();
    let work = async move {
        ended.await.unwrap();
        count.await
    };
    let mut first = Box::pin(window.replay.once(call("1"), "d", CancellationToken::new(), work));
    assert!(futures_util::poll!(&mut first).is_pending());
    let mut second = Box::pin(window.once(call("1"), "d"));
    assert!(futures_util::poll!(&mut second).is_pending());
    drop(first);
    end.send(()).unwrap();
    assert_eq!(second.await, Ok(json!(0)));
    assert_eq!(window.once(call("1"), "d").await, Ok(json!(0)));
    assert_eq!(window.runs(), 1);
}

#[tokio::test]
async fn work_goes_on_though_nobody_waits_and_its_answer_is_kept() {
    let window = Window::new();
    let mut only = Box::pin(window.once(call("1"), "d"));
    assert!(futures_util::poll!(&mut only).is_pending());
    drop(only);
    while !window.replay.0.running.lock().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(window.runs(), 1);
    assert_eq!(window.once(call("1"), "d").await, Ok(json!(0)));
}

#[tokio::test]
async fn a_hundred_callers_at_once_share_one_run() {
    let window = Window::new();
    let callers = (0..100).map(|_| window.once(call("1"), "d"));
    for answer in futures_util::future::join_all(callers).await {
        assert_eq!(answer, Ok(json!(0)));
    }
    assert_eq!(window.runs(), 1);
}

#[tokio::test]
async fn a_restart_keeps_answers_and_never_runs_again_what_was_running() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("db");
    let open = || Database::open(&path, &[("replay", MIGRATIONS)]).unwrap();
    let window = Window::over(open());
    window.once(call("answered"), "d").await.unwrap();
    // The host dies while this one runs: nothing of it is written any more.
    let died = window.replay.0.claim(&call("running"), "d".to_owned()).await.unwrap();
    assert!(matches!(died, Known::New));
    drop(window);

    let window = Window::over(open());
    assert_eq!(window.once(call("answered"), "d").await, Ok(json!(0)));
    let error = window.once(call("running"), "d").await.unwrap_err();
    assert_eq!((error.kind, &*error.message), (ErrorKind::Internal, &*unknown().message));
    assert_eq!(kind(window.once(call("running"), "other").await), ErrorKind::InvalidArguments);
    assert_eq!(window.runs(), 0);
}

#[tokio::test]
async fn work_that_panics_has_an_unknown_outcome_and_is_not_run_again() {
    let window = Window::new();
    let work = window.ending(|_| panic!("a defect"));
    assert_eq!(
        window.replay.once(call("1"), "d", CancellationToken::new(), work).await,
        Err(unknown())
    );
    assert_eq!(window.once(call("1"), "d").await, Err(unknown()));
    assert_eq!(window.runs(), 1);
}

#[tokio::test]
async fn an_answer_is_kept_its_time_and_an_unknown_outcome_longer() {
    let window = Window::new();
    window.once(call("1"), "d").await.unwrap();
    assert!(matches!(window.replay.0.claim(&call("2"), "d".into()).await.unwrap(), Known::New));
    window.pass(REPLAY_KEPT_MS);
    assert_eq!(window.once(call("1"), "d").await, Ok(json!(0)));
    window.pass(1);
    assert_eq!(window.once(call("1"), "d").await, Ok(json!(1)));
    assert_eq!(window.once(call("2"), "d").await, Err(unknown()));
    window.pass(REPLAY_UNKNOWN_KEPT_MS);
    assert_eq!(window.once(call("2"), "d").await, Ok(json!(2)));
}

#[tokio::test]
async fn what_runs_for_longer_than_its_row_is_kept_is_run_once_all_the_same() {
    let window = Window::new();
    let ((begin, begun), (end, ended)) = (oneshot::channel(), oneshot::channel::<()>());
    let (replay, work) = (window.replay.clone(), window.work());
    let slow = async move {
        begin.send(()).unwrap();
        ended.await.unwrap();
        work.await
    };
    let slow = async move { replay.once(call("1"), "d", CancellationToken::new(), slow).await };
    let running = tokio::spawn(slow);
    begun.await.unwrap();
    window.pass(REPLAY_UNKNOWN_KEPT_MS + 1);
    window.once(call("2"), "d").await.unwrap();
    end.send(()).unwrap();
    assert_eq!(running.await.unwrap(), Ok(json!(1)));
    assert_eq!(window.once(call("1"), "d").await, Ok(json!(1)));
    assert_eq!(window.runs(), 2);
}

#[tokio::test]
async fn a_clock_that_went_wrong_keeps_nothing_for_ever() {
    let window = Window::new();
    window.pass(REPLAY_UNKNOWN_KEPT_MS * 2);
    window.once(call("1"), "d").await.unwrap();
    window.pass(-REPLAY_UNKNOWN_KEPT_MS * 2);
    assert_eq!(window.once(call("1"), "d").await, Ok(json!(1)));
}

#[tokio::test]
async fn a_full_part_refuses_what_is_new_and_answers_the_rest() {
    for (rows, bytes, limit) in
        [(REPLAY_ROWS_MAX, 0, "REPLAY_ROWS_MAX"), (1, REPLAY_BYTES_MAX, "REPLAY_BYTES_MAX")]
    {
        let window = Window::new();
        window.fill("agent", rows, bytes).await;
        let error = window.once(call("1"), "d").await.unwrap_err();
        assert_eq!((error.kind, &error.data["limit"]), (ErrorKind::Overloaded, &json!(limit)));
        assert_eq!(window.runs(), 0);
        assert_eq!(window.once(key("agent", "m", "filler 1"), "d").await, Ok(json!(0)));
        assert_eq!(window.once(key("other", "m", "1"), "d").await, Ok(json!(0)));
        // What is promised is over: the oldest make room.
        window.pass(REPLAY_WINDOW_MS + 1);
        assert_eq!(window.once(call("1"), "d").await, Ok(json!(1)));
    }
}

#[tokio::test]
async fn what_is_dropped_and_answered_is_no_longer_counted() {
    let window = Window::new();
    window.fill("agent", 10, 1_000).await;
    window.once(call("1"), "d").await.unwrap();
    window.pass(REPLAY_KEPT_MS + 1);
    window.once(call("2"), "d").await.unwrap();
    let totals = |db: &mut rusqlite::Connection| {
        db.query_row("SELECT count, bytes FROM replay_totals", (), |row| {
            Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?))
        })
    };
    let answer = i64::try_from(r#"{"result":1}"#.len()).unwrap();
    assert_eq!(window.database.run(totals).await.unwrap(), (1, answer));
}

#[tokio::test]
async fn an_answer_that_cannot_be_kept_is_given_and_not_run_again() {
    let window = Window::new();
    let database = window.database.clone();
    let refuse =
        "CREATE TRIGGER refuse BEFORE UPDATE ON replays BEGIN SELECT raise(ABORT, 'full'); END";
    database.run(move |db| db.execute_batch(refuse)).await.unwrap();
    assert_eq!(window.once(call("1"), "d").await, Ok(json!(0)));
    assert_eq!(window.once(call("1"), "d").await, Err(unknown()));
    assert_eq!(window.runs(), 1);
}

#[tokio::test]
async fn without_a_store_nothing_is_run() {
    let window = Window::new();
    window.database.run(|db| db.execute_batch("DROP TABLE replays")).await.unwrap();
    assert_eq!(kind(window.once(call("1"), "d").await), ErrorKind::Internal);
    let store = key("agent", "claw.memory.store", "1");
    assert_eq!(kind(window.once(store, "d").await), ErrorKind::MemoryBackend);
    assert_eq!(window.runs(), 0);
}

#[tokio::test]
async fn what_another_host_runs_is_not_run_here_and_answered_once_it_has_ended() {
    let window = Window::new();
    let other = Window::over(window.database.clone());
    let ((begin, begun), (end, ended)) = (oneshot::channel(), oneshot::channel());
    let work = async move {
        begin.send(()).unwrap();
        Ok(ended.await.unwrap())
    };
    let replay = window.replay.clone();
    let first =
        tokio::spawn(
            async move { replay.once(call("1"), "d", CancellationToken::new(), work).await },
        );
    begun.await.unwrap();
    let told = other.once(call("1"), "d").await.unwrap_err().message;
    assert!(told.contains("another host runs this request"), "{told}");
    end.send(json!("done")).unwrap();
    assert_eq!(first.await.unwrap(), Ok(json!("done")));
    assert_eq!(other.once(call("1"), "d").await, Ok(json!("done")));
    assert_eq!(other.runs(), 0);
}

#[tokio::test]
async fn an_id_without_end_is_refused() {
    let window = Window::new();
    let long = "1".repeat(REPLAY_ID_BYTES_MAX + 1);
    assert_eq!(kind(window.once(call(&long), "d").await), ErrorKind::InvalidArguments);
    assert_eq!(window.runs(), 0);
}

#[tokio::test]
async fn the_work_ends_when_the_last_who_asked_for_it_has_ended() {
    let window = Window::new();
    let asks = [CancellationToken::new(), CancellationToken::new()];
    let mut answers = asks.clone().map(|ended| {
        let work = std::future::pending();
        Box::pin(window.replay.once(call("1"), "d", ended, work))
    });
    let [first, second] = &mut answers;
    assert!(first.as_mut().now_or_never().is_none() && second.as_mut().now_or_never().is_none());
    asks[0].cancel();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(first.as_mut().now_or_never().is_none(), "the second one wants it still");
    asks[1].cancel();
    assert_eq!(second.await, Err(stopped()));
}
