//! Components of WASI 0.3: what they may do is what others may, and hostile ones end as others do.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "these are tests"
)]

use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clawhost_core::error::ErrorKind;
use clawhost_core::limits::GUEST_LOG_BYTES_MAX;
use clawhost_tests::host::{TestHostBuilder, text};
use clawhost_tests::listening::listening;
use clawhost_tests::{TestHost, source_root, wait};
use serde_json::json;

/// The time of a call.
const TIMEOUT: Duration = Duration::from_secs(1);
/// How late a timeout may be, at the best of [`TRIES`].
const LATE_MAX: Duration = Duration::from_millis(500);
const TRIES: usize = 5;
/// Threads of this process, that of all tests here: more are those of a guest.
const THREADS_MAX: usize = 150;
/// Lets guests call others.
const CALLING: &str =
    "version: 1\nimmune: {enabled: false}\nprofiles: {sandbox-0: {tool_calls_max: 8}}";

/// Codes of `wasi:filesystem` whose place in the variant tests look at.
const NO_ENTRY: u64 = 19;
const NOT_PERMITTED: u64 = 30;
/// Codes of `wasi:http`, likewise.
const ADDRESS_PROHIBITED: u64 = 4;
const REQUEST_DENIED: u64 = 15;
/// What [`READS`] adds to such a code.
const FAILED: u64 = 1_000_000;

/// A component whose asynchronous function `name`, of a text, is `code`, which may use clock, standard output,
/// files, other tools and streams of WASI 0.3.
fn guest(name: &str, locals: &str, code: &str) -> String {
    let world = source_root().join("tests/p3/world.wat.in");
    let world = std::fs::read_to_string(world).unwrap();
    world.replace("{{name}}", name).replace("{{locals}}", locals).replace("{{code}}", code)
}

/// Waits for as many milliseconds as the text has letters.
const WAITS: &str = "(call $wait_for (i64.mul (i64.extend_i32_u (local.get $length)) (i64.const 1000000))) (i32.const 1)";

/// Reads the file of that name to its end, and returns how long it is.
const READS: &str = "
  (call $get_directories (i32.const 16))
  (call $open_at (i32.load (i32.load (i32.const 16))) (i32.const 1) (local.get $text) (local.get $length)
    (i32.const 0) (i32.const 1) (i32.const 32))
  (if (i32.load8_u (i32.const 32))
    (then (return (i32.add (i32.const 1000000) (i32.load8_u (i32.const 36))))))
  (call $read_via_stream (i32.load (i32.const 36)) (i64.const 0) (i32.const 64))
  (loop $more
    (local.set $got (call $read (i32.load (i32.const 64)) (i32.const 8192) (i32.const 50000)))
    (local.set $all (i32.add (local.get $all) (i32.shr_u (local.get $got) (i32.const 4))))
    (br_if $more (i32.eqz (i32.and (local.get $got) (i32.const 15)))))
  (local.get $all)";
const READS_LOCALS: &str = "(local $got i32) (local $all i32)";

/// Makes a new stream: `$pair` has both of its ends.
const STREAM: &str = "(local.set $pair (call $stream_new))
  (local.set $reader (i32.wrap_i64 (local.get $pair)))
  (local.set $writer (i32.wrap_i64 (i64.shr_u (local.get $pair) (i64.const 32))))";
const STREAM_LOCALS: &str = "(local $pair i64) (local $reader i32) (local $writer i32)";

/// Calls the tool of that name, and returns 1 where it answers.
const CALLS: &str = "
  (call $call_tool (local.get $text) (local.get $length) (i32.const 1024) (i32.const 11) (i32.const 0) (i32.const 0)
    (i32.const 128))
  (i32.eqz (i32.load8_u (i32.const 128)))";

async fn serving(guests: &[(&str, &str, &str)]) -> TestHost {
    let names: Vec<_> = guests.iter().map(|(name, ..)| *name).collect();
    let builder = TestHost::builder().limits("timeout_ms: 1000").runtime_file(CALLING);
    let builder = builder.only(&names).denied_paths(&["workspace/closed"]);
    let add = |builder: TestHostBuilder, (name, locals, code): &(&str, &str, &str)| {
        builder.tool_file(&format!("{name}.wat"), guest(name, locals, code).as_bytes())
    };
    let host = guests.iter().fold(builder, add).build().await;
    assert_eq!(host.refused(), "");
    host
}

async fn result(host: &TestHost, tool: &str, text: &str) -> u64 {
    host.ask(tool, json!({"text": text})).await["result"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_asynchronous_function_is_a_tool_that_waits_and_reads_what_its_profile_grants() {
    let host = serving(&[("waits", "", WAITS), ("reads", READS_LOCALS, READS)]).await;
    let started = Instant::now();
    assert_eq!(result(&host, "waits", &"x".repeat(30)).await, 1);
    assert!(started.elapsed() >= Duration::from_millis(30));
    std::fs::write(host.workspace().join("long"), vec![7; 300_000]).unwrap();
    assert_eq!(result(&host, "reads", "long").await, 300_000);
    std::fs::write(host.workspace().join("empty"), "").unwrap();
    assert_eq!(result(&host, "reads", "empty").await, 0);
    assert_eq!(result(&host, "reads", "nothing").await, FAILED + NO_ENTRY);
    host.check_audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_path_leads_to_what_is_not_granted() {
    let host = serving(&[("reads", READS_LOCALS, READS)]).await;
    std::fs::create_dir(host.workspace().join("closed")).unwrap();
    std::fs::write(host.workspace().join("closed/file"), "closed").unwrap();
    std::os::unix::fs::symlink("../outside", host.workspace().join("link")).unwrap();
    let absolute = host.folder().join("outside");
    for path in ["../outside", "closed/file", "link", absolute.to_str().unwrap()] {
        assert_eq!(result(&host, "reads", path).await, FAILED + NOT_PERMITTED, "{path}");
    }
    host.canaries().check();
    host.check_audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_calls_another_through_the_gate() {
    let host = serving(&[("calls", "", CALLS), ("waits", "", WAITS)]).await;
    assert_eq!(result(&host, "calls", "waits").await, 1);
    assert_eq!(result(&host, "calls", "nobody").await, 0);
    host.check_audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_to_be_recorded_says_why_it_is_not() {
    let records = "version: 1\nprofiles: {sandbox-0: {record: true, tool_calls_max: 8}}";
    let builder = TestHost::builder().only(&["waits"]).runtime_file(records);
    let host = builder.tool_file("waits.wat", guest("waits", "", WAITS).as_bytes()).build().await;
    assert_eq!(result(&host, "waits", "x").await, 1);
    let record = host.finished().pop().unwrap();
    let told = record["recording"].as_str().unwrap_or_default();
    assert!(told.starts_with("none: it is of WASI 0.3"), "{record}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_ones_end_as_those_of_other_versions_do() {
    let timeout = Some((ErrorKind::Timeout, "timeout_ms"));
    let handles = Some((ErrorKind::Sandbox, "max_open_files"));
    let floods = format!(
        "{STREAM} (drop (call $print (local.get $reader)))
        (loop $more
          (local.set $got (call $write (local.get $writer) (i32.const 8192) (i32.const 50000)))
          (local.set $all (i32.add (local.get $all) (i32.shr_u (local.get $got) (i32.const 4))))
          (br_if $more (i32.eqz (i32.and (local.get $got) (i32.const 15)))))
        (local.get $all)"
    );
    let drops = format!(
        "(loop $more {STREAM} (call $drop_reader (local.get $reader)) (call $drop_writer (local.get $writer))
          (br $more)) (i32.const 0)"
    );
    let keeps = format!("(loop $more {STREAM} (br $more)) (i32.const 0)");
    let copies = format!(
        "{STREAM} (loop $more
          (drop (call $start_writing (local.get $writer) (i32.const 8192) (i32.const 100000)))
          (drop (call $start_reading (local.get $reader) (i32.const 131072) (i32.const 100000)))
          (drop (call $done (local.get $writer) (i32.const -1)))
          (br $more)) (i32.const 0)"
    );
    // A file with nothing in it, from one stream of the host into another.
    let pipes = READS.split("(loop").next().unwrap();
    let pipes = format!(
        "{pipes} (drop (call $print (i32.load (i32.const 64)))) (call $wait_for (i64.const -1)) (i32.const 0)"
    );
    let syncs = READS.split("(call $read_via_stream").next().unwrap();
    let syncs = format!(
        "{syncs} (loop $more (drop (call $start_syncing (i32.load (i32.const 36)) (i32.const 200))) (br $more))
        (i32.const 0)"
    );
    let unsynced = syncs.replace(
        "(drop (call $start_syncing (i32.load (i32.const 36)) (i32.const 200)))",
        "(local.set $got (call $start_syncing (i32.load (i32.const 36)) (i32.const 200)))
        (local.set $all (i32.shr_u (local.get $got) (i32.const 4)))
        (if (local.get $all) (then (drop (call $cancel (local.get $all))) (call $drop (local.get $all))))",
    );
    let streams = format!("{STREAM_LOCALS} {READS_LOCALS}");
    let cases = [
        ("spins", "", "(loop $more (br $more)) (i32.const 0)", timeout),
        ("yields", "", "(loop $more (drop (call $yield)) (br $more)) (i32.const 0)", timeout),
        ("never", "", "(call $wait_for (i64.const -1)) (i32.const 0)", timeout),
        (
            "tasks",
            "",
            "(loop $more (drop (call $start_waiting (i64.const -1))) (br $more)) (i32.const 0)",
            handles,
        ),
        (
            "cancels",
            "(local $task i32)",
            "(loop $more
              (local.set $task (i32.shr_u (call $start_waiting (i64.const -1)) (i32.const 4)))
              (drop (call $cancel (local.get $task)))
              (call $drop (local.get $task)) (br $more)) (i32.const 0)",
            timeout,
        ),
        ("keeps", &*streams, &*keeps, handles),
        ("drops", &*streams, &*drops, timeout),
        ("copies", &*streams, &*copies, timeout),
        ("pipes", READS_LOCALS, &*pipes, timeout),
        ("syncs", READS_LOCALS, &*syncs, handles),
        ("unsynced", READS_LOCALS, &*unsynced, timeout),
        ("deadlocks", "", "(call $set_wait (call $set_new) (i32.const 16))", None),
        ("floods", &*streams, &*floods, None),
        ("waits", "", WAITS, None),
    ];
    let guests: Vec<_> =
        cases.iter().map(|(name, locals, code, _)| (*name, *locals, *code)).collect();
    let host = serving(&guests).await;
    let sparse = std::fs::File::create(host.workspace().join("sparse")).unwrap();
    sparse.set_len(1 << 40).unwrap();
    for (name, .., ends) in cases {
        wait::best(name, TRIES, TIMEOUT + LATE_MAX, async |_| {
            let started = Instant::now();
            let ended = wait::within(name, host.call(name, json!({"text": "sparse"}))).await;
            let took = started.elapsed();
            match ends {
                Some((kind, limit)) => {
                    let error = ended.unwrap_err();
                    let told = (error.kind, &error.data["limit"]);
                    assert_eq!(told, (kind, &json!(limit)), "{name}: {error:?}");
                }
                None => assert_eq!(ended.unwrap().is_error, name == "deadlocks", "{name}"),
            }
            took
        })
        .await;
        let threads = std::fs::read_dir("/proc/self/task").unwrap().count();
        assert!(threads < THREADS_MAX, "after {name}: {threads}");
        // Whatever happened, the host is well.
        assert_eq!(result(&host, "waits", "x").await, 1, "after {name}");
    }
    assert_eq!(result(&host, "floods", "").await, GUEST_LOG_BYTES_MAX as u64);
    host.check_audit();
}

#[tokio::test]
async fn a_command_answers_with_its_output() {
    let command = std::fs::read(source_root().join("tests/p3/command.wat")).unwrap();
    let host = TestHost::builder().only(&["hello"]).tool_file("hello.wat", &command).build().await;
    assert_eq!(host.refused(), "");
    let said = host.ask("hello", json!({})).await;
    assert_eq!(said, json!({"stdout": "hello\n", "stderr": "", "exit_code": 0}));
}

/// Answers every request with 200, at the port that is returned, and tells how many came.
fn server() -> (u16, Arc<AtomicUsize>) {
    let hits = Arc::new(AtomicUsize::new(0));
    let heard = Arc::clone(&hits);
    let port = listening(move |mut stream| {
        heard.fetch_add(1, Ordering::SeqCst);
        let _ = stream.read(&mut [0; 4096]);
        let _ = stream
            .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nhi");
    });
    (port, hits)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_pass_the_one_check_of_what_goes_out() {
    let (port, hits) = server();
    let component = std::fs::read(source_root().join("tests/p3/http.wat")).unwrap();
    let serving = async |private: bool| {
        let ssrf = format!("ssrf_protection: {{enabled: true, block_private_ips: {private}}}");
        let network =
            format!("network: {{mode: allowlist, allowed_hosts: [127.0.0.1, localhost], {ssrf}}}");
        let file = format!("version: 1\nprofiles: {{sandbox-0: {{ports: [{port}]}}}}");
        let builder = TestHost::builder().only(&["asks"]).limits("timeout_ms: 3000");
        let builder = builder.capabilities(&network).runtime_file(&file);
        let host = builder.tool_file("asks.wat", &component).build().await;
        assert_eq!(host.refused(), "");
        host
    };
    let open = serving(false).await;
    assert_eq!(result(&open, "asks", &format!("127.0.0.1:{port}")).await, 200);
    assert_eq!(hits.load(Ordering::SeqCst), 1);
    let other = port.checked_add(1).unwrap_or(1);
    for denied in [format!("denied.test:{port}"), format!("127.0.0.1:{other}")] {
        assert_eq!(result(&open, "asks", &denied).await, 1000 + REQUEST_DENIED, "{denied}");
    }
    let closed = serving(true).await;
    for private in ["127.0.0.1", "localhost"] {
        let came = result(&closed, "asks", &format!("{private}:{port}")).await;
        assert_eq!(came, 1000 + ADDRESS_PROHIBITED, "{private}");
    }
    assert_eq!(hits.load(Ordering::SeqCst), 1);
    // The record says what was refused, as of every other component.
    let record = closed.finished().pop().unwrap();
    assert!(record.to_string().contains("127.0.0.1"), "{record}");
    open.check_audit();
    closed.check_audit();
}

#[tokio::test]
async fn a_stream_in_a_signature_refuses_the_tool_and_is_named() {
    let text = r#"(component (core module $m (func (export "f") (param i32)))
        (core instance $i (instantiate $m)) (type $t (stream u8))
        (func $f (param "it" $t) (canon lift (core func $i "f"))) (export "f" (func $f)))"#;
    let builder = TestHost::builder().only(&["f"]).tool_file("f.wat", text.as_bytes());
    let refused = builder.build().await.refused();
    assert!(refused.contains("`stream` requires"), "{refused}");
}

#[tokio::test]
async fn an_interface_without_its_grant_refuses_the_tool() {
    for (interface, why) in [
        ("wasi:http/client", "`network.mode` is `allowlist`"),
        ("wasi:sockets/types", "raw sockets"),
    ] {
        let text = format!(
            r#"(component (import "{interface}@0.3.0" (instance))
            (core module $m (func (export "f") (result i32) (i32.const 1)))
            (core instance $i (instantiate $m))
            (func $f (result u32) (canon lift (core func $i "f"))) (export "f" (func $f)))"#
        );
        let builder = TestHost::builder().only(&["f"]).tool_file("f.wat", text.as_bytes());
        let refused = builder.build().await.refused();
        assert!(refused.contains(interface) && refused.contains(why), "{refused}");
    }
}

/// The example is built by guest-tools/examples/build.sh, not here: nothing is tested where it is not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_example_reads_files_beside_each_other() {
    let built = source_root().join("target/examples/rust-async/tools/example-tool.wasm");
    let Ok(bytes) = std::fs::read(built) else {
        return eprintln!(
            "SKIPPED rust-async: not built; run guest-tools/examples/build.sh rust-async"
        );
    };
    let host =
        TestHost::builder().only(&["count-words"]).tool_file("words.wasm", &bytes).build().await;
    assert_eq!(host.refused(), "");
    for (name, text) in [("one", "a b c".to_owned()), ("two", "word ".repeat(100_000))] {
        std::fs::write(host.workspace().join(name), text).unwrap();
    }
    let counted = host.ask("count_words", json!({"paths": ["one", "two", "one"]})).await;
    assert_eq!(counted, json!({"result": [3, 100_000, 3]}));
    let failed = host.call("count_words", json!({"paths": ["one", "none"]})).await.unwrap();
    assert!(failed.is_error && text(&failed).contains("none: ErrorCode::NoEntry"), "{failed:?}");
    let outside = host.call("count_words", json!({"paths": ["../outside"]})).await;
    assert_eq!(outside.unwrap_err().kind, ErrorKind::Sandbox);
    host.canaries().check();
    host.check_audit();
}
