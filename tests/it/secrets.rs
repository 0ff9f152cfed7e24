//! Secrets through real components: what a guest has, what a server gets, and what nobody sees.

use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clawhost::secrets::Secrets;
use clawhost_core::error::ErrorKind;
use clawhost_core::limits::ERROR_TEXT_BYTES_MAX;
use clawhost_tests::host::{call, secrets, text};
use clawhost_tests::listening::{listening, read_head};
use clawhost_tests::{Cli, Guest, TestHost, wait};
use serde_json::json;

use crate::bridge::{PYTHON, skipped};
use crate::cli::PROGRAM;

const VALUE: &str = "s3cr3t-value-of-the-test";

/// A server on this machine that says what it was sent, as it is and in base64.
struct Echo {
    port: u16,
    heard: Arc<Mutex<String>>,
}

impl Echo {
    fn start() -> Self {
        let heard = Arc::new(Mutex::new(String::new()));
        let all = Arc::clone(&heard);
        let port = listening(move |mut stream| {
            let head = read_head(&mut stream);
            all.lock().unwrap().push_str(&head);
            let body = format!("{head}\n{}", STANDARD.encode(&head));
            let length = body.len();
            let answer = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{body}");
            drop(stream.write_all(answer.as_bytes()));
        });
        Self { port, heard }
    }

    fn heard(&self) -> String {
        self.heard.lock().unwrap().clone()
    }
}

const LOCAL: &str = "network: {mode: allowlist, allowed_hosts: [localhost, 127.0.0.1], ssrf_protection: {enabled: true, block_private_ips: false}}";

/// A host whose tool sends the secret TOKEN, bound to `127.0.0.1`, there and to `localhost`.
async fn sending(bound: &Echo, other: &Echo, secrets: Secrets) -> TestHost {
    let (first, second) = (bound.port, other.port);
    let profile = format!(
        "env: {{A: \"127.0.0.1:{first}\", B: \"localhost:{second}\"}}, ports: [{first}, {second}], secrets: [{{name: TOKEN, hosts: [127.0.0.1]}}]"
    );
    TestHost::builder()
        .only(&["secret-sender"])
        .tool_file("secret-sender.wat", Guest::read("secret-sender").wat().as_bytes())
        .capabilities(LOCAL)
        .runtime_file(&format!("version: 1\nprofiles: {{sandbox-0: {{{profile}}}}}"))
        .secrets(secrets)
        .build()
        .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keys_of_whom_a_host_may_ask_are_kept_out_of_sight_before_it_does() {
    const PROVIDER: &str = "claw: \"0.3.0\"\nkind: Provider\nmetadata: {name: far}\nspec: {protocol: openai-compatible, endpoint: \"http://127.0.0.1:9/v1\", model: m, auth: {type: bearer, secret_ref: PROVIDER_KEY}}";
    const TELEMETRY: &str = "claw: \"0.3.0\"\nkind: Telemetry\nmetadata: {name: far}\nspec:\n  exporters: [{type: webhook, endpoint: \"http://127.0.0.1:9/\", auth: {secret_ref: HOOK_KEY}}]";
    const CHANNELS: &str =
        "version: 1\nchannels: {far: {webhook: \"http://127.0.0.1:9/\", secret: CHANNEL_KEY}}";
    const KEYS: &[(&str, &str)] = &[
        ("PROVIDER_KEY", VALUE),
        ("HOOK_KEY", "another-value-of-it"),
        ("CHANNEL_KEY", "one-more-value-of-it"),
    ];
    let host = TestHost::builder().secrets(secrets(KEYS)).runtime_file(CHANNELS);
    let host = host.document("provider.yaml", PROVIDER).document("telemetry.yaml", TELEMETRY);
    let texts = KEYS.iter().map(|(_, value)| *value).collect::<Vec<_>>().join(" ");
    let host = host.file("dot.env", &texts).build().await;
    let read = host.ask("read_file", json!({"path": "dot.env"})).await.to_string();
    let shown = "[redacted:PROVIDER_KEY] [redacted:HOOK_KEY] [redacted:CHANNEL_KEY]";
    assert!(read.contains(shown), "{read}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bound_host_gets_the_value_and_the_guest_never_does() {
    let (bound, other) = (Echo::start(), Echo::start());
    let host = sending(&bound, &other, secrets(&[("TOKEN", VALUE)])).await;
    assert!(host.refused().is_empty(), "{}", host.refused());
    let reply = wait::within("a call", host.call("secret-sender", json!({}))).await.unwrap();
    let shown = text(&reply);
    assert!(shown.starts_with("clawsecret-"), "{shown}");

    assert!(
        bound.heard().contains(&format!("x-token: {VALUE}\r\n")),
        "{shown} {:?}",
        host.finished()
    );
    assert!(other.heard().starts_with("GET / "), "{shown} {:?}", host.finished());
    assert!(!other.heard().contains("x-token"), "{}", other.heard());

    // Both echoes arrived, and the bound one has stars where the value was.
    assert!(shown.contains(&format!("x-token: {}", "*".repeat(VALUE.len()))), "{shown}");
    assert!(shown.contains(&format!("host: localhost:{}", other.port)), "{shown}");
    for echoed in shown.lines() {
        let decoded = STANDARD.decode(echoed).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&decoded).contains(VALUE), "{shown}");
    }
    assert!(!shown.contains(VALUE), "{shown}");
    assert!(!format!("{:?}", host.finished()).contains(VALUE));
    host.check_audit();
}

/// Whatever cuts a text, cuts what is left of it without secrets: nothing recognises a part of one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_lies_across_a_cut_is_in_no_reply_and_no_record() {
    let secrets = Secrets::none();
    secrets.hide("TOKEN", VALUE).unwrap();
    let host = TestHost::builder().secrets(secrets).build().await;
    // The text of an error begins with a few words and the path.
    for before in (ERROR_TEXT_BYTES_MAX - 60..ERROR_TEXT_BYTES_MAX).step_by(4) {
        let path = "p".repeat(before) + VALUE;
        let reply = host.call("read_file", json!({"path": path})).await.unwrap();
        assert!(reply.is_error && !text(&reply).contains(&VALUE[..4]), "{before}");
    }
    for before in 232..256 {
        let name = "z".repeat(before) + VALUE;
        let mut call = call(&name, json!({}));
        call.context.request_id = Some(name);
        let error = host.host().call(call).await.unwrap_err();
        assert!(!format!("{error:?}").contains(&VALUE[..4]), "{error:?}");
    }
    let records = format!("{:?}", host.records());
    assert!(records.contains("zzz") && !records.contains(&VALUE[..4]), "{records}");
}

/// Says a megabyte, made of escapes that can be read in many ways, over and over.
const SAYS_ESCAPES: &str = r#";; pages: 48
;;; fields
(data (i32.const 3072) "%26&amp;\\x26%5c%")
;;; call
(local $bytes i32)
(memory.copy (i32.const 131072) (i32.const 3072) (i32.const 16))
(local.set $bytes (i32.const 16))
(loop $more
  (memory.copy (i32.add (i32.const 131072) (local.get $bytes)) (i32.const 131072) (local.get $bytes))
  (local.set $bytes (i32.shl (local.get $bytes) (i32.const 1)))
  (br_if $more (i32.lt_u (local.get $bytes) (i32.const 1048576))))
(loop $forever SAY (br $forever))
"#;

/// Without its bound, looking for secrets in one line takes a good part of a minute here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_guest_says_on_the_side_is_searched_within_the_time_of_its_call() {
    const SEARCHED: Duration = Duration::from_secs(5);
    let says = [
        ("log", "(call $log (i32.const 2) (i32.const 131072) (local.get $bytes))"),
        (
            "progress",
            "(call $report (f64.const 1) (i32.const 0) (f64.const 0) (i32.const 1) (i32.const 131072) (local.get $bytes))",
        ),
    ];
    let guest = |(imports, say): (&str, &str)| {
        let text = format!(";; imports: {imports}\n{}", SAYS_ESCAPES.replace("SAY", say));
        Guest::parse(imports, &text)
    };
    let secrets = Secrets::none();
    secrets.hide("TOKEN", VALUE).unwrap();
    let builder = TestHost::builder().limits("timeout_ms: 300").secrets(secrets);
    let guests = says.map(guest);
    let host = guests.iter().fold(builder, |builder, guest| builder.guest(guest)).build().await;
    for guest in &guests {
        wait::best(&guest.name, 5, SEARCHED, async |_| {
            let started = Instant::now();
            let error = host.call(guest.tool(), json!({})).await.unwrap_err();
            if error.kind == ErrorKind::Overloaded {
                // Its first call loads its code.
                return Duration::MAX;
            }
            assert_eq!(error.kind, ErrorKind::Timeout, "{error}");
            started.elapsed()
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_call_has_a_placeholder_of_its_own() {
    let (bound, other) = (Echo::start(), Echo::start());
    let host = sending(&bound, &other, secrets(&[("TOKEN", VALUE)])).await;
    let mut seen = Vec::new();
    for _ in 0..2 {
        let reply = host.call("secret-sender", json!({})).await.unwrap();
        seen.push(text(&reply).lines().next().unwrap().to_owned());
    }
    assert_ne!(seen[0], seen[1]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_secret_that_is_nowhere_fails_its_request_and_no_other() {
    let (bound, other) = (Echo::start(), Echo::start());
    let host = sending(&bound, &other, Secrets::none()).await;
    let reply = wait::within("a call", host.call("secret-sender", json!({}))).await.unwrap();
    assert!(!reply.is_error);
    assert_eq!(bound.heard(), "");
    assert!(other.heard().starts_with("GET / "));
}

/// A host whose tool asks for the secret TOKEN, which its profile grants as it is.
async fn reading(profile: &str, secrets: Secrets) -> TestHost {
    TestHost::builder()
        .only(&["secret-reader"])
        .tool_file("secret-reader.wat", Guest::read("secret-reader").wat().as_bytes())
        .capabilities("secrets: {injection: environment}")
        .runtime_file(&format!("version: 1\nprofiles: {{sandbox-0: {{{profile}}}}}"))
        .secrets(secrets)
        .build()
        .await
}

#[tokio::test]
async fn under_environment_the_guest_has_the_value_and_a_missing_one_fails_the_call() {
    let granted = "secrets: [{name: TOKEN}]";
    let host = reading(granted, secrets(&[("TOKEN", VALUE)])).await;
    let reply = host.call("secret-reader", json!({})).await.unwrap();
    // The guest has it; who sees the reply does not.
    assert_eq!(text(&reply), "[redacted:TOKEN]");

    let host = reading(granted, Secrets::none()).await;
    let error = host.call("secret-reader", json!({})).await.unwrap_err();
    assert_eq!((error.kind, &error.data["secret"]), (ErrorKind::Sandbox, &json!("TOKEN")));
    host.check_audit();
}

#[tokio::test]
async fn a_secret_that_is_not_granted_is_none() {
    let host = reading("secrets: [{name: OTHER}]", secrets(&[("OTHER", VALUE)])).await;
    let reply = host.call("secret-reader", json!({})).await.unwrap();
    assert_eq!(reply.error_kind, Some("trap"));
    let host = reading("env: {X: y}", secrets(&[("TOKEN", VALUE)])).await;
    assert!(host.refused().contains("claw:host/secrets"), "{}", host.refused());
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_native_program_gets_a_value_under_environment_only() {
    let program =
        json!({"command": "printf %s \"$TOKEN\" | base64; echo \"left: ${TOKEN:-nothing}\""});
    for (injection, network, hosts, expected) in [
        ("environment", "", "", "[redacted:TOKEN]"),
        ("host-boundary", LOCAL, ", hosts: [127.0.0.1]", "left: nothing"),
    ] {
        let host = TestHost::builder()
            .only(&["exec-shell"])
            .level("process")
            .capabilities(&format!(
                "shell: {{mode: full}}\nsecrets: {{injection: {injection}}}\n{network}"
            ))
            .runtime_file(&format!(
                "version: 1\nprofiles: {{sandbox-0: {{secrets: [{{name: TOKEN{hosts}}}]}}}}"
            ))
            .secrets(secrets(&[("TOKEN", VALUE)]))
            .build()
            .await;
        assert!(host.refused().is_empty(), "{}", host.refused());
        let reply = host.call("exec_shell", program.clone()).await.unwrap();
        let shown = format!("{} {:?}", text(&reply), reply.structured);
        assert!(shown.contains(expected) && !shown.contains(VALUE), "{injection}: {shown}");
        assert!(!shown.contains(&STANDARD.encode(VALUE)), "{shown}");
    }
}

#[test]
fn the_store_is_filled_listed_and_emptied_and_shows_no_value() {
    let cli = Cli::new(PROGRAM);
    let empty = cli.run(&["secrets", "list"]);
    assert_eq!((empty.code, empty.stdout.as_str()), (Some(0), ""), "{}", empty.stderr);
    let set = cli.run_with(&["secrets", "set", "API_TOKEN"], &format!("{VALUE}\n"));
    assert_eq!((set.code, set.stdout.as_str(), set.stderr.as_str()), (Some(0), "", ""));
    let listed = cli.run(&["secrets", "list", "--json"]);
    assert_eq!(serde_json::from_str(&listed.stdout).ok(), Some(json!([{"name": "API_TOKEN"}])));
    let stored = std::fs::read_to_string(cli.state().join("secrets.json")).unwrap();
    assert!(stored.contains(VALUE));
    for wrong in
        [["secrets", "set", "../x"], ["secrets", "set", "EMPTY"], ["secrets", "remove", "X"]]
    {
        assert_eq!(cli.run(&wrong).code, Some(2), "{wrong:?}");
    }
    assert_eq!(cli.run(&["secrets", "remove", "API_TOKEN"]).code, Some(0));
    assert_eq!(cli.run(&["secrets", "list"]).stdout, "");
}

/// Types its standard input at a terminal of a program once that shows nothing, or where that is empty tells the program
/// to end; says how the program ends, and whether
/// the terminal shows what is typed then.
const TYPIST: &str = r#"
import os, pty, signal, sys, termios, time
child, terminal = pty.fork()
if child == 0:
    os.execv(sys.argv[1], sys.argv[1:])
shows = lambda: bool(termios.tcgetattr(terminal)[3] & termios.ECHO)
while shows() and os.waitpid(child, os.WNOHANG) == (0, 0):
    time.sleep(0.01)
typed = sys.stdin.buffer.read()
if not typed:
    os.kill(child, signal.SIGTERM)
while typed:
    typed = typed[os.write(terminal, typed):]
try:
    while os.read(terminal, 4096):
        pass
except OSError:
    pass
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), shows())
"#;

#[test]
fn what_is_typed_unseen_is_kept_whole_and_who_stops_gets_the_terminal_back() {
    if !std::path::Path::new(PYTHON).exists() {
        return skipped("there is no python3");
    }
    let cli = Cli::new(PROGRAM);
    let value = "v".repeat(5_000);
    for (name, keys, said) in [
        ("TYPED", format!("{value}x\u{7f}\r"), "0 True\n"),
        ("STOPPED", "value\u{3}".to_owned(), "2 True\n"),
        ("ENDED", String::new(), "2 True\n"),
    ] {
        let keys = cli.write("keys", keys);
        let mut typist = std::process::Command::new(PYTHON);
        typist.args(["-c", TYPIST, PROGRAM, "secrets", "set", name]).current_dir(cli.here());
        let like = cli.command(&[]);
        typist.env_clear().envs(like.get_envs().filter_map(|(key, of)| Some((key, of?))));
        let run = typist.stdin(std::fs::File::open(keys).unwrap()).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&run.stdout), said, "{name}: {run:?}");
    }
    let kept = std::fs::read_to_string(cli.state().join("secrets.json")).unwrap();
    let kept: serde_json::Value = serde_json::from_str(&kept).unwrap();
    assert_eq!(kept["secrets"], json!({"TYPED": value}));
}

#[test]
fn the_command_that_the_log_names_puts_a_missing_secret_where_the_host_looks() {
    let cli = Cli::new(PROGRAM);
    cli.write("host/claw.yaml", MANIFEST);
    cli.write("host/tools/secret-reader.wat", Guest::read("secret-reader").wat());
    let settings = "version: 1\nstate: own\ntools: {directory: tools}\nprofiles: {sandbox-0: {secrets: [{name: TOKEN}]}}\n";
    cli.write("host/clawhost.yaml", settings);
    let call = ["call", "host/claw.yaml", "secret-reader", "{}"];
    let missing = cli.run(&call);
    let set = missing.stderr.split("clawhost ").find(|text| text.starts_with("secrets set TOKEN"));
    let set = set.unwrap_or_else(|| panic!("{}", missing.stderr)).split_whitespace();
    let words: Vec<&str> = set.take(5).map(|word| word.trim_matches(['"', '.'])).collect();
    assert_eq!(cli.run_with(&words, VALUE).code, Some(0), "{words:?}");
    let done = cli.run(&call);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    let listed = cli.run(&["secrets", "list", "--config", "host/clawhost.yaml"]);
    assert!(listed.stdout.contains("TOKEN"), "{}", listed.stderr);
}

const MANIFEST: &str = r#"
claw: "0.3.0"
kind: Claw
metadata: {name: test}
spec:
  identity: {inline: {personality: Tests., autonomy: autonomous}}
  providers:
    - inline: {protocol: openai-compatible, endpoint: "http://127.0.0.1:9/v1", model: none, auth: {type: none}}
  sandbox: {inline: {level: wasm, capabilities: {secrets: {injection: environment}}}}
  tools: [{name: secret-reader}]
  policies: [{inline: {rules: [{id: all, action: allow, scope: all}]}}]
"#;

#[test]
fn a_secret_comes_from_the_store_the_environment_or_the_folder_and_is_in_no_output() {
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", MANIFEST);
    cli.write("clawhost.yaml", "version: 1\nprofiles: {sandbox-0: {secrets: [{name: TOKEN}]}}");
    cli.write("tools/secret-reader.wat", Guest::read("secret-reader").wat());
    let folder = cli.write("secrets/TOKEN", format!("{VALUE}\n"));
    let folder = folder.parent().unwrap().to_owned();
    let call = |set: &dyn Fn(&mut std::process::Command)| {
        let arguments = ["-vv", "call", "claw.yaml", "secret-reader", "--tools", "tools"];
        let mut command = cli.command(&arguments);
        set(&mut command);
        command.stdin(std::process::Stdio::null()).output().unwrap()
    };
    let nowhere = call(&|_| ());
    assert_eq!(nowhere.status.code(), Some(4));
    assert!(String::from_utf8_lossy(&nowhere.stderr).contains("TOKEN"));

    let from_environment = call(&|command| _ = command.env("TOKEN", VALUE));
    let from_folder = call(&|command| _ = command.env("CLAW_SECRETS_DIR", &folder));
    assert_eq!(cli.run_with(&["secrets", "set", "TOKEN"], VALUE).code, Some(0));
    let from_store = call(&|_| ());
    for output in [from_environment, from_folder, from_store] {
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(shown.trim(), "[redacted:TOKEN]", "{said}");
        assert!(!said.contains(VALUE), "{said}");
    }
    assert!(!cli.log().contains(VALUE));
}
