//! Definition files, key by key.

use serde_json::json;

use super::*;
use crate::egress::{endpoint, parse_url};
use crate::grants::Grants;

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
    schema: { properties: { path: { maxLength: 9 } } }
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
    assert_eq!(own.schema, Some(json!({"properties": {"path": {"maxLength": 9}}})));
    assert_eq!(all.notes, [""; 0]);
    let Contract { preconditions, postconditions } = &own.contract;
    assert_eq!((preconditions.len(), postconditions.len()), (2, 2));
    assert!(postconditions[1].holds(&json!({"kind": null})));
}

#[test]
fn a_network_policy_narrows_what_is_granted_and_opens_nothing() {
    let policy = |text: &str| {
        let all = read(&format!("  a: {{ network_policy: {{ {text} }} }}")).unwrap();
        all.definitions["a"].network.clone().unwrap()
    };
    let own = "mode: allowlist, hosts: ['*.good.test', 10.0.0.1]";
    let strict = format!("{own}, ports: [8443], schemes: [https], block_private: true");
    for (url, fits, fits_strictly) in [
        ("https://a.good.test/", true, false),
        ("https://a.good.test:8443/", true, true),
        ("http://a.good.test:8443/", true, false),
        ("https://good.test/", false, false),
        ("http://10.0.0.1/", true, false),
        ("https://10.0.0.1:8443/", true, false),
    ] {
        let url = parse_url(url).unwrap();
        assert_eq!(policy(own).check(&url).is_ok(), fits, "{url}");
        assert_eq!(policy(&strict).check(&url).is_ok(), fits_strictly, "{url}");
        assert!(policy("mode: none").check(&url).is_err(), "{url}");
    }
    let network = endpoint("https://a.good.test:8443").ok();
    let mut grants = Grants { network, ..Grants::default() };
    policy(&strict).narrow(&mut grants);
    let reaches =
        |url: &str| grants.network.as_ref().unwrap().check_url(&parse_url(url).unwrap()).is_ok();
    assert!(reaches("https://a.good.test:8443/"));
    assert!(!reaches("https://b.good.test:8443/") && !reaches("http://a.good.test:8443/"));
    let mut none = Grants::default();
    policy(own).narrow(&mut none);
    assert_eq!(none.network, None);
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
fn a_document_in_the_place_of_a_definition_file_is_told_as_that_and_nothing_else() {
    let text = "claw: '0.3.0'\nkind: Policy\nmetadata: {name: p}\nspec: {rules: []}\n";
    let problems = Governance::default().read(Path::new("d.yaml"), text.as_bytes()).unwrap_err();
    let said: Vec<String> = problems.iter().map(DocumentError::one_line).collect();
    let expected = "d.yaml:1:1: this is a CKP document and no definition file (name it among the documents; a definition file begins with `version: 1`)";
    assert_eq!(said, [expected]);
}

#[test]
fn what_is_wrong_is_refused_where_it_stands() {
    for (tools, expected) in [
        (
            "  a: { retry_polcy: {} }",
            "d.yaml:3:8: unknown key `retry_polcy` in `tools.a` (did you mean `retry_policy`?",
        ),
        ("  a: { network_policy: { mode: open } }", "`tools.a.network_policy.mode` is `open`"),
        ("  a: { network_policy: { hosts: [a.test] } }", "network_policy.mode` is missing"),
        ("  a: { network_policy: { mode: none, host: a } }", "unknown key `host`"),
        ("  a: { network_policy: { mode: none, hosts: [a.test] } }", "`mode: none` has `hosts`"),
        ("  a: { network_policy: { mode: allowlist } }", "`mode: allowlist` has no `hosts`"),
        (
            "  a: { network_policy: { mode: allowlist, hosts: ['https://a.test/'] } }",
            "is a URL and no host",
        ),
        (
            "  a: { network_policy: { mode: allowlist, hosts: [a.test], ports: [0] } }",
            "write a whole number from 1 to 65535",
        ),
        (
            "  a: { network_policy: { mode: allowlist, hosts: [a.test], schemes: [ftp] } }",
            "is `ftp`",
        ),
        ("  a: { composite: {} }", "`tools.a.composite.steps` is missing"),
        ("  a: { schema: true }", "`tools.a.schema` is"),
        ("  a: { schema: { type: array } }", "d.yaml:3:24: `schema` is not of `type: object`"),
        (
            "  a: { schema: { properties: { x: { type: strng } } } }",
            "d.yaml:3:43: `schema` cannot be used at `/properties/x/type`",
        ),
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
fn a_keyword_that_is_nearly_another_is_noted_in_every_schema_of_a_definition() {
    let steps = "steps: [{ tool_name: t, output_key: k }]";
    let text = format!(
        "  a: {{ schema: {{ require: [x] }} }}
  b: {{ composite: {{ input_schema: {{ properties: {{ y: {{ maxlength: 1 }} }} }}, {steps} }} }}
  c: {{ metadata: {{ input_schema: {{ propertie: {{}} }}, composite_{steps} }} }}"
    );
    let notes = read(&text).unwrap().notes;
    assert_eq!(notes.len(), 3, "{notes:?}");
    for (note, begins) in notes.iter().zip([
        "d.yaml:3: `require` is no keyword",
        "d.yaml:4: `maxlength` is no keyword",
        "d.yaml:5: `propertie` is no keyword",
    ]) {
        assert!(note.starts_with(begins), "{note}");
    }
}

#[test]
fn a_tool_that_nobody_knows_is_a_problem_with_its_place() {
    let all = read("  raed_file: {}\n  write_file: {}").unwrap();
    let names = ["read-file", "write-file"].map(str::to_owned);
    let strays = all.strays(&names, |_| false);
    let lines: Vec<String> = strays.iter().map(DocumentError::one_line).collect();
    assert_eq!(lines.len(), 1);
    let expected = "d.yaml:3:3: no tool is called `raed-file` (did you mean `read-file`?";
    assert!(lines[0].starts_with(expected), "{lines:?}");
    let all = read("  raed_file: {}\n  make_coffee: {}").unwrap();
    let strays = |may_come| all.strays(&names, |_| may_come);
    assert_eq!((strays(false).len(), strays(true).len()), (2, 1), "a slip is one in any case");
}

#[test]
fn a_server_s_tool_is_meant_by_each_of_its_names() {
    let names = ["git-read-file", "git--read-file"].map(str::to_owned);
    for key in ["git-read-file", "git__read_file", "mcp.git.read_file"] {
        assert_eq!(read(&format!("  {key}: {{}}")).unwrap().strays(&names, |_| false).len(), 0);
    }
    let twice = read("  git-read-file: {}\n  mcp.git.read_file: {}").unwrap_err();
    assert!(twice[0].contains("a second time"), "{twice:?}");
    let strays = read("  mcp.git: {}").unwrap().strays(&names, |_| false);
    assert!(strays[0].one_line().contains("no tool is called `mcp.git`"));
}
