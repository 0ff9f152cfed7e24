#!/usr/bin/python3
"""What the bridge costs a call: the same calls of the same server, directly and through a host, in turns.

    tests/conformance/overhead.py [CLAWHOST] [CALLS]

Both speak over standard input and output. The host's way is the whole path: gate, records, filter.
Prints a table of the times of one call in microseconds, and the ratio of the medians.
"""

import pathlib
import statistics
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "bench"))
from servers import Stdio, call  # noqa: E402

TURNS = 10
SHAPES = {
    "a short text": ("test_simple_text", {}),
    "a picture": ("test_image_content", {}),
    "several blocks": ("test_multiple_content_types", {}),
}


def main():
    program = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "target/debug/clawhost").resolve()
    calls = int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    with tempfile.TemporaryDirectory() as state:
        mcp = HERE / "mcp"
        run = [program, "run", mcp / "bridged", mcp / "servers.yaml", "--state", state, "--stdio"]
        servers = {"direct": Stdio(["/usr/bin/python3", "upstream.py"], mcp), "bridged": Stdio(run, mcp)}
        print(f"{'one call':<16}{'way':<9}{'p50 us':>9}{'p99 us':>9}{'ratio':>7}{'more us':>9}")
        for shape, (name, arguments) in SHAPES.items():
            took = {way: [] for way in servers}
            line = call(name, arguments)
            for server in servers.values():
                server.times(line, 1)
            for _ in range(TURNS):
                for way, server in servers.items():
                    took[way] += server.times(line, calls // TURNS)
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
