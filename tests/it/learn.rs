//! Learning the smallest profile that lets a tool work, and touching nothing meanwhile.

use clawhost_tests::Cli;

use crate::cli::PROGRAM;

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
}

#[test]
fn what_a_tool_writes_while_it_is_learnt_is_thrown_away() {
    for profile in ["none", "fs-readonly"] {
        let cli = prepared(profile);
        cli.write("workspace/old.txt", "old");
        let learned = learned(&cli, &["claw.yaml", "write_file", "path=new.txt", "content=x"]);
        assert!(learned.contains("rw"), "{profile}: {learned}");
        for folder in ["files", "workspace"] {
            assert!(!cli.here().join(folder).join("new.txt").exists(), "{profile}: {folder}");
        }
    }
}
