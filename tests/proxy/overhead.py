"""What the proxy adds where the host has no tools to add: the same requests to a model directly and through a
host, by turns in one run, and 200 streams at once. Prints a line a measurement; asserts nothing about time.

With --soak the requests go through the host only, eight at a time, of four agents and many conversations; most
bytes pass, every tenth turn calls a tool of the host and is kept, every twentieth streams, every fiftieth is
refused by its provider. Then memory and descriptors are printed at ten points, and it fails where the last is a
quarter above the second: by then pools and caches are warm. It shows that conversations leave nothing behind;
`tests/soak` shows it of calls and sessions.

Usage: overhead.py CLAWHOST [--requests N] [--soak]. Needs nothing but Python.
"""

import argparse
import asyncio
import itertools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

READER = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
READER.add_argument("program", type=pathlib.Path)
READER.add_argument("--requests", type=int, default=1000)
READER.add_argument("--soak", action="store_true")
GIVEN = READER.parse_args()
PROGRAM, REQUESTS, SOAK = GIVEN.program.resolve(), GIVEN.requests, GIVEN.soak
AGENTS = [f"agent-{number}" for number in range(4)]
STREAMS = 200
EVENTS = 20
ANSWER = json.dumps({
    "id": "c", "object": "chat.completion", "created": 1, "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "x" * 1000}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20},
}).encode()
EVENT = b'data: {"choices":[{"index":0,"delta":{"content":"word "}}]}\n\n'
HEAD = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-type: "
CALL = json.loads(ANSWER)
CALL["choices"][0]["message"]["tool_calls"] = [
    {"id": "c", "type": "function", "function": {"name": "calculator", "arguments": '{"expression": "6 * 7"}'}}
]
SOAKING_AT_ONCE = 8
SOAK_POINTS = 10
CONVERSATIONS = 1000


async def model(reader, writer):
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    body = json.loads(await reader.readexactly(length))
    last = body["messages"][-1]
    if last["content"] == "refuse":
        writer.write(b"HTTP/1.1 503 -\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
    elif last["content"] == "call" and "tools" in body:
        said = json.dumps(CALL).encode()
        writer.write(HEAD + b"application/json\r\ncontent-length: %d\r\n\r\n" % len(said) + said)
    elif body.get("stream"):
        writer.write(HEAD + b"text/event-stream\r\n\r\n")
        for _ in range(EVENTS):
            writer.write(EVENT)
            await writer.drain()
            await asyncio.sleep(0 if SOAK else 0.05)
        writer.write(b"data: [DONE]\n\n")
    else:
        writer.write(HEAD + b"application/json\r\ncontent-length: %d\r\n\r\n" % len(ANSWER) + ANSWER)
    await writer.drain()
    writer.close()


async def ask(port, key, stream=False, said="x" * 500, conversation="", status=b"200"):
    """Returns the milliseconds until the first byte of the answer, and until its last."""
    body = json.dumps({"model": "m", "stream": stream, "messages": [{"role": "user", "content": said}]}).encode()
    begun = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nconnection: close\r\nauthorization: Bearer %s\r\n"
        b"content-type: application/json\r\nx-conversation-id: %s\r\ncontent-length: %d\r\n\r\n"
        % (port, key.encode(), conversation.encode(), len(body)) + body
    )
    first = await reader.read(1)
    began = time.perf_counter()
    rest = await reader.read()
    writer.close()
    assert (first + rest).startswith(b"HTTP/1.1 " + status), (first + rest)[:500]
    assert not stream or rest.count(b"data: {") == EVENTS, rest
    return (began - begun) * 1000, (time.perf_counter() - begun) * 1000


def at(values, part):
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]


def resident_kib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def descriptors(pid):
    return len(list(pathlib.Path(f"/proc/{pid}/fd").iterdir()))


async def soak(through, keys, pid):
    """Asks REQUESTS times and prints ten times what the host holds; a host that grows fails."""
    numbers, points, begun = itertools.count(), [], time.perf_counter()

    async def worker():
        for number in iter(lambda: next(numbers), None):
            if number >= REQUESTS:
                return
            # The first of the agents has tools; its turns are those with calls in them.
            calls, conversation = number % 10 == 0, f"c{number % CONVERSATIONS}"
            key = keys[0] if calls else keys[1 + number % (len(keys) - 1)]
            if number % 50 == 7:
                await ask(through, key, said="refuse", conversation=conversation, status=b"502")
            else:
                said = "call" if calls else "x" * 500
                await ask(through, key, number % 20 == 3, said, conversation)
            if (number + 1) % max(REQUESTS // SOAK_POINTS, 1) == 0:
                points.append(resident_kib(pid))
                print(f"{number + 1:8} requests   {points[-1]:8} KiB   {descriptors(pid):4} descriptors", flush=True)

    await asyncio.gather(*(worker() for _ in range(SOAKING_AT_ONCE)))
    took = time.perf_counter() - begun
    print(f"{REQUESTS} requests in {took:.0f} s, {REQUESTS / took:.0f} a second")
    assert len(points) < 3 or points[-1] < points[1] * 1.25, "the host grows"


async def measure(direct, through, keys, pid):
    for _ in range(50):
        await ask(direct, "x")
        await ask(through, keys[0])
    before = resident_kib(pid)
    times = {"direct": [], "through": []}
    for _ in range(REQUESTS):
        times["direct"].append((await ask(direct, "x"))[1])
        times["through"].append((await ask(through, keys[0]))[1])
    for name, values in times.items():
        print(f"{name:8} p50 {at(values, 0.5):7.2f} ms   p99 {at(values, 0.99):7.2f} ms")
    added = [at(times["through"], part) - at(times["direct"], part) for part in (0.5, 0.99)]
    print(f"added    p50 {added[0]:7.2f} ms   p99 {added[1]:7.2f} ms   ({REQUESTS} requests each)")
    print(f"memory   {before} KiB before them, {resident_kib(pid)} KiB after")
    for name, port in (("direct", direct), ("through", through)):
        streams = (ask(port, keys[number % len(keys)], True) for number in range(STREAMS))
        begun = time.perf_counter()
        done = await asyncio.gather(*streams)
        took = time.perf_counter() - begun
        firsts = [first for first, _ in done]
        print(
            f"{STREAMS} streams {name:8} all whole after {took:5.2f} s; first byte p50 {at(firsts, 0.5):7.1f} ms,"
            f" p99 {at(firsts, 0.99):7.1f} ms"
        )
    print(f"memory   {resident_kib(pid)} KiB at the end")


async def main():
    server = await asyncio.start_server(model, "127.0.0.1", 0, backlog=512)
    direct = server.sockets[0].getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "claw.yaml").write_text(f"""claw: "0.3.0"
kind: Claw
metadata: {{name: overhead}}
spec:
  identity: {{inline: {{personality: Measured., autonomy: autonomous}}}}
  providers: [{{inline: {{protocol: openai-compatible, name: m, endpoint: "http://127.0.0.1:{direct}/v1", model: m, auth: {{type: none}}}}}}]
  {"tools: [{name: calculator, sandbox: claw://sandbox/none}]" if SOAK else "tools: []"}
  policies: [{{inline: {{name: some, rules: [{{id: some, action: {"allow" if SOAK else "deny"}, scope: all}}]}}}}]
""")
        skill = "---\nname: none\ndescription: Has no tools.\nallowed_tools: [nothing]\n---\nNone.\n"
        (folder / "none.md").write_text(skill)
        skills = lambda name: {"skills": ["none.md"]} if SOAK and name != AGENTS[0] else {}

        (folder / "clawhost.yaml").write_text(
            f"version: 1\nproxy: {{history: {str(SOAK).lower()}}}\nagents: "
            + json.dumps([{"name": name, **skills(name)} for name in AGENTS])
        )
        command = [PROGRAM, "proxy", "claw.yaml", "--http", "127.0.0.1:0", "--state", "state"]
        surroundings = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
        host = subprocess.Popen(command, cwd=folder, env=surroundings, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL if SOAK else None)
        try:
            for line in host.stdout:
                if "serving MCP on http://" in line:
                    through = int(line.split("http://127.0.0.1:")[1].split("/")[0])
                    break
            agents = json.loads((folder / "state/credentials.json").read_text())["agents"]
            keys = [agents[name] for name in AGENTS]
            await (soak(through, keys, host.pid) if SOAK else measure(direct, through, keys, host.pid))
        finally:
            host.terminate()
            host.wait()


asyncio.run(main())
