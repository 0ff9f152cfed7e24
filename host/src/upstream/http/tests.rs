//! The client against real listeners on this machine.
//!
//! Private addresses are opened explicitly where a test needs an answer; a listener that must
//! stay untouched counts its connections.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use clawhost_core::egress::{EgressDenied, EgressRules, HostPattern, HostRules};
use clawhost_core::limits::{EGRESS_CONNECTIONS_MAX, EGRESS_CONNECTIONS_PER_CALL_MAX};
use http::{Request, Response};
use http_body::Body as _;
use http_body_util::{BodyExt as _, Empty, Full};
use rustls::RootCertStore;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::client::within;
use super::*;

/// Long enough for anything on this machine that is going to happen at all.
const PLENTY: Duration = Duration::from_secs(20);
/// Short enough to wait for.
const BRIEF: Duration = Duration::from_millis(60);

const HELLO: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";

/// A listener that counts connections and hands each to a script, after its request's head.
struct Server {
    address: SocketAddr,
    connections: Arc<AtomicUsize>,
    heads: Arc<Mutex<Vec<String>>>,
    served: tokio::sync::mpsc::UnboundedReceiver<()>,
}

impl Server {
    async fn start<F, S>(ip: &str, script: S) -> Self
    where
        S: Fn(TcpStream) -> F + Send + 'static,
        F: Future<Output = io::Result<()>> + Send + 'static,
    {
        let listener = TcpListener::bind((ip, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let heads = Arc::new(Mutex::new(Vec::new()));
        let (done, served) = tokio::sync::mpsc::unbounded_channel();
        let (counter, seen) = (Arc::clone(&connections), Arc::clone(&heads));
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                let head = read_head(&mut stream).await;
                seen.lock().unwrap().push(head);
                let (running, done) = (script(stream), done.clone());
                tokio::spawn(async move {
                    let _ended = running.await;
                    let _ = done.send(());
                });
            }
        });
        Self { address, connections, heads, served }
    }

    /// Answers every request with `bytes` and closes.
    async fn saying(bytes: &'static [u8]) -> Self {
        Self::start("127.0.0.1", move |mut stream| async move {
            stream.write_all(bytes).await?;
            stream.shutdown().await
        })
        .await
    }

    /// Answers with `bytes`, then says nothing more until the client is gone.
    async fn saying_then_silent(bytes: &'static [u8]) -> Self {
        Self::start("127.0.0.1", move |mut stream| async move {
            stream.write_all(bytes).await?;
            until_closed(&mut stream).await
        })
        .await
    }

    /// Answers with `first`, then `again` for ever.
    async fn endless(first: &'static [u8], again: &'static [u8]) -> Self {
        Self::start("127.0.0.1", move |mut stream| async move {
            stream.write_all(first).await?;
            loop {
                stream.write_all(again).await?;
            }
        })
        .await
    }

    fn hits(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    fn head(&self) -> String {
        self.heads.lock().unwrap().last().cloned().unwrap()
    }

    fn url(&self, host: &str) -> String {
        format!("http://{host}:{}/", self.address.port())
    }

    /// Waits until one connection's script has ended.
    async fn closed(&mut self) {
        within(Instant::now() + PLENTY, self.served.recv()).await.unwrap().unwrap();
    }
}

/// Every name leads to this machine.
#[derive(Debug)]
pub(crate) struct Here;

impl Resolver for Here {
    fn resolve(&self, _name: &str) -> Lookup {
        Box::pin(async { Ok(vec![IpAddr::V4(Ipv4Addr::LOCALHOST)]) })
    }
}

/// Reads a request: its head as it came, and a body as long as that says.
pub(crate) async fn read_request(stream: &mut (impl AsyncRead + Unpin)) -> (String, String) {
    let head = read_head(stream).await;
    let lower = head.to_ascii_lowercase();
    let length = lower.split("content-length: ").nth(1).and_then(|rest| rest.lines().next());
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    stream.read_exact(&mut body).await.unwrap();
    (head, String::from_utf8_lossy(&body).into_owned())
}

async fn read_head(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut head = Vec::new();
    // A TLS greeting (its first byte is 22) has no end that would be found here.
    while !head.ends_with(b"\r\n\r\n") && head.first() != Some(&22) {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    String::from_utf8_lossy(&head).into_owned()
}

async fn until_closed(stream: &mut TcpStream) -> io::Result<()> {
    while stream.read(&mut [0; 1024]).await? > 0 {}
    Ok(())
}

/// Answers with the next list each time, and the last one for ever; counts look-ups.
#[derive(Debug)]
struct Answers(Mutex<VecDeque<Vec<IpAddr>>>, AtomicUsize);

impl Answers {
    fn new(lists: &[&[&str]]) -> Arc<Self> {
        let parse = |list: &&[&str]| list.iter().map(|ip| ip.parse().unwrap()).collect();
        Arc::new(Self(Mutex::new(lists.iter().map(parse).collect()), AtomicUsize::new(0)))
    }
}

impl Resolver for Answers {
    fn resolve(&self, _name: &str) -> Lookup {
        self.1.fetch_add(1, Ordering::SeqCst);
        let mut lists = self.0.lock().unwrap();
        let list = if lists.len() > 1 { lists.pop_front() } else { lists.front().cloned() };
        Box::pin(async move { list.ok_or_else(|| io::ErrorKind::NotFound.into()) })
    }
}

fn client(answers: &[&[&str]]) -> HttpClient {
    HttpClient::new(Answers::new(answers), TrustedRoots::Mozilla)
}

/// Everything is allowed, as long as it is on the internet.
fn public(server: &Server) -> EgressRules {
    let ports = vec![server.address.port()];
    EgressRules { ports, ..EgressRules::of(HostRules::Any) }
}

fn private(server: &Server) -> EgressRules {
    EgressRules { block_private: false, ..public(server) }
}

fn checked(rules: EgressRules, url: &str) -> Result<CheckedRequest<Empty<Bytes>>, EgressDenied> {
    CheckedRequest::new(Arc::new(rules), Request::get(url).body(Empty::new()).unwrap())
}

async fn get_with(
    client: &HttpClient,
    rules: EgressRules,
    url: &str,
    limits: &RequestLimits,
) -> Result<Response<ResponseBody>, UpstreamError> {
    client.send(checked(rules, url)?, limits).await
}

async fn get(
    client: &HttpClient,
    rules: EgressRules,
    url: &str,
) -> Result<Response<ResponseBody>, UpstreamError> {
    get_with(client, rules, url, &plenty()).await
}

fn plenty() -> RequestLimits {
    RequestLimits::until(Instant::now() + PLENTY)
}

async fn text(response: Response<ResponseBody>) -> Result<String, UpstreamError> {
    let bytes = response.into_body().collect().await?.to_bytes();
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

/// Gets `server`'s root, head and body, under `limits`.
async fn outcome(server: &Server, limits: RequestLimits) -> Result<String, UpstreamError> {
    let client = client(&[&["127.0.0.1"]]);
    let response = get_with(&client, private(server), &server.url("a.test"), &limits).await?;
    text(response).await
}

#[tokio::test]
async fn an_allowed_request_is_answered_and_says_whom_it_asks() {
    let server = Server::saying(HELLO).await;
    let port = server.address.port();
    let url = format!("http://A.test:{port}/x/../y?q=1#frag");
    let response = get(&client(&[&["127.0.0.1"]]), private(&server), &url).await.unwrap();
    assert_eq!(text(response).await.unwrap(), "hello");
    assert_eq!(server.head(), format!("GET /y?q=1 HTTP/1.1\r\nhost: a.test:{port}\r\n\r\n"));
}

#[tokio::test]
async fn a_request_body_is_sent_whole() {
    let server = Server::start("127.0.0.1", |mut stream| async move {
        let mut body = [0; 4];
        stream.read_exact(&mut body).await?;
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n").await?;
        stream.write_all(&body).await
    })
    .await;
    let request =
        Request::post(server.url("127.0.0.1")).body(Full::new(Bytes::from("ping"))).unwrap();
    let request = CheckedRequest::new(Arc::new(private(&server)), request).unwrap();
    let limits = RequestLimits { sent_bytes_max: 4, ..plenty() };
    let response = client(&[]).send(request, &limits).await.unwrap();
    assert_eq!(text(response).await.unwrap(), "ping");
}

#[tokio::test]
async fn n18_a_request_body_over_its_bound_is_not_sent_on() {
    let mut server = Server::saying_then_silent(b"").await;
    let request =
        Request::post(server.url("127.0.0.1")).body(Full::new(Bytes::from("pings"))).unwrap();
    let request = CheckedRequest::new(Arc::new(private(&server)), request).unwrap();
    let limits = RequestLimits { sent_bytes_max: 4, ..plenty() };
    let failed = client(&[]).send(request, &limits).await;
    assert!(matches!(failed, Err(UpstreamError::RequestBody(_))), "{failed:?}");
    server.closed().await;
}

#[tokio::test]
async fn n20_a_refused_request_opens_no_connection() {
    let server = Server::saying(HELLO).await;
    let closed_port = EgressRules { ports: vec![1], ..private(&server) };
    let other = HostRules::Only(vec![HostPattern::parse("other.test").unwrap()]);
    let other_host = EgressRules { hosts: other, ..private(&server) };
    for (rules, host) in [
        (public(&server), "127.0.0.1"),
        (public(&server), "[::ffff:127.0.0.1]"),
        (public(&server), "localhost"),
        (closed_port, "127.0.0.1"),
        (other_host, "127.0.0.1"),
    ] {
        let refused = get(&client(&[]), rules, &server.url(host)).await.unwrap_err();
        assert!(matches!(refused, UpstreamError::Denied(_)), "{host}: {refused:?}");
    }
    assert_eq!(server.hits(), 0);
}

#[tokio::test]
async fn n11_a_name_with_a_private_address_opens_no_connection() {
    let server = Server::saying(HELLO).await;
    let answers: [&[&str]; 4] =
        [&["127.0.0.1"], &["8.8.8.8", "127.0.0.1"], &["::1"], &["8.8.8.8", "fd00::1"]];
    for list in answers {
        let refused =
            get(&client(&[list]), public(&server), &server.url("a.test")).await.unwrap_err();
        assert!(matches!(refused, UpstreamError::Denied(_)), "{list:?}: {refused:?}");
        assert_eq!(refused.to_string(), "the sandbox profile does not allow this request");
    }
    assert_eq!(server.hits(), 0);
}

#[tokio::test]
async fn n10_a_name_that_changes_its_address_is_judged_each_time_and_pinned() {
    let allowed = Server::saying(HELLO).await;
    let tripwire = TcpListener::bind(("127.0.0.2", allowed.address.port())).await.unwrap();
    let blocked = vec![HostPattern::parse("127.0.0.2").unwrap()];
    let rules = || EgressRules { blocked: blocked.clone(), ..private(&allowed) };
    let answers = Answers::new(&[&["127.0.0.1"], &["127.0.0.2"], &["127.0.0.1", "127.0.0.2"]]);
    let client = HttpClient::new(Arc::clone(&answers) as _, TrustedRoots::Mozilla);

    let first = get(&client, rules(), &allowed.url("rebind.test")).await.unwrap();
    assert_eq!(text(first).await.unwrap(), "hello");
    assert_eq!(answers.1.load(Ordering::SeqCst), 1, "one look-up a request");
    for _ in 0..2 {
        let later = get(&client, rules(), &allowed.url("rebind.test")).await;
        assert!(matches!(later, Err(UpstreamError::Denied(_))), "{later:?}");
    }
    assert_eq!(allowed.hits(), 1);
    let untouched = within(Instant::now(), tripwire.accept()).await;
    assert!(untouched.is_err(), "the blocked address was connected to");
}

#[tokio::test]
async fn an_address_that_refuses_does_not_hide_the_next() {
    let server = Server::saying(HELLO).await;
    let client = client(&[&["127.0.0.9", "127.0.0.1"]]);
    let response = get(&client, private(&server), &server.url("a.test")).await.unwrap();
    assert_eq!(text(response).await.unwrap(), "hello");
}

#[tokio::test]
async fn nobody_there_and_no_such_name_are_told_apart_from_a_refusal() {
    let server = Server::saying(HELLO).await;
    let failed = get(&client(&[&["127.0.0.9"]]), private(&server), &server.url("a.test")).await;
    assert!(matches!(failed, Err(UpstreamError::Connect(_))), "{failed:?}");
    let failed = get(&client(&[]), private(&server), &server.url("a.test")).await;
    assert!(matches!(failed, Err(UpstreamError::Lookup(_))), "{failed:?}");
    let failed = get(&client(&[&[]]), private(&server), &server.url("a.test")).await;
    assert!(matches!(failed, Err(UpstreamError::Lookup(_))), "{failed:?}");
}

#[tokio::test]
async fn n12_a_redirect_is_returned_and_not_followed() {
    let server =
        Server::saying(b"HTTP/1.1 302 Found\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n")
            .await;
    let response =
        get(&client(&[&["127.0.0.1"]]), private(&server), &server.url("a.test")).await.unwrap();
    assert_eq!(response.status(), 302);
    assert_eq!(response.headers()[http::header::LOCATION], "/again");
    assert_eq!(text(response).await.unwrap(), "");
    assert_eq!(server.hits(), 1);
}

#[tokio::test]
async fn n18_a_silent_server_ends_at_the_first_limit_that_binds() {
    let server = Server::saying_then_silent(b"HTTP/1.1 200 OK\r\nx:").await;
    let failed = outcome(&server, RequestLimits { first_byte: BRIEF, ..plenty() }).await;
    assert!(matches!(failed, Err(UpstreamError::ReadTimeout)), "{failed:?}");
    let failed =
        outcome(&server, RequestLimits { deadline: Instant::now() + BRIEF, ..plenty() }).await;
    assert!(matches!(failed, Err(UpstreamError::Deadline)), "{failed:?}");
    let server =
        Server::saying_then_silent(b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello").await;
    let failed = outcome(&server, RequestLimits { between_bytes: BRIEF, ..plenty() }).await;
    assert!(matches!(failed, Err(UpstreamError::ReadTimeout)), "{failed:?}");
}

#[tokio::test]
async fn n18_a_slow_drip_ends_at_the_deadline() {
    let mut server = Server::start("127.0.0.1", |mut stream| async move {
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
        let mut drip = tokio::time::interval(Duration::from_millis(1));
        loop {
            drip.tick().await;
            stream.write_all(b".").await?;
        }
    })
    .await;
    let deadline = Instant::now() + BRIEF;
    let failed = outcome(&server, RequestLimits { deadline, ..plenty() }).await;
    assert!(matches!(failed, Err(UpstreamError::Deadline)), "{failed:?}");
    server.closed().await;
}

#[tokio::test]
async fn n18_an_endless_body_is_cut_and_its_connection_closed() {
    let mut server = Server::endless(b"HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 8192]).await;
    let failed = outcome(&server, RequestLimits { body_bytes_max: 100_000, ..plenty() }).await;
    assert!(
        matches!(failed, Err(UpstreamError::BodyTooLarge { bytes_max: 100_000 })),
        "{failed:?}"
    );
    server.closed().await;
    let server = Server::saying(HELLO).await;
    assert_eq!(
        outcome(&server, RequestLimits { body_bytes_max: 5, ..plenty() }).await.unwrap(),
        "hello"
    );
}

#[tokio::test]
async fn an_abandoned_answer_closes_its_connection() {
    let mut server = Server::endless(b"HTTP/1.1 200 OK\r\n\r\n", &[b'x'; 8192]).await;
    let response = get(&client(&[]), private(&server), &server.url("127.0.0.1")).await.unwrap();
    drop(response);
    server.closed().await;
}

#[tokio::test]
async fn n18_endless_headers_are_cut() {
    let mut server = Server::endless(b"HTTP/1.1 200 OK\r\nx: ", &[b'x'; 8192]).await;
    let failed = outcome(&server, plenty()).await;
    assert!(matches!(failed, Err(UpstreamError::HeadersTooLarge)), "{failed:?}");
    server.closed().await;
    let mut server = Server::endless(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n").await;
    let failed = outcome(&server, plenty()).await;
    assert!(matches!(failed, Err(UpstreamError::HeadersTooLarge)), "{failed:?}");
    server.closed().await;
    let mut server =
        Server::endless(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n").await;
    let failed = outcome(&server, RequestLimits { first_byte: BRIEF, ..plenty() }).await;
    assert!(failed.is_err(), "{failed:?}");
    server.closed().await;
}

#[tokio::test]
async fn n19_what_is_not_one_plain_answer_is_an_error() {
    let answers: [&'static [u8]; 10] = [
        b"",
        b"hello, this is HTTP/0.9",
        b"HTTP/1.1 abc\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\ncontent-length: +5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhello\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhel",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ];
    for bytes in answers {
        let server = Server::saying(bytes).await;
        let failed = outcome(&server, plenty()).await;
        assert!(failed.is_err(), "{:?}: {failed:?}", String::from_utf8_lossy(bytes));
    }
}

#[tokio::test]
async fn n24_a_call_holds_no_more_connections_than_its_share() {
    let server = Server::saying_then_silent(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n").await;
    let host = client(&[]);
    let call = host.for_call();
    let url = server.url("127.0.0.1");
    let mut held = Vec::new();
    for _ in 0..EGRESS_CONNECTIONS_PER_CALL_MAX {
        held.push(get(&call, private(&server), &url).await.unwrap());
    }
    let hurried = RequestLimits { connect: BRIEF, ..plenty() };
    let refused = get_with(&call, private(&server), &url, &hurried).await;
    assert!(matches!(refused, Err(UpstreamError::ConnectionsBusy)), "{refused:?}");
    assert!(
        get(&host.for_call(), private(&server), &url).await.is_ok(),
        "another call has its own"
    );
    drop(held.pop());
    assert!(get(&call, private(&server), &url).await.is_ok(), "a closed one makes room");
}

#[tokio::test]
async fn an_answer_that_was_read_gives_its_connection_back_while_it_is_kept() {
    let server = Server::saying(HELLO).await;
    let client = client(&[]);
    let response = get(&client, private(&server), &server.url("127.0.0.1")).await.unwrap();
    let mut body = response.into_body();
    while body.frame().await.is_some() {}
    assert!(format!("{client:?}").contains(&EGRESS_CONNECTIONS_MAX.to_string()), "{client:?}");
    assert!(body.is_end_stream());
}

/// A TLS server with a certificate for `name` that is good until the year `until`, and that
/// certificate as the one trusted root.
async fn tls_server(name: &str, until: i32) -> (Server, RootCertStore) {
    let mut params = rcgen::CertificateParams::new([name.to_owned()]).unwrap();
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    let pair = rcgen::KeyPair::generate().unwrap();
    let cert = params.self_signed(&pair).unwrap();
    let (acceptor, roots) = tls(&cert, &pair);
    (serve_tls(acceptor).await, roots)
}

/// Returns what takes TLS connections under `cert`, and that as the one trusted root.
pub(crate) fn tls(
    cert: &rcgen::Certificate,
    pair: &rcgen::KeyPair,
) -> (tokio_rustls::TlsAcceptor, RootCertStore) {
    let key = rustls::pki_types::PrivateKeyDer::try_from(pair.serialize_der()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(cert.der().clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    (tokio_rustls::TlsAcceptor::from(Arc::new(config)), roots)
}

async fn serve_tls(acceptor: tokio_rustls::TlsAcceptor) -> Server {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&connections);
    let (done, served) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(mut stream) = acceptor.accept(stream).await {
                counter.fetch_add(1, Ordering::SeqCst);
                let _ = stream.write_all(HELLO).await;
                let _ = stream.shutdown().await;
            }
            let _ = done.send(());
        }
    });
    Server { address, connections, heads: Arc::default(), served }
}

async fn get_tls(
    server: &Server,
    host: &str,
    roots: TrustedRoots,
) -> Result<String, UpstreamError> {
    let client = HttpClient::new(Answers::new(&[&["127.0.0.1"]]), roots);
    let url = format!("https://{host}:{}/", server.address.port());
    text(get(&client, private(server), &url).await?).await
}

#[tokio::test]
async fn n21_a_certificate_must_be_trusted_and_name_the_host() {
    let (server, roots) = tls_server("good.test", 3000).await;
    let trusted = || TrustedRoots::Only(roots.clone());
    assert_eq!(get_tls(&server, "good.test", trusted()).await.unwrap(), "hello");
    assert_eq!(server.hits(), 1);
    for (host, roots) in [
        ("good.test", TrustedRoots::Mozilla),
        ("good.test", TrustedRoots::Only(RootCertStore::empty())),
        ("other.test", trusted()),
        ("127.0.0.1", trusted()),
    ] {
        let refused = get_tls(&server, host, roots).await;
        assert!(matches!(refused, Err(UpstreamError::TlsCertificate(_))), "{host}: {refused:?}");
    }
    assert_eq!(server.hits(), 1, "no handshake was completed");
    let (server, roots) = tls_server("old.test", 2020).await;
    let refused = get_tls(&server, "old.test", TrustedRoots::Only(roots)).await;
    assert!(matches!(refused, Err(UpstreamError::TlsCertificate(_))), "expired: {refused:?}");
}

#[tokio::test]
async fn n21_encryption_is_never_dropped() {
    let server = Server::saying(HELLO).await;
    let refused = get_tls(&server, "good.test", TrustedRoots::Mozilla).await;
    assert!(matches!(refused, Err(UpstreamError::Tls(_))), "{refused:?}");
}
