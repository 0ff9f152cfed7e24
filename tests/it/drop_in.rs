//! The drop-in directory: what is put there is served, what is taken away is not, and calls that
//! run are not disturbed.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use clawhost_core::error::ErrorKind;
use clawhost_core::limits::DROP_IN_DEBOUNCE_MS;
use clawhost_tests::host::text;
use clawhost_tests::{Guest, TestHost, wait};
use serde_json::json;

/// How soon a change has to show, at the best of [`TRIES`].
const LISTED_WITHIN: Duration = Duration::from_secs(1);
const TRIES: usize = 6;
/// A guest that answers with `answer`, whatever its file is called.
pub(crate) fn saying(tool: &str, answer: &str) -> Guest {
    let code: String = answer
        .bytes()
        .enumerate()
        .map(|(index, byte)| {
            format!("(i32.store8 (i32.const {}) (i32.const {byte}))\n", 6144 + index)
        })
        .collect();
    let answer = format!(
        ";;; call\n{code}(return (call $answer (i32.const 6144) (i32.const {})))",
        answer.len()
    );
    Guest::parse(tool, &answer)
}

/// Puts a file there whole, as a careful installer does.
fn drop_in(host: &TestHost, name: &str, bytes: &[u8]) {
    let aside = host.tools_folder().join(format!(".{name}.part"));
    fs::write(&aside, bytes).unwrap();
    fs::rename(aside, host.tools_folder().join(name)).unwrap();
}

fn serves(host: &TestHost, tool: &str) -> bool {
    host.names().iter().any(|name| name == tool)
}

async fn shows(host: &TestHost, what: &str, holds: impl Fn() -> bool) -> Duration {
    let started = Instant::now();
    wait::until(&format!("{what}; {}", host.refused()), || holds().then_some(())).await;
    started.elapsed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_dropped_in_is_listed_within_a_second_and_answers() {
    let host = TestHost::builder().build().await;
    wait::best("the new tool", TRIES, LISTED_WITHIN, async |attempt| {
        let (tool, mut version) = (format!("dropped_{attempt}"), host.host().catalog_version());
        version.mark_unchanged();
        drop_in(&host, &format!("{tool}.wasm"), &saying(&tool, "here").wasm());
        let took = shows(&host, "the new tool", || serves(&host, &tool)).await;
        assert!(version.has_changed().unwrap(), "nobody would be told");
        assert_eq!(text(&host.call(&tool, json!({})).await.unwrap()), "here");
        took
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replaced_tool_answers_anew_and_a_deleted_one_is_unknown() {
    let host = TestHost::builder()
        .tool_file("greet.wat", saying("greet", "one").wat().as_bytes())
        .build()
        .await;
    assert_eq!(text(&host.call("greet", json!({})).await.unwrap()), "one");
    let old = host.host().catalog().find("greet").unwrap().digest.clone();

    drop_in(&host, "greet.wat", saying("greet", "two").wat().as_bytes());
    let digest = || host.host().catalog().find("greet").map(|tool| tool.digest.clone());
    shows(&host, "the new version", || digest().is_some_and(|new| new != old)).await;
    assert_eq!(text(&host.call("greet", json!({})).await.unwrap()), "two");

    fs::remove_file(host.tools_folder().join("greet.wat")).unwrap();
    shows(&host, "the tool to go", || !serves(&host, "greet")).await;
    let error = host.call("greet", json!({})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::UnknownTool);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_still_being_copied_causes_no_error() {
    use std::io::Write as _;
    let host = TestHost::builder().build().await;
    // Where this machine is so busy that the copy itself pauses, half of it may be taken for all.
    let pause = Duration::from_millis(DROP_IN_DEBOUNCE_MS) / 2;
    wait::best("the copy without a pause", TRIES, pause, async |attempt| {
        let tool = format!("slow_copy_{attempt}");
        let bytes = saying(&tool, "whole").wasm();
        let mut file = fs::File::create(host.tools_folder().join(format!("{tool}.wasm"))).unwrap();
        // A piece at a time, as a copy over a network arrives, for longer than it takes to be seen.
        let mut pieces = bytes.chunks(bytes.len() / 60 + 1);
        let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
        let copied = || {
            let Some(piece) = pieces.next() else { return Some(()) };
            file.write_all(piece).unwrap();
            longest = longest.max(last.elapsed());
            last = Instant::now();
            assert!(longest > pause || !host.refused().contains(&tool), "{}", host.refused());
            (longest > pause).then_some(())
        };
        wait::until("the copy", copied).await;
        if longest <= pause {
            shows(&host, "the copied tool", || serves(&host, &tool)).await;
            assert_eq!(text(&host.call(&tool, json!({})).await.unwrap()), "whole");
            assert!(!host.refused().contains(&tool), "{}", host.refused());
        }
        longest
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_files_that_offer_a_name_neither_serves_it_until_one_goes() {
    let host = TestHost::builder()
        .tool_file("first.wat", saying("greet", "first").wat().as_bytes())
        .build()
        .await;
    drop_in(&host, "a_second.wat", saying("greet", "second").wat().as_bytes());
    shows(&host, "the refusal", || host.refused().contains("a_second.wat")).await;
    let refused = host.refused();
    assert!(refused.contains("greet") && refused.contains("first.wat"), "{refused}");
    assert!(!serves(&host, "greet"));
    // Nor where the first fails: it has the name still.
    drop_in(&host, "first.wat", b"(component");
    shows(&host, "the failure", || host.refused().contains("first.wat:")).await;
    assert!(!serves(&host, "greet"), "{}", host.refused());

    fs::remove_file(host.tools_folder().join("first.wat")).unwrap();
    shows(&host, "the second", || host.refused().is_empty()).await;
    assert_eq!(text(&host.call("greet", json!({})).await.unwrap()), "second");
}

#[tokio::test]
async fn a_dropped_in_tool_does_not_replace_a_built_in_one() {
    let host = TestHost::builder()
        .file("a.txt", "a")
        .tool_file("mine.wat", saying("read_file", "hijacked").wat().as_bytes())
        .build()
        .await;
    assert!(host.refused().contains("read_file"), "{}", host.refused());
    assert_eq!(host.ask("read_file", json!({"path": "a.txt"})).await["content"], "a");
}

#[tokio::test]
async fn the_name_of_a_built_in_tool_is_reserved_even_where_it_is_not_served() {
    let host = TestHost::builder()
        .only(&["read-file"])
        .tool_file("mine.wat", saying("exec_shell", "hijacked").wat().as_bytes())
        .build()
        .await;
    assert!(!serves(&host, "exec_shell"));
    assert!(host.refused().contains("replace_builtins"), "{}", host.refused());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_without_its_component_is_listed_until_the_component_is_there() {
    let document = "{claw: \"0.3.0\", kind: Tool, metadata: {name: late}, spec: {description: Late., input_schema: {type: object}}}";
    let host = TestHost::builder().build().await;
    for name in ["late.yaml", "late.yml"] {
        drop_in(&host, name, document.as_bytes());
        shows(&host, "the document", || host.refused().contains(name)).await;
    }
    drop_in(&host, "late.wat", saying("late", "late").wat().as_bytes());
    shows(&host, "the tool", || serves(&host, "late")).await;
    let refused = host.refused();
    assert!(!refused.contains("late.yaml") && refused.contains("late.yml"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_directory_in_its_place_is_served() {
    let host = TestHost::builder()
        .tool_file("first.wat", saying("first", "first").wat().as_bytes())
        .build()
        .await;
    fs::rename(host.tools_folder(), host.tools_folder().with_extension("old")).unwrap();
    fs::create_dir(host.tools_folder()).unwrap();
    drop_in(&host, "second.wat", saying("second", "second").wat().as_bytes());
    shows(&host, "the new directory", || serves(&host, "second") && !serves(&host, "first")).await;
}

#[tokio::test]
async fn names_that_differ_only_in_hyphen_and_underscore_collide() {
    let host = TestHost::builder()
        .tool_file("a.wat", saying("two_words", "a").wat().as_bytes())
        .tool_file("b.wat", saying("two-words", "b").wat().as_bytes())
        .build()
        .await;
    assert!(host.refused().contains("two"), "{}", host.refused());
    assert_eq!(host.names().iter().filter(|name| name.starts_with("two")).count(), 0);
}

#[tokio::test]
async fn names_that_differ_in_case_are_different_tools() {
    let names = ["Two", "two", "Read_File"];
    let mut host = TestHost::builder().only(&["read-file"]);
    for (at, name) in names.iter().enumerate() {
        host = host.tool_file(&format!("{at}.wat"), saying(name, name).wat().as_bytes());
    }
    let host = host.build().await;
    for name in names {
        assert_eq!(text(&host.call(name, json!({})).await.unwrap()), name, "{}", host.refused());
    }
    assert!(serves(&host, "read_file"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_call_is_not_disturbed_when_its_tool_is_replaced_and_deleted() {
    let slow = ";; imports: clock\n;;; call\n(call $block (call $subscribe (i64.const 700000000)))";
    let host = TestHost::builder()
        .limits("timeout_ms: 20000")
        .guest(&Guest::parse("slow", slow))
        .build()
        .await;
    let task = host.begin("slow", json!({}));
    host.arrived(1).await;
    drop_in(&host, "slow.wat", saying("slow", "replaced").wat().as_bytes());
    fs::remove_file(host.tools_folder().join("slow.wat")).unwrap();
    shows(&host, "the tool to go", || !serves(&host, "slow")).await;
    let reply = wait::within("the running call", task).await.unwrap().unwrap();
    assert_eq!(text(&reply), "slow");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_whose_places_are_all_taken_still_takes_a_tool_in() {
    let slow =
        ";; imports: clock\n;;; call\n(call $block (call $subscribe (i64.const 60000000000)))";
    let host = TestHost::builder()
        .calls_running(1)
        .limits("timeout_ms: 60000")
        .guest(&Guest::parse("slow", slow))
        .build()
        .await;
    let task = host.begin("slow", json!({}));
    host.arrived(1).await;
    // Never seen before, so that it is asked what it offers rather than looked up.
    let fresh = saying("fresh", &host.tools_folder().display().to_string());
    drop_in(&host, "fresh.wat", fresh.wat().as_bytes());
    shows(&host, "the new tool", || serves(&host, "fresh")).await;
    assert!(!task.is_finished(), "the place was free");
    task.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_document_beside_a_component_binds_it_and_a_wrong_one_refuses_it() {
    let document = |extra: &str| {
        format!(
            "{{claw: \"0.3.0\", kind: Tool, metadata: {{name: greet}}, spec: {{description: Greets., input_schema: {{type: object}}{extra}}}}}"
        )
    };
    let host = TestHost::builder()
        .tool_file("greet.wat", saying("greet", "hi").wat().as_bytes())
        .build()
        .await;
    assert_eq!(host.host().catalog().find("greet").unwrap().grants.profile, "none");

    drop_in(&host, "greet.yaml", document(", sandbox_ref: fs-readonly, timeout_ms: 77").as_bytes());
    let profile = || host.host().catalog().find("greet").map(|tool| tool.grants.profile.clone());
    shows(&host, "the document's profile", || profile().as_deref() == Some("fs-readonly")).await;
    let timeout = host.host().catalog().find("greet").unwrap().timeout();
    assert_eq!(timeout, Duration::from_millis(77));

    drop_in(&host, "greet.yaml", document(", sandbox_ref: no-such-profile").as_bytes());
    shows(&host, "the refusal", || host.refused().contains("no-such-profile")).await;
    assert!(!serves(&host, "greet"));

    fs::remove_file(host.tools_folder().join("greet.yaml")).unwrap();
    shows(&host, "the tool without a document", || profile().as_deref() == Some("none")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_and_pipes_in_the_directory_are_not_followed_or_opened() {
    let host = TestHost::builder().build().await;
    let elsewhere = host.canaries().folder().join("../linked.wat");
    fs::write(&elsewhere, saying("linked", "no").wat()).unwrap();
    std::os::unix::fs::symlink(&elsewhere, host.tools_folder().join("linked.wat")).unwrap();
    std::os::unix::fs::symlink("/dev/zero", host.tools_folder().join("endless.wasm")).unwrap();
    mkfifo(&host.tools_folder().join("pipe.wasm"));
    // What comes after them is served: nothing hangs.
    drop_in(&host, "after.wat", saying("after", "after").wat().as_bytes());
    shows(&host, "the tool after them", || serves(&host, "after")).await;
    assert!(!serves(&host, "linked"));
}

fn mkfifo(path: &Path) {
    let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
    assert!(made.success());
}
