"""A cgroup for each run, where the host lends us one: the kernel then counts memory and processes itself.

Without it, memory is looked at ten times a second (`process.py`). With it the limit holds at every moment
and for everything: page tables, pipes, files in memory. It needs cgroup v2, and a folder that belongs to us and
hands on the controllers `memory` and `pids`: the one that `AGON_CGROUP` names, or our own. One way to get it:

    systemd-run --user --scope -p Delegate=yes bash
    mkdir /sys/fs/cgroup/$(cut -d: -f3 /proc/self/cgroup)/runs     # and set AGON_CGROUP to its path
"""

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from itertools import count

_ROOT = "/sys/fs/cgroup"
_NEEDED = {"memory", "pids"}
_RUNS = count()
_REMOVAL_SECONDS = 1.0  # the kernel needs a moment after the last process is gone


@cache
def cgroup_folder() -> tuple[str | None, str]:
    """The folder that runs get theirs in, or None; and a sentence about it."""
    named = os.environ.get("AGON_CGROUP")
    folder = named or _own_cgroup()
    if folder is None:
        return None, "this host has no cgroup v2 (or mounts it elsewhere)"
    try:
        with open(f"{folder}/cgroup.controllers") as file:
            controllers = set(file.read().split())
        if not controllers >= _NEEDED:
            return None, f"{folder} has no controllers {', '.join(sorted(_NEEDED - controllers))}"
        with open(f"{folder}/cgroup.subtree_control", "w") as file:
            file.write("+memory +pids")
    except OSError as fault:
        return None, f"{folder} is not ours to divide: {fault.strerror}"
    return folder, folder


@contextmanager
def run_cgroup(memory_bytes: int, processes: int) -> Iterator[str | None]:
    """A cgroup with these limits for one run, removed after it; None where the host lends us none."""
    folder, _ = cgroup_folder()
    if folder is None:
        yield None
        return
    own = f"{folder}/agon-{os.getpid()}-{next(_RUNS)}"
    os.mkdir(own)
    try:
        # What starts the program (bubblewrap, its first process) is counted too.
        for name, value in (("memory.max", memory_bytes), ("pids.max", processes + 8)):
            with open(f"{own}/{name}", "w") as file:
                file.write(str(value))
        with suppress(OSError), open(f"{own}/memory.swap.max", "w") as file:  # absent without swap
            file.write("0")
        yield own
    finally:
        give_up = time.monotonic() + _REMOVAL_SECONDS
        while not _removed(own) and time.monotonic() < give_up:
            time.sleep(0.01)


def _removed(folder: str) -> bool:
    with suppress(OSError):
        os.rmdir(folder)
    return not os.path.exists(folder)


def _own_cgroup() -> str | None:
    with suppress(OSError), open("/proc/self/cgroup") as file:
        for line in file:
            if line.startswith("0::"):
                folder = _ROOT + line[3:].strip().rstrip("/")
                return folder if os.path.exists(f"{folder}/cgroup.controllers") else None
    return None
