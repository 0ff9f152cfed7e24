//! Entries of `tools.mcp_servers`, and the variables that say the same.

use super::super::tests::read_body;
use super::*;
use crate::manifest::McpGrant;

fn read(text: &str, variables: &[(&str, &str)]) -> Result<Vec<McpServer>, String> {
    let settings = read_body(&format!("tools: {{ mcp_servers: {text} }}"), variables)?;
    Ok(settings.tools.mcp_servers.into_values().map(|one| one.server).collect())
}

fn literal(name: &str, value: &str) -> (String, McpValue) {
    (name.to_owned(), McpValue::Literal(value.to_owned()))
}

#[test]
fn the_shape_of_the_seed_is_read_as_it_is() {
    let seed = r#"{"my_server": {"command": "npx", "args": ["-y", "my-mcp-server"], "env": {}, "url": "", "internal_only": false}, "plain": {"command": "x"}}"#;
    let servers = read(seed, &[]).unwrap();
    let [mine, plain] = servers.as_slice() else { panic!("{servers:?}") };
    let args = vec!["-y".to_owned(), "my-mcp-server".to_owned()];
    let reach = McpReach::Program { command: "npx".to_owned(), args, env: Vec::new() };
    assert_eq!((&mine.reach, mine.internal_only, mine.sandbox.as_str()), (&reach, false, "none"));
    assert!(plain.internal_only);
}

#[test]
fn secrets_are_named_and_go_where_they_belong() {
    let text = r#"{a: {command: ./bin/s, env: {A: b}, secrets: [{name: tok-en, env: TOKEN}, {name: KEY}]},
        b: {url: "https://x.example/mcp", headers: {X-Team: t}, bearer: tok-en, secrets: [{name: KEY, header: X-Key}], sandbox: p, policy: q, endpoint: "https://y.example"}}"#;
    let servers = read(text, &[]).unwrap();
    let secret = |into: &str, name: &str| (into.to_owned(), McpValue::Secret(name.to_owned()));
    let env = vec![literal("A", "b"), secret("TOKEN", "tok-en"), secret("KEY", "KEY")];
    let (command, args) = ("conf/bin/s".to_owned(), Vec::new());
    assert_eq!(servers[0].reach, McpReach::Program { command, args, env });
    let headers = vec![
        literal("X-Team", "t"),
        secret("X-Key", "KEY"),
        ("Authorization".to_owned(), McpValue::Bearer("tok-en".to_owned())),
    ];
    let url = McpEndpoint::parse("https://x.example/mcp").unwrap();
    assert_eq!(servers[1].reach, McpReach::Url { url, headers, auth: None });
    assert_eq!(servers[1].secrets().collect::<Vec<_>>(), ["KEY", "tok-en"]);
    assert_eq!(servers[1].endpoint.as_ref().unwrap().as_str(), "https://y.example/");
}

#[test]
fn what_is_no_server_is_refused() {
    for (text, says) in [
        ("{a__b: {command: x}}", "the server name `a__b` is not allowed"),
        ("{_a: {command: x}}", "not allowed"),
        ("{a_: {command: x}}", "not allowed"),
        ("{'': {command: x}}", "not allowed"),
        ("{'a.b': {command: x}}", "not allowed"),
        ("{'\u{430}': {command: x}}", "not allowed"),
        ("{aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa: {command: x}}", "not allowed"),
        ("{a: {}}", "not reached in one way"),
        ("{a: {command: x, url: 'https://x.example'}}", "not reached in one way"),
        ("{a: {url: 'http://x.example'}}", "no address that an MCP server may have"),
        ("{a: {url: 'https://u:hunter2@x.example'}}", "no address"),
        ("{a: {url: 'https://x.example', args: [x]}}", "`args` for a URL"),
        ("{a: {url: 'https://x.example', headers: {Host: x}}}", "`Host` is no header"),
        ("{a: {url: 'https://x.example', headers: {Mcp-Method: x}}}", "is no header"),
        ("{a: {url: 'https://x.example', headers: {A: \"x\\r\\nB: y\"}}}", "is no header"),
        ("{a: {url: 'https://x.example', headers: {authorization: x}, bearer: t}}", "twice"),
        ("{a: {url: 'https://x.example', secrets: [{name: T}]}}", "goes nowhere"),
        ("{a: {command: x, bearer: t}}", "`bearer` for a program"),
        ("{a: {command: x, env: {1A: x}}}", "`1A` is no environment variable"),
        ("{a: {command: x, secrets: [{name: T, header: X}]}}", "goes nowhere"),
        ("{a: {command: x, secrets: [{name: ../t}]}}", "no name of a secret"),
        ("{a: {command: x, endpoint: 'mcp://x'}}", "reserves"),
        ("{a: {comand: x}}", "did you mean `command`"),
        (
            "{a: {command: x, auth: {type: oauth, issuer: 'https://i.example', client_id: c}}}",
            "`auth` for a program",
        ),
    ] {
        let error = read(text, &[]).unwrap_err();
        assert!(error.contains(says) && !error.contains("hunter2"), "{text}: {error}");
    }
}

#[test]
fn one_line_says_servers_their_variables_and_their_addresses() {
    let variables = [
        ("CRUVERO_MCP_ENDPOINTS_A_B", "stdio:///usr/bin/srv, https://x.example"),
        ("CLAWHOST_MCP_ENV_A_B", r"K=v=1, L=a\,b\\"),
        ("CRUVERO_MCP_SERVERS", r"a-b=srv|--flag|x\|y;;c=https://c.example/?a=b;;"),
        ("CRUVERO_MCP_DISCOVERY", "nats"),
    ];
    let servers = read("{}", &variables).unwrap();
    let [ab, c] = servers.as_slice() else { panic!("{servers:?}") };
    let args = vec!["--flag".to_owned(), "x|y".to_owned()];
    let env = vec![literal("K", "v=1"), literal("L", r"a,b\")];
    assert_eq!(ab.reach, McpReach::Program { command: "srv".to_owned(), args, env });
    assert!(!ab.internal_only && ab.pinned.as_ref().unwrap().len() == 2);
    assert!(
        matches!(&c.reach, McpReach::Url { url, .. } if url.as_str() == "https://c.example/?a=b")
    );
    for (name, value, says) in [
        ("CRUVERO_MCP_SERVERS", "nothing", "not reached in one way"),
        ("CLAWHOST_MCP_ENV_X", "A=b", "no MCP server `X`"),
        ("CLAWHOST_MCP_ENV_A", "hunter2", "no `KEY=value` pair"),
        ("CLAWHOST_MCP_ENDPOINTS_A", "/usr/bin/x", "no address of an MCP server"),
        ("CLAWHOST_MCP_ENVIRONMENT", "A=b", "is unknown"),
    ] {
        let error = read("{a: {command: x}}", &[(name, value)]).unwrap_err();
        assert!(error.contains(says) && !error.contains("hunter2"), "{name}: {error}");
    }
}

#[test]
fn an_issuer_is_written_out_and_a_client_is_known_or_registers() {
    let read = |more: &str| {
        let auth = format!("type: oauth, issuer: 'https://i.example/t', {more}");
        read(&format!("{{a: {{url: 'https://x.example', auth: {{{auth}}}}}}}"), &[])
    };
    let servers = read("client_id: c, scopes: [a, 'b:c'], secret: S").unwrap();
    let McpReach::Url { auth: Some(auth), .. } = &servers[0].reach else { panic!("no auth") };
    assert_eq!((&*auth.issuer, auth.client_id.as_deref()), ("https://i.example/t", Some("c")));
    assert_eq!(
        (auth.grant, &*auth.scopes),
        (McpGrant::AuthorizationCode, &["a".to_owned(), "b:c".to_owned()][..])
    );
    assert_eq!(servers[0].secrets().collect::<Vec<_>>(), ["S"]);
    assert!(read("register: true").is_ok());
    for (more, says) in [
        ("scopes: []", "it is not plain which client logs in"),
        ("client_id: c, register: true", "not plain which client"),
        ("register: true, secret: S", "does not exist yet"),
        ("client_id: c, scopes: ['a b']", "this is no scope"),
        ("client_id: c, scope: a", "did you mean `scopes`"),
        ("client_id: c}, bearer: T, headers: {", "`Authorization` is there twice"),
        ("client_id: c}, headers: {authorization: x", "`Authorization` is there twice"),
    ] {
        let error = read(more).unwrap_err();
        assert!(error.contains(says), "{more}: {error}");
    }
    for issuer in [
        "http://i.example", "https://u:hunter2@i.example", "https://i.example?x=1", "i.example",
        "file:///x",
    ] {
        let text = format!(
            "{{a: {{url: 'https://x.example', auth: {{type: oauth, client_id: c, issuer: '{issuer}'}}}}}}"
        );
        let error = super::tests::read(&text, &[]).unwrap_err();
        assert!(
            error.contains("nobody who may give tokens") && !error.contains("hunter2"),
            "{error}"
        );
    }
    let machine = "{a: {url: 'https://x.example', auth: {type: client-credentials, issuer: 'https://i.example', client_id: c}}}";
    assert!(super::tests::read(machine, &[]).unwrap_err().contains("without both of them"));
}
