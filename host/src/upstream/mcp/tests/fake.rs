//! A server that behaves, or misbehaves in one way: this very test program, started again.
//!
//! What it does is said by its environment variable `MCP_TEST_MODE`.

use std::io::{BufRead as _, Write as _};

use serde_json::{Value, json};

/// Where the tests start this program again, this is the server.
#[test]
fn a_server_to_be_spoken_to() {
    let Ok(mode) = std::env::var("MCP_TEST_MODE") else { return };
    // The banner of the test harness ends here.
    println!();
    if mode == "crash-spawn" {
        eprintln!("no such database");
        std::process::exit(3);
    }
    let mut server = Fake { mode, calls: 0 };
    while let Some(line) = hear() {
        let message: Value = serde_json::from_str(&line).unwrap();
        assert!(message.get("id").is_none_or(Value::is_u64), "{line}");
        server.take(&message);
    }
    if server.mode == "stubborn" {
        loop {
            std::thread::park();
        }
    }
    std::process::exit(0);
}

struct Fake {
    mode: String,
    calls: u64,
}

/// Reads a line.
fn hear() -> Option<String> {
    let mut line = String::new();
    let bytes = std::io::stdin().lock().read_line(&mut line).unwrap_or_default();
    (bytes > 0).then_some(line)
}

fn say(text: &str) {
    // One write a line: the harness writes to this output as well.
    let mut out = std::io::stdout().lock();
    out.write_all(format!("{text}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

fn answer(id: &Value, result: &Value) {
    say(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
}

fn refuse(id: &Value, code: i32) {
    let error = json!({"code": code, "message": "not\nknown \u{1b}[2J"});
    say(&json!({"jsonrpc": "2.0", "id": id, "error": error}).to_string());
}

fn tool(name: &str) -> Value {
    json!({"name": name, "description": "d", "inputSchema": {"type": "object"}})
}

impl Fake {
    fn is(&self, mode: &str) -> bool {
        self.mode == mode
    }

    fn crash_at(&self, step: &str) {
        if self.mode == format!("crash-{step}") {
            eprintln!("crashed at {step} with hunter2-hunter2");
            std::process::exit(4);
        }
    }

    fn take(&mut self, message: &Value) {
        let id = &message["id"];
        match message["method"].as_str().unwrap_or_default() {
            "server/discover" if self.is("modern") || self.is("late-modern") => {
                if self.is("modern") {
                    answer(id, &discovered());
                } else {
                    self.mode = format!("late-modern {id}");
                }
            }
            "server/discover" if self.is("mute") => {}
            "server/discover" => {
                self.crash_at("discover");
                refuse(id, -32601);
            }
            "initialize" if self.mode.starts_with("late-modern ") => {
                let late = self.mode.split_off("late-modern ".len());
                answer(&late.parse::<u64>().unwrap().into(), &discovered());
                refuse(id, -32601);
                self.mode = "modern".to_owned();
            }
            "initialize" if self.is("mute") => {}
            "initialize" => {
                let can = message["params"]["capabilities"].as_object().unwrap();
                assert_eq!(can.contains_key("elicitation"), self.is("elicits"), "{can:?}");
                let info = json!({"name": "fake", "version": "1"});
                let version = &message["params"]["protocolVersion"];
                let result = json!({"protocolVersion": version, "capabilities": {"tools": {}},
                    "serverInfo": info, "instructions": "be kind"});
                answer(id, &result);
            }
            "tools/list" => self.list(id, &message["params"]),
            "tools/call" => self.call(id, &message["params"]),
            _ => {}
        }
    }

    fn list(&self, id: &Value, params: &Value) {
        self.crash_at("list");
        let page = params["cursor"].as_str().map_or(0, |page| page.parse().unwrap());
        let result = match self.mode.as_str() {
            "endless-list" => {
                json!({"tools": [tool(&format!("t{page}"))], "nextCursor": (page + 1).to_string()})
            }
            "circle-list" => json!({"tools": [tool(&format!("t{page}"))], "nextCursor": "1"}),
            "large-list" => {
                json!({"tools": (0..10_000).map(|n| tool(&n.to_string())).collect::<Vec<_>>()})
            }
            "twice-list" => json!({"tools": [tool("a"), tool("a")]}),
            "pages" if page < 3 => {
                json!({"tools": [tool(&format!("t{page}"))], "nextCursor": (page + 1).to_string()})
            }
            "no-list" => return refuse(id, -32601),
            "growing" => {
                json!({"tools": (0..=self.calls).map(|n| tool(&format!("t{n}"))).collect::<Vec<_>>()})
            }
            "leaks" => {
                let secret = std::env::var("GIVEN").unwrap();
                let schema = json!({"type": "object", "title": format!("with {secret}"), "properties": {secret.as_str(): {"default": secret}}});
                let long = "x".repeat(4 << 20);
                json!({"tools": [
                    {"name": "echo", "title": secret, "description": format!("use {secret}"), "inputSchema": schema},
                    {"name": secret, "inputSchema": schema}, {"name": long, "inputSchema": schema},
                ]})
            }
            "names" => {
                let names = ["a/b", "a:b", "a.b", "", "__proto__", "e\u{1b}[2J", "n\nl"];
                json!({"tools": names.map(tool)})
            }
            _ => json!({"tools": [tool("echo")]}),
        };
        answer(id, &result);
    }

    fn call(&mut self, id: &Value, params: &Value) {
        self.crash_at("call");
        self.calls += 1;
        self.misbehave(id, params);
        let text = match self.mode.as_str() {
            "env" => {
                let names: Vec<_> = std::env::vars().map(|(name, _)| name).collect();
                json!({"names": names, "value": std::env::var("GIVEN").unwrap()}).to_string()
            }
            "elicits" if params["arguments"]["silent"] == true => return,
            "asks" | "elicits" => self.ask(),
            "asks-at-once" => ask_at_once(100),
            "modern" => params.to_string(),
            "reads" => {
                let path = params["arguments"]["path"].as_str().unwrap();
                std::fs::read_to_string(path).unwrap_or_else(|error| error.to_string())
            }
            "silent" | "mid-line" => return,
            "refusing" => return refuse(id, -32602),
            "input" => {
                return answer(id, &json!({"resultType": "input_required", "inputRequests": {}}));
            }
            "huge" => {
                let text = json!({"content": [{"type": "text", "text": "x".repeat(11 << 20)}]});
                // One library has the number first, and another one last.
                return match params["arguments"]["late"] == true {
                    true => say(&format!(r#"{{"result":{text},"jsonrpc":"2.0","id":{id}}}"#)),
                    false => answer(id, &text),
                };
            }
            "huge-number" => {
                return say(&format!(
                    r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":18446744073709551616}}}}"#
                ));
            }
            _ => params["arguments"].to_string(),
        };
        answer(id, &json!({"content": [{"type": "text", "text": text}]}));
        if self.is("ids") {
            // The same answer again, with other words.
            answer(id, &json!({"content": [{"type": "text", "text": "forged"}]}));
        }
    }

    fn misbehave(&self, id: &Value, params: &Value) {
        let token = &params["_meta"]["progressToken"];
        let progress = |done: u64| {
            let params = json!({"progressToken": token, "progress": done, "message": "m"});
            say(&json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                .to_string());
        };
        match self.mode.as_str() {
            "garbage" => {
                say("Server ready!\r\n\0\u{feff}{\"jsonrpc\":\"2.0\",\"id\":");
                say(&format!("\u{feff}{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}"));
                say(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"id\":{id},\"result\":{{}}}}"));
                say(&"[".repeat(100_000));
                say(&"x".repeat(11 << 20));
            }
            "ids" => {
                for wrong in [json!(u64::MAX), json!(id.to_string()), json!(0), json!(null)] {
                    answer(&wrong, &json!({"content": [{"type": "text", "text": "forged"}]}));
                }
            }
            "progress" => (0..100_000).for_each(progress),
            "progress-forever" => {
                let mut done = 0;
                loop {
                    progress(done);
                    done += 1;
                }
            }
            "forgiven-flood" => loop {
                // What it is asked between two floods is answered, and wanted.
                (0..40).for_each(|_| say(&"x".repeat(1 << 20)));
                say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
                let asked: Value = serde_json::from_str(&hear().unwrap()).unwrap();
                self.list(&asked["id"], &asked["params"]);
            },
            "complaint-flood" => loop {
                eprintln!("{}", "x".repeat(1 << 10));
            },
            "flood" => loop {
                say(&"x".repeat(1 << 20));
            },
            "mid-line" => {
                print!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"resu");
                std::io::stdout().flush().unwrap();
                std::process::exit(5);
            }
            "reads" if params["arguments"]["path"].is_null() => std::process::exit(6),
            "errors" => (0..50_000).for_each(|_| eprintln!("oops hunter2-hunter2")),
            "growing" => say(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#),
            _ => {}
        }
    }

    /// Asks for things itself, and returns what it is told.
    fn ask(&self) -> String {
        let mut codes = Vec::new();
        for method in ["sampling/createMessage", "roots/list", "elicitation/create", "ping"] {
            let params = json!({"message": "Who?"});
            say(&json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
                .to_string());
            let told: Value = serde_json::from_str(&hear().unwrap()).unwrap();
            assert_eq!(told["id"], method);
            codes.push(told.get("result").unwrap_or_else(|| &told["error"]["code"]).clone());
        }
        Value::Array(codes).to_string()
    }
}

/// Asks for so many things before it reads an answer, and returns how many were answered, each once.
fn ask_at_once(count: u64) -> String {
    let ask =
        |n: u64| json!({"jsonrpc": "2.0", "id": n, "method": "sampling/createMessage"}).to_string();
    say(&(0..count).map(ask).collect::<Vec<_>>().join("\n"));
    let told = (0..count).map_while(|_| hear());
    let told = told.map(|line| serde_json::from_str::<Value>(&line).unwrap()["id"].as_u64());
    told.collect::<std::collections::BTreeSet<_>>().len().to_string()
}

pub(super) fn discovered() -> Value {
    json!({"resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
        "instructions": "be modern", "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "fake"}}})
}
