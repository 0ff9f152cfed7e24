//! A swarm as its document has it: who gets work, and what is said about it.

use std::time::Instant;

use clawhost::swarm::{PeerStatus, Report, Status, SwarmEvent, Task};
use clawhost_core::error::ErrorKind;
use clawhost_tests::TestHost;
use clawhost_tests::wait::SOON;
use serde_json::{Value, json};

const CREW: &str = "\
claw: '0.3.0'
kind: Swarm
metadata: { name: crew }
spec:
  topology: leader-worker
  agents:
    - { identity_ref: test, role: leader }
    - { identity_ref: claw://identity/elsewhere, role: worker }
  coordination: { message_passing: queue, backend: in-process, concurrency: { max_parallel: 4 } }
  aggregation: { strategy: leader-decides }
";

const ELSEWHERE: &str = "version: 1\nagents: [{ name: other, identity: elsewhere }]\n";

const TELEMETRY: &str = "\
claw: '0.3.0'
kind: Telemetry
metadata: { name: t }
spec: { exporters: [{ type: file, path: ./workspace/telemetry.jsonl }] }
";

fn task(swarm: &str) -> Task {
    let input = Some((&json!({ "path": "a.txt" })).into());
    Task { task_id: "t1".into(), swarm: swarm.into(), description: "read".into(), input }
}

#[tokio::test]
async fn a_task_goes_to_the_agent_that_connects_and_its_report_comes_back() {
    let host =
        TestHost::builder().document("swarm.yaml", CREW).runtime_file(ELSEWHERE).build().await;
    let swarm = host.host().swarm();
    swarm.delegate("test", task("crew")).unwrap();
    let peers = swarm.discover(Some("crew")).unwrap();
    let seen: Vec<_> = peers.iter().map(|peer| (peer.uri.as_str(), peer.status)).collect();
    let expected = [
        ("claw://local/identity/test", PeerStatus::Ready),
        ("claw://local/identity/elsewhere", PeerStatus::Unavailable),
    ];
    assert_eq!(seen, expected, "the host runs its own identity, nobody runs the other");

    let (mut worker, mut leader) = (swarm.subscribe("elsewhere"), swarm.subscribe("test"));
    let event = SwarmEvent::Task { from: "test".into(), task: task("crew") };
    assert_eq!(worker.next().await, event);
    let report = Report {
        task_id: "t1".into(),
        status: Status::Completed,
        result: (&json!("done")).into(),
        token_usage: Some(5),
        duration_ms: Some(1),
    };
    assert!(swarm.report("elsewhere", report.clone()).unwrap());
    let expected = SwarmEvent::Report { swarm: "crew".into(), from: "elsewhere".into(), report };
    assert_eq!(leader.next().await, expected);
    let unknown = swarm.delegate("test", task("nowhere")).unwrap_err();
    assert_eq!(unknown.kind.code(), -32602);
    let nobody = swarm.delegate("elsewhere", Task { task_id: "t2".into(), ..task("crew") });
    assert!(nobody.is_ok(), "a worker's task goes to the leader");
}

#[tokio::test]
async fn what_happens_in_a_swarm_is_told_to_telemetry_without_what_was_said() {
    let host = TestHost::builder()
        .document("swarm.yaml", CREW)
        .runtime_file(ELSEWHERE)
        .document("telemetry.yaml", TELEMETRY)
        .build()
        .await;
    let swarm = host.host().swarm();
    swarm.delegate("test", task("crew")).unwrap();
    swarm.broadcast("test", "crew", &json!("a secret plan")).unwrap();
    let refused = swarm.delegate("test", task("crew")).unwrap_err();
    assert_eq!(refused.kind, ErrorKind::InvalidArguments);
    host.host().telemetry().flush(Instant::now() + SOON).await;
    let text = std::fs::read_to_string(host.workspace().join("telemetry.jsonl")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let operations = lines.iter().filter(|line| line["event"] == "swarm.operation");
    let seen: Vec<_> = operations
        .map(|line| {
            let said = format!("{} {} {}", line["identity"], line["operation"], line["outcome"]);
            said.replace('"', "")
        })
        .collect();
    assert_eq!(seen, ["test delegate ok", "test broadcast ok", "test delegate invalid-arguments"]);
    assert!(!text.contains("secret plan") && !text.contains("a.txt"), "{text}");
}
