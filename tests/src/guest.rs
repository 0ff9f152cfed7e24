//! Hostile guests: small components, written as fragments of WebAssembly text.
//!
//! `tests/guests/<name>.wat` holds what is particular to a guest, `world.wat.in` the rest. A
//! file starts with comment lines: a sentence that says what the guest does, then what is
//! expected of it (`;; ends: …` or `;; loads: …`) and what it needs (`;; imports: …`,
//! `;; name: …`, `;; schema: …`, `;; pages: …`, `;; tools: …`, `;; export: …`). Code follows
//! under `;;; call`, `;;; describe`, `;;; realloc`, `;;; fields` or `;;; start`.

mod http;

use std::collections::BTreeMap;
use std::path::PathBuf;

const WORLD: &str = include_str!("../guests/world.wat.in");
const ANY_OBJECT: &str = r#"{"type":"object"}"#;

/// One guest of `tests/guests`.
#[derive(Debug, Clone)]
pub struct Guest {
    /// The file's stem, and the tool's name unless the file says otherwise.
    pub name: String,
    header: BTreeMap<String, String>,
    code: BTreeMap<String, String>,
}

/// What is expected of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// It loads, and its call succeeds.
    Answers,
    /// It loads, and its call ends with this code and this `data.limit`.
    Exceeds(i32, String),
    /// It loads, and its call is a failed result of this kind (`trap`, `exit`).
    Fails(String),
    /// It is refused at load, with a reason that contains this.
    Refused(String),
}

/// Returns the folder of the guests.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("guests")
}

/// Returns every guest, by name.
pub fn all() -> Vec<Guest> {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut names: Vec<String> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "wat"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names.iter().map(|name| Guest::read(name)).collect()
}

impl Guest {
    /// Reads `tests/guests/<name>.wat`.
    pub fn read(name: &str) -> Self {
        let file = folder().join(format!("{name}.wat"));
        let text = std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Self::parse(name, &text)
    }

    /// Returns the guest that `text` describes in the form of the files.
    pub fn parse(name: &str, text: &str) -> Self {
        let (mut header, mut code) = (BTreeMap::new(), BTreeMap::<String, String>::new());
        let mut section = None;
        for line in text.lines() {
            if let Some(title) = line.strip_prefix(";;; ") {
                section = Some(title.trim().to_owned());
            } else if let Some(section) = &section {
                let code = code.entry(section.clone()).or_default();
                code.push_str(line);
                code.push('\n');
            } else if let Some((key, value)) = line.trim_start_matches(';').trim().split_once(": ")
            {
                header.insert(key.to_owned(), value.to_owned());
            }
        }
        Self { name: name.to_owned(), header, code }
    }

    /// Returns what the file expects of the guest.
    pub fn expected(&self) -> Expected {
        if let Some(reason) = self.header.get("loads") {
            return Expected::Refused(reason.clone());
        }
        match self.header.get("ends").map(|ends| ends.split_once(' ').unwrap_or((ends, ""))) {
            None => Expected::Answers,
            Some((kind, "")) => Expected::Fails(kind.to_owned()),
            Some((code, limit)) => Expected::Exceeds(code.parse().unwrap(), limit.to_owned()),
        }
    }

    /// Returns the guest under another name: same behaviour, another tool.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self.header.insert("name".to_owned(), name.to_owned());
        self
    }

    /// Returns the tool's name.
    pub fn tool(&self) -> &str {
        self.header.get("name").unwrap_or(&self.name)
    }

    /// Returns the component in text form.
    pub fn wat(&self) -> String {
        let header = |key: &str, default: &str| {
            self.header.get(key).map_or(default, String::as_str).to_owned()
        };
        let code = |key: &str| self.code.get(key).cloned().unwrap_or_default();
        let (name, schema) = (self.tool().to_owned(), header("schema", ANY_OBJECT));
        let parts =
            self.header.get("imports").map_or_else(Parts::default, |import| Parts::of(import));
        let mut text = WORLD.to_owned();
        for (slot, value) in [
            ("imports", parts.imports.clone()),
            ("inner_imports", parts.imports),
            ("lowered", parts.lowered),
            ("core_imports", parts.core_imports),
            ("core_with", parts.core_with),
            ("with", parts.with),
            ("pages", header("pages", "1")),
            ("name", quoted(&name)),
            ("name_bytes", name.len().to_string()),
            ("schema", quoted(&schema)),
            ("schema_bytes", schema.len().to_string()),
            ("tools", header("tools", "1")),
            ("export", header("export", "claw:tool/tool@0.1.0")),
            ("fields", code("fields")),
            ("describe", code("describe")),
            ("realloc", code("realloc")),
            ("call", code("call")),
            ("start", code("start")),
        ] {
            text = text.replace(&format!("{{{{{slot}}}}}"), &value);
        }
        text
    }

    /// Returns the component in binary form.
    pub fn wasm(&self) -> Vec<u8> {
        wat::parse_str(self.wat()).unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }
}

/// A string literal of the text format.
fn quoted(text: &str) -> String {
    let bytes: String = text.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    format!("\"{bytes}\"")
}

/// What an import adds to each place of the world.
#[derive(Debug, Default)]
struct Parts {
    imports: String,
    with: String,
    lowered: String,
    core_imports: String,
    core_with: String,
}

/// Interfaces that hold nothing a guest here calls: importing one is the attack.
const BARE: [(&str, &str); 5] = [
    ("sockets", "wasi:sockets/tcp@0.2.12"),
    ("http", "wasi:http/outgoing-handler@0.2.12"),
    ("process", "claw:host/process@0.1.0"),
    ("tools", "claw:host/tools@0.1.0"),
    ("unknown", "evil:host/all@1.0.0"),
];

impl Parts {
    fn of(import: &str) -> Self {
        match import {
            "clock" => Self::clock(),
            "directories" => Self::directories(),
            "environment" => Self::environment(),
            "exit" => Self::exit(),
            "http-and-environment" => http::parts(),
            "log" => Self::log(),
            "progress" => Self::progress(),
            "provider" => Self::provider(),
            "random" => Self::random(),
            "secrets" => Self::secrets(),
            "stdout" => Self::stdout(),
            bare => {
                let (_, interface) =
                    BARE.iter().find(|(name, _)| *name == bare).expect("a known import");
                Self {
                    imports: format!("(import \"{interface}\" (instance $bare))"),
                    with: format!("(with \"{interface}\" (instance $bare))"),
                    ..Self::default()
                }
            }
        }
    }

    fn clock() -> Self {
        Self {
            imports: r#"
                (import "wasi:io/poll@0.2.12" (instance $poll
                  (export "pollable" (type $pollable (sub resource)))
                  (export "[method]pollable.block" (func (param "self" (borrow $pollable))))))
                (alias export $poll "pollable" (type $pollable))
                (import "wasi:clocks/monotonic-clock@0.2.12" (instance $clock
                  (alias outer 1 $pollable (type $p))
                  (export "pollable" (type $pollable (eq $p)))
                  (export "now" (func (result u64)))
                  (export "subscribe-duration" (func (param "when" u64) (result (own $pollable))))))"#
                .to_owned(),
            with: r#"
                (with "wasi:io/poll@0.2.12" (instance $poll))
                (with "wasi:clocks/monotonic-clock@0.2.12" (instance $clock))"#
                .to_owned(),
            lowered: r#"
                (core func $block (canon lower (func $poll "[method]pollable.block")))
                (core func $now (canon lower (func $clock "now")))
                (core func $subscribe (canon lower (func $clock "subscribe-duration")))"#
                .to_owned(),
            core_imports: r#"
                (import "host" "block" (func $block (param i32)))
                (import "host" "now" (func $now (result i64)))
                (import "host" "subscribe" (func $subscribe (param i64) (result i32)))"#
                .to_owned(),
            core_with: r#"
                (with "host" (instance
                  (export "block" (func $block))
                  (export "now" (func $now))
                  (export "subscribe" (func $subscribe))))"#
                .to_owned(),
        }
    }

    fn directories() -> Self {
        Self {
            imports: r#"
                (import "wasi:filesystem/types@0.2.12" (instance $fs
                  (export "descriptor" (type (sub resource)))))
                (alias export $fs "descriptor" (type $descriptor))
                (import "wasi:filesystem/preopens@0.2.12" (instance $preopens
                  (alias outer 1 $descriptor (type $d))
                  (export "descriptor" (type $descriptor (eq $d)))
                  (export "get-directories" (func (result (list (tuple (own $descriptor) string)))))))"#
                .to_owned(),
            with: r#"
                (with "wasi:filesystem/types@0.2.12" (instance $fs))
                (with "wasi:filesystem/preopens@0.2.12" (instance $preopens))"#
                .to_owned(),
            lowered: r#"
                (core func $directories (canon lower
                  (func $preopens "get-directories") (memory $memory) (realloc $realloc)))"#
                .to_owned(),
            core_imports: r#"(import "host" "directories" (func $directories (param i32)))"#.to_owned(),
            core_with: r#"(with "host" (instance (export "directories" (func $directories))))"#.to_owned(),
        }
    }

    fn environment() -> Self {
        Self {
            imports: r#"
                (import "wasi:cli/environment@0.2.12" (instance $cli
                  (export "get-environment" (func (result (list (tuple string string)))))
                  (export "get-arguments" (func (result (list string))))))"#
                .to_owned(),
            with: r#"(with "wasi:cli/environment@0.2.12" (instance $cli))"#.to_owned(),
            lowered: r#"
                (core func $environment (canon lower
                  (func $cli "get-environment") (memory $memory) (realloc $realloc)))
                (core func $arguments (canon lower
                  (func $cli "get-arguments") (memory $memory) (realloc $realloc)))"#
                .to_owned(),
            core_imports: r#"
                (import "host" "environment" (func $environment (param i32)))
                (import "host" "arguments" (func $arguments (param i32)))"#
                .to_owned(),
            core_with: r#"
                (with "host" (instance
                  (export "environment" (func $environment))
                  (export "arguments" (func $arguments))))"#
                .to_owned(),
        }
    }

    fn progress() -> Self {
        Self {
            imports: r#"
                (import "claw:host/progress@0.1.0" (instance $host
                  (export "report" (func
                    (param "progress" f64) (param "total" (option f64)) (param "message" (option string))))))"#
                .to_owned(),
            with: r#"(with "claw:host/progress@0.1.0" (instance $host))"#.to_owned(),
            lowered: r#"(core func $report (canon lower (func $host "report") (memory $memory)))"#.to_owned(),
            core_imports: r#"(import "host" "report" (func $report (param f64 i32 f64 i32 i32 i32)))"#
                .to_owned(),
            core_with: r#"(with "host" (instance (export "report" (func $report))))"#.to_owned(),
        }
    }

    /// `$complete` takes a request and a place for the answer: 0 and text, or 1, a case, and text.
    fn provider() -> Self {
        Self {
            imports: r#"
                (import "claw:host/provider@0.1.0" (instance $provider
                  (type $e (variant (case "denied" string) (case "over-quota" string) (case "failed" string)))
                  (export "provider-error" (type $error (eq $e)))
                  (export "complete" (func (param "request" string) (result (result string (error $error)))))))"#
                .to_owned(),
            with: r#"(with "claw:host/provider@0.1.0" (instance $provider))"#.to_owned(),
            lowered: r#"
                (core func $complete (canon lower
                  (func $provider "complete") (memory $memory) (realloc $realloc)))"#
                .to_owned(),
            core_imports: r#"(import "host" "complete" (func $complete (param i32 i32 i32)))"#.to_owned(),
            core_with: r#"(with "host" (instance (export "complete" (func $complete))))"#.to_owned(),
        }
    }

    fn random() -> Self {
        Self {
            imports: r#"
                (import "wasi:random/random@0.2.12" (instance $random
                  (export "get-random-bytes" (func (param "len" u64) (result (list u8))))))"#
                .to_owned(),
            with: r#"(with "wasi:random/random@0.2.12" (instance $random))"#.to_owned(),
            lowered: r#"
                (core func $random (canon lower
                  (func $random "get-random-bytes") (memory $memory) (realloc $realloc)))"#
                .to_owned(),
            core_imports: r#"(import "host" "random" (func $random (param i64 i32)))"#.to_owned(),
            core_with: r#"(with "host" (instance (export "random" (func $random))))"#.to_owned(),
        }
    }

    /// `$secret` takes a name and a place for the answer: 0, or 1 and text.
    fn secrets() -> Self {
        Self {
            imports: r#"
                (import "claw:host/secrets@0.1.0" (instance $secrets
                  (export "get" (func (param "name" string) (result (option string))))))"#
                .to_owned(),
            with: r#"(with "claw:host/secrets@0.1.0" (instance $secrets))"#.to_owned(),
            lowered: r#"
                (core func $secret (canon lower
                  (func $secrets "get") (memory $memory) (realloc $realloc)))"#
                .to_owned(),
            core_imports: r#"(import "host" "secret" (func $secret (param i32 i32 i32)))"#
                .to_owned(),
            core_with: r#"(with "host" (instance (export "secret" (func $secret))))"#.to_owned(),
        }
    }

    fn exit() -> Self {
        Self {
            imports: r#"(import "wasi:cli/exit@0.2.12" (instance $cli (export "exit" (func (param "status" (result))))))"#.to_owned(),
            with: r#"(with "wasi:cli/exit@0.2.12" (instance $cli))"#.to_owned(),
            lowered: r#"(core func $exit (canon lower (func $cli "exit")))"#.to_owned(),
            core_imports: r#"(import "host" "exit" (func $exit (param i32)))"#.to_owned(),
            core_with: r#"(with "host" (instance (export "exit" (func $exit))))"#.to_owned(),
        }
    }

    fn log() -> Self {
        Self {
            imports: r#"
                (import "claw:host/log@0.1.0" (instance $host
                  (type $l (enum "trace" "debug" "info" "warn" "error"))
                  (export "level" (type $level (eq $l)))
                  (export "log" (func (param "level" $level) (param "message" string)))))"#
                .to_owned(),
            with: r#"(with "claw:host/log@0.1.0" (instance $host))"#.to_owned(),
            lowered: r#"(core func $log (canon lower (func $host "log") (memory $memory)))"#
                .to_owned(),
            core_imports: r#"(import "host" "log" (func $log (param i32 i32 i32)))"#.to_owned(),
            core_with: r#"(with "host" (instance (export "log" (func $log))))"#.to_owned(),
        }
    }

    fn stdout() -> Self {
        Self {
            imports: r#"
                (import "wasi:io/error@0.2.12" (instance $io-error (export "error" (type (sub resource)))))
                (alias export $io-error "error" (type $error))
                (import "wasi:io/streams@0.2.12" (instance $streams
                  (alias outer 1 $error (type $e))
                  (export "error" (type $error (eq $e)))
                  (export "output-stream" (type $output-stream (sub resource)))
                  (type $s (variant (case "last-operation-failed" (own $error)) (case "closed")))
                  (export "stream-error" (type $stream-error (eq $s)))
                  (export "[method]output-stream.blocking-write-and-flush"
                    (func (param "self" (borrow $output-stream)) (param "contents" (list u8))
                      (result (result (error $stream-error)))))))
                (alias export $streams "output-stream" (type $output-stream))
                (import "wasi:cli/stdout@0.2.12" (instance $stdout
                  (alias outer 1 $output-stream (type $o))
                  (export "output-stream" (type $output-stream (eq $o)))
                  (export "get-stdout" (func (result (own $output-stream))))))"#
                .to_owned(),
            with: r#"
                (with "wasi:io/error@0.2.12" (instance $io-error))
                (with "wasi:io/streams@0.2.12" (instance $streams))
                (with "wasi:cli/stdout@0.2.12" (instance $stdout))"#
                .to_owned(),
            lowered: r#"
                (core func $get_stdout (canon lower (func $stdout "get-stdout")))
                (core func $write (canon lower
                  (func $streams "[method]output-stream.blocking-write-and-flush") (memory $memory)))"#
                .to_owned(),
            core_imports: r#"
                (import "host" "get_stdout" (func $get_stdout (result i32)))
                (import "host" "write" (func $write (param i32 i32 i32 i32)))"#
                .to_owned(),
            core_with: r#"
                (with "host" (instance
                  (export "get_stdout" (func $get_stdout))
                  (export "write" (func $write))))"#
                .to_owned(),
        }
    }
}
