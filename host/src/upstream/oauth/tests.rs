//! Servers and issuers of this file, honest and not. A real issuer is in the tests of the program.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clawhost_core::exposed::Exposure;
use clawhost_core::manifest::{McpAuth, McpGrant};
use http::header::HeaderValue;
use parking_lot::Mutex as Shared;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use url::Url;

use super::*;
use crate::dialogue::Caller;
use crate::secrets::{SecretSources, Secrets};
use crate::state::{FolderEnv, SecretStore, StateDir};
use crate::upstream::http::tests::{Here, read_request};
use crate::upstream::http::{HttpClient, TrustedRoots};
use crate::upstream::mcp::{Endpoint, Server, ServerParts, ServerPlan};

const PATIENCE: Duration = Duration::from_secs(30);

/// What was asked: head in lower case but for its first line, and body.
#[derive(Debug, Clone)]
struct Asked {
    line: String,
    head: String,
    body: String,
}

/// Somebody who answers as a test says.
struct Fake {
    url: String,
    asked: Arc<Shared<Vec<Asked>>>,
}

impl Fake {
    /// Answers each request with what `answer` makes of it and of the address.
    async fn new(answer: impl Fn(&str, &Asked) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Shared::new(Vec::new()));
        let (log, answer, base) = (Arc::clone(&asked), Arc::new(answer), url.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (log, answer, base) = (Arc::clone(&log), Arc::clone(&answer), base.clone());
                tokio::spawn(async move {
                    let (head, body) = read_request(&mut stream).await;
                    let line = head.lines().next().unwrap().to_owned();
                    let request = Asked { line, head: head.to_lowercase(), body };
                    log.lock().push(request.clone());
                    let text = answer(&base, &request);
                    drop(stream.write_all(text.as_bytes()).await);
                    if text.is_empty() {
                        // Held until the other side goes.
                        drop(stream.read(&mut [0]).await);
                    }
                });
            }
        });
        Self { url, asked }
    }

    fn bodies(&self, line: &str) -> Vec<String> {
        let asked = self.asked.lock();
        asked.iter().filter(|one| one.line.starts_with(line)).map(|one| one.body.clone()).collect()
    }
}

fn http(status: &str, more: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\n{more}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
}

fn ok(body: &Value) -> String {
    http("200 OK", "", &body.to_string())
}

fn metadata(base: &str) -> Value {
    json!({
        "issuer": base,
        "authorization_endpoint": format!("{base}/authorize"),
        "token_endpoint": format!("{base}/token"),
        "registration_endpoint": format!("{base}/register"),
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    })
}

/// An issuer whose refresh tokens are good for one use, and that counts what it gives.
fn honest(base: &str, asked: &Asked, given: &AtomicUsize) -> String {
    if asked.line.starts_with("GET /.well-known/oauth-authorization-server ") {
        return ok(&metadata(base));
    }
    if asked.line.starts_with("POST /register ") {
        return http("201 Created", "", r#"{"client_id":"registered"}"#);
    }
    if !asked.line.starts_with("POST /token ") {
        return http("404 Not Found", "", "");
    }
    let last = given.load(Ordering::SeqCst);
    let is_refresh = asked.body.contains("grant_type=refresh_token");
    if is_refresh && !asked.body.contains(&format!("refresh_token=refresh-{last}&")) {
        return http(
            "400 Bad Request",
            "",
            r#"{"error":"invalid_grant","error_description":"hunter2"}"#,
        );
    }
    let next = given.fetch_add(1, Ordering::SeqCst) + 1;
    ok(
        &json!({"access_token": format!("access-{next}"), "token_type": "Bearer", "refresh_token": format!("refresh-{next}")}),
    )
}

async fn honest_issuer() -> (Fake, Arc<AtomicUsize>) {
    let given = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&given);
    (Fake::new(move |base, asked| honest(base, asked, &count)).await, given)
}

/// A server that takes tokens of `issuer` and says so, and answers who brings `token`.
async fn server(issuer: &str, token: &Arc<Shared<String>>) -> Fake {
    let (issuer, token) = (issuer.to_owned(), Arc::clone(token));
    Fake::new(move |base, asked| {
        if asked.line.starts_with("GET /.well-known/oauth-protected-resource/mcp ") {
            return ok(
                &json!({"resource": format!("{base}/mcp"), "authorization_servers": [issuer]}),
            );
        }
        if !asked.head.contains(&format!("authorization: bearer {}\r\n", token.lock())) {
            let place = format!("{base}/.well-known/oauth-protected-resource/mcp");
            let more = format!("WWW-Authenticate: Bearer resource_metadata=\"{place}\"\r\n");
            return http("401 Unauthorized", &more, "");
        }
        let message: Value = serde_json::from_str(&asked.body).unwrap();
        let result = match message["method"].as_str().unwrap() {
            "server/discover" => json!({"supportedVersions": ["2026-07-28"]}),
            "tools/list" => json!({"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}),
            _ if asked.body.contains("forbidden") => {
                let more =
                    "WWW-Authenticate: Bearer error=\"insufficient_scope\", scope=\"admin\"\r\n";
                return http("403 Forbidden", more, "");
            }
            _ => json!({"content": [{"type": "text", "text": "hello"}]}),
        };
        ok(&json!({"jsonrpc": "2.0", "id": message["id"], "result": result}))
    })
    .await
}

/// An honest issuer, a server that takes its tokens, and a host.
async fn honest_place() -> (Fake, Fake, Host) {
    let (issuer, _) = honest_issuer().await;
    let server = server(&issuer.url, &Arc::default()).await;
    let host = Host::new(&issuer.url);
    (issuer, server, host)
}

/// A state folder, its secrets, and what is written about an issuer.
struct Host {
    _folder: tempfile::TempDir,
    store: SecretStore,
    secrets: Secrets,
    client: HttpClient,
    auth: McpAuth,
}

impl Host {
    fn new(issuer: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let state = StateDir::open(Some(folder.path()), &FolderEnv::default()).unwrap();
        let store = SecretStore::new(&state);
        store.set("SECRET", "s&cret".to_owned().into()).unwrap();
        let sources = SecretSources { store: Some(store.clone()), ..SecretSources::default() };
        let secrets = Secrets::new(sources);
        let auth = McpAuth {
            issuer: issuer.to_owned(),
            grant: McpGrant::AuthorizationCode,
            client_id: Some("me".to_owned()),
            secret: None,
            scopes: vec!["read".to_owned()],
        };
        let client = HttpClient::new(Arc::new(Here), TrustedRoots::Mozilla);
        Self { _folder: folder, store, secrets, client, auth }
    }

    fn tokens(&self, server: &str) -> Arc<Tokens> {
        let (client, secrets) = (self.client.clone(), self.secrets.clone());
        let url = format!("{server}/mcp");
        Arc::new(Tokens::new("web", &url, &self.auth, &client, secrets).unwrap())
    }

    fn kept(&self) -> String {
        self.store.get("oauth.web").unwrap().map(|text| text.to_string()).unwrap_or_default()
    }
}

/// Opens `url` as a browser does that comes back with `query`; `{state}` in it is the one of the URL.
async fn come_back(url: &Url, query: &str) -> String {
    let of = |name: &str| url.query_pairs().find(|(key, _)| key == name).unwrap().1.into_owned();
    let back = Url::parse(&of("redirect_uri")).unwrap();
    assert_eq!((back.host_str(), back.path()), (Some("127.0.0.1"), "/callback"));
    let query = query.replace("{state}", &of("state"));
    fetch(back.port().unwrap(), &format!("/callback?{query}")).await
}

async fn fetch(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Logs in with a browser that comes back with each of these, one after the other.
async fn log_in(tokens: &Tokens, answers: Vec<String>) -> Result<Option<String>, String> {
    let (told, url) = tokio::sync::oneshot::channel();
    let browser = async {
        if let Ok(url) = url.await {
            for query in answers {
                come_back(&url, &query).await;
            }
        }
    };
    let show = |url: &Url| drop(told.send(url.clone()));
    let login = tokio::time::timeout(PATIENCE, tokens.login(show, None));
    tokio::join!(login, browser).0.expect("it ends")
}

/// What an honest browser brings.
fn answer(issuer: &Fake) -> String {
    format!("code=c-1&state={{state}}&iss={}", issuer.url.replace(':', "%3A").replace('/', "%2F"))
}

/// Returns the token in what would be sent.
fn sent(header: Result<HeaderValue, NoToken>) -> String {
    header.unwrap().to_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_person_logs_in_and_many_calls_share_one_refresh() {
    let (issuer, server, host) = honest_place().await;
    let tokens = host.tokens(&server.url);
    let nobody = tokens.header(None).await.unwrap_err();
    assert!(nobody.wants_login && nobody.reason.contains("clawhost secrets login web"));
    assert_eq!(log_in(&tokens, vec![answer(&issuer)]).await, Ok(None));
    let asked = issuer.bodies("POST /token")[0].clone();
    let resource = server.url.replace(':', "%3A").replace('/', "%2F");
    for part in [
        "grant_type=authorization_code",
        "code=c-1",
        "client_id=me",
        "code_verifier=",
        &format!("resource={resource}%2Fmcp&"),
    ] {
        assert!(asked.contains(part), "{part}: {asked}");
    }
    assert!(!host.secrets.redactor().text("access-1 refresh-1").contains("-1"));

    // Two hosts on one state folder, each with many calls.
    let (one, two) = (host.tokens(&server.url), host.tokens(&server.url));
    let first = one.header(None).await.unwrap();
    assert_eq!(sent(two.header(None).await), "Bearer access-1");
    let all = (0..40)
        .map(|n| if n % 2 == 0 { one.header(Some(&first)) } else { two.header(Some(&first)) });
    for header in futures_util::future::join_all(all).await {
        assert_eq!(sent(header), "Bearer access-2");
    }
    assert_eq!(issuer.bodies("POST /token").len(), 2);
    // What the issuer took back is not kept, and what it gave is, before it is used.
    assert!(host.kept().contains("refresh-2") && !host.kept().contains("refresh-1"));
    assert!(!host.secrets.redactor().text("access-2 refresh-2").contains("-2"));
    assert!(!format!("{one:?}").contains("access"));
}

#[tokio::test]
async fn an_issuer_that_is_away_ends_no_login_and_one_that_refuses_does() {
    let says: Arc<Shared<Option<String>>> = Arc::default();
    let (count, said) = (Arc::default(), Arc::clone(&says));
    let issuer = Fake::new(move |base, asked| {
        let answer = said.lock().clone().filter(|_| asked.line.starts_with("POST /token"));
        answer.unwrap_or_else(|| honest(base, asked, &count))
    });
    let issuer = issuer.await;
    let server = server(&issuer.url, &Arc::default()).await;
    let host = Host::new(&issuer.url);
    assert_eq!(log_in(&host.tokens(&server.url), vec![answer(&issuer)]).await, Ok(None));
    let refusal = json!({"error": "invalid_grant"}).to_string();
    for (status, body, wants_login) in [
        ("503 Service Unavailable", "", false),
        ("503 Service Unavailable", refusal.as_str(), false),
        ("429 Too Many Requests", r#"{"error":"slow_down"}"#, false),
        ("400 Bad Request", refusal.as_str(), true),
    ] {
        *says.lock() = Some(http(status, "", body));
        let tokens = host.tokens(&server.url);
        let first = HeaderValue::from_static("Bearer access-1");
        let none = tokens.header(Some(&first)).await.unwrap_err();
        let told = none.reason.contains("clawhost secrets login");
        assert_eq!((none.wants_login, told), (wants_login, wants_login), "{}", none.reason);
    }
    *says.lock() = None;
    let first = HeaderValue::from_static("Bearer access-1");
    assert_eq!(sent(host.tokens(&server.url).header(Some(&first)).await), "Bearer access-2");
}

#[tokio::test]
async fn an_answer_is_pasted_where_the_browser_is_on_another_machine() {
    let (issuer, server, host) = honest_place().await;
    let tokens = host.tokens(&server.url);
    let pasted = async |address: &str| {
        let (mut typed, input) = tokio::io::duplex(4_096);
        let (told, url) = tokio::sync::oneshot::channel();
        let person = async {
            let url: Url = url.await.unwrap();
            let of = |name: &str| url.query_pairs().find(|(key, _)| key == name).unwrap().1;
            let line = address.replace("{back}", &of("redirect_uri"));
            let line = format!(" {}\r\n", line.replace("{state}", &of("state")));
            typed.write_all(line.as_bytes()).await.unwrap();
        };
        let login = tokens.login(|url| drop(told.send(url.clone())), Some(Box::new(input)));
        tokio::join!(login, person).0
    };
    for wrong in ["", "http://127.0.0.1:1/callback?{q}", "{back}?code=c-1&state=other", "{back}"] {
        let refused = pasted(&wrong.replace("{q}", &answer(&issuer))).await.unwrap_err();
        assert!(refused.contains("no answer to this login"), "{wrong}: {refused}");
    }
    assert_eq!(host.kept(), "");
    assert_eq!(pasted(&format!("{{back}}?{}", answer(&issuer))).await, Ok(None));
    assert_eq!(sent(tokens.header(None).await), "Bearer access-1");
}

#[tokio::test]
async fn what_is_given_is_kept_though_nobody_waits_for_it() {
    let (issuer, server, host) = honest_place().await;
    let tokens = host.tokens(&server.url);
    log_in(&tokens, vec![answer(&issuer)]).await.unwrap();
    let first = tokens.header(None).await.unwrap();
    // Polled once, and dropped as a call that is cancelled.
    drop(tokio::time::timeout(Duration::ZERO, tokens.header(Some(&first))).await);
    let started = Instant::now();
    while !host.kept().contains("refresh-2") {
        assert!(started.elapsed() < PATIENCE);
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_refresh_that_is_refused_says_what_to_do_and_is_not_repeated_at_once() {
    let (issuer, given) = honest_issuer().await;
    let server = server(&issuer.url, &Arc::default()).await;
    let host = Host::new(&issuer.url);
    let tokens = host.tokens(&server.url);
    log_in(&tokens, vec![answer(&issuer)]).await.unwrap();
    let first = tokens.header(None).await.unwrap();
    given.store(7, Ordering::SeqCst);
    for _ in 0..3 {
        let refused = tokens.header(Some(&first)).await.unwrap_err().reason;
        assert!(
            refused.contains("invalid_grant") && refused.contains("secrets login web"),
            "{refused}"
        );
        assert!(!refused.contains("hunter2") && !refused.contains("refresh-1"), "{refused}");
    }
    assert_eq!(issuer.bodies("POST /token").len(), 2);
}

#[tokio::test]
async fn a_login_counts_for_its_issuer_its_client_and_its_address_only() {
    let (issuer, server, mut host) = honest_place().await;
    log_in(&host.tokens(&server.url), vec![answer(&issuer)]).await.unwrap();
    let refused =
        |tokens: Arc<Tokens>| async move { tokens.header(None).await.unwrap_err().reason };
    assert!(refused(host.tokens("http://127.0.0.1:1")).await.contains("something else"));
    host.auth.client_id = Some("other".to_owned());
    assert!(refused(host.tokens(&server.url)).await.contains("something else"));
    host.auth.client_id = Some("me".to_owned());
    assert_eq!(sent(host.tokens(&server.url).header(None).await), "Bearer access-1");
    host.auth.issuer = "http://127.0.0.1:1".to_owned();
    assert!(refused(host.tokens(&server.url)).await.contains("something else"));
    host.store.set("oauth.web", "hunter2".to_owned().into()).unwrap();
    assert!(!refused(host.tokens(&server.url)).await.contains("hunter2"));
}

#[tokio::test]
async fn only_the_answer_to_what_was_asked_ends_the_wait() {
    let (issuer, server, host) = honest_place().await;
    let tokens = host.tokens(&server.url);
    let noise = ["", "code=evil", "code=evil&state=guess", "state={state}&state={state}&code=evil"];
    let answers = noise.iter().map(|text| (*text).to_owned()).chain([answer(&issuer)]);
    log_in(&tokens, answers.collect()).await.unwrap();
    assert!(issuer.bodies("POST /token")[0].contains("code=c-1"));
    for (query, says) in [
        ("code=c&state={state}&iss=https%3A%2F%2Fevil.example", "is of https://evil.example"),
        ("code=c&state={state}", "is of nobody"),
        ("error=access_denied&state={state}&iss={iss}", "refuses: access_denied"),
    ] {
        let query = query.replace("{iss}", &issuer.url);
        let refused = log_in(&tokens, vec![query]).await.unwrap_err();
        assert!(refused.contains(says), "{refused}");
    }
    assert_eq!(issuer.bodies("POST /token").len(), 1);
}

#[tokio::test]
async fn a_client_registers_itself_only_where_the_operator_says_so() {
    let (issuer, server, mut host) = honest_place().await;
    log_in(&host.tokens(&server.url), vec![answer(&issuer)]).await.unwrap();
    assert!(issuer.bodies("POST /register").is_empty());
    host.auth.client_id = None;
    log_in(&host.tokens(&server.url), vec![answer(&issuer)]).await.unwrap();
    let client = issuer.bodies("POST /register")[0].clone();
    assert!(client.contains("/callback\"]") && client.contains("http://127.0.0.1:"), "{client}");
    assert!(issuer.bodies("POST /token")[1].contains("client_id=registered"));
    assert_eq!(sent(host.tokens(&server.url).header(None).await), "Bearer access-2");
}

#[tokio::test]
async fn a_machine_shows_its_secret_to_its_issuer_and_keeps_nothing() {
    let (issuer, server, mut host) = honest_place().await;
    host.auth.grant = McpGrant::ClientCredentials;
    host.auth.secret = Some("SECRET".to_owned());
    let tokens = host.tokens(&server.url);
    assert_eq!(sent(tokens.header(None).await), "Bearer access-1");
    let asked = issuer.asked.lock().iter().find(|one| one.line.starts_with("POST /token")).cloned();
    let asked = asked.unwrap();
    // `me:s%26cret`, as RFC 6749 has it.
    assert!(asked.head.contains("authorization: basic bwu6cyuynmnyzxq="), "{}", asked.head);
    assert!(asked.body.contains("scope=read") && !asked.body.contains("cret"), "{}", asked.body);
    assert_eq!(host.kept(), "");
    assert!(server.asked.lock().iter().all(|one| !one.head.contains("authorization: b")));
}

/// What one document or answer is instead; nothing where it is what it should be.
type Lie = fn(&str, &Asked) -> Option<String>;

fn of_issuer(base: &str, asked: &Asked, key: &str, value: &str) -> Option<String> {
    let mut said = metadata(base);
    said[key] = json!(value);
    asked.line.contains("oauth-authorization-server").then(|| ok(&said))
}

fn of_token(asked: &Asked, text: &str) -> Option<String> {
    asked.line.starts_with("POST /token").then(|| text.to_owned())
}

#[tokio::test]
async fn an_issuer_that_lies_gets_nothing_and_leads_nowhere() {
    const TYPE: &str = r#"{"access_token":"a","token_type":"DPoP"}"#;
    let lies: [(Lie, &str); 12] = [
        (|base, asked| of_issuer(base, asked, "issuer", "https://evil.example"), "calls itself"),
        (|base, asked| of_issuer(base, asked, "code_challenge_methods_supported", "S256"), "PKCE"),
        (
            |base, asked| of_issuer(base, asked, "token_endpoint", "http://169.254.169.254/"),
            "no safe",
        ),
        (|base, asked| of_issuer(base, asked, "token_endpoint", "http://127.0.0.1:1/t"), "no safe"),
        // Encrypted, and not public.
        (
            |base, asked| of_issuer(base, asked, "token_endpoint", "https://lan.test/t"),
            "not allowed",
        ),
        (
            |base, asked| of_issuer(base, asked, "token_endpoint", "https://127.0.0.1:1/t"),
            "not allowed",
        ),
        (|base, asked| of_issuer(base, asked, "x", &"x".repeat(70_000)), "longer than"),
        (
            |_, asked| {
                asked
                    .line
                    .contains(".well-known")
                    .then(|| http("302 Found", "Location: http://127.0.0.1:1/\r\n", ""))
            },
            "302",
        ),
        (
            |_, asked| asked.line.contains(".well-known").then(|| http("404 Not Found", "", "")),
            "nor is it an issuer",
        ),
        (|_, asked| of_token(asked, &http("200 OK", "", TYPE)), "another type"),
        (
            |_, asked| of_token(asked, &http("307 Moved", "Location: http://127.0.0.1:1/\r\n", "")),
            "status 307",
        ),
        (|_, asked| of_token(asked, &http("200 OK", "", &"x".repeat(70_000))), "longer than"),
    ];
    for (lie, says) in lies {
        let given = AtomicUsize::new(0);
        let answers = move |base: &str, asked: &Asked| {
            lie(base, asked).unwrap_or_else(|| honest(base, asked, &given))
        };
        let issuer = Fake::new(answers).await;
        let server = server(&issuer.url, &Arc::default()).await;
        let host = Host::new(&issuer.url);
        let error = log_in(&host.tokens(&server.url), vec![answer(&issuer)]).await.unwrap_err();
        assert!(error.contains(says), "{says}: {error}");
        assert_eq!(host.kept(), "");
    }
}

#[tokio::test]
async fn a_server_that_lies_chooses_no_issuer_and_leads_nowhere() {
    let lies: [(Lie, &str); 5] = [
        (
            |_, asked| {
                asked.line.starts_with("POST").then(|| http("401 No", "WWW-Authenticate: Bearer resource_metadata=\"http://169.254.169.254/\"\r\n", ""))
            },
            "elsewhere",
        ),
        (
            |_, asked| {
                asked.line.starts_with("POST").then(|| {
                    http(
                        "401 No",
                        "WWW-Authenticate: Bearer resource_metadata=\"file:///etc/passwd\"\r\n",
                        "",
                    )
                })
            },
            "elsewhere",
        ),
        (
            |base, _| {
                Some(ok(
                    &json!({"resource": format!("{base}/mcp"), "authorization_servers": ["https://evil.example"]}),
                ))
            },
            "takes tokens of https://evil.example",
        ),
        (|_, _| Some(ok(&json!({"resource": "https://evil.example"}))), "another one"),
        (
            |_, asked| {
                asked
                    .line
                    .starts_with("GET")
                    .then(|| http("301 Moved", "Location: http://127.0.0.1:1/\r\n", ""))
            },
            "301",
        ),
    ];
    let (issuer, _) = honest_issuer().await;
    for (lie, says) in lies {
        let refuse = || http("401 No", "", "");
        let server = Fake::new(move |base, asked| lie(base, asked).unwrap_or_else(refuse)).await;
        let host = Host::new(&issuer.url);
        let error = log_in(&host.tokens(&server.url), vec![answer(&issuer)]).await.unwrap_err();
        assert!(error.contains(says), "{says}: {error}");
    }
    assert!(issuer.bodies("POST /token").is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_issuer_that_says_nothing_is_not_waited_for() {
    let issuer = Fake::new(|_, _| String::new()).await;
    let host = Host::new(&issuer.url);
    let tokens = host.tokens("http://127.0.0.1:1");
    assert!(tokens.login(|_| panic!("nothing to show"), None).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn nobody_who_does_not_come_back_is_waited_for() {
    let (_issuer, server, host) = honest_place().await;
    // Time stands still while there is something to do, and else goes on: what needs the network may be
    // out of time too.
    let error = host.tokens(&server.url).login(|_| (), None).await.unwrap_err();
    assert!(!error.is_empty());
}

#[tokio::test]
async fn a_server_is_called_with_a_token_that_is_renewed_and_never_widened() {
    let (issuer, _) = honest_issuer().await;
    let token = Arc::new(Shared::new("access-1".to_owned()));
    let server = server(&issuer.url, &token).await;
    let host = Host::new(&issuer.url);
    log_in(&host.tokens(&server.url), vec![answer(&issuer)]).await.unwrap();
    let endpoint = Endpoint::Http {
        url: format!("{}/mcp", server.url),
        headers: Vec::new(),
        auth: Some(host.auth.clone()),
        within: None,
    };
    let plan = ServerPlan { name: "web".to_owned(), endpoint, expose: Exposure::default() };
    let parts = ServerParts { client: host.client.clone(), secrets: host.secrets.clone() };
    let mcp = Server::start(plan, parts);
    let call =
        |arguments: &'static str| mcp.call("echo", None, arguments, PATIENCE, Caller::default());
    assert!(!call("{}").await.unwrap().is_error);
    // The server forgets the token: the call that notices gets another and is sent again.
    "access-2".clone_into(&mut token.lock());
    assert!(!call("{}").await.unwrap().is_error);
    assert_eq!(issuer.bodies("POST /token").len(), 2);
    let forbidden = call(r#"{"x":"forbidden"}"#).await.unwrap();
    let why = forbidden.internal.unwrap();
    assert!(
        forbidden.is_error && why.contains("\"admin\"") && why.contains("`auth.scopes`"),
        "{why}"
    );
    // What it takes is nothing that its issuer gives: once more, and no further.
    "nothing".clone_into(&mut token.lock());
    for _ in 0..3 {
        let error = call("{}").await.unwrap_err();
        assert!(format!("{error:?}").contains("has just given"), "{error:?}");
    }
    assert_eq!(issuer.bodies("POST /token").len(), 3);
}

#[tokio::test]
async fn a_caller_hears_that_nobody_is_logged_in_and_no_more() {
    let (_issuer, server, host) = honest_place().await;
    let auth = Some(host.auth.clone());
    let endpoint =
        Endpoint::Http { url: server.url.clone(), headers: Vec::new(), auth, within: None };
    let plan = ServerPlan { name: "web".to_owned(), endpoint, expose: Exposure::default() };
    let parts = ServerParts { client: host.client.clone(), secrets: host.secrets.clone() };
    let mcp = Server::start(plan, parts);
    for _ in 0..2 {
        let error = mcp.call("echo", None, "{}", PATIENCE, Caller::default()).await.unwrap_err();
        let expected =
            "the operator has to log in to the MCP server `web`: `clawhost secrets login web`";
        assert_eq!(error.message, expected);
    }
}
