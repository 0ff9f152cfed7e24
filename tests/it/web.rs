//! `web_fetch` through the real component: what a profile does not grant is not reached.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::reply::ToolReply;
use clawhost_tests::{TestHost, wait};
use serde_json::json;

const HANGS: Duration = Duration::from_secs(20);

/// A server on this machine that counts its connections and answers all of them alike.
struct Tripwire {
    port: u16,
    connections: Arc<AtomicUsize>,
}

impl Tripwire {
    /// Answers with `answer`, or never where it is empty.
    fn answering(answer: impl Fn(u16) -> String + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let connections = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&connections);
        std::thread::spawn(move || {
            let mut open = Vec::new();
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                count.fetch_add(1, Ordering::SeqCst);
                let answer = answer(port);
                if answer.is_empty() {
                    open.push(stream);
                    continue;
                }
                drop(stream.read(&mut [0; 4096]));
                drop(stream.write_all(answer.as_bytes()));
            }
        });
        Self { port, connections }
    }

    fn plain() -> Self {
        Self::answering(|_| reply("200 OK", "", "here"))
    }

    fn hits(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn url(&self, host: &str) -> String {
        format!("http://{host}:{}/", self.port)
    }
}

fn reply(status: &str, headers: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\n{headers}connection: close\r\n\r\n{body}",
        body.len()
    )
}

async fn host_with(network: &str, ports: &str) -> TestHost {
    TestHost::builder()
        .only(&["web-fetch"])
        .limits("timeout_ms: 1500")
        .capabilities(network)
        .runtime_file(&format!("version: 1\nprofiles: {{sandbox-0: {{ports: [{ports}]}}}}"))
        .build()
        .await
}

async fn fetch(host: &TestHost, url: &str) -> Result<ToolReply, CallError> {
    wait::within(url, HANGS, host.call("web_fetch", json!({"url": url}))).await
}

fn refused(outcome: &Result<ToolReply, CallError>) -> bool {
    !matches!(outcome, Ok(reply) if !reply.is_error)
}

const OPEN: &str = "network: {mode: allow-all, ssrf_protection: {enabled: true, block_private_ips: true, dns_pinning: true}}";
const LOCAL: &str = "network: {mode: allowlist, allowed_hosts: [localhost, 127.0.0.1], ssrf_protection: {enabled: true, block_private_ips: false, dns_pinning: true}}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_spelling_of_a_private_address_is_reached() {
    let tripwire = Tripwire::plain();
    let host = host_with(OPEN, &tripwire.port.to_string()).await;
    for name in [
        "127.0.0.1",
        "127.1",
        "127.255.255.254",
        "localhost",
        "localhost.",
        "LOCALHOST",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "0x7f.1",
        "0.0.0.0",
        "0",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[2002:7f00:1::]",
        "１２７.０.０.１",
        "127。0。0。1",
        "10.0.0.1",
        "172.16.0.1",
        "192.168.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "224.0.0.1",
        "user@127.0.0.1",
        "example.com@127.0.0.1",
        "127.0.0.1%00.example.com",
    ] {
        let outcome = fetch(&host, &tripwire.url(name)).await;
        assert!(refused(&outcome), "{name}: {outcome:?}");
    }
    assert_eq!(tripwire.hits(), 0);
    host.check_audit();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_schemes_are_no_requests() {
    let host = host_with(OPEN, "80").await;
    for url in [
        "file:///etc/passwd",
        "ftp://example.com/",
        "gopher://127.0.0.1/",
        "data:,x",
        "//x",
        "",
        "http://",
        "http:/etc",
        "unix:/run/x",
        "javascript:1",
        "http://example.com\r\nx: y/",
    ] {
        let outcome = fetch(&host, url).await;
        assert!(refused(&outcome), "{url:?}: {outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_granted_host_answers_and_another_is_refused() {
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
async fn a_port_that_is_not_granted_is_not_reached() {
    let (granted, other) = (Tripwire::plain(), Tripwire::plain());
    let host = host_with(LOCAL, &granted.port.to_string()).await;
    let error = fetch(&host, &other.url("127.0.0.1")).await.unwrap_err();
    assert_eq!((error.kind, error.kind.code()), (ErrorKind::Sandbox, -32010));
    assert_eq!(other.hits(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redirect_to_what_is_not_granted_is_checked_like_any_request() {
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
async fn a_redirect_loop_ends() {
    let server = Tripwire::answering(|port| {
        reply("302 Found", &format!("location: http://127.0.0.1:{port}/\r\n"), "")
    });
    let host = host_with(LOCAL, &server.port.to_string()).await;
    drop(fetch(&host, &server.url("127.0.0.1")).await);
    assert!(server.hits() <= 7, "{} requests", server.hits());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_never_answers_ends_at_the_deadline() {
    let server = Tripwire::answering(|_| String::new());
    let host = host_with(LOCAL, &server.port.to_string()).await;
    let started = Instant::now();
    let error = fetch(&host, &server.url("127.0.0.1")).await.unwrap_err();
    assert_eq!((error.kind.code(), &error.data["limit"]), (-32014, &json!("timeout_ms")));
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    assert_eq!(server.hits(), 1);
}

#[tokio::test]
async fn without_a_network_grant_the_tool_is_not_served_at_all() {
    let host = TestHost::builder().only(&["web-fetch"]).build().await;
    assert_eq!(host.names(), Vec::<String>::new());
    let refused = host.refused();
    assert!(refused.contains("wasi:http") && refused.contains("sandbox-0"), "{refused}");
}
