//! Servers that are programs: this test program started again, in the jail. Where the kernel
//! gives no jail, each test says so and ends.
//!
//! A number such as `m12` in a name is a way in which a server misbehaves, one of a list of those.

mod fake;
mod web;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clawhost_core::catalog::ToolDefinition;
use clawhost_core::egress;
use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::exposed::Exposure;
use clawhost_core::grants::{Access, Grants, Mount};
use clawhost_core::manifest::McpValue;
use clawhost_core::reply::Content;
use futures_util::StreamExt as _;
use serde_json::{Value, json};

use super::*;
use crate::dialogue::{Asks, Caller, Dialogue};
use crate::jail::support;
use crate::progress::ProgressSink;
use crate::secrets::Secrets;
use crate::upstream::http::HttpClient;

/// Longer than anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a server has to be hidden from view.
const SECRET: &str = "hunter2-hunter2";

fn jail_here() -> bool {
    let support = support();
    if !support.available() {
        eprintln!("skipped: {support}");
    }
    support.available()
}

fn parts() -> ServerParts {
    let secrets = Secrets::of_environment(|name| (name == "TOKEN").then(|| SECRET.into()));
    ServerParts { client: HttpClient::system(), secrets }
}

fn plan(mode: &str) -> ServerPlan {
    let program = std::env::current_exe().unwrap();
    let mut grants = Grants { profile: "test".to_owned(), ..Grants::default() };
    let host = program.parent().unwrap().to_owned();
    grants.mounts.push(Mount {
        host,
        guest: "/".to_owned(),
        access: Access::ReadOnly,
        create: false,
    });
    let test = "upstream::mcp::tests::fake::a_server_to_be_spoken_to";
    let program = program.display().to_string();
    let argv = [&program, "--exact", "--nocapture", "--test-threads=1", test].map(str::to_owned);
    let literal = |text: &str| McpValue::Literal(text.to_owned());
    let env = vec![
        ("MCP_TEST_MODE".to_owned(), literal(mode)),
        ("GIVEN".to_owned(), McpValue::Secret("TOKEN".to_owned())),
    ];
    let endpoint = Endpoint::Stdio { argv: argv.into(), env, grants: Box::new(grants) };
    ServerPlan { name: mode.to_owned(), endpoint, expose: Exposure::default() }
}

/// Starts a server, where there is a jail for it.
fn start(mode: &str) -> Option<Server> {
    jail_here().then(|| Server::start(plan(mode), parts()))
}

/// Waits for a state other than connecting, and returns the offers then.
async fn settled(server: &Server) -> ServerOffers {
    let mut offers = server.offers();
    let settled = offers.wait_for(|offers| offers.state != State::Connecting);
    tokio::time::timeout(PATIENCE, settled).await.unwrap().unwrap().clone()
}

async fn until(server: &Server, is: impl FnMut(&ServerOffers) -> bool) -> ServerOffers {
    let mut offers = server.offers();
    let found = tokio::time::timeout(PATIENCE, offers.wait_for(is)).await;
    found.unwrap().unwrap().clone()
}

async fn echo(server: &Server, arguments: &str) -> Result<String, CallError> {
    let reply = server.call("echo", None, arguments, PATIENCE, Caller::default()).await?;
    match reply.content.as_slice() {
        [Content::Text(text)] => Ok(text.clone()),
        other => panic!("{other:?}"),
    }
}

fn failed(offers: &ServerOffers) -> &str {
    match &offers.state {
        State::Failed { reason, .. } => reason,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_older_server_and_one_of_the_newest_revision_are_called() {
    let Some(older) = start("good") else { return };
    assert_eq!(echo(&older, r#"{"a":1}"#).await.unwrap(), r#"{"a":1}"#);
    let offers = settled(&older).await;
    assert_eq!((offers.tools.len(), offers.generation), (1, 1));
    assert_eq!((offers.server.as_str(), offers.instructions.as_deref()), ("fake", Some("be kind")));

    for mode in ["modern", "late-modern"] {
        let Some(newest) = start(mode) else { return };
        let said = echo(&newest, "{}").await.unwrap();
        assert!(
            said.contains(r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#),
            "{said}"
        );
        assert_eq!(settled(&newest).await.instructions.as_deref(), Some("be modern"));
    }
}

#[tokio::test]
async fn m12_garbage_is_skipped_and_the_answer_behind_it_is_taken() {
    let Some(server) = start("garbage") else { return };
    for n in 0..3 {
        assert_eq!(
            echo(&server, &format!(r#"{{"n":{n}}}"#)).await.unwrap(),
            format!(r#"{{"n":{n}}}"#)
        );
    }
    assert_eq!(settled(&server).await.state, State::Ready);
}

/// A call fails of which the server ends, for a reason that `says` so.
async fn ends(mode: &str, says: &str) {
    let Some(server) = start(mode) else { return };
    assert_eq!(echo(&server, "{}").await.unwrap_err().kind, ErrorKind::Upstream);
    let offers = until(&server, |offers| matches!(offers.state, State::Failed { .. })).await;
    assert!(failed(&offers).contains(says), "{offers:?}");
}

#[tokio::test]
async fn m12_a_flood_ends_the_server_and_not_the_host() {
    ends("flood", "nobody asked for").await;
}

#[tokio::test]
async fn m12_a_flood_of_complaints_ends_the_server_and_not_the_host() {
    ends("complaint-flood", "too much on its standard error").await;
}

#[tokio::test]
async fn m12_an_answer_forgives_no_flood() {
    ends("forgiven-flood", "nobody asked for").await;
}

#[tokio::test]
async fn m33_what_a_server_says_of_its_tools_holds_no_secret_and_no_endless_name() {
    let Some(server) = start("leaks") else { return };
    let offers = settled(&server).await;
    let said = format!("{offers:?}");
    assert!(!said.contains(SECRET) && said.len() < 4_096, "{}", said.len());
    assert_eq!(offers.tools[0].description, "use [redacted:TOKEN]");
    assert_eq!(offers.tools[1].name, "[redacted:TOKEN]");
    assert_eq!(offers.tools[2].name.len(), 129);
}

#[tokio::test]
async fn m1_a_call_of_what_was_accepted_is_no_call_of_something_else() {
    let Some(server) = start("good") else { return };
    let accepted = settled(&server).await.tools[0].clone();
    let call = async |definition: &ToolDefinition| {
        server.call("echo", Some(definition), "{}", PATIENCE, Caller::default()).await
    };
    assert!(call(&accepted).await.is_ok());
    let other = ToolDefinition { description: "Deletes all.".to_owned(), ..accepted };
    let error = call(&other).await.unwrap_err();
    assert_eq!((error.kind, &error.data["stage"]), (ErrorKind::Policy, &json!("pins")));
}

#[tokio::test]
async fn m22_a_folder_that_is_replaced_is_not_let_in_by_a_restart() {
    if !jail_here() {
        return;
    }
    let temp = tempfile::tempdir().unwrap();
    let path = |name: &str| temp.path().canonicalize().unwrap().join(name);
    for name in ["own", "other"] {
        std::fs::create_dir(path(name)).unwrap();
        std::fs::write(path(name).join("f"), name).unwrap();
    }
    let mut plan = plan("reads");
    if let Endpoint::Stdio { grants, .. } = &mut plan.endpoint {
        let (host, guest) = (path("own"), "/own".to_owned());
        grants.mounts.push(Mount { host, guest, access: Access::ReadOnly, create: false });
    }
    let server = Server::start(plan, parts());
    let read = json!({"path": path("own").join("f")}).to_string();
    assert_eq!(echo(&server, &read).await.unwrap(), "own");
    std::fs::rename(path("own"), path("kept")).unwrap();
    std::os::unix::fs::symlink(path("other"), path("own")).unwrap();
    assert!(echo(&server, "{}").await.is_err(), "it ends itself");
    until(&server, |offers| matches!(offers.state, State::Failed { .. })).await;
    // Where it starts at all it sees what was granted, and nothing else.
    let again = echo(&server, &read).await;
    assert!(again.as_deref() != Ok("other"), "{again:?}");
}

#[tokio::test]
async fn m13_everybody_gets_their_own_answer() {
    let Some(server) = start("ids") else { return };
    let calls = futures_util::stream::iter(0..2_000).map(|n| {
        let server = server.clone();
        async move {
            let arguments = format!(r#"{{"n":{n}}}"#);
            assert_eq!(echo(&server, &arguments).await.unwrap(), arguments);
        }
    });
    calls.buffer_unordered(32).collect::<Vec<()>>().await;
}

#[tokio::test]
async fn m14_a_number_that_would_change_is_no_result() {
    let Some(server) = start("huge-number") else { return };
    let reply = server.call("echo", None, "{}", PATIENCE, Caller::default()).await.unwrap();
    assert_eq!((reply.is_error, reply.error_kind), (true, Some("invalid-result")));
}

#[tokio::test]
async fn m14_an_answer_that_is_too_long_is_refused_as_such_and_at_once() {
    let Some(server) = start("huge") else { return };
    for arguments in ["{}", r#"{"late":true}"#] {
        let reply = server.call("echo", None, arguments, PATIENCE, Caller::default()).await;
        assert_eq!(reply.unwrap().error_kind, Some("invalid-result"), "{arguments}");
    }
}

#[tokio::test]
async fn m14_an_answer_that_is_too_long_to_be_passed_on_is_told_as_such() {
    if !jail_here() {
        return;
    }
    let restart = Restart { first_ms: 100, ceiling_ms: 100 };
    let server = Server::relayed(plan("huge"), parts(), restart);
    let deadline = Instant::now() + PATIENCE;
    let (life, _) = server.met(deadline).await.unwrap();
    let params = Some(json!({"name": "echo", "arguments": {}}));
    let result = server.relay(&life, "tools/call", params, deadline, Caller::default()).await;
    let why = "the server gave no answer that can be passed on";
    assert_eq!(result, Err(NoResult::Silent(why)));
    assert!(server.is_in(&life), "it is there");
}

#[tokio::test]
async fn m15_what_a_server_asks_for_is_refused() {
    let (Some(asks), Some(input)) = (start("asks"), start("input")) else { return };
    assert_eq!(echo(&asks, "{}").await.unwrap(), "[-32601,-32601,-32601,{}]");
    let error = echo(&input, "{}").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Sandbox);
}

#[tokio::test]
async fn m15_a_server_that_asks_for_much_at_once_is_answered_each_time() {
    let Some(server) = start("asks-at-once") else { return };
    assert_eq!(echo(&server, "{}").await.unwrap(), "100");
}

/// Returns a caller whose client can do `capability`, and where it is asked.
fn asking(capability: &str) -> (Caller, Arc<Asks>) {
    let asks = Arc::new(Asks::default());
    asks.cleaned_by(Some, Some);
    let capabilities = [(capability.to_owned(), json!({}))].into_iter().collect();
    let dialogue = Dialogue { capabilities, asks: Some(Arc::clone(&asks)), ..Dialogue::default() };
    (Caller { dialogue: Some(Arc::new(dialogue)), ..Caller::default() }, asks)
}

/// Waits to be asked `question`, and answers it.
async fn answering(asks: &Asks, question: Value, answer: Value) {
    let mut now = asks.now();
    let asked = now.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert_eq!(asked.requests["question"], question);
    asked.answer(Some(json!({"question": answer})));
}

#[tokio::test]
async fn m15_an_older_server_asks_the_client_of_its_call_where_that_is_passed_on() {
    if !jail_here() {
        return;
    }
    let mut plan = plan("elicits");
    plan.expose.questions = true;
    let server = Server::start(plan, parts());
    let (caller, asks) = asking("elicitation");
    let question = json!({"method": "elicitation/create", "params": {"message": "Who?"}});
    let client = answering(&asks, question, json!({"action": "decline"}));
    let (reply, ()) = tokio::join!(server.call("echo", None, "{}", PATIENCE, caller), client);
    let Content::Text(told) = &reply.unwrap().content[0] else { panic!() };
    // Its client has no model; its folders are those of its jail.
    let told: Value = serde_json::from_str(told).unwrap();
    assert_eq!((&told[0], &told[2]), (&json!(-32601), &json!({"action": "decline"})));
    let root = told[1]["roots"][0]["uri"].as_str().unwrap();
    assert!(root.starts_with("file:///") && root.contains("/target/"), "{root}");
    // Who has no client to ask is told nothing else.
    let told = echo(&server, "{}").await.unwrap();
    assert!(told.contains(r#""uri":"file://"#) && told.starts_with("[-32601,"), "{told}");
    // It may ask for a call that has ended here and not there: another's client is not asked then.
    let short = Duration::from_millis(100);
    let (first, (caller, asks)) = (asking("elicitation").0, asking("elicitation"));
    let silent = server.call("echo", None, r#"{"silent":true}"#, short, first).await;
    assert_eq!(silent.unwrap_err().kind, ErrorKind::Timeout);
    let told = server.call("echo", None, "{}", PATIENCE, caller);
    let Content::Text(told) = &told.await.unwrap().content[0] else { panic!() };
    assert!(told.contains("},-32600,{}]") && asks.now().borrow().is_none(), "{told}");
}

#[tokio::test]
async fn m16_a_timeout_ends_the_call_and_leaves_the_server() {
    let Some(server) = start("silent") else { return };
    settled(&server).await;
    let short = Duration::from_millis(100);
    for _ in 0..2 {
        let error = server.call("echo", None, "{}", short, Caller::default()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Timeout);
    }
    assert_eq!(settled(&server).await.state, State::Ready);
    let Some(forever) = start("progress-forever") else { return };
    settled(&forever).await;
    let error = forever
        .call(
            "echo",
            None,
            "{}",
            short,
            Caller { progress: Some(Arc::new(|_, _, _| {})), ..Caller::default() },
        )
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
}

#[tokio::test]
async fn m16_a_server_that_hangs_is_ended_and_begins_anew() {
    let Some(server) = start("silent") else { return };
    settled(&server).await;
    let short = Duration::from_millis(100);
    let error = server.call("echo", None, "{}", short, Caller::default()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
    let offers = until(&server, |offers| matches!(offers.state, State::Failed { .. })).await;
    let reason = failed(&offers);
    assert!(reason.starts_with("it answers nothing since a call was given up"), "{reason}");
    until(&server, |offers| offers.state == State::Ready).await;
}

#[tokio::test]
async fn m29_progress_is_passed_on_now_and_then() {
    let Some(server) = start("progress") else { return };
    let told = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&told);
    let sink: ProgressSink = Arc::new(move |_, _, text| {
        assert_eq!(text.as_deref(), Some("m"));
        counted.fetch_add(1, Ordering::Relaxed);
    });
    server
        .call("echo", None, "{}", PATIENCE, Caller { progress: Some(sink), ..Caller::default() })
        .await
        .unwrap();
    assert!((1..1_000).contains(&told.load(Ordering::Relaxed)), "{told:?}");
}

#[tokio::test]
async fn m17_a_stubborn_server_is_gone_when_it_is_stopped() {
    if !jail_here() {
        return;
    }
    let mut plan = plan("stubborn");
    let mark = format!("--mark-{}", std::process::id());
    if let Endpoint::Stdio { argv, .. } = &mut plan.endpoint {
        argv.extend(["--skip".to_owned(), mark.clone()]);
    }
    let alive = || {
        let of = |entry: std::fs::DirEntry| {
            std::fs::read(entry.path().join("cmdline")).unwrap_or_default()
        };
        let lines = std::fs::read_dir("/proc").unwrap().flatten().map(of);
        lines.filter(|line| String::from_utf8_lossy(line).contains(&mark)).count()
    };
    let server = Server::start(plan.clone(), parts());
    assert_eq!(settled(&server).await.state, State::Ready);
    assert!(alive() > 0);
    server.stop().await;
    assert_eq!(alive(), 0);
    assert!(echo(&server, "{}").await.is_err());
    assert_eq!(server.offers().borrow().state, State::Ready, "to be stopped is no failure");

    // Dropping the last handle does the same.
    let server = Server::start(plan, parts());
    settled(&server).await;
    let mut offers = server.offers();
    drop(server);
    while offers.changed().await.is_ok() {}
    assert_eq!(alive(), 0);
}

#[tokio::test]
async fn m18_a_crash_is_told_and_the_server_begins_anew() {
    for (mode, code, says) in
        [("crash-spawn", "3", "no such database"), ("crash-list", "4", "crashed at list")]
    {
        let Some(server) = start(mode) else { return };
        let offers = settled(&server).await;
        let reason = failed(&offers);
        assert!(
            reason.contains(&format!("exit status: {code}")) && reason.contains(says),
            "{reason}"
        );
        assert!(!reason.contains(SECRET), "{reason}");
    }
    // One that a probe ends is asked in the older way.
    let Some(server) = start("crash-discover") else { return };
    let offers = until(&server, |offers| offers.state == State::Ready).await;
    assert_eq!(offers.tools.len(), 1);

    for mode in ["crash-call", "mid-line"] {
        let Some(server) = start(mode) else { return };
        settled(&server).await;
        let error = echo(&server, "{}").await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Upstream, "{mode}: {error:?}");
        // It is back, and its tools never left.
        let failed = until(&server, |offers| matches!(offers.state, State::Failed { .. })).await;
        assert_eq!(failed.tools.len(), 1);
        let back = until(&server, |offers| offers.state == State::Ready).await;
        assert_eq!(back.generation, 1);
    }
    let missing = ServerPlan {
        endpoint: Endpoint::Stdio {
            argv: vec!["/no/such/program".to_owned()],
            env: vec![],
            grants: Box::default(),
        },
        ..plan("missing")
    };
    assert!(!failed(&settled(&Server::start(missing, parts())).await).is_empty());
}

#[tokio::test]
async fn m19_a_crash_loop_opens_the_circuit() {
    let Some(server) = start("crash-spawn") else { return };
    let open = Duration::from_millis(clawhost_core::limits::BRIDGE_CIRCUIT_MS);
    let is_open = |offers: &ServerOffers| matches!(&offers.state, State::Failed { wait, .. } if *wait == open);
    until(&server, is_open).await;
    let started = Instant::now();
    assert_eq!(echo(&server, "{}").await.unwrap_err().kind, ErrorKind::Upstream);
    assert!(started.elapsed() < Duration::from_secs(5));
    server.stop().await;
}

#[tokio::test]
async fn m20_a_flood_of_complaints_disturbs_nothing() {
    let Some(server) = start("errors") else { return };
    assert_eq!(echo(&server, "{}").await.unwrap(), "{}");
}

#[tokio::test]
async fn m21_a_server_has_the_declared_variables_and_no_others() {
    let Some(server) = start("env") else { return };
    let said: Value = serde_json::from_str(&echo(&server, "{}").await.unwrap()).unwrap();
    assert_eq!(said["value"], SECRET);
    let mut names: Vec<&str> =
        said["names"].as_array().unwrap().iter().filter_map(|name| name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["GIVEN", "HOME", "LANG", "MCP_TEST_MODE", "PATH"]);
}

#[tokio::test]
async fn m8_lists_without_an_end_are_refused() {
    for (mode, says) in [
        ("endless-list", "pages"),
        ("circle-list", "circle"),
        ("large-list", "over 1000 tools"),
        ("twice-list", "two tools of its list are called"),
    ] {
        let Some(server) = start(mode) else { return };
        let offers = settled(&server).await;
        assert!(failed(&offers).contains(says), "{mode}: {offers:?}");
        assert!(offers.tools.is_empty());
    }
    let (Some(pages), Some(none)) = (start("pages"), start("no-list")) else { return };
    assert_eq!(settled(&pages).await.tools.len(), 4);
    assert_eq!(
        settled(&none).await,
        ServerOffers {
            state: State::Ready,
            generation: 1,
            instructions: Some("be kind".to_owned()),
            server: "fake".to_owned(),
            revision: "2025-11-25",
            ..ServerOffers::none()
        }
    );
}

#[tokio::test]
async fn m4_names_are_handed_on_as_they_are() {
    let Some(server) = start("names") else { return };
    let offers = settled(&server).await;
    let names: Vec<&str> = offers.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(names, ["a/b", "a:b", "a.b", "", "__proto__", "e\u{1b}[2J", "n\nl"]);
}

#[tokio::test]
async fn a_change_of_the_tools_is_seen() {
    let Some(server) = start("growing") else { return };
    assert_eq!(settled(&server).await.tools.len(), 1);
    echo(&server, "{}").await.unwrap();
    let offers = until(&server, |offers| offers.generation == 2).await;
    assert_eq!(offers.tools.len(), 2);
}

#[tokio::test]
async fn an_error_of_the_server_is_a_failed_result() {
    let Some(server) = start("refusing") else { return };
    let reply = server.call("echo", None, "{}", PATIENCE, Caller::default()).await.unwrap();
    assert_eq!((reply.is_error, reply.error_kind), (true, Some("server-error")));
    let [Content::Text(text)] = reply.content.as_slice() else { panic!() };
    assert!(text.contains("-32602") && !text.contains(['\n', '\u{1b}']), "{text}");
}

#[tokio::test]
async fn a_jail_that_cannot_be_kept_is_refused() {
    let mut plan = plan("good");
    if let Endpoint::Stdio { grants, .. } = &mut plan.endpoint {
        grants.denied_paths.push("/x".into());
    }
    let offers = settled(&Server::start(plan, parts())).await;
    assert!(failed(&offers).contains("denied_paths"));

    // A part of the network cannot be held: it is said what would be the whole.
    let mut plan = self::plan("good");
    if let Endpoint::Stdio { grants, .. } = &mut plan.endpoint {
        grants.network = Some(egress::endpoint("https://one.example/").unwrap());
    }
    let offers = settled(&Server::start(plan, parts())).await;
    assert!(failed(&offers).contains("`ssrf_protection: {enabled: false}`"));
}
