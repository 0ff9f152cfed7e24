//! What a terminal and a shell get from the command line.

use std::path::Path;
use std::process::Stdio;

use clawhost::state::Database;
use clawhost_tests::{Cli, source_root};
use serde_json::Value;

use crate::cli::PROGRAM;

/// A Claw whose sandbox profile is a document beside it.
const PARTED: &str = clawhost_tests::claw!(
    "parted",
    "autonomous",
    "  tools:\n    - {name: read-file, sandbox: elsewhere}\n"
);
const ELSEWHERE: &str = "claw: '0.3.0'\nkind: Sandbox\nmetadata: {name: elsewhere}\nspec:\n  level: wasm\n  capabilities: {}\n";

fn example() -> String {
    source_root().join("host/examples/manifest.yaml").display().to_string()
}

#[test]
fn completions_and_manual_pages_know_every_verb() {
    let cli = Cli::new(PROGRAM);
    for shell in ["bash", "zsh", "fish"] {
        let run = cli.run(&["completions", shell]);
        assert!(
            run.code == Some(0) && run.stdout.contains("quarantine"),
            "{shell}: {}",
            run.stderr
        );
    }
    let bash = cli.run(&["completions", "bash"]).stdout;
    assert!(bash.contains("help__subcmd__quarantine,release"), "{bash}");
    assert_eq!(cli.run(&["man", "pages"]).code, Some(0));
    let page = std::fs::read_to_string(cli.here().join("pages/clawhost-quarantine.1")).unwrap();
    assert!(page.contains("release"), "{page}");
    assert_ne!(cli.run(&["man", "pages/clawhost.1"]).code, Some(0), "a file is no folder");
}

#[test]
fn who_stops_reading_is_no_error_and_no_panic() {
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", "no: Claw");
    for (arguments, code) in
        [(&["limits"][..], 0), (&["validate", "claw.yaml"], 3), (&["nonsense"], 2)]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        let mut command = cli.command(arguments);
        command.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer);
        drop(reader);
        assert_eq!(command.status().unwrap().code(), Some(code), "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn what_standard_output_does_not_take_is_an_error() {
    let cli = Cli::new(PROGRAM);
    cli.run(&["call", &example(), "read_file", "path=absent"]);
    for words in [&["limits"][..], &["limits", "--json"], &["audit"], &["audit", "--json"]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let run = cli.command(words).stdout(full).output().unwrap();
        let said = String::from_utf8(run.stderr).unwrap();
        assert_eq!(run.status.code(), Some(6), "{words:?}: {said}");
        assert!(said.starts_with("error: standard output: "), "{words:?}: {said}");
    }
}

#[test]
fn what_is_new_is_valid_in_every_language() {
    let cli = Cli::new(PROGRAM);
    for language in ["c", "js", "python", "rust"] {
        let name = format!("tool-{language}");
        assert_eq!(cli.run(&["new", &name, "--lang", language]).code, Some(0), "{name}");
        let run = cli.run(&["validate", &name]);
        assert_eq!(run.code, Some(0), "{name}: {}", run.stderr);
    }
}

#[test]
fn the_doctor_says_what_else_is_missing_where_no_host_can_be_made() {
    let cli = Cli::new(PROGRAM);
    let store = cli.state().join("clawhost.db");
    drop(std::fs::remove_file(&store));
    std::fs::create_dir(&store).unwrap();
    let run = cli.run(&["doctor", "--json"]);
    assert_eq!(run.code, Some(6), "{}", run.stderr);
    let told: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(told["enough"], false, "{told}");
}

#[test]
fn a_wish_for_the_log_that_cannot_be_read_is_told() {
    let cli = Cli::new(PROGRAM);
    let run = cli.command(&["limits"]).env("CLAWHOST_LOG", "clawhost=loud").output().unwrap();
    let said = String::from_utf8(run.stderr).unwrap();
    assert!(run.status.success() && said.contains("CLAWHOST_LOG has to be"), "{said}");
}

#[test]
fn into_a_pipe_a_row_is_a_line_and_nothing_is_drawn_or_coloured() {
    let cli = Cli::new(PROGRAM);
    let run = cli.run(&["tools", &example()]);
    let rows: Vec<Vec<&str>> =
        run.stdout.lines().map(|line| line.split("  ").map(str::trim).collect()).collect();
    assert!(rows.iter().all(|row| row.iter().filter(|cell| !cell.is_empty()).count() == 5));
    assert_eq!(rows.len(), 9, "{}", run.stdout);
    assert!(!run.stdout.contains(['─', '\u{1b}']) && run.stderr.is_empty(), "{}", run.stderr);
}

#[test]
fn a_log_that_programs_read_is_an_object_a_line() {
    let cli = Cli::new(PROGRAM);
    let mut command = cli.command(&["run", &example(), "--stdio", "-v"]);
    command.envs([("CLAWHOST_LOG_FORMAT", "json"), ("CLAWHOST_HTTP_METRICS", "127.0.0.1:0")]);
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    // What the verb itself says at its end is no log.
    let logged = text.lines().filter(|line| !line.starts_with("hint: "));
    let logged: Vec<Value> = logged.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!logged.is_empty(), "{text}");
    assert!(logged.iter().all(|line| line["timestamp"].is_string() && line["message"].is_string()));
}

#[test]
fn names_that_are_nearly_right_and_files_that_lie_elsewhere_are_told() {
    let cli = Cli::new(PROGRAM);
    let run = cli.run(&["disable", "exec_shel"]);
    assert_eq!(run.code, Some(2), "{}", run.stdout);
    assert!(run.stderr.contains("did you mean `exec-shell`?"), "{}", run.stderr);
    assert_eq!(cli.run(&["disable", "exec_shel", "--force", "--dry-run"]).code, Some(0));
    assert_eq!(cli.run(&["disable", "exec_shell"]).code, Some(0));
    let run = cli.run(&["enable", "exec_shel"]);
    assert!(run.stdout.contains("did you mean `exec-shell`?"), "{}", run.stdout);
    let run = cli.run(&["enable", "exec_shell"]);
    assert!(!run.stdout.contains("did you mean"), "{}", run.stdout);

    let run = cli.run(&["inspect", "greet"]);
    let here = cli.here().canonicalize().unwrap();
    assert!(run.stderr.contains(here.to_str().unwrap()), "{}", run.stderr);
    assert!(run.stderr.contains("no service `greet`"), "{}", run.stderr);
    let run = cli.run(&["audit", "--agent", "nobody"]);
    assert_eq!(run.stdout, "the record has nothing of the kind\n", "{}", run.stderr);
    let shown = cli.run(&["audit", "--agent", "nobody", "--json"]).stdout;
    assert_eq!(serde_json::from_str::<Value>(&shown).unwrap()["events"], serde_json::json!([]));

    cli.write("agent/claw.yaml", PARTED);
    cli.write("agent/sandbox.yaml", ELSEWHERE);
    let run = cli.run(&["validate", "agent/claw.yaml"]);
    assert_eq!(run.code, Some(3));
    assert!(run.stderr.contains("clawhost validate agent\n"), "{}", run.stderr);
    let run = cli.run(&["validate", "agent"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    std::fs::remove_file(cli.here().join("agent/sandbox.yaml")).unwrap();
    let run = cli.run(&["validate", "agent/claw.yaml"]);
    assert!(!run.stderr.contains("hint: what is not there"), "{}", run.stderr);
}

/// Replaces `old` in a file, which has to be there.
fn edit(path: &Path, old: &str, new: &str) {
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(old), "{text}");
    std::fs::write(path, text.replacen(old, new, 1)).unwrap();
}

#[tokio::test]
async fn what_a_newer_version_wrote_is_refused_in_plain_words() {
    const STEPS: [&str; 99] = ["SELECT 1"; 99];
    let cli = Cli::new(PROGRAM);
    let example = example();
    let call = ["call", &example, "read_file", "path=absent"];
    cli.run(&call);
    edit(&cli.logs()[0], "\"v\":1", "\"v\":2");
    let run = cli.run(&["audit", "verify"]);
    assert_eq!(run.code, Some(7), "{}", run.stderr);
    assert!(run.stdout.contains("a newer one wrote it"), "{}", run.stdout);

    drop(Database::open(&cli.state().join("clawhost.db"), &[("quarantine", &STEPS)]).unwrap());
    let run = cli.run(&call);
    assert_eq!(run.code, Some(6), "{}", run.stderr);
    assert!(run.stderr.contains("a newer clawhost wrote it"), "{}", run.stderr);

    edit(&cli.state().join("credentials.json"), "\"version\": 1", "\"version\": 2");
    let run = cli.run(&call);
    assert!(run.stderr.contains("has version 2, and this host knows 1"), "{}", run.stderr);
}

#[test]
fn what_cannot_be_used_is_named_and_what_would_be_right_is_said() {
    let cli = Cli::new(PROGRAM);
    let word_count = source_root().join("host/examples/tools/word-count.wat");
    cli.write("word-count.wat", std::fs::read(word_count).unwrap());
    cli.write("a-file", "");
    cli.write("comma.json", "{\n  \"mcpServers\": {\"a\": {\"command\": \"x\",}}\n}");
    cli.write("good.json", r#"{"mcpServers": {"a": {"command": "x"}}}"#);
    std::fs::create_dir(cli.here().join("dir")).unwrap();
    let example = example();
    for (words, code, says) in [
        // "dir" is a part of "directory", which the reason has.
        (&["tools", "dir"][..], 3, "file: dir"),
        (&["tools", "word-count.wat"], 3, "a component and no document"),
        (&["call", &example, "exec_shell"], 2, "it comes with the host"),
        (&["call", &example, "claw://tool/read-file"], 2, "write `claw://local/tool/read-file`"),
        (&["inspect", "dir"], 2, "dir: it is a directory"),
        (&["inspect", "word-count.wat", "--manifest=word_cont"], 2, "did you mean `word_count`?"),
        (&["inspect", "missing.json"], 3, "claw-describe.json"),
        (&["import", "a-file"], 3, "the file is empty"),
        (&["import", "comma.json"], 3, "error: comma.json:2:39: this"),
        (&["import", "good.json", "--out", "a-file"], 2, "a-file: it is a file"),
        (&["man", "a-file"], 2, "a-file: it is a file"),
        (&["new", "dir", "--lang", "c"], 2, "dir is there already"),
        (&["compile", "missing.yml", "--out", "out"], 3, "name a Compose file"),
        (&["compile", "dir", "--out", "out"], 3, "it is a directory"),
        (&["tools", &example, "--context", "missing"], 3, "`clawhost compile` made"),
        (&["discover"], 2, "nothing says which MCP server is meant"),
        (&["discover", "x"], 2, "there are none"),
        (&["learn", &example, "read_file", "path=x", "--folder", "a-file"], 2, "Not a directory"),
        (&["learn", &example, "read_file"], 2, "\"path\" is a required property"),
        (&["quarantine", "vaccinate", "x", "--procedure", "y"], 2, "no kind of failure begins"),
        (&["secrets", "list"], 0, "no secret is kept"),
        (&["call", &example, "read_file", "{\"path\":"], 2, "this is not JSON: EOF"),
        (
            &["call", &example, "read_file", "path=x", "offset=99999999999999999999"],
            2,
            "does not fit in 64 bits",
        ),
    ] {
        let run = cli.run(words);
        assert_eq!(run.code, Some(code), "{words:?}: {}", run.stderr);
        assert!(run.stderr.contains(says), "{words:?}: {}", run.stderr);
    }
}

#[test]
fn a_state_folder_that_is_not_there_is_no_host_with_nothing_to_tell() {
    let cli = Cli::new(PROGRAM);
    cli.write("a-file", "");
    for words in [
        &["quarantine", "list"][..],
        &["pins", "list"],
        &["pins", "forget", "s"],
        &["secrets", "list"],
        &["secrets", "remove", "TOKEN"],
        &["disable", "--list"],
        &["disable", "exec_shell"],
        &["disable", "exec_shell", "--dry-run"],
        &["enable", "exec_shell"],
        &["audit", "key"],
        &["registry", "list"],
        &["registry", "verify"],
    ] {
        for (state, says) in [("absent", "No such file"), ("a-file", "it is a file")] {
            let run = cli.run(&[words, &["--state", state]].concat());
            assert_eq!(run.code, Some(2), "{words:?}: {}{}", run.stdout, run.stderr);
            assert!(run.stderr.contains(&format!("{state}: {says}")), "{words:?}: {}", run.stderr);
        }
        assert!(!cli.here().join("absent").exists(), "{words:?}");
    }
    let mut first = cli.command(&["disable", "exec_shell"]);
    let run = first.env("XDG_STATE_HOME", cli.here().join("fresh")).output().unwrap();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert!(cli.here().join("fresh/clawhost").is_dir());
}
