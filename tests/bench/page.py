"""Measures, and writes what came of it into host/docs/performance.md and performance.svg."""

import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
from html import escape

import measure
from measure import CONNECTIONS, TREE, at, median, ratio

PAGE = TREE / "host/docs/performance.md"
PLOT = TREE / "host/docs/performance.svg"
BEGIN, END = "<!-- measured: tests/bench/run.sh writes from here -->", "<!-- measured: to here -->"
NAMES = {"clawhost": "clawhost", "plain": "clawhost, plain build", "floor": "an rmcp echo server", "wassette": "wassette 0.8.0",
         "everything": "npm server-everything", "filesystem": "npm server-filesystem"}


class Table:
    """Rows of what was measured; one with a goal says whether it is met."""

    def __init__(self):
        self.rows = []

    def add(self, what, ours, peer, times=None, goal=None, met=None):
        verdict = "" if met is None else "met" if met else "**missed**"
        times = "" if times is None else f"{times:.2f}" if times < 10 else f"{times:.0f}"
        self.rows.append(f"| {what} | {ours} | {peer} | {times} | {goal or ''} | {verdict} |")

    def at_most(self, what, ours, peer, times, most):
        self.add(what, ours, peer, times, f"≤ {most}", times <= most)

    def at_least(self, what, ours, peer, times, least):
        self.add(what, ours, peer, times, f"≥ {least}", times >= least)

    def text(self):
        head = "| What | clawhost | Beside it | Ratio | Goal | |\n|---|---:|---|---:|---|---|"
        return "\n".join([head, *self.rows])


def us(value):
    return f"{value:.1f} µs" if value < 100 else f"{value / 1000:.2f} ms"


def flat(rounds):
    return [time for one in rounds for time in one]


def calls(table, figures):
    call = figures["call"]["answer"]
    own, bare = call["without records"], call["bare"]
    table.at_most("A call in the host, gate and sandbox, without its records, p50", us(own["p50"]),
                  f"wasmtime alone at its best: {us(bare['p50'])}", own["p50"] / bare["p50"], 2)
    table.at_most("likewise, p99", us(own["p99"]), f"p99 {us(bare['p99'])}", own["p99"] / bare["p99"], 4)
    for name, words, least in (("on demand", "wasmtime without a pool", 3), ("relinked", "a linker for each call", 10)):
        peer = call[name]["p50"]
        table.at_least("likewise, the other's time to ours", us(own["p50"]), f"{words}: {us(peer)}", peer / own["p50"], least)
    decided = call["gate"]["p50"] + call["filter"]["p50"]
    table.add("Gate, schemas and filter, p50", us(decided), "", None, "≤ 1.5 µs", decided <= 1.5)
    table.at_most("Gate, schemas and filter, of the call", us(decided), f"the call: {us(own['p50'])}", decided / own["p50"], 0.25)
    both = call["decided and recorded"]["p50"]
    table.add("The same and both records, each in the kernel before the call goes on, p50", us(both), "", None, "≤ 4 µs", both <= 4)
    three, whole = (figures["composite"][name]["p50"] for name in ("three", "whole"))
    table.add("A composite of three calls that read a file", us(whole), f"the three calls: {us(three)}", whole / three)


def fairness(table, figures):
    fair = figures["fairness"]
    quiet, beside = fair["quiet"], fair["beside"]
    table.at_most("An honest call beside 48 that spin and 200 that wait, of another agent, p99", us(beside["p99"]),
                  f"in quiet: p99 {us(quiet['p99'])}", beside["p99"] / quiet["p99"], 3)
    table.add("likewise, as time", us(beside["p99"]), f"p50 {us(beside['p50'])}", None, "≤ 1 ms", beside["p99"] <= 1000)
    table.add("What is over the queue", f"refused: `{fair['shed']}`", "", None, "a typed error", "answered" not in fair["shed"])


def stdio(table, took):
    own, shown = took["clawhost", "echo"], {key: median(flat(rounds)) for key, rounds in took.items()}
    ours = us(shown["clawhost", "echo"])
    table.at_most("An MCP call over standard input and output, p50", ours, f"{NAMES['floor']}, no sandbox, no gate: "
                  f"{us(shown['floor', 'echo'])}", ratio(own, took["floor", "echo"]), 2)
    tail = at(flat(own), 0.99)
    table.at_most("likewise, p99 to p50", us(tail), "", tail / shown["clawhost", "echo"], 3)
    for name, least in (("wassette", 5), ("everything", 2)):
        if (name, "echo") in took:
            words = f"{NAMES[name]}{', the same component' if name == 'wassette' else ''}: {us(shown[name, 'echo'])}"
            table.at_least("likewise, the other's time to ours", ours, words, ratio(took[name, "echo"], own), least)
    if ("plain", "echo") in took:
        table.add("likewise", ours, f"{NAMES['plain']}: {us(shown['plain', 'echo'])}", ratio(own, took["plain", "echo"]))
    if ("filesystem", "file") in took:
        words = f"{NAMES['filesystem']}: {us(shown['filesystem', 'file'])}"
        table.at_least("Reading a file of 12 bytes likewise, the other's time to ours", us(shown["clawhost", "file"]), words,
                       ratio(took["filesystem", "file"], took["clawhost", "file"]), 6)
    return shown


def http(table, loads):
    for connections in CONNECTIONS:
        told = {name: f"{loads[name, connections][0]:,.0f} a second, p50 {us(median(loads[name, connections][1]))}, "
                      f"p99 {us(at(loads[name, connections][1], 0.99))}" for name in NAMES if (name, connections) in loads}
        own = told.pop("clawhost")
        table.add(f"MCP calls over HTTP, {connections} connection{'s' if connections > 1 else ''}", own,
                  "; ".join(f"{NAMES[name]}: {words}" for name, words in told.items()))


def starts(table, took, memory, loaded):
    ms = {name: median(times) for name, times in took.items()}
    own = f"{ms['clawhost']:.1f} ms"
    goals = {"wassette": ("one component", 5), "everything": ("", 80)}
    for name, (words, least) in goals.items():
        if name in ms:
            words = f"{NAMES[name]}{', ' + words if words else ''}: {ms[name]:.1f} ms"
            table.at_least("From start to the list of 12 tools, the other's time to ours", own, words, ms[name] / ms["clawhost"], least)
    if "wassette" in ms:
        all_loaded = median(loaded)
        table.at_least("From start until the code of all is loaded by calls, the other's time to ours", f"{all_loaded:.1f} ms",
                       f"{NAMES['wassette']}, to its list: {ms['wassette']:.1f} ms", ms["wassette"] / all_loaded, 2)
    table.add("likewise", own, f"{NAMES['floor']}: {ms['floor']:.1f} ms; /bin/true: {ms['true']:.1f} ms")
    if "plain" in ms:
        table.add("likewise", own, f"{NAMES['plain']}: {ms['plain']:.1f} ms", ms["clawhost"] / ms["plain"])
    idle(table, memory)
    return ms


def idle(table, memory):
    resident, anonymous = memory["clawhost"]
    own = f"{resident / 1024:.1f} MiB, of which {anonymous / 1024:.1f} in no file"
    for name, most in (("wassette", 1), ("plain", None)):
        if name in memory:
            peer = f"{NAMES[name]}: {memory[name][0] / 1024:.1f}, {memory[name][1] / 1024:.1f}"
            times = resident / memory[name][0]
            table.add("Memory when idle, resident", own, peer, times, most and f"≤ {most}", most and times <= most)


def sizes(table, figures, took):
    memory = figures["memory"]
    # What it takes is less than what the allocator had left over.
    idle = max(memory["idle tool"], 0)
    table.add("Memory of a tool that was not called yet, in no file", f"{idle:.0f} KiB", "", None, "≤ 100 KiB", idle <= 100)
    table.add("The same once it was called, with what it keeps ready", f"{memory['called tool']:.0f} KiB", "", None, "≤ 100 KiB",
              memory["called tool"] <= 100)
    table.add(f"Memory of a call that waits, in no file, beside the {memory['written']:.0f} KiB that its guest wrote to",
              f"{memory['running call']:.0f} KiB", "", None, "≤ 32 KiB", memory["running call"] <= 32)
    whole = memory["running calls"] / 1024
    table.add("Memory of 1,000 such calls at once", f"{whole:.1f} MiB", "", None, "≤ 64 MiB", whole <= 64)
    own = figures["call"]["answer"]["without records"]["p50"]
    for name, times in took.items():
        table.at_least("A call in a fresh sandbox, the other's time to ours", us(own), f"{name}: {us(median(times))}",
                       median(times) / own, 40 if "spawn" in name else 150)


def runs(table, figures, processes):
    languages = {"js_exec": ("JavaScript", 700), "python_exec": ("Python", 2000)}
    for tool, times in figures["interpreters"].items():
        language, most = languages[tool]
        table.add(f"A program of one line in a fresh interpreter of {language}, p50", us(times["p50"]), "", None,
                  f"≤ {most / 1000} ms", times["p50"] <= most)
    (one, two), others = figures["rates"]["ours"], figures["rates"]["on demand"]
    own = f"{two:,.0f} a second"
    table.at_least("Calls of two threads, with their records", own, f"of one: {one:,.0f}", two / one, 1.3)
    table.at_least("likewise", own, f"wasmtime without a pool: {others[1]:,.0f}; of one: {others[0]:,.0f}", two / others[1], 5)
    one, two = processes
    table.at_least("Calls of two processes with one thread each, with their records", f"{two:,.0f} a second", f"of one: {one:,.0f}",
                   two / one, 1.6)


def bounds(table, figures):
    for kernel, ways in figures["metering"].items():
        ours, alone, least = (ways[way]["p50"] for way in ("ours", "fuel alone", "unmetered"))
        table.at_most(f"What fuel that yields costs {kernel}, on the engine alone", us(ours), f"unmetered: {us(least)}; fuel alone: {us(alone)}",
                      ours / least, 1.6 if "nothing" in kernel else 1.75)
    if script := figures["javascript"]:
        ours, alone = (script[way]["p50"] for way in ("ours", "fuel alone"))
        table.at_most("What yielding costs a script that writes and reads JSON, on the engine alone", us(ours), f"fuel alone: {us(alone)}",
                      ours / alone, 1.1)
    spun, filled = (figures["lateness"][tool] for tool in ("spin", "bulk-fill"))
    table.add("A call that spins, stopped after its time, p50", us(spun["p50"]), "", None, "≤ 0.2 ms", spun["p50"] <= 200)
    table.add("likewise, the latest", us(spun["max"]), "", None, "≤ 2 ms", spun["max"] <= 2000)
    table.add("A call that fills 60 MiB by one instruction, the latest", us(filled["max"]), "", None, "≤ 50 ms", filled["max"] <= 50000)


def stages(figures):
    names = ["gate", "wait", "instantiate", "guest", "filter", "audit", "whole"]
    lines = ["| Median of 10,000 calls, in µs | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for tool, call in figures["call"].items():
        lines.append(f"| `{tool}` | " + " | ".join(str(call[name]["p50"]) for name in names) + " |")
    return "\n".join(lines)


def plot(groups):
    """Returns bars by group, each group to its own scale."""
    parts, y = [], 26
    for title, unit, bars in groups:
        parts.append(f'<text x="8" y="{y}" class="t">{escape(title)}</text>')
        most = max(value for _, value in bars)
        for name, value in bars:
            y += 24
            width = max(2, 420 * value / most)
            kind = "own" if name == "clawhost" else "other"
            parts.append(f'<text x="200" y="{y}" text-anchor="end">{escape(name)}</text>'
                         f'<rect x="208" y="{y - 13}" width="{width:.0f}" height="16" class="{kind}"/>'
                         f'<text x="{214 + width:.0f}" y="{y}">{value:,.0f} {unit}</text>')
        y += 38
    style = ("text{font:13px sans-serif;fill:#222}.t{font-weight:bold}.own{fill:#b4530a}.other{fill:#8a94a0}"
             "@media(prefers-color-scheme:dark){text{fill:#ddd}}")
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 740 {y - 20}" role="img" '
            f'aria-label="Bars: the times of the table">\n<style>{style}</style>\n' + "\n".join(parts) + "\n</svg>\n")


def main():
    builds, bench, peers = (pathlib.Path(word).resolve() for word in sys.argv[1:4])
    said = lambda *words: print(f"{datetime.datetime.now():%H:%M:%S}", *words, file=sys.stderr)
    table = Table()
    with tempfile.TemporaryDirectory() as folder:
        world = measure.World(builds, peers, pathlib.Path(folder))
        world.start("clawhost").end()  # compiles
        said("calls in the host")
        ran = subprocess.run([bench, "--figures"], cwd=TREE / "tests", capture_output=True, text=True, check=True)
        figures = json.loads(ran.stdout)
        beside = measure.rates(bench)
        said("standard input and output")
        took = measure.round_trips(world)
        said("HTTP")
        loads = measure.loads(world)
        said("starts, memory, processes")
        memory, started, processes = measure.idle_memory(world), measure.starts(world), measure.processes(world)
        loaded = measure.loaded(world)
    said("bridged calls, the proxy")
    bridged = measure.printed("/usr/bin/python3", "-B", "tests/conformance/overhead.py", world.program, "500")
    proxied = measure.printed(sys.executable, "-B", "tests/proxy/overhead.py", world.program, "--requests", "300")
    calls(table, figures)
    shown = stdio(table, took)
    http(table, loads)
    ms = starts(table, started, memory, loaded)
    sizes(table, figures, processes)
    fairness(table, figures)
    runs(table, figures, beside)
    bounds(table, figures)
    skipped = "".join(f"- Skipped: {NAMES.get(name, name)}: {why}.\n" for name, why in world.skipped.items())
    kernel = platform.release().split("-")[0]
    build = "the release build" + (", by profile and its functions in order (`tests/bench/ordered.sh`)" if "plain" in world.stdio else "")
    about = (f"{datetime.date.today()}, {os.cpu_count()} cores, Linux {kernel}, {build}. "
             "Read the ratios: they compare times of the same run, taken in turns.")
    text = (f"{BEGIN}\n{about}\n\n{table.text()}\n\n{stages(figures)}\n\n{skipped}\n"
            f"A bridged server, called directly and through the host (`tests/conformance/overhead.py`):\n\n```text\n{bridged}```\n\n"
            f"A model, asked directly and through the proxy (`tests/proxy/overhead.py`):\n\n```text\n{proxied}```\n{END}")
    page = PAGE.read_text()
    PAGE.write_text(page[:page.index(BEGIN)] + text + page[page.index(END) + len(END):])
    echoes = [(NAMES[name], shown[name, "echo"]) for name in NAMES if (name, "echo") in shown]
    files = [(NAMES[name], shown[name, "file"]) for name in NAMES if (name, "file") in shown]
    PLOT.write_text(plot([("An MCP call over standard input and output, p50", "µs", echoes),
                          ("Reading a file of 12 bytes, p50", "µs", files),
                          ("From start to the list of tools", "ms", [(NAMES[name], ms[name]) for name in NAMES if name in ms])]))
    print(table.text())


if __name__ == "__main__":
    main()
