//! Logging in at a real authorization server, which `tests/oauth/install.sh` installs, and calling an MCP
//! server that asks it about each token: `tests/oauth/provider.mjs` is both.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use clawhost_tests::cli::Run;
use clawhost_tests::{Cli, Program, source_root};
use serde_json::Value;

use crate::cli::PROGRAM;

/// Both of them, ended with the test.
struct Real {
    _program: Program,
    issuer: String,
    server: String,
}

fn provider() -> Option<PathBuf> {
    let file = source_root().join("target/oauth/node_modules/oidc-provider/lib/index.js");
    let is_there = |program: &str| {
        let mut command = Command::new(program);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    if file.is_file() && is_there("node") && is_there("curl") {
        return Some(file);
    }
    eprintln!("skipped: run tests/oauth/install.sh, and install node and curl");
    None
}

fn real() -> Option<Real> {
    let mut command = Command::new("node");
    command.arg(source_root().join("tests/oauth/provider.mjs")).arg(provider()?);
    let mut program = Program::other(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    let mut line = String::new();
    BufReader::new(program.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let said: Value = serde_json::from_str(&line).unwrap();
    let place = |key: &str| said[key].as_str().unwrap().to_owned();
    let (issuer, server) = (place("issuer"), place("server"));
    Some(Real { _program: program, issuer, server })
}

impl Real {
    /// Returns a folder whose runtime file has the server with `auth`.
    fn cli(&self, auth: &str) -> Cli {
        let cli = Cli::new(PROGRAM);
        cli.write("claw.yaml", MANIFEST);
        let Self { issuer, server, .. } = self;
        cli.write(
            "clawhost.yaml",
            format!("version: 1\ntools:\n  mcp_servers:\n    web: {{url: \"{server}\", internal_only: false, auth: {{issuer: \"{issuer}\", scopes: [\"tools:call\"], {auth}}}}}\n"),
        );
        cli
    }

    /// Returns how often the issuer was asked for a token.
    fn tokens(&self) -> u64 {
        let place = self.server.replace("/mcp", "/tokens");
        let said = Command::new("curl").args(["-s", &place]).output().unwrap();
        serde_json::from_slice(&said.stdout).unwrap()
    }
}

const MANIFEST: &str = clawhost_tests::claw!(
    "oauth",
    "autonomous",
    "  policies:\n    - inline: {name: all, rules: [{id: all, action: allow, scope: all}]}\n"
);

/// Logs in with a browser that has no window.
fn login(cli: &Cli) -> Run {
    let mut program = cli.command(&["secrets", "login", "web", "--json"]).spawn().unwrap();
    let mut said = BufReader::new(program.stderr.take().unwrap());
    let (mut stderr, mut url) = (String::new(), String::new());
    while !url.starts_with("http") && said.read_line(&mut url).unwrap() > 0 {
        stderr.push_str(&url);
        url = if url.starts_with("http") { url } else { String::new() };
    }
    if !url.is_empty() {
        let browser = Command::new("curl").args(["-sL", "-b", "", url.trim()]).output().unwrap();
        let page = String::from_utf8_lossy(&browser.stdout);
        assert!(page.contains("this page can be closed"), "{page}");
    }
    said.read_to_string(&mut stderr).unwrap();
    let run = Run::from(program.wait_with_output().unwrap());
    Run { stderr, ..run }
}

fn call(cli: &Cli, more: &[&str]) -> Run {
    cli.run(&[&["call", "claw.yaml", "web__whoami"], more].concat())
}

/// Returns the tokens that are kept, to be looked for where they do not belong.
fn kept(cli: &Cli) -> Vec<String> {
    let file = std::fs::read_to_string(cli.state().join("secrets.json")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    let login: Value =
        serde_json::from_str(file["secrets"]["oauth.web"].as_str().unwrap()).unwrap();
    ["access", "refresh"].map(|key| login[key].as_str().unwrap().to_owned()).into()
}

#[test]
fn a_person_logs_in_and_nobody_sees_the_token() {
    let Some(real) = real() else { return };
    let cli = real.cli("type: oauth, client_id: clawhost");
    let nobody = cli.run(&["tools", "claw.yaml"]);
    assert!(nobody.stderr.contains("clawhost secrets login web"), "{}", nobody.stderr);
    let first = login(&cli);
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    assert_eq!(real.tokens(), 1);
    let run = call(&cli, &[]);
    assert_eq!((run.code, run.stdout.trim()), (Some(0), "you are somebody"), "{}", run.stderr);

    // The server forgets the token: one of four hosts gets another, for all.
    let before = kept(&cli);
    assert_eq!(call(&cli, &["revoke=true"]).code, Some(0));
    let arguments = ["call", "claw.yaml", "web__whoami", "-vv"];
    let hosts: Vec<Child> = (0..4).map(|_| cli.command(&arguments).spawn().unwrap()).collect();
    for host in hosts {
        let run = Run::from(host.wait_with_output().unwrap());
        assert_eq!((run.code, run.stdout.trim()), (Some(0), "you are somebody"), "{}", run.stderr);
        for token in before.iter().chain(&kept(&cli)) {
            assert!(!run.stderr.contains(token), "{}", run.stderr);
        }
    }
    assert_eq!(real.tokens(), 2);
    let after = kept(&cli);
    assert!(before.iter().all(|token| !after.contains(token)), "{after:?}");
    for token in before.iter().chain(&after) {
        assert!(!cli.log().contains(token) && !first.stdout.contains(token));
    }

    let admin = call(&cli, &["admin=true"]);
    assert_eq!(admin.code, Some(5), "{}{}", admin.stdout, admin.stderr);
    assert!(format!("{}{}", admin.stdout, admin.stderr).contains("tools:admin"));
    assert_eq!(real.tokens(), 2, "nothing more is asked for by itself");
    assert_eq!(cli.run(&["secrets", "remove", "oauth.web"]).code, Some(0));
    assert_ne!(call(&cli, &[]).code, Some(0));
}

#[test]
fn a_machine_and_a_client_that_registers_itself_get_tokens_too() {
    let Some(real) = real() else { return };
    let cli = real.cli("type: client-credentials, client_id: machine, secret: MACHINE");
    assert_ne!(call(&cli, &[]).code, Some(0));
    let secret = "se:cret&1-se:cret&1";
    assert_eq!(cli.run_with(&["secrets", "set", "MACHINE"], secret).code, Some(0));
    let run = call(&cli, &[]);
    assert_eq!((run.code, run.stdout.trim()), (Some(0), "you are machine"), "{}", run.stderr);
    assert_eq!(login(&cli).code, Some(2), "a machine has no login");
    let cli = real.cli("type: oauth, register: true");
    let run = login(&cli);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let run = call(&cli, &[]);
    assert_eq!((run.code, run.stdout.trim()), (Some(0), "you are somebody"), "{}", run.stderr);
}

#[test]
fn nobody_logs_in_where_that_means_nothing() {
    let cli = Cli::new(PROGRAM);
    cli.write(
        "clawhost.yaml",
        "version: 1\ntools: {mcp_servers: {plain: {url: \"https://x.example\"}}}\n",
    );
    for (server, says) in [("other", "no server \"other\""), ("plain", "nobody logs in")] {
        let run = cli.run(&["secrets", "login", server]);
        assert_eq!(run.code, Some(2), "{}", run.stderr);
        assert!(run.stderr.contains(says), "{}", run.stderr);
    }
}
