//! A language model's server that says what it is told to, and misbehaves on demand.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

/// What the server does with one request.
#[derive(Debug, Clone)]
pub enum Say {
    /// Answers 200 with this JSON.
    Json(Value),
    /// Answers with this status, these header lines (each with its line end) and a body that no
    /// caller may see.
    Status(u16, &'static str),
    /// Answers with these bytes and closes.
    Bytes(&'static [u8]),
    /// Answers with a stream of these events.
    Events(Vec<String>),
    /// The same, and breaks off.
    Cut(Vec<String>),
    /// The same, and says no more, nor that it is all, until the client is gone.
    Open(Vec<String>),
    /// Says what follows when it is told to.
    When(Arc<Notify>, Box<Self>),
    /// Answers with the vector of each text of `input`; 400 where one text has none.
    Embed(fn(&str) -> Option<Vec<f32>>),
    /// Says nothing until the client is gone.
    Silence,
    /// Closes at once.
    HangUp,
    /// Answers 200, and never stops.
    Endless,
}

/// What stands in every body of a refusal: it must not reach a caller.
pub const UNSPEAKABLE: &str = "what-the-provider-said";

/// One request as it came.
#[derive(Debug, Clone)]
pub struct Asked {
    /// The request line and the headers.
    pub head: String,
    /// The body.
    pub body: Value,
    /// The same, as it came.
    pub text: String,
}

/// A server on this machine. It ends with its test.
#[derive(Debug)]
pub struct Model {
    port: u16,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Model {
    /// Does with each request what `says` says for it; the last one again and again.
    pub async fn saying(says: impl IntoIterator<Item = Say>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let mut says: VecDeque<Say> = says.into_iter().collect();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let say = if says.len() > 1 { says.pop_front() } else { says.front().cloned() };
                let say = say.unwrap_or(Say::HangUp);
                tokio::spawn(serve(stream, say, Arc::clone(&seen)));
            }
        });
        Self { port, asked }
    }

    /// Returns the URL of the server, with `path` after it.
    pub fn endpoint(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Returns the requests that came, oldest first.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }
}

/// Returns a completion as OpenAI's protocol has it.
pub fn completion(text: &str, prompt_tokens: u64, completion_tokens: u64) -> Value {
    json!({
        "object": "chat.completion",
        "choices": [{
            "index": 0,
            "message": { "role": "assistant", "content": text },
            "finish_reason": "stop",
        }],
        "usage": { "prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens },
    })
}

/// Returns an answer in the protocol of that path that says `text` and makes these calls, their ids numbered
/// from `id`. Arguments that are a text are written as they are, where the protocol has them in a text.
pub fn answer_of(path: &str, text: &str, calls: &[(&str, Value)], id: &str) -> Value {
    let ids = || (0..).map(|number| format!("{id}{number}"));
    if path == RESPONSES_PATH {
        let part = json!({ "type": "output_text", "text": text, "annotations": [] });
        let said = json!({
            "type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part],
        });
        let made = calls.iter().zip(ids()).map(|((name, arguments), id)| {
            let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
            json!({
                "type": "function_call", "id": format!("fc_{id}"), "call_id": id, "name": name,
                "arguments": arguments, "status": "completed",
            })
        });
        let said = (!text.is_empty()).then_some(said);
        let output: Vec<Value> = said.into_iter().chain(made).collect();
        return json!({
            "id": "resp_1", "object": "response", "created_at": 1, "model": "none", "status": "completed",
            "output": output, "tools": [], "tool_choice": "auto", "parallel_tool_calls": true,
            "error": null, "incomplete_details": null, "instructions": null, "metadata": {},
            "usage": {
                "input_tokens": 10, "input_tokens_details": { "cached_tokens": 0 },
                "output_tokens": 3, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 13,
            },
        });
    }
    if path == ANTHROPIC_PATH {
        let said = (!text.is_empty()).then(|| json!({ "type": "text", "text": text }));
        let made = calls.iter().zip(ids()).map(|((name, input), id)| {
            json!({ "type": "tool_use", "id": id, "name": name, "input": input })
        });
        let content: Vec<Value> = said.into_iter().chain(made).collect();
        let stop = if calls.is_empty() { "end_turn" } else { "tool_use" };
        return json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "none",
            "content": content, "stop_reason": stop, "stop_sequence": null,
            "usage": { "input_tokens": 10, "output_tokens": 3 },
        });
    }
    let made: Vec<Value> = calls.iter().zip(ids()).map(|((name, arguments), id)| {
        let arguments = arguments.as_str().map_or_else(|| arguments.to_string(), str::to_owned);
        json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
    }).collect();
    let mut answer = completion(text, 10, 3);
    for (key, value) in
        [("id", json!("chatcmpl-1")), ("created", json!(1)), ("model", json!("none"))]
    {
        answer[key] = value;
    }
    answer["usage"]["total_tokens"] = 13.into();
    if !made.is_empty() {
        answer["choices"][0]["message"]["tool_calls"] = made.into();
        answer["choices"][0]["finish_reason"] = "tool_calls".into();
        if text.is_empty() {
            answer["choices"][0]["message"]["content"] = Value::Null;
        }
    }
    answer
}

/// Where Anthropic's protocol is served.
pub const ANTHROPIC_PATH: &str = "/v1/messages";
/// Where OpenAI's Responses are served.
pub const RESPONSES_PATH: &str = "/v1/responses";

async fn serve(mut stream: TcpStream, say: Say, asked: Arc<Mutex<Vec<Asked>>>) {
    let Some(request) = read(&mut stream).await else {
        return;
    };
    asked.lock().unwrap().push(request.clone());
    // The client may be gone.
    let _ = answer(&mut stream, said(say, &request)).await;
}

/// Returns what an answer that depends on its request comes to. The last vector comes first, as servers
/// are free to.
fn said(say: Say, request: &Asked) -> Say {
    let Say::Embed(vector) = say else { return say };
    let texts: Vec<&str> = request.body["input"]
        .as_array()
        .unwrap()
        .iter()
        .map(|text| text.as_str().unwrap())
        .collect();
    let item = |(index, text): (usize, &&str)| {
        Some(json!({ "object": "embedding", "index": index, "embedding": vector(text)? }))
    };
    let data: Option<Vec<Value>> = texts.iter().enumerate().rev().map(item).collect();
    data.map_or(Say::Status(400, ""), |data| {
        let tokens = texts.len();
        Say::Json(
            json!({ "data": data, "usage": { "prompt_tokens": tokens, "total_tokens": tokens } }),
        )
    })
}

async fn answer(stream: &mut TcpStream, say: Say) -> std::io::Result<()> {
    match say {
        Say::Json(value) => {
            stream.write_all(response(200, "", &value.to_string()).as_bytes()).await?;
        }
        Say::Status(status, headers) => {
            let body = format!("{{\"error\":\"{UNSPEAKABLE}\"}}");
            stream.write_all(response(status, headers, &body).as_bytes()).await?;
        }
        Say::Bytes(bytes) => stream.write_all(bytes).await?,
        Say::Events(events) => {
            stream.write_all(events_of(&events).as_bytes()).await?;
            stream.write_all(b"0\r\n\r\n").await?;
        }
        Say::Cut(events) => stream.write_all(events_of(&events).as_bytes()).await?,
        Say::Open(events) => {
            stream.write_all(events_of(&events).as_bytes()).await?;
            return Box::pin(answer(stream, Say::Silence)).await;
        }
        Say::When(told, then) => {
            told.notified().await;
            return Box::pin(answer(stream, *then)).await;
        }
        Say::Silence => while stream.read(&mut [0; 1024]).await? > 0 {},
        Say::Embed(_) | Say::HangUp => {}
        Say::Endless => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await?;
            loop {
                stream.write_all(&[b' '; 65_536]).await?;
            }
        }
    }
    stream.shutdown().await
}

/// Returns the head of a stream, and each event as a chunk of it.
fn events_of(events: &[String]) -> String {
    let chunks = events.iter().map(|event| format!("{:x}\r\n{event}\r\n", event.len()));
    let head = "HTTP/1.1 200 -\r\ncontent-type: text/event-stream\r\nx-request-id: r1\r\ntransfer-encoding: chunked\r\n\r\n";
    std::iter::once(head.to_owned()).chain(chunks).collect()
}

fn response(status: u16, headers: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} -\r\ncontent-length: {}\r\n{headers}\r\n{body}", body.len())
}

async fn read(stream: &mut TcpStream) -> Option<Asked> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
    let length = head.split("content-length: ").nth(1)?.lines().next()?.parse().ok()?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    let text = String::from_utf8(body).unwrap();
    Some(Asked { head, body: serde_json::from_str(&text).unwrap_or_default(), text })
}
