//! `web_fetch`, `http_get` and `web_search` through the real component: what is not granted is not
//! reached, whatever the address looks like and whoever redirects there.

use std::io::{Read as _, Write as _};
use std::sync::{Arc, Mutex};

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::reply::ToolReply;
use clawhost_tests::host::secrets;
use clawhost_tests::listening::listening;
use clawhost_tests::{Cli, TestHost, wait};
use serde_json::{Value, json};

use crate::cli::PROGRAM;

/// A server on this machine that keeps what it is asked, and answers every request alike.
pub(crate) struct Tripwire {
    pub(crate) port: u16,
    heads: Arc<Mutex<Vec<String>>>,
}

impl Tripwire {
    /// Answers with `answer`, or never where it is empty.
    pub(crate) fn answering(answer: impl Fn(u16) -> String + Send + 'static) -> Self {
        Self::answering_bytes(move |port| answer(port).into_bytes())
    }

    fn answering_bytes(answer: impl Fn(u16) -> Vec<u8> + Send + 'static) -> Self {
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (heard, mut open) = (Arc::clone(&heads), Vec::new());
        let port = listening(move |mut stream| {
            let (mut head, answer) = ([0; 4096], answer(stream.local_addr().unwrap().port()));
            // Who only connects is heard as well.
            heard.lock().unwrap().push(String::new());
            if answer.is_empty() {
                return open.push(stream);
            }
            let length = stream.read(&mut head).unwrap_or(0);
            let text = String::from_utf8_lossy(&head[..length]).into_owned();
            *heard.lock().unwrap().last_mut().unwrap() = text;
            drop(stream.write_all(&answer));
        });
        Self { port, heads }
    }

    pub(crate) fn plain() -> Self {
        Self::answering(|_| reply("200 OK", "", "here"))
    }

    pub(crate) fn hits(&self) -> usize {
        self.heads.lock().unwrap().len()
    }

    /// What it was asked last.
    fn head(&self) -> String {
        self.heads.lock().unwrap().last().cloned().unwrap_or_default()
    }

    pub(crate) fn url(&self, host: &str) -> String {
        format!("http://{host}:{}/", self.port)
    }
}

pub(crate) fn reply(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}connection: close\r\n\r\n{body}",
        body.len()
    )
}

async fn host_with(network: &str, ports: &str) -> TestHost {
    configured(network, ports, "{}").await
}

/// A host with the web tools, and with this as `tools` of its runtime file.
async fn configured(network: &str, ports: &str, tools: &str) -> TestHost {
    TestHost::builder()
        .only(&["web-fetch", "http-get", "web-search"])
        .secrets(secrets(&[("SEARCH_KEY", KEY)]))
        .limits("timeout_ms: 4000")
        .capabilities(network)
        .runtime_file(&format!(
            "version: 1\ntools: {tools}\nprofiles: {{sandbox-0: {{ports: [{ports}]}}}}"
        ))
        .build()
        .await
}

async fn fetch(host: &TestHost, url: &str) -> Result<ToolReply, CallError> {
    wait::within(url, host.call("web_fetch", json!({"url": url}))).await
}

/// The key of the search service.
const KEY: &str = "key-of-the-search-service";

fn refused(outcome: &Result<ToolReply, CallError>) -> bool {
    !matches!(outcome, Ok(reply) if !reply.is_error)
}

const OPEN: &str = "network: {mode: allow-all, ssrf_protection: {enabled: true, block_private_ips: true, dns_pinning: true}}";
pub(crate) const LOCAL: &str = "network: {mode: allowlist, allowed_hosts: [localhost, 127.0.0.1], ssrf_protection: {enabled: true, block_private_ips: false, dns_pinning: true}}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n1_to_n8_no_spelling_of_a_private_address_is_reached() {
    let tripwire = Tripwire::plain();
    let host = host_with(OPEN, &tripwire.port.to_string()).await;
    for name in [
        "127.0.0.1", "127.1", "127.255.255.254", "localhost", "localhost.", "LOCALHOST",
        "2130706433", "0x7f000001", "0177.0.0.1", "0x7f.1", "0.0.0.0", "0", "[::1]", "[::]",
        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
        "１２７.０.０.１", "127。0。0。1", "10.0.0.1", "172.16.0.1", "192.168.0.1",
        "169.254.169.254", "100.64.0.1", "224.0.0.1", "user@127.0.0.1", "example.com@127.0.0.1",
        "127.0.0.1%00.example.com",
    ] {
        let outcome = fetch(&host, &tripwire.url(name)).await;
        assert!(refused(&outcome), "{name}: {outcome:?}");
    }
    assert_eq!(tripwire.hits(), 0);
    host.check_audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n14_other_schemes_are_no_requests() {
    let host = host_with(OPEN, "80").await;
    for url in [
        "file:///etc/passwd", "ftp://example.com/", "gopher://127.0.0.1/", "data:,x", "//x", "",
        "http://", "http:/etc", "unix:/run/x", "javascript:1", "http://example.com\r\nx: y/",
    ] {
        let outcome = fetch(&host, url).await;
        assert!(refused(&outcome), "{url:?}: {outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n9_a_granted_host_answers_and_another_is_refused() {
    let server = Tripwire::plain();
    let host = host_with(LOCAL, &server.port.to_string()).await;
    let answer = fetch(&host, &server.url("127.0.0.1")).await.unwrap();
    let answer = answer.structured.unwrap();
    assert_eq!((&answer["status"], &answer["body"]), (&json!(200), &json!("here")));
    assert_eq!(server.hits(), 1);
    for foreign in ["127.0.0.2", "[::1]", "127.0.0.1.example", "example.com"] {
        assert!(refused(&fetch(&host, &server.url(foreign)).await), "{foreign}");
    }
    assert_eq!(server.hits(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n20_a_port_that_is_not_granted_is_not_reached() {
    let (granted, other) = (Tripwire::plain(), Tripwire::plain());
    let host = host_with(LOCAL, &granted.port.to_string()).await;
    let error = fetch(&host, &other.url("127.0.0.1")).await.unwrap_err();
    assert_eq!((error.kind, error.kind.code()), (ErrorKind::Sandbox, -32010));
    assert_eq!(other.hits(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n12_a_redirect_to_what_is_not_granted_is_checked_like_any_request() {
    let secret = Tripwire::plain();
    let location = secret.url("127.0.0.1");
    let server =
        Tripwire::answering(move |_| reply("302 Found", &format!("location: {location}\r\n"), ""));
    let host = host_with(LOCAL, &server.port.to_string()).await;
    let outcome = fetch(&host, &server.url("127.0.0.1")).await;
    assert!(refused(&outcome), "{outcome:?}");
    assert_eq!((server.hits(), secret.hits()), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n12_a_redirect_loop_ends() {
    let server = Tripwire::answering(|port| {
        reply("302 Found", &format!("location: http://127.0.0.1:{port}/\r\n"), "")
    });
    let host = host_with(LOCAL, &server.port.to_string()).await;
    drop(fetch(&host, &server.url("127.0.0.1")).await);
    assert!(server.hits() <= 7, "{} requests", server.hits());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n18_a_server_that_never_answers_ends_at_the_deadline() {
    let server = Tripwire::answering(|_| String::new());
    let host = host_with(LOCAL, &server.port.to_string()).await;
    let error = fetch(&host, &server.url("127.0.0.1")).await.unwrap_err();
    assert_eq!((error.kind.code(), &error.data["limit"]), (-32014, &json!("timeout_ms")));
    assert_eq!(server.hits(), 1);
}

#[tokio::test]
async fn n22_without_a_network_grant_the_tool_is_not_served_at_all() {
    let host = TestHost::builder().only(&["web-fetch"]).build().await;
    assert_eq!(host.names(), Vec::<String>::new());
    let refused = host.refused();
    assert!(refused.contains("wasi:http") && refused.contains("sandbox-0"), "{refused}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n12_a_redirect_away_from_the_web_or_into_a_private_network_is_refused() {
    let inside = Tripwire::plain();
    for location in [
        "file:///etc/passwd".to_owned(),
        "gopher://127.0.0.1/".to_owned(),
        "data:,x".to_owned(),
        "//169.254.169.254/".to_owned(),
        "http://[::1]/".to_owned(),
        inside.url("127.1"),
        inside.url("user@127.0.0.1"),
    ] {
        let server =
            Tripwire::answering(move |_| reply("307 X", &format!("location: {location}\r\n"), ""));
        let host = host_with(LOCAL, &server.port.to_string()).await;
        let outcome = fetch(&host, &server.url("127.0.0.1")).await;
        assert!(refused(&outcome), "{outcome:?}");
        assert_eq!(server.hits(), 1);
    }
    assert_eq!(inside.hits(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n13_what_was_meant_for_one_origin_does_not_go_to_another() {
    let other = Tripwire::plain();
    let location = other.url("127.0.0.1");
    let server =
        Tripwire::answering(move |_| reply("302 Found", &format!("location: {location}\r\n"), ""));
    let host = host_with(LOCAL, &format!("{}, {}", server.port, other.port)).await;
    let headers = json!({"Authorization": "Bearer secret", "Cookie": "a=secret", "X-Key": "secret",
        "Accept": "text/html"});
    let arguments = json!({"url": server.url("127.0.0.1"), "headers": headers});
    let answer = host.ask("web_fetch", arguments).await;
    assert_eq!(answer["url"], other.url("127.0.0.1"));
    assert!(server.head().contains("Bearer secret"), "{}", server.head());
    assert!(other.head().contains("text/html"), "{}", other.head());
    assert!(!other.head().contains("secret"), "{}", other.head());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_without_a_body_says_so_where_its_method_has_one() {
    let server = Tripwire::plain();
    let host = host_with(LOCAL, &server.port.to_string()).await;
    for (method, told) in [("POST", true), ("PUT", true), ("PATCH", true), ("GET", false)] {
        let arguments = json!({"url": server.url("127.0.0.1"), "method": method});
        assert_eq!(host.ask("web_fetch", arguments).await["status"], 200, "{method}");
        let head = server.head().to_ascii_lowercase();
        assert_eq!(head.matches("content-length: 0\r\n").count(), usize::from(told), "{head}");
        assert!(!head.contains("transfer-encoding"), "{head}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n15_a_guest_sets_no_header_of_the_host_and_splits_no_message() {
    let server = Tripwire::plain();
    let host = host_with(LOCAL, &server.port.to_string()).await;
    let url = server.url("127.0.0.1");
    for (method, name, value) in [
        ("GET", "Host", "evil.test"),
        ("GET", "Transfer-Encoding", "chunked"),
        ("GET", "Connection", "keep-alive"),
        ("GET", "Content-Length", "5\r\n\r\nGET / HTTP/1.1"),
        ("GET", "X", "a\r\nHost: evil"),
        ("GET", "X\r\nHost", "evil"),
        ("GET / HTTP/1.1\r\nX:", "X", "y"),
        ("CONNECT", "X", "y"),
    ] {
        let arguments = json!({"url": url, "method": method, "headers": {name: value}});
        let outcome = host.call("web_fetch", arguments).await;
        assert!(refused(&outcome), "{method:?} {name:?}: {outcome:?}");
    }
    assert_eq!(server.hits(), 0);
}

const WEB_CLAW: &str = "claw: \"0.3.0\"
kind: Claw
metadata: {name: web}
spec:
  identity: {inline: {personality: P., autonomy: autonomous}}
  providers: [{inline: {protocol: openai-compatible, endpoint: \"http://127.0.0.1:9/v1\", model: m, auth: {type: none}}}]
  sandbox: {inline: {level: wasm, capabilities: {network: {mode: allowlist, allowed_hosts: [127.0.0.1], ssrf_protection: {enabled: true, block_private_ips: false}}}}}
  tools: [{name: web-fetch}]
  policies: [{inline: {name: all, rules: [{id: all, action: allow, scope: all}]}}]
";

#[test]
fn n16_the_proxies_of_the_environment_are_not_asked() {
    let (server, proxy) = (Tripwire::plain(), Tripwire::plain());
    let cli = Cli::new(PROGRAM);
    let manifest = cli.write("claw.yaml", WEB_CLAW);
    let profile = format!("version: 1\nprofiles: {{sandbox-0: {{ports: [{}]}}}}", server.port);
    cli.write("clawhost.yaml", profile);
    let url = format!("url={}", server.url("127.0.0.1"));
    let mut command = cli.command(&["call", manifest.to_str().unwrap(), "web_fetch", &url]);
    for name in ["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"] {
        command.env(name, proxy.url("127.0.0.1"));
    }
    let run = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&run.stdout);
    assert!(stdout.contains("here"), "{stdout}{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!((server.hits(), proxy.hits()), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn n17_a_bomb_stays_as_small_as_it_was_sent() {
    // A thousand zero bytes each, as gzip would send them: nobody unpacks them.
    let server = Tripwire::answering_bytes(|_| {
        let bomb = [&b"\x1f\x8b\x08"[..], &[0; 50_000]].concat();
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
            bomb.len()
        );
        [head.as_bytes(), &bomb].concat()
    });
    let host = host_with(LOCAL, &server.port.to_string()).await;
    let reply = fetch(&host, &server.url("127.0.0.1")).await.unwrap();
    let shown = format!("{reply:?}");
    assert!(server.head().contains("accept-encoding: identity\r\n"), "{}", server.head());
    assert!(shown.len() < 200_000 && reply.cut_from_bytes.is_some(), "{}", shown.len());
    // A client takes it for an answer: it is one of the output schema still.
    assert!(!reply.is_error && reply.structured.unwrap()["status"] == 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http_get_reaches_what_its_settings_and_its_profile_both_open() {
    let server = Tripwire::plain();
    let get = async |tools: &str| {
        let host = configured(LOCAL, &server.port.to_string(), tools).await;
        let outcome = host.call("http_get", json!({"url": server.url("127.0.0.1")})).await;
        // The settings are about this tool and no other.
        assert!(!refused(&fetch(&host, &server.url("127.0.0.1")).await));
        outcome
    };
    let before = server.hits();
    for closed in [
        "{}",
        "{http_get: {block_private_ips: true}}",
        "{http_get: {block_private_ips: false, domain_allowlist: [localhost]}}",
        "{http_get: {block_private_ips: false, domain_blocklist: [127.0.0.1]}}",
    ] {
        let error = get(closed).await.unwrap_err();
        assert_eq!(error.kind.code(), -32010, "{closed}");
    }
    assert_eq!(server.hits() - before, 4, "only `web_fetch` came through");
    let answer = get("{http_get: {block_private_ips: false}}").await.unwrap();
    assert_eq!(answer.structured.unwrap()["body"], "here");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_without_a_service_is_an_error_and_never_empty() {
    let host = configured(OPEN, "443", "{}").await;
    let reply = host.call("web_search", json!({"query": "anything"})).await.unwrap();
    assert!(reply.is_error && reply.structured.is_none(), "{reply:?}");
    assert!(format!("{reply:?}").contains("tools.web_search.endpoint"), "{reply:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_asks_its_service_with_the_key_that_the_tool_never_has() {
    let found = json!({"web": {"results": [
        {"title": "T", "url": "https://a.test/", "description": "D", "key": KEY},
        {"title": "U", "url": "https://b.test/", "description": KEY}]}});
    let server = Tripwire::answering(move |_| reply("200 OK", "", &found.to_string()));
    let endpoint = server.url("127.0.0.1") + "search";
    let tools = format!("{{web_search: {{endpoint: \"{endpoint}\", secret: SEARCH_KEY}}}}");
    // The profile opens the web only: the service is the operator's word.
    let host = configured(OPEN, "443", &tools).await;
    let arguments = json!({"query": "a b&c", "num_results": 2});
    let answer = host.ask("web_search", arguments).await;
    let results = answer["results"].as_array().unwrap();
    assert_eq!(results[0], json!({"title": "T", "url": "https://a.test/", "description": "D"}));
    assert!(!answer.to_string().contains(KEY), "{answer}");
    let head = server.head();
    assert!(head.starts_with("GET /search?q=a%20b%26c&count=2 HTTP/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("x-subscription-token: {KEY}\r\n")), "{head}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_that_fails_says_so_and_follows_nobody() {
    let elsewhere = Tripwire::plain();
    let location = elsewhere.url("127.0.0.1");
    let answers = [
        ("401 Unauthorized", String::new(), "no", "401"),
        ("200 OK", String::new(), "<html>", "no JSON"),
        ("200 OK", String::new(), "{\"error\": \"quota\"}", "no list of results"),
        ("302 Found", format!("location: {location}\r\n"), "", "302"),
    ];
    for (status, headers, body, says) in answers {
        let server = Tripwire::answering(move |_| reply(status, &headers, body));
        let tools = format!("{{web_search: {{endpoint: \"{}\"}}}}", server.url("127.0.0.1"));
        let host = configured(OPEN, "443", &tools).await;
        let outcome: Value = match host.call("web_search", json!({"query": "q"})).await {
            Ok(reply) => json!({"is_error": reply.is_error, "shown": format!("{reply:?}")}),
            Err(error) => json!({"is_error": true, "shown": format!("{error:?}")}),
        };
        assert_eq!(outcome["is_error"], true, "{outcome}");
        assert!(outcome["shown"].as_str().unwrap().contains(says), "{says}: {outcome}");
    }
    assert_eq!(elsewhere.hits(), 0);
}
