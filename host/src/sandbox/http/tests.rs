use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;

use clawhost_core::egress::{HostPattern, HostRules};
use clawhost_core::grants::{Grants, Injection, SecretGrant};
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING};
use http::{HeaderName, StatusCode};
use http_body_util::Full;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::*;
use crate::recording::End;
use crate::secrets::Secrets;
use crate::upstream::http::{Lookup, Resolver, TrustedRoots};

const PLENTY: Duration = Duration::from_secs(20);

/// Knows `here.test` only: this machine.
#[derive(Debug)]
struct Here;

impl Resolver for Here {
    fn resolve(&self, name: &str) -> Lookup {
        let found = (name == "here.test").then(|| vec![IpAddr::from([127, 0, 0, 1])]);
        Box::pin(async move { found.ok_or_else(|| std::io::ErrorKind::NotFound.into()) })
    }
}

/// Answers each connection with `answer` and, where that is empty, never.
async fn server(answer: &'static [u8]) -> SocketAddr {
    listening_server(answer).await.0
}

/// As [`server`], and hands on the heads of the requests.
async fn listening_server(answer: &'static [u8]) -> (SocketAddr, UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (heads, heard) = unbounded_channel();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = vec![0; 1024];
            let read = stream.read(&mut head).await.unwrap_or(0);
            let _ = heads.send(String::from_utf8_lossy(&head[..read]).into_owned());
            let _ = stream.write_all(answer).await;
            open.push(stream);
        }
    });
    (address, heard)
}

fn rules(hosts: &[&str], port: u16) -> EgressRules {
    let hosts = hosts.iter().map(|host| HostPattern::parse(host).unwrap()).collect();
    let ports = vec![port];
    EgressRules { block_private: false, ports, ..EgressRules::of(HostRules::Only(hosts)) }
}

fn ctx(rules: Option<EgressRules>) -> HttpCtx {
    let client = HttpClient::new(Arc::new(Here), TrustedRoots::Mozilla);
    HttpCtx::new(rules.map(Arc::new), &client, Instant::now() + PLENTY)
}

fn get(url: &str) -> Request<WasiBody> {
    let body = Full::new(Bytes::new()).map_err(|never| match never {}).boxed_unsync();
    Request::get(url).body(body).unwrap()
}

async fn send(ctx: &mut HttpCtx, request: Request<WasiBody>) -> Result<Response<WasiBody>, Error> {
    let sent = ctx.send_request(request, None, Box::new(ready(Ok(()))));
    Pin::from(sent).await.map(|(response, _)| response)
}

#[tokio::test]
async fn a_granted_host_is_reached() {
    let address = server(b"HTTP/1.1 201 Made\r\ncontent-length: 2\r\n\r\nok").await;
    let mut ctx = ctx(Some(rules(&["here.test"], address.port())));
    let url = format!("http://here.test:{}/", address.port());
    let response = send(&mut ctx, get(&url)).await.unwrap();
    assert_eq!(response.status(), 201);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ok");
    assert!(ctx.violations().is_empty());
}

#[tokio::test]
async fn without_a_grant_nothing_is_reached_and_the_attempt_is_recorded() {
    let mut ctx = ctx(None);
    let refused = send(&mut ctx, get("https://example.com/x")).await;
    assert!(matches!(refused, Err(Error::HttpRequestDenied)), "{refused:?}");
    let expected = "network: host not allowed: no network is granted: https://example.com/x";
    assert_eq!(ctx.violations(), [expected.to_owned().into()]);
}

#[tokio::test]
async fn a_private_address_is_prohibited_by_name_and_by_number() {
    let public = EgressRules { block_private: true, ..rules(&["here.test", "127.0.0.1"], 80) };
    let mut ctx = ctx(Some(public));
    for url in ["http://here.test/", "http://127.0.0.1/"] {
        let refused = send(&mut ctx, get(url)).await;
        assert!(matches!(refused, Err(Error::DestinationIpProhibited)), "{url}: {refused:?}");
    }
    let by_number: Violation = "network: address not allowed: 127.0.0.1".to_owned().into();
    let told = Some("network: address not allowed: here.test".to_owned());
    let by_name = Violation { told, ..by_number.clone() };
    assert_eq!(ctx.violations(), [by_name, by_number]);
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_no_violation() {
    let mut ctx = ctx(Some(rules(&["gone.test"], 80)));
    let failed = send(&mut ctx, get("http://gone.test/")).await;
    assert!(matches!(failed, Err(Error::DnsError { .. })), "{failed:?}");
    assert!(ctx.violations().is_empty());
}

#[tokio::test]
async fn an_exchange_that_breaks_off_is_noted_until_the_next_one_begins() {
    let whole = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let whole = server(whole).await.port();
    let broken = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nno number\r\n";
    let broken = server(broken).await.port();
    let mut rules = rules(&["here.test", "gone.test"], whole);
    rules.ports.push(broken);
    let mut ctx = ctx(Some(rules));
    for (host, port, breaks) in [
        ("here.test", whole, false),
        ("gone.test", whole, true),
        ("here.test", whole, false),
        ("here.test", broken, true),
        ("else.test", whole, false),
    ] {
        let answer = send(&mut ctx, get(&format!("http://{host}:{port}/"))).await;
        let read = match answer {
            Ok(answer) => answer.into_body().collect().await.map(drop),
            Err(error) => Err(error),
        };
        assert_eq!((read.is_err(), ctx.broke_off()), (breaks || host == "else.test", breaks));
    }
}

#[tokio::test]
async fn n24_a_call_sends_a_bounded_number_of_requests_and_its_record_stays_bounded() {
    let mut ctx = ctx(Some(rules(&["gone.test"], 80)));
    for _ in 0..EGRESS_REQUESTS_MAX {
        assert!(matches!(
            send(&mut ctx, get("http://gone.test/")).await,
            Err(Error::DnsError { .. })
        ));
    }
    for _ in 0..EGRESS_VIOLATIONS_MAX + 5 {
        let refused = send(&mut ctx, get("http://gone.test/")).await;
        assert!(matches!(refused, Err(Error::HttpRequestDenied)), "{refused:?}");
    }
    let violations = ctx.violations();
    assert_eq!(violations.len(), EGRESS_VIOLATIONS_MAX + 1);
    assert_eq!(violations.last().map(|last| last.text.as_str()), Some("and 5 more requests"));
}

#[tokio::test]
async fn n18_no_request_outlives_the_call() {
    let address = server(b"").await;
    let mut ctx = ctx(Some(rules(&["here.test"], address.port())));
    ctx.set_deadline(Instant::now() + Duration::from_millis(30));
    let forever = Some(Duration::MAX);
    let options = RequestOptions {
        connect_timeout: forever,
        first_byte_timeout: forever,
        between_bytes_timeout: forever,
    };
    let request = get(&format!("http://here.test:{}/", address.port()));
    let sent = ctx.send_request(request, Some(options), Box::new(ready(Ok(()))));
    let ended = Pin::from(sent).await.map(|_| ());
    assert!(matches!(ended, Err(Error::HttpResponseTimeout)), "{ended:?}");
}

#[test]
fn n15_headers_of_the_host_are_out_of_reach_of_a_guest() {
    let mut ctx = ctx(None);
    for name in ["host", "connection", "transfer-encoding", "te", "upgrade", "proxy-authorization"]
    {
        assert!(ctx.is_forbidden_header(&HeaderName::from_static(name)), "{name}");
    }
    assert!(!ctx.is_forbidden_header(&HeaderName::from_static("authorization")));
    assert!(!ctx.set_host_header());
}

/// The answer to a request that carries a secret, and the request as it was sent.
async fn with_a_secret(answer: &'static [u8]) -> (Result<Response<WasiBody>, Error>, String) {
    of_a_call_with_a_secret(answer, true).await
}

/// The answer to a request of a call that is granted a secret, and the request as it was sent.
async fn of_a_call_with_a_secret(
    answer: &'static [u8],
    carries: bool,
) -> (Result<Response<WasiBody>, Error>, String) {
    let (address, mut heard) = listening_server(answer).await;
    let secrets = Secrets::of_environment(|name| (name == "TOKEN").then(|| "s3cr3t-value".into()));
    let grant = SecretGrant {
        name: "TOKEN".to_owned(),
        env: "TOKEN".to_owned(),
        hosts: vec![HostPattern::parse("127.0.0.1").unwrap()],
        injection: Injection::HostBoundary,
    };
    let secrets = CallSecrets::open(&[grant], &secrets).unwrap();
    let placeholder = secrets.env().next().unwrap().1.to_owned();
    let rules = rules(&["127.0.0.1"], address.port());
    let mut ctx = ctx(Some(rules)).with_secrets(Some(Arc::new(secrets)));
    let mut request = get(&format!("http://{address}/"));
    if carries {
        request.headers_mut().insert("x-token", placeholder.parse().unwrap());
    }
    request.headers_mut().insert(RANGE, HeaderValue::from_static("bytes=0-5"));
    request.headers_mut().insert(IF_RANGE, HeaderValue::from_static("\"1\""));
    request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip, br"));
    let answer = send(&mut ctx, request).await;
    (answer, heard.recv().await.unwrap())
}

#[tokio::test]
async fn the_answer_to_a_secret_is_one_that_can_be_masked() {
    let plain =
        b"HTTP/1.1 200 OK\r\ncontent-encoding: identity\r\ncontent-length: 12\r\n\r\ns3cr3t-value";
    let (answer, sent) = with_a_secret(plain).await;
    assert_eq!(answer.unwrap().into_body().collect().await.unwrap().to_bytes(), "*".repeat(12));
    assert!(sent.contains("x-token: s3cr3t-value\r\n"), "{sent}");
    assert!(sent.contains("accept-encoding: identity\r\n") && !sent.contains("gzip"), "{sent}");

    for refused in [
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 1\r\n\r\nx".as_slice(),
        b"HTTP/1.1 200 OK\r\ncontent-encoding: identity, x\r\ncontent-length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\ncontent-encoding:\r\ncontent-encoding: BR\r\ncontent-length: 1\r\n\r\nx",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: gzip, chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
    ] {
        let (answer, _) = with_a_secret(refused).await;
        let code = answer.map(|_| "an answer");
        assert!(matches!(code, Err(Error::HttpResponseContentCoding(None))), "{code:?}");
    }
}

#[tokio::test]
async fn what_an_earlier_call_sent_is_masked_in_an_answer_to_one_that_sends_nothing() {
    let plain = b"HTTP/1.1 200 OK\r\nx: s3cr3t-value\r\ncontent-length: 12\r\n\r\ns3cr3t-value";
    let (answer, sent) = of_a_call_with_a_secret(plain, false).await;
    let answer = answer.unwrap();
    assert!(!sent.contains("x-token"), "{sent}");
    assert_eq!(answer.headers()["x"], "*".repeat(12));
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "*".repeat(12));
}

#[tokio::test]
async fn no_answer_gives_a_secret_in_pieces() {
    let part = b"HTTP/1.1 206 Partial Content\r\ncontent-range: bytes 0-5/12\r\ncontent-length: 6\r\n\r\ns3cr3t";
    let (answer, sent) = with_a_secret(part).await;
    assert!(!sent.contains("range"), "{sent}");
    let code = answer.map(|_| "an answer");
    assert!(matches!(code, Err(Error::HttpProtocolError)), "{code:?}");
}

#[tokio::test]
async fn an_answer_to_no_secret_may_be_compressed() {
    let answer = b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 1\r\n\r\nx";
    let (address, mut heard) = listening_server(answer).await;
    let mut ctx = ctx(Some(rules(&["127.0.0.1"], address.port())));
    let mut request = get(&format!("http://{address}/"));
    request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
    assert_eq!(send(&mut ctx, request).await.unwrap().headers()[CONTENT_ENCODING], "gzip");
    assert!(heard.recv().await.unwrap().contains("accept-encoding: gzip\r\n"));
}

/// Returns the answer's status, a header and the pieces of its body.
async fn told(answer: Response<WasiBody>) -> (StatusCode, Option<HeaderValue>, Vec<Bytes>) {
    let (status, header) = (answer.status(), answer.headers().get("x-own").cloned());
    let (mut body, mut pieces) = (answer.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        pieces.extend(frame.unwrap().into_data());
    }
    (status, header, pieces)
}

const CHUNKED: &[u8] = b"HTTP/1.1 201 Made\r\nx-own: \xff\r\ntransfer-encoding: chunked\r\n\r\n\
    8\r\nhunter2-\r\n7\r\nhunter2\r\n0\r\n\r\n";

#[tokio::test]
async fn an_answer_that_was_recorded_comes_again_piece_by_piece_with_nothing_granted() {
    let address = server(CHUNKED).await;
    let url = format!("http://here.test:{}/", address.port());
    let tape = Tape::keeping("t", &Grants::default(), Secrets::none());
    let mut live = ctx(Some(rules(&["here.test"], address.port()))).taped(tape.clone());
    let then = told(send(&mut live, get(&url)).await.unwrap()).await;
    assert_eq!((then.0.as_u16(), then.2.len()), (201, 2));
    let recording = serde_json::to_string(&tape.kept("sha256:0", End::default).unwrap().unwrap());
    let tape = Tape::playing(serde_json::from_str(&recording.unwrap()).unwrap());
    let mut played = ctx(None).taped(tape.clone());
    assert_eq!(tape.unasked(), 1);
    assert_eq!(told(send(&mut played, get(&url)).await.unwrap()).await, then);
    assert_eq!((tape.unasked(), tape.parted(), played.violations().len()), (0, None, 0));
    assert!(send(&mut played, get(&url)).await.is_err());
    assert!(tape.parted().unwrap().contains(&url));
}

#[tokio::test]
async fn a_request_that_failed_and_a_secret_in_pieces_leave_no_recording() {
    let secrets = Secrets::none();
    secrets.hide("token", "hunter2-hunter2").unwrap();
    let address = server(CHUNKED).await;
    for (host, why) in [("gone.test", "failed"), ("closed.test", "failed"), ("here.test", "secret")]
    {
        let tape = Tape::keeping("t", &Grants::default(), secrets.clone());
        let rules = rules(&["here.test", "gone.test"], address.port());
        let mut ctx = ctx(Some(rules)).taped(tape.clone());
        if let Ok(answer) = send(&mut ctx, get(&format!("http://{host}:{}/", address.port()))).await
        {
            told(answer).await;
        }
        let kept = tape.kept("sha256:0", End::default).unwrap();
        assert!(kept.unwrap_err().contains(why), "{host}");
    }
}
