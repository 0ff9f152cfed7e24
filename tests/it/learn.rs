//! Learning the smallest profile that lets a tool work, and touching nothing meanwhile.

use clawhost_tests::Cli;

use crate::cli::PROGRAM;
use crate::web::{LOCAL, Tripwire};

fn prepared(profile: &str) -> Cli {
    let cli = Cli::new(PROGRAM);
    let head = clawhost_tests::claw!(
        "learning",
        "autonomous",
        r#"  tools: [{name: read-file, sandbox: claw://sandbox/PROFILE}, {name: write-file, sandbox: claw://sandbox/PROFILE}]
  policies:
    - inline: {name: all, rules: [{id: all, action: allow, scope: all}]}
"#
    );
    cli.write("claw.yaml", head.replace("PROFILE", profile));
    cli.write("files/hello.txt", "hello\n");
    cli
}

/// Learns, and returns the profile, which `validate` accepts.
fn learned(cli: &Cli, words: &[&str]) -> String {
    let run = cli.run(&[&["learn", "--folder", "files"], words].concat());
    assert_eq!(run.code, Some(0), "{words:?}: {}", run.stderr);
    cli.write("sandboxes/learned.yaml", &run.stdout);
    let valid = cli.run(&["validate", "sandboxes/learned.yaml"]);
    assert_eq!(valid.code, Some(0), "{}\n{}{}", run.stdout, valid.stdout, valid.stderr);
    run.stdout
}

#[test]
fn a_tool_that_reads_is_given_one_folder_to_read_once_somebody_says_yes() {
    let cli = prepared("none");
    let call = ["claw.yaml", "read_file", "path=hello.txt"];
    let refused = cli.run(&[&["learn", "--folder", "files"], &call[..]].concat());
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(4), ""), "{}", refused.stderr);
    assert!(refused.stderr.contains("let it read"), "{}", refused.stderr);
    let profile = learned(&cli, &["--yes", call[0], call[1], call[2]]);
    let folder = cli.here().join("files");
    assert!(profile.contains(folder.to_str().unwrap()) && profile.contains("ro"), "{profile}");
    assert!(!profile.contains("rw") && !profile.contains("network"), "{profile}");
    assert_eq!(profile, learned(&cli, &["--yes", "--agent", "stdio", call[0], call[1], call[2]]));
}

#[test]
fn a_tool_that_fails_by_itself_ends_learning_as_it_ends_a_call() {
    let cli = prepared("fs-readonly");
    cli.write("workspace/a.txt", "a");
    let call = ["claw.yaml", "read_file", "path=gone.txt"];
    for verb in ["call", "learn"] {
        let run = cli.run(&[&[verb], &call[..]].concat());
        assert_eq!(run.code, Some(5), "{verb}: {}", run.stderr);
    }
}

#[test]
fn writing_is_granted_by_a_yes_where_it_was_refused_and_is_not_tried() {
    for (profile, shown) in [("none", "files"), ("fs-readonly", "workspace")] {
        let cli = prepared(profile);
        cli.write("workspace/old.txt", "old");
        let call = ["claw.yaml", "write_file", "path=new.txt", "content=x"];
        let refused = cli.run(&[&["learn", "--folder", "files"], &call[..]].concat());
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(4), ""), "{}", refused.stderr);
        let learned = learned(&cli, &[&["--yes"], &call[..]].concat());
        let folder = cli.here().join(shown);
        assert!(learned.contains("rw") && learned.contains(folder.to_str().unwrap()), "{learned}");
        for folder in ["files", "workspace"] {
            assert!(!cli.here().join(folder).join("new.txt").exists(), "{profile}: {folder}");
        }
    }
}

#[test]
fn what_a_trial_read_is_kept_only_where_its_profile_says_so() {
    for (runtime, is_kept) in
        [("version: 1\n", false), ("version: 1\nprofiles: {box: {record: true}}\n", true)]
    {
        let cli = boxed(false);
        cli.write("clawhost.yaml", runtime);
        let run = cli.run(&["learn", "claw.yaml", "read_file", "path=made/old.txt"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let kept = std::fs::read_dir(cli.state().join("audit/recordings")).unwrap().count();
        assert_eq!(kept > 0, is_kept, "{runtime}");
    }
}

/// Tools under one profile of two folders, and either a shell or a closed path.
fn boxed(has_shell: bool) -> Cli {
    let cli = Cli::new(PROGRAM);
    cli.write(
        "claw.yaml",
        r#"claw: "0.3.0"
kind: Claw
metadata: {name: learning, version: 0.1.0}
spec:
  identity: {inline: {personality: x, autonomy: autonomous}}
  providers: [{inline: {name: local-model, protocol: openai-compatible, endpoint: "http://127.0.0.1:11434/v1", model: any, auth: {type: none}}}]
  sandbox: ./box.yaml
  tools: [claw://local/tool/read-file, claw://local/tool/write-file, claw://local/tool/exec-shell]
  policies:
    - inline: {name: all, rules: [{id: all, action: allow, scope: all}]}
"#,
    );
    let profile = r#"claw: "0.3.0"
kind: Sandbox
metadata: {name: box}
spec:
  level: process
  capabilities:
    SHELL
    filesystem:
      mode: scoped
      mount_paths: [{path: ./data, permissions: ro}, {path: ./made, permissions: rw}]
      denied_paths: [DENIED]
  resource_limits: {memory_mb: 77}
"#;
    let shell = r#"shell: {mode: restricted, blocked_commands: ["rm -rf"]}"#;
    let (shell, denied) = if has_shell { (shell, "") } else { ("", "./data/private") };
    cli.write("box.yaml", profile.replace("SHELL", shell).replace("DENIED", denied));
    cli.write("data/private/key", "topsecret");
    cli.write("made/old.txt", "old");
    cli.write("files/hello.txt", "hello\n");
    cli
}

#[test]
fn all_else_of_the_profile_is_kept() {
    let cli = boxed(false);
    let call = ["--yes", "claw.yaml", "write_file", "path=new.txt", "content=x"];
    let profile = learned(&cli, &call);
    for kept in ["/data\n", "/made\n", "/data/private\n", "memory_mb: 77"] {
        assert!(profile.contains(kept), "{kept}: {profile}");
    }
    assert_eq!(profile.matches("rw").count(), 2, "{profile}");
    assert!(!profile.contains("files\n") && !profile.contains("shell"), "{profile}");
    assert!(!cli.here().join("data/new.txt").exists());
}

#[test]
fn what_the_profile_closes_stays_closed() {
    let cli = boxed(false);
    let call =
        ["learn", "--yes", "--folder", "files", "claw.yaml", "read_file", "path=private/key"];
    let run = cli.run(&call);
    assert_eq!((run.code, run.stdout.as_str()), (Some(4), ""), "{}", run.stderr);
    assert!(!run.stderr.contains("topsecret"), "{}", run.stderr);
}

#[test]
fn a_shell_that_is_used_keeps_its_mode_and_its_rules() {
    let profile = learned(&boxed(true), &["claw.yaml", "exec_shell", "command=echo hi"]);
    assert!(profile.contains("restricted") && profile.contains("rm -rf"), "{profile}");
}

#[test]
fn a_folder_that_no_profile_can_name_is_refused() {
    let cli = prepared("none");
    cli.write("a\nb/hello.txt", "hello");
    let call = ["learn", "--folder", "a\nb", "claw.yaml", "read_file", "path=hello.txt"];
    let run = cli.run(&call);
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{}", run.stderr);
}

#[test]
fn a_port_is_learned_and_said_where_it_can_be_granted() {
    let (server, cli) = (Tripwire::plain(), boxed(false));
    let manifest = std::fs::read_to_string(cli.here().join("claw.yaml")).unwrap();
    cli.write("claw.yaml", manifest.replace("exec-shell", "web-fetch"));
    let profile = std::fs::read_to_string(cli.here().join("box.yaml")).unwrap();
    let local = LOCAL.replace("localhost, 127.0.0.1", "a.test");
    cli.write(
        "box.yaml",
        profile.replace("    filesystem", &format!("    {local}\n    filesystem")),
    );
    let url = format!("url={}", server.url("127.0.0.1"));
    let refused = cli.run(&["learn", "claw.yaml", "web_fetch", &url]);
    assert_eq!((refused.code, server.hits()), (Some(4), 0), "{}", refused.stdout);
    let learned = learned(&cli, &["--yes", "claw.yaml", "web_fetch", &url]);
    let said = format!("# in clawhost.yaml: profiles: {{learned: {{ports: [{}]}}}}", server.port);
    assert!(learned.starts_with(&said) && learned.contains("127.0.0.1"), "{learned}");
    assert!(!learned.contains("a.test"), "{learned}");
}

#[test]
fn of_several_folders_the_one_that_was_to_be_written_is_granted() {
    let cli = boxed(false);
    let profile = std::fs::read_to_string(cli.here().join("box.yaml")).unwrap();
    cli.write("box.yaml", profile.replace("permissions: rw", "permissions: ro"));
    let call = ["--yes", "claw.yaml", "write_file", "path=made/new.txt", "content=x"];
    let learned = learned(&cli, &call);
    let (_, made) = learned.split_once("/made\n").unwrap();
    assert!(made.trim_start().starts_with("permissions: rw"), "{learned}");
    assert_eq!(learned.matches("rw").count(), 1, "{learned}");
}
