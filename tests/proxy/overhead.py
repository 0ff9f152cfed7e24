"""What the proxy adds where the host has no tools to add: the same requests to a model directly and through a
host, by turns in one run, and 200 streams at once. Prints a line a measurement; asserts nothing about time.

Usage: overhead.py CLAWHOST [REQUESTS]. Needs nothing but Python.
"""

import asyncio
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
REQUESTS = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
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


async def model(reader, writer):
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    body = json.loads(await reader.readexactly(length))
    if body.get("stream"):
        writer.write(HEAD + b"text/event-stream\r\n\r\n")
        for _ in range(EVENTS):
            writer.write(EVENT)
            await writer.drain()
            await asyncio.sleep(0.05)
        writer.write(b"data: [DONE]\n\n")
    else:
        writer.write(HEAD + b"application/json\r\ncontent-length: %d\r\n\r\n" % len(ANSWER) + ANSWER)
    await writer.drain()
    writer.close()


async def ask(port, key, stream=False):
    """Returns the milliseconds until the first byte of the answer, and until its last."""
    body = json.dumps({"model": "m", "stream": stream, "messages": [{"role": "user", "content": "x" * 500}]}).encode()
    begun = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        b"POST /v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1:%d\r\nconnection: close\r\nauthorization: Bearer %s\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % (port, key.encode(), len(body)) + body
    )
    first = await reader.read(1)
    began = time.perf_counter()
    rest = await reader.read()
    writer.close()
    assert (first + rest).startswith(b"HTTP/1.1 200"), (first + rest)[:500]
    assert not stream or rest.count(b"data: {") == EVENTS, rest
    return (began - begun) * 1000, (time.perf_counter() - begun) * 1000


def at(values, part):
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]


def resident_kib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


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
  policies: [{{inline: {{name: none, rules: [{{id: none, action: deny, scope: all}}]}}}}]
""")
        (folder / "clawhost.yaml").write_text(
            "version: 1\nproxy: {history: false}\nagents: " + json.dumps([{"name": name} for name in AGENTS])
        )
        command = [PROGRAM, "proxy", "claw.yaml", "--http", "127.0.0.1:0", "--state", "state"]
        surroundings = {"PATH": os.environ["PATH"], "HOME": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
        host = subprocess.Popen(command, cwd=folder, env=surroundings, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        try:
            for line in host.stdout:
                if "serving MCP on http://" in line:
                    through = int(line.split("http://127.0.0.1:")[1].split("/")[0])
                    break
            keys = list(json.loads((folder / "state/credentials.json").read_text())["agents"].values())
            await measure(direct, through, keys, host.pid)
        finally:
            host.terminate()
            host.wait()


asyncio.run(main())
