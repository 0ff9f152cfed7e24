//! A client that speaks MCP with a program on its standard input and output.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::wait::SOON;
use crate::{Cli, Program};

/// A client that stays connected.
#[derive(Debug)]
pub struct Client {
    /// What it speaks with.
    pub child: Program,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    asked: u64,
}

/// Returns a request that begins a session, of a client that can do `capabilities`.
pub fn initialize(id: u64, capabilities: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": capabilities,
        "clientInfo": {"name": "test", "version": "0"}}})
}

impl Client {
    /// Starts a host with these arguments, and begins a session.
    pub fn start(cli: &Cli, arguments: &[&str]) -> Self {
        Self::ready(cli.start(arguments))
    }

    /// Begins a session with `child`.
    pub fn ready(child: Program) -> Self {
        let mut client = Self::new(child);
        client.initialize(&json!({}));
        client
    }

    /// Speaks with `child`, which has not said anything yet.
    ///
    /// # Panics
    /// Where there are no pipes to it.
    pub fn new(mut child: Program) -> Self {
        let (input, output) = (child.stdin.take(), child.stdout.take().unwrap());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, input, lines, asked: 0 }
    }

    /// Begins a session of a client that can do `capabilities`, and returns what the host can do.
    pub fn initialize(&mut self, capabilities: &Value) -> Value {
        self.asked += 1;
        self.say(&initialize(self.asked, capabilities));
        let greeted = self.answer_to(self.asked)["result"].clone();
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        greeted
    }

    /// Sends bytes as they are.
    ///
    /// # Panics
    /// Where nobody takes them.
    pub fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    /// Sends a message.
    pub fn say(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes());
    }

    /// Says nothing any more.
    pub fn hang_up(&mut self) {
        drop(self.input.take());
    }

    /// Returns the next message.
    ///
    /// # Errors
    /// None comes, or it is no JSON.
    pub fn try_hear(&self) -> Result<Value, String> {
        let line = self.lines.recv_timeout(SOON).map_err(|error| match error {
            RecvTimeoutError::Timeout => "no message in time".to_owned(),
            RecvTimeoutError::Disconnected => "it has ended".to_owned(),
        })?;
        serde_json::from_str(&line).map_err(|error| format!("no JSON: {error}: {line}"))
    }

    /// Returns the next message.
    ///
    /// # Panics
    /// Where none comes, or it is no JSON.
    pub fn hear(&self) -> Value {
        self.try_hear().unwrap_or_else(|error| panic!("{error}"))
    }

    /// Returns the next message that fits: others are passed over.
    pub fn hear_until(&self, fits: impl Fn(&Value) -> bool) -> Value {
        loop {
            let message = self.hear();
            if fits(&message) {
                return message;
            }
        }
    }

    /// Returns the next message of this method.
    pub fn hear_of(&self, method: &str) -> Value {
        self.hear_until(|message| message["method"] == method)
    }

    /// Returns the next answer to any request.
    pub fn answer(&self) -> Value {
        self.hear_until(|message| message.get("id").is_some() && message.get("method").is_none())
    }

    fn answer_to(&self, id: u64) -> Value {
        self.hear_until(|message| message["id"] == id && message.get("method").is_none())
    }

    /// Says whether nothing is said for that long, and the program goes on.
    pub fn is_silent_for(&self, time: Duration) -> bool {
        self.lines.recv_timeout(time) == Err(RecvTimeoutError::Timeout)
    }

    /// Sends a request, and returns its id.
    pub fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.asked += 1;
        let id = self.asked;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a request, and returns its answer.
    pub fn ask(&mut self, method: &str, params: &Value) -> Value {
        let id = self.request(method, params);
        self.answer_to(id)
    }

    /// Calls a tool and does not wait; returns the id.
    pub fn begin(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.request("tools/call", &json!({"name": tool, "arguments": arguments}))
    }

    /// Calls a tool, and returns the answer.
    pub fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        let id = self.begin(tool, arguments);
        self.answer_to(id)
    }

    /// Returns the tools that are listed.
    pub fn tools(&mut self) -> Value {
        self.ask("tools/list", &json!({}))["result"]["tools"].clone()
    }

    /// Returns the names of the tools that are listed.
    ///
    /// # Panics
    /// Where that is no list of tools.
    pub fn names(&mut self) -> Vec<String> {
        let tools = self.tools();
        let names = tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
        names.map(str::to_owned).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn a_program_that_has_ended_is_not_silent() {
        let mut ends = Command::new("true");
        let client = Client::new(Program::other(ends.stdin(Stdio::piped()).stdout(Stdio::piped())));
        assert!(!client.is_silent_for(SOON));
    }
}
