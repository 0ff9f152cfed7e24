"""Runs the attacks on both servers and writes the table of what came of them."""

import datetime
import os
import pathlib
import platform
import subprocess
import sys

from attacks import ATTACKS, SIZES
from servers import MEMORY_BYTES_MAX, PATIENCE_S, Clawhost, Npm
from trial import Ground, Trial


def megabytes(count):
    return f"{count / (1 << 20):.0f}"


def attempt(kind, attack):
    ground = Ground()
    try:
        trial = Trial(kind, ground)
        try:
            attack(trial)
            said, grown, slowest = trial.finding()
            return f"{said} | {megabytes(grown)} | {slowest * 1000:.0f}", trial.base
        finally:
            trial.server.end()
    finally:
        ground.remove()


def table(kinds, attacks):
    heads = " | ".join(f"{kind.name} | MiB more | slowest ms" for kind in kinds)
    lines = [f"| Row | What is tried | {heads} |", "|---|---|" + "---|---:|---:|" * len(kinds)]
    bases = {kind.name: [] for kind in kinds}
    for row, what, attack in attacks:
        cells = []
        for kind in kinds:
            print(f"{row} {what}: {kind.name} …", file=sys.stderr)
            said, base = attempt(kind, attack)
            print(f"  {said}", file=sys.stderr)
            bases[kind.name].append(base)
            cells.append(said)
        lines.append(f"| {row} | {what} | " + " | ".join(cells) + " |")
    return lines, bases


def about(program, version):
    said = lambda *command: subprocess.run(command, capture_output=True, text=True).stdout.strip()
    build = "a debug build" if "/debug/" in program else "a release build"
    return (f"{said(program, '--version')} ({build}) and `@modelcontextprotocol/server-filesystem` {version} "
            f"on node {said('node', '--version')}; Linux {platform.release()}, {os.cpu_count()} cores, as "
            f"{'root' if os.geteuid() == 0 else 'a user'}, {datetime.date.today()}.")


PAGE = """# Side by side

The same attacks on two file servers over MCP on standard input and output, each on a fresh server and a
fresh folder. `tests/side-by-side/run.sh` wrote this page: edit the script, not the page.

{about}

{table}

The same files for both:

{sizes}

- **Held**: no answer held text of a file outside or a variable of the server, no file outside changed, and
  the server answered a good read afterwards. What a server says of itself does not count.
- **MiB more** is the most memory the server's process had, beyond what it had when it was ready
  ({bases}); **slowest ms** is the slowest single answer. A request without an answer in {patience} s hangs; a
  server of more than {most} GiB is killed.
- The two are made differently. The npm server checks paths and then acts with all the rights of its user,
  and answers a file whole. clawhost walks from a handle of the granted folder in a sandbox, and answers at most
  64 KiB, a piece of a file or a page of a folder, and says where the next one begins: what is small in its rows of
  large answers is small for that reason.
- The npm server takes whole paths, so each path is tried as it is and below the granted folder. Moving is
  `move_file` there and `mv` of `wasm_shell` here.
- F8 takes somebody else who may write to the granted folder, such as another tool; how often the race is won
  differs from run to run. A row that both hold shows nothing about attacks that
  are not in the table.
"""


def main():
    program, kept, version = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2]), sys.argv[3]
    kinds = [Clawhost(program, kept), Npm(kept)]
    attacks, bases = table(kinds, ATTACKS)
    sizes, _ = table(kinds, SIZES)
    said = ", ".join(f"{name} {megabytes(sum(all) / len(all))} MiB" for name, all in bases.items())
    page = PAGE.format(about=about(program, version), table="\n".join(attacks), sizes="\n".join(sizes),
                       bases=said, patience=PATIENCE_S, most=MEMORY_BYTES_MAX >> 30)
    pathlib.Path(__file__).with_name("RESULTS.md").write_text(page)


if __name__ == "__main__":
    main()
