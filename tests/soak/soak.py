#!/usr/bin/env python3
"""Calls one host over HTTP until it has had CALLS calls, and asserts that it is as it was.

    CALLS=1000000 SESSIONS=1000 tests/soak/run.sh [CLAWHOST]

Sessions come and go, some beside each other, of four agents. Most calls are answered with what they were
asked; the others crash, run out of time, are denied, are wrong or call what is not there, while the
documents are reloaded. Held to: every answer is that of its own call, every call has one pair of records,
the log verifies, and the host has neither grown nor kept a descriptor or a process.

This is for a release: `tests/it/soak.rs` is the small one that every run of the tests has, over standard input and
output, and `tests/proxy/overhead.py --soak` the one of the proxy, whose requests go to a model.
"""

import asyncio
import itertools
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent.parent / "host/docs/soak.md"
CALLS = int(os.environ.get("CALLS", 1_000_000))
SESSIONS = int(os.environ.get("SESSIONS", 1_000))
AGENTS = ["ada", "bob", "cyd", "dan"]
# Sessions at a time, of the 64 that a host has.
BESIDE = 48
# How often the host is looked at, and after how many looks everything that it keeps has been made.
TENTHS = 10
WARM_AFTER = 2
RELOAD_S = 5
# What the host may have more at the end than when it was warm.
ANON_KIB_MAX = 24 << 10
DESCRIPTORS_MAX = 8
REVISION = "2025-11-25"

TOOL = """(component
  (core module $m (func (export "f") (param i32) (result i32) {code}))
  (core instance $i (instantiate $m))
  (func (export "{name}") (param "n" u32) (result u32) (canon lift (core func $i "f"))))
"""
TOOLS = {
    "echo": "local.get 0",
    "crash": "unreachable",
    "spin": "(loop $on (br $on)) i32.const 0",
}
CLAW = """claw: "0.3.0"
kind: Claw
metadata: {{name: soak}}
spec:
  identity: {{inline: {{personality: Soaks., autonomy: autonomous}}}}
  providers:
    - inline: {{protocol: openai-compatible, endpoint: "http://127.0.0.1:11434/v1", model: any, auth: {{type: none}}}}
  sandbox:
    inline:
      level: wasm
      capabilities: {{filesystem: {{mode: scoped, mount_paths: [{{path: ./workspace, permissions: rw}}]}}}}
      resource_limits: {{timeout_ms: {timeout}}}
  tools:
    - {{name: read-file}}
    - {{name: write-file}}
    - {{name: echo}}
    - {{name: crash}}
    - inline: {{name: spin, description: Spins., input_schema: {{type: object}}, timeout_ms: 20}}
  policies:
    - inline:
        name: rules
        rules:
          - {{id: no-writing, action: deny, scope: tool, match: {{name: write-file}}}}
          - {{id: rest, action: allow, scope: all}}
"""
RUNTIME = f"""version: 1
agents: [{", ".join("{ name: " + name + " }" for name in AGENTS)}]
tools: {{ directory: tools }}
immune: {{ enabled: false }}
"""


def kind(number):
    """Says what the call of a number is: a tool, its arguments, and what its answer has to show."""
    match number % 1_000:
        case 0 if number % 2_000 == 0:
            return "spin", {"n": 1}, "timeout", "-32014"
        case n if n < 20:
            return "crash", {"n": number % 9}, "crash", "crashed"
        case n if n < 50:
            return "write_file", {"path": f"{number}.txt", "content": "x"}, "denied", "-32011"
        case n if n < 80:
            return "read_file", {"path": f"gone-{number}.txt"}, "failed", f"gone-{number}.txt"
        case n if n < 100:
            return "read_file", {"path": number}, "invalid", "-32602"
        case n if n < 110:
            return f"no_such_{number}", {}, "unknown", f"no_such_{number}"
        case n if n < 150:
            return "read_file", {"path": "hello.txt"}, "ok", "hello from the soak"
    return "echo", {"n": number}, "ok", str(number)


class Session:
    """One session of MCP on one connection."""

    def __init__(self, port, token, number):
        self.port, self.token, self.number, self.id = port, token, number, None

    async def open(self):
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        client = {"name": f"soak-{self.number}", "version": "1"}
        hello = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client}
        await self.ask({"id": "hello", "method": "initialize", "params": hello})
        assert self.id, "no session"
        await self.ask({"method": "notifications/initialized"})

    async def ask(self, message, verb="POST"):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode() if message else b""
        session = f"mcp-session-id: {self.id}\r\nmcp-protocol-version: {REVISION}\r\n" if self.id else ""
        self.writer.write(
            f"{verb} /mcp HTTP/1.1\r\nhost: 127.0.0.1:{self.port}\r\nauthorization: Bearer {self.token}\r\n"
            f"content-type: application/json\r\naccept: application/json, text/event-stream\r\n{session}"
            f"content-length: {len(body)}\r\n\r\n".encode() + body
        )
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode().lower()
        assert head.split(" ", 2)[1][0] == "2", head
        if named := re.search(r"mcp-session-id: (\S+)", head):
            self.id = named[1]
        if length := re.search(r"content-length: (\d+)", head):
            body = await self.reader.readexactly(int(length[1]))
        elif "transfer-encoding: chunked" in head:
            body = await self.chunks()
        else:
            body = b""
        if "text/event-stream" in head:
            lines = [line[5:].strip() for line in body.decode().splitlines() if line.startswith("data:")]
            return next((m for m in map(json.loads, filter(None, lines)) if "method" not in m), None)
        return json.loads(body) if body else None

    async def chunks(self):
        body = b""
        while size := int(await self.reader.readuntil(b"\r\n"), 16):
            body += await self.reader.readexactly(size)
            await self.reader.readexactly(2)
        await self.reader.readexactly(2)
        return body

    async def call(self, number):
        tool, arguments, outcome, shows = kind(number)
        call = {"name": tool, "arguments": arguments}
        answer = await self.ask({"id": number, "method": "tools/call", "params": call})
        assert answer and answer["id"] == number, f"call {number} has the answer {answer}"
        is_good = answer.get("result", {}).get("isError") is not True and "error" not in answer
        said = json.dumps(answer)
        assert is_good == (outcome == "ok") and shows in said, f"call {number} of {tool}: {said}"
        if tool == "echo":
            assert answer["result"]["structuredContent"] == {"result": number}, said
        return outcome

    async def close(self):
        await self.ask(None, "DELETE")
        self.writer.close()
        await self.writer.wait_closed()


class Host:
    """The host, and what it takes of its machine."""

    def __init__(self, program, folder):
        self.folder, self.reloads = folder, 0
        (folder / "workspace").mkdir()
        (folder / "workspace/hello.txt").write_text("hello from the soak")
        (folder / "tools").mkdir()
        for name, code in TOOLS.items():
            (folder / f"tools/{name}.wat").write_text(TOOL.format(name=name, code=code))
        (folder / "clawhost.yaml").write_text(RUNTIME)
        self.write(0)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.program = program
        run = [program, "run", "claw.yaml", "--http", f"127.0.0.1:{self.port}", "--state", "state"]
        self.log = open(folder / "host.log", "w")
        self.process = subprocess.Popen(run, cwd=folder, stdout=self.log, stderr=self.log)
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    break
            time.sleep(0.1)
        self.tokens = json.loads((folder / "state/credentials.json").read_text())["agents"]

    def write(self, turn):
        (self.folder / "claw.yaml").write_text(CLAW.format(timeout=20_000 + turn % 2))

    async def reload(self):
        while True:
            await asyncio.sleep(RELOAD_S)
            self.reloads += 1
            self.write(self.reloads)
            self.process.send_signal(signal.SIGHUP)

    def footprint(self):
        own = pathlib.Path(f"/proc/{self.process.pid}")
        kib = dict(re.findall(r"(RssAnon|VmRSS|VmHWM):\s+(\d+) kB", (own / "status").read_text()))
        children = [(own / f"task/{thread.name}/children").read_text() for thread in (own / "task").iterdir()]
        descriptors = len(list((own / "fd").iterdir()))
        return {"anon": int(kib["RssAnon"]), "rss": int(kib["VmRSS"]), "peak": int(kib["VmHWM"]),
                "descriptors": descriptors, "children": len(" ".join(children).split())}

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(timeout=60) == 0, (self.folder / "host.log").read_text()[-4000:]


class Soak:
    """All calls, in sessions that a few clients open one after the other."""

    def __init__(self, host):
        self.host, self.numbers, self.sessions = host, itertools.count(), itertools.count()
        self.outcomes, self.prints, self.done = {}, [], 0

    async def client(self, calls_each):
        while (number := next(self.sessions)) < SESSIONS:
            token = self.host.tokens[AGENTS[number % len(AGENTS)]]
            session = Session(self.host.port, token, number)
            await session.open()
            for _ in range(calls_each):
                outcome = await session.call(next(self.numbers))
                self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
                self.done += 1
                if self.done % (CALLS // TENTHS) == 0:
                    self.prints.append(self.host.footprint())
                    print(f"{self.done:,}: {self.prints[-1]}", file=sys.stderr, flush=True)
            await session.close()

    async def run(self):
        reloads = asyncio.create_task(self.host.reload())
        await asyncio.gather(*(self.client(CALLS // SESSIONS) for _ in range(BESIDE)))
        reloads.cancel()


def check(host, soak):
    """Asserts what has to hold, and returns the rows of the table."""
    warm, after = soak.prints[WARM_AFTER - 1], soak.prints[-1]
    assert after["anon"] < warm["anon"] + ANON_KIB_MAX, f"it grew: {warm}, then {after}"
    assert after["descriptors"] < warm["descriptors"] + DESCRIPTORS_MAX, f"{warm}, then {after}"
    assert after["children"] == 0, after
    host.end()
    calls, events = {}, {}
    for file in sorted((host.folder / "state/audit").glob("*.jsonl*")):
        for line in open(file, "rb"):
            record = json.loads(line)
            event = record["event"]
            events[event] = events.get(event, 0) + 1
            if event in ("call.received", "call.finished"):
                calls[record["call"]] = calls.get(record["call"], 0) + (1 if event == "call.received" else -1)
    assert len(calls) == soak.done == CALLS and not any(calls.values()), (len(calls), soak.done)
    assert events["call.received"] == events["call.finished"] == CALLS, events
    # One may have been under way at the end.
    assert events.get("host.reloaded", 0) >= host.reloads - 1, (events, host.reloads)
    verified = subprocess.run(
        [host.program, "audit", "verify", "--state", host.folder / "state"], capture_output=True, text=True
    )
    assert verified.returncode == 0, verified.stdout + verified.stderr
    return warm, after, events


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as folder:
        host = Host(program, pathlib.Path(folder))
        try:
            soak, started = Soak(host), time.monotonic()
            asyncio.run(soak.run())
            took = time.monotonic() - started
            warm, after, events = check(host, soak)
        finally:
            host.process.kill()
    rows = {
        "calls, sessions": f"{CALLS:,}, {SESSIONS:,}",
        "of them": ", ".join(f"{count:,} {name}" for name, count in sorted(soak.outcomes.items())),
        "reloads meanwhile": f"{host.reloads:,}",
        "answers that were another call's": "0",
        "records": f"{sum(events.values()):,}; two a call, verified",
        "memory of its own, warm and at the end": f"{warm['anon'] >> 10} MiB, {after['anon'] >> 10} MiB",
        "resident at most": f"{after['peak'] >> 10} MiB",
        "descriptors, warm and at the end": f"{warm['descriptors']}, {after['descriptors']}",
        "processes left": f"{after['children']}",
    }
    table = "\n".join(["| What | Measured |", "|---|---|"] + [f"| {what} | {it} |" for what, it in rows.items()])
    print(f"{table}\n{CALLS / took:,.0f} calls a second")
    if CALLS >= 1_000_000:
        before, _, rest = PAGE.read_text().partition("<!-- soak -->\n")
        _, _, rest = rest.partition("<!-- /soak -->")
        PAGE.write_text(f"{before}<!-- soak -->\n{table}\n<!-- /soak -->{rest}")


if __name__ == "__main__":
    main()
