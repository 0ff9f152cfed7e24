//! What the board promises, on a paused clock and a store in memory.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use clawhost_core::error::ErrorKind;
use clawhost_core::lease::Covers;
use clawhost_core::limits::{
    APPROVAL_TIMEOUT_MS, APPROVALS_PENDING_MAX, APPROVALS_PENDING_PER_PRINCIPAL_MAX,
};
use clawhost_core::policy::{ApprovalTerms, RuleRef};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::clock::Clock;
use crate::state::Database;

type Outcome = Result<Approved, clawhost_core::error::CallError>;

fn database() -> Database {
    Database::in_memory(&[("approvals", MIGRATIONS)]).unwrap()
}

/// A board that somebody looks at, and its clock in milliseconds.
fn board_on(database: Database) -> (Approvals, Arc<AtomicI64>, Reachable) {
    let clock = Arc::new(AtomicI64::new(0));
    let approvals = Approvals::new(database, Clock::of(&clock));
    let way = approvals.reach().open();
    (approvals, clock, way)
}

fn board() -> (Approvals, Arc<AtomicI64>, Reachable) {
    board_on(database())
}

fn asked(principal: &str, arguments: Value) -> Question {
    Question {
        call: "1".to_owned(),
        request_id: None,
        principal: principal.to_owned(),
        tool: "write-file".to_owned(),
        tool_digest: "sha256:tool".to_owned(),
        digest: clawhost_core::digest::of_json(&arguments),
        arguments,
        rule: Some(RuleRef { policy: "p".to_owned(), id: "r".to_owned() }),
        reason: "the rule asks".to_owned(),
        terms: ApprovalTerms::default(),
    }
}

/// Asks in a task of its own and returns when the question is on the board, with its id.
async fn posted(approvals: &Approvals, asked: Question) -> (String, JoinHandle<Outcome>) {
    let (waiting, mut ids) = tokio::sync::watch::channel(Vec::new());
    let board = approvals.clone();
    let call = tokio::spawn(async move { board.ask(asked, Some(&waiting)).await });
    let id = ids.wait_for(|open| !open.is_empty()).await.unwrap()[0].clone();
    (id, call)
}

const YES: Answer = Answer::Approve { lease: None };
const NO: Answer = Answer::Deny { reason: None };

fn lease(until: Until, arguments: Covers) -> Answer {
    Answer::Approve { lease: Some(Lease { until, arguments }) }
}

/// A fixed walk through `0..count` that is neither its order nor its reverse.
fn shuffled(count: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |step| (step * 37 + 11) % count)
}

#[tokio::test]
async fn a_hundred_questions_answered_in_any_order_end_once_each() {
    let (approvals, _clock, _way) = board();
    let mut calls = Vec::new();
    for number in 0..100 {
        calls.push(posted(&approvals, asked("a", json!({"number": number}))).await);
    }
    assert_eq!(approvals.pending().len(), 100);
    for number in shuffled(100) {
        let answer = if number % 2 == 0 { YES } else { NO };
        let id = &calls[number].0;
        assert!(approvals.answer(id, None, answer.clone(), &Approver::Operator).await);
        assert!(!approvals.answer(id, None, answer, &Approver::Operator).await, "answered twice");
    }
    let outcomes = join_all(calls.into_iter().map(|(_, call)| call)).await;
    for (number, outcome) in outcomes.into_iter().enumerate() {
        match outcome.unwrap() {
            Ok(approved) => assert_eq!((number % 2, approved.how), (0, How::Operator)),
            Err(error) => assert_eq!((number % 2, error.kind), (1, ErrorKind::ApprovalDenied)),
        }
    }
    assert!(approvals.pending().is_empty());
}

#[tokio::test]
async fn a_call_knows_all_its_questions_until_each_has_ended() {
    let (approvals, _clock, _way) = board();
    let (waiting, mut open) = tokio::sync::watch::channel(Vec::new());
    let asking = ["1", "2", "3"].map(|tool| approvals.ask(asked(tool, json!({})), Some(&waiting)));
    let answering = async {
        let all = open.wait_for(|open| open.len() == 3).await.unwrap().clone();
        assert!(approvals.answer(&all[2], None, YES, &Approver::Operator).await);
        open.wait_for(|open| *open == all[..2]).await.unwrap();
        assert!(approvals.answer(&all[0], None, NO, &Approver::Operator).await);
        open.wait_for(|open| *open == all[1..2]).await.unwrap();
        approvals.close();
    };
    let (outcomes, ()) = tokio::join!(join_all(asking), answering);
    assert_eq!(outcomes.iter().filter(|outcome| outcome.is_ok()).count(), 1);
    assert!(waiting.borrow().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_answer_at_once_one_does() {
    let (approvals, _clock, _way) = board();
    let (id, call) = posted(&approvals, asked("a", json!({}))).await;
    let answers = (0..50).map(|_| {
        let (approvals, id) = (approvals.clone(), id.clone());
        tokio::spawn(async move { approvals.answer(&id, None, YES, &Approver::Operator).await })
    });
    let won = join_all(answers).await.into_iter().filter(|won| *won.as_ref().unwrap()).count();
    assert_eq!(won, 1);
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn closing_answers_every_waiting_call_and_every_later_one() {
    let (approvals, _clock, _way) = board();
    let mut calls = Vec::new();
    for number in 0..200 {
        let principal = format!("agent-{}", number % 2);
        calls.push(posted(&approvals, asked(&principal, json!({}))).await);
    }
    approvals.close();
    for outcome in join_all(calls.into_iter().map(|(_, call)| call)).await {
        let error = outcome.unwrap().unwrap_err();
        assert_eq!(error.kind, ErrorKind::ApprovalDenied);
        assert!(error.message.contains("stopping"), "{error}");
    }
    let late = approvals.ask(asked("a", json!({})), None).await.unwrap_err();
    assert_eq!(late.kind, ErrorKind::ApprovalDenied);
}

#[tokio::test(start_paused = true)]
async fn silence_denies_after_the_host_s_time_unless_the_rule_says_else() {
    let (approvals, _clock, _way) = board();
    let begun = tokio::time::Instant::now();
    let (id, call) = posted(&approvals, asked("a", json!({}))).await;
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::ApprovalTimeout);
    assert_eq!(error.data["rule_id"], "r");
    assert_eq!(begun.elapsed().as_millis(), u128::from(APPROVAL_TIMEOUT_MS));
    assert!(!approvals.answer(&id, None, YES, &Approver::Operator).await, "too late");
    assert!(approvals.pending().is_empty());

    let terms = ApprovalTerms { timeout: Some(Duration::from_secs(2)), allow_on_timeout: true };
    let begun = tokio::time::Instant::now();
    let lax = Question { terms, ..asked("a", json!({})) };
    let approved = approvals.ask(lax, None).await.unwrap();
    assert_eq!((approved.how, begun.elapsed().as_secs()), (How::Silence, 2));
}

#[tokio::test]
async fn where_nobody_can_answer_nobody_waits() {
    let (approvals, _, way) = board();
    drop(way);
    let error = approvals.ask(asked("a", json!({})), None).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Policy);
    assert!(error.message.contains("nobody can be asked"), "{error}");
    let _way = approvals.reach().open_for("a");
    let (_, call) = posted(&approvals, asked("a", json!({}))).await;
    assert!(approvals.ask(asked("b", json!({})), None).await.is_err());
    call.abort();
}

#[tokio::test]
async fn a_withdrawn_call_leaves_no_question() {
    let (approvals, _clock, _way) = board();
    let mut changes = approvals.changes();
    let (id, call) = posted(&approvals, asked("a", json!({}))).await;
    assert_eq!(approvals.find(&id).unwrap().asked.principal, "a");
    changes.mark_unchanged();
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert!(changes.has_changed().unwrap());
    assert!(approvals.pending().is_empty());
    assert!(!approvals.answer(&id, None, YES, &Approver::Operator).await);
}

#[tokio::test]
async fn a_request_id_means_one_question_or_none() {
    let (approvals, _clock, _way) = board();
    let named =
        |principal| Question { request_id: Some("7".to_owned()), ..asked(principal, json!({})) };
    let (_, of_a) = posted(&approvals, named("a")).await;
    let (_, of_b) = posted(&approvals, named("b")).await;
    let answer = |which, within, answer| {
        let approvals = approvals.clone();
        async move { approvals.answer(which, within, answer, &Approver::Operator).await }
    };
    assert!(!answer("7", None, YES).await, "ambiguous");
    assert!(!answer("7", Some("c"), YES).await, "somebody else's");
    assert!(!answer("8", None, YES).await, "never asked");
    let named: Vec<_> =
        approvals.named("7").iter().map(|one| one.asked.principal.clone()).collect();
    assert_eq!(named, ["a", "b"]);
    let id = &approvals.named("7")[0].id;
    assert_eq!(approvals.named(id).len(), 1);
    assert!(approvals.named("8").is_empty());
    assert!(answer("7", Some("b"), NO).await);
    assert!(answer("7", None, YES).await, "only one is left");
    assert!(of_a.await.unwrap().is_ok());
    assert!(of_b.await.unwrap().is_err());
}

#[tokio::test]
async fn a_denial_carries_its_reason_to_the_caller() {
    let (approvals, _clock, _way) = board();
    let (id, call) = posted(&approvals, asked("a", json!({}))).await;
    let no = Answer::Deny { reason: Some("not on a Friday".to_owned()) };
    assert!(approvals.answer(&id, None, no, &Approver::Operator).await);
    let error = call.await.unwrap().unwrap_err();
    assert_eq!(error.data["reason"], "not on a Friday");
    assert!(error.message.contains("not on a Friday"), "{error}");
}

#[tokio::test]
async fn a_caller_is_its_own_approver_only_where_the_operator_said_so() {
    let (approvals, _clock, _way) = board();
    let by = |agent: &str| Approver::Elicited { agent: agent.to_owned() };
    let (id, call) = posted(&approvals, asked("a", json!({}))).await;
    assert!(!approvals.answer(&id, None, YES, &by("a")).await, "nobody said so");
    approvals.reach().allow_elicitation(["a".to_owned(), "b".to_owned()].into());
    assert!(!approvals.answer(&id, None, YES, &by("b")).await, "another agent's call");
    let greedy = lease(Until::Session, Covers::Any);
    assert!(approvals.answer(&id, None, greedy, &by("a")).await);
    call.await.unwrap().unwrap();
    assert!(approvals.leases().await.unwrap().is_empty(), "no lease for oneself");
}

/// Says whether a call is let through without a question.
async fn is_leased(approvals: &Approvals, asked: Question) -> bool {
    tokio::select! {
        biased;
        outcome = approvals.ask(asked, None) => outcome.unwrap().how == How::Lease,
        () = async {
            let mut changes = approvals.changes();
            drop(changes.wait_for(|_| !approvals.pending().is_empty()).await);
        } => false,
    }
}

async fn approve(approvals: &Approvals, asked: Question, answer: Answer) {
    let (id, call) = posted(approvals, asked).await;
    assert!(approvals.answer(&id, None, answer, &Approver::Operator).await);
    call.await.unwrap().unwrap();
}

#[tokio::test]
async fn without_a_lease_it_is_for_one_call() {
    let (approvals, _clock, _way) = board();
    approve(&approvals, asked("a", json!({})), Answer::Approve { lease: None }).await;
    assert!(!is_leased(&approvals, asked("a", json!({}))).await);
}

#[tokio::test]
async fn a_lease_is_for_one_principal_one_tool_one_component() {
    let (approvals, _clock, _way) = board();
    approve(&approvals, asked("a", json!({})), lease(Until::Session, Covers::Any)).await;
    assert!(is_leased(&approvals, asked("a", json!({"x": 1}))).await);
    assert!(!is_leased(&approvals, asked("b", json!({}))).await);
    let other_tool = Question { tool: "read-file".to_owned(), ..asked("a", json!({})) };
    assert!(!is_leased(&approvals, other_tool).await);
    let replaced = Question { tool_digest: "sha256:new".to_owned(), ..asked("a", json!({})) };
    assert!(!is_leased(&approvals, replaced).await);
}

#[tokio::test]
async fn a_lease_covers_the_arguments_it_names_and_no_others() {
    let (approvals, _clock, _way) = board();
    let paths = Covers::Matching(BTreeMap::from([("path".to_owned(), "/a/*".to_owned())]));
    approve(&approvals, asked("a", json!({"path": "/a/1"})), lease(Until::Session, paths)).await;
    assert!(is_leased(&approvals, asked("a", json!({"path": "/a/2"}))).await);
    assert!(!is_leased(&approvals, asked("a", json!({"path": "/b"}))).await);

    let this = asked("a", json!({"path": "/b"}));
    let exactly = Covers::Exactly(this.digest.clone());
    approve(&approvals, this.clone(), lease(Until::Session, exactly)).await;
    assert!(is_leased(&approvals, this).await);
    assert!(!is_leased(&approvals, asked("a", json!({"path": "/b", "more": 1}))).await);
}

#[tokio::test]
async fn a_timed_lease_survives_a_restart_and_ends_in_time() {
    let database = database();
    let (approvals, _clock, _way) = board_on(database.clone());
    let minute = lease(Until::Time(Duration::from_secs(60)), Covers::Any);
    approve(&approvals, asked("a", json!({})), minute).await;
    approve(&approvals, asked("b", json!({})), lease(Until::Session, Covers::Any)).await;
    drop(approvals);

    let (approvals, clock, _way) = board_on(database);
    assert!(is_leased(&approvals, asked("a", json!({}))).await);
    assert!(!is_leased(&approvals, asked("b", json!({}))).await, "ended with its host");
    clock.store(60_000, Ordering::Relaxed);
    assert!(!is_leased(&approvals, asked("a", json!({}))).await);
    assert!(approvals.leases().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_clock_that_is_set_back_makes_no_lease_longer() {
    let (approvals, clock, _way) = board();
    clock.store(90_000, Ordering::Relaxed);
    let minute = || lease(Until::Time(Duration::from_secs(60)), Covers::Any);
    approve(&approvals, asked("a", json!({})), minute()).await;
    clock.store(0, Ordering::Relaxed);
    assert!(!is_leased(&approvals, asked("a", json!({}))).await);
    assert!(approvals.leases().await.unwrap().is_empty());
    // The next one that is kept sees it gone.
    approve(&approvals, asked("b", json!({})), minute()).await;
    clock.store(100_000, Ordering::Relaxed);
    assert!(!is_leased(&approvals, asked("a", json!({}))).await);
}

#[tokio::test]
async fn an_approver_who_leaves_while_a_lease_is_stored_has_approved() {
    let database = database();
    let (approvals, _clock, _way) = board_on(database.clone());
    let (id, call) = posted(&approvals, asked("a", json!({}))).await;
    let (release, released) = std::sync::mpsc::channel::<()>();
    let mut busy = Box::pin(database.run(move |_| Ok(released.recv().is_ok())));
    assert!(futures_util::poll!(&mut busy).is_pending());
    let minute = lease(Until::Time(Duration::from_secs(60)), Covers::Any);
    let mut answer = Box::pin(approvals.answer(&id, None, minute, &Approver::Operator));
    assert!(futures_util::poll!(&mut answer).is_pending());
    drop(answer);
    release.send(()).unwrap();
    assert_eq!(call.await.unwrap().map(|approved| approved.how), Ok(How::Operator));
    assert!(is_leased(&approvals, asked("a", json!({}))).await);
}

#[tokio::test]
async fn who_watches_is_told_again_once_a_lease_is_stored() {
    let database = database();
    let (approvals, _clock, _way) = board_on(database.clone());
    let (id, call) = posted(&approvals, asked("a", json!({}))).await;
    let (release, released) = std::sync::mpsc::channel::<()>();
    let mut busy = Box::pin(database.run(move |_| Ok(released.recv().is_ok())));
    assert!(futures_util::poll!(&mut busy).is_pending());
    let minute = lease(Until::Time(Duration::from_secs(60)), Covers::Any);
    let mut answer = Box::pin(approvals.answer(&id, None, minute, &Approver::Operator));
    assert!(futures_util::poll!(&mut answer).is_pending());
    // The question is off the board, and its lease is not there yet.
    let mut changes = approvals.changes();
    changes.mark_unchanged();
    release.send(()).unwrap();
    assert!(answer.await);
    assert!(call.await.unwrap().is_ok());
    assert!(changes.has_changed().unwrap());
    assert_eq!(approvals.leases().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_revoked_lease_covers_nothing() {
    let (approvals, _clock, _way) = board();
    for until in [Until::Session, Until::Time(Duration::from_secs(60))] {
        approve(&approvals, asked("a", json!({})), lease(until, Covers::Any)).await;
        let id = approvals.leases().await.unwrap().remove(0).id;
        let mut changes = approvals.changes();
        changes.mark_unchanged();
        assert!(approvals.revoke(&id).await.unwrap());
        assert!(changes.has_changed().unwrap());
        assert!(!approvals.revoke(&id).await.unwrap());
        assert!(!is_leased(&approvals, asked("a", json!({}))).await);
    }
}

#[tokio::test]
async fn the_board_has_bounds() {
    let (approvals, _clock, _way) = board();
    let mut calls = Vec::new();
    for number in 0..APPROVALS_PENDING_MAX {
        let principal = format!("agent-{}", number / APPROVALS_PENDING_PER_PRINCIPAL_MAX);
        calls.push(posted(&approvals, asked(&principal, json!({}))).await);
    }
    for (principal, limit) in
        [("new", "APPROVALS_PENDING_MAX"), ("agent-0", "APPROVALS_PENDING_MAX")]
    {
        let error = approvals.ask(asked(principal, json!({})), None).await.unwrap_err();
        assert_eq!((error.kind, &error.data["limit"]), (ErrorKind::Overloaded, &json!(limit)));
    }
    assert!(approvals.answer(&calls[0].0, None, YES, &Approver::Operator).await);
    assert!(approvals.answer(&calls[999].0, None, YES, &Approver::Operator).await);
    let more = posted(&approvals, asked("agent-0", json!({}))).await;
    let error = approvals.ask(asked("agent-0", json!({})), None).await.unwrap_err();
    assert_eq!(error.data["limit"], "APPROVALS_PENDING_PER_PRINCIPAL_MAX");
    approvals.close();
    drop(more);
}

#[tokio::test]
async fn the_ids_tell_nothing() {
    let (approvals, _clock, _way) = board();
    let (first, _call) = posted(&approvals, asked("a", json!({}))).await;
    let (second, _call) = posted(&approvals, asked("a", json!({}))).await;
    for id in [&first, &second] {
        let dashes: Vec<usize> = id.match_indices('-').map(|(at, _)| at).collect();
        assert_eq!((id.len(), dashes), (36, vec![8, 13, 18, 23]), "{id}");
        assert_eq!(id.get(14..15), Some("4"), "{id}");
    }
    assert_ne!(first, second);
}
