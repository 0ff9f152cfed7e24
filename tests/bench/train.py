"""Writes the profile of a program that counts what it does: of starts, calls of its tools, and compiling.

    train.py PROGRAM COMPONENT LLVM-PROFDATA FILE

PROGRAM was built with -Cprofile-generate; COMPONENT is what it compiles.
"""

import os
import pathlib
import subprocess
import sys
import tempfile

from measure import Ours
from workload import on_pipes, over_http

STARTS = 10
CALLS = 300
# A call runs through much code once, compiling through some of it a million times: weighed alike, all that a call
# needs would look as if it were hardly used.
WEIGHT = 100


def count(program, component, folder):
    """Returns the counts of serving, and of compiling."""
    serving, compiling = folder / "serving", folder / "compiling"
    world = Ours(program, folder)
    os.environ["LLVM_PROFILE_FILE"] = os.devnull
    on_pipes(world, 1)  # its tools are compiled now, in a jail where no file can be written
    os.environ["LLVM_PROFILE_FILE"] = f"{serving}/%p.profraw"
    for _ in range(STARTS):
        on_pipes(world, 1)
    on_pipes(world, CALLS)
    over_http(world)
    os.environ["LLVM_PROFILE_FILE"] = f"{compiling}/%p.profraw"
    with component.open("rb") as binary:
        subprocess.run([program, "compile-component"], stdin=binary, stdout=subprocess.DEVNULL, check=True)
    return list(serving.iterdir()), list(compiling.iterdir())


def main():
    program, component, _, file = (pathlib.Path(name).resolve() for name in sys.argv[1:])
    merge = [sys.argv[3], "merge", "-o", file]
    with tempfile.TemporaryDirectory(prefix="clawhost-train-") as folder:
        serving, compiling = count(program, component, pathlib.Path(folder))
        weighed = [f"--weighted-input={WEIGHT},{counts}" for counts in serving]
        subprocess.run([*merge, *weighed, *compiling], check=True)
    print(f"{len(serving)} processes that served, {len(compiling)} that compiled", file=sys.stderr)


main()
