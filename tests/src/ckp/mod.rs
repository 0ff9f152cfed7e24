//! The vectors of `tests/conformance`, held against a host over either transport.
//!
//! Every answer is judged: its shape as JSON-RPC, its id, and what the vector says. A message that
//! nobody asked for is a failure.

mod fits;
mod transport;

use std::path::PathBuf;

use serde_json::{Value, json};

pub use self::fits::fits;
pub use self::transport::{Http, Listener, Stdio, Transport};
use crate::{Cli, Guest, source_root};

/// One situation.
#[derive(Debug)]
pub struct Vector {
    /// Its name, unique.
    pub name: String,
    /// The level it belongs to.
    pub level: u64,
    /// A session is begun before its steps.
    begin: bool,
    /// The one transport it is about.
    only: Option<String>,
    /// No session has run before.
    fresh: bool,
    steps: Vec<Value>,
    /// Its place, from which its request ids are made.
    index: usize,
}

/// All vectors, and the parameters they start from.
#[derive(Debug)]
pub struct Vectors {
    defaults: Value,
    /// In the order of the file.
    pub list: Vec<Vector>,
}

fn folder() -> PathBuf {
    source_root().join("tests/conformance")
}

impl Vectors {
    /// Reads `vectors.json`.
    pub fn read() -> Self {
        let text = std::fs::read_to_string(folder().join("vectors.json")).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        let list = file["vectors"].as_array().unwrap().iter().enumerate();
        Self { defaults: file["defaults"].clone(), list: list.map(Vector::read).collect() }
    }

    /// Holds `vector` against what is behind `transport`.
    ///
    /// # Errors
    /// What did not fit.
    pub fn run(&self, vector: &Vector, transport: &mut dyn Transport) -> Result<(), String> {
        if vector.only.as_deref().is_some_and(|only| only != transport.name()) {
            return Ok(());
        }
        if vector.fresh {
            transport.refresh();
        }
        let mut run = Run { defaults: &self.defaults, vector, transport, sent: 0 };
        let outcome = run.steps();
        run.transport.finish();
        outcome
    }
}

impl Vector {
    fn read((index, value): (usize, &Value)) -> Self {
        Self {
            name: value["name"].as_str().unwrap().to_owned(),
            level: value["level"].as_u64().unwrap(),
            begin: value["begin"].as_bool().unwrap_or(true),
            only: value["only"].as_str().map(str::to_owned),
            fresh: value["fresh"] == true,
            steps: value["steps"].as_array().unwrap().clone(),
            index,
        }
    }
}

struct Run<'a> {
    defaults: &'a Value,
    vector: &'a Vector,
    transport: &'a mut dyn Transport,
    sent: usize,
}

impl Run<'_> {
    fn steps(&mut self) -> Result<(), String> {
        if self.vector.begin {
            let begin = json!({"method": "claw.initialize", "expect": {"result": {}}});
            self.step(&begin).map_err(|reason| format!("to begin with: {reason}"))?;
        }
        for (index, step) in self.vector.steps.iter().enumerate() {
            self.step(step).map_err(|reason| format!("step {}: {reason}", index + 1))?;
        }
        Ok(())
    }

    fn step(&mut self, step: &Value) -> Result<(), String> {
        let operator = step["as"] == "operator";
        if let Some(line) = step["silent"].as_str() {
            return self.transport.tell(line);
        }
        if let Some(method) = step["notify"].as_str() {
            let mut message = json!({"jsonrpc": "2.0", "method": method});
            if let Some(params) = step.get("params") {
                message["params"] = params.clone();
            }
            return self.transport.tell(&message.to_string());
        }
        if let Some(name) = step["await"].as_str() {
            let answer = self.transport.wait(name)?;
            return judge(&answer, Some(&json!(name)), &step["expect"]);
        }
        if let Some(line) = step["raw"].as_str() {
            let answer = self.transport.ask(line, None, operator)?;
            return judge(&answer, step["expect"].get("id"), &step["expect"]);
        }
        self.request(step, operator)
    }

    fn request(&mut self, step: &Value, operator: bool) -> Result<(), String> {
        if let Some(name) = step["defer"].as_str() {
            let message = self.message(step, &json!(name));
            return self.transport.send(&message.to_string(), name);
        }
        for attempt in 0.. {
            self.sent += 1;
            let id = json!(format!("{}-{}", self.vector.name, self.sent));
            let line = self.message(step, &id).to_string();
            let answer = self.transport.ask(&line, id.as_str(), operator)?;
            let judged = judge(&answer, Some(&id), &step["expect"]);
            if judged.is_ok() || step["until"] != true || attempt > ATTEMPTS_MAX {
                return judged;
            }
        }
        Ok(())
    }

    fn message(&mut self, step: &Value, id: &Value) -> Value {
        let method = step["method"].as_str().unwrap();
        let mut params = match step.get("params") {
            Some(params) => params.clone(),
            None => self.defaults[method].clone(),
        };
        for (pointer, value) in step["patch"].as_object().into_iter().flatten() {
            patch(&mut params, pointer, value);
        }
        self.name_requests(&mut params);
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    /// Puts ids where the vector has marks for them.
    fn name_requests(&mut self, value: &mut Value) {
        match value {
            Value::String(text) if text == "@auto" => {
                self.sent += 1;
                *text = self.uuid(10_000 + self.sent);
            }
            Value::String(text) => {
                let number = text.strip_prefix('@').and_then(|number| number.parse().ok());
                if let Some(number) = number {
                    *text = self.uuid(number);
                }
            }
            Value::Array(list) => list.iter_mut().for_each(|value| self.name_requests(value)),
            Value::Object(map) => map.values_mut().for_each(|value| self.name_requests(value)),
            _ => {}
        }
    }

    fn uuid(&self, number: usize) -> String {
        format!("00000000-0000-4000-8000-{:06}{number:06}", self.vector.index)
    }
}

/// How often a step is repeated that may need time: each is a round trip.
const ATTEMPTS_MAX: usize = 5_000;

fn patch(params: &mut Value, pointer: &str, value: &Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let parent = params.pointer_mut(parent).unwrap_or_else(|| panic!("no {pointer}"));
    let parent = parent.as_object_mut().unwrap();
    if value == "$remove" {
        parent.remove(key);
    } else {
        parent.insert(key.to_owned(), value.clone());
    }
}

/// Says what is wrong with an answer.
fn judge(answer: &Value, id: Option<&Value>, expected: &Value) -> Result<(), String> {
    if answer["jsonrpc"] != "2.0" || answer.get("id").is_none() {
        return Err(format!("no answer: {answer}"));
    }
    if id.is_some_and(|id| *id != answer["id"]) {
        return Err(format!("another id: {answer}"));
    }
    if answer.get("result").is_some() == answer.get("error").is_some() {
        return Err(format!("neither or both of result and error: {answer}"));
    }
    if answer.get("error").is_some_and(|error| !error["message"].is_string()) {
        return Err(format!("an error without a message: {answer}"));
    }
    if let Some(options) = expected["$either"].as_array() {
        let mut judged = options.iter().map(|option| judge(answer, id, option));
        return judged.find(Result::is_ok).unwrap_or_else(|| Err(format!("none fits: {answer}")));
    }
    let (wanted, found) = match expected.get("error") {
        Some(code) => {
            let data = expected.get("data").cloned().unwrap_or_else(|| json!("$any"));
            let found = json!({"code": answer["error"]["code"], "data": answer["error"]["data"]});
            (json!({"code": code, "data": data}), found)
        }
        None => (expected["result"].clone(), answer["result"].clone()),
    };
    fits(&wanted, &found).map_err(|reason| format!("{reason}, in {answer}"))
}

/// Returns a request that begins a session: with the least of manifests, and no capabilities named.
pub fn initialize() -> Value {
    json!({"jsonrpc": "2.0", "id": "i", "method": "claw.initialize", "params": {
        "protocolVersion": "0.3.0", "clientInfo": {"name": "t", "version": "0"}, "capabilities": {},
        "manifest": {"kind": "Claw", "metadata": {"name": "visitor"}, "spec": {
            "identity": {"inline": {"personality": "Visits."}},
            "providers": [{"inline": {"protocol": "custom", "endpoint": "http://localhost:1",
                "model": "m", "auth": {"type": "none"}}}]}}}})
}

/// Prepares a folder for a host that runs the vectors' manifest, and returns how to start it.
pub fn prepare(cli: &Cli) -> Vec<String> {
    for name in ["claw.yaml", "clawhost.yaml"] {
        cli.write(name, std::fs::read(folder().join(name)).unwrap());
    }
    for entry in std::fs::read_dir(folder().join("sandboxes")).unwrap() {
        let path = entry.unwrap().path();
        let name = format!("sandboxes/{}", path.file_name().unwrap().to_str().unwrap());
        cli.write(&name, std::fs::read(path).unwrap());
    }
    for entry in std::fs::read_dir(folder().join("tools")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let guest = Guest::parse(&name, &std::fs::read_to_string(&path).unwrap());
        cli.write(&format!("tools/{name}.wat"), guest.wat());
    }
    cli.write("workspace/hello.txt", "hello");
    std::os::unix::fs::symlink("/etc/passwd", cli.here().join("workspace/link-out")).unwrap();
    let documents = ["claw.yaml", "sandboxes", "--tools", "tools"].map(str::to_owned);
    // Compiled once, so that a host that starts has all of its tools at once.
    let arguments: Vec<&str> =
        ["tools"].into_iter().chain(documents.iter().map(String::as_str)).collect();
    let listed = cli.run(&arguments);
    assert_eq!(listed.code, Some(0), "{}{}", listed.stdout, listed.stderr);
    documents.to_vec()
}
