//! `js_exec` and `python_exec`: a caller's own programs, through the real components.
//!
//! Without the feature `interpreters` there are no such components: all tests but one are counted
//! as ignored then.

use clawhost_core::error::{CallError, ErrorKind};
use clawhost_core::reply::ToolReply;
use clawhost_tests::TestHost;
use clawhost_tests::canary::SECRET;
use clawhost_tests::host::text;
use serde_json::{Value, json};

const JS: &str = "js_exec";
const PYTHON: &str = "python_exec";

async fn host(limits: &str) -> TestHost {
    let builder = TestHost::builder().only(&["js-exec", "python-exec"]).limits(limits);
    builder.file("here.txt", SECRET).build().await
}

async fn run(host: &TestHost, tool: &str, code: &str) -> Result<ToolReply, CallError> {
    host.call(tool, json!({"code": code})).await
}

/// Returns the kind and the text of a failure that the tool itself tells.
async fn failure(host: &TestHost, tool: &str, arguments: Value) -> (&'static str, String) {
    let shown = arguments.to_string();
    let reply = host.call(tool, arguments).await.unwrap();
    assert!(reply.is_error, "{tool} {shown}: {reply:?}");
    (reply.error_kind.unwrap(), text(&reply))
}

#[tokio::test]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn a_program_has_its_input_and_its_result_is_a_variable_or_the_last_value() {
    let host = host("timeout_ms: 10000").await;
    for (tool, code, result) in [
        (JS, "1 + 1", json!(2)),
        (JS, "const result = {n: input.n * 2, s: input.s + '😀'}; 0", json!({"n": 42, "s": "é😀"})),
        (JS, "(async () => { await null; return [input.n] })()", json!([21])),
        (JS, "let x = 1", json!(null)),
        (JS, "result = 1; return 5", json!(5)),
        (JS, "let result = 1; return null", json!(null)),
        (JS, "result = [input.n]; if (result) return; result = 0", json!([21])),
        (JS, "const [a] = await (Promise.all([input.n])); return a", json!(21)),
        (JS, "const all = await [input.n]; return all", json!([21])),
        (JS, "result = await (Promise.resolve(input.n))", json!(21)),
        (JS, "async function main() { return await (Promise.resolve(2)) }\nmain()", json!(2)),
        (JS, "Promise.reject(1).catch(() => {}); 3", json!(3)),
        (PYTHON, "1 + 1", json!(2)),
        (
            PYTHON,
            "result = {'n': input['n'] * 2, 's': input['s'] + '😀'}\n0",
            json!({"n": 42, "s": "é😀"}),
        ),
        (PYTHON, "import json, math\n[math.gcd(input['n'], 14)]", json!([7])),
        (PYTHON, "x = 1", json!(null)),
        (PYTHON, "return 5\n6", json!(5)),
        (PYTHON, "result = 1\nreturn 5", json!(1)),
    ] {
        let arguments = json!({"code": code, "input": {"n": 21, "s": "é"}});
        let ran = host.ask(tool, arguments).await;
        assert_eq!(ran["result"], result, "{tool}: {code}");
        let text: Value = serde_json::from_str(ran["result_json"].as_str().unwrap()).unwrap();
        assert_eq!(text, result, "{tool}: {code}");
    }
    let long = host.ask(PYTHON, json!({"code": "10 ** 40"})).await;
    assert_eq!(long["result_json"], format!("1{}", "0".repeat(40)));
}

#[tokio::test]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn an_error_tells_its_line_and_what_was_printed_before() {
    let host = host("timeout_ms: 10000").await;
    for (tool, code, parts) in [
        (
            JS,
            "console.log('so far', [1]);\nlet a = null;\na.b",
            &["TypeError", "script.js:3:", "so far [ 1 ]"][..],
        ),
        (JS, "let a = 1;\nlet b = ;", &["SyntaxError", "line 2"]),
        (
            JS,
            "function f() {\n  throw new Error('boom');\n}\nf()",
            &["Error: boom", "script.js:2:"],
        ),
        (JS, "Promise.reject(new RangeError('no'))", &["RangeError: no"]),
        (JS, "new Promise(() => {})", &["never settles"]),
        (JS, "10n ** 30n", &["TypeError", "JSON"]),
        (JS, "result = 1; await Promise.reject(new RangeError('no'))", &["RangeError: no"]),
        (
            JS,
            "(async () => { throw new RangeError('lost') })();\nresult = 1",
            &["RangeError: lost", "nothing awaits"],
        ),
        (JS, "const a = 1; const a = 2; result = a", &["SyntaxError"]),
        (
            PYTHON,
            "print('so far', [1])\nb = 2\n1 / 0",
            &["ZeroDivisionError", "line 3", "so far [1]"],
        ),
        (PYTHON, "a = 1\nb =", &["SyntaxError", "line 2"]),
        (
            PYTHON,
            "def f():\n    raise ValueError('boom')\nf()",
            &["ValueError: boom", "line 2, in f"],
        ),
        (PYTHON, "def f(): return f()\nf()", &["RecursionError"]),
        (PYTHON, "{1, 2}", &["no JSON form", "set"]),
        (PYTHON, "float('nan')", &["no JSON form"]),
        (PYTHON, "a = []\na.append(a)\n{'a': a}", &["no JSON form: a value contains itself"]),
        (PYTHON, "class A: pass\n[A()]", &["no JSON form: a value is of the class A"]),
        (
            PYTHON,
            "result = []\nfor i in range(1000): result = [result]",
            &["no JSON form: a value is nested too deeply"],
        ),
        (JS, "'\\ud800'", &["no JSON form", "half of a character"]),
        (PYTHON, "range(3)", &["no JSON form: a value is of a type that has none"]),
    ] {
        let (kind, told) = failure(&host, tool, json!({"code": code})).await;
        assert_eq!(kind, "execution-failed", "{code}: {told}");
        assert!(parts.iter().all(|part| told.contains(part)), "{code}: {told}");
    }
}

/// What its description says, so that models need not find out.
#[tokio::test]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn python_lacks_what_it_says() {
    let host = host("timeout_ms: 10000").await;
    let catalog = host.host().catalog();
    let python = catalog.tools().find(|tool| tool.definition.name == PYTHON).unwrap();
    let says = &python.definition.description;
    for (lacks, code) in [
        ("`yield`", "def f():\n  yield 1\nlist(f())"),
        ("`match`", "match 1:\n  case 1: pass"),
        ("`del`", "x = [1]\ndel x[0]"),
        ("parents", "class A: pass\nclass B(A): pass"),
        ("`@property`", "class A:\n  @property\n  def f(self): return 1\nA().f"),
        ("`@classmethod`", "class A:\n  @classmethod\n  def f(cls): return 1\nA.f()"),
        ("`@staticmethod`", "class A:\n  @staticmethod\n  def f(): return 1\nA.f()"),
        ("operators", "class A:\n  def __add__(self, other): return 7\nA() + 1"),
        ("`%`", "'%d' % 5"),
    ] {
        assert!(says.contains(lacks), "{lacks}: {says}");
        failure(&host, PYTHON, json!({"code": code})).await;
    }
    for code in ["f'{5:03d}'", "'{}'.format(5)"] {
        assert!(!run(&host, PYTHON, code).await.unwrap().is_error, "{code}");
    }
}

#[tokio::test]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn an_endless_program_ends_at_its_own_time_or_else_at_the_hosts() {
    let host = host("timeout_ms: 600").await;
    for (tool, code) in [
        (JS, "while (true) {}"),
        (JS, "(async () => { while (true) await null })()"),
        (PYTHON, "while True: pass"),
        (PYTHON, "while True:\n  try:\n    while True: pass\n  except BaseException: pass"),
    ] {
        let arguments = json!({"code": code, "timeout_ms": 100});
        let (kind, told) = failure(&host, tool, arguments).await;
        assert!(kind == "timeout" && told.contains("100 ms"), "{code}: {kind}: {told}");
        let error = run(&host, tool, code).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Timeout, "{code}");
    }
    // What the language calls back is not interrupted from inside.
    let called_back = json!({"code": "[1].map(() => { while (true) {} })", "timeout_ms": 100});
    let error = host.call(JS, called_back).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Timeout);
}

#[tokio::test]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn a_program_that_takes_ever_more_memory_is_stopped() {
    let host = host("timeout_ms: 30000, memory_mb: 64").await;
    for (tool, code) in [
        (JS, "let a = []; while (true) a.push(new Uint8Array(1 << 20))"),
        (PYTHON, "a = []\nwhile True: a.append('x' * 1000000 + str(len(a)))"),
    ] {
        let arguments = json!({"code": code, "timeout_ms": 30000});
        let error = host.call(tool, arguments).await.unwrap_err();
        assert_eq!(error.data["limit"], "memory_mb", "{tool}: {error}");
    }
}

#[tokio::test]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn nesting_without_an_end_ends_the_call_and_not_the_host() {
    let host = host("timeout_ms: 10000").await;
    for (tool, code) in [
        (JS, "[".repeat(20_000)),
        (PYTHON, "(".repeat(20_000)),
        (JS, "let x = []; for (let i = 0; i < 1e5; i++) x = [x]; x".to_owned()),
        (PYTHON, "x = []\nfor i in range(100000): x = [x]\nx".to_owned()),
    ] {
        let ended = run(&host, tool, &code).await;
        assert!(ended.is_err() || ended.is_ok_and(|reply| reply.is_error), "{tool}");
        assert_eq!(host.ask(tool, json!({"code": "1"})).await["result"], 1);
    }
}

/// The profile of this host grants a folder: the interpreters do not ask for it.
#[tokio::test]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn a_program_reaches_nothing_outside() {
    let host = host("timeout_ms: 10000").await;
    let outside = host.canaries().folder().join("canary.txt");
    let outside = outside.to_str().unwrap();
    for code in [
        "require('fs').readFileSync('here.txt', 'utf8')".to_owned(),
        "import('fs')".to_owned(),
        "import fs from 'fs'; fs.readFileSync('here.txt')".to_owned(),
        "fetch('http://127.0.0.1:9/')".to_owned(),
        "process.env".to_owned(),
        "Deno.readTextFileSync('here.txt')".to_owned(),
        format!("new Function('return this')().open('{outside}')"),
    ] {
        let (kind, told) = failure(&host, JS, json!({"code": code})).await;
        assert!(kind == "execution-failed" && !told.contains(SECRET), "{code}: {told}");
    }
    for code in [
        "open('here.txt').read()".to_owned(),
        format!("open('{outside}').read()"),
        format!("open('{outside}', 'w').write('changed')"),
        format!("from pathlib import Path\nPath('{outside}').read_text()"),
        "import os\nos.environ".to_owned(),
        "import os\nos.listdir('/')".to_owned(),
        "import os\nos.system('id')".to_owned(),
        "import socket".to_owned(),
        "import subprocess".to_owned(),
        "import urllib.request".to_owned(),
        "__import__('os')".to_owned(),
        "eval('1')".to_owned(),
    ] {
        let (kind, told) = failure(&host, PYTHON, json!({"code": code})).await;
        assert!(kind == "execution-failed" && !told.contains(SECRET), "{code}: {told}");
    }
    host.canaries().check();
}

#[tokio::test]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn nothing_of_a_program_is_left_for_the_next() {
    let host = host("timeout_ms: 10000").await;
    for (tool, leaves, looks) in [
        (JS, "globalThis.left = 1; Array.prototype.left = 1", "[typeof left, [].left ?? null]"),
        (PYTHON, "left = 1\nimport json", "[n for n in ['left', 'json'] if n in globals()]"),
    ] {
        run(&host, tool, leaves).await.unwrap();
        let seen = run(&host, tool, looks).await.unwrap();
        let seen = seen.structured.as_ref().map_or(Value::Null, |ran| ran["result"].clone());
        assert!([json!(["undefined", null]), Value::Null].contains(&seen), "{tool}: {seen}");
    }
    let (_, told) = failure(&host, PYTHON, json!({"code": "left"})).await;
    assert!(told.contains("NameError"), "{told}");
}

#[tokio::test]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn long_output_is_cut_and_its_true_size_told() {
    let host = host("timeout_ms: 10000").await;
    for (tool, code) in [
        (JS, "for (let i = 0; i < 1024; i++) console.log('é'.repeat(512)); console.error('x'); 7"),
        (PYTHON, "for i in range(1024): print('é' * 512)\n7"),
    ] {
        let ran = host.ask(tool, json!({"code": code, "timeout_ms": 9000})).await;
        let stdout = ran["stdout"].as_str().unwrap();
        assert!((16_000..=16_384).contains(&stdout.len()), "{tool}: {}", stdout.len());
        assert_eq!((&ran["stdout_bytes"], &ran["result"]), (&json!(1_049_600), &json!(7)));
        assert_eq!(ran["stderr"], if tool == JS { "x\n" } else { "" });
    }
}

#[tokio::test]
#[cfg_attr(not(feature = "interpreters"), ignore = "built without the feature `interpreters`")]
async fn a_result_has_to_match_its_schema() {
    let host = host("timeout_ms: 10000").await;
    for (tool, code) in [(JS, "({n: 1})"), (PYTHON, "{'n': 1}")] {
        let of = |kind: &str| json!({"code": code, "result_schema": {"properties": {"n": {"type": kind}}}});
        assert_eq!(host.ask(tool, of("integer")).await["result"], json!({"n": 1}));
        let (kind, told) = failure(&host, tool, of("string")).await;
        assert_eq!(kind, "execution-failed");
        assert!(told.contains("result.n is not of type"), "{told}");
        let unknown = json!({"code": code, "result_schema": {"pattern": "a"}});
        let (kind, told) = failure(&host, tool, unknown).await;
        assert!(kind == "invalid-args" && told.contains("pattern"), "{kind}: {told}");
    }
}

#[tokio::test]
#[cfg_attr(feature = "interpreters", ignore = "built with the feature `interpreters`")]
async fn without_interpreters_a_manifest_that_binds_one_is_told_so() {
    let host = TestHost::builder().only(&["js-exec", "read-file"]).build().await;
    assert_eq!(host.names(), ["read_file"]);
    let refused = host.refused();
    assert!(refused.contains("`js_exec`") && refused.contains("without interpreters"), "{refused}");
}
