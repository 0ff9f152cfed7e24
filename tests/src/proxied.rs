//! A host that serves completions, with models behind it and tools of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use clawhost::catalog::Annotations;
use clawhost::proxy::ProxyOptions;
use clawhost::serve::{BoundServer, HttpOptions, serve_http};
use clawhost::state::{Credentials, FolderEnv, StateDir};
use clawhost::{Tool, ToolError, async_trait};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_util::sync::CancellationToken;

use crate::host::secrets;
use crate::leaks::Known;
use crate::model::{ANTHROPIC_PATH, RESPONSES_PATH, Say};
use crate::wait::within;
use crate::{Model, TestHost, native};

/// Where OpenAI's protocol is served.
pub const OPENAI_PATH: &str = "/v1/chat/completions";
/// The key of both providers: it has to show nowhere.
pub const PROVIDER_KEY: &str = "key-of-the-provider-5678";
/// Calls of `wait_long` that have begun, and that have ended, in this process.
pub static WAITS: (AtomicUsize, AtomicUsize) = (AtomicUsize::new(0), AtomicUsize::new(0));

/// Reads; changes nothing.
struct Lookup;

#[async_trait]
impl Tool for Lookup {
    fn name(&self) -> &str {
        "lookup"
    }

    fn description(&self) -> &str {
        "Looks a word up."
    }

    fn parameters(&self) -> Value {
        json!({ "type": "object", "required": ["word"], "properties": {
            "word": { "type": "string" }, "page": { "type": "integer", "minimum": 1 },
        } })
    }

    fn annotations(&self) -> Annotations {
        Annotations { read_only: Some(true), ..Annotations::default() }
    }

    async fn execute(&self, arguments: Value) -> Result<Value, ToolError> {
        match arguments["word"].as_str() {
            Some("missing") => Err(ToolError::NotFound("there is no such word".to_owned())),
            Some("key") => Ok(json!({ "found": PROVIDER_KEY })),
            Some("long") => Ok(json!({ "found": "ä".repeat(20_000) })),
            _ => Ok(json!({ "found": arguments["word"] })),
        }
    }
}

struct Ends;

impl Drop for Ends {
    fn drop(&mut self) {
        WAITS.1.fetch_add(1, Ordering::SeqCst);
    }
}

/// Never ends by itself.
fn wait() -> impl Tool {
    native("wait_long", async || {
        let _ends = Ends;
        WAITS.0.fetch_add(1, Ordering::SeqCst);
        std::future::pending().await
    })
}

/// A host that serves completions over HTTP, for the agents `ada` and `bob`.
#[derive(Debug)]
pub struct Proxied {
    /// The host.
    pub host: TestHost,
    /// The model behind it; `main` and `spare` are of OpenAI's protocol, `claude` is of Anthropic's.
    pub model: Model,
    credentials: Arc<Credentials>,
    server: BoundServer,
    /// The state folder, with the history.
    pub state: TempDir,
    told: CancellationToken,
}

/// What a client got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Got {
    /// The status.
    pub status: u16,
    /// The header lines, in lower case.
    pub head: String,
    /// The body, without chunks.
    pub body: String,
}

impl Got {
    /// Returns the body as JSON.
    ///
    /// # Panics
    /// Where it is none.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

impl Proxied {
    /// Returns a host whose policy is `rules`, its model saying `says`.
    pub async fn new(rules: &str, says: Vec<Say>) -> Self {
        Self::with(rules, says, "", ProxyOptions::default()).await
    }

    /// Returns a host whose agents may call every tool.
    pub async fn open(says: Vec<Say>) -> Self {
        Self::new(ALL, says).await
    }

    /// Returns one whose providers say `more`, within YAML's flow style.
    ///
    /// # Panics
    /// Where it cannot be made.
    pub async fn with(rules: &str, says: Vec<Say>, more: &str, options: ProxyOptions) -> Self {
        let model = Model::saying(says).await;
        let end =
            format!("model: none, {more} auth: {{type: bearer, secret_ref: PROVIDER_KEY}}}}\n");
        let inline = |protocol: &str, name: &str, endpoint: &str| {
            format!("    - inline: {{protocol: {protocol}, name: {name}, endpoint: \"{endpoint}\"")
        };
        let openai = model.endpoint("/v1");
        let spare = inline("openai-compatible", "spare", &openai);
        let claude = inline("anthropic-native", "claude", &model.endpoint(""));
        let first = format!(
            "name: main, endpoint: \"{openai}\", retry: {{max_attempts: 1}}, fallback: [{{provider_ref: claude}}, {{provider_ref: spare}}], {end}"
        );
        let second = format!("{spare}, retry: {{max_attempts: 1}}, {end}");
        let third = format!("{claude}, retry: {{max_attempts: 1}}");
        let secrets = secrets(&[("PROVIDER_KEY", PROVIDER_KEY)]);
        secrets.learn(["PROVIDER_KEY"]);
        // The helper ends each provider itself.
        let provider = format!("{first}{second}{third}");
        let host = TestHost::builder().provider(&provider).rules(rules).secrets(secrets).only(&[]);
        let host = host.extend(|host| host.tool(Lookup).tool(wait())).build().await;
        let state = tempfile::tempdir().unwrap();
        let history = Some(state.path().join("proxy"));
        Self::serve(host, model, state, ProxyOptions { history, ..options }).await
    }

    async fn serve(host: TestHost, model: Model, state: TempDir, proxy: ProxyOptions) -> Self {
        let folder = StateDir::open(Some(state.path()), &FolderEnv::default()).unwrap();
        let agents = ["ada".to_owned(), "bob".to_owned()];
        let credentials = Arc::new(Credentials::open(&folder, &agents).unwrap());
        let told = CancellationToken::new();
        let mut options = HttpOptions::new("127.0.0.1:0".parse().unwrap());
        options.proxy = Some(proxy);
        let (own, shutdown) = (Arc::clone(&credentials), told.clone().into());
        let server = serve_http(host.host().clone(), own, options, shutdown).await.unwrap();
        Self { host, model, credentials, server, state, told }
    }

    /// Stops serving, so that all that is written down is on disk.
    ///
    /// # Panics
    /// Where it does not stop.
    pub async fn stop(&mut self) {
        self.told.cancel();
        (&mut self.server.task).await.unwrap();
    }

    /// Returns the lines of the history of `agent`.
    ///
    /// # Panics
    /// Where there is none.
    pub fn history(&self, agent: &str) -> Vec<Value> {
        let file = self.state.path().join("proxy").join(agent).join("history.jsonl");
        let text = std::fs::read_to_string(file).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// Returns the address, as `host:port`.
    pub fn authority(&self) -> String {
        self.server.local_addr.to_string()
    }

    /// Returns the token of an agent.
    ///
    /// # Panics
    /// Where there is no such agent.
    pub fn token(&self, agent: &str) -> &str {
        self.credentials.agent(agent).unwrap().reveal()
    }

    /// Returns the operator's credential.
    pub fn operator(&self) -> &str {
        self.credentials.operator().reveal()
    }

    /// Sends `body` as `ada` and returns the answer.
    pub async fn post(&self, path: &str, body: &str) -> Got {
        let token = format!("authorization: Bearer {}", self.token("ada"));
        self.send(path, &[&token], body).await
    }

    /// Sends `body` with these header lines and returns the answer.
    pub async fn send(&self, path: &str, headers: &[&str], body: &str) -> Got {
        let stream = self.begin(path, headers, body).await;
        finish(stream, String::new()).await
    }

    /// Sends `body`, or asks for what is there, and returns the connection.
    ///
    /// # Panics
    /// Where there is none.
    pub async fn begin(&self, path: &str, headers: &[&str], body: &str) -> TcpStream {
        let method = if body.is_empty() { "GET" } else { "POST" };
        self.begin_as(method, path, headers, body).await
    }

    /// As [`Proxied::begin`], with a method.
    ///
    /// # Panics
    /// Where there is no connection.
    pub async fn begin_as(
        &self,
        method: &str,
        path: &str,
        headers: &[&str],
        body: &str,
    ) -> TcpStream {
        let authority = self.authority();
        let mut stream = TcpStream::connect(&authority).await.unwrap();
        let lines: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {authority}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n{lines}\r\n{body}",
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }
}

impl Drop for Proxied {
    /// Nothing that was written down holds a token.
    fn drop(&mut self) {
        let mut known = Known::of(self.state.path());
        known.add("PROVIDER_KEY", PROVIDER_KEY);
        known.check_files(self.state.path(), &[]);
        known.check_files(self.host.folder(), &[]);
    }
}

/// A policy that allows everything.
pub const ALL: &str = "- {id: allow, action: allow, scope: all}";

/// Reads on until `mark` has come, and returns all that was read.
///
/// # Panics
/// Where it does not come.
pub async fn until(stream: &mut TcpStream, mark: &str) -> String {
    let mut read = Vec::new();
    let reading = async {
        while !String::from_utf8_lossy(&read).contains(mark) {
            let byte = stream.read_u8().await;
            read.push(byte.unwrap_or_else(|_| {
                panic!("{mark:?} is not in {}", String::from_utf8_lossy(&read))
            }));
        }
    };
    within(mark, reading).await;
    String::from_utf8_lossy(&read).into_owned()
}

/// Reads an answer to its end, of which `read` was read before.
///
/// # Panics
/// Where it does not end.
pub async fn finish(mut stream: TcpStream, read: String) -> Got {
    let mut rest = Vec::new();
    within("the end of an answer", stream.read_to_end(&mut rest)).await.unwrap();
    let answer = read + &String::from_utf8(rest).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer:?}"));
    let head = head.to_ascii_lowercase();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    let is_chunked = head.contains("transfer-encoding: chunked");
    let body = if is_chunked { unchunked(body) } else { body.to_owned() };
    Got { status, head, body }
}

fn unchunked(mut body: &str) -> String {
    let mut whole = String::new();
    while let Some((size, rest)) = body.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        whole.push_str(&rest[..size]);
        body = rest[size..].trim_start_matches("\r\n");
    }
    whole
}

/// Returns a request of that path for `text`, to the provider of the path's protocol by its name, with the
/// runner's own tool `own`.
pub fn request(path: &str, text: &str) -> Value {
    let message = json!({ "role": "user", "content": text });
    let schema = json!({ "type": "object" });
    match path {
        ANTHROPIC_PATH => json!({
            "model": "claude", "max_tokens": 100, "messages": [message],
            "tools": [{ "name": "own", "description": "Own.", "input_schema": schema }],
        }),
        RESPONSES_PATH => json!({
            "model": "main", "input": text,
            "tools": [{ "type": "function", "name": "own", "parameters": schema, "strict": false }],
        }),
        _ => json!({
            "model": "main", "messages": [message],
            "tools": [{ "type": "function", "function": { "name": "own", "parameters": schema } }],
        }),
    }
}
