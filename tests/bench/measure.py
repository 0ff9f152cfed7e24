"""What is measured, each beside its peers in turns within one run."""

import os
import pathlib
import re
import shutil
import statistics
import subprocess
import time

from servers import Http, Stdio, call, wassette

HERE = pathlib.Path(__file__).resolve().parent
TREE = HERE.parent.parent
TEXT = {"text": "What is said is answered."}
TWELVE_BYTES = "twelve bytes"
ROUNDS = 10
# Calls of a server in one of the rounds: a slow one makes fewer.
CALLS = 300
SECONDS_A_LOAD = 2
CONNECTIONS = (1, 8, 64)
STARTS = 15
MANIFEST = """claw: "0.3.0"
kind: Claw
metadata: {name: bench}
spec:
  identity: {inline: {personality: Is measured., autonomy: autonomous}}
  providers:
    - inline: {protocol: openai-compatible, endpoint: "http://127.0.0.1:9/v1", model: none, auth: {type: none}}
  tools:
%s    - {name: text-echo}
  policies:
    - inline: {name: everything, rules: [{id: everything, action: allow, scope: all}]}
"""
BUILT_IN = ["read-file", "write-file", "edit-file", "list-directory", "search-files", "wasm-shell",
            "memory-read", "memory-write", "calculator", "web-fetch"]
# A call of each tool that runs its code, whatever it answers.
EACH_TOOL = {"read_file": {"path": "file.txt"}, "write_file": {"path": "new.txt", "content": "a"},
             "edit_file": {"path": "new.txt", "old_text": "a", "new_text": "b"}, "list_directory": {"path": "."},
             "search_files": {"text": "twelve"}, "wasm_shell": {"command": "echo a"}, "memory_read": {},
             "memory_write": {"content": "a"}, "calculator": {"expression": "6*7"},
             "web_fetch": {"url": "https://example.com/"}, "text_echo": TEXT}
ECHO = TREE / "guest-tools/examples/wat/functions.wat"
SERVING = re.compile(r"serving MCP on http://[^:]+:(\d+)/")


def median(values):
    return statistics.median(values)


def at(values, part):
    values = sorted(values)
    return values[min(int(len(values) * part), len(values) - 1)]


def ratio(above, below):
    """Returns the median of the ratios of what was measured in the same round."""
    return median([median(a) / median(b) for a, b in zip(above, below)])


class Ours:
    """A folder with what clawhost serves, and how it is started."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        (folder / "workspace").mkdir()
        (folder / "workspace/file.txt").write_text(TWELVE_BYTES)
        (folder / "tools").mkdir()
        (folder / "tools/functions.wat").write_bytes(ECHO.read_bytes())
        tools = "".join(f"    - {{name: {name}, sandbox: claw://sandbox/workspace}}\n" for name in BUILT_IN)
        (folder / "claw.yaml").write_text(MANIFEST % tools)
        (folder / "clawhost.yaml").write_text("version: 1\ntools: {directory: ./tools}\n")
        state = {"XDG_STATE_HOME": f"{folder}/state", "XDG_CACHE_HOME": f"{folder}/cache"}
        run = [program, "run", "claw.yaml"]
        self.stdio = {"clawhost": ([*run, "--stdio"], state)}
        self.http = {"clawhost": ([*run, "--http", "127.0.0.1:0", "--no-auth"], state, {"told": SERVING})}

    def start(self, name):
        command, env = self.stdio[name]
        return Stdio(command, self.folder, env)

    def start_http(self, name):
        command, env, more = self.http[name]
        return Http(command, self.folder, env, **more)


class World(Ours):
    """The same, and its peers: the program of the plain release build is one, where there is an ordered one."""

    def __init__(self, builds, peers, folder):
        ordered, plain = builds.parent / "ordered/clawhost", builds / "clawhost-under-test"
        super().__init__(ordered if ordered.exists() else plain, folder)
        self.skipped, self.floor = {}, builds / "examples/floor"
        if ordered.exists():
            (_, *rest), state = self.stdio["clawhost"]
            self.stdio["plain"] = ([plain, *rest], state)
        else:
            self.skipped["plain"] = "it is what was measured, as there is no ordered one: tests/bench/ordered.sh"
        binary = subprocess.run([self.floor, ECHO], capture_output=True, check=True).stdout
        (folder / "components").mkdir()
        (folder / "components/functions.wasm").write_bytes(binary)
        self.stdio["floor"] = ([self.floor], None)
        node = peers / "node/node_modules/@modelcontextprotocol"
        everything, files = (node / f"server-{name}/dist/index.js" for name in ("everything", "filesystem"))
        if everything.exists():
            self.stdio["everything"] = (["node", everything, "stdio"], None)
            self.http["everything"] = (["node", everything, "streamableHttp"], {"PORT": "7391"}, {"port": 7391})
            self.stdio["filesystem"] = (["node", files, folder / "workspace"], None)
        else:
            self.skipped["everything"] = self.skipped["filesystem"] = "npm or its registry is not there"
        command, why = wassette(peers)
        if command:
            place = ["--component-dir", folder / "components"]
            self.stdio["wassette"] = ([*command, "run", *place, "--disable-builtin-tools"], None)
            self.http["wassette"] = ([*command, "serve", "--streamable-http", "--bind-address", "127.0.0.1:7392",
                                      "--disable-builtin-tools", *place], None, {"port": 7392})
        else:
            self.skipped["wassette"] = why
        self.bwrap = shutil.which("bwrap")


def lines(server, name):
    """Returns the calls of one server by what they are."""
    echo = next((tool for tool in server.tools if tool.endswith("echo")), None)
    words = {"message": TEXT["text"]} if name == "everything" else TEXT
    made = {"echo": call(echo, words)} if echo else {}
    if name in ("clawhost", "plain"):
        made["file"] = call("read_file", {"path": "file.txt"})
    if name == "filesystem":
        made["file"] = call("read_text_file", {"path": f"{server.folder}/workspace/file.txt"})
    return made


def round_trips(world):
    """Returns the times of calls by server and call, a list a round."""
    servers, took = {name: world.start(name) for name in world.stdio}, {}
    for name, server in servers.items():
        server.folder = world.folder
        server.lines = lines(server, name)
    for turn in range(ROUNDS + 1):
        for name, server in servers.items():
            for kind, line in server.lines.items():
                times = server.times(line, CALLS)
                if turn:  # the first one warms up
                    took.setdefault((name, kind), []).append(times)
    for server in servers.values():
        server.end()
    return took


def idle_memory(world):
    """Returns what each has of memory when it has listed its tools."""
    found = {}
    for name in world.stdio:
        server = world.start(name)
        time.sleep(0.5)
        found[name] = server.memory_kib()
        server.end()
    return found


def starts(world):
    """Returns how long each takes from its start to the list of its tools, in milliseconds."""
    took = {name: [] for name in world.stdio}
    for turn in range(STARTS):
        for name in world.stdio:
            if name in ("everything", "filesystem") and turn % 3:
                continue
            server = world.start(name)
            took[name].append(server.start_ms)
            server.end()
    took["true"] = [spawned(["/bin/true"]) / 1e3 for _ in range(50)]
    return took


def loaded(world):
    """Returns how long the host takes from its start until it has answered one call of each tool, in milliseconds."""
    took = []
    for _ in range(STARTS):
        server = world.start("clawhost")
        called = sum(server.times(call(tool, words), 1, may_fail=True)[0] for tool, words in EACH_TOOL.items())
        took.append(server.start_ms + called / 1e3)
        server.end()
    return took


def rates(bench):
    """Returns calls a second of one process, and of two beside each other."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    benches = [subprocess.Popen([bench, "--rate"], cwd=TREE / "tests", **pipes) for _ in range(2)]
    found = {1: [], 2: []}
    for turn in range(ROUNDS + 1):
        for count, rates_of in found.items():
            for one in benches[:count]:
                one.stdin.write("\n")
            rate = sum(float(one.stdout.readline()) for one in benches[:count])
            if turn:  # the first one warms up
                rates_of.append(rate)
    for one in benches:
        one.stdin.close()
        one.wait()
    return median(found[1]), median(found[2])


def loads(world):
    """Returns calls a second and times by server and number of connections."""
    servers, found = {name: world.start_http(name) for name in world.http}, {}
    try:
        for connections in CONNECTIONS:
            for name, server in servers.items():
                tool, words = {"everything": ("echo", {"message": TEXT["text"]})}.get(name, ("text_echo", TEXT))
                if name == "wassette":
                    listed = server.once(b'{"jsonrpc":"2.0","id":3,"method":"tools/list"}')
                    tool = re.search(rb'"name":"([^"]*echo)"', listed)[1].decode()
                server.load(tool, words, connections, 0.3)
                found[name, connections] = server.load(tool, words, connections, SECONDS_A_LOAD)
    finally:
        for server in servers.values():
            server.end()
    return found


def spawned(command):
    """Starts a program and waits for its end; returns how long that took, in microseconds."""
    begun = time.perf_counter_ns()
    os.waitpid(os.posix_spawn(command[0], command, os.environ), 0)
    return (time.perf_counter_ns() - begun) / 1e3


def processes(world):
    """Returns how long a process takes to start and end, in microseconds."""
    commands = {"posix_spawn of /bin/true": ["/bin/true"]}
    if world.bwrap:
        commands["bubblewrap, read-only root"] = [world.bwrap, "--ro-bind", "/", "/", "/bin/true"]
        commands["bubblewrap, all unshared"] = [world.bwrap, "--unshare-all", "--ro-bind", "/", "/", "/bin/true"]
    else:
        world.skipped["bubblewrap"] = "there is no bwrap"
    took = {name: [] for name in commands}
    for _ in range(60):
        for name, command in commands.items():
            took[name].append(spawned(command))
    return took


def printed(*command):
    """Returns what another measurement prints, or why there is none."""
    ran = subprocess.run(command, cwd=TREE, capture_output=True, text=True, timeout=170)
    return ran.stdout if ran.returncode == 0 else "skipped: " + "".join(ran.stderr.splitlines(True)[-1:])
