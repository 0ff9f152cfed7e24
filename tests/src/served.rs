//! A host of a test's own that serves HTTP on a port of its own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{ChildStdout, Command};

use serde_json::Value;

use crate::wait::SOON;
use crate::{Cli, Program};

/// A host that serves HTTP. It ends with its test, however that ends.
#[derive(Debug)]
pub struct Served {
    /// Its process.
    pub child: Program,
    /// What it printed on the way up.
    pub greeting: String,
    /// Where it listens.
    pub authority: String,
    /// The token of the agent, where one is asked for.
    pub token: Option<String>,
    /// The operator's credential.
    pub operator: String,
    _stdout: BufReader<ChildStdout>,
}

impl Served {
    /// Starts a host with these arguments of `run`.
    ///
    /// # Panics
    /// Where it does not come up.
    pub fn start(cli: &Cli, arguments: &[&str]) -> Self {
        Self::verb(cli, "run", arguments)
    }

    /// Starts a host with these arguments of `verb`.
    ///
    /// # Panics
    /// Where it does not come up.
    pub fn verb(cli: &Cli, verb: &str, arguments: &[&str]) -> Self {
        let fixed = [verb, "--http", "127.0.0.1:0"];
        // The greeting ends with the last of the configurations to paste: of `run` the second.
        let configurations = if verb == "run" { 2 } else { 1 };
        Self::of(cli, cli.command(&[&fixed, arguments].concat()), |greeting| {
            let pasted = greeting.matches("mcpServers").count();
            pasted == configurations && greeting.ends_with("\n}\n")
        })
    }

    /// Starts `command`, whose greeting is whole where `is_whole` says so.
    ///
    /// # Panics
    /// Where it does not come up.
    pub fn of(cli: &Cli, mut command: Command, is_whole: impl Fn(&str) -> bool) -> Self {
        let mut child = Program::host(&mut command, cli.folder());
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut greeting = String::new();
        while !is_whole(&greeting) {
            if stdout.read_line(&mut greeting).unwrap() == 0 {
                let mut stderr = String::new();
                child.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
                panic!("it ended: {greeting}{stderr}");
            }
        }
        let after = |mark: &str, end: char| {
            let rest = greeting.split_once(mark)?.1;
            rest.split(end).next().map(str::to_owned)
        };
        let (authority, token) = (after("http://", '/').unwrap(), after("Bearer ", '"'));
        let credentials = std::fs::read(cli.state().join("credentials.json")).unwrap();
        let credentials: Value = serde_json::from_slice(&credentials).unwrap();
        let operator = credentials["operator"].as_str().unwrap().to_owned();
        Self { child, greeting, authority, token, operator, _stdout: stdout }
    }

    /// Returns the header with the agent's token.
    ///
    /// # Panics
    /// Where none is asked for.
    pub fn bearer(&self) -> String {
        format!("Bearer {}", self.token.as_deref().unwrap())
    }

    /// Sends one request and returns its status and body.
    pub fn send(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> (u16, String) {
        let mut answer = String::new();
        self.open(method, path, headers, body).read_to_string(&mut answer).unwrap();
        let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
        let body = answer.split_once("\r\n\r\n").unwrap().1.to_owned();
        (status, body)
    }

    /// Sends one request and returns the connection that its answer comes on.
    pub fn open(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> TcpStream {
        let mut stream = TcpStream::connect(&self.authority).unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        let mut request = format!(
            "{method} {path} HTTP/1.1\r\nconnection: close\r\ncontent-length: {}\r\n",
            body.len()
        );
        if !headers.iter().any(|(name, _)| *name == "host") {
            request.push_str(&format!("host: {}\r\n", self.authority));
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{request}\r\n{body}").as_bytes()).unwrap();
        stream
    }
}
