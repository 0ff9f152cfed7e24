//! What a swarm does, as its members see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use clawhost_core::error::ErrorKind;
use clawhost_core::limits::{SWARM_TASKS_MAX, SWARM_VALUE_BYTES_MAX};
use clawhost_core::manifest::{Breaker, FailurePlan, SwarmAgent, SwarmPlan, Topology};
use serde_json::json;

use super::*;

/// Returns a plan of agents, each with its role and number.
pub(super) fn plan(topology: Topology, agents: &[(&str, &str, usize)]) -> SwarmPlan {
    let agents = agents.iter().map(|(identity, role, count)| SwarmAgent {
        identity: (*identity).to_owned(),
        role: (*role).to_owned(),
        count: *count,
    });
    SwarmPlan {
        name: "crew".to_owned(),
        topology,
        agents: agents.collect(),
        durable: false,
        parallel_max: None,
        sequential: true,
        failure: FailurePlan::default(),
        tokens_max: None,
        duration_max: None,
    }
}

fn crew() -> SwarmPlan {
    plan(
        Topology::LeaderWorker,
        &[("boss", "leader", 1), ("ant", "worker", 1), ("bee", "worker", 1)],
    )
}

struct Crew {
    swarm: Swarm,
    now: Arc<AtomicI64>,
    database: Database,
}

async fn open(plan: SwarmPlan) -> Crew {
    let database = Database::in_memory(&[("swarm", MIGRATIONS)]).unwrap();
    open_in(plan, database).await
}

async fn open_in(plan: SwarmPlan, database: Database) -> Crew {
    let now = Arc::new(AtomicI64::new(0));
    let clock = Arc::clone(&now);
    let clock = Arc::new(move || clock.load(Ordering::SeqCst));
    let opened =
        Swarm::with_clock(vec![plan], "boss", database.clone(), Telemetry::off(), clock).await;
    Crew { swarm: opened.unwrap(), now, database }
}

fn task(id: &str) -> Task {
    Task {
        task_id: id.to_owned(),
        swarm: "crew".to_owned(),
        description: "dig".to_owned(),
        input: Some(json!({ "depth": 3 })),
    }
}

fn report(id: &str, status: Status) -> Report {
    Report {
        task_id: id.to_owned(),
        status,
        result: json!(status.name()),
        token_usage: Some(10),
        duration_ms: Some(5),
    }
}

fn taken(subscription: &mut Subscription) -> Vec<String> {
    let mut taken = Vec::new();
    while let Some(event) = subscription.try_next() {
        taken.push(match event {
            SwarmEvent::Task { task, .. } => format!("task {}", task.task_id),
            SwarmEvent::Report { from, report, .. } => {
                format!("{} {} by {from}", report.task_id, report.status.name())
            }
            SwarmEvent::Message { message, .. } => format!("message {message}"),
            SwarmEvent::Missed(missed) => format!("missed {missed}"),
        });
    }
    taken
}

fn statuses(swarm: &Swarm) -> Vec<(String, PeerStatus)> {
    let peers = swarm.discover(Some("crew")).unwrap();
    peers.into_iter().map(|peer| (peer.identity, peer.status)).collect()
}

fn kind(outcome: Result<bool, CallError>) -> ErrorKind {
    outcome.unwrap_err().kind
}

#[tokio::test]
async fn a_task_goes_to_a_worker_and_its_report_to_the_one_who_gave_it() {
    let Crew { swarm, .. } = open(crew()).await;
    let (mut boss, mut ant) = (swarm.subscribe("boss"), swarm.subscribe("ant"));
    assert!(swarm.delegate("boss", task("t")).await.unwrap());
    let event = SwarmEvent::Task { from: "boss".into(), task: task("t") };
    assert_eq!(ant.next().await, event);
    assert!(swarm.report("ant", report("t", Status::Partial)).await.unwrap());
    assert!(swarm.report("ant", report("t", Status::Completed)).await.unwrap());
    assert_eq!(taken(&mut boss), ["t partial by ant", "t completed by ant"]);
    assert!(!swarm.report("ant", report("t", Status::Completed)).await.unwrap());
}

#[tokio::test]
async fn workers_take_turns_and_a_busy_one_is_passed_over() {
    let Crew { swarm, .. } = open(crew()).await;
    let (mut ant, mut bee) = (swarm.subscribe("ant"), swarm.subscribe("bee"));
    for id in ["1", "2", "3"] {
        swarm.delegate("boss", task(id)).await.unwrap();
    }
    assert_eq!((taken(&mut ant), taken(&mut bee)), (vec!["task 1".into()], vec!["task 2".into()]));
    swarm.report("bee", report("2", Status::Completed)).await.unwrap();
    assert_eq!(taken(&mut bee), ["task 3"]);
}

#[tokio::test]
async fn a_task_waits_for_an_agent_to_connect_and_is_told_again_to_one_that_comes_back() {
    let Crew { swarm, .. } = open(crew()).await;
    assert!(swarm.delegate("boss", task("t")).await.unwrap());
    let mut ant = swarm.subscribe("ant");
    assert_eq!(taken(&mut ant), ["task t"]);
    drop(ant);
    let mut bee = swarm.subscribe("bee");
    assert_eq!(taken(&mut bee), Vec::<String>::new());
    let mut ant = swarm.subscribe("ant");
    assert_eq!(taken(&mut ant), ["task t"]);
    swarm.report("ant", report("t", Status::Completed)).await.unwrap();
    assert_eq!(taken(&mut swarm.subscribe("boss")), ["t completed by ant"]);
}

#[tokio::test]
async fn what_cannot_be_taken_is_refused() {
    let Crew { swarm, .. } = open(crew()).await;
    let elsewhere = Task { swarm: "other".to_owned(), ..task("t") };
    assert_eq!(kind(swarm.delegate("boss", elsewhere).await), ErrorKind::InvalidArguments);
    let large = Task { input: Some(json!("x".repeat(SWARM_VALUE_BYTES_MAX))), ..task("t") };
    assert_eq!(kind(swarm.delegate("boss", large).await), ErrorKind::InvalidArguments);
    assert_eq!(kind(swarm.delegate("boss", task("")).await), ErrorKind::InvalidArguments);
    swarm.delegate("boss", task("t")).await.unwrap();
    assert_eq!(kind(swarm.delegate("boss", task("t")).await), ErrorKind::InvalidArguments);
    let alone = open(plan(Topology::LeaderWorker, &[("boss", "leader", 1)])).await.swarm;
    assert_eq!(kind(alone.delegate("boss", task("t")).await), ErrorKind::PeerUnreachable);
}

#[tokio::test]
async fn a_full_queue_is_refused_and_takes_tasks_again_when_some_ended() {
    let Crew { swarm, .. } = open(crew()).await;
    for number in 0..SWARM_TASKS_MAX {
        swarm.delegate("boss", task(&number.to_string())).await.unwrap();
    }
    assert_eq!(kind(swarm.delegate("boss", task("more")).await), ErrorKind::PeerUnreachable);
    swarm.report("boss", report("7", Status::Failed)).await.unwrap();
    assert!(swarm.delegate("boss", task("more")).await.unwrap());
}

#[tokio::test]
async fn strangers_can_neither_report_nor_end_a_task() {
    let Crew { swarm, .. } = open(crew()).await;
    let mut ant = swarm.subscribe("ant");
    swarm.delegate("boss", task("t")).await.unwrap();
    assert!(!swarm.report("bee", report("t", Status::Completed)).await.unwrap());
    assert!(!swarm.report("boss", report("t", Status::Partial)).await.unwrap());
    assert!(!swarm.report("ant", report("unknown", Status::Completed)).await.unwrap());
    assert!(swarm.report("boss", report("t", Status::Failed)).await.unwrap());
    assert_eq!(taken(&mut ant), ["task t", "t failed by boss"]);
}

#[tokio::test]
async fn a_failed_task_goes_to_somebody_else_and_then_to_the_dead_letters() {
    let failure = FailurePlan { retries: 1, dead_letter: true, breaker: None };
    let Crew { swarm, .. } = open(SwarmPlan { failure, ..crew() }).await;
    let (mut ant, mut bee) = (swarm.subscribe("ant"), swarm.subscribe("bee"));
    let mut boss = swarm.subscribe("boss");
    swarm.delegate("boss", task("t")).await.unwrap();
    assert_eq!(taken(&mut ant), ["task t"]);
    swarm.report("ant", report("t", Status::Failed)).await.unwrap();
    assert_eq!((taken(&mut bee), taken(&mut boss)), (vec!["task t".to_owned()], vec![]));
    swarm.report("bee", report("t", Status::Failed)).await.unwrap();
    assert_eq!(taken(&mut boss), ["t failed by bee"]);
    assert_eq!(swarm.dead_letters("crew").unwrap(), [task("t")]);
}

#[tokio::test]
async fn an_agent_that_fails_too_often_gets_nothing_for_a_while() {
    let breaker = Some(Breaker { failures: 2, reset: Duration::from_millis(100) });
    let failure = FailurePlan { breaker, ..FailurePlan::default() };
    let pair = plan(Topology::LeaderWorker, &[("boss", "leader", 1), ("ant", "worker", 1)]);
    let Crew { swarm, now, .. } = open(SwarmPlan { failure, ..pair }).await;
    let _ant = swarm.subscribe("ant");
    for id in ["1", "2"] {
        swarm.delegate("boss", task(id)).await.unwrap();
        swarm.report("ant", report(id, Status::Failed)).await.unwrap();
    }
    assert_eq!(statuses(&swarm)[1], ("ant".into(), PeerStatus::Unavailable));
    assert_eq!(kind(swarm.delegate("boss", task("3")).await), ErrorKind::PeerUnreachable);
    now.store(100, Ordering::SeqCst);
    assert!(swarm.delegate("boss", task("3")).await.unwrap());
    assert_eq!(statuses(&swarm)[1], ("ant".into(), PeerStatus::Busy));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_takes_too_long_fails() {
    let slow = SwarmPlan { duration_max: Some(Duration::from_millis(100)), ..crew() };
    let Crew { swarm, now, .. } = open(slow).await;
    let (_ant, mut boss) = (swarm.subscribe("ant"), swarm.subscribe("boss"));
    swarm.delegate("boss", task("t")).await.unwrap();
    now.store(101, Ordering::SeqCst);
    let SwarmEvent::Report { report, .. } = boss.next().await else { panic!() };
    assert_eq!((report.status, &report.result["error"]), (Status::Failed, &json!("timeout")));
    assert!(!swarm.report("ant", self::report("t", Status::Completed)).await.unwrap());
}

#[tokio::test]
async fn tokens_that_are_spent_end_it() {
    let Crew { swarm, .. } = open(SwarmPlan { tokens_max: Some(10), ..crew() }).await;
    let _ant = swarm.subscribe("ant");
    swarm.delegate("boss", task("1")).await.unwrap();
    swarm.report("ant", report("1", Status::Completed)).await.unwrap();
    assert_eq!(kind(swarm.delegate("boss", task("2")).await), ErrorKind::Overloaded);
}

#[tokio::test]
async fn a_task_for_all_is_ended_by_the_first_and_the_others_are_told() {
    let all = plan(Topology::Broadcast, &[("ant", "worker", 1), ("bee", "worker", 1)]);
    let Crew { swarm, .. } = open(all).await;
    let (mut ant, mut bee) = (swarm.subscribe("ant"), swarm.subscribe("bee"));
    swarm.delegate("stranger", task("t")).await.unwrap();
    assert_eq!((taken(&mut ant), taken(&mut bee)), (vec!["task t".into()], vec!["task t".into()]));
    swarm.report("ant", report("t", Status::Failed)).await.unwrap();
    swarm.report("bee", report("t", Status::Completed)).await.unwrap();
    assert_eq!(taken(&mut swarm.subscribe("stranger")), ["t completed by bee"]);

    swarm.delegate("stranger", task("u")).await.unwrap();
    swarm.report("bee", report("u", Status::Completed)).await.unwrap();
    assert_eq!(taken(&mut ant), ["task u", "u completed by bee"]);
}

#[tokio::test]
async fn the_swarm_runs_no_more_at_once_than_its_plan_says() {
    let narrow = SwarmPlan { parallel_max: Some(1), ..crew() };
    let Crew { swarm, .. } = open(narrow).await;
    let (mut ant, mut bee) = (swarm.subscribe("ant"), swarm.subscribe("bee"));
    swarm.delegate("boss", task("1")).await.unwrap();
    swarm.delegate("boss", task("2")).await.unwrap();
    assert_eq!(taken(&mut ant), ["task 1"]);
    assert_eq!(taken(&mut bee), Vec::<String>::new());
    assert_eq!(statuses(&swarm)[2], ("bee".into(), PeerStatus::Busy));
    swarm.report("ant", report("1", Status::Completed)).await.unwrap();
    assert_eq!(taken(&mut bee), ["task 2"]);
}

#[tokio::test]
async fn messages_reach_every_connected_member_but_the_sender() {
    let Crew { swarm, .. } = open(crew()).await;
    let mut sessions = ["boss", "ant", "ant"].map(|name| swarm.subscribe(name));
    let mut stranger = swarm.subscribe("stranger");
    swarm.broadcast("boss", "crew", json!(1)).unwrap();
    let heard = sessions.each_mut().map(|session| taken(session).len());
    assert_eq!((heard, taken(&mut stranger).len()), ([0, 1, 1], 0));
    assert!(swarm.broadcast("boss", "other", json!(1)).is_err());
}

#[tokio::test]
async fn peers_are_what_they_are() {
    use PeerStatus::{Busy, Ready, Unavailable};
    let Crew { swarm, .. } = open(crew()).await;
    let peers = swarm.discover(None).unwrap();
    assert_eq!(peers[1].uri, "claw://local/identity/ant");
    let ant = swarm.subscribe("ant");
    let now =
        |swarm: &Swarm| statuses(swarm).into_iter().map(|(_, status)| status).collect::<Vec<_>>();
    assert_eq!(now(&swarm), [Ready, Ready, Unavailable]);
    swarm.delegate("boss", task("t")).await.unwrap();
    assert_eq!(now(&swarm), [Ready, Busy, Unavailable]);
    drop(ant);
    assert_eq!(now(&swarm), [Ready, Unavailable, Unavailable]);
    assert_eq!(swarm.discover(Some("other")).unwrap_err().kind, ErrorKind::InvalidArguments);
}

#[tokio::test]
async fn tasks_of_a_durable_swarm_outlive_the_host_until_they_end() {
    let durable = SwarmPlan { durable: true, ..crew() };
    let Crew { swarm, database, .. } = open(durable.clone()).await;
    swarm.delegate("boss", task("1")).await.unwrap();
    swarm.delegate("boss", task("2")).await.unwrap();
    swarm.report("boss", report("1", Status::Failed)).await.unwrap();
    drop(swarm);
    let Crew { swarm, .. } = open_in(durable, database).await;
    let mut ant = swarm.subscribe("ant");
    assert_eq!(taken(&mut ant), ["task 2"]);
    assert!(swarm.report("ant", report("2", Status::Completed)).await.unwrap());
}
