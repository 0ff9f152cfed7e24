//! Descriptors, pods and compiled files, rule by rule.

use std::io;
use std::path::Path;

use serde_json::json;

use super::*;
use crate::manifest::{DirEntry, DocumentError, Documents, McpReach, McpValue};

/// Files in memory.
struct Files(Vec<(&'static str, String)>);

impl Documents for Files {
    fn read(&self, file: &Path) -> io::Result<Vec<u8>> {
        let found = self.0.iter().find(|(name, _)| Path::new(name) == file);
        found
            .map(|(_, text)| text.clone().into_bytes())
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list(&self, directory: &Path) -> io::Result<Vec<DirEntry>> {
        let below =
            self.0.iter().filter_map(|(name, _)| Path::new(name).strip_prefix(directory).ok());
        let names = below.filter_map(|path| path.iter().next()?.to_str());
        let entry =
            |name: &str| DirEntry { name: name.into(), is_directory: !name.contains("json") };
        Ok(names.map(entry).collect())
    }
}

const DESK: &str = r#"{"version": 2, "description": "Trading Desk API", "tools": [
  {"name": "get_market_context", "description": "Retrieve context",
   "inputSchema": {"type": "Object", "properties": {"claw_id": {"type": "string"}}, "required": ["claw_id"]},
   "http": {"method": "GET", "path": "/api/v1/market_context/{claw_id}"}, "annotations": {"readOnly": true}},
  {"name": "execute_trade", "description": "Execute an order",
   "inputSchema": {"type": "object", "properties": {"symbol": {"type": "string"}}},
   "http": {"method": "POST", "path": "/api/v1/trades", "body": "json", "body_key": "order"},
   "annotations": {"x-claw": {"terminalOnSuccess": true}}}],
  "endpoints": [{"method": "GET", "path": "/secret-endpoint"}],
  "auth": {"type": "Bearer", "env": "TRADING_API_TOKEN"}}"#;

fn told<T>(outcome: Result<T, Vec<DocumentError>>) -> String {
    let errors = outcome.err().unwrap_or_default();
    errors.iter().map(DocumentError::one_line).collect::<Vec<_>>().join("\n")
}

fn describe(text: &str) -> Result<Descriptor, Vec<DocumentError>> {
    Descriptor::read(Path::new("d.json"), text.as_bytes())
}

fn compiled(
    pod: &str,
    more: &[(&'static str, &str)],
) -> Result<Vec<CompiledAgent>, Vec<DocumentError>> {
    compiled_pod(pod, more).map(|pod| pod.agents)
}

fn compiled_pod(
    pod: &str,
    more: &[(&'static str, &str)],
) -> Result<CompiledPod, Vec<DocumentError>> {
    let mut files = vec![("p/pod.yaml", pod.to_owned()), ("p/desk.json", DESK.to_owned())];
    files.extend(more.iter().map(|(name, text)| (*name, (*text).to_owned())));
    let (docs, addresses) = (Files(files), BTreeMap::new());
    let has_secret = |name: &str| name.ends_with("_TOKEN");
    compile(
        Path::new("p/pod.yaml"),
        &PodSurroundings { docs: &docs, addresses: &addresses, has_secret: &has_secret },
    )
}

/// A pod of one agent with the keys `claw`, beside the trading desk.
fn pod(claw: &str) -> String {
    format!(
        "x-claw: {{pod: desk, tools-defaults: [{{service: trading-api, allow: [get_market_context]}}], tool-policy-defaults: {{max-rounds: 3}}}}
services:
  analyst:
    image: analyst:latest
    x-claw: {{agent: ./A.md, cllama: passthrough, surfaces: [service://trading-api, 'channel://x'], {claw}}}
    environment: [TRADING_API_TOKEN]
  trading-api: {{image: t, expose: ['4000'], x-claw: {{describe-file: desk.json}}}}
"
    )
}

fn tools(claw: &str) -> Vec<String> {
    let agents = compiled(&pod(claw), &[]).map_err(|errors| told::<()>(Err(errors))).unwrap();
    assert_eq!(agents.len(), 1);
    let file = agents[0].file.clone().unwrap_or_default();
    file.tools.iter().map(|(tool, _)| tool.name.clone()).collect()
}

#[test]
fn a_descriptor_is_read() {
    let desk = describe(DESK).unwrap();
    assert_eq!(desk.auth, Credential::Bearer { secret: "TRADING_API_TOKEN".to_owned() });
    let [read, trade] =
        [0, 1].map(|at| desk.tools[at].of("trading-api", "http://trading-api:4000/"));
    assert_eq!(read.canonical(), "trading-api.get_market_context");
    assert_eq!(read.input_schema["type"], "object", "spelt as JSON Schema has it");
    assert_eq!((read.is_terminal(), trade.is_terminal()), (false, true));
    assert_eq!(read.base_url, "http://trading-api:4000");
    let mcp = r#"{"version": 2, "mcp": {"transport": "streamable-http"}, "tools": [
        {"name": "search", "description": "d", "inputSchema": {"type": "object"}}]}"#;
    let path = "/mcp".to_owned();
    assert_eq!(describe(mcp).unwrap().tools[0].transport, Transport::Mcp { path });
}

#[test]
fn what_a_descriptor_may_not_say_is_refused_where_it_stands() {
    let tool = |inside: &str| {
        format!(r#"{{"version": 2, "tools": [{{"name": "a", "description": "d", {inside}}}]}}"#)
    };
    let schema = r#""inputSchema": {"type": "object"}"#;
    let get = r#""http": {"method": "GET", "path": "/a"}"#;
    for (text, says) in [
        (r#"{"version": 3}"#.to_owned(), "d.json:1:13"),
        (r#"{"version": 1, "tools": []}"#.to_owned(), "`tools` in a descriptor of version 1"),
        (r#"{"version": 1, "mcp": {}}"#.to_owned(), "`mcp` in a descriptor of version 1"),
        (r#"{"version": 2, "memory": {"forget": {"path": "/f"}}}"#.to_owned(), "`memory`"),
        (r#"{"version": 2, "feeds": [{"name": "a", "path": "/f", "ttl": 0}]}"#.to_owned(), "ttl"),
        (r#"{"version": 2, "mcp": {"transport": "sse"}}"#.to_owned(), "`mcp.transport` is `sse`"),
        (r#"{"version": 2, "mcp": {"path": "mcp"}}"#.to_owned(), "does not begin with `/`"),
        (r#"{"version": 2, "auth": {"type": "basic"}}"#.to_owned(), "`auth.type` is `basic`"),
        (r#"{"version": 2, "auth": {"type": "bearer", "header": "X"}}"#.to_owned(), "`header` for"),
        (r#"{"version": 2, "auth": {"type": "header", "header": "Host"}}"#.to_owned(), "no header"),
        (tool(&format!("{schema}, {get}")).replace(r#""a""#, r#""../a""#), "no name of a tool"),
        (r#"{"version": 2, "tool": []}"#.to_owned(), "did you mean `tools`?"),
        (tool(schema), "nothing says how `a` is called"),
        (tool(&format!(r#""inputSchema": {{}}, {get}"#)), "`inputSchema` is of no object"),
        (
            tool(&format!(r#""inputSchema": {{"type": "object", "properties": 3}}, {get}"#)),
            "`inputSchema` cannot be used",
        ),
        (tool(&format!(r#"{schema}, "http": {{"method": "TRACE", "path": "/a"}}"#)), "TRACE"),
        (tool(&format!(r#"{schema}, "http": {{"method": "GET", "path": "a"}}"#)), "begin with"),
        (tool(&format!(r#"{schema}, "http": {{"method": "GET", "path": "/{{a"}}"#)), "braces"),
        (tool(&format!(r#"{schema}, "http": {{"method": "GET", "path": "/a#b"}}"#)), "`#` in it"),
        (
            tool(&format!(
                r#"{schema}, "http": {{"method": "POST", "path": "/a", "body": "form"}}"#
            )),
            "`form` (write `json`)",
        ),
        (
            tool(&format!(
                r#"{schema}, "http": {{"method": "GET", "path": "/a", "body_key": "k"}}"#
            )),
            "no body",
        ),
        (
            tool(&format!(
                r#"{schema}, {get}, "annotations": {{"x-claw.terminalOnSuccess": "true"}}"#
            )),
            "neither true nor false",
        ),
        (
            format!(
                r#"{{"version": 2, "mcp": {{}}, "tools": [{{"name": "a", "description": "d", {schema}, {get}}}]}}"#
            ),
            "`http` beside `mcp`",
        ),
        (
            format!(
                r#"{{"version": 2, "tools": [{{"name": "a", "description": "d", {schema}, {get}}}, {{"name": " a ", "description": "d", {schema}, {get}}}]}}"#
            ),
            "there twice",
        ),
    ] {
        let errors = told(describe(&text));
        assert!(errors.contains(says), "{text}\n{errors}");
    }
}

#[test]
fn tools_are_inherited_replaced_joined_and_suppressed() {
    assert_eq!(tools(""), ["get_market_context"], "nothing said: the pod's");
    assert_eq!(tools("tools: []"), [""; 0]);
    assert_eq!(tools("tools: null"), [""; 0]);
    assert_eq!(tools("tools: [{service: trading-api, allow: [execute_trade]}]"), ["execute_trade"]);
    let both = ["get_market_context", "execute_trade"];
    assert_eq!(tools("tools: ['...', {service: trading-api, allow: [execute_trade]}]"), both);
    assert_eq!(tools("tools: [trading-api, {service: trading-api, allow: [execute_trade]}]"), both);
    assert_eq!(tools("tools: ['...', trading-api]"), both);
}

#[test]
fn what_a_pod_may_not_say_is_refused_where_it_stands() {
    for (claw, says) in [
        ("tools: [{service: trading-api, allow: [all, execute_trade]}]", "`all` in a list"),
        ("tools: [{service: trading-api, allow: []}]", "neither `all` nor a list"),
        (
            "tools: [{service: trading-api}]",
            "allow` is missing (write `allow: all`, or a list of: ",
        ),
        ("tools: all", "`tools` is a text"),
        ("tools: [3]", "an entry of `tools` is a number"),
        ("tools: [trading]", "the pod has no service `trading` (did you mean"),
        ("tools: [analyst]", "nothing describes the service `analyst`"),
        (
            "tools: [{service: trading-api, allow: [execute_trad]}]",
            "has no tool `execute_trad` (did you mean `execute_trade`",
        ),
        ("surface: []", "did you mean `surfaces`?"),
        ("tool-policy: {max-rounds: 0}", "max-rounds"),
        ("tool-policy: {max-tool-result-bytes: 65537}", "from 256 to 65536"),
        ("tool-policy: {max-round: 1}", "did you mean `max-rounds`?"),
        ("tool-policy: {total-timeout-ms: 5}", "a turn has 5 ms, and one tool of it 30000"),
        ("describe-file: gone.json", ""),
    ] {
        let errors = told(compiled(&pod(claw), &[]));
        assert!(errors.contains(says), "{claw}\n{errors}");
        assert!(errors.is_empty() || errors.contains("pod.yaml:5:"), "{claw}\n{errors}");
    }
    let without = |what: &str, with: &str| told(compiled(&pod("").replace(what, with), &[]));
    assert!(without("service://trading-api, ", "").contains("does not reach"));
    assert!(without("desk.json", "gone.json").contains("`p/gone.json` cannot be read"));
    assert!(without("cllama: passthrough,", "tools: [trading-api],").contains("no proxy"));
    assert!(without("trading-api: {image", "../x: {image").contains("no name of a service"));
    let allow = "tools: [{service: trading-api, allow: [execute_trade]}]";
    let described = |text: &str| {
        let pod = pod(allow).replace("desk.json", "other.json");
        told(compiled(&pod, &[("p/other.json", text)]))
    };
    assert!(described(r#"{"version": 1}"#).contains(r#"write `"version": 2`"#));
    let faulty = described("{}");
    assert!(faulty.contains("p/other.json") && !faulty.contains("nothing describes"), "{faulty}");
    let spliced = "x-claw: {pod: desk}\nservices:\n  a: {x-claw: {cllama: p, tools: ['...']}}";
    assert!(told(compiled(spliced, &[])).contains("`...` where there are no defaults"));
}

#[test]
fn bounds_are_an_agent_s_own_whole_or_the_pod_s() {
    let policy = |claw: &str| compiled(&pod(claw), &[]).unwrap()[0].file.clone().unwrap().policy;
    let default = TurnBounds::default();
    assert_eq!(policy(""), TurnBounds { max_rounds: 3, ..default });
    assert_eq!(policy("tool-policy: null"), default);
    let own = "tool-policy: {timeout-per-tool-ms: 10, max-tool-iterations: 5, max-tool-result-bytes: 999}";
    let expected = TurnBounds {
        timeout_per_tool_ms: 10,
        max_tool_iterations: 5,
        max_tool_result_bytes: 999,
        ..default
    };
    assert_eq!(policy(own), expected, "nothing of the pod's is left");
}

#[test]
fn a_budget_is_an_agent_s_own_whole_or_the_pod_s_and_is_read_back() {
    let file = |claw: &str| {
        let pod = pod(claw).replace(
            "{pod: desk,",
            "{pod: desk, budget-defaults: {limit-usd: 2.5, max-requests: 100, window: 24h},",
        );
        compiled(&pod, &[])
            .map(|agents| agents[0].file.clone().unwrap())
            .map_err(|e| told::<()>(Err(e)))
    };
    let all = Budget {
        limit_nano_usd: Some(2_500_000_000),
        requests_max: Some(100),
        window_ms: 86_400_000,
        is_soft: false,
    };
    assert_eq!(file("").unwrap().budget, Some(all));
    assert_eq!(file("budget: null").unwrap().budget, None);
    let own =
        file("tools: [], budget: {max-requests: 1, window: 1m, behavior: soft_alert}").unwrap();
    let soft =
        Budget { requests_max: Some(1), window_ms: 60_000, is_soft: true, limit_nano_usd: None };
    assert_eq!((own.budget, own.tools.len()), (Some(soft), 0), "nothing of the pod's is left");
    for of in [own, file("").unwrap()] {
        let files = Files(vec![("c/a/tools.json", of.to_text())]);
        assert_eq!(super::agents(&files, Path::new("c")).unwrap().agents["a"].budget, of.budget);
    }
    for (wrong, says) in [
        ("{window: 1h}", "without a limit"),
        ("{limit-usd: 0, window: 1h}", "no money"),
        ("{max-requests: 0, window: 1h}", "max-requests"),
        ("{max-requests: 1}", "`window` of a budget is missing"),
        ("{max-requests: 1, window: 32d}", "between 1m and 31d"),
        ("{max-requests: 1, window: soon}", "30d"),
        ("{max-requests: 1, window: 1h, behavior: shout}", "hard_stop"),
    ] {
        let errors = file(&format!("budget: {wrong}")).unwrap_err();
        assert!(errors.contains(says), "{wrong}: {errors}");
    }
}

#[test]
fn a_token_is_named_and_never_there() {
    let with = |environment: &str| {
        pod("").replace("environment: [TRADING_API_TOKEN]", &format!("environment: {environment}"))
    };
    let secret = |environment: &str| {
        let agents = compiled(&with(environment), &[]).unwrap();
        let file = agents[0].file.clone().unwrap();
        file.tools[0].1.secret().unwrap().to_owned()
    };
    let unnamed = told(compiled(&with("{}"), &[]));
    assert!(unnamed.contains("`trading-api` wants the token `TRADING_API_TOKEN`"), "{unnamed}");
    let (bare, desk) = (
        pod("").replace("desk.json", "bare.json"),
        DESK.replace(r#", "env": "TRADING_API_TOKEN""#, ""),
    );
    let nameless = told(compiled(&bare, &[("p/bare.json", &desk)]));
    assert!(nameless.contains("names no variable for its token"), "{nameless}");
    assert_eq!(secret("{TRADING_API_TOKEN: '${ANALYST_TOKEN}'}"), "ANALYST_TOKEN");
    assert_eq!(secret("['TRADING_API_TOKEN=$ANALYST_TOKEN']"), "ANALYST_TOKEN");
    assert_eq!(secret("[TRADING_API_TOKEN]"), "TRADING_API_TOKEN");
    for stated in ["hunter2", "Bearer ${ANALYST_TOKEN}", "${ANALYST_TOKEN:-hunter2}"] {
        let errors = told(compiled(&with(&format!("{{TRADING_API_TOKEN: '{stated}'}}")), &[]));
        assert!(errors.contains("stands in the pod") && !errors.contains("hunter2"), "{errors}");
    }
    let number = told(compiled(&with("{TRADING_API_TOKEN: 12345}"), &[]));
    assert!(number.contains("stands in the pod") && !number.contains("12345"), "{number}");
    let login = told(compiled(&with("{TRADING_API_TOKEN: $oauth.web}"), &[]));
    assert!(login.contains("trading-api"), "{login}");
    let nowhere = told(compiled(&with("{TRADING_API_TOKEN: $ELSEWHERE}"), &[]));
    assert!(nowhere.contains("there is no secret `ELSEWHERE`"), "{nowhere}");
}

#[test]
fn a_compiled_file_says_what_the_pod_and_descriptor_do_and_is_read_back() {
    let agents = compiled(&pod("tools: [trading-api]"), &[]).unwrap();
    let file = agents[0].file.clone().unwrap();
    let text = file.to_text();
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        value["tools"][0]["execution"],
        json!({
            "transport": "http", "service": "trading-api", "base_url": "http://trading-api:4000",
            "method": "GET", "path": "/api/v1/market_context/{claw_id}",
            "auth": {"type": "bearer", "secret": "TRADING_API_TOKEN"},
        })
    );
    assert_eq!(value["policy"]["max_tool_result_bytes"], 16_384);
    assert_eq!(value["policy"]["max_tool_iterations"], 20);
    let Compiled { tools: granted, agents: all } =
        super::agents(&Files(vec![("c/analyst/tools.json", text.clone())]), Path::new("c"))
            .unwrap();
    assert_eq!(granted.len(), 2);
    assert_eq!(granted[1].tool, file.tools[0].0);
    assert_eq!(granted[1].credential("analyst"), Some(&file.tools[0].1));
    assert_eq!(granted[1].credential("somebody"), None);
    assert_eq!(all["analyst"].policy, file.policy);
    assert_eq!(agents[0].page.matches("trading-api_").count(), 2, "{}", agents[0].page);
    assert!(!agents[0].page.contains('/'), "no address: {}", agents[0].page);
}

#[test]
fn a_compiled_file_that_is_not_ours_is_no_empty_one() {
    let read =
        |files: Vec<(&'static str, String)>| told(super::agents(&Files(files), Path::new("c")));
    let text =
        compiled(&pod("tools: [trading-api]"), &[]).unwrap()[0].file.clone().unwrap().to_text();
    let one = |text: &str| read(vec![("c/a/tools.json", text.to_owned())]);
    assert_eq!(one(&text), "");
    for (from, to, says) in [
        ("\"secret\": \"TRADING_API_TOKEN\"", "\"token\": \"hunter2\"", "unknown key `token`"),
        ("\"version\": 1", "\"version\": 2", "version"),
        ("\"name\": \"trading-api.", "\"name\": \"trading-api.../", "no name of a tool"),
        ("\"name\": \"trading-api.", "\"name\": \"other.", "of another service"),
        ("\"method\": \"GET\",", "", "`execution.method` is missing"),
        ("http://trading-api:4000", "file:///etc", "base_url"),
        ("{", "[", "c/a/tools.json"),
    ] {
        let errors = one(&text.replacen(from, to, 1));
        assert!(errors.contains(says) && !errors.contains("hunter2"), "{from}\n{errors}");
    }
    let other = text.replace("Execute an order", "Execute it");
    let above = read(vec![("c/tools.json", text.clone())]);
    assert!(above.contains("name the folder above"), "{above}");
    let none = read(vec![("c/a/CLAWDAPUS.md", String::new())]);
    assert!(none.contains("no folder in it has a `tools.json`"), "{none}");
    let both = vec![("c/a/tools.json", text), ("c/b/tools.json", other)];
    assert!(read(both).contains("something else for another agent"));
}

fn request(at: usize, arguments: &Value) -> Result<ServiceRequest, String> {
    let tool = describe(DESK).unwrap().tools[at].of("t", "http://t:4000");
    let arguments = arguments.as_object().cloned().unwrap();
    ServiceRequest::new(&tool, arguments, "ana/lyst").map_err(|error| error.to_string())
}

#[test]
fn who_calls_is_never_an_argument() {
    let made =
        request(0, &json!({"claw_id": "root", "x": "a b&c", "deep": [1, {"a": null}], "no": null}));
    let url = "http://t:4000/api/v1/market_context/ana%2Flyst?deep=%5B1%2C%7B%22a%22%3Anull%7D%5D&x=a+b%26c";
    assert_eq!(made.unwrap(), ServiceRequest { method: "GET".into(), url: url.into(), body: None });
    let text = DESK.replace("/api/v1/market_context/{claw_id}", "/fixed?role=user&claw={claw_id}");
    let tool = describe(&text).unwrap().tools[0].of("t", "http://t:4000");
    let sly = json!({"role": "admin", "Claw": "root", "x": "1"}).as_object().cloned().unwrap();
    let made = ServiceRequest::new(&tool, sly, "ana").unwrap();
    assert_eq!(made.url, "http://t:4000/fixed?role=user&claw=ana&x=1");
    let made = request(1, &json!({"claw_id": "root", "symbol": "X"})).unwrap();
    assert_eq!(made.body.unwrap(), r#"{"order":{"symbol":"X"}}"#);
}

#[test]
fn arguments_stay_in_their_place_of_a_path() {
    let tool = |path: &str| {
        let text = DESK.replace("/api/v1/market_context/{claw_id}", path);
        describe(&text).unwrap().tools[0].of("t", "http://t:4000/base")
    };
    let made = |path: &str, arguments: Value| {
        let arguments = arguments.as_object().cloned().unwrap();
        let made = ServiceRequest::new(&tool(path), arguments, "me").map_err(|e| e.to_string())?;
        Ok::<String, String>(made.url.trim_start_matches("http://t:4000/base").to_owned())
    };
    let me = "?claw_id=me";
    for (value, shown) in [
        (json!("a/../b"), "/x/a%2F..%2Fb/y"),
        (json!("%2e%2e"), "/x/%252e%252e/y"),
        (json!("?q=1#f"), "/x/%3Fq%3D1%23f/y"),
        (json!("日"), "/x/%E6%97%A5/y"),
        (json!("\r\nX: y"), "/x/%0D%0AX%3A%20y/y"),
        (json!(7), "/x/7/y"),
        (json!(true), "/x/true/y"),
    ] {
        assert_eq!(made("/x/{a}/y", json!({"a": value})).unwrap(), format!("{shown}{me}"));
    }
    for value in [json!(".."), json!("."), json!(""), json!(null), json!([1]), json!({})] {
        assert!(made("/x/{a}/y", json!({"a": value})).is_err(), "{value}");
    }
    assert!(made("/x/{a}{b}", json!({"a": ".", "b": "."})).is_err());
    assert!(made("/x/{a}", json!({})).unwrap_err().contains("`a` is missing"));
    assert_eq!(
        made("/x?fixed=1&n={n}", json!({"n": "a&b"})).unwrap(),
        "/x?fixed=1&n=a%26b&claw_id=me"
    );
}

#[test]
fn a_server_is_begun_as_the_first_of_those_who_ask_it_over_mcp() {
    let bearer = |secret: &str| Credential::Bearer { secret: secret.to_owned() };
    let granted = |name: &str, transport, agents: &[&str]| {
        let tool = ManagedTool {
            service: "finder".to_owned(),
            name: name.to_owned(),
            description: String::new(),
            input_schema: json!({}),
            annotations: Map::new(),
            base_url: "http://finder:80".to_owned(),
            transport,
        };
        let agents = agents.iter().map(|agent| ((*agent).to_owned(), bearer(agent)));
        Granted { tool, callers: Callers::Only(agents.collect()) }
    };
    let (path, method) = ("/x".to_owned(), "GET".to_owned());
    let http = Transport::Http { method, path: path.clone(), body_key: None };
    let all =
        [granted("alpha", http, &["x"]), granted("search", Transport::Mcp { path }, &["a", "x"])];
    let list = credentials(&all, "finder");
    assert_eq!(list, [&bearer("a"), &bearer("x")]);
    let servers = servers(&all).unwrap();
    let McpReach::Url { headers: sent, .. } = &servers[0].reach else { panic!() };
    assert_eq!((servers.len(), Some(sent)), (1, headers(list[0]).as_ref()));
}

#[test]
fn a_service_of_a_pod_can_be_a_program() {
    let pod = |claw: &str| format!("services:\n  finder:\n    x-claw: {{{claw}}}\n");
    let read = |claw: &str, name: &str| {
        pod_server(Path::new("p/pod.yaml"), pod(claw).as_bytes(), name, "jail")
    };
    let server = read("mcp-stdio: {command: finder, args: [-v, '']}", "finder").unwrap();
    let McpReach::Program { command, args, env } = server.reach else { panic!() };
    assert_eq!((command.as_str(), args.len(), env.len()), ("finder", 2, 0));
    assert_eq!((server.name.as_str(), server.sandbox.as_str()), ("finder", "jail"));
    for (claw, name, says) in [
        ("mcp-stdio: {command: f}", "finde", "write `finder`"),
        ("surfaces: []", "finder", "which program"),
        ("mcp-stdio: {command: f x, arg: []}", "finder", "arg"),
        ("mcp-stdio: f x", "finder", "mcp-stdio"),
        ("mcp-stdio: {command: f}, cllama: x", "finder", "`cllama` beside `mcp-stdio`"),
    ] {
        let told = told(read(claw, name));
        assert!(told.contains(says), "{claw}: {told}");
        let compiled = told_of(&pod(claw));
        assert_eq!(
            compiled.contains("mcp-stdio"),
            told.contains("mcp-stdio") && !claw.contains("surfaces"),
            "{claw}: {compiled}"
        );
    }
}

#[test]
fn a_program_of_a_pod_has_the_variables_that_the_pod_states() {
    let read = |environment: &str| {
        let pod = format!(
            "services:\n  finder:\n    environment: {environment}\n    x-claw: {{mcp-stdio: {{command: f}}}}\n"
        );
        pod_server(Path::new("p/pod.yaml"), pod.as_bytes(), "finder", "jail")
    };
    let expected = [
        ("KEY", McpValue::Secret("FINDER_KEY".to_owned())),
        ("OWN", McpValue::Secret("OWN".to_owned())),
        ("PORT", McpValue::Literal("80".to_owned())),
    ];
    for environment in
        ["{KEY: '${FINDER_KEY}', OWN: null, PORT: 80}", "[KEY=$FINDER_KEY, OWN, PORT=80]"]
    {
        let server = read(environment).unwrap();
        assert_eq!(server.secrets().collect::<Vec<_>>(), ["FINDER_KEY", "OWN"]);
        let McpReach::Program { env, .. } = server.reach else { panic!() };
        let env: Vec<_> = env.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        assert_eq!(env, expected, "{environment}");
    }
    for (environment, says) in [
        ("{A: 'x${B}'}", "`A` has a `$`"),
        ("['A=${B:-c}']", "`A` has a `$`"),
        ("{a b: c}", "`a b` is no variable"),
    ] {
        let told = told(read(environment));
        assert!(told.contains(says), "{environment}: {told}");
    }
}

#[test]
fn a_program_of_a_pod_is_reached_by_its_tools_alone() {
    let pod =
        pod("tools: [trading-api]").replace("surfaces: [service://trading-api, ", "surfaces: [");
    assert!(told_of(&pod).contains("does not reach"), "a service is more than its tools");
    let program =
        pod.replace("x-claw: {describe-file", "x-claw: {mcp-stdio: {command: t}, describe-file");
    let agents = compiled(&program, &[]).unwrap();
    assert_eq!(agents[0].file.clone().unwrap().tools.len(), 2);
}

#[test]
fn who_reaches_a_service_or_has_tools_of_it_gets_its_skill() {
    let described = |skill: &str| DESK.replacen('{', &format!(r#"{{"skill": "{skill}", "#), 1);
    let (below, inside) = (described("docs/SKILL.md"), described("/app/SKILL.md"));
    let more = [("p/other.json", below.as_str()), ("p/docs/SKILL.md", "# When\n")];
    let reaches = pod("tools: []").replace("desk.json", "other.json");
    let agent = |pod: &str| compiled(pod, &more).unwrap().remove(0);
    let CompiledAgent { page, skills, .. } = agent(&reaches);
    assert_eq!(skills["trading-api"], "# When\n");
    assert!(page.ends_with("\n- `trading-api`: `skills/trading-api/SKILL.md`\n"), "{page}");
    let without = agent(&reaches.replace("service://trading-api, ", ""));
    assert!(without.skills.is_empty() && !without.page.contains("## Skills"), "{}", without.page);
    let program = pod("tools: [trading-api]")
        .replace("surfaces: [service://trading-api, ", "surfaces: [")
        .replace("describe-file: desk", "mcp-stdio: {command: t}, describe-file: other");
    assert_eq!(agent(&program).skills.len(), 1, "it has its tools");
    let gone = told(compiled(&reaches, &more[..1]));
    let says = "the skill `p/docs/SKILL.md` cannot be read: it does not exist";
    assert!(gone.contains("p/other.json:1:") && gone.contains(says), "{gone}");
    // What lies in an image is nobody's mistake, and nobody's skill.
    let compiled = compiled_pod(&reaches, &[("p/other.json", &inside)]).unwrap();
    let [note] = compiled.notes.as_slice() else { panic!("{:?}", compiled.notes) };
    let begins = "p/other.json:1: no agent gets the skill of `trading-api`: `/app/SKILL.md` is in";
    assert!(note.starts_with(begins), "{note}");
    assert!(compiled.agents[0].skills.is_empty(), "{compiled:?}");
}

#[test]
fn a_service_is_at_the_port_that_it_states() {
    let at = |service: &str| {
        let pod = pod("tools: [trading-api]").replace("image: t, expose: ['4000']", service);
        let agents = compiled(&pod, &[]).map_err(|errors| told::<()>(Err(errors)))?;
        Ok::<_, String>(agents[0].file.clone().unwrap().tools[0].0.base_url.clone())
    };
    for (service, port) in [
        ("image: t", "80"),
        ("expose: [4001/tcp]", "4001"),
        ("ports: ['127.0.0.1:80:4002-4003']", "4002"),
        ("ports: [{target: 4004}]", "4004"),
    ] {
        assert_eq!(at(service).unwrap(), format!("http://trading-api:{port}"), "{service}");
    }
    for wrong in ["expose: ['abc']", "expose: ['80x']", "ports: [{published: 1}]"] {
        let told = at(wrong).unwrap_err();
        assert!(told.contains("the port of `trading-api` is none"), "{wrong}: {told}");
        assert!(told.contains(":7:"), "where it stands: {told}");
    }
    let program = pod("tools: [trading-api]")
        .replace("image: t, expose: ['4000'], x-claw: {", "x-claw: {mcp-stdio: {command: t}, ");
    let agents = compiled(&program, &[]).unwrap();
    let file = agents[0].file.clone().unwrap();
    assert_eq!(file.tools[0].0.base_url, "http://trading-api:8080");
}

fn told_of(pod: &str) -> String {
    told(compiled(pod, &[]))
}
