"""Which layers of the sandbox work on this machine: tried from inside, not looked up."""

import json
import platform
from dataclasses import dataclass

from agon.judges.code.cgroup import cgroup_folder
from agon.judges.code.languages import language
from agon.judges.code.sandbox import SandboxLimits, run_program
from agon.judges.code.seccomp import REFUSED, seccomp_filter

# Each attempt is true if it was refused.
_ATTEMPTS = """
import ctypes, json, os, socket
libc = ctypes.CDLL(None, use_errno=True)
def refused(call, *arguments):
    return call(*arguments) == -1
def connects():
    try:
        socket.create_connection(("192.0.2.1", 80), timeout=0.2)
    except TimeoutError:
        return True
    except OSError:
        return False
    return True
print(json.dumps({
    "calls": refused(libc.syscall, {keyctl}, 0, -3, 0)
             and refused(libc.shmget, 0, 4096, 0o1600) and refused(libc.syscall, {memfd}, b"x", 0),
    "namespaces": refused(libc.unshare, 0x10000000),
    "network": not connects(),
    "privileges": os.getuid() != 0 and "CapEff:\\t0000000000000000" in open("/proc/self/status").read(),
    "files": not os.path.exists("/etc/passwd"),
}))
"""


@dataclass(frozen=True)
class Layer:
    """One layer: whether it works here, what was found, and what would make it work."""

    name: str
    active: bool
    found: str
    fix: str = ""


def sandbox_layers() -> list[Layer]:
    """Every layer, in the order in which a program meets them."""
    column = 1 if platform.machine() == "aarch64" else 0
    keyctl, memfd = (REFUSED[name][column] for name in ("keyctl", "memfd_create"))
    program = _ATTEMPTS.replace("{keyctl}", str(keyctl)).replace("{memfd}", str(memfd))
    outcome = run_program(program, b"", language("python"), SandboxLimits())
    tried = json.loads(outcome.stdout) if outcome.ok else {}
    folder, about = cgroup_folder()
    return [
        Layer(
            "own files, network and processes", all(tried.get(name) for name in ("network", "files")), "tried"
        ),
        Layer("no privileges", bool(tried.get("privileges")), "tried"),
        Layer("no new namespaces", bool(tried.get("namespaces")), "tried"),
        Layer(
            "system-call filter",
            bool(tried.get("calls")),
            f"{len(REFUSED)} calls refused" if seccomp_filter() else "no table for this kind of processor",
        ),
        Layer("memory, files and CPU watched", True, "ten times a second"),
        Layer(
            "kernel limits (cgroup)",
            folder is not None,
            about,
            "lend a cgroup v2 with memory and pids, see docs/judges.md; without it the watch remains",
        ),
    ]
