//! A host inside a program: tools in Rust are on the one path, and nothing says that they are contained.

use std::time::Duration;

use clawhost::catalog::ToolDefinition;
use clawhost::gate::CallContext;
use clawhost::{BuildError, HostBuilder, Tool, ToolError, ToolProvider, async_trait};
use clawhost_core::error::ErrorKind;
use clawhost_tests::host::{call_within, text};
use clawhost_tests::wait::within;
use clawhost_tests::{Guest, TestHost, native, source_root};
use serde_json::{Value, json};

#[path = "../../host/examples/embed.rs"]
#[expect(unreachable_pub, reason = "it is a program of its own as well")]
mod embed;

/// Does what its argument says.
pub(crate) struct Odd;

#[async_trait]
impl Tool for Odd {
    fn name(&self) -> &str {
        "odd"
    }

    fn description(&self) -> &str {
        "Does\u{200b} what it is\u{1b}[2J told."
    }

    fn parameters(&self) -> Value {
        json!({"type": "object", "properties": {"do": {"type": "string"}}, "required": ["do"]})
    }

    async fn execute(&self, args: Value) -> Result<Value, ToolError> {
        match args["do"].as_str().unwrap() {
            "wait" => std::future::pending().await,
            "panic" => panic!("as told"),
            "fail" => Err(ToolError::PermissionDenied("not today".to_owned())),
            "flood" => Ok(json!("x".repeat(100_000))),
            said => Ok(json!({ "said": said })),
        }
    }
}

/// Offers tools of these names under `namespace`.
struct Names(&'static str, &'static [&'static str]);

#[async_trait]
impl ToolProvider for Names {
    fn namespace(&self) -> &str {
        self.0
    }

    fn list_tools(&self) -> Vec<ToolDefinition> {
        let tool =
            |name: &&str| ToolDefinition::new(*name, "Says its name.", json!({"type": "object"}));
        self.1.iter().map(tool).collect()
    }

    async fn call_tool(&self, name: &str, _args: Value) -> Result<Value, ToolError> {
        Ok(json!(name))
    }
}

#[tokio::test]
async fn the_example_program_does_what_it_says() {
    let folder = tempfile::tempdir().unwrap();
    let manifest = source_root().join("host/examples/manifest.yaml");
    let lines = embed::run(&manifest, folder.path()).await.unwrap();
    assert_eq!(lines[0], r#"double: {"doubled":42}"#);
    assert!(lines[1].starts_with("double: error -32602: invalid arguments"), "{lines:#?}");
    assert_eq!(lines[2], r#"rooms__list: {"rooms":["blue","green"]}"#);
    assert_eq!(lines[3], "rooms__book: not-found: there is no such room");
    assert!(lines[4].contains("Hello from a sandboxed tool."), "{lines:#?}");
}

#[tokio::test]
async fn a_native_tool_passes_schema_policy_time_size_and_record() {
    let rules = "- {id: one, action: allow, scope: tool, match: {name: odd}}";
    let host = TestHost::builder().rules(rules).limits("timeout_ms: 600000");
    let host = host.extend(|host| host.tool(Odd).provider(Names("far", &["a"]))).build().await;
    assert_eq!(host.ask("odd", json!({"do": "this"})).await["said"], "this");
    let refused = host.call("odd", json!({})).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::InvalidArguments);
    let refused = host.call("far__a", json!({})).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Policy);

    let late = call_within("odd", json!({"do": "wait"}), Duration::from_millis(50));
    let late = within("its end", host.host().call(late)).await.unwrap_err();
    assert_eq!(late.kind, ErrorKind::Timeout);

    let failed = host.call("odd", json!({"do": "fail"})).await.unwrap();
    assert_eq!((failed.error_kind, failed.is_error), (Some("permission-denied"), true));
    let crashed = host.call("odd", json!({"do": "panic"})).await.unwrap();
    assert_eq!((crashed.error_kind, &*text(&crashed)), (Some("trap"), "the tool crashed"));
    let cut = host.call("odd", json!({"do": "flood"})).await.unwrap();
    assert!(cut.cut_from_bytes.is_some_and(|bytes| bytes > 100_000));

    host.check_audit();
    let finished = host.finished();
    assert_eq!(finished.len(), 7);
    assert_eq!(finished[0]["profile"], "native (not contained)");
}

#[tokio::test]
async fn no_sandbox_is_said_to_refuse_a_path_of_a_tool_that_it_does_not_contain() {
    let host = TestHost::builder().extend(|host| host.tool(native("any", || async { json!({}) })));
    let host = host.build().await;
    for (tool, outlooks) in [("any", 0), ("read_file", 1)] {
        let (given, context) = (json!({"path": "/etc/x"}), CallContext::default());
        let rehearsal = host.host().rehearse(tool, Some(&given), None, &context).unwrap();
        assert_eq!(
            (rehearsal.paths, rehearsal.outlooks.len()),
            (vec!["/etc/x".to_owned()], outlooks)
        );
    }
}

#[tokio::test]
async fn what_a_native_tool_says_is_cleaned_and_that_it_is_not_contained_is_said() {
    let host = TestHost::builder().extend(|host| host.tool(Odd)).build().await;
    let tool = host.host().catalog().find("odd").cloned().unwrap();
    assert_eq!(tool.definition.description, "Does what it is[2J told.");
    assert!(tool.grants.native);
    assert_eq!(
        tool.origin.to_string(),
        "the embedding program (native: runs in the host's process, not contained)"
    );
}

#[tokio::test]
async fn a_sandbox_that_would_contain_nothing_is_refused() {
    // The document of the manifest puts every tool it lists under its own sandbox.
    let host = TestHost::builder().only(&["odd"]).extend(|host| host.tool(Odd)).build().await;
    assert!(host.names().is_empty());
    assert!(host.refused().contains("it is native, so the sandbox"), "{}", host.refused());

    // Nor can a caller put it under one for a call.
    let host = TestHost::builder().extend(|host| host.tool(Odd)).build().await;
    let mut call = clawhost_tests::host::call("odd", json!({"do": "this"}));
    call.context.sandbox = Some("network".to_owned());
    let refused = host.host().call(call).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Sandbox);
    assert!(refused.message.contains("native"), "{refused}");
}

#[tokio::test]
async fn no_name_is_taken_from_another() {
    let host = TestHost::builder().extend(|host| {
        let host = host.provider(Names("", &["read_file", "answer", "answer"]));
        host.provider(Names("far", &["a.b", "a_b"]))
    });
    let host = host.tool_file("answer.wat", Guest::read("answer").wat().as_bytes()).build().await;
    let refused = host.refused();
    assert!(refused.contains("the name is a built-in tool's"), "{refused}");
    assert!(refused.contains("tool `answer` is offered twice"), "{refused}");
    assert!(refused.contains("the program that runs the host has it"), "{refused}");
    assert!(refused.contains("tool `far__a_b` is offered twice"), "{refused}");
    assert_eq!(host.ask("answer", json!({})).await, json!("answer"));
    assert_eq!(host.ask("far__a_b", json!({})).await, json!("a.b"));
}

#[tokio::test]
async fn what_cannot_be_served_ends_the_build() {
    let bad: [fn(HostBuilder) -> HostBuilder; 3] = [
        |host| host.provider(Names("", &[""])),
        |host| host.provider(Names("", &["a b"])),
        |host| host.provider(Names("far", &["se\u{430}rch"])),
    ];
    for extend in bad {
        let error = TestHost::builder().extend(extend).try_build().await.unwrap_err();
        assert!(matches!(error, BuildError::Native(_)), "{error}");
    }
}
