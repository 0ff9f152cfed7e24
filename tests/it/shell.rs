//! `wasm_shell` through the real component: files of the grant alone, and every bound.

use std::os::unix::fs::symlink;

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::reply::ToolReply;
use clawhost_tests::canary::SECRET;
use clawhost_tests::{TestHost, wait};
use serde_json::{Value, json};

async fn host(limits: &str) -> TestHost {
    let builder = TestHost::builder().only(&["wasm-shell"]).limits(limits);
    builder.file("fruit.txt", "pear\napple\nfig\napple\n").build().await
}

async fn try_run(host: &TestHost, arguments: Value) -> Result<ToolReply, CallError> {
    wait::within("the script", host.call("wasm_shell", arguments)).await
}

async fn run(host: &TestHost, command: &str) -> Value {
    let shown: String = command.chars().take(80).collect();
    let reply = try_run(host, json!({"command": command})).await;
    let reply = reply.unwrap_or_else(|error| panic!("{shown}: {error:?}"));
    reply.structured.clone().unwrap_or_else(|| panic!("{shown}: {reply:?}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_reads_and_writes_the_workspace() {
    let host = host("timeout_ms: 20000").await;
    let script = "sort fruit.txt | uniq -c | sort -rn | awk '{print $2}' > by-count; \
                  head -n 1 by-count; mkdir -p a/b && mv by-count a/b/ && ls a/b; echo oops >&2; \
                  jq -n '{a: 1}' | jq .a; exit 3";
    let ended = run(&host, script).await;
    assert_eq!(ended["stdout"], "apple\nby-count\n1\n", "{ended}");
    assert_eq!((&ended["stderr"], &ended["exit_code"]), (&json!("oops\n"), &json!(3)));
    let made = std::fs::read_to_string(host.workspace().join("a/b/by-count")).unwrap();
    assert!(made.starts_with("apple\n"), "{made}");
    let fed = try_run(&host, json!({"command": "tr a-z A-Z", "stdin": "shout"})).await.unwrap();
    assert_eq!(fed.structured.clone().unwrap()["stdout"], "SHOUT");
    let none = run(&host, "curl http://example.com").await;
    assert_eq!(none["exit_code"], 127);
    assert!(none["stderr"].as_str().unwrap().contains("grep"), "{none}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_script_reaches_a_file_outside_the_grant() {
    let host = host("timeout_ms: 20000").await;
    let outside = host.canaries().folder().to_str().unwrap().to_owned();
    symlink(&outside, host.workspace().join("way")).unwrap();
    symlink(host.canaries().file(), host.workspace().join("link")).unwrap();
    for script in [
        format!("cat {outside}/canary.txt; cat < {outside}/canary.txt"),
        "cat ../outside/canary.txt; cd ..; cat outside/canary.txt".to_owned(),
        "cat way/canary.txt; cat link; grep -r . way; find way -type f -exec cat {} +".to_owned(),
        "cd way && cat canary.txt; for f in way/*; do cat $f; done".to_owned(),
        "echo changed > link; echo changed >> way/canary.txt; echo x > way/new".to_owned(),
        "sed -i s/./x/ link; cp fruit.txt way/; mv fruit.txt way/moved; touch way/t".to_owned(),
        "rm -rf way/*; mkdir way/new; rm -f way/canary.txt; tee link < fruit.txt".to_owned(),
        "awk '{print > \"way/out\"}' fruit.txt; awk 1 link; jq -R . link; . ./link".to_owned(),
        "cat /etc/passwd /proc/self/environ /dev/zero; ls /proc ~ ..".to_owned(),
    ] {
        let outcome = try_run(&host, json!({"command": script})).await;
        let shown = format!("{outcome:?}");
        assert!(!shown.contains(SECRET) && !shown.contains("root:"), "{script}: {shown}");
        host.canaries().check();
    }
    // A link is removed, and never followed.
    run(&host, "rm -rf way link").await;
    host.canaries().check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_endless_script_ends_at_its_own_time_or_at_the_hosts() {
    let host = host("timeout_ms: 1500").await;
    for script in
        ["while :; do :; done", "yes > /dev/null", "awk 'BEGIN{for(;;);}'", ":|sed ':a;ba'"]
    {
        let late = try_run(&host, json!({"command": script, "timeout": 0.3})).await;
        let own = late.as_ref().is_ok_and(|reply| reply.error_kind == Some("timeout"));
        let hosts = late.as_ref().is_err_and(|error| error.kind == ErrorKind::Timeout);
        assert!(own || hosts || script.starts_with(':'), "{script}: {late:?}");
    }
    let error = try_run(&host, json!({"command": "while :; do :; done"})).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn output_memory_and_depth_are_bounded() {
    let host = host("timeout_ms: 20000").await;
    let flood = run(&host, "seq 1 200000").await;
    let (kept, all) = (flood["stdout"].as_str().unwrap().len(), flood["stdout_bytes"].as_u64());
    assert!(kept <= 16_384, "{kept}");
    assert_eq!(all, Some(1_288_895), "the true size is told");
    let ended = run(&host, "yes | head -n 2; while :; do yes; done | head -n 1").await;
    assert_eq!(ended["stdout"], "y\ny\ny\n", "{ended}");
    for (script, says) in [
        ("x=0123456789; while :; do x=$x$x; done", "bytes"),
        ("f() { f; }; f", "nested too deeply"),
        ("yes | wc -c", "pipe"),
        ("x=$(yes)", "value"),
        ("awk 'BEGIN{x=\"a\"; for(;;) x = x x}'", "bytes"),
        ("awk 'function f(){f()} BEGIN{f()}'", "deeply"),
    ] {
        let ended = run(&host, script).await;
        assert_eq!(ended["exit_code"], 2, "{script}: {ended}");
        assert!(ended["stderr"].as_str().unwrap().contains(says), "{script}: {ended}");
    }
    let nested = format!("{}echo{}", "$(".repeat(5_000), ")".repeat(5_000));
    assert_eq!(run(&host, &nested).await["exit_code"], 2);
    let bomb = "awk 'BEGIN{for(;;) a[i++] = \"0123456789012345678901234567890123456789\"}'";
    let outcome = try_run(&host, json!({"command": bomb})).await;
    assert!(!matches!(&outcome, Ok(reply) if !reply.is_error), "{outcome:?}");
    // The next call has all of it again.
    assert_eq!(run(&host, "echo well").await["stdout"], "well\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rules_for_programs_hold_for_a_script_that_starts_none() {
    if !clawhost::jail::support().available() {
        return eprintln!("skipped: this system has no jail");
    }
    let builder = TestHost::builder().only(&["wasm-shell", "exec-shell"]).level("process");
    let rules = "shell: {mode: restricted, blocked_patterns: [sec+ret]}";
    let host = builder.limits("max_processes: 16").capabilities(rules).build().await;
    assert_eq!(run(&host, "echo well").await["stdout"], "well\n");
    for line in ["eval ls", "echo $(ls)", "echo seccret", "awk 'BEGIN{print 1}'"] {
        let error = try_run(&host, json!({"command": line})).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Sandbox, "{line}: {error:?}");
    }
}

/// A host whose command lines run inside the sandbox.
async fn inside(shell: &str) -> TestHost {
    let tools = ["exec-shell", "bash-exec", "spawn", "wasm-shell"];
    let builder = TestHost::builder().only(&tools).limits("timeout_ms: 20000");
    let builder = builder.capabilities(&format!("shell: {{{shell}}}"));
    builder.file("fruit.txt", "pear\napple\nfig\napple\n").build().await
}

async fn exec(host: &TestHost, command: &str) -> Result<Value, CallError> {
    let call = host.call("exec_shell", json!({"command": command, "timeout": 10}));
    let reply = wait::within("the command", call).await?;
    Ok(reply.structured.clone().unwrap_or_else(|| panic!("{command}: {reply:?}")))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_the_wasm_level_exec_shell_starts_no_program_and_its_neighbours_are_refused() {
    let host = inside("mode: full").await;
    assert_eq!(host.names(), ["exec_shell", "wasm_shell"]);
    for tool in ["bash_exec", "spawn"] {
        let why = host.refused();
        assert!(why.contains(&format!("tool `{tool}`")) && why.contains("`level: wasm`"), "{why}");
    }
    let ended = exec(&host, "for f in *.txt; do wc -l < $f; done; echo oops >&2; exit 3").await;
    let ended = ended.unwrap();
    assert_eq!((&ended["stdout"], &ended["stderr"]), (&json!("4\n"), &json!("oops\n")));
    assert_eq!(ended["exit_code"], 3);
    assert_eq!(exec(&host, "curl localhost").await.unwrap()["exit_code"], 127);
    let empty = host.call("exec_shell", json!({"command": " "})).await.unwrap();
    assert_eq!(empty.error_kind, Some("invalid-args"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rules_of_a_profiles_shell_hold_inside_the_sandbox_as_in_a_jail() {
    let rules = "mode: restricted, blocked_commands: [\"rm *fruit*\"], blocked_patterns: [sec+ret]";
    let host = inside(rules).await;
    for (line, says) in [
        ("sort fruit.txt | uniq -c | wc -l", "3\n"),
        ("sed -n 's/pear/plum/p' fruit.txt", "plum\n"),
        ("mkdir -p a && cd a && echo x > y; cat y /fruit.txt | head -n 1", "x\n"),
        ("[ -f fruit.txt ] && printf '%s' 'a;b'", "a;b"),
    ] {
        assert_eq!(exec(&host, line).await.unwrap()["stdout"], says, "{line}");
    }
    for line in [
        "awk 'BEGIN{print 1}'",
        "eval ls",
        "echo $(ls)",
        "for x in 1; do echo $x; done",
        "find . -exec rm {} +",
        "xargs rm < fruit.txt",
        "rm -f 'fruit.txt'",
        "echo seccret",
        "cat ../outside/canary.txt > ../x",
    ] {
        let error = exec(&host, line).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Sandbox, "{line}: {error:?}");
        let other = try_run(&host, json!({"command": line})).await.unwrap_err();
        assert_eq!(other.message, error.message, "one answer for both tools");
    }
    let violations = &host.finished().pop().unwrap()["violations"];
    assert!(violations[0].as_str().unwrap().starts_with("shell: "), "{violations}");
    assert!(host.workspace().join("fruit.txt").is_file());
    host.canaries().check();
}

#[tokio::test]
async fn its_annotations_say_that_it_changes_files_of_a_closed_world() {
    let host = host("timeout_ms: 1000").await;
    let catalog = host.host().catalog();
    let tool = catalog.tools().next().unwrap();
    let said = &tool.definition.annotations;
    assert_eq!((said.destructive, said.open_world), (Some(true), Some(false)));
}
