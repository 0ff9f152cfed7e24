//! Definition files, key by key.

use serde_json::json;

use super::*;

fn read(tools: &str) -> Result<Governance, Vec<String>> {
    let mut all = Governance::default();
    let text = format!("version: 1\ntools:\n{tools}\n");
    match all.read(Path::new("d.yaml"), text.as_bytes()) {
        Ok(()) => Ok(all),
        Err(list) => Err(list.iter().map(DocumentError::one_line).collect()),
    }
}

const FULL: &str = r#"  read_file:
    retry_policy: { max_attempts: 4, initial_ms: 100, multiplier: 1.5, max_ms: 900, jitter: 0.25, retry_on: [timeout, rate_limited] }
    cost_hint: { usd_per_call: 0.002, tokens: 10, latency_ms: 5, class: cheap }
    repair_policy: { max_attempts: 2 }
    contract:
      preconditions:
        - { field: args.path, operator: not_empty }
        - { field: args.path, operator: matches_type, value: string }
      postconditions:
        - { field: result.content, operator: exists }
        - { field: result.kind, operator: equals, value: null }"#;

#[test]
fn every_key_is_read() {
    let all = read(FULL).unwrap();
    let own = &all.definitions["read-file"];
    let plan = own.plan(&Map::new()).unwrap();
    assert_eq!((plan.max_attempts, plan.initial_delay_ms, plan.delay_max_ms), (4, 100, 900));
    assert_eq!((plan.multiplier_permille, plan.jitter_permille), (1_500, 250));
    assert_eq!(plan.on, RetryOn { rate_limited: true, timeout: true, unavailable: false });
    assert_eq!(own.cost_hint.as_ref().unwrap()["usd_per_call"], json!(0.002));
    assert_eq!(own.repair_attempts_max, Some(2));
    let Contract { preconditions, postconditions } = &own.contract;
    assert_eq!((preconditions.len(), postconditions.len()), (2, 2));
    assert!(postconditions[1].holds(&json!({"kind": null})));
}

#[test]
fn a_policy_is_for_what_is_declared_idempotent_or_for_failures_that_are_stated() {
    let all = read("  a: { retry_policy: { max_attempts: 2 } }").unwrap();
    let attempts = |declared: Value| {
        let declared = declared.as_object().cloned().unwrap_or_default();
        all.definitions["a"].plan(&declared).unwrap().max_attempts
    };
    assert_eq!(attempts(json!({"idempotentHint": true})), 2);
    assert_eq!(attempts(json!({"idempotentHint": false})), 1);
    assert_eq!(attempts(json!({})), 1);
    let stated = read("  a: { retry_policy: { max_attempts: 2, retry_on: [unavailable] } }");
    assert_eq!(stated.unwrap().definitions["a"].plan(&Map::new()).unwrap().max_attempts, 2);
}

#[test]
fn what_is_wrong_is_refused_where_it_stands() {
    for (tools, expected) in [
        (
            "  a: { retry_polcy: {} }",
            "d.yaml:3:8: unknown key `retry_polcy` in `tools.a` (did you mean `retry_policy`?",
        ),
        (
            "  a: { network_policy: { mode: none } }",
            ":3:8: `tools.a.network_policy` is not served by this version",
        ),
        ("  a: { composite: {} }", "`tools.a.composite` is not served by this version"),
        ("  a: { retry_policy: {} }", "`tools.a.retry_policy.max_attempts` is missing"),
        ("  a: { retry_policy: { max_attempts: 11 } }", "write a whole number from 1 to 10"),
        (
            "  a: { retry_policy: { max_attempts: 2, multiplier: 0.5 } }",
            "`multiplier` is less than 1",
        ),
        ("  a: { retry_policy: { max_attempts: 2, jitter: 2 } }", "write a number from 0 to 1"),
        (
            "  a: { retry_policy: { max_attempts: 2, initial_ms: 9, max_ms: 8 } }",
            "`max_ms` is less than the first wait",
        ),
        ("  a: { retry_policy: { max_attempts: 2, retry_on: [always] } }", "is `always`"),
        (
            "  a: { contract: { preconditions: [{ field: args.x, operator: is }] } }",
            "`tools.a.contract.preconditions[0].operator` is `is`",
        ),
        (
            "  a: { contract: { preconditions: [{ field: result.x, operator: exists }] } }",
            "`result.x` is no field of `args`",
        ),
        (
            "  a: { contract: { postconditions: [{ field: result..x, operator: exists }] } }",
            "`result..x` is no field of `result`",
        ),
        (
            "  a: { contract: { preconditions: [{ field: args.x, operator: exists, value: 1 }] } }",
            "`exists` takes no value",
        ),
        (
            "  a: { contract: { preconditions: [{ field: args.x, operator: equals }] } }",
            "`equals` needs a value",
        ),
        (
            "  a: { contract: { preconditions: [{ field: args.x, operator: matches_type, value: strng }] } }",
            "did you mean `string`?",
        ),
        ("  a_b: { cost_hint: { tokens: 1 } }\n  a-b: {}", ":4:3: `a-b` is defined a second time"),
        (
            "  a: { cost_hint: { usd_per_call: -1 } }",
            "`tools.a.cost_hint.usd_per_call` is the number -1",
        ),
    ] {
        let problems = read(tools).unwrap_err();
        assert!(problems.iter().any(|line| line.contains(expected)), "{tools}: {problems:#?}");
    }
    let mut all = Governance::default();
    assert!(all.read(Path::new("d.yaml"), b"tools: {}").is_err(), "no version");
    assert!(all.read(Path::new("d.yaml"), b"\xff").is_err());
    let many = "{field: args, operator: exists}, ".repeat(CONTRACT_CONDITIONS_MAX + 1);
    assert!(read(&format!("  a: {{contract: {{preconditions: [{many}]}}}}")).is_err());
}

#[test]
fn a_tool_that_nobody_knows_is_a_problem_with_its_place() {
    let all = read("  raed_file: {}\n  write_file: {}").unwrap();
    let names = ["read-file", "write-file"].map(str::to_owned);
    let strays = all.strays(|name| names.iter().any(|known| known == name), &names);
    let lines: Vec<String> = strays.iter().map(DocumentError::one_line).collect();
    assert_eq!(lines.len(), 1);
    let expected = "d.yaml:3:3: no tool is called `raed-file` (did you mean `read-file`?";
    assert!(lines[0].starts_with(expected), "{lines:?}");
}
