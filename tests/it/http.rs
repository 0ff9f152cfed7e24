//! MCP over HTTP, as a client on this machine, a stranger, and a page in a browser see it.

use std::io::Read as _;

use clawhost_tests::{Cli, Served, source_root};
use serde_json::{Value, json};

use crate::cli::PROGRAM;

/// Starts a host that serves the example.
fn start(cli: &Cli, more: &[&str]) -> Served {
    let manifest = source_root().join("host/examples/manifest.yaml");
    Served::start(cli, &[&[manifest.to_str().unwrap()], more].concat())
}

/// Posts a stateless request with `more` headers.
pub(crate) fn post(
    served: &Served,
    method: &str,
    params: Value,
    more: &[(&str, &str)],
) -> (u16, String) {
    let mut params = params;
    let name = params["name"].as_str().map(str::to_owned);
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"}});
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let mut headers = vec![
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", method),
    ];
    headers.extend(name.as_deref().map(|name| ("mcp-name", name)));
    headers.extend(more);
    served.send("POST", "/mcp", &headers, &body)
}

fn read_hello(served: &Served, headers: &[(&str, &str)]) -> (u16, String) {
    let call = json!({"name": "read_file", "arguments": {"path": "hello.txt"}});
    post(served, "tools/call", call, headers)
}

#[test]
fn a_call_needs_the_token_that_was_printed() {
    let served = start(&Cli::new(PROGRAM), &[]);
    let bearer = served.bearer();
    let (status, body) = read_hello(&served, &[("authorization", &bearer)]);
    assert_eq!(status, 200, "{body}");
    assert!(body.contains("Hello from a sandboxed tool."), "{body}");
    let wrong = format!("{}x", &bearer[..bearer.len() - 1]);
    for headers in [&[][..], &[("authorization", wrong.as_str())], &[("authorization", "Bearer ")]]
    {
        let (status, body) = read_hello(&served, headers);
        assert_eq!(status, 401, "{headers:?}: {body}");
        assert!(!body.contains("Hello"), "{body}");
    }
}

#[test]
fn the_token_survives_a_restart_and_is_in_no_log() {
    let cli = Cli::new(PROGRAM);
    let first = start(&cli, &["-vv"]);
    let (token, bearer) = (first.token.clone(), first.bearer());
    let operator = first.operator.clone();
    read_hello(&first, &[("authorization", &bearer)]);
    let mut first = first;
    first.child.kill().unwrap();
    let mut stderr = String::new();
    first.child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert!(!stderr.contains(token.as_deref().unwrap()), "the token is in the log");
    assert!(!stderr.contains(&operator), "the operator's credential is in the log");
    drop(first);
    let second = start(&cli, &[]);
    assert_eq!(second.token, token);
    assert!(!cli.run(&["audit", "--json"]).stdout.contains(token.as_deref().unwrap()));
}

#[test]
fn without_a_token_only_loopback_is_served() {
    let cli = Cli::new(PROGRAM);
    let served = start(&cli, &["--no-auth"]);
    assert!(served.token.is_none(), "{}", served.greeting);
    let (status, body) = read_hello(&served, &[]);
    assert_eq!(status, 200, "{body}");
    let manifest = source_root().join("host/examples/manifest.yaml");
    let run = cli.run(&["run", manifest.to_str().unwrap(), "--http", "0.0.0.0:0", "--no-auth"]);
    assert_eq!(run.code, Some(2), "{}{}", run.stdout, run.stderr);
}
