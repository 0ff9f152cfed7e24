//! What one agent may have under way, and that what it gives back can be had again.

use clawhost_core::limits::{HTTP_REQUESTS_PER_AGENT_MAX, HTTP_URGENT_PER_AGENT_MAX};
use futures_util::future::select_all;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::{MCP, Server, call, modern_headers};

const STATUS: &str = r#"{"jsonrpc":"2.0","id":1,"method":"claw.status"}"#;

impl Server {
    async fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.authority).await.unwrap()
    }

    /// Returns a request of the default agent, of as many `bytes` as its body will have.
    fn head(&self, path: &str, bytes: usize, more: &[(&str, &str)]) -> String {
        let token = self.agent("default");
        let host = &self.authority;
        let head = format!("POST {path} HTTP/1.1\r\nhost: {host}\r\nauthorization: {token}\r\n");
        let lines = MCP.iter().chain(more).map(|(name, value)| format!("{name}: {value}\r\n"));
        format!("{head}{}content-length: {bytes}\r\n\r\n", lines.collect::<String>())
    }

    /// Opens as many connections as an agent may have requests.
    async fn connections(&self) -> Vec<TcpStream> {
        let mut all = Vec::new();
        for _ in 0..HTTP_REQUESTS_PER_AGENT_MAX {
            all.push(self.connect().await);
        }
        all
    }

    /// Connects without a token, and returns when the server has taken the connection.
    async fn let_in(&self) -> TcpStream {
        let mut stream = self.connect().await;
        let request = format!("HEAD / HTTP/1.1\r\nhost: {}\r\n\r\n", self.authority);
        stream.write_all(request.as_bytes()).await.unwrap();
        assert_eq!(status(&mut stream).await, "HTTP/1.1 200 OK\r\n");
        stream
    }

    /// Begins a call on each of these.
    async fn begin_calls(&self, connections: &mut [TcpStream]) {
        let call = call(1, "slow").to_string();
        let headers = modern_headers("tools/call", "slow");
        let request = self.head("/mcp", call.len(), &headers) + &call;
        for connection in connections {
            connection.write_all(request.as_bytes()).await.unwrap();
        }
    }
}

/// Returns the status line that comes first.
async fn status(stream: &mut TcpStream) -> String {
    let mut line = String::new();
    while !line.ends_with("\r\n") {
        line.push(char::from(stream.read_u8().await.unwrap()));
    }
    line
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_hangs_up_and_comes_again_finds_what_it_gave_back() {
    let server = Server::start(true).await;
    let mut last = Vec::new();
    for round in 1..=10 {
        let mut calls = server.connections().await;
        drop(last);
        server.begin_calls(&mut calls).await;
        let answered = select_all(calls.iter_mut().map(|call| Box::pin(status(call))));
        tokio::select! {
            () = server.host.started(round * HTTP_REQUESTS_PER_AGENT_MAX) => {}
            (line, ..) = answered => panic!("round {round}: {line}"),
        }
        last = calls;
    }
}

#[tokio::test]
async fn half_a_message_keeps_nothing_urgent_out() {
    let server = Server::start(true).await;
    let mut calls = server.connections().await;
    server.begin_calls(&mut calls).await;
    server.host.started(HTTP_REQUESTS_PER_AGENT_MAX).await;
    let (half, rest) = STATUS.split_at(20);
    let mut slow = Vec::new();
    for _ in 0..HTTP_URGENT_PER_AGENT_MAX {
        let mut stream = server.connect().await;
        let head = server.head("/claw", STATUS.len(), &[("expect", "100-continue")]);
        stream.write_all((head + half).as_bytes()).await.unwrap();
        // The server has begun to read what is sent.
        assert_eq!(status(&mut stream).await, "HTTP/1.1 100 Continue\r\n");
        slow.push(stream);
    }
    let mut quick = server.connect().await;
    let request = server.head("/claw", STATUS.len(), &[]) + STATUS;
    quick.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(status(&mut quick).await, "HTTP/1.1 200 OK\r\n");
    for mut slow in slow {
        slow.write_all(rest.as_bytes()).await.unwrap();
        assert_eq!(status(&mut slow).await, "\r\n");
        assert_eq!(status(&mut slow).await, "HTTP/1.1 200 OK\r\n");
    }
}

#[tokio::test]
async fn an_urgent_message_on_its_way_loses_its_place_after_strangers() {
    // More than an agent can fill, and few enough that strangers fill them all.
    let strangers = HTTP_REQUESTS_PER_AGENT_MAX / 4;
    let server = Server::with_places(HTTP_REQUESTS_PER_AGENT_MAX + 1 + strangers, true).await;
    let mut calls = server.connections().await;
    server.begin_calls(&mut calls).await;
    server.host.started(HTTP_REQUESTS_PER_AGENT_MAX).await;
    let mut urgent = server.connect().await;
    let mut silent = Vec::new();
    for _ in 1..strangers {
        silent.push(server.connect().await);
    }
    silent.push(server.let_in().await);
    let (half, rest) = STATUS.split_at(20);
    let head = server.head("/claw", STATUS.len(), &[("expect", "100-continue")]);
    urgent.write_all((head + half).as_bytes()).await.unwrap();
    assert_eq!(status(&mut urgent).await, "HTTP/1.1 100 Continue\r\n");
    // All places are taken: somebody gives up one to this.
    let _stranger = server.let_in().await;
    urgent.write_all(rest.as_bytes()).await.unwrap();
    assert_eq!(status(&mut urgent).await, "\r\n");
    assert_eq!(status(&mut urgent).await, "HTTP/1.1 200 OK\r\n");
}
