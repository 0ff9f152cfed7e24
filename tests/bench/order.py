"""Writes the functions of a program in the order in which a start and calls of its tools come by them first.

    order.py PROGRAM FILE

PROGRAM still has its symbols. qemu's emulation of a processor says of each block of code when it first runs.
"""

import pathlib
import re
import shutil
import sys
import tempfile

from measure import Ours
from workload import on_pipes, over_http

EMULATOR = "qemu-x86_64"
CALLS = 3


def emulated(place, log):
    """Returns a way to start a server, under emulation."""
    command, *rest = place
    return ([shutil.which(EMULATOR), "-d", "in_asm", "-D", log, *command], *rest)


def order(program):
    """Returns the names of the functions."""
    with tempfile.TemporaryDirectory(prefix="clawhost-order-") as folder:
        folder = pathlib.Path(folder)
        world = Ours(program, folder)
        on_pipes(world, CALLS)  # what is compiled now is not then
        logs = [folder / "pipes.log", folder / "http.log"]
        world.stdio["clawhost"] = emulated(world.stdio["clawhost"], logs[0])
        world.http["clawhost"] = emulated(world.http["clawhost"], logs[1])
        on_pipes(world, CALLS)
        over_http(world)
        blocks = "".join(log.read_text(errors="replace") for log in logs)
    return list(dict.fromkeys(re.findall(r"^IN: (\S+)", blocks, re.M)))


def main():
    program, file = (pathlib.Path(name).resolve() for name in sys.argv[1:])
    names = order(program)
    file.write_text("".join(f"{name}\n" for name in names))
    print(f"{len(names)} functions in order", file=sys.stderr)


main()
