//! The two ways to a host: lines on standard input and output, and requests over HTTP.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use crate::cli::Folder;
use crate::wait::SOON;
use crate::{Cli, Client, Program, Served};

/// A way to a host.
pub trait Transport {
    /// Its name in vectors.
    fn name(&self) -> &'static str;

    /// Sends a message and returns its answer: the one with `id`, else whichever comes.
    ///
    /// # Errors
    /// There is none, or something else came.
    fn ask(&mut self, line: &str, id: Option<&str>, operator: bool) -> Result<Value, String>;

    /// Sends a message that must not be answered.
    ///
    /// # Errors
    /// It was.
    fn tell(&mut self, line: &str) -> Result<(), String>;

    /// Sends a request whose answer [`Transport::wait`] returns.
    ///
    /// # Errors
    /// It cannot be sent.
    fn send(&mut self, line: &str, id: &str) -> Result<(), String>;

    /// Returns the answer to a request that was sent before.
    ///
    /// # Errors
    /// There is none, or something else came.
    fn wait(&mut self, id: &str) -> Result<Value, String>;

    /// Ends the session, if one runs.
    fn finish(&mut self);

    /// Makes sure that no session has ever run.
    fn refresh(&mut self) {}
}

/// A host that this process started with pipes.
#[derive(Debug)]
pub struct Stdio {
    /// Who speaks with it.
    pub client: Client,
    command: Command,
    folder: Arc<Folder>,
    /// Answers to requests that were sent, which came before somebody waited for them.
    early: BTreeMap<String, Value>,
    sent: Vec<String>,
    finished: u64,
}

impl Stdio {
    /// Starts a host that serves `documents`.
    pub fn start(cli: &Cli, documents: &[String]) -> Self {
        let arguments: Vec<&str> =
            ["run", "--stdio"].into_iter().chain(documents.iter().map(String::as_str)).collect();
        Self::spawn(cli.command(&arguments), cli.folder())
    }

    fn spawn(mut command: Command, folder: Arc<Folder>) -> Self {
        let client = Client::new(Program::host(&mut command, Arc::clone(&folder)));
        let (early, sent) = (BTreeMap::new(), Vec::new());
        Self { client, command, folder, early, sent, finished: 0 }
    }

    fn say(&mut self, line: &str) {
        self.client.write(format!("{line}\n").as_bytes());
    }

    fn hear_answer(&mut self, id: Option<&str>) -> Result<Value, String> {
        loop {
            let message = self.client.try_hear()?;
            let own = message["id"].as_str();
            if id.is_some() && own == id {
                return Ok(message);
            }
            match own {
                Some(own) if self.sent.iter().any(|sent| sent == own) => {
                    self.early.insert(own.to_owned(), message);
                }
                _ if id.is_none() && message.get("id").is_some() => return Ok(message),
                _ => return Err(format!("something else came: {message}")),
            }
        }
    }
}

impl Transport for Stdio {
    fn name(&self) -> &'static str {
        "stdio"
    }

    fn ask(&mut self, line: &str, id: Option<&str>, _operator: bool) -> Result<Value, String> {
        self.say(line);
        self.hear_answer(id)
    }

    fn tell(&mut self, line: &str) -> Result<(), String> {
        // An answer would come before the next one's, and fail that.
        self.say(line);
        Ok(())
    }

    fn send(&mut self, line: &str, id: &str) -> Result<(), String> {
        self.sent.push(id.to_owned());
        self.say(line);
        Ok(())
    }

    fn wait(&mut self, id: &str) -> Result<Value, String> {
        let answer = match self.early.remove(id) {
            Some(answer) => answer,
            None => self.hear_answer(Some(id))?,
        };
        self.sent.retain(|sent| sent != id);
        Ok(answer)
    }

    fn finish(&mut self) {
        self.finished += 1;
        let id = format!("finish-{}", self.finished);
        let end = json!({"jsonrpc": "2.0", "id": id, "method": "claw.shutdown",
            "params": {"timeout_ms": 0}});
        self.say(&end.to_string());
        while self.client.try_hear().is_ok_and(|message| message["id"] != id) {}
        self.sent.clear();
        self.early.clear();
    }

    fn refresh(&mut self) {
        let fresh = Command::new(self.command.get_program());
        let command = std::mem::replace(&mut self.command, fresh);
        *self = Self::spawn(command, Arc::clone(&self.folder));
    }
}

/// A host that serves HTTP on a port of its own.
#[derive(Debug)]
pub struct Http {
    _served: Option<Served>,
    address: Address,
    session: Option<String>,
    waiting: BTreeMap<String, Receiver<Result<Value, String>>>,
}

#[derive(Debug, Clone)]
struct Address {
    authority: String,
    agent: String,
    operator: String,
}

impl Http {
    /// Starts a host that serves `documents`.
    pub fn start(cli: &Cli, documents: &[String]) -> Self {
        let documents: Vec<&str> = documents.iter().map(String::as_str).collect();
        let served = Served::start(cli, &documents);
        let address = Address {
            authority: served.authority.clone(),
            agent: served.token.clone().unwrap(),
            operator: served.operator.clone(),
        };
        Self { _served: Some(served), address, session: None, waiting: BTreeMap::new() }
    }

    /// Returns a way to the same host for the agent `name`.
    pub fn of_agent(&self, cli: &Cli, name: &str) -> Self {
        let credentials = std::fs::read(cli.state().join("credentials.json")).unwrap();
        let credentials: Value = serde_json::from_slice(&credentials).unwrap();
        let agent = credentials["agents"][name].as_str().unwrap().to_owned();
        let address = Address { agent, ..self.address.clone() };
        Self { _served: None, address, session: None, waiting: BTreeMap::new() }
    }

    /// Begins a session beside the transport's own, with these parameters; returns its id.
    pub fn begin(&self, params: &Value) -> String {
        let message =
            json!({"jsonrpc": "2.0", "id": "b", "method": "claw.initialize", "params": params});
        let (_, body, begun) =
            self.address.send("POST", &message.to_string(), false, None).unwrap();
        begun.unwrap_or_else(|| panic!("no session: {body}"))
    }

    /// Sends one request in a session and returns its result.
    pub fn call(&self, session: &str, method: &str, params: &Value) -> Value {
        let answer = self.answer(session, method, params);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    /// Sends one request in a session and returns its answer.
    pub fn answer(&self, session: &str, method: &str, params: &Value) -> Value {
        let message = json!({"jsonrpc": "2.0", "id": "c", "method": method, "params": params});
        let sent = self.address.send("POST", &message.to_string(), false, Some(session));
        message_of(&sent.unwrap().1).unwrap()
    }

    /// Sends a notification in a session.
    pub fn notify(&self, session: &str, method: &str, params: &Value) {
        let message = json!({"jsonrpc": "2.0", "method": method, "params": params});
        let sent = self.address.send("POST", &message.to_string(), false, Some(session)).unwrap();
        assert_eq!(sent.0, 202, "{}", sent.1);
    }

    /// Listens to what a session says unasked.
    pub fn listen(&self, session: &str) -> Listener {
        let mut stream = TcpStream::connect(&self.address.authority).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        let head = format!(
            "GET /claw HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {}\r\n\
             claw-session: {session}\r\naccept: text/event-stream\r\n\r\n",
            self.address.authority, self.address.agent
        );
        stream.write_all(head.as_bytes()).unwrap();
        Listener(BufReader::new(stream))
    }

    fn post(&self, line: &str, operator: bool) -> Result<(u16, String, Option<String>), String> {
        self.address.send("POST", line, operator, self.session.as_deref())
    }
}

impl Address {
    /// Sends one request; returns its status, its body, and the session it began.
    fn send(
        &self,
        method: &str,
        body: &str,
        operator: bool,
        session: Option<&str>,
    ) -> Result<(u16, String, Option<String>), String> {
        let token = if operator { &self.operator } else { &self.agent };
        let session = session.filter(|_| !operator);
        let session = session.map(|id| format!("claw-session: {id}\r\n")).unwrap_or_default();
        let mut stream = TcpStream::connect(&self.authority).map_err(|e| e.to_string())?;
        stream.set_read_timeout(Some(SOON)).unwrap();
        let head = format!(
            "{method} /claw HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-length: {}\r\n\
             content-type: application/json\r\nauthorization: Bearer {token}\r\n{session}\r\n",
            self.authority,
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).map_err(|e| e.to_string())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).map_err(|e| e.to_string())?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let begun = head.lines().find_map(|line| line.strip_prefix("claw-session: "));
        Ok((status, body.to_owned(), begun.map(str::to_owned)))
    }
}

/// What a session says unasked.
#[derive(Debug)]
pub struct Listener(BufReader<TcpStream>);

impl Listener {
    /// Returns the next notification.
    pub fn hear(&mut self) -> Value {
        loop {
            let mut line = String::new();
            assert!(self.0.read_line(&mut line).unwrap() > 0, "the stream has ended");
            if let Some(event) = line.strip_prefix("data: ") {
                return message_of(event).unwrap();
            }
        }
    }
}

fn message_of(body: &str) -> Result<Value, String> {
    serde_json::from_str(body).map_err(|error| format!("no JSON: {error}: {body}"))
}

impl Transport for Http {
    fn name(&self) -> &'static str {
        "http"
    }

    fn ask(&mut self, line: &str, _id: Option<&str>, operator: bool) -> Result<Value, String> {
        let (_, body, begun) = self.post(line, operator)?;
        self.session = begun.or_else(|| self.session.take());
        message_of(&body)
    }

    fn tell(&mut self, line: &str) -> Result<(), String> {
        match self.post(line, false)? {
            (202, body, _) if body.is_empty() => Ok(()),
            (status, body, _) => Err(format!("it was answered: {status} {body}")),
        }
    }

    fn send(&mut self, line: &str, id: &str) -> Result<(), String> {
        let (address, session, line) =
            (self.address.clone(), self.session.clone(), line.to_owned());
        let (sender, receiver) = channel();
        std::thread::spawn(move || {
            let sent = address.send("POST", &line, false, session.as_deref());
            let answer = sent.and_then(|(_, body, _)| message_of(&body));
            drop(sender.send(answer));
        });
        self.waiting.insert(id.to_owned(), receiver);
        Ok(())
    }

    fn wait(&mut self, id: &str) -> Result<Value, String> {
        let receiver = self.waiting.remove(id).ok_or("nothing was sent")?;
        receiver.recv_timeout(SOON).map_err(|_| "no answer in time")?
    }

    fn finish(&mut self) {
        if let Some(session) = self.session.take() {
            drop(self.address.send("DELETE", "", false, Some(&session)));
        }
        self.waiting.clear();
    }
}
