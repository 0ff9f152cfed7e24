//! The operator's console: who gets in, what a browser is told, and what it answers.
//!
//! `tests/console` drives it in a real browser, where one is installed.

use std::io::Read as _;
use std::path::Path;
use std::process::Command;
use std::sync::mpsc;
use std::thread;

use clawhost::serve::HttpOptions;
use clawhost_core::limits::CONSOLE_REQUESTS_MAX;
use clawhost_tests::{Cli, Served, cache_folder, source_root};
use serde_json::{Value, json};

use crate::bridge::skipped;
use crate::cli::PROGRAM;
use crate::http::post;

const MANIFEST: &str = clawhost_tests::claw!(
    "console",
    "autonomous",
    r#"  tools:
    - {name: read-file}
    - {name: write-file}
  policies:
    - inline:
        name: rules
        rules:
          - {id: ask-first, action: require-approval, scope: tool, match: {name: write-file}, reason: a person looks first}
          - {id: rest, action: allow, scope: all}
"#
);
const API: &str = "/console/api";

fn prepared(runtime_file: &str) -> Cli {
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", MANIFEST);
    cli.write("clawhost.yaml", runtime_file);
    cli.write("workspace/hello.txt", "hello\n");
    cli
}

fn start() -> (Cli, Served) {
    let cli = prepared("version: 1");
    let served = Served::start(&cli, &[]);
    (cli, served)
}

fn message(method: &str, params: &Value) -> String {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

fn operator(served: &Served) -> String {
    format!("Bearer {}", served.operator)
}

/// Asks as the operator's page does, and returns the whole answer.
fn asked(served: &Served, method: &str, params: &Value) -> Value {
    let operator = operator(served);
    let headers = [("authorization", operator.as_str()), ("content-type", "application/json")];
    let (status, body) = served.send("POST", API, &headers, &message(method, params));
    assert_eq!(status, 200, "{body}");
    serde_json::from_str(&body).unwrap()
}

fn ask(served: &Served, method: &str, params: &Value) -> Value {
    let answer = asked(served, method, params);
    assert!(answer.get("error").is_none(), "{answer}");
    answer["result"].clone()
}

/// Returns what waits, as soon as anything does.
fn waiting(served: &Served) -> Value {
    let mut news = ask(served, "clawhost.news", &json!({}));
    while news["waiting"] == json!([]) {
        news = ask(served, "clawhost.news", &json!({"seen": news["seen"]}));
    }
    let one = news["pending"][0].clone();
    // By that name the record has the call, and one that waits is none that runs.
    assert_eq!((&news["waiting"], &news["running"]), (&json!([one["call"]]), &json!(0)));
    one
}

fn write(served: &Served, path: &str, content: &str) -> String {
    let call = json!({"name": "write_file", "arguments": {"path": path, "content": content}});
    post(served, "tools/call", call, &[("authorization", &served.bearer())]).1
}

/// Returns the status and the headers of an answer, in lower case.
fn head(served: &Served, method: &str, path: &str, headers: &[(&str, &str)]) -> String {
    let mut answer = String::new();
    served.open(method, path, headers, "").read_to_string(&mut answer).unwrap();
    answer.split_once("\r\n\r\n").unwrap().0.to_ascii_lowercase()
}

#[test]
fn only_the_operator_s_credential_opens_it() {
    let (_cli, served) = start();
    let body = message("clawhost.status", &json!({}));
    let status = |credential: Option<&str>| {
        let mut headers = vec![("content-type", "application/json")];
        headers.extend(credential.map(|credential| ("authorization", credential)));
        served.send("POST", API, &headers, &body).0
    };
    assert_eq!(status(None), 401);
    assert_eq!(status(Some("Bearer made-up")), 401);
    assert_eq!(status(Some(&served.bearer())), 403);
    assert_eq!(status(Some(&operator(&served))), 200);
    // Nothing that a browser sends by itself counts.
    let cookie = format!("credential={}", served.operator);
    let headers = [("content-type", "application/json"), ("cookie", cookie.as_str())];
    assert_eq!(served.send("POST", API, &headers, &body).0, 401);
    let path = format!("{API}?credential={}", served.operator);
    assert_eq!(served.send("POST", &path, &headers[..1], &body).0, 401);
}

#[test]
fn a_browser_is_told_to_keep_to_the_page_whatever_is_answered() {
    let (_cli, served) = start();
    let bearer = served.bearer();
    for (method, path, headers, status) in [
        ("GET", "/console", &[][..], "200"),
        ("HEAD", "/console", &[], "200"),
        ("GET", "/console/", &[], "200"),
        ("GET", "/console/console.js", &[], "200"),
        ("GET", "/console/console.css", &[], "200"),
        ("GET", "/console/else", &[], "404"),
        ("POST", "/console", &[], "405"),
        ("POST", API, &[], "401"),
        ("POST", API, &[("authorization", bearer.as_str())], "403"),
    ] {
        let head = head(&served, method, path, headers);
        assert!(head.starts_with(&format!("http/1.1 {status}")), "{path}: {head}");
        for header in [
            "content-security-policy: default-src 'none'; script-src 'self'; style-src 'self'; \
             connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'",
            "x-content-type-options: nosniff",
            "referrer-policy: no-referrer",
            "cache-control: no-store",
        ] {
            assert!(head.contains(header), "{path} lacks {header}: {head}");
        }
        assert!(!head.contains("set-cookie") && !head.contains("access-control"), "{head}");
        assert_eq!(head.matches("cache-control").count(), 1, "{head}");
    }
    assert!(!head(&served, "GET", "/status", &[]).contains("content-security-policy"));
}

#[test]
fn another_site_cannot_make_it_speak_even_with_the_credential() {
    let (_cli, served) = start();
    let (operator, body) = (operator(&served), message("clawhost.approvals.list", &json!({})));
    let json = ("content-type", "application/json");
    let token = ("authorization", operator.as_str());
    let send = |method: &str, headers: &[(&str, &str)]| served.send(method, API, headers, &body).0;
    for foreign in
        [("origin", "https://evil.example"), ("origin", "null"), ("host", "rebound.example")]
    {
        assert_eq!(send("POST", &[json, token, foreign]), 403, "{foreign:?}");
    }
    // What a form can send is no question, and there is nothing to get.
    assert_eq!(send("POST", &[("content-type", "text/plain"), token]), 415);
    assert_eq!(send("GET", &[json, token]), 405);
    assert_eq!(send("OPTIONS", &[("origin", "https://evil.example")]), 403);
    let own = format!("http://{}", served.authority);
    assert_eq!(send("POST", &[json, token, ("origin", &own)]), 200);
}

#[test]
fn a_call_that_waits_is_shown_whole_and_ends_by_the_operator_s_word() {
    let (cli, served) = start();
    let hostile = "a\u{202e}txt.exe<img src=x onerror=alert(1)>";
    let long = "x".repeat(5_000);
    thread::scope(|scope| {
        let caller = scope.spawn(|| write(&served, hostile, &long));
        let one = waiting(&served);
        assert_eq!(
            (&one["tool"], &one["reason"]),
            (&json!("write-file"), &json!("a person looks first"))
        );
        // As JSON text it is data, and what would hide is visible.
        assert_eq!(one["arguments"]["path"], "a\\u{202e}txt.exe<img src=x onerror=alert(1)>");
        assert_eq!(one["arguments_cut"]["content"], 5_000);
        assert_eq!(one["whole"], false);
        let id = json!({"id": one["id"]});
        let whole = ask(&served, "clawhost.approvals.show", &id);
        assert_eq!(whole["pending"][0]["arguments"]["content"], long);
        assert_eq!(whole["pending"][0]["whole"], true);
        let no = json!({"id": one["id"], "reason": "not that name"});
        assert_eq!(ask(&served, "clawhost.approvals.deny", &no)["acknowledged"], true);
        assert!(caller.join().unwrap().contains("not that name"));
        assert_eq!(ask(&served, "clawhost.approvals.approve", &id)["acknowledged"], false);

        let caller = scope.spawn(|| write(&served, "b.txt", "b"));
        let id = json!({"id": waiting(&served)["id"]});
        assert_eq!(ask(&served, "clawhost.approvals.approve", &id)["acknowledged"], true);
        assert!(caller.join().unwrap().contains("\"isError\":false"));
    });
    assert!(cli.here().join("workspace/b.txt").exists());
}

#[test]
fn news_are_what_the_record_says_from_there_on_and_searches_go_back() {
    let (_cli, served) = start();
    let first = ask(&served, "clawhost.news", &json!({}));
    let bearer = served.bearer();
    let call = |name: &str| {
        let call = json!({"name": name, "arguments": {"path": "hello.txt"}});
        post(&served, "tools/call", call, &[("authorization", &bearer)])
    };
    call("read_file");
    call("<script>alert(1)</script>");
    let mut seen = first["seen"].clone();
    let mut records = Vec::new();
    while records.len() < 4 {
        let news = ask(&served, "clawhost.news", &json!({"seen": seen}));
        seen = news["seen"].clone();
        records.extend(news["records"].as_array().unwrap().clone());
    }
    let ends: Vec<&Value> = records.iter().filter(|one| one["event"] == "call.finished").collect();
    assert_eq!((&ends[0]["tool"], &ends[0]["ended"]), (&json!("read_file"), &json!("ok")));
    assert_eq!(ends[1]["tool"], "<script>alert(1)</script>");
    assert_eq!(ends[1]["ended"], "refused");

    let found = |more: Value| ask(&served, "clawhost.audit.search", &more)["calls"].clone();
    assert_eq!(found(json!({})).as_array().unwrap().len(), 2);
    let one = found(json!({"tool": "read-file", "agent": "default", "ended": "ok"}));
    assert_eq!(one.as_array().unwrap().len(), 1);
    assert!(one[0]["arguments_digest"].as_str().unwrap().starts_with("sha256:"));
    for none in [
        json!({"tool": "write_file"}),
        json!({"agent": "x"}),
        json!({"ended": "failed"}),
        json!({"since": "2999-01-01T00:00:00Z"}),
    ] {
        assert_eq!(found(none.clone()), json!([]), "{none}");
    }
    let wrong = asked(&served, "clawhost.audit.search", &json!({"before": "x"}));
    assert_eq!(wrong["error"]["code"], -32602);
    let chains = ask(&served, "clawhost.audit.verify", &json!({}))["chains"].clone();
    assert!(chains.as_array().unwrap().iter().all(|chain| chain["broken"].is_null()), "{chains}");
}

#[test]
fn tools_are_told_with_what_they_touch_and_switched() {
    let (cli, served) = start();
    let policy = |wanted: &str| {
        let told = ask(&served, "clawhost.tools.list", &json!({}));
        let tools = told["tools"].as_array().unwrap().clone();
        let tool = tools.into_iter().find(|tool| tool["name"] == "read_file").unwrap();
        assert_eq!(tool["policy"], wanted);
        (tool, told["off"].clone())
    };
    let (tool, _) = policy("allowed");
    let folder = cli.here().canonicalize().unwrap().join("workspace");
    assert_eq!(tool["may_touch"], format!("reads and writes {}", folder.display()));
    let off = json!({"tool": "read-file", "reason": "until the review"});
    assert_eq!(ask(&served, "clawhost.tools.disable", &off)["changed"], true);
    assert_eq!(policy("disabled").1[0]["reason"], "until the review");
    ask(&served, "clawhost.tools.enable", &json!({"tool": "read-file"}));
    assert_eq!(policy("allowed").1, json!([]));
    let unknown = asked(&served, "clawhost.tools.call", &json!({}));
    assert_eq!(unknown["error"]["code"], -32601, "the operator calls no tool");
}

#[test]
fn it_is_on_where_only_this_machine_gets_and_the_runtime_file_turns_it_off() {
    let is_on = |address: &str| HttpOptions::new(address.parse().unwrap()).console;
    assert!(is_on("127.0.0.1:0") && is_on("[::1]:0") && !is_on("0.0.0.0:0"));
    let cli = prepared("version: 1\nhttp: {console: false}");
    let served = Served::start(&cli, &[]);
    let headers = [("authorization", &*operator(&served)), ("content-type", "application/json")];
    for (method, path) in [("GET", "/console"), ("GET", "/console/console.js"), ("POST", API)] {
        let (status, told) = served.send(method, path, &headers, "{}");
        assert!(status == 404 && told.contains("/health") && !told.contains("console"), "{told}");
    }
}

#[test]
fn consoles_that_wait_at_once_have_an_end_and_keep_nobody_from_asking() {
    let (_cli, served) = start();
    let seen = ask(&served, "clawhost.news", &json!({}))["seen"].clone();
    let operator = operator(&served);
    let headers = [("authorization", operator.as_str()), ("content-type", "application/json")];
    let news = message("clawhost.news", &json!({"seen": seen}));
    let wait = || served.send("POST", API, &headers, &news).0;
    let (told, ends) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..=CONSOLE_REQUESTS_MAX {
            let told = told.clone();
            scope.spawn(move || told.send(wait()).unwrap());
        }
        // One too many is told at once, and the others wait.
        assert_eq!(ends.recv().unwrap(), 429);
        ask(&served, "clawhost.status", &json!({}));
        // They hold nobody else up either, and this is what they wait for.
        assert!(read_hello(&served).contains("hello"));
    });
    drop(told);
    assert_eq!(ends.iter().collect::<Vec<_>>(), [200; CONSOLE_REQUESTS_MAX]);
}

fn read_hello(served: &Served) -> String {
    let call = json!({"name": "read_file", "arguments": {"path": "hello.txt"}});
    post(served, "tools/call", call, &[("authorization", &served.bearer())]).1
}

#[test]
fn in_a_real_browser_what_waits_is_answered_and_hostile_words_stay_words() {
    let root = source_root();
    let is_there = |path: &str| Path::new(path).exists();
    if !root.join("target/console/node_modules/playwright-core").is_dir() {
        return skipped("run tests/console/install.sh for what drives a browser");
    }
    if !is_there("/usr/bin/chromium") && !is_there("/usr/bin/google-chrome") {
        return skipped("there is no chromium");
    }
    let cli = Cli::new(PROGRAM);
    let run = Command::new("node")
        .arg(root.join("tests/console/browser.mjs"))
        .args([Path::new(PROGRAM), &cli.here(), cli.state().parent().unwrap(), &cache_folder()])
        .output()
        .unwrap();
    let told =
        format!("{}{}", String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(run.status.success() && told.contains("leaves nothing behind"), "{told}");
}
