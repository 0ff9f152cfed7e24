//! What a policy's `audit` block does: words in the record, copies of it, and how long it stays.

use std::fs::File;
use std::time::{Duration, SystemTime};

use clawhost_core::manifest::{self, Settings, Surroundings};
use clawhost_core::policy::Destination;
use clawhost_tests::TestHost;
use clawhost_tests::collector::{Collector, Mood};
use clawhost_tests::wait::SOON;
use serde_json::{Value, json};

fn policy(audit: &str) -> String {
    format!(
        "claw: '0.3.0'\nkind: Policy\nmetadata: {{ name: recorded }}\nspec:\n  rules: [{{ id: all, action: allow, scope: all }}]\n  audit: {{ {audit} }}\n"
    )
}

#[tokio::test]
async fn arguments_and_results_are_in_the_record_where_a_policy_says_so() {
    for (audit, shown) in
        [("log_inputs: false", false), ("log_inputs: true, log_outputs: true", true)]
    {
        let host = TestHost::builder()
            .file("a.txt", "what the file says")
            .document("policy.yaml", &policy(audit))
            .build()
            .await;
        host.ask("read_file", json!({ "path": "a.txt" })).await;
        let record = host.finished().pop().unwrap();
        assert_eq!(record["inputs"] == json!({ "path": "a.txt" }), shown, "{record}");
        assert_eq!(record.to_string().contains("what the file says"), shown, "{record}");
        host.check_audit();
    }
}

/// Returns a host whose records are copied to `webhook`.
async fn told(webhook: &str) -> TestHost {
    let runtime_file = format!("version: 1\naudit: {{ webhook: '{webhook}' }}");
    TestHost::builder()
        .file("a.txt", "a")
        .document("policy.yaml", &policy("destination: webhook"))
        .runtime_file(&runtime_file)
        .build()
        .await
}

#[tokio::test]
async fn a_webhook_has_every_record_as_the_chain_has_it() {
    let collector = Collector::start(Mood::Takes).await;
    let host = told(&format!("{}/records", collector.url())).await;
    for _ in 0..3 {
        host.ask("read_file", json!({ "path": "a.txt" })).await;
    }
    host.host().flush(SOON).await;
    let bodies = collector.wait_for(|received| !received.bodies.is_empty()).await.bodies;
    let copied: Vec<Value> =
        bodies.iter().flat_map(|body| serde_json::from_str::<Vec<Value>>(body).unwrap()).collect();
    assert_eq!(copied, host.records());
}

#[tokio::test]
async fn a_copy_that_cannot_be_made_costs_no_call_and_no_record() {
    let collector = Collector::start(Mood::Hangs).await;
    let host = told(collector.url()).await;
    host.ask("read_file", json!({ "path": "a.txt" })).await;
    host.host().flush(Duration::from_millis(200)).await;
    assert_eq!(host.finished().len(), 1);
    host.check_audit();
}

#[tokio::test]
async fn recordings_go_when_they_are_as_old_as_records_that_go() {
    for (audit, stays) in [("retention: 1d", false), ("log_inputs: false", true)] {
        let [old, new] = ["old", "new"].map(|name| format!("../audit/recordings/{name}.json"));
        let host = TestHost::builder().file(&old, "{}").file(&new, "{}");
        let [old, new] = [old, new].map(|name| host.tool_path(&name));
        File::open(&old).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        let _host = host.document("policy.yaml", &policy(audit)).build().await;
        assert_eq!((old.exists(), new.exists()), (stays, true), "{audit}");
    }
}

#[test]
fn a_webhook_that_nobody_named_is_refused_at_load() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("policy.yaml");
    std::fs::write(&file, policy("destination: webhook, retention: 90d")).unwrap();
    let profiles = manifest::builtin_profiles(folder.path()).unwrap();
    let around = Surroundings { directory: folder.path(), profiles: &profiles };
    let loaded = manifest::load(&clawhost::registry::FileDocuments, &[file], around);
    let mut manifest = loaded.unwrap();
    let terms = manifest.policies.audit();
    assert!(terms.destinations.contains(&Destination::Webhook));
    assert_eq!(terms.retention, Some(Duration::from_secs(90 * 86_400)));
    let errors = Settings::default().apply(&mut manifest).unwrap_err();
    assert!(errors[0].one_line().contains("audit.destination"), "{}", errors[0].one_line());
    let named = "version: 1\naudit: { webhook: 'https://audit.example.com/' }";
    let named = Settings::read(Some((std::path::Path::new("c.yaml"), named.as_bytes())), []);
    assert!(named.unwrap().apply(&mut manifest).is_ok());
}
