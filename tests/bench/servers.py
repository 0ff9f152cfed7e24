"""Servers that are measured beside each other, spoken to with bytes that are made before the clock starts."""

import json
import os
import pathlib
import re
import select
import socket
import subprocess
import time

# A server that has not started by then does not.
START_S = 60
ABOUT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}


def message(method, params=None, number=None):
    whole = {"jsonrpc": "2.0", "method": method, "params": params or {}}
    return json.dumps(whole if number is None else {**whole, "id": number}).encode()


def call(tool, arguments, number=7):
    return message("tools/call", {"name": tool, "arguments": arguments}, number)


OPENING = b"\n".join([message("initialize", ABOUT, 1), message("notifications/initialized"),
                      message("tools/list", None, 2), b""])


class Stdio:
    """A server on pipes, from its start to the names of its tools."""

    def __init__(self, command, cwd=None, env=None):
        begun = time.perf_counter_ns()
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, cwd=cwd, env=env and {**os.environ, **env}, bufsize=0, **pipes)
        self.to, self.of, self.rest = self.process.stdin.fileno(), self.process.stdout.fileno(), b""
        os.write(self.to, OPENING)
        self.answer()
        listed, until = self.answer(), time.monotonic() + START_S
        while b'"tools":[]' in listed and time.monotonic() < until:
            # One that lists before it has loaded is started when it has.
            time.sleep(0.001)
            os.write(self.to, message("tools/list", None, 2) + b"\n")
            listed = self.answer()
        self.start_ms = (time.perf_counter_ns() - begun) / 1e6
        self.tools = [tool["name"] for tool in json.loads(listed)["result"]["tools"]]

    def answer(self):
        """Returns the next line that answers something."""
        while True:
            line, end, after = self.rest.partition(b"\n")
            if end:
                self.rest = after
                if b'"result"' in line or b'"error"' in line:
                    return line
                continue
            more = os.read(self.of, 1 << 16)
            if not more:
                raise EOFError("the server ended")
            self.rest += more

    def times(self, line, calls, may_fail=False):
        """Makes calls one after the other and returns how long each took, in microseconds."""
        took, line = [], line + b"\n"
        for _ in range(calls):
            begun = time.perf_counter_ns()
            os.write(self.to, line)
            answer = self.answer()
            took.append((time.perf_counter_ns() - begun) / 1e3)
        assert may_fail or b'"result"' in answer and b'"isError":true' not in answer, answer[:300]
        return took

    def memory_kib(self):
        """Returns what it has of memory, and how much of that is in no file."""
        text = pathlib.Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return tuple(int(re.search(rf"^{key}: *(\d+)", text, re.M)[1]) for key in ("Rss", "Anonymous"))

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(3)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Http:
    """A server on streamable HTTP, with any number of connections that stay open."""

    def __init__(self, command, cwd=None, env=None, port=None, told=None, path="/mcp"):
        out = subprocess.PIPE if told else subprocess.DEVNULL
        self.process = subprocess.Popen(command, cwd=cwd, env=env and {**os.environ, **env}, stdin=subprocess.DEVNULL,
                                        stdout=out, stderr=subprocess.DEVNULL, text=True)
        self.path, self.extra = path, ""
        if told:
            port = next(int(told.search(line)[1]) for line in self.process.stdout if told.search(line))
        self.port = port
        until = time.monotonic() + START_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.02)
        said = self.once(message("initialize", ABOUT, 1))
        session = re.search(rb"(?i)\r\nmcp-session-id: *([^\r]+)", said)
        self.extra = "MCP-Protocol-Version: 2025-11-25\r\n"
        self.extra += f"Mcp-Session-Id: {session[1].decode()}\r\n" if session else ""
        self.once(message("notifications/initialized"))

    def request(self, body):
        head = (f"POST {self.path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nContent-Type: application/json\r\n"
                f"Accept: application/json, text/event-stream\r\n{self.extra}Content-Length: {len(body)}\r\n\r\n")
        return head.encode() + body

    def once(self, body):
        with socket.create_connection(("127.0.0.1", self.port)) as wire:
            wire.sendall(self.request(body))
            said = b""
            while not whole(said):
                more = wire.recv(1 << 16)
                assert more, said[:300]
                said += more
        assert said.startswith(b"HTTP/1.1 2"), said[:500]
        return said

    def load(self, tool, arguments, connections, seconds):
        """Keeps one call going on each connection. Returns calls a second, and how long each took in microseconds."""
        took, poll, open_ = [], select.epoll(), {}
        for number in range(connections):
            # All are of one session, in which an id is one call's.
            request = self.request(call(tool, arguments, 100 + number))
            wire = socket.create_connection(("127.0.0.1", self.port))
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            open_[wire.fileno()] = [wire, time.perf_counter_ns(), b"", request]
            poll.register(wire.fileno(), select.EPOLLIN)
            wire.send(request)
        begun = last = time.perf_counter_ns()
        while open_:
            for number, _ in poll.poll(5):
                one = open_[number]
                one[2] += one[0].recv(1 << 16)
                if not whole(one[2]):
                    continue
                assert b'"result"' in one[2], one[2][:300]
                now = time.perf_counter_ns()
                if now - begun >= seconds * 1e9:
                    # Its answer is awaited all the same: who hangs up before has a place until that is seen.
                    poll.unregister(number)
                    open_.pop(number)[0].close()
                    continue
                took.append((now - one[1]) / 1e3)
                one[1], one[2], last = now, b"", now
                one[0].send(one[3])
        return len(took) * 1e9 / (last - begun), took

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def whole(said):
    """Says whether a reply is all there."""
    head, end, body = said.partition(b"\r\n\r\n")
    if not end:
        return False
    length = re.search(rb"(?i)content-length: *(\d+)", head)
    return len(body) >= int(length[1]) if length else body.endswith(b"0\r\n\r\n") or head.startswith(b"HTTP/1.1 202")


def wassette(folder):
    """Returns how the last wassette is run here, or why it is not."""
    program = folder / "wassette/wassette_cli/wassette"
    if not program.exists():
        return None, "its package could not be installed"
    program.chmod(0o755)
    command = [program]
    if libc := os.environ.get("BENCH_LIBC"):
        # It wants a newer C library than some systems have: that folder of one, and the system's for the rest.
        loader = pathlib.Path(libc) / "ld-linux-x86-64.so.2"
        command = [loader, "--library-path", f"{libc}:/usr/lib/x86_64-linux-gnu", program]
    if subprocess.run([*command, "--version"], capture_output=True).returncode != 0:
        return None, "it needs glibc 2.39: say in BENCH_LIBC which folder has one"
    return command, None


