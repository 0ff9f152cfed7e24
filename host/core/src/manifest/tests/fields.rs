//! What a Claw says beside its tools: names, kinds, heartbeat, retries.

use std::time::Duration;

use super::*;
use crate::limits::{HEARTBEAT_FLOOR_MS, HEARTBEAT_MS};
use crate::retry::{Backoff, RetryPlan};
use crate::uri::Kind;

fn loaded(text: &str) -> Manifest {
    load_text(text).unwrap_or_else(|list| panic!("{}", list[0].one_line()))
}

#[test]
fn names_that_are_not_given_are_made_and_those_that_are_win() {
    let manifest = loaded(&claw(
        r#"  sandbox: { inline: { level: wasm } }
  tools:
    - { name: read-file }
    - inline: { description: d, input_schema: {} }
    - inline: { name: own, description: d, input_schema: {} }
    - { metadata: { name: beside }, inline: { description: d, input_schema: {} } }
    - inline: { description: d, input_schema: {} }
  policies:
    - inline: { rules: [{ id: r, action: deny, scope: all }] }
"#,
    ));
    let names: Vec<&str> = manifest.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["read-file", "tool-1", "own", "beside", "tool-4"]);
    assert_eq!(manifest.default_profile_name(), "sandbox-0");
    assert_eq!(manifest.policies.policies()[0].name, "policy-0");
    assert_eq!((manifest.name.as_str(), manifest.identity.as_str()), ("test-agent", "test-agent"));
    let named = HEAD.replace(
        "identity: { inline: { personality: careful } }",
        "identity: { metadata: { name: somebody }, inline: { personality: careful } }",
    );
    assert_eq!(loaded(&named).identity, "somebody");
}

#[test]
fn the_kinds_are_those_of_documents_and_entries() {
    let kinds = |rest: &str| loaded(&claw(rest)).kinds.into_iter().collect::<Vec<_>>();
    assert_eq!(kinds(""), [Kind::Identity, Kind::Provider]);
    assert_eq!(
        kinds("  tools: [{ name: read-file }]\n  sandbox: claw://sandbox/workspace\n"),
        [Kind::Identity, Kind::Provider, Kind::Sandbox, Kind::Tool]
    );
}

#[test]
fn the_heartbeat_is_the_claws_unless_it_is_off_or_too_fast() {
    let heartbeat = |annotations: &str| {
        let text = HEAD.replace("  version: 1.0.0\n", &format!("  annotations: {annotations}\n"));
        loaded(&text).heartbeat.map(|time| time.as_millis())
    };
    assert_eq!(heartbeat("{}"), Some(u128::from(HEARTBEAT_MS)));
    assert_eq!(heartbeat("{ heartbeat_interval_ms: 45000, other: [1] }"), Some(45_000));
    assert_eq!(heartbeat("{ heartbeat_interval_ms: 1 }"), Some(u128::from(HEARTBEAT_FLOOR_MS)));
    assert_eq!(heartbeat("{ heartbeat_interval_ms: 0 }"), None);
    for wrong in ["soon", "-1", "1.5", "null"] {
        let annotations = format!("  annotations: {{ heartbeat_interval_ms: {wrong} }}\n");
        let text = HEAD.replace("  version: 1.0.0\n", &annotations);
        assert_eq!(problems(load_text(&text)).len(), 1, "{wrong}");
    }
}

#[test]
fn retries_have_the_protocols_defaults() {
    let retry = |text: &str| {
        let tools =
            format!("  tools: [{{ inline: {{ description: d, input_schema: {{}}{text} }} }}]\n");
        loaded(&claw(&tools)).tools[0].retry
    };
    assert_eq!(retry(""), None);
    let default = RetryPlan::default();
    assert_eq!(default.max_attempts, 3);
    assert_eq!(retry(", retry: {}"), Some(default));
    assert_eq!(
        retry(", retry: { max_attempts: 7, backoff: linear }, timeout_ms: 5"),
        Some(RetryPlan { max_attempts: 7, backoff: Backoff::Linear, ..default })
    );
    assert_eq!(
        loaded(&claw(
            "  tools: [{ inline: { description: d, input_schema: {}, timeout_ms: 5 } }]\n"
        ))
        .tools[0]
            .timeout,
        Some(Duration::from_millis(5))
    );
}

#[test]
fn a_retry_of_what_may_not_be_repeated_is_noted() {
    let notes = |text: &str| {
        let tools =
            format!("  tools: [{{ inline: {{ description: d, input_schema: {{}}{text} }} }}]\n");
        let notes = loaded(&claw(&tools)).notes;
        notes.into_iter().filter(|note| note.contains("`retry` of `tool-0`")).count()
    };
    assert_eq!(notes(""), 0);
    assert_eq!(notes(", retry: { max_attempts: 1 }"), 0);
    assert_eq!(notes(", retry: {}"), 1);
    assert_eq!(notes(", retry: {}, annotations: { idempotentHint: false }"), 1);
    assert_eq!(notes(", retry: {}, annotations: { idempotentHint: true }"), 0);
}

#[test]
fn the_schema_of_arguments_is_for_an_object() {
    for (schema, is_taken) in [
        ("{}", true),
        ("{ type: object }", true),
        ("{ type: array }", false),
        ("{ type: [object, 'null'] }", false),
    ] {
        let own = "description: d, output_schema: { type: array }";
        let text = format!("  tools: [{{ inline: {{ {own}, input_schema: {schema} }} }}]\n");
        let refused = problems(load_text(&claw(&text)));
        assert_eq!(refused.is_empty(), is_taken, "{schema}: {refused:?}");
        assert!(is_taken || refused[0].ends_with("(write `type: object`)"), "{refused:?}");
    }
}

#[test]
fn a_skill_has_schemas_that_its_tool_can_be_held_to() {
    let skill = |schema: &str| {
        let spec = "description: d, instruction: i, tools_required: [read-file]";
        let tools = "  tools: [{ name: read-file }]\n";
        let text = claw(&format!("{tools}  skills: [{{ inline: {{ {spec}, {schema} }} }}]\n"));
        problems(load_text(&text))
    };
    for (schema, reason) in [
        ("input_schema: { type: objct }", "`input_schema` cannot be used at `/type`"),
        ("input_schema: { type: array }", "`input_schema` is not of `type: object`"),
        ("output_schema: { pattern: '(' }", "`output_schema` cannot be used at `/pattern`"),
    ] {
        let refused = skill(schema);
        assert!(refused.len() == 1 && refused[0].contains(reason), "{schema}: {refused:?}");
    }
    assert!(skill("input_schema: { type: object }, output_schema: { type: array }").is_empty());
}

/// Documents that refer to each other, by these names of a Sandbox, a Policy and a Tool.
fn referring(sandbox: &str, policy: &str, tool: &str) -> String {
    claw(&format!(
        r#"  sandbox: {{ metadata: {{ name: sb, version: 1.2.0 }}, inline: {{ level: wasm }} }}
  policies: [ {{ inline: {{ name: p, rules: [ {{ id: r, action: allow, scope: all }} ] }} }} ]
  tools:
    - claw://local/tool/read-file
    - inline:
        name: t
        description: d
        input_schema: {{}}
        sandbox_ref: claw://local/sandbox/{sandbox}
        policy_ref: claw://local/policy/{policy}
  skills:
    - inline: {{ description: d, instruction: i, tools_required: [ "claw://local/tool/{tool}" ] }}
"#
    ))
}

#[test]
fn a_reference_names_the_version_that_is_there() {
    // Entries without a version of their own have the Claw's.
    let manifest = loaded(&referring("sb@1.2.0", "p@1.0.0", "t@1.0.0"));
    assert_eq!(manifest.tools[1].version.as_deref(), Some("1.0.0"));
    assert_eq!(manifest.version_of(Kind::Sandbox, "sb"), Some("1.2.0"));
    assert_eq!(manifest.version_of(Kind::Tool, "read-file"), None);
    for (sandbox, policy, tool, reason) in [
        ("sb@7.7.7", "p", "t", "the Sandbox `sb` has version 1.2.0, not 7.7.7"),
        ("sb", "p@9.9.9", "t", "the Policy `p` has version 1.0.0, not 9.9.9"),
        ("sb", "p", "t@5.5.5", "the Tool `t` has version 1.0.0, not 5.5.5"),
        ("sb", "p", "read-file@1.0.0", "says that the Tool `read-file` is version 1.0.0"),
        ("none@1.0.0", "p", "t", "says that the Sandbox `none` is version 1.0.0"),
        ("sb", "gone@1.0.0", "t", "there is no Policy `gone`"),
    ] {
        let refused = problems(load_text(&referring(sandbox, policy, tool)));
        assert_eq!(refused.len(), 1, "{refused:?}");
        assert!(refused[0].contains(reason), "{refused:?}");
    }
}

#[test]
fn a_document_beside_a_component_names_the_version_that_is_there() {
    let manifest = loaded(&referring("sb", "p", "t"));
    let read = |version: &str| {
        let own = format!("  sandbox_ref: claw://local/sandbox/sb@{version}\n");
        manifest.read_sidecar(Path::new("beside.yaml"), (tool("beside") + &own).as_bytes())
    };
    assert_eq!(read("1.2.0").unwrap().sandbox, "sb");
    let refused = read("7.7.7").unwrap_err();
    assert_eq!((refused.len(), refused[0].code), (1, PRIMITIVE_NOT_FOUND));
}

#[test]
fn what_nearly_is_a_version_is_mended() {
    for (wrong, right) in
        [("1", "1.0.0"), ("1.2", "1.2.0"), ("1.2.0-", "1.2.0"), ("1.2-", "1.2.0"), ("new", "1.2.0")]
    {
        let text = HEAD.replace("version: 1.0.0", &format!("version: '{wrong}'"));
        let refused = problems(load_text(&text));
        let help = format!("(write <major>.<minor>.<patch>: `\"{right}\"`)");
        assert!(refused[0].ends_with(&help), "{wrong}: {refused:?}");
    }
}

#[test]
fn the_patterns_of_all_documents_together_are_bounded() {
    let costly = r#"{ type: object, properties: { a: { type: string, pattern: "\\w{30}" } } }"#;
    let name = |index: usize| format!("t{index}");
    let tools = (0..20).map(|index| {
        format!(
            "    - inline: {{ name: {}, description: d, input_schema: {costly} }}\n",
            name(index)
        )
    });
    let text = claw(&format!("  tools:\n{}", tools.collect::<String>()));
    let refused = problems(load_text(&text));
    let first = HEAD.lines().count() + 2 + 20 - refused.len();
    assert!((1..20).contains(&refused.len()), "{refused:?}");
    assert!(refused[0].starts_with(&format!("m/claw.yaml:{first}:")), "{refused:?}");
    assert!(refused[0].contains("all schemas together compile to too many bytes"), "{refused:?}");
}

#[test]
fn a_pattern_takes_no_link_that_leads_out() {
    struct Linked(Files);

    impl Documents for Linked {
        fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
            self.0.read(file)
        }

        fn list(&self, directory: &Path) -> io::Result<Vec<DirEntry>> {
            self.0.list(directory)
        }

        fn is_directory(&self, path: &Path) -> bool {
            self.0.is_directory(path)
        }

        fn leaves(&self, directory: &Path, file: &Path) -> bool {
            assert_eq!(directory, Path::new("m"));
            file.ends_with("linked.yaml")
        }
    }

    let files = Files::default()
        .with("m/claw.yaml", &claw("  tools: [\"t/*.yaml\"]\n"))
        .with("m/t/linked.yaml", &tool("linked"))
        .with("m/t/own.yaml", &tool("own"));
    let refused = problems(load_all(&Linked(files), &["m/claw.yaml"]));
    assert_eq!(refused.len(), 1, "{refused:?}");
    assert!(refused[0].contains("leads out of the manifest's directory"), "{refused:?}");
}
