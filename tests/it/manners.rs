//! What a terminal and a shell get from the command line.

use clawhost_tests::Cli;

use crate::cli::PROGRAM;

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
    assert_eq!(cli.run(&["man", "pages"]).code, Some(0));
    let page = std::fs::read_to_string(cli.here().join("pages/clawhost-quarantine.1")).unwrap();
    assert!(page.contains("release"), "{page}");
    assert_ne!(cli.run(&["man", "pages/clawhost.1"]).code, Some(0), "a file is no folder");
}
