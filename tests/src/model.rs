//! A language model's server that says what it is told to, and misbehaves on demand.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

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

async fn serve(mut stream: TcpStream, say: Say, asked: Arc<Mutex<Vec<Asked>>>) {
    let Some(request) = read(&mut stream).await else {
        return;
    };
    asked.lock().unwrap().push(request);
    // The client may be gone.
    let _ = answer(&mut stream, say).await;
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
        Say::Silence => while stream.read(&mut [0; 1024]).await? > 0 {},
        Say::HangUp => {}
        Say::Endless => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n").await?;
            loop {
                stream.write_all(&[b' '; 65_536]).await?;
            }
        }
    }
    stream.shutdown().await
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
    Some(Asked { head, body: serde_json::from_slice(&body).unwrap() })
}
