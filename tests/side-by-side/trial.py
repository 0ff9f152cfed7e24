"""A granted folder with canaries around it, and one attack on one server, judged from outside.

What counts is what is seen: text of files outside in an answer, files outside that changed, a
request without an answer, memory that the system counted. What a server says of itself does not.
"""

import pathlib
import shutil
import tempfile
import time

from servers import HIDDEN, PATIENCE_S, Gone

CANARY = "canary-5e2f-do-not-sing"
USERS = "root:x:0:"


class Ground:
    """A granted folder, and what lies around it."""

    def __init__(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="side-by-side-")).resolve()
        self.workspace, self.outside = self.root / "workspace", self.root / "outside"
        for folder in ["workspace/sub", "outside/inside", "workspace2", "WORKSPACE"]:
            (self.root / folder).mkdir(parents=True, exist_ok=True)
        for file in ["outside/canary.txt", "outside/inside/canary.txt", "workspace2/canary.txt",
                     "WORKSPACE/canary.txt"]:
            (self.root / file).write_text(CANARY)
        (self.workspace / "inside.txt").write_text("granted")
        self._links()
        self.planted = self.look()

    def _links(self):
        chain = {f"chain_{n}": f"chain_{n + 1}" for n in range(50)}
        chain["chain_50"] = str(self.outside / "canary.txt")
        links = {
            "link": self.outside / "canary.txt", "relative_link": "../outside/canary.txt",
            "sub/chain": "../link", "dir_link": self.outside, "up": "..",
            "dangling": self.outside / "new.txt", "loop_a": "loop_b", "loop_b": "loop_a",
            "root_link": "/", "proc_link": "/proc/self/root", "environ_link": "/proc/self/environ",
            "zero": "/dev/zero", **chain,
        }
        for name, target in links.items():
            (self.workspace / name).symlink_to(target)

    def look(self):
        """Everything outside the granted folder, and what is in it."""
        kept = {}
        for folder in ["outside", "workspace2", "WORKSPACE"]:
            for path in (self.root / folder).rglob("*"):
                kept[str(path)] = path.read_text() if path.is_file() else "a folder"
        return kept

    def remove(self):
        shutil.rmtree(self.root, ignore_errors=True)


class Trial:
    """One attack on one server."""

    def __init__(self, kind, ground):
        self.kind, self.ground = kind, ground
        self.server = kind.start(ground)
        self.base = self.server.memory_bytes("VmRSS")
        self.server.forget_peak()
        self.read, self.result, self.notes = set(), {}, []
        self.slowest, self.silent, self.waited, self.bytes = 0.0, False, 0, 0

    def ask(self, verb, *words, patience=PATIENCE_S):
        """Makes one call and says whether it worked; what is seen and how long it took is kept."""
        name, arguments = self.kind.tool(verb, *words)
        begun = time.monotonic()
        try:
            call = {"name": name, "arguments": arguments}
            answer, self.bytes = self.server.request("tools/call", call, patience)
        except Gone:
            self.silent, self.waited = True, patience
            return False
        finally:
            self.slowest = max(self.slowest, time.monotonic() - begun)
        text = str(answer)
        self.read |= {seen for seen in (CANARY, USERS, HIDDEN) if seen in text}
        self.result = answer.get("result", {"isError": True})
        return not self.result.get("isError")

    def ask_all(self, verb, paths, *words):
        for path in paths:
            for place in self.kind.places(path):
                if not self.silent:
                    self.ask(verb, place, *words)

    def finding(self):
        """Says what came of it, worst first."""
        said, now = [], self.ground.look()
        peak = self.server.memory_bytes("VmHWM")
        if self.read:
            said.append("**read what is outside**")
        if now != self.ground.planted:
            said.append("**changed what is outside**")
        if self.silent:
            ended = self.server.process.poll() is not None
            what = "ended, or was killed at 4 GiB" if ended else f"no answer in {self.waited} s"
            said.append(f"**{what}**")
            said.append("answers others" if not ended and self.answers() else "answers nobody")
        elif not self.answers():
            said.append("**answers nobody afterwards**")
        said = said or ["held"]
        return "; ".join(said + self.notes), max(0, peak - self.base), self.slowest

    def answers(self):
        name, arguments = self.kind.tool("read", self.kind.places("inside.txt")[-1])
        try:
            answer, _ = self.server.request("tools/call", {"name": name, "arguments": arguments}, 5)
            return "granted" in str(answer)
        except Gone:
            return False
