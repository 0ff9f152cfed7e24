#!/usr/bin/python3
"""What the bridge costs a call: the same calls of the same server, directly and through a host, in turns.

    tests/conformance/overhead.py [CLAWHOST] [CALLS]

Both speak over standard input and output. The host's way is the whole path: gate, records, filter.
Prints a table of the times of one call in microseconds, and the ratio of the medians.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
TURNS = 10
SHAPES = {
    "a short text": ("test_simple_text", {}),
    "a picture": ("test_image_content", {}),
    "several blocks": ("test_multiple_content_types", {}),
}


class Server:
    def __init__(self, command, cwd):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        self.process = subprocess.Popen(command, cwd=cwd, **pipes)
        self.asked = 0
        client = {"name": "overhead", "version": "1"}
        self.ask("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client})
        self.say({"method": "notifications/initialized"})

    def say(self, message):
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.asked += 1
        self.say({"id": self.asked, "method": method, "params": params})
        while True:
            message = json.loads(self.process.stdout.readline())
            if message.get("id") == self.asked and "method" not in message:
                return message

    def call(self, name, arguments):
        """Returns how long a call takes, in microseconds."""
        started = time.perf_counter_ns()
        answer = self.ask("tools/call", {"name": name, "arguments": arguments})
        took = (time.perf_counter_ns() - started) / 1000
        assert not answer["result"].get("isError"), answer
        return took

    def end(self):
        self.process.stdin.close()
        self.process.wait(timeout=30)


def main():
    program = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "target/debug/clawhost").resolve()
    calls = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    with tempfile.TemporaryDirectory() as state:
        mcp = HERE / "mcp"
        run = [program, "run", mcp / "bridged", mcp / "servers.yaml", "--state", state, "--stdio"]
        servers = {"direct": Server(["/usr/bin/python3", "upstream.py"], mcp), "bridged": Server(run, mcp)}
        print(f"{'one call':<16}{'way':<9}{'p50 us':>9}{'p99 us':>9}{'ratio':>7}{'more us':>9}")
        for shape, (name, arguments) in SHAPES.items():
            took = {way: [] for way in servers}
            for server in servers.values():
                server.call(name, arguments)
            for _ in range(TURNS):
                for way, server in servers.items():
                    took[way] += [server.call(name, arguments) for _ in range(calls // TURNS)]
            direct = statistics.median(took["direct"])
            for way, times in took.items():
                times.sort()
                median = statistics.median(times)
                print(f"{shape:<16}{way:<9}{median:>9.0f}{times[len(times) * 99 // 100]:>9.0f}"
                      f"{median / direct:>7.2f}{median - direct:>9.0f}")
        for server in servers.values():
            server.end()


if __name__ == "__main__":
    main()
