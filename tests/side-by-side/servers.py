"""The two servers, spoken to in the same way: MCP 2025-11-25 on standard input and output."""

import json
import os
import pathlib
import subprocess
import threading
import time

# A request without an answer by then hangs.
PATIENCE_S = 20
# A first start may compile.
START_S = 180
# With its escapes, a piece of a file that fits one answer of clawhost, which holds it twice.
PIECE_BYTES = 28 << 10
# A server that grows past this is killed, as the machine has to go on.
MEMORY_BYTES_MAX = 4 << 30
# In the environment of both servers; no answer may hold it.
HIDDEN = "canary-71c0-a-variable-of-the-server"


class Gone(Exception):
    """The server does not answer any more."""


class Server:
    """One process, started for one attack."""

    def __init__(self, command, folder, environment):
        self.answers, self.said, self.ids = {}, threading.Condition(), 0
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL, env=dict(os.environ, CANARY=HIDDEN, **environment))
        threading.Thread(target=self._listen, daemon=True).start()
        threading.Thread(target=self._guard, daemon=True).start()
        about = {"protocolVersion": "2025-11-25", "capabilities": {},
                 "clientInfo": {"name": "side-by-side", "version": "0"}}
        self.request("initialize", about, START_S)
        self._send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        self.request("tools/list", {})

    def _listen(self):
        for line in self.process.stdout:
            message = json.loads(line)
            if "method" in message and "id" in message:
                self._send({"jsonrpc": "2.0", "id": message["id"],
                            "error": {"code": -32601, "message": "not here"}})
            with self.said:
                self.answers[message.get("id")] = (message, len(line))
                self.said.notify_all()
        with self.said:
            self.said.notify_all()

    def _guard(self):
        while self.process.poll() is None:
            if self.memory_bytes("VmRSS") > MEMORY_BYTES_MAX:
                self.process.kill()
            time.sleep(0.01)

    def _send(self, message):
        try:
            self.process.stdin.write(json.dumps(message).encode() + b"\n")
            self.process.stdin.flush()
        except OSError as error:
            raise Gone from error

    def request(self, method, params, patience=PATIENCE_S):
        """Returns the answer and the bytes of its line."""
        self.ids += 1
        own = self.ids
        self._send({"jsonrpc": "2.0", "id": own, "method": method, "params": params})
        with self.said:
            over = lambda: own in self.answers or self.process.poll() is not None
            self.said.wait_for(over, patience)
            if own not in self.answers:
                raise Gone
            return self.answers.pop(own)

    def memory_bytes(self, key):
        """What the system says the process has (VmRSS) or has had at most (VmHWM)."""
        try:
            status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        except OSError:
            return 0
        lines = [line for line in status.splitlines() if line.startswith(key)]
        return int(lines[0].split()[1]) << 10 if lines else 0

    def forget_peak(self):
        """Makes VmHWM begin again at what is used now."""
        try:
            pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")
        except OSError:
            pass

    def end(self):
        self.process.kill()
        self.process.wait()


class Clawhost:
    """`clawhost run claw.yaml --stdio`."""

    name = "clawhost"

    def __init__(self, program, kept):
        self.program, self.kept = program, kept

    def start(self, ground):
        manifest = pathlib.Path(__file__).parent.joinpath("claw.yaml").read_text()
        (ground.root / "claw.yaml").write_text(manifest)
        environment = {"XDG_STATE_HOME": f"{self.kept}/state", "XDG_CACHE_HOME": f"{self.kept}/cache"}
        return Server([self.program, "run", "claw.yaml", "--stdio"], ground.root, environment)

    def tool(self, verb, *words):
        named = {
            "read": ("read_file", ("path", "offset", "limit")),
            "write": ("write_file", ("path", "content")),
            "list": ("list_directory", ("path",)),
            "edit": ("edit_file", ("path", "old_text", "new_text")),
            "find": ("search_files", ("glob",)),
        }
        if verb == "move":
            return "wasm_shell", {"command": "mv {} {}".format(*words)}
        name, keys = named[verb]
        return name, dict(zip(keys, words))

    def places(self, path):
        return [path]

    def piece(self, offset, _lines):
        """What follows the path to read what fits one answer."""
        return [offset, PIECE_BYTES]


class Npm:
    """`@modelcontextprotocol/server-filesystem WORKSPACE`."""

    name = "server-filesystem"

    def __init__(self, folder):
        self.program = f"{folder}/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js"

    def start(self, ground):
        self.workspace = ground.workspace
        return Server(["node", self.program, str(ground.workspace)], ground.workspace, {})

    def tool(self, verb, *words):
        if verb == "edit":
            path, old, new = words
            return "edit_file", {"path": path, "edits": [{"oldText": old, "newText": new}]}
        if verb == "find":
            return "search_files", {"path": str(self.workspace), "pattern": words[0]}
        if verb == "move":
            return "move_file", {"source": words[0], "destination": words[1]}
        if verb == "read":
            return "read_text_file", dict(zip(("path", "head"), words))
        name = {"write": "write_file", "list": "list_directory"}[verb]
        return name, dict(zip(("path", "content"), words))

    def places(self, path):
        """It takes whole paths; what is no whole path is tried as it is, too."""
        return [path] if path.startswith("/") else [path, f"{self.workspace}/{path}"]

    def piece(self, _offset, lines):
        """It knows no pieces but the first and the last lines."""
        return [lines]
