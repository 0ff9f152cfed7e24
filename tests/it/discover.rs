//! `clawhost discover`: a server's tools, written down.

use std::path::PathBuf;

use clawhost_core::descriptor::Descriptor;
use clawhost_tests::Cli;

use crate::cli::PROGRAM;

const PYTHON: &str = "/usr/bin/python3";

/// A server that lists its tools on two pages.
const SERVER: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message: continue
    tool = lambda n: {"name": n, "description": "does " + n, "inputSchema": {"type": "object"}}
    page = (message.get("params") or {}).get("cursor")
    result = {
        "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}},
        "tools/list": {"tools": [tool("second")]} if page else {"tools": [tool("FIRST")], "nextCursor": "2"},
    }.get(message["method"])
    answer = {"result": result} if result else {"error": {"code": -32601, "message": "no"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"#;

/// A folder with the server, and where it is; the runtime file says more of it, and of the host.
fn prepared(of_server: &str, more: &str) -> (Cli, PathBuf) {
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", "claw: '0.3.0'\nkind: Claw\nmetadata: {name: t}\nspec:\n  identity: {inline: {personality: p, autonomy: autonomous}}\n  providers: [{inline: {protocol: openai-compatible, endpoint: 'http://127.0.0.1:9', model: m, auth: {type: none}}}]\n  sandbox: servers.yaml\n");
    let script = served(&cli, "", of_server, more);
    (cli, script)
}

/// Writes the server, and into the `folder` its profile and a runtime file that says more; returns where the server is.
fn served(cli: &Cli, folder: &str, of_server: &str, more: &str) -> PathBuf {
    let script = cli.write("work/server.py", SERVER.replace("FIRST", "first"));
    let work = script.parent().unwrap().display();
    cli.write(
        &format!("{folder}servers.yaml"),
        format!("claw: '0.3.0'\nkind: Sandbox\nmetadata: {{name: servers}}\nspec:\n  level: process\n  capabilities:\n    filesystem: {{mode: scoped, mount_paths: [{{path: {work}, permissions: ro}}]}}\n    shell: {{mode: full}}\n"),
    );
    cli.write(&format!("{folder}clawhost.yaml"), format!("version: 1\ntools: {{mcp_servers: {{finder: {{command: {PYTHON}, args: [{}], sandbox: servers{of_server}}}}}}}{more}", script.display()));
    script
}

#[test]
fn a_definition_names_a_server_s_tool_as_the_host_does() {
    if !std::path::Path::new(PYTHON).exists() {
        return eprintln!("skipped: there is no python3");
    }
    let (cli, _) = prepared(", internal_only: false", "\ndefinitions: [definitions.yaml]");
    for (key, codes) in [
        ("finder-first", [0, 4]),
        ("finder__first", [0, 4]),
        ("mcp.finder.first", [0, 4]),
        ("finder-frist", [3, 3]),
    ] {
        cli.write("definitions.yaml", format!("version: 1\ntools: {{ {key}: {{}} }}\n"));
        // No rule allows the call: that it is asked is enough.
        let runs = [vec!["tools", "claw.yaml"], vec!["call", "claw.yaml", "finder-first"]];
        let runs = runs.map(|words| cli.run(&words));
        assert_eq!(runs.each_ref().map(|run| run.code), codes.map(Some), "{key}: {runs:?}");
    }
}

#[test]
fn a_server_s_tools_of_every_page_are_written_down_and_a_change_is_told() {
    if !std::path::Path::new(PYTHON).exists() {
        return eprintln!("skipped: there is no python3");
    }
    let (cli, script) = prepared("", "");
    let run = cli.run(&["discover", "finder"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let file = cli.here().join(".claw-discovered/finder.claw-describe.json");
    let read = || std::fs::read(&file).unwrap();
    let names = |bytes: &[u8]| {
        let service = Descriptor::read(&file, bytes).unwrap();
        service.names().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(names(&read()), ["first", "second"]);
    let written: serde_json::Value = serde_json::from_slice(&read()).unwrap();
    assert_eq!(written["x-claw-discovery"]["mcp_protocol_version"], "2025-06-18");
    cli.write("work/server.py", SERVER.replace("FIRST", "other"));
    let dry = cli.run(&["discover", "finder", "--dry-run"]);
    assert!(dry.stderr.contains("its tools are not what they were"), "{dry:?}");
    assert_eq!(names(&read()), ["first", "second"]);
    cli.write("work/server.py", "raise SystemExit(1)");
    let failed = cli.run(&["discover", "finder"]);
    assert_eq!(failed.code, Some(6), "{failed:?}");
    assert_eq!(names(&read()), ["first", "second"], "the file is as it was");
    assert_eq!(cli.run(&["discover", "nobody"]).code, Some(2));
    // A service of a pod is written down beside it, and that is what `compile` reads.
    cli.write("work/server.py", SERVER.replace("FIRST", "first"));
    let pod = format!(
        "services:\n  found:\n    x-claw: {{mcp-stdio: {{command: {PYTHON}, args: [{}]}}}}\n  ada:\n    x-claw: {{cllama: x, surfaces: ['service://found'], tools: [found]}}\n",
        script.display()
    );
    // Nothing is called after a name that leads elsewhere.
    cli.write("pods/pod.yml", pod.replace("  found:", "  ../../led:"));
    let led = cli.run(&["discover", "../../led", "--pod", "pods/pod.yml"]);
    assert!(led.code == Some(2) && led.stderr.contains("no file can be called"), "{led:?}");
    cli.write("pods/pod.yml", pod);
    let run = cli.run(&["discover", "found", "--pod", "pods/pod.yml"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    // So is one of the pod that lies here, unless the runtime file has a server of that name.
    cli.write("claw-pod.yml", std::fs::read(cli.here().join("pods/pod.yml")).unwrap());
    for (name, code) in [("found", Some(0)), ("finder", Some(0)), ("nobody", Some(3))] {
        let run = cli.run(&["discover", name]);
        assert_eq!(run.code, code, "{name}: {run:?}");
    }
    assert!(cli.here().join(".claw-discovered/found.claw-describe.json").is_file());
    let run = cli.run(&["compile", "pods/pod.yml", "--out", "context"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let tools = std::fs::read_to_string(cli.here().join("context/ada/tools.json")).unwrap();
    assert!(tools.contains("found.first") && tools.contains("found.second"), "{tools}");
    // What the pod names comes before what was seen.
    let seen = cli.here().join("pods/.claw-discovered/found.claw-describe.json");
    let named = std::fs::read_to_string(seen).unwrap().replace("first", "named");
    cli.write("pods/named.json", named);
    let pod = std::fs::read_to_string(cli.here().join("pods/pod.yml")).unwrap();
    cli.write(
        "pods/pod.yml",
        pod.replace("x-claw: {mcp", "x-claw: {describe-file: named.json, mcp"),
    );
    assert_eq!(cli.run(&["compile", "pods/pod.yml", "--out", "context"]).code, Some(0));
    let tools = std::fs::read_to_string(cli.here().join("context/ada/tools.json")).unwrap();
    assert!(tools.contains("found.named") && !tools.contains("found.first"), "{tools}");
}

#[test]
fn the_profile_of_a_server_may_be_in_documents_that_are_named() {
    if !std::path::Path::new(PYTHON).exists() {
        return eprintln!("skipped: there is no python3");
    }
    let cli = Cli::new(PROGRAM);
    served(&cli, "served/", "", "");
    assert_eq!(cli.run(&["discover", "finder", "--out", "out"]).code, Some(2));
    let run = cli.run(&["discover", "finder", "--out", "out", "--manifest", "served"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(cli.here().join("out/finder.claw-describe.json").is_file());
    let run = cli.run(&["wrap", "nobody", "--manifest", "served"]);
    assert!(run.code == Some(2) && run.stderr.contains("there are: finder"), "{run:?}");
}
