"""The attacks, by the rows of tests/escape.md, and files that are large for both."""

import ctypes
import os
import stat
import threading
import time

from trial import CANARY

RACE_CALLS = 3000
ENTRIES = 100_000
PIPE_PATIENCE_S = 3
LARGE_BYTES = 300 << 20
PART_BYTES = 10 << 20
LINE = b"0123456789abcde\n"
SPARSE_BYTES = 10 << 30


def climbing(trial):
    paths = ["../outside/canary.txt", "./../outside/canary.txt", "sub/../../outside/canary.txt",
             "nope/../../outside/canary.txt", "..//outside/./canary.txt"]
    trial.ask_all("read", paths + ["../" * depth + "etc/passwd" for depth in range(1, 33)])
    trial.ask_all("write", ["../outside/new.txt", "sub/../../outside/new.txt"], "x")


def absolute(trial):
    outside = trial.ground.outside
    trial.ask_all("read", ["/etc/passwd", "//etc/passwd", f"{outside}/canary.txt", "~/.profile",
                           "file:///etc/passwd"])
    trial.ask_all("write", [f"{outside}/new.txt"], "x")
    trial.ask_all("list", ["/", str(outside)])


def sibling(trial):
    beside = trial.ground.root / "workspace2"
    trial.ask_all("read", [f"{beside}/canary.txt", "../workspace2/canary.txt"])
    trial.ask_all("write", [f"{beside}/new.txt"], "x")


def link_to_file(trial):
    trial.ask_all("read", ["link", "relative_link", "sub/chain"])
    trial.ask_all("edit", ["link", "relative_link"], CANARY, "edited")


def link_to_folder(trial):
    trial.ask_all("read", ["dir_link/canary.txt", "up/outside/canary.txt", "root_link/etc/passwd"])
    trial.ask_all("list", ["dir_link", "up", "root_link"])
    trial.ask("find", "**/canary.txt")


def chains(trial):
    trial.ask_all("read", ["chain_0", "chain_20", "loop_a", "loop_a/x"])


def write_through(trial):
    trial.ask_all("write", ["link", "dangling", "dir_link/new.txt", "chain_40"], "written by a caller")


def move_out(trial):
    for source, target in [("inside.txt", "dir_link/new.txt"), ("dir_link/canary.txt", "taken.txt"),
                           ("inside.txt", "../outside/new.txt")]:
        pairs = zip(trial.kind.places(source), trial.kind.places(target))
        for pair in pairs:
            trial.ask("move", *pair)
    (trial.ground.workspace / "inside.txt").write_text("granted")


def hard_link(trial):
    os.link(trial.ground.outside / "canary.txt", trial.ground.workspace / "shared")
    trial.ask_all("write", ["shared"], "mine")
    os.replace(trial.ground.workspace / "shared", trial.ground.workspace / "old")
    os.link(trial.ground.outside / "canary.txt", trial.ground.workspace / "shared")
    trial.ask_all("edit", ["shared"], CANARY, "mine")
    # Under its name inside, the file is granted: that it can be read is no escape.
    trial.read.clear()


def pipe(trial):
    os.mkfifo(trial.ground.workspace / "pipe")
    # As many as node has threads for files, and two more.
    for _ in range(6):
        trial.ask("read", trial.kind.places("pipe")[-1], patience=PIPE_PATIENCE_S)


def device(trial):
    trial.ask_all("read", ["zero"])
    try:
        os.mknod(trial.ground.workspace / "made", 0o666 | stat.S_IFCHR, os.makedev(1, 5))
    except PermissionError:
        trial.notes.append("only as a link: no right to make a device")
        return
    trial.ask_all("read", ["made"])


def process_files(trial):
    trial.ask_all("read", ["proc_link/etc/passwd", "environ_link", "/proc/self/environ",
                           "/proc/self/root/etc/passwd", f"/proc/self/cwd{trial.ground.outside}/canary.txt"])


def swap(folder, link, stop):
    """Exchanges a folder and a link for each other, in one step of the system, again and again."""
    libc = ctypes.CDLL(None, use_errno=True)
    names = [os.fsencode(folder), os.fsencode(link)]
    while not stop.is_set():
        libc.renameat2(-100, names[0], -100, names[1], 2)


def race(trial):
    folder, link = trial.ground.workspace / "swapped", trial.ground.workspace / "other"
    folder.mkdir()
    (folder / "canary.txt").write_text("inside")
    link.symlink_to(trial.ground.outside / "inside")
    stop = threading.Event()
    swapping = threading.Thread(target=swap, args=(folder, link, stop))
    swapping.start()
    seen = 0
    for number in range(RACE_CALLS):
        trial.read.clear()
        if number % 2:
            trial.ask("write", trial.kind.places("swapped/new.txt")[-1], "x")
        else:
            trial.ask("read", trial.kind.places("swapped/canary.txt")[-1])
            seen += bool(trial.read)
    stop.set()
    swapping.join()
    if seen:
        trial.read.add(CANARY)
        trial.notes.append(f"{seen} of {RACE_CALLS // 2} reads")


def letter_case(trial):
    other = trial.ground.root / "WORKSPACE"
    trial.ask_all("read", [f"{other}/canary.txt", "../WORKSPACE/canary.txt", "INSIDE.TXT"])


def scripts(trial):
    trial.ask_all("read", ["．．/outside/canary.txt", "..∕outside∕canary.txt", "%2e%2e/outside/canary.txt",
                           "..%2foutside/canary.txt", "%252e%252e/outside/canary.txt",
                           "..\\outside\\canary.txt", ".\u0307./outside/canary.txt",
                           "\u202e../outside/canary.txt"])


def null(trial):
    trial.ask_all("read", ["\0", "../outside/canary.txt\0.txt", "inside.txt\0/../../outside/canary.txt",
                           f"{trial.ground.outside}/canary.txt\0"])
    trial.ask_all("write", ["../outside/new.txt\0.txt"], "x")


def pattern(trial):
    (trial.ground.workspace / ("a" * 200)).touch()
    globs = ["{a,b}" * 18, "**/" * 300 + "*a", "*a" * 40 + "b", "+(+(+(a)))" * 20]
    searched = sum(trial.ask("find", glob) for glob in globs if not trial.silent)
    trial.notes.append(f"{searched} of {len(globs)} patterns searched for")


def large_file(trial):
    fill(trial)
    tell(trial, trial.ask("read", trial.kind.places("300M")[-1]))


def first_part(trial):
    """Reads its first 10 MiB in as many calls as that takes."""
    fill(trial)
    place, read, calls = trial.kind.places("300M")[-1], 0, 0
    begun = time.monotonic()
    while read < PART_BYTES and trial.ask("read", place, *trial.kind.piece(read, PART_BYTES // len(LINE) + 1)):
        calls += 1
        read += len(trial.result["structuredContent"]["content"])
    trial.notes.append(f"{read >> 20} MiB in {calls} calls, {time.monotonic() - begun:.1f} s")


def sparse_file(trial):
    with open(trial.ground.workspace / "sparse", "wb") as file:
        file.truncate(SPARSE_BYTES)
    tell(trial, trial.ask("read", trial.kind.places("sparse")[-1]))


def fill(trial):
    with open(trial.ground.workspace / "300M", "wb") as file:
        for _ in range(LARGE_BYTES >> 20):
            file.write(LINE * (1 << 16))


def tell(trial, worked):
    if not trial.silent:
        how = "worked" if worked else "refused"
        trial.notes.append(f"{how}, answer of {trial.bytes:,} bytes")


def many_entries(trial):
    folder = trial.ground.workspace / "many"
    folder.mkdir()
    for number in range(ENTRIES):
        (folder / f"{number:06}").touch()
    tell(trial, trial.ask("list", trial.kind.places("many")[-1]))


ATTACKS = [
    ("F1", "climbing with `..`, 39 spellings", climbing),
    ("F2", "absolute paths, `~`, `file:`", absolute),
    ("F3", "a sibling folder with the same prefix", sibling),
    ("F4", "links to a file outside: read, edit", link_to_file),
    ("F5", "links to a folder outside: read, list, search", link_to_folder),
    ("F6", "chains of 50 links, loops", chains),
    ("F7", "writing through links, dangling ones too", write_through),
    ("F8", f"folder and link swapped during {RACE_CALLS} calls", race),
    ("F11", "a hard link to a file outside: write, edit", hard_link),
    ("F12", "moving files out and in through links", move_out),
    ("F16", "NUL in paths", null),
    ("F19, F21", "letters like dots, percent encoding", scripts),
    ("F20", "the granted folder's name in another case", letter_case),
    ("F22", "a named pipe, read six times", pipe),
    ("F23", "`/dev/zero` as a link and as a device", device),
    ("F25", "`/proc` through links and by path", process_files),
]
SIZES = [
    ("F27", "reading a file of 300 MiB: one call", large_file),
    ("F27", "the first 10 MiB of it: as many calls as it takes", first_part),
    ("F27", "reading a sparse file of 10 GiB", sparse_file),
    ("F29", f"listing a folder of {ENTRIES:,} files", many_entries),
    ("F32", "searching for patterns that explode", pattern),
]
