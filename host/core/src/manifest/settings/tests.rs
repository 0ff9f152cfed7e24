//! The runtime file and its variables, whole.

use std::path::Path;

use super::profiles::Oversize;
use super::shapes::{FILE, LIMITS};
use super::*;
use crate::limits::CALLS_WAITING_MAX;
use crate::manifest::builtin_profiles;
use crate::manifest::problem::{DocumentError, Problems};
use crate::manifest::shape::{self, tests::leaves};
use crate::quota::Prices;

fn read(text: &str, variables: &[(&str, &str)]) -> Result<Settings, Vec<String>> {
    let variables = variables.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let file = (!text.is_empty()).then_some((Path::new("conf/clawhost.yaml"), text.as_bytes()));
    Settings::read(file, variables)
        .map_err(|list| list.iter().map(DocumentError::one_line).collect())
}

/// Reads what a file of this version says, and tells what is wrong with it, in a line each.
pub(super) fn read_body(text: &str, variables: &[(&str, &str)]) -> Result<Settings, String> {
    read(&format!("version: 1\n{text}\n"), variables).map_err(|lines| lines.join("\n"))
}

const FULL: &str = r#"version: 1
state: ./state
tools:
  directory: ../tools
  replace_builtins: [read_file]
  catalog: search
  pins: require
limits:
  calls_running_max: 8
  shutdown_grace_ms: 100
http:
  address: 127.0.0.1:7000
  allowed_hosts: [tools.example.com, "tools.example.com:8443"]
  allowed_origins: ["https://console.example.com"]
  console: false
  metrics: 127.0.0.1:9464
audit: { webhook: "https://audit.example.com/in", syslog: run/log }
agents:
  - { name: claude, elicitation: true }
channels:
  ops: { file: messages.jsonl }
registries:
  - { name: main, url: "https://registry.example/v1/" }
profiles:
  network: { ports: [443, 8443], env: { LANG: C }, provider: true, memory: true, all_costs: true, channels: [ops] }
providers:
  main: { input_usd_per_million: 3, output_usd_per_million: 0.5 }
"#;

#[test]
fn every_key_is_read() {
    let settings = read(FULL, &[]).unwrap();
    assert_eq!(settings.state.as_deref(), Some(Path::new("conf/state")));
    assert_eq!(settings.tools.directory.as_deref(), Some(Path::new("conf/../tools")));
    assert!(settings.tools.replace_builtins.contains("read_file"));
    assert_eq!(settings.limits.calls_running_max, 8);
    assert_eq!(settings.limits.calls_waiting_max, CALLS_WAITING_MAX);
    assert_eq!(settings.http.address, Some("127.0.0.1:7000".parse().unwrap()));
    assert_eq!(settings.http.allowed_hosts.len(), 2);
    let [agent] = settings.agents.as_slice() else { panic!("one agent") };
    assert_eq!((agent.name.as_str(), agent.elicitation, &agent.identity), ("claude", true, &None));
    assert_eq!(settings.registries[0].url, "https://registry.example/v1");
    assert_eq!(settings.audit.webhook.as_deref(), Some("https://audit.example.com/in"));
    assert_eq!(settings.audit.syslog.as_deref(), Some(Path::new("conf/run/log")));
    let network = &settings.profiles["network"];
    assert_eq!(network.ports.as_deref(), Some(&[443, 8443][..]));
    assert_eq!(network.env["LANG"], "C");
    assert!(network.provider && network.memory == Some(true) && network.all_costs);
    assert!(network.channels.contains("ops") && settings.channels.contains_key("ops"));
    assert_eq!(settings.providers["main"].prices, Prices::per_million_usd(3.0, 0.5));
}

#[test]
fn nothing_said_is_the_default() {
    assert_eq!(read("", &[]).unwrap(), Settings::default());
    assert_eq!(
        read("version: 1", &[("CLAWHOST_STATE", ""), ("PATH", "/bin")]).unwrap(),
        Settings::default()
    );
}

#[test]
fn a_variable_changes_its_own_key_only() {
    let file = read(FULL, &[]).unwrap();
    let mut both = read(FULL, &[("CLAWHOST_STATE", "there")]).unwrap();
    assert_eq!(both.state.as_deref(), Some(Path::new("there")));
    both.state.clone_from(&file.state);
    assert_eq!(both, file);
}

#[test]
fn every_key_has_a_variable_and_variables_win() {
    let settings = read(
        FULL,
        &[
            ("CLAWHOST_AGENTS", "one, two"),
            ("CLAWHOST_HTTP_ADDRESS", "[::1]:1"),
            ("CLAWHOST_HTTP_ALLOWED_HOSTS", "a.example"),
            ("CLAWHOST_HTTP_ALLOWED_ORIGINS", "https://a.example"),
            ("CLAWHOST_LIMITS_ARGUMENTS_BYTES_MAX", "1"),
            ("CLAWHOST_LIMITS_CALLS_RUNNING_MAX", "2"),
            ("CLAWHOST_LIMITS_CALLS_RUNNING_PER_AGENT_MAX", "6"),
            ("CLAWHOST_LIMITS_CALLS_WAITING_MAX", "3"),
            ("CLAWHOST_LIMITS_REPLY_BYTES_MAX", "4"),
            ("CLAWHOST_LIMITS_SHUTDOWN_GRACE_MS", "5"),
            ("CLAWHOST_PROFILES", "{\"none\": {\"env\": {\"A\": \"b\"}}}"),
            ("CLAWHOST_CHANNELS", "{\"ops\": {\"console\": true}}"),
            ("CLAWHOST_PROVIDERS", "{\"own\": {\"input_usd_per_million\": 1}}"),
            ("CLAWHOST_REGISTRIES", "a=https://a.example,b=http://[::1]:1/x"),
            ("CLAWHOST_AUDIT_SYSLOG", "/dev/other"),
            ("CLAWHOST_AUDIT_WEBHOOK", "http://127.0.0.1:1/"),
            ("CLAWHOST_STATE", "there"),
            ("CLAWHOST_TOOLS_DIRECTORY", "/tools"),
            ("CLAWHOST_TOOLS_REPLACE_BUILTINS", "web_fetch,exec_shell"),
        ],
    )
    .unwrap();
    let names: Vec<_> = settings.agents.iter().map(|agent| agent.name.as_str()).collect();
    assert_eq!(names, ["one", "two"]);
    assert_eq!(settings.http.address, Some("[::1]:1".parse().unwrap()));
    assert_eq!(settings.http.allowed_hosts, ["a.example"]);
    assert_eq!(settings.http.allowed_origins, ["https://a.example"]);
    let LimitSettings {
        arguments_bytes_max,
        calls_running_max,
        calls_running_per_agent_max,
        calls_waiting_max,
        reply_bytes_max,
        shutdown_grace_ms,
    } = settings.limits;
    let limits = (
        arguments_bytes_max, calls_running_max, calls_running_per_agent_max, calls_waiting_max,
        reply_bytes_max, shutdown_grace_ms,
    );
    assert_eq!(limits, (1, 2, Some(6), 3, 4, 5));
    assert_eq!(settings.profiles.keys().collect::<Vec<_>>(), ["none"]);
    assert_eq!(settings.channels.keys().collect::<Vec<_>>(), ["ops"]);
    assert_eq!(settings.providers.keys().collect::<Vec<_>>(), ["own"]);
    let registries: Vec<_> =
        settings.registries.iter().map(|one| (one.name.as_str(), one.url.as_str())).collect();
    assert_eq!(registries, [("a", "https://a.example"), ("b", "http://[::1]:1/x")]);
    assert_eq!(settings.state.as_deref(), Some(Path::new("there")));
    assert_eq!(settings.tools.directory.as_deref(), Some(Path::new("/tools")));
    assert_eq!(settings.tools.replace_builtins.len(), 2);
}

#[test]
fn unknown_unserved_and_wrong_things_are_refused_where_they_stand() {
    for (text, expected) in [
        ("state: x", "conf/clawhost.yaml:1:1: `version` is missing (add `version: 1`)"),
        ("version: 2", ":1:10: `version` is the number 2 (write 1)"),
        ("version: 1\nsate: x", ":2:1: unknown key `sate` (did you mean `state`?"),
        (
            "version: 1\nregistries: [{name: a, url: \"http://a.example\"}]",
            "no address of a registry",
        ),
        ("version: 1\nregistries: [{name: a}]", "`registries[0].url` is missing"),
        ("version: 1\nstore: []", ":2:1: `store` is not served by this version"),
        (
            "version: 1\nprofiles: {none: {signature: require}}",
            "`profiles.none.signature` is not served by this version (write `signed_by` with",
        ),
        ("version: 1\ntools: {mcp_servers: []}", "`tools.mcp_servers` is a list"),
        ("version: 1\ntools: {pins: never}", "`tools.pins` is `never`"),
        (
            "version: 1\nprofiles: {none: {secrets: [{env: A}]}}",
            "`profiles.none.secrets[0].name` is missing",
        ),
        (
            "version: 1\nprofiles: {none: {secrets: [{name: ../x}]}}",
            "`profiles.none.secrets[0].name` is no name of a secret",
        ),
        (
            "version: 1\nprofiles: {none: {secrets: [{name: a-b}]}}",
            "`a-b` is no environment variable",
        ),
        (
            "version: 1\nprofiles: {none: {secrets: [{name: A}, {name: B, env: A}]}}",
            "two secrets in the variable `A`",
        ),
        (
            "version: 1\nprofiles: {none: {secrets: [{name: A, hosts: [\"https://x\"]}]}}",
            "is a URL and no host (write `x`)",
        ),
        (
            "version: 1\naudit: {webhook: here}",
            ":2:18: `audit.webhook` has no scheme (write `https://here`)",
        ),
        ("version: 1\nhttp: {address: localhost}", "`http.address` is no socket address"),
        ("version: 1\nhttp: {metrics: '9464'}", "`http.metrics` is no socket address"),
        (
            "version: 1\nhttp: {metrics: 9464}",
            "`http.metrics` is the number 9464 (write an address and a port: 127.0.0.1:8080",
        ),
        (
            "version: 1\nhttp: {allowed_hosts: ['*']}",
            "`*` does not belong into `http.allowed_hosts`",
        ),
        ("version: 1\nhttp: {allowed_origins: ['https://a/']}", "`https://a/` does not belong"),
        ("version: 1\nhttp: {allowed_origins: ['null']}", "`null` does not belong"),
        (
            "version: 1\nlimits: {calls_running_max: 0}",
            "`limits.calls_running_max` is the number 0",
        ),
        ("version: 1\nlimits: {calls_running_max: 1001}", "write a whole number from 1 to 1000"),
        ("version: 1\nagents: [{name: a}, {name: a}]", "the agent name `a` is there twice"),
        ("version: 1\nagents: [{name: a_b}]", "the name `a_b` is not allowed"),
        ("version: 1\nagents: [{name: cli}]", ":2:17: the agent name `cli` is the host's own"),
        ("version: 1\nagents: [{name: operator}]", "the agent name `operator` is the host's own"),
        ("version: 1\nprofiles: {none: {ports: [70000]}}", "write a whole number from 1 to 65535"),
        ("version: 1\nproviders: {p: {input_usd_per_million: -1}}", "the number -1"),
        ("version: 1\nproviders: {p: {price: 1}}", "unknown key `price` in `providers.p`"),
        ("version: 1\nprofiles: {none: {env: {1A: x}}}", "`1A` is no environment variable"),
        ("version: 1\nprofiles: {none: {env: {A: 1}}}", "`profiles.none.env.A` is the number 1"),
    ] {
        let problems = read(text, &[]).unwrap_err();
        assert!(problems.iter().any(|line| line.contains(expected)), "{text}: {problems:#?}");
    }
}

#[test]
fn unknown_variables_are_refused_but_not_a_clusters() {
    let problems = read("", &[("CLAWHOST_HTTP_ADRESS", "x")]).unwrap_err();
    assert!(problems[0].contains("did you mean `CLAWHOST_HTTP_ADDRESS`?"), "{problems:?}");
    assert!(read("", &[("CLAWHOST_LIMITS_CALLS_RUNNING_MAX", "many")]).is_err());
    assert!(read("", &[("CLAWHOST_PROFILES", "{")]).is_err());
    let cluster = [
        ("CLAWHOST_SERVICE_HOST", "10.0.0.1"),
        ("CLAWHOST_PORT_80_TCP", "x"),
        ("CLAWHOST_LOG", "debug"),
    ];
    assert_eq!(read("", &cluster).unwrap(), Settings::default());
}

/// What the page says about each key: one row a key, which begins with its name, type and variable.
#[test]
fn the_page_of_the_runtime_file_has_every_key_and_no_other() {
    let page = include_str!("../../../../CONFIGURATION.md");
    let (page, _) = page.split_once("\n## Definition files").unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| `")).collect();
    let keys = leaves(&FILE, "");
    let row = |(key, is): &(String, String)| {
        let whole = key.split(['[', '<']).next().unwrap().trim_end_matches('.');
        let variable = match key.as_str() {
            "version" => "none".to_owned(),
            _ => format!("`{}`", super::variables::name(whole)),
        };
        format!("| `{key}` | {is} | {variable} | ")
    };
    let missing: Vec<String> = keys.iter().map(row).collect();
    let missing = missing.iter().filter(|begin| !rows.iter().any(|row| row.starts_with(*begin)));
    let missing: Vec<&String> = missing.collect();
    assert!(missing.is_empty(), "no rows begin with {missing:#?}");
    assert_eq!(rows.len(), keys.len(), "the page has a key that the file does not");
    for key in shape::keys(&LIMITS) {
        let row = rows.iter().find(|row| row.starts_with(&format!("| `limits.{key}`"))).unwrap();
        let default = row.split(" | ").nth(3).unwrap();
        match default.parse() {
            Ok::<u64, _>(number) => {
                let settings = serde_json::from_value(serde_json::json!({ key: number }));
                assert_eq!(LimitSettings::default(), settings.unwrap(), "the default of {key}");
            }
            Err(_) => assert!(default.contains(" of `"), "{default} is taken from no other key"),
        }
    }
}

#[test]
fn the_value_of_a_variable_is_not_shown() {
    for name in ["CLAWHOST_TOKEN", "CLAWHOST_PROFILES"] {
        let variables = [(name.to_owned(), "hunter2: [".to_owned())];
        let list = Settings::read(None, variables).unwrap_err();
        let mut shown = String::new();
        miette::NarratableReportHandler::new()
            .render_report(&mut shown, &list[0].report())
            .unwrap();
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(!list[0].one_line().contains("hunter2"), "{list:?}");
    }
}

#[test]
fn bounds_on_writing_are_refused_where_native_programs_write() {
    let problems = |profile: &str, bounds: &str| {
        let text = format!("version: 1\nprofiles: {{{profile}: {{{bounds}}}}}");
        let (settings, mut problems) = (read(&text, &[]).unwrap(), Problems::default());
        let mut profile = builtin_profiles(Path::new("/here")).unwrap().remove(profile).unwrap();
        settings.profiles[&profile.name].apply(&mut profile, &mut problems);
        let problems = problems.finish(Some(())).err().unwrap_or_default();
        problems.iter().map(DocumentError::one_line).collect::<Vec<_>>()
    };
    for key in ["write_bytes_max", "create_entries_max"] {
        let bound = format!("{key}: 0");
        let told = problems("process", &bound);
        let expected = format!(":2:12: `{key}` for the profile `process`, whose native programs");
        assert!(told.len() == 1 && told[0].contains(&expected), "{told:?}");
        assert_eq!(problems("workspace", &bound), Vec::<String>::new());
    }
    assert_eq!(problems("process", "memory: true"), Vec::<String>::new());
}

#[test]
fn programs_are_names_or_absolute_paths_and_for_a_restricted_shell_only() {
    let with = |programs: &str| {
        read(&format!("version: 1\nprofiles: {{p: {{programs: [{programs}]}}}}"), &[])
    };
    assert_eq!(with("git, /opt/x/bin/y").unwrap().profiles["p"].programs, ["git", "/opt/x/bin/y"]);
    for wrong in ["./git", "bin/git", "''"] {
        let problems = with(wrong).unwrap_err();
        assert!(problems[0].contains("does not belong into `programs`"), "{wrong}: {problems:?}");
    }
}

#[test]
fn large_catalogs_are_searched_and_large_results_kept_where_that_is_said() {
    let text = "version: 1\ntools: {catalog: search}\nprofiles: {a: {oversize: keep}, b: {}}";
    let settings = read(text, &[]).unwrap();
    assert_eq!(settings.tools.catalog, CatalogMode::Search);
    assert_eq!(settings.profiles["a"].oversize, Oversize::Keep);
    assert_eq!(settings.profiles["b"].oversize, Oversize::Cut);
    assert_eq!(Settings::default().tools.catalog, CatalogMode::List);
    assert!(read("version: 1\nprofiles: {a: {oversize: spill}}", &[]).is_err());
}

#[test]
fn the_agent_on_standard_input_has_no_token() {
    let text = "version: 1\nagents: [{name: stdio, elicitation: true}, {name: a}]";
    let settings = read(text, &[]).unwrap();
    assert_eq!((settings.token_names(), settings.elicitors().len()), (vec!["a".to_owned()], 1));
}

#[test]
fn a_turn_is_bounded_as_in_pods() {
    let text =
        "version: 1\nproxy: { max_rounds: 2, max_tool_iterations: 3, total_timeout_ms: 40000 }";
    let small = ("CLAWHOST_PROXY_MAX_TOOL_RESULT_BYTES", "256");
    let bounds = read(text, &[small]).unwrap().proxy.policy.bounds;
    let default = crate::mediate::TurnBounds::default();
    assert_eq!((bounds.max_rounds, bounds.total_timeout_ms), (2, 40_000));
    assert_eq!((bounds.max_tool_iterations, default.max_tool_iterations), (3, 20));
    assert_eq!(bounds.max_tool_result_bytes, 256);
    assert_eq!(bounds.timeout_per_tool_ms, default.timeout_per_tool_ms);
    for (name, wrong) in [("MAX_TOOL_RESULT_BYTES", "255"), ("TOTAL_TIMEOUT_MS", "5")] {
        let errors = read("", &[(&format!("CLAWHOST_PROXY_{name}"), wrong)]).unwrap_err();
        assert!(errors.iter().any(|error| error.contains(wrong)), "{errors:?}");
    }
}
