//! What a session's manifest may say, what it narrows, and what is refused.

use std::collections::BTreeSet;

use serde_json::json;

use super::super::{OneDocument, load};
use super::*;
use crate::uri::Kind;

fn base() -> Manifest {
    loaded(&complete())
}

fn loaded(document: &Value) -> Manifest {
    let profiles = super::super::builtin_profiles(Path::new("/")).unwrap();
    let around = Surroundings { directory: Path::new("/"), profiles: &profiles };
    let document = OneDocument(document.to_string().into_bytes());
    load(&document, &["manifest".into()], around).unwrap()
}

fn complete() -> Value {
    let mut value = minimal();
    value["claw"] = json!("0.3.0");
    value
}

fn minimal() -> Value {
    json!({
        "kind": "Claw",
        "metadata": {"name": "visitor"},
        "spec": {
            "identity": {"inline": {"personality": "Visits."}},
            "providers": [{"inline": {
                "protocol": "openai-compatible", "endpoint": "http://localhost:11434/v1",
                "model": "none", "auth": {"type": "none"},
            }}],
        },
    })
}

fn read(value: &Value) -> Result<SessionManifest, SessionErrors> {
    SessionManifest::read(value, "0.2.0", &base())
}

fn with(pointer: &str, inner: Value) -> Value {
    let mut value = minimal();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    value.pointer_mut(parent).unwrap()[key] = inner;
    value
}

#[test]
fn the_smallest_manifest_narrows_nothing() {
    let session = read(&minimal()).unwrap();
    assert_eq!((session.name.as_str(), session.identity.as_str()), ("visitor", "visitor"));
    assert!(session.autonomy.is_none() && session.sandbox.is_none());
    assert!(session.tool("any").is_some_and(|tool| tool.grants.is_none()));
    assert!(session.policies.is_none());
}

#[test]
fn the_version_may_be_left_out_or_be_the_session_s_and_no_other() {
    assert!(read(&complete()).is_ok());
    assert!(read(&with("/claw", json!("0.2.0"))).is_ok());
    let refused = read(&with("/claw", json!("0.9.0"))).unwrap_err();
    assert_eq!((refused.code, refused.problems[0].at.as_str()), (MANIFEST_INVALID, "/claw"));
}

#[test]
fn what_is_stated_narrows() {
    let mut value = with("/spec/tools", json!([{"name": "read-file"}]));
    value["spec"]["identity"]["inline"]["autonomy"] = json!("observer");
    value["spec"]["policies"] = json!([{"inline": {"rules": [
        {"id": "none", "action": "deny", "scope": "all"}]}}]);
    value["spec"]["sandbox"] = json!({"inline": {"level": "wasm"}});
    let session = read(&value).unwrap();
    assert_eq!(session.autonomy, Some(Autonomy::Observer));
    let grants = session.tool("read-file").unwrap().grants.as_ref().unwrap();
    assert_eq!(grants.profile, "sandbox-0");
    assert!(session.tool("write-file").is_none());
    assert_eq!(session.policies.unwrap().policies().len(), 1);
}

/// What no call is held to, where it stands, and whether the host may say it too.
fn unheld() -> Vec<(&'static str, Value, &'static str, bool)> {
    let tool = |key: &str, value: Value| json!([{"inline": {"name": "t", "description": "d", "input_schema": {}, key: value}}]);
    let policy = |key: &str, value: Value| json!([{"inline": {"rules": [{"id": "r", "action": "allow", "scope": "all"}], key: value}}]);
    let sandbox = |key: &str, value: Value| json!({"inline": {"level": "wasm", key: value}});
    let provider = json!([{"inline": {"protocol": "custom", "endpoint": "http://localhost:1",
        "model": "m", "auth": {"type": "none"}, "limits": {"tokens_per_day": 1}}}]);
    let swarm = json!({"inline": {"topology": "pipeline",
        "agents": [{"identity_ref": "a", "role": "r"}], "aggregation": {"strategy": "chain"},
        "coordination": {"message_passing": "queue", "backend": "in-process", "concurrency": {}}}});
    let skill = json!([{"inline": {"description": "d", "instruction": "i",
        "tools_required": ["read-file"], "permissions": {"approval_required": true}}}]);
    let world =
        json!([{"inline": {"paradigm": "implicit", "backend": {"type": "custom", "ref": "x"}}}]);
    let channel =
        json!([{"inline": {"type": "cli", "transport": "stdio", "auth": {"secret_ref": "S"}}}]);
    vec![
        ("channels", channel, "/spec/channels/0/inline", false),
        (
            "memory",
            json!({"inline": {"stores": [{"name": "s", "type": "semantic"}]}}),
            "/spec/memory/inline",
            true,
        ),
        (
            "policies",
            policy("audit", json!({"retention": "9d"})),
            "/spec/policies/0/inline/audit/retention",
            true,
        ),
        (
            "policies",
            policy("audit", json!({"destination": "syslog"})),
            "/spec/policies/0/inline/audit/destination",
            true,
        ),
        (
            "policies",
            policy("rate_limits", json!({"tokens_per_hour": 9})),
            "/spec/policies/0/inline/rate_limits/tokens_per_hour",
            true,
        ),
        (
            "policies",
            policy("rate_limits", json!({"cost_per_day_usd": 9})),
            "/spec/policies/0/inline/rate_limits/cost_per_day_usd",
            true,
        ),
        ("providers", provider, "/spec/providers/0/inline/limits", true),
        (
            "sandbox",
            sandbox("resource_limits", json!({"cpu_shares": 1})),
            "/spec/sandbox/inline/resource_limits/cpu_shares",
            false,
        ),
        (
            "sandbox",
            sandbox("capabilities", json!({"secrets": {"leak_detection": {"enabled": true}}})),
            "/spec/sandbox/inline/capabilities/secrets/leak_detection",
            false,
        ),
        ("skills", skill, "/spec/skills/0/inline/permissions", false),
        ("swarm", swarm, "/spec/swarm/inline", true),
        (
            "telemetry",
            json!({"inline": {"exporters": [{"type": "console"}]}}),
            "/spec/telemetry/inline",
            true,
        ),
        ("tools", tool("retry", json!({"max_attempts": 2})), "/spec/tools/0/inline/retry", true),
        ("world_models", world, "/spec/world_models/0/inline", false),
    ]
}

fn with_tool(key: &str, value: Value) -> Value {
    let mut manifest = with(&format!("/spec/{key}"), value);
    if key == "skills" {
        manifest["spec"]["tools"] = json!([{"name": "read-file"}]);
    }
    manifest
}

#[test]
fn what_no_call_is_held_to_is_refused_with_its_place() {
    for (key, value, at, _) in unheld() {
        let refused = read(&with_tool(key, value.clone())).expect_err(&value.to_string());
        let places: Vec<&str> = refused.problems.iter().map(|one| one.at.as_str()).collect();
        assert_eq!((refused.code, places), (MANIFEST_INVALID, vec![at]), "{refused:?}");
        let problem = &refused.problems[0];
        assert!(problem.reason.contains(at.rsplit('/').next().unwrap()) || at.ends_with("inline"));
        assert!(problem.help.as_ref().unwrap().starts_with("leave it out"), "{problem:?}");
    }
}

#[test]
fn a_keyword_of_a_tool_s_schema_that_is_nearly_another_is_refused_with_its_place() {
    let sent = |schema: Value| {
        with_tool(
            "tools",
            json!([{"inline": {"name": "t", "description": "d", "input_schema": schema}}]),
        )
    };
    let refused = read(&sent(json!({"properties": {"x": {"maxlength": 5}}}))).unwrap_err();
    assert_eq!((refused.code, refused.problems.len()), (MANIFEST_INVALID, 1), "{refused:?}");
    let problem = &refused.problems[0];
    assert_eq!(problem.at, "/spec/tools/0/inline/input_schema/properties/x/maxlength");
    assert!(problem.reason.contains("restricts nothing"), "{problem:?}");
    assert!(problem.help.as_ref().unwrap().contains("`maxLength`"), "{problem:?}");
    assert!(read(&sent(json!({"properties": {"typ": {"x-format": 1, "maxLength": 5}}}))).is_ok());
}

#[test]
fn what_the_host_s_manifest_says_too_is_no_restriction_of_the_session_s() {
    for (key, value, _, may) in unheld() {
        let mut own = with_tool(key, value.clone());
        own["claw"] = json!("0.3.0");
        let session = SessionManifest::read(&own, "0.3.0", &loaded(&own));
        assert_eq!(session.is_ok(), may, "{value}: {session:?}");
    }
    // The host's bound may be the stricter one, and not the laxer.
    let rate = |tokens: u64| {
        let policy = json!([{"inline": {"rules": [{"id": "r", "action": "allow", "scope": "all"}],
            "rate_limits": {"tokens_per_hour": tokens}}}]);
        let mut manifest = with("/spec/policies", policy);
        manifest["claw"] = json!("0.3.0");
        manifest
    };
    assert!(SessionManifest::read(&rate(9), "0.3.0", &loaded(&rate(8))).is_ok());
    assert!(SessionManifest::read(&rate(9), "0.3.0", &loaded(&rate(10))).is_err());
}

#[test]
fn a_sandbox_that_is_sent_names_whole_paths() {
    let files = |key: &str, value: Value| {
        let mut files = json!({"mode": "scoped",
            "mount_paths": [{"path": "/w", "permissions": "ro"}]});
        files[key] = value;
        with(
            "/spec/sandbox",
            json!({"inline": {"level": "wasm",
            "capabilities": {"filesystem": files}}}),
        )
    };
    let mount = |path: &str| json!([{"path": path, "permissions": "ro"}]);
    assert!(read(&files("denied_paths", json!(["/w/x"]))).is_ok());
    for (key, value, below) in [
        ("mount_paths", mount("./workspace"), "mount_paths/0/path"),
        ("mount_paths", mount("/w/../etc"), "mount_paths/0/path"),
        ("denied_paths", json!(["/w/x", "secret"]), "denied_paths/1"),
    ] {
        let refused = read(&files(key, value)).unwrap_err();
        let at = format!("/spec/sandbox/inline/capabilities/filesystem/{below}");
        assert_eq!((refused.code, &refused.problems[0].at), (INVALID_PARAMS, &at));
    }
}

#[test]
fn what_is_said_of_a_tool_narrows_it() {
    let tools = json!([
        {"name": "short", "sandbox": "claw://local/sandbox/none"},
        {"inline": {"name": "long", "description": "d", "input_schema": {}, "timeout_ms": 7,
            "sandbox_ref": "workspace", "annotations": {"idempotentHint": false}}},
        {"inline": {"name": "bare", "description": "d", "input_schema": {}}},
    ]);
    let session = read(&with("/spec/tools", tools)).unwrap();
    let grants = |name| session.tool(name).unwrap().grants.as_ref();
    assert_eq!(grants("short").unwrap().profile, "none");
    assert_eq!(grants("long").unwrap().profile, "workspace");
    assert!(grants("bare").is_none());
    let long = session.tool("long").unwrap();
    assert_eq!(long.timeout, Some(std::time::Duration::from_millis(7)));
    assert_eq!(grants("long").unwrap().limits.timeout, long.timeout.unwrap());
    let plan = crate::retry::RetryPlan::default();
    assert_eq!(long.retry(plan).max_attempts, 1);
    assert_eq!(session.tool("bare").unwrap().retry(plan), plan);
}

#[test]
fn only_a_hint_that_asks_for_more_care_changes_what_the_host_declares() {
    let careful = |said: Value, declared: Value| {
        let tool = json!([{"inline": {"name": "t", "description": "d", "input_schema": {},
            "annotations": said}}]);
        let session = read(&with("/spec/tools", tool)).unwrap();
        session.tool("t").unwrap().careful(declared.as_object().unwrap()).map(Value::from)
    };
    let (yes, no) = (json!({"readOnlyHint": true}), json!({"readOnlyHint": false}));
    assert_eq!(careful(no.clone(), yes.clone()), Some(no.clone()));
    for (said, declared) in
        [(&yes, &no), (&yes, &yes), (&no, &json!({})), (&json!({"risk": 1}), &yes)]
    {
        assert_eq!(careful(said.clone(), declared.clone()), None, "{said} {declared}");
    }
}

#[test]
fn what_no_wire_carries_is_refused_with_its_place() {
    let cases = [
        ("/spec/identity", json!("./identity.yaml"), "/spec/identity"),
        ("/spec/tools", json!(["tools/*.yaml"]), "/spec/tools/0"),
        ("/spec/tools", json!(["claw://tool/read-file"]), "/spec/tools/0"),
        ("/spec/sandbox", json!("mcp://server/tool"), "/spec/sandbox"),
        (
            "/spec/tools",
            json!([{"name": "read-file", "sandbox": "claw://sandbox/none"}]),
            "/spec/tools/0/sandbox",
        ),
        (
            "/spec/tools",
            json!([{"inline": {"description": "d", "input_schema": {},
                "policy_ref": "claw://policy/x"}}]),
            "/spec/tools/0/inline/policy_ref",
        ),
        (
            "/spec/swarm",
            json!({"inline": {"topology": "pipeline",
                "agents": [{"identity_ref": "claw://identity/a", "role": "r"}],
                "coordination": {"message_passing": "queue", "backend": "in-process",
                    "concurrency": {}}, "aggregation": {"strategy": "chain"}}}),
            "/spec/swarm/inline/agents/0/identity_ref",
        ),
    ];
    for (pointer, entry, at) in cases {
        let refused = read(&with(pointer, entry.clone())).unwrap_err();
        let first = refused.problems.first().unwrap();
        assert_eq!((refused.code, first.at.as_str()), (INVALID_PARAMS, at), "{entry}");
        // What is said travels, so that no alias is in it.
        let said = format!("{refused:?}");
        let is_said = |kind: Kind| said.contains(&format!("claw://{}/", kind.segment()));
        assert!(!Kind::ALL.into_iter().any(is_said), "{said}");
    }
}

#[test]
fn what_is_sent_is_mended_without_an_alias() {
    for wrong in ["", "a b", "claw://sandbox/a_b", "CLAW://sandbox/a", "claw:sandbox/a"] {
        let tools = json!([{"name": "read-file", "sandbox": wrong}]);
        let refused = read(&with("/spec/tools", tools)).unwrap_err();
        let help = refused.problems[0].help.as_ref().unwrap();
        assert!(help.contains("claw://local/sandbox/"), "{wrong}: {help}");
        assert!(!help.contains("claw://sandbox/"), "{wrong}: {help}");
    }
}

#[test]
fn tools_and_a_sandbox_of_the_host_may_be_named_by_their_addresses() {
    let mut value = with("/spec/tools", json!(["claw://local/tool/read-file"]));
    value["spec"]["sandbox"] = json!("claw://local/sandbox/workspace");
    let session = read(&value).unwrap();
    let grants = session.tool("read-file").unwrap().grants.as_ref().unwrap();
    assert_eq!(grants.profile, "workspace");
    assert!(session.tool("write-file").is_none());
    // It is no sandbox of the session's own: the host knows where its paths lead.
    assert!(session.sandbox.is_none());
    for (pointer, entry, at) in [
        ("/spec/policies", json!(["claw://local/policy/base"]), "/spec/policies/0"),
        ("/spec/identity", json!("claw://local/identity/a"), "/spec/identity"),
        ("/spec/tools", json!(["claw://local/sandbox/none"]), "/spec/tools/0"),
        ("/spec/sandbox", json!("claw://local/sandbox/nobody"), "/spec/sandbox"),
    ] {
        let refused = read(&with(pointer, entry.clone())).unwrap_err();
        let first = refused.problems.first().unwrap();
        assert_eq!((refused.code, first.at.as_str()), (PRIMITIVE_NOT_FOUND, at), "{entry}");
        assert!(!first.help.as_ref().unwrap().contains("path of its document"), "{first:?}");
    }
}

#[test]
fn what_is_of_the_host_is_named_in_the_version_that_it_has() {
    let mut host = complete();
    host["spec"]["sandbox"] =
        json!({"metadata": {"name": "sb", "version": "1.2.0"}, "inline": {"level": "wasm"}});
    let tool = json!({"name": "t", "description": "d", "input_schema": {}});
    host["spec"]["tools"] = json!([{"metadata": {"version": "2.0.0"}, "inline": tool}]);
    let host = loaded(&host);
    let read = |sandbox: &str, tool: &str| {
        let mut sent = with("/spec/sandbox", json!(format!("claw://local/sandbox/{sandbox}")));
        sent["spec"]["tools"] = json!([format!("claw://local/tool/{tool}")]);
        SessionManifest::read(&sent, "0.3.0", &host)
    };
    let session = read("sb@1.2.0", "t@2.0.0").unwrap();
    assert_eq!(session.version_of(Kind::Tool, "t"), Some("2.0.0"));
    for (sandbox, tool, at) in [
        ("sb@7.7.7", "t", "/spec/sandbox"),
        ("sb", "t@7.7.7", "/spec/tools/0"),
        ("sb", "read-file@1.0.0", "/spec/tools/0"),
    ] {
        let refused = read(sandbox, tool).unwrap_err();
        let first = refused.problems.first().unwrap();
        assert_eq!((refused.code, first.at.as_str()), (PRIMITIVE_NOT_FOUND, at), "{refused:?}");
    }
    // The address of a registry is that of what the host has; nothing is fetched.
    let listed = |address: &str| {
        SessionManifest::read(&with("/spec/tools", json!([address])), "0.3.0", &host)
    };
    let session = listed("claw://registry/team/t@2.0.0").unwrap();
    assert!(session.tool("t").is_some() && session.tool("read-file").is_none());
    let refused = listed("claw://registry/team/t@7.7.7").unwrap_err();
    assert_eq!(refused.code, PRIMITIVE_NOT_FOUND);
    assert!(refused.problems[0].reason.contains("nothing that a session may list"), "{refused:?}");
    // A sandbox that the session brings has its own, and none of the host's of that name.
    let mut own =
        with("/spec/sandbox", json!({"metadata": {"name": "sb"}, "inline": {"level": "wasm"}}));
    own["spec"]["tools"] = json!([{"name": "t", "sandbox": "claw://local/sandbox/sb@1.2.0"}]);
    let refused = SessionManifest::read(&own, "0.3.0", &host).unwrap_err();
    assert_eq!(refused.problems[0].at, "/spec/tools/0/sandbox", "{refused:?}");
}

#[test]
fn an_unnamed_sandbox_of_the_host_can_be_named_by_its_address() {
    let mut base = complete();
    base["spec"]["sandbox"] = json!({"inline": {"level": "wasm"}});
    let sent = with("/spec/sandbox", json!("claw://local/sandbox/sandbox-0"));
    let session = SessionManifest::read(&sent, "0.3.0", &loaded(&base)).unwrap();
    assert_eq!(session.tool("any").unwrap().grants.as_ref().unwrap().profile, "sandbox-0");
}

#[test]
fn what_was_sent_twice_is_told_without_lines() {
    let policy = json!([{"inline": {"rules": [
        {"id": "r", "action": "deny", "scope": "all"}, {"id": "r", "action": "deny", "scope": "all"}]}}]);
    let nameless =
        json!([{"name": "tool-1"}, {"inline": {"description": "d", "input_schema": {}}}]);
    for (pointer, entry, reason) in [
        (
            "/spec/tools",
            json!([{"name": "a"}, {"name": "a"}]),
            "the tool `a` is listed twice: the first is an entry before it",
        ),
        ("/spec/policies", policy, "a second rule `r`: the first is an entry before it"),
        (
            "/spec/tools",
            nameless,
            "this entry has no name, and the one made for it, `tool-1`, is taken: the first is an entry before it",
        ),
    ] {
        assert_eq!(read(&with(pointer, entry)).unwrap_err().problems[0].reason, reason);
    }
}

#[test]
fn what_the_document_lacks_is_said_with_its_place() {
    let mut value = minimal();
    value["spec"]["identity"]["inline"] = json!({"personality": "", "humour": 1});
    let refused = read(&value).unwrap_err();
    assert_eq!(refused.code, MANIFEST_INVALID);
    let places: BTreeSet<&str> = refused.problems.iter().map(|p| p.at.as_str()).collect();
    let expected = ["/spec/identity/inline/humour", "/spec/identity/inline/personality"];
    assert_eq!(places, BTreeSet::from(expected));
    for (value, code) in [
        (json!({}), MANIFEST_INVALID),
        (json!({"kind": "Claw", "metadata": {"name": "a"}, "spec": {}}), MANIFEST_INVALID),
        (
            json!({"kind": "Tool", "metadata": {"name": "a"}, "spec": {"description": "d",
            "input_schema": {"type": "object"}}}),
            MANIFEST_INVALID,
        ),
        (with("/spec/tools", json!(["claw://registry/a/b@1.0.0"])), PRIMITIVE_NOT_FOUND),
        (with("/spec/tools", json!([{"name": "x", "policy": "nobody"}])), PRIMITIVE_NOT_FOUND),
    ] {
        assert_eq!(read(&value).unwrap_err().code, code, "{value}");
    }
}

#[test]
fn a_manifest_is_bounded_before_anything_is_made_of_it() {
    let large = with("/metadata/annotations", json!({"x": "y".repeat(300_000)}));
    let listing = with("/spec/tools", json!(vec![json!({"name": "read-file"}); 101]));
    let deep = (0..100).fold(json!([0, 0]), |inner, _| json!({"k".repeat(80): inner}));
    for (value, says) in [
        (large, "more than 262144 bytes"),
        (listing, "more than 100 entries"),
        (with("/metadata/annotations", deep), "nested deeper than 32 levels"),
    ] {
        let refused = read(&value).unwrap_err();
        assert_eq!((refused.code, refused.problems.len()), (MANIFEST_INVALID, 1));
        assert!(refused.problems[0].reason.contains(says), "{refused:?}");
    }
}

#[test]
fn however_much_is_wrong_the_answer_is_short() {
    let aliases: Vec<String> = (0..9_000).map(|n| format!("claw://tool/t{n}")).collect();
    let skill = json!([{"inline": {"description": "d", "instruction": "i",
        "tools_required": aliases}}]);
    let keys: serde_json::Map<_, _> =
        (0..9_000).map(|n| (format!("\u{e0001}{n}"), json!(1))).collect();
    for value in [with("/spec/skills", skill), with("/spec/identity/inline", json!(keys))] {
        let refused = read(&value).unwrap_err();
        assert_eq!(refused.problems.len(), 101);
        assert!(format!("{refused:?}").len() < 200_000);
    }
}

#[test]
fn what_json_allows_in_a_text_is_read() {
    let mut value = minimal();
    value["metadata"]["annotations"] = json!({"x": "\u{7f}", "k".repeat(2_000): 1});
    assert!(read(&value).is_ok());
}
