//! Pods on the command line: all of it is compiled or nothing, and no token is anywhere.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clawhost_tests::Cli;
use serde_json::{Value, json};

use crate::cli::PROGRAM;

const TOKEN: &str = "hunter2-token-of-the-desk";
const OTHER: &str = "an0ther-value-of-the-pod";

const DESK: &str = r#"{"version": 2, "description": "Trading Desk API", "tools": [
  {"name": "get_market_context", "description": "Retrieve agent-scoped market context",
   "inputSchema": {"type": "object", "properties": {"claw_id": {"type": "string"}}, "required": ["claw_id"]},
   "http": {"method": "GET", "path": "/api/v1/market_context/{claw_id}"}, "annotations": {"readOnly": true}},
  {"name": "execute_trade", "description": "Execute a market order",
   "inputSchema": {"type": "object", "properties": {"symbol": {"type": "string"}}, "required": ["symbol"]},
   "http": {"method": "POST", "path": "/api/v1/trades", "body": "json"}, "annotations": {"readOnly": false}}],
  "auth": {"type": "bearer", "env": "TRADING_API_TOKEN"}}"#;

const POD: &str = "x-claw:
  pod: trading-desk
  tools-defaults:
    - service: trading-api
      allow:
        - get_market_context
services:
  analyst:
    image: analyst:latest
    environment: {DATABASE_PASSWORD: an0ther-value-of-the-pod, TRADING_API_TOKEN: '${TRADING_API_TOKEN}'}
    x-claw:
      agent: ./AGENTS.md
      cllama: passthrough
      surfaces:
        - service://trading-api
  executor:
    image: executor:latest
    environment: [TRADING_API_TOKEN]
    x-claw:
      cllama: passthrough
      surfaces: [service://trading-api]
      tools:
        - ...                        # inherit pod defaults
        - service: trading-api
          allow:
            - execute_trade
      tool-policy: {max-rounds: 4}
  idle:
    x-claw: {cllama: passthrough, tools: []}
  trading-api:
    image: trading-api:latest
    expose:
      - \"4000\"
    x-claw: {describe-file: desk.claw-describe.json}
";

const CLAW: &str = "claw: \"0.3.0\"\nkind: Claw\nmetadata: {name: t}\nspec:\n  identity: {inline: {personality: T., autonomy: autonomous}}\n  providers: [{inline: {protocol: custom, name: none, endpoint: \"http://127.0.0.1:9\", model: none, auth: {type: none}}}]\n  policies: [{inline: {name: all, rules: [{id: all, action: allow, scope: all}]}}]\n";

fn desk(pod: &str) -> Cli {
    let cli = Cli::new(PROGRAM);
    cli.write("claw-pod.yml", pod);
    cli.write("desk.claw-describe.json", DESK);
    let set = cli.run_with(&["secrets", "set", "TRADING_API_TOKEN"], TOKEN);
    assert_eq!(set.code, Some(0), "{}", set.stderr);
    cli
}

fn read(cli: &Cli, file: &str) -> String {
    std::fs::read_to_string(cli.here().join("context").join(file)).unwrap()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

/// Every file below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found
}

#[test]
fn each_agent_gets_its_tools_and_its_page_and_no_file_has_a_token() {
    let cli = desk(POD);
    let arguments = [
        "compile",
        "claw-pod.yml",
        "--out",
        "context",
        "--service",
        "trading-api=http://127.0.0.1:4001",
    ];
    let run = cli.run(&arguments);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let compiled: Value = serde_json::from_str(&read(&cli, "executor/tools.json")).unwrap();
    let names: Vec<_> =
        compiled["tools"].as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
    assert_eq!(names, ["trading-api.get_market_context", "trading-api.execute_trade"]);
    assert_eq!(compiled["policy"]["max_rounds"], 4);
    assert_eq!(compiled["tools"][0]["execution"]["base_url"], "http://127.0.0.1:4001");
    assert_eq!(
        compiled["tools"][0]["execution"]["auth"],
        json!({"type": "bearer", "secret": "TRADING_API_TOKEN"})
    );
    let page = read(&cli, "analyst/CLAWDAPUS.md");
    assert!(page.contains("- `trading-api_get_market_context`: Retrieve"), "{page}");
    for hidden in ["execute_trade", "/api", "127.0.0.1", "4000"] {
        assert!(!page.contains(hidden), "{hidden}: {page}");
    }
    let context = cli.here().join("context");
    assert_eq!(mode(&context.join("analyst/tools.json")), 0o600);
    assert!(!context.join("idle/tools.json").exists(), "no file, no tools");
    assert!(!context.join("trading-api").exists(), "a service is no agent");
    for file in files(&context) {
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(!text.contains(TOKEN) && !text.contains(OTHER), "{}", file.display());
    }
    assert!(!format!("{run:?}").contains(TOKEN));
    // Where nothing is named, beside the pod, however many folders that takes.
    assert_eq!(cli.run(&["compile", "claw-pod.yml"]).code, Some(0));
    assert!(cli.here().join(".claw-runtime/context/executor/tools.json").is_file());
}

#[test]
fn compiling_is_no_run_of_a_host_and_a_dry_one_makes_no_state() {
    let cli = desk(POD);
    std::fs::remove_dir_all(cli.state()).unwrap();
    let compile = |more: &[&str]| {
        let words = [&["compile", "claw-pod.yml", "--out", "context"], more].concat();
        cli.command(&words).env("TRADING_API_TOKEN", TOKEN).output().unwrap()
    };
    let dry = compile(&["--dry-run"]);
    assert!(dry.status.success() && !cli.state().exists(), "{dry:?}");
    let run = compile(&[]);
    assert!(run.status.success() && cli.state().exists(), "{run:?}");
    let verified = cli.run(&["audit", "verify"]);
    let told = (verified.code, verified.stdout.trim());
    assert_eq!(told, (Some(0), "no audit log yet"), "{}", verified.stderr);
}

#[test]
fn nothing_changes_where_anything_is_wrong_and_what_is_left_out_is_gone() {
    let cli = desk(POD);
    let compile =
        |more: &[&str]| cli.run(&[&["compile", "claw-pod.yml", "--out", "context"], more].concat());
    let dry = compile(&["--dry-run"]);
    assert_eq!((dry.code, cli.here().join("context").exists()), (Some(0), false), "{}", dry.stderr);
    assert_eq!(compile(&[]).code, Some(0));
    let before = files(&cli.here().join("context"));
    let wrong =
        POD.replace("- execute_trade", "- execute_trad").replace("tools: []", "tools: [gone]");
    cli.write("claw-pod.yml", &wrong);
    let run = compile(&[]);
    assert_eq!(run.code, Some(3));
    for says in [
        "`trading-api` has no tool `execute_trad`",
        "claw-pod.yml:",
        "did you mean `execute_trade`?",
        "no service `gone`",
    ] {
        assert!(run.stderr.contains(says), "{says}: {}", run.stderr);
    }
    // What stands beside a line that is wrong is not shown.
    assert!(!run.stderr.contains(OTHER), "{}", run.stderr);
    assert_eq!(files(&cli.here().join("context")), before);
    assert!(
        std::fs::read_dir(cli.here()).unwrap().all(|it| !it
            .unwrap()
            .file_name()
            .to_string_lossy()
            .starts_with(".context"))
    );
    // An agent that has lost its tools keeps no file that grants them.
    cli.write(
        "claw-pod.yml",
        POD.replace(
            "        - service: trading-api\n          allow:\n            - execute_trade\n",
            "",
        )
        .replace("        - ...                        # inherit pod defaults\n", "        []\n"),
    );
    let run = compile(&[]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(!cli.here().join("context/executor/tools.json").exists());
    // A folder with anything else in it is left alone.
    cli.write("context/analyst/AGENTS.md", "mine");
    let run = compile(&[]);
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("AGENTS.md"), "{}", run.stderr);
    assert!(cli.here().join("context/analyst/AGENTS.md").exists());
}

#[test]
fn the_skill_of_a_service_lies_below_its_descriptor_and_is_copied_for_who_reaches_it() {
    let cli = desk(POD);
    let described = |skill: &str| {
        let named = DESK.replacen('{', &format!(r#"{{"skill": "{skill}", "#), 1);
        cli.write("desk.claw-describe.json", named);
    };
    let compile = || cli.run(&["compile", "claw-pod.yml", "--out", "context"]);
    let file = "analyst/skills/trading-api/SKILL.md";
    let copied = cli.here().join("context").join(file);
    cli.write("SKILL.md", "# When\n");
    described("SKILL.md");
    // The second time it takes the place of what is there.
    for _ in 0..2 {
        let run = compile();
        assert_eq!(run.code, Some(0), "{}", run.stderr);
    }
    assert_eq!(read(&cli, file), "# When\n");
    assert!(read(&cli, "analyst/CLAWDAPUS.md").contains("`skills/trading-api/SKILL.md`"));
    assert!(!cli.here().join("context/idle/skills").exists(), "it does not reach the service");
    let elsewhere = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    std::os::unix::fs::symlink(elsewhere, cli.here().join("LINK.md")).unwrap();
    for (skill, says) in [
        ("../SKILL.md", "leads out of the folder"),
        ("LINK.md", "leads out of the folder"),
        ("GONE.md", "it does not exist"),
    ] {
        described(skill);
        let run = compile();
        assert_eq!(run.code, Some(3), "{skill}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{skill}: {}", run.stderr);
        assert!(run.stderr.contains("desk.claw-describe.json:1:"), "{skill}: {}", run.stderr);
    }
    described("/app/SKILL.md");
    cli.write("context/analyst/skills/trading-api/own.md", "mine");
    let run = compile();
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(run.stderr.contains("own.md") && copied.exists(), "{}", run.stderr);
    std::fs::remove_file(copied.with_file_name("own.md")).unwrap();
    let run = compile();
    assert_eq!((run.code, copied.exists()), (Some(0), false), "{}", run.stderr);
    assert!(run.stderr.contains("`/app/SKILL.md` is in its image"), "{}", run.stderr);
}

#[test]
fn a_token_that_is_nowhere_is_told_by_name() {
    let cli = desk(&POD.replace(
        "{DATABASE_PASSWORD: an0ther-value-of-the-pod, TRADING_API_TOKEN: '${TRADING_API_TOKEN}'}",
        "{TRADING_API_TOKEN: '${ANALYST_TOKEN}'}",
    ));
    let run = cli.run(&["compile", "claw-pod.yml", "--out", "context"]);
    assert_eq!(run.code, Some(3));
    assert!(run.stderr.contains("there is no secret `ANALYST_TOKEN`"), "{}", run.stderr);
    assert!(!cli.here().join("context").exists());
}

#[test]
fn the_operator_sees_the_requests_of_a_service() {
    let cli = desk(POD);
    let shown = cli.run(&["inspect", "desk.claw-describe.json"]);
    assert!(shown.stdout.contains("GET /api/v1/market_context/{claw_id}"), "{shown:?}");
    cli.write("clawhost.yaml", "version: 1\ntools: {services: {desk: {url: 'http://127.0.0.1:4000', describe: desk.claw-describe.json, secret: TRADING_API_TOKEN}}}");
    let by_name: Value =
        serde_json::from_str(&cli.run(&["inspect", "desk", "--json"]).stdout).unwrap();
    assert_eq!(by_name["tools"][1]["request"], "POST /api/v1/trades");
    let tools = cli.run(&["tools", "--json"]);
    assert!(tools.stdout.contains("desk_execute_trade"), "{tools:?}");
}

#[test]
fn what_a_service_says_of_itself_forges_no_line() {
    let cli = Cli::new(PROGRAM);
    let hostile = "a\nendpoint GET /forged\u{1b}[2J\u{202e}";
    let service = json!({
        "version": 2, "description": hostile, "endpoints": [{"method": "GET", "path": hostile}],
        "tools": [{"name": "t", "description": hostile, "inputSchema": {"type": "object"}, "http": {"method": "GET", "path": "/t"}}],
    });
    cli.write("odd.claw-describe.json", service.to_string());
    let shown = cli.run(&["inspect", "odd.claw-describe.json"]).stdout;
    assert_eq!(shown.matches("a\\u{a}endpoint GET /forged").count(), 3, "{shown:?}");
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
}

#[test]
fn a_service_that_describes_itself_wrongly_takes_no_other_along() {
    let cli = desk(POD);
    cli.write("broken.json", r#"{"version": 2, "tools": [{"name": "a"}]}"#);
    cli.write("clawhost.yaml", "version: 1\ntools: {services: {odd: {url: 'http://127.0.0.1:1', describe: broken.json}, desk: {url: 'http://127.0.0.1:4000', describe: desk.claw-describe.json, secret: TRADING_API_TOKEN}}}");
    cli.write("claw.yaml", CLAW);
    let tools = cli.run(&["tools", "claw.yaml"]);
    assert_eq!(tools.code, Some(3), "{tools:?}");
    assert!(tools.stdout.contains("desk_execute_trade"), "{tools:?}");
    assert!(tools.stderr.contains("broken.json:1"), "{tools:?}");
    let called = cli.run(&["call", "claw.yaml", "odd_a"]);
    assert!(called.stderr.contains("odd") && called.stderr.contains("broken.json"), "{called:?}");
    let checked = cli.run(&["validate", "clawhost.yaml", "claw.yaml"]);
    assert!(checked.code == Some(3) && checked.stderr.contains("broken.json:1"), "{checked:?}");
}

#[test]
fn it_is_told_which_agent_has_a_tool_and_why_another_has_not() {
    let cli = desk(POD);
    let run = cli.run(&["compile", "claw-pod.yml", "--out", "context"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    cli.write("claw.yaml", CLAW);
    let tool = "trading-api_execute_trade";
    let shown = cli.run(&["tools", "claw.yaml", "--context", "context"]);
    assert!(shown.stdout.contains("for executor only"), "{shown:?}");
    let explain = |agent: &str| -> Value {
        let more =
            ["explain", "claw.yaml", tool, "--context", "context", "--agent", agent, "--json"];
        serde_json::from_str(&cli.run(&more).stdout).unwrap()
    };
    let facts = |told: Value| [told["outcome"].clone(), told["stage"].clone()];
    assert_eq!(facts(explain("executor")), ["allowed", "policy"]);
    assert_eq!(facts(explain("analyst")), ["refused", "agent"]);
    assert_eq!(explain("analyst")["agents"], json!(["executor"]));
    let called = cli.run(&["call", "claw.yaml", tool, "symbol=X", "--context", "context"]);
    assert!(called.stderr.contains("compiled for"), "{called:?}");
    let call = |agent| {
        let call = ["call", "claw.yaml", tool, "symbol=X", "--context", "context", "--agent"];
        cli.run(&[&call[..], &[agent]].concat()).stderr
    };
    assert!(call("executor").contains("does not answer"), "{}", call("executor"));
    assert!(call("exekutor").contains("did you mean `executor`?"), "{}", call("exekutor"));
    for verb in ["explain", "call"] {
        let run = cli.run(&[verb, "claw.yaml", tool, "--context", "context", "--agent", "idle"]);
        assert_eq!(run.code, Some(2), "{run:?}");
        assert!(run.stderr.contains("the agent `idle` has no tools"), "{run:?}");
    }
}
