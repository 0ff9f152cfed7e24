//! Whatever the parameters are, nothing breaks.

use proptest::prelude::*;
use tokio::sync::mpsc;

use super::*;
use crate::host::Principal;
use crate::serve::ckp::{Answer, Authority, ClawSession};

const METHODS: [&str; 12] = [
    "claw.initialize", "claw.memory.compact", "claw.memory.query", "claw.memory.store",
    "claw.shutdown", "claw.status", "claw.swarm.delegate", "claw.swarm.discover",
    "claw.swarm.report", "claw.tool.approve", "claw.tool.call", "claw.tool.deny",
];

/// Values whose members have the names that parameters have.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~é]{0,12}".prop_map(Value::from),
        Just(json!("claw://tool/x")),
        Just(json!("0.3.0")),
        Just(json!("550e8400-e29b-41d4-a716-446655440000")),
    ];
    let key = prop::sample::select(vec![
        "protocolVersion", "clientInfo", "name", "version", "manifest", "capabilities", "kind",
        "metadata", "spec", "identity", "inline", "tools", "policies", "arguments", "context",
        "request_id", "store", "query", "type", "text", "entries", "content", "task", "swarm",
        "status", "result", "timeout_ms", "reason",
    ]);
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key.clone(), inner, 0..6)
                .prop_map(|map| map.into_iter().collect::<Value>()),
        ]
    })
}

proptest! {
    #[test]
    fn never_panic_and_leave_the_session_as_it_was(
        method in prop::sample::select(METHODS.to_vec()),
        params in value(),
        begun in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (notices, _unasked) = mpsc::channel(1);
            let principal = Principal("tester".to_owned());
            let session = ClawSession::new(Fake::new(), principal, Authority::Operator, notices);
            if begun {
                session.request("claw.initialize", initialize().get("params"));
            }
            if let Answer::Now(Ok(result)) = session.request(method, Some(&params)) {
                prop_assert!(result.is_object());
            }
            // Nothing but the two methods that say so begins or ends a session.
            let moves = matches!(method, "claw.initialize" | "claw.shutdown");
            prop_assert!(moves || session.has_begun() == begun);
            Ok(())
        })?;
    }
}
