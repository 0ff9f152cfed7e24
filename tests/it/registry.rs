//! Registries, as whoever publishes and whoever runs a manifest sees them: programs on this machine.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::sync::{Arc, Mutex};

use clawhost::registry::BUILT_IN_COMPONENTS;
use clawhost_tests::listening::answering;
use clawhost_tests::{Cli, NOBODY, Program, source_root};
use serde_json::{Value, json};

use crate::cli::PROGRAM;

const URI: &str = "claw://registry/community/word-count@1.2.0";

/// A registry of its own: the program with a folder, ended with the test.
pub(crate) struct Registry {
    cli: Cli,
    _program: Program,
    pub(crate) url: String,
}

impl Registry {
    pub(crate) fn serve() -> Self {
        let cli = Cli::new(PROGRAM);
        std::fs::create_dir(cli.here().join("published")).unwrap();
        let arguments = ["registry", "serve", "published", "--address", "127.0.0.1:0"];
        let mut program = cli.start(&arguments);
        let mut line = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(url.starts_with("http://127.0.0.1:"), "{line}");
        Self { cli, _program: program, url }
    }

    pub(crate) fn publish(&self, place: &str, document: &str, component: Option<&[u8]>) -> &Self {
        self.cli.write(&format!("published/{place}/document.yaml"), document);
        if let Some(component) = component {
            self.cli.write(&format!("published/{place}/component.wat"), component);
        }
        self
    }

    /// Puts the signature of the component beside it.
    pub(crate) fn sign(&self, place: &str, signature: &str) {
        self.cli.write(&format!("published/{place}/component.wat.minisig"), signature);
    }
}

pub(crate) fn word_count() -> Vec<u8> {
    std::fs::read(source_root().join("host/examples/tools/word-count.wat")).unwrap()
}

pub(crate) fn tool(name: &str, version: &str, description: &str) -> String {
    format!(
        "claw: \"0.3.0\"\nkind: Tool\nmetadata: {{ name: {name}, version: {version} }}\nspec:\n  description: {description}\n  input_schema: {{ type: object }}\n"
    )
}

fn manifest(tools: &str) -> String {
    format!(
        r#"claw: "0.3.0"
kind: Claw
metadata: {{ name: test-agent }}
spec:
  identity: {{ inline: {{ personality: Tests., autonomy: autonomous }} }}
  providers:
    - inline: {{ protocol: openai-compatible, endpoint: "http://127.0.0.1:9/v1", model: none, auth: {{ type: none }} }}
  tools: [{tools}]
  policies:
    - inline: {{ rules: [{{ id: all, action: allow, scope: all }}] }}
"#
    )
}

/// A host whose runtime file names `registries`, in order.
pub(crate) fn host(tools: &str, registries: &[(&str, &str)]) -> Cli {
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", manifest(tools));
    let list: Vec<Value> =
        registries.iter().map(|(name, url)| json!({"name": name, "url": url})).collect();
    cli.write("clawhost.yaml", json!({"version": 1, "registries": list}).to_string());
    cli
}

fn listed(cli: &Cli) -> Value {
    let run = cli.run(&["tools", "claw.yaml", "--json"]);
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

/// Returns what the load says went wrong, with the code of each problem.
fn refused(cli: &Cli) -> Vec<(i64, String)> {
    let run = cli.run(&["validate", "claw.yaml", "--json"]);
    assert_eq!(run.code, Some(3), "{}{}", run.stdout, run.stderr);
    let said: Value = serde_json::from_str(&run.stdout).unwrap();
    let problem =
        |problem: &Value| (problem["code"].as_i64().unwrap(), problem["reason"].to_string());
    said["problems"].as_array().unwrap().iter().map(problem).collect()
}

#[test]
fn a_published_tool_is_fetched_with_its_component_and_runs() {
    let registry = Registry::serve();
    registry.publish(
        "community/word-count/1.2.0",
        &tool("word-count", "1.2.0", "As published."),
        Some(&word_count()),
    );
    let cli = host(URI, &[("main", &registry.url)]);
    let tools = &listed(&cli)["tools"];
    assert_eq!(tools[0]["name"], "word_count");
    assert_eq!(tools[0]["kind"], "registry");
    assert_eq!(tools[0]["origin"], format!("`{URI}`"));
    // The address that it is of is one of its names, and no other registry's is.
    for name in ["word_count", URI] {
        let run = cli.run(&["call", "claw.yaml", name, "text=one two three", "--json"]);
        assert_eq!(run.code, Some(0), "{name}: {}", run.stderr);
        let reply: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(reply["structuredContent"]["words"], 3, "{reply}");
    }
    for other in [URI.replace("community", "other"), URI.replace("1.2.0", "1.2.1")] {
        let run = cli.run(&["call", "claw.yaml", &other, "text=one"]);
        assert_eq!(run.code, Some(2), "{other}: {}", run.stdout);
    }
    let run = cli.run(&["validate", "claw.yaml"]);
    assert!(run.stdout.contains("is of the registry `main`, sha256:"), "{}", run.stdout);
}

#[test]
fn the_first_registry_that_has_it_answers_and_local_documents_come_before_all() {
    let (empty, first, second) = (Registry::serve(), Registry::serve(), Registry::serve());
    for (registry, says) in [(&first, "The first."), (&second, "The second.")] {
        let document = tool("word-count", "1.2.0", says);
        registry.publish("community/word-count/1.2.0", &document, Some(&word_count()));
    }
    let described = |tools: &str| {
        let registries = [("empty", &*empty.url), ("first", &*first.url), ("second", &*second.url)];
        let cli = host(tools, &registries);
        cli.write("local.yaml", tool("word-count", "1.2.0", "The local one."));
        let run = cli.run(&["validate", "claw.yaml"]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        run.stdout
    };
    assert!(described(URI).contains("the registry `first`"));
    assert!(!described(&format!("{URI}, ./local.yaml")).contains("the registry"));
}

#[test]
fn the_variable_names_registries_too() {
    let registry = Registry::serve();
    registry.publish(
        "community/word-count/1.2.0",
        &tool("word-count", "1.2.0", "As published."),
        Some(&word_count()),
    );
    let cli = Cli::new(PROGRAM);
    cli.write("claw.yaml", manifest(URI));
    let mut command = cli.command(&["validate", "claw.yaml"]);
    let output = command.env("CLAWHOST_REGISTRIES", format!("main={}", registry.url)).output();
    let run = clawhost_tests::cli::Run::from(output.unwrap());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

#[test]
fn what_is_published_wrongly_is_not_served() {
    let registry = Registry::serve();
    registry
        .publish(
            "community/word-count/1.2.0",
            "claw: \"0.3.0\"\nkind: Skill\nmetadata: { name: word-count, version: 1.2.0 }\nspec: { description: d, tools_required: [read-file], instruction: i }\n",
            None,
        )
        .publish("community/other/1.0.0", &tool("another", "1.0.0", "Elsewhere."), None);
    for (uri, code, says) in [
        (URI, -32060, "is a Skill"),
        ("claw://registry/community/other@1.0.0", -32061, "called `another`"),
        ("claw://registry/community/absent@1.0.0", -32061, "no registry has it (asked: main)"),
        ("claw://registry/../other@1.0.0", -32061, "no registry has it"),
    ] {
        let problems = refused(&host(uri, &[("main", &registry.url)]));
        assert!(
            problems.iter().any(|(is, reason)| *is == code && reason.contains(says)),
            "{uri}: {problems:?}"
        );
    }
}

#[test]
fn what_is_published_is_listed_at_the_start_with_what_is_wrong_with_it() {
    let cli = Cli::new(PROGRAM);
    cli.write("published/community/good/1.0.0/document.yaml", tool("good", "1.0.0", "Well."));
    cli.write("published/community/other/1.0.0/document.yaml", tool("another", "1.0.0", "Ill."));
    let arguments = ["registry", "serve", "published", "--address", "127.0.0.1:0"];
    let mut program = cli.start(&arguments);
    let lines = BufReader::new(program.stdout.take().unwrap()).lines();
    let said: Vec<String> = lines.map(Result::unwrap).take_while(|line| !line.is_empty()).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert_eq!(said[1], "  community/good/1.0.0");
    assert!(said[2].starts_with("  community/other/1.0.0  NOT SERVED: "), "{said:?}");
    assert!(said[2].contains("called `another`"), "{said:?}");
}

#[test]
fn a_registry_that_is_offline_is_named_and_no_other_answers_for_it() {
    let registry = Registry::serve();
    let document = tool("word-count", "1.2.0", "As published.");
    registry.publish("community/word-count/1.2.0", &document, Some(&word_count()));
    let cli = host(URI, &[("gone", NOBODY), ("main", &registry.url)]);
    let problems = refused(&cli);
    assert_eq!(problems.len(), 1, "{problems:?}");
    assert_eq!(problems[0].0, -32061);
    assert!(problems[0].1.contains("the registry `gone` cannot be asked"), "{problems:?}");
}

/// Returns the method and the path of a request.
pub(crate) fn head_of(head: &str) -> (&str, &str) {
    let mut words = head.split(' ');
    (words.next().unwrap_or_default(), words.next().unwrap_or_default())
}

/// As [`answering`], for what looks at the path alone.
fn hostile(answer: impl Fn(&str) -> Vec<u8> + Send + 'static) -> (String, Arc<Mutex<Vec<String>>>) {
    answering(move |head| answer(head_of(head).1))
}

pub(crate) fn ok(body: &[u8]) -> Vec<u8> {
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
    [head.as_bytes(), body].concat()
}

fn index(document: &str, digest_of: &str) -> Vec<u8> {
    let digest = clawhost_core::digest::of_bytes(digest_of.as_bytes());
    let index = json!({"namespace": "community", "name": "word-count", "version": "1.2.0", "kind": "Tool",
        "document": {"digest": digest, "bytes": document.len()}});
    ok(index.to_string().as_bytes())
}

#[test]
fn a_hostile_registry_changes_nothing_and_leads_nowhere() {
    let document = tool("word-count", "1.2.0", "Tampered with.");
    let text = document.clone();
    let (tampering, _) = hostile(move |path| match path.ends_with("/document") {
        true => ok(text.replace("Tampered", "TAMPERED").as_bytes()),
        false => index(&text, &text),
    });
    let (elsewhere, reached) = hostile(|_| ok(b"{}"));
    let target = elsewhere.clone();
    let (moving, _) = hostile(move |path| {
        format!("HTTP/1.1 301 Moved\r\nlocation: {target}{path}\r\ncontent-length: 0\r\n\r\n")
            .into()
    });
    let (endless, _) = hostile(|_| {
        let mut answer = b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n".to_vec();
        answer.resize(8 << 20, b'[');
        answer
    });
    for (url, says) in [
        (&tampering, "something else than the index says"),
        (&moving, "redirects are not followed"),
        (&endless, "longer than 8192 bytes"),
    ] {
        let problems = refused(&host(URI, &[("bad", url)]));
        assert!(problems[0].1.contains(says), "{problems:?}");
    }
    assert_eq!(*reached.lock().unwrap(), Vec::<String>::new());
}

#[test]
fn a_fetched_component_takes_no_built_in_name_and_loses_none_to_a_file() {
    let registry = Registry::serve();
    registry
        .publish(
            "n/word-count/1.2.0",
            &tool("word-count", "1.2.0", "As published."),
            Some(&word_count()),
        )
        .publish(
            "n/answer/1.0.0",
            &tool("answer", "1.0.0", "Of another component."),
            Some(&word_count()),
        );
    // What would serve `read_file` is the very component that is built in.
    registry.publish("n/read-file/1.0.0", &tool("read-file", "1.0.0", "A trap."), None);
    let file_io = BUILT_IN_COMPONENTS.iter().find(|component| component.name == "file-io").unwrap();
    registry.cli.write("published/n/read-file/1.0.0/component.wasm", file_io.bytes);
    let tools = "claw://registry/n/word-count@1.2.0, claw://registry/n/answer@1.0.0, claw://registry/n/read-file@1.0.0";
    let cli = host(tools, &[("main", &registry.url)]);
    cli.write("tools/mine.wat", word_count());
    let run = cli.run(&["tools", "claw.yaml", "--json", "--tools", "tools"]);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    let said: Value = serde_json::from_str(&run.stdout).unwrap();
    let served: Vec<&Value> = said["tools"].as_array().unwrap().iter().collect();
    assert_eq!(served.len(), 1, "{said}");
    assert_eq!(served[0]["kind"], "registry");
    let reason = |source: &str| {
        let refused = said["refused"].as_array().unwrap().iter();
        let found = refused.clone().find(|one| one["source"].to_string().contains(source));
        found.unwrap_or_else(|| panic!("{source}: {said}"))["reason"].to_string()
    };
    assert!(reason("mine.wat").contains("the manifest has it from"), "{said}");
    assert!(reason("n/answer").contains("offers word_count and no tool `answer`"), "{said}");
    assert!(reason("n/read-file").contains("the name is a built-in tool's"), "{said}");
}

#[test]
fn nothing_outside_the_folder_is_published() {
    let registry = Registry::serve();
    registry.cli.write("secret/1.0.0/document.yaml", tool("secret", "1.0.0", "Not published."));
    link(&registry.cli.here().join("secret"), &registry.cli.here().join("published/n-secret"));
    std::fs::create_dir(registry.cli.here().join("published/n")).unwrap();
    link(&registry.cli.here().join("secret"), &registry.cli.here().join("published/n/secret"));
    let problems = refused(&host("claw://registry/n/secret@1.0.0", &[("main", &registry.url)]));
    assert!(problems[0].1.contains("answers 500"), "{problems:?}");
}

#[test]
fn nothing_is_published_for_others_or_from_nowhere() {
    let cli = Cli::new(PROGRAM);
    let run = cli.run(&["registry", "serve", "gone"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("name the folder that holds the packages"), "{}", run.stderr);
    let run = cli.run(&["registry", "serve", ".", "--address", "0.0.0.0:0"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("put a proxy with TLS in front of it"), "{}", run.stderr);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let run = cli.run(&["registry", "serve", ".", "--address", &address]);
    assert_eq!(run.code, Some(6), "{}", run.stderr);
    assert!(run.stderr.contains("another address with --address"), "{}", run.stderr);
}

fn link(to: &Path, at: &Path) {
    std::os::unix::fs::symlink(to, at).unwrap();
}
