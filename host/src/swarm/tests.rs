//! What a swarm does, as its members see it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use clawhost_core::error::ErrorKind;
use clawhost_core::limits::{SWARM_TASKS_BYTES_MAX, SWARM_TASKS_MAX, SWARM_VALUE_BYTES_MAX};
use clawhost_core::manifest::{SwarmAgent, SwarmPlan, Topology};
use serde_json::json;

use super::*;

/// Returns a plan of agents, each with its role and number.
pub(crate) fn plan(topology: Topology, agents: &[(&str, &str, usize)]) -> SwarmPlan {
    let agents = agents.iter().map(|(identity, role, count)| SwarmAgent {
        identity: (*identity).to_owned(),
        role: (*role).to_owned(),
        count: *count,
    });
    SwarmPlan {
        name: "crew".to_owned(),
        topology,
        agents: agents.collect(),
        parallel_max: None,
        sequential: true,
        retries: 0,
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
}

fn open(plan: SwarmPlan) -> Crew {
    open_all(vec![plan])
}

fn open_all(plans: Vec<SwarmPlan>) -> Crew {
    let now = Arc::new(AtomicI64::new(0));
    let swarm = Swarm::new(plans, "boss", Telemetry::off(), Clock::of(&now));
    Crew { swarm, now }
}

fn task(id: &str) -> Task {
    Task {
        task_id: id.to_owned(),
        swarm: "crew".to_owned(),
        description: "dig".into(),
        input: Some((&json!({ "depth": 3 })).into()),
    }
}

/// Returns a text of so many letters.
fn input(letters: usize) -> KeptValue {
    (&json!("x".repeat(letters))).into()
}

fn report(id: &str, status: Status) -> Report {
    Report {
        task_id: id.to_owned(),
        status,
        result: (&json!(status.name())).into(),
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
            SwarmEvent::Message { message, .. } => format!("message {}", message.value()),
            SwarmEvent::Missed(missed) => format!("missed {missed}"),
        });
    }
    taken
}

fn statuses(swarm: &Swarm) -> Vec<(String, PeerStatus)> {
    let peers = swarm.discover(Some("crew")).unwrap();
    peers.into_iter().map(|peer| (peer.identity, peer.status)).collect()
}

fn kind<T: std::fmt::Debug>(outcome: Result<T, CallError>) -> ErrorKind {
    outcome.unwrap_err().kind
}

#[tokio::test]
async fn a_task_goes_to_a_worker_and_its_report_to_the_one_who_gave_it() {
    let Crew { swarm, .. } = open(crew());
    let (mut boss, mut ant) = (swarm.subscribe("boss"), swarm.subscribe("ant"));
    swarm.delegate("boss", task("t")).unwrap();
    let event = SwarmEvent::Task { from: "boss".into(), task: task("t") };
    assert_eq!(ant.next().await, event);
    assert!(swarm.report("ant", report("t", Status::Partial)).unwrap());
    assert!(swarm.report("ant", report("t", Status::Completed)).unwrap());
    assert_eq!(taken(&mut boss), ["t partial by ant", "t completed by ant"]);
    assert!(!swarm.report("ant", report("t", Status::Completed)).unwrap());
}

#[tokio::test]
async fn workers_take_turns_and_a_busy_one_is_passed_over() {
    let Crew { swarm, .. } = open(crew());
    let (mut ant, mut bee) = (swarm.subscribe("ant"), swarm.subscribe("bee"));
    for id in ["1", "2", "3"] {
        swarm.delegate("boss", task(id)).unwrap();
    }
    assert_eq!((taken(&mut ant), taken(&mut bee)), (vec!["task 1".into()], vec!["task 2".into()]));
    swarm.report("bee", report("2", Status::Completed)).unwrap();
    assert_eq!(taken(&mut bee), ["task 3"]);
}

#[tokio::test]
async fn a_task_waits_for_an_agent_to_connect_and_is_told_again_to_one_that_comes_back() {
    let Crew { swarm, .. } = open(crew());
    swarm.delegate("boss", task("t")).unwrap();
    let mut ant = swarm.subscribe("ant");
    assert_eq!(taken(&mut ant), ["task t"]);
    drop(ant);
    let mut bee = swarm.subscribe("bee");
    assert_eq!(taken(&mut bee), Vec::<String>::new());
    let mut ant = swarm.subscribe("ant");
    assert_eq!(taken(&mut ant), ["task t"]);
    swarm.report("ant", report("t", Status::Completed)).unwrap();
    assert_eq!(taken(&mut swarm.subscribe("boss")), ["t completed by ant"]);
}

#[tokio::test]
async fn another_session_of_the_same_agent_does_not_get_a_task_again() {
    let Crew { swarm, .. } = open(crew());
    let mut first = swarm.subscribe("ant");
    swarm.delegate("boss", task("1")).unwrap();
    let mut second = swarm.subscribe("ant");
    assert_eq!((taken(&mut first), taken(&mut second)), (vec!["task 1".into()], vec![]));
    let mut third = swarm.subscribe("ant");
    assert_eq!(taken(&mut third), Vec::<String>::new());
}

#[tokio::test]
async fn what_a_session_took_is_told_to_another_of_its_agent_when_it_ends() {
    let Crew { swarm, .. } = open(crew());
    let mut first = swarm.subscribe("ant");
    ["1", "2"].iter().for_each(|id| swarm.delegate("boss", task(id)).unwrap());
    let mut second = swarm.subscribe("ant");
    assert_eq!(taken(&mut first), ["task 1"]);
    swarm.report("ant", report("1", Status::Completed)).unwrap();
    assert_eq!((taken(&mut first), taken(&mut second)), (vec!["task 2".into()], vec![]));
    drop(first);
    assert_eq!(taken(&mut second), ["task 2"]);
    let mut third = swarm.subscribe("ant");
    drop(second);
    assert_eq!(taken(&mut third), ["task 2"]);
}

#[tokio::test]
async fn a_task_s_name_is_unique_in_all_swarms_so_that_a_report_finds_it() {
    let other = SwarmPlan { name: "team".to_owned(), ..crew() };
    let Crew { swarm, .. } = open_all(vec![crew(), other]);
    let team = |id: &str| Task { swarm: "team".to_owned(), ..task(id) };
    let mut ant = swarm.subscribe("ant");
    swarm.delegate("boss", task("t")).unwrap();
    assert_eq!(kind(swarm.delegate("boss", team("t"))), ErrorKind::InvalidArguments);
    swarm.delegate("boss", team("u")).unwrap();
    assert_eq!(taken(&mut ant), ["task t", "task u"]);
    assert!(swarm.report("ant", report("u", Status::Completed)).unwrap());
    assert_eq!(taken(&mut swarm.subscribe("boss")), ["u completed by ant"]);
}

#[tokio::test]
async fn what_cannot_be_taken_is_refused() {
    let Crew { swarm, .. } = open(crew());
    let elsewhere = Task { swarm: "other".to_owned(), ..task("t") };
    assert_eq!(kind(swarm.delegate("boss", elsewhere)), ErrorKind::InvalidArguments);
    let large = Task { input: Some(input(SWARM_VALUE_BYTES_MAX)), ..task("t") };
    assert_eq!(kind(swarm.delegate("boss", large)), ErrorKind::InvalidArguments);
    assert_eq!(kind(swarm.delegate("boss", task(""))), ErrorKind::InvalidArguments);
    swarm.delegate("boss", task("t")).unwrap();
    assert_eq!(kind(swarm.delegate("boss", task("t"))), ErrorKind::InvalidArguments);
    let alone = open(plan(Topology::LeaderWorker, &[("boss", "leader", 1)])).swarm;
    assert_eq!(kind(alone.delegate("boss", task("t"))), ErrorKind::PeerUnreachable);
}

#[tokio::test]
async fn a_full_queue_is_refused_and_takes_tasks_again_when_some_ended() {
    let Crew { swarm, .. } = open(crew());
    for number in 0..SWARM_TASKS_MAX {
        swarm.delegate("boss", task(&number.to_string())).unwrap();
    }
    assert_eq!(kind(swarm.delegate("boss", task("more"))), ErrorKind::PeerUnreachable);
    swarm.report("boss", report("7", Status::Failed)).unwrap();
    swarm.delegate("boss", task("more")).unwrap();
}

#[tokio::test]
async fn who_is_not_of_a_swarm_fills_a_quarter_of_its_list_and_not_all() {
    for (letters, most) in [(0, SWARM_TASKS_MAX / 4), (SWARM_VALUE_BYTES_MAX - 10, 32)] {
        let Crew { swarm, .. } = open(crew());
        let long = |id: &str| Task { input: Some(input(letters)), ..task(id) };
        for number in 0..most {
            let (stranger, id) = (format!("stranger {}", number % 2), number.to_string());
            swarm.delegate(&stranger, long(&id)).unwrap();
        }
        assert_eq!(kind(swarm.delegate("a third", long("more"))), ErrorKind::PeerUnreachable);
        swarm.delegate("boss", long("own")).unwrap();
    }
}

#[tokio::test]
async fn long_tasks_are_bounded_in_sum() {
    let Crew { swarm, .. } = open(crew());
    let long = |id: &str| Task { input: Some(input(SWARM_VALUE_BYTES_MAX - 10)), ..task(id) };
    let most = SWARM_TASKS_BYTES_MAX / SWARM_VALUE_BYTES_MAX;
    for number in 0..most {
        swarm.delegate("boss", long(&number.to_string())).unwrap();
    }
    let refused = swarm.delegate("boss", long("more")).unwrap_err();
    assert_eq!(refused.data["limit"], "SWARM_TASKS_BYTES_MAX");
    swarm.report("boss", report("0", Status::Failed)).unwrap();
    swarm.delegate("boss", long("more")).unwrap();
}

#[tokio::test]
async fn strangers_can_neither_report_nor_end_a_task() {
    let Crew { swarm, .. } = open(crew());
    let mut ant = swarm.subscribe("ant");
    swarm.delegate("boss", task("t")).unwrap();
    assert_eq!(taken(&mut ant), ["task t"]);
    assert!(!swarm.report("bee", report("t", Status::Completed)).unwrap());
    assert!(!swarm.report("boss", report("t", Status::Partial)).unwrap());
    assert!(!swarm.report("ant", report("unknown", Status::Completed)).unwrap());
    assert!(swarm.report("boss", report("t", Status::Failed)).unwrap());
    assert_eq!(taken(&mut ant), ["t failed by boss"]);
}

#[tokio::test]
async fn a_failed_task_goes_to_somebody_else_and_then_back_to_the_one_who_gave_it() {
    let Crew { swarm, .. } = open(SwarmPlan { retries: 1, ..crew() });
    let (mut ant, mut bee) = (swarm.subscribe("ant"), swarm.subscribe("bee"));
    let mut boss = swarm.subscribe("boss");
    swarm.delegate("boss", task("t")).unwrap();
    assert_eq!(taken(&mut ant), ["task t"]);
    swarm.report("ant", report("t", Status::Failed)).unwrap();
    assert_eq!((taken(&mut bee), taken(&mut boss)), (vec!["task t".to_owned()], vec![]));
    swarm.report("bee", report("t", Status::Failed)).unwrap();
    assert_eq!(taken(&mut boss), ["t failed by bee"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_takes_too_long_fails() {
    let slow = SwarmPlan { duration_max: Some(Duration::from_millis(100)), ..crew() };
    let Crew { swarm, now, .. } = open(slow);
    let (_ant, mut boss) = (swarm.subscribe("ant"), swarm.subscribe("boss"));
    swarm.delegate("boss", task("t")).unwrap();
    now.store(101, Ordering::SeqCst);
    let SwarmEvent::Report { report, .. } = boss.next().await else { panic!() };
    assert_eq!(
        (report.status, &report.result.value()["error"]),
        (Status::Failed, &json!("timeout"))
    );
    assert!(!swarm.report("ant", self::report("t", Status::Completed)).unwrap());
}

#[tokio::test]
async fn a_task_that_was_not_taken_in_time_is_taken_once_by_who_has_it_then() {
    let limit = Some(Duration::from_millis(100));
    let both = [("boss", "leader", 1), ("ant", "worker", 1), ("bee", "worker", 1)];
    for (agents, of_ant, of_bee) in [(&both[..2], 1, 0), (&both, 0, 1)] {
        let slow = plan(Topology::LeaderWorker, agents);
        let Crew { swarm, now } = open(SwarmPlan { duration_max: limit, retries: 1, ..slow });
        let (mut ant, mut bee) = (swarm.subscribe("ant"), swarm.subscribe("bee"));
        swarm.delegate("boss", task("t")).unwrap();
        now.store(101, Ordering::SeqCst);
        // Who comes has the swarm looked after.
        drop(swarm.subscribe("boss"));
        assert_eq!((taken(&mut ant).len(), taken(&mut bee).len()), (of_ant, of_bee));
    }
}

#[tokio::test]
async fn tokens_that_are_spent_end_it() {
    let Crew { swarm, .. } = open(SwarmPlan { tokens_max: Some(10), ..crew() });
    let _ant = swarm.subscribe("ant");
    swarm.delegate("boss", task("1")).unwrap();
    swarm.report("ant", report("1", Status::Completed)).unwrap();
    assert_eq!(kind(swarm.delegate("boss", task("2"))), ErrorKind::Overloaded);
}

#[tokio::test]
async fn who_only_gave_a_task_spends_no_tokens_of_the_swarm() {
    let Crew { swarm, .. } = open(SwarmPlan { tokens_max: Some(10), ..crew() });
    swarm.delegate("stranger", task("1")).unwrap();
    assert!(swarm.report("stranger", report("1", Status::Completed)).unwrap());
    swarm.delegate("boss", task("2")).unwrap();
}

#[tokio::test]
async fn a_task_for_all_is_ended_by_the_first_and_the_others_are_told() {
    let all = plan(Topology::Broadcast, &[("ant", "worker", 1), ("bee", "worker", 1)]);
    let Crew { swarm, .. } = open(all);
    let (mut ant, mut bee) = (swarm.subscribe("ant"), swarm.subscribe("bee"));
    swarm.delegate("stranger", task("t")).unwrap();
    assert_eq!((taken(&mut ant), taken(&mut bee)), (vec!["task t".into()], vec!["task t".into()]));
    swarm.report("ant", report("t", Status::Failed)).unwrap();
    swarm.report("bee", report("t", Status::Completed)).unwrap();
    assert_eq!(taken(&mut swarm.subscribe("stranger")), ["t completed by bee"]);

    swarm.delegate("stranger", task("u")).unwrap();
    swarm.report("bee", report("u", Status::Completed)).unwrap();
    // It was over before ant took it.
    assert_eq!(taken(&mut ant), ["u completed by bee"]);
}

#[tokio::test]
async fn the_swarm_runs_no_more_at_once_than_its_plan_says() {
    let narrow = SwarmPlan { parallel_max: Some(1), ..crew() };
    let Crew { swarm, .. } = open(narrow);
    let (mut ant, mut bee) = (swarm.subscribe("ant"), swarm.subscribe("bee"));
    swarm.delegate("boss", task("1")).unwrap();
    swarm.delegate("boss", task("2")).unwrap();
    assert_eq!(taken(&mut ant), ["task 1"]);
    assert_eq!(taken(&mut bee), Vec::<String>::new());
    assert_eq!(statuses(&swarm)[2], ("bee".into(), PeerStatus::Busy));
    swarm.report("ant", report("1", Status::Completed)).unwrap();
    assert_eq!(taken(&mut bee), ["task 2"]);
}

#[tokio::test]
async fn messages_reach_every_connected_member_but_the_sender() {
    let Crew { swarm, .. } = open(crew());
    let mut sessions = ["boss", "ant", "ant"].map(|name| swarm.subscribe(name));
    let mut stranger = swarm.subscribe("stranger");
    swarm.broadcast("boss", "crew", &json!(1)).unwrap();
    let heard = sessions.each_mut().map(|session| taken(session).len());
    assert_eq!((heard, taken(&mut stranger).len()), ([0, 1, 1], 0));
    assert!(swarm.broadcast("boss", "other", &json!(1)).is_err());
}

#[tokio::test]
async fn peers_are_what_they_are() {
    use PeerStatus::{Busy, Ready, Unavailable};
    let Crew { swarm, .. } = open(crew());
    let peers = swarm.discover(None).unwrap();
    assert_eq!(peers[1].uri, "claw://local/identity/ant");
    let ant = swarm.subscribe("ant");
    let now =
        |swarm: &Swarm| statuses(swarm).into_iter().map(|(_, status)| status).collect::<Vec<_>>();
    assert_eq!(now(&swarm), [Ready, Ready, Unavailable]);
    swarm.delegate("boss", task("t")).unwrap();
    assert_eq!(now(&swarm), [Ready, Busy, Unavailable]);
    drop(ant);
    assert_eq!(now(&swarm), [Ready, Unavailable, Unavailable]);
    assert_eq!(swarm.discover(Some("other")).unwrap_err().kind, ErrorKind::InvalidArguments);
}
