"""What Linux says of a process and all it started: who they are, what they used, how long they had to wait.

A process that wants a CPU and gets none is not slow: the machine is busy. The kernel counts that time
(`/proc/PID/schedstat`), so a deadline can leave it out. What cannot be read counts as nothing.
"""

import os
import resource
from contextlib import suppress

_TICKS = os.sysconf("SC_CLK_TCK")
_NANO = 1e-9


def family(pid: int) -> list[int]:
    """The process and its living descendants; orphans are found where they are adopted inside the family."""
    found, waiting = [], [pid]
    while waiting:
        parent = waiting.pop()
        found.append(parent)
        waiting += children(parent)
    return found


def children(pid: int) -> list[int]:
    """The living children of a process, whichever of its threads started them."""
    found: list[int] = []
    with suppress(OSError, ValueError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as listed:
                found += map(int, listed.read().split())
    return found


def resident_bytes(pids: list[int]) -> int:
    """The resident memory of these processes."""
    total = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/statm", "rb") as statm:
            total += int(statm.read().split()[1]) * resource.getpagesize()
    return total


def cpu_seconds(pids: list[int]) -> float:
    """CPU time of these processes and of their children that have ended and were waited for."""
    ticks = 0
    for pid in pids:
        with suppress(OSError, ValueError, IndexError), open(f"/proc/{pid}/stat", "rb") as stat:
            # The name of the program stands in brackets and may hold anything, brackets too.
            ticks += sum(map(int, stat.read().rpartition(b")")[2].split()[11:15]))
    return ticks / _TICKS


def waited_seconds(pids: list[int]) -> float:
    """How long the one of these that waited longest was ready to run and had no CPU.

    The longest and not the sum: processes that wait at the same time wait only once.
    """
    return max((_waited(f"/proc/{pid}/schedstat") for pid in pids), default=0.0)


def waited_by_this_process() -> float:
    return _waited("/proc/self/schedstat")


def _waited(path: str) -> float:
    try:
        with open(path, "rb") as schedstat:
            return int(schedstat.read().split()[1]) * _NANO
    except (OSError, ValueError, IndexError):
        return 0.0
