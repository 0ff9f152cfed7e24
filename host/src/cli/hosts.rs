//! The hosts that run on a state folder, asked over their control sockets.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clawhost_core::error::exit;
use clawhost_core::limits::{CONTROL_ANSWER_BYTES_MAX, CONTROL_ANSWER_MS};
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::fail::Fail;
use crate::lines::first_line;
use crate::state::connect_all;

/// The hosts that run on one state folder, each with the path of its socket.
pub(super) struct Hosts(Vec<(PathBuf, UnixStream)>);

impl Hosts {
    /// Connects to those that run on the state folder.
    pub(super) async fn connect(folder: &Path) -> Result<Self, Fail> {
        match Self::running(folder).await? {
            Some(hosts) => Ok(hosts),
            None => Err(Fail::Other {
                code: exit::UPSTREAM,
                reason: format!("no host runs on the state folder {}", folder.display()),
                hint: Some("start one with `clawhost run`, or name its --state DIR".to_owned()),
            }),
        }
    }

    /// Connects to those that run on the state folder, if any does.
    pub(super) async fn running(folder: &Path) -> Result<Option<Self>, Fail> {
        let found = connect_all(folder).await.map_err(|error| {
            let text = format!("the hosts in {} cannot be reached: {error}", folder.display());
            Fail::new(exit::UPSTREAM, text)
        })?;
        if found.is_empty() {
            return Ok(None);
        }
        let mut hosts = Vec::new();
        for (path, stream) in found {
            match stream {
                Ok(stream) => hosts.push((path, stream)),
                Err(error) => left_out(&path, &error),
            }
        }
        Ok(Some(Self(hosts)))
    }

    /// Asks all hosts at once and goes on without those that are silent.
    ///
    /// # Errors
    /// What a host says against it, or that none answers.
    pub(super) async fn ask(
        &mut self,
        method: &str,
        parameters: &Value,
    ) -> Result<Vec<Value>, Fail> {
        let hosts = std::mem::take(&mut self.0);
        let asked = hosts.into_iter().map(|(path, mut stream)| async move {
            (exchange(&mut stream, method, parameters).await, path, stream)
        });
        let mut answers = Vec::new();
        for (answer, path, stream) in join_all(asked).await {
            match answer {
                Ok(answer) => {
                    answers.push(answer);
                    self.0.push((path, stream));
                }
                Err(error) => left_out(&path, &error),
            }
        }
        if answers.is_empty() {
            return Err(Fail::new(exit::UPSTREAM, "no host answers"));
        }
        answers.into_iter().map(result).collect()
    }

    /// Puts the lists of all hosts together, each entry once: hosts share timed leases.
    pub(super) async fn gather(
        &mut self,
        method: &str,
        parameters: &Value,
        key: &str,
    ) -> Result<Vec<Value>, Fail> {
        let mut all: Vec<Value> = Vec::new();
        for mut result in self.ask(method, parameters).await? {
            let list = result.get_mut(key).and_then(Value::as_array_mut).map(std::mem::take);
            for one in list.into_iter().flatten() {
                if !all.contains(&one) {
                    all.push(one);
                }
            }
        }
        Ok(all)
    }
}

/// One host that hangs keeps nobody from the others, but what it has to say is missing.
fn left_out(socket: &Path, error: &io::Error) {
    let socket = socket.display();
    eprintln!("warning: the host at {socket} is left out: {error}");
}

async fn exchange(host: &mut UnixStream, method: &str, parameters: &Value) -> io::Result<Value> {
    let line = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": parameters});
    let exchange = async {
        host.write_all(format!("{line}\n").as_bytes()).await?;
        first_line(BufReader::new(&mut *host), CONTROL_ANSWER_BYTES_MAX).await
    };
    let answer = timeout(Duration::from_millis(CONTROL_ANSWER_MS), exchange).await;
    let answer = answer.map_err(|_| io::Error::other("it does not answer"))??;
    clawhost_core::json::parse(&answer).map_err(io::Error::other)
}

fn result(mut answer: Value) -> Result<Value, Fail> {
    match answer.get_mut("result") {
        Some(result) => Ok(result.take()),
        None => Err(refused(&answer)),
    }
}

fn refused(answer: &Value) -> Fail {
    let reason = answer.pointer("/error/message").and_then(Value::as_str);
    let code = match answer.pointer("/error/code").and_then(Value::as_i64) {
        Some(-32602) => exit::USAGE,
        _ => exit::UPSTREAM,
    };
    Fail::new(code, reason.unwrap_or("the host gives neither a result nor an error"))
}
