//! Hostile guests: small components, written as fragments of WebAssembly text.
//!
//! `tests/guests/<name>.wat` holds what is particular to a guest, `world.wat.in` the rest, and
//! `imports/<name>.in` what an import takes. A file starts with comment lines: a sentence that
//! says what the guest does, the rows of `tests/escape.md` that it tries (`;; rows: …`), what is
//! expected of it (`;; ends: …` or `;; loads: …`), what it needs (`;; imports: …`, `;; name: …`,
//! `;; description: …`, `;; schema: …`, `;; pages: …`, `;; tools: …`, `;; export: …`, `;; binary: …`), and what it is
//! called with, one call each (`;; case: <row> <JSON>`). Code follows under `;;; call`,
//! `;;; describe`, `;;; realloc`, `;;; post-return`, `;;; fields`, `;;; start` or `;;; extra`, or
//! the whole file under `;;; raw`. A line `;;* 100 (func)` stands for a hundred such lines.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use clawhost_core::digest;
use clawhost_core::grants::Grants;
use clawhost_core::imports;
use serde_json::{Value, json};

use super::corpus;
use crate::engine::check;

const ANY_OBJECT: &str = r#"{"type":"object"}"#;

/// One guest of the corpus.
#[derive(Debug, Clone)]
pub struct Guest {
    /// The file's stem, and the tool's name unless the file says otherwise.
    pub name: String,
    header: BTreeMap<String, String>,
    cases: Vec<Case>,
    code: BTreeMap<String, String>,
    /// Read from the component when they are first needed.
    imports: OnceLock<Vec<String>>,
}

/// One call of a guest that is called with different things.
#[derive(Debug, Clone, PartialEq)]
pub struct Case {
    /// The row that it tries.
    pub row: String,
    /// Text, in which the lab fills in its places, or a number, in eight bytes.
    pub payload: Value,
}

/// What is expected of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    /// It loads, and its call succeeds.
    Answers,
    /// It loads, and its call ends in any way: what it must not do is seen from outside.
    Any,
    /// It loads, and its call does not succeed.
    Denied,
    /// It loads, and its call ends with this code and this `data.limit`.
    Exceeds(i32, String),
    /// It loads, and its call is a failed result of this kind (`trap`, `exit`).
    Fails(String),
    /// It is refused at load, with a reason that contains this.
    Refused(String),
}

impl Guest {
    /// Returns the guest of the corpus that has this name; where there is none, an empty file,
    /// which is refused at load.
    pub fn read(name: &str) -> Self {
        Self::parse(name, corpus::text(name).unwrap_or(";; binary: none"))
    }

    /// Returns the guest that `text` describes in the form of the files.
    pub fn parse(name: &str, text: &str) -> Self {
        let mut guest = Self {
            name: name.to_owned(),
            header: BTreeMap::new(),
            cases: Vec::new(),
            code: BTreeMap::new(),
            imports: OnceLock::new(),
        };
        let mut section = None;
        for line in text.lines() {
            if let Some(title) = line.strip_prefix(";;; ") {
                section = Some(guest.code.entry(title.trim().to_owned()).or_default());
            } else if let Some(code) = &mut section {
                let (times, line) = repeated(line);
                (0..times).for_each(|_| code.extend([line, "\n"]));
            } else if let Some((key, value)) = line.trim_start_matches(';').trim().split_once(": ")
            {
                match key {
                    "case" => guest.cases.extend(Case::parse(value)),
                    _ => drop(guest.header.insert(key.to_owned(), value.to_owned())),
                }
            }
        }
        guest
    }

    /// Returns what the file expects of the guest where everything it imports is granted.
    pub fn expected(&self) -> Expected {
        if let Some(reason) = self.header.get("loads") {
            return Expected::Refused(reason.clone());
        }
        match self.header.get("ends").map(|ends| ends.split_once(' ').unwrap_or((ends, ""))) {
            None => Expected::Answers,
            Some(("any", _)) => Expected::Any,
            Some(("refused", _)) => Expected::Denied,
            Some((code, limit)) => match code.parse() {
                Ok(code) => Expected::Exceeds(code, limit.to_owned()),
                Err(_) => Expected::Fails(code.to_owned()),
            },
        }
    }

    /// Returns what is expected under `grants`: a guest that imports what they do not grant is
    /// refused at load, whatever it would do.
    pub fn expected_under(&self, grants: &Grants) -> Expected {
        let expected = self.expected();
        if matches!(expected, Expected::Refused(_)) {
            return expected;
        }
        let read = || check::outline(&self.file().1).map_or_else(Vec::new, |it| it.imports);
        let imports = self.imports.get_or_init(read);
        let denied =
            |import: &&String| imports::check([import.as_str()].into_iter(), grants).is_err();
        match imports.iter().find(denied) {
            Some(import) => Expected::Refused(import.clone()),
            None => expected,
        }
    }

    /// Returns the rows that it tries as a whole.
    pub fn rows(&self) -> impl Iterator<Item = &str> {
        self.header.get("rows").map_or("", String::as_str).split_whitespace()
    }

    /// Returns what it is called with; nothing where it is called once, with nothing.
    pub fn cases(&self) -> &[Case] {
        &self.cases
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
        if let Some(whole) = self.code.get("raw") {
            return whole.clone();
        }
        let header = |key: &str, default: &str| {
            self.header.get(key).map_or(default, String::as_str).to_owned()
        };
        let code = |key: &str| self.code.get(key).cloned().unwrap_or_default();
        let (name, schema) = (self.tool().to_owned(), header("schema", ANY_OBJECT));
        let description = header("description", &name);
        let parts =
            self.header.get("imports").map_or_else(ImportParts::default, |it| ImportParts::of(it));
        let mut text = corpus::WORLD.to_owned();
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
            ("description", quoted(&description)),
            ("description_bytes", description.len().to_string()),
            ("schema", quoted(&schema)),
            ("schema_bytes", schema.len().to_string()),
            ("tools", header("tools", "1")),
            ("export", header("export", "claw:tool/tool@0.1.0")),
            ("fields", code("fields")),
            ("describe", code("describe")),
            ("realloc", code("realloc")),
            ("call", code("call")),
            ("post-return", code("post-return")),
            ("start", code("start")),
            ("extra", code("extra")),
        ] {
            text = text.replace(&format!("{{{{{slot}}}}}"), &value);
        }
        text
    }

    /// Returns the component in binary form; nothing, which no host loads, where its text is
    /// wrong.
    pub fn wasm(&self) -> Vec<u8> {
        wat::parse_str(self.wat()).unwrap_or_default()
    }

    /// Returns the name and the bytes of the file to drop in.
    pub fn file(&self) -> (String, Vec<u8>) {
        let name = self.file_name();
        let Some(kept) = self.header.get("binary") else {
            return (name, self.wat().into_bytes());
        };
        let mut bytes = self.wasm();
        match kept.as_str() {
            "whole" => {}
            "half" => bytes.truncate(bytes.len() / 2),
            "all but its end" => drop(bytes.pop()),
            "changed" => bytes.iter_mut().skip(9).take(1).for_each(|byte| *byte ^= 0xff),
            _ => bytes.clear(),
        }
        (name, bytes)
    }

    /// Returns the name of the file to drop in.
    pub fn file_name(&self) -> String {
        let extension = if self.header.contains_key("binary") { "wasm" } else { "wat" };
        format!("{}.{extension}", self.name)
    }
}

impl Case {
    fn parse(text: &str) -> Option<Self> {
        let (row, payload) = text.split_once(' ')?;
        Some(Self { row: row.to_owned(), payload: serde_json::from_str(payload).ok()? })
    }

    /// Returns the arguments of the call, with what `fill` puts in the place of `{…}`.
    pub fn arguments(&self, fill: impl Fn(&str) -> String) -> Value {
        let bytes = match &self.payload {
            Value::String(text) => fill(text).into_bytes(),
            number => number.as_u64().unwrap_or_default().to_le_bytes().to_vec(),
        };
        json!({"case": digest::hex(&bytes)})
    }
}

/// Reads `;;* <times> <line>`; any other line stands for itself.
fn repeated(line: &str) -> (usize, &str) {
    let parts = line.strip_prefix(";;* ").and_then(|rest| rest.split_once(' '));
    let parts = parts.and_then(|(times, line)| Some((times.parse().ok()?, line)));
    parts.unwrap_or((1, line))
}

/// A string literal of the text format.
fn quoted(text: &str) -> String {
    let bytes: String = text.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    format!("\"{bytes}\"")
}

/// What an import adds to each place of the world.
#[derive(Debug, Default)]
struct ImportParts {
    imports: String,
    with: String,
    lowered: String,
    core_imports: String,
    core_with: String,
}

impl ImportParts {
    /// Returns the parts of a file of `imports`, or of a bare interface, of which nothing is
    /// called: importing one is the attack.
    fn of(import: &str) -> Self {
        let bare = || format!("(import \"{import}\" (instance $bare))");
        let text = corpus::import(import).map_or_else(bare, str::to_owned);
        let (imports, functions) = text.split_once(";;; functions\n").unwrap_or((&text, ""));
        let mut parts = Self { imports: imports.to_owned(), ..Self::default() };
        for line in imports.lines().filter_map(|line| line.strip_prefix("(import ")) {
            let words: Vec<&str> = line.split([' ', ')']).take(3).collect();
            if let [interface, _, instance] = words[..] {
                parts.with += &format!("(with {interface} (instance {instance}))\n");
            }
        }
        functions.lines().for_each(|line| parts.add(line));
        parts
    }

    /// Adds one function: `name (param …) (result …) = lower (func …)`.
    fn add(&mut self, line: &str) {
        let Some((typed, canon)) = line.split_once(" = ") else { return };
        let (name, signature) = typed.split_once(' ').unwrap_or((typed, ""));
        let options = match canon.starts_with("lower ") {
            true => " (memory $memory) (realloc $realloc)",
            false => "",
        };
        self.lowered += &format!("(core func ${name} (canon {canon}{options}))\n");
        self.core_imports += &format!("(import \"host\" \"{name}\" (func ${name} {signature}))\n");
        self.core_with += &format!("(export \"{name}\" (func ${name}))\n");
    }
}
