"""One run of an untrusted program, in bubblewrap.

What it covers: no network; no view of other processes, of the file system (only /usr, /lib* and the
language's runtime, read-only), of the environment; no capability, no way to gain one, no namespace of its
own; only the system calls that a program needs (`seccomp.py`); a small /tmp in memory that is deleted after
the run; limits on address space, memory of all processes together, processes and threads, open files, files
in /tmp, file size, CPU seconds, wall seconds and output; where the host lends us a cgroup, the kernel's own
limits (`cgroup.py`); the whole process tree is killed and waited for.

What it does not cover: a bug in the system calls that are left, the contents of /usr (readable), side
channels such as timing, and fair shares of the CPU between running programs.

A user without privileges gets a user namespace. Root gets none: root's processes are exempt from the
process limit, so each run has a user id of its own, far above those of people, and no capability.
Without bubblewrap nothing runs, unless the caller sets `sandbox="none"`: then the limits hold, and
nothing else.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Literal

from agon.errors import InputError
from agon.judges.code.cgroup import run_cgroup
from agon.judges.code.languages import Language
from agon.judges.code.process import Outcome, OuterLimits, run_limited
from agon.judges.code.seccomp import seccomp_filter

SandboxKind = Literal["bubblewrap", "none"]
SANDBOXES: tuple[SandboxKind, ...] = ("bubblewrap", "none")

_FIRST_UID = 0x6A000000  # unused: above what useradd, systemd and subordinate ranges assign
_RUNS = count()


@dataclass(frozen=True)
class SandboxLimits:
    """What one run may use. `memory_bytes` bounds each process and all of them together."""

    cpu_seconds: int = 10  # of a process; all of them together may use twice as much
    wall_seconds: float = 30.0  # without the time in which the program waits for a CPU
    memory_bytes: int = 1 << 30
    processes: int = 32
    open_files: int = 64
    file_bytes: int = 64 << 20
    tmp_bytes: int = 64 << 20
    tmp_files: int = 10_000
    output_bytes: int = 16 << 20


def require_sandbox(kind: str) -> None:
    """Raise an error if the chosen sandbox is not installed, and say how to install it."""
    if kind not in SANDBOXES:
        raise InputError(f"A sandbox is one of {', '.join(SANDBOXES)}, not '{kind}'.")
    if kind == "bubblewrap" and shutil.which("bwrap") is None:
        raise InputError(
            "Programs are only run in a sandbox, and bubblewrap is not installed: install it "
            "(`apt-get install bubblewrap`, `dnf install bubblewrap`), or accept the danger with --sandbox none."
        )


def run_program(
    program: str,
    stdin: bytes,
    language: Language,
    limits: SandboxLimits,
    sandbox: SandboxKind = "bubblewrap",
) -> Outcome:
    """Run a program on an input; returns how it ended and what it printed."""
    outer = OuterLimits(
        limits.wall_seconds,
        2.0 * limits.cpu_seconds,
        limits.output_bytes,
        limits.memory_bytes,
        limits.tmp_bytes,
        limits.tmp_files,
    )
    if sandbox == "none":
        return _run_bare(program, stdin, language, limits, outer)
    path = f"/sandbox/{language.file_name}"
    with ExitStack() as stack:
        source = stack.enter_context(_file_without_name(program.encode("utf-8", "replace")))
        descriptors = [source]
        command = [*_bubblewrap(language, limits), "--perms", "0644", "--ro-bind-data", str(source), path]
        command += ["--remount-ro", "/"]
        rules = seccomp_filter()
        if rules is not None:
            descriptors.append(stack.enter_context(_file_without_name(rules)))
            command += ["--seccomp", str(descriptors[-1])]
        group = stack.enter_context(run_cgroup(limits.memory_bytes, limits.processes))
        inside = [*_drop_root(), *_rlimits(limits), *language.command(path)]
        return run_limited(command, inside, stdin, outer, tuple(descriptors), cgroup=group)


def _run_bare(
    program: str, stdin: bytes, language: Language, limits: SandboxLimits, outer: OuterLimits
) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="agon-program-") as folder:
        path = os.path.join(folder, language.file_name)
        with open(path, "w", encoding="utf-8", errors="replace") as file:
            file.write(program)
        command = ["setpriv", "--pdeathsig", "KILL", *_rlimits(limits), *language.command(path)]
        return run_limited([], command, stdin, outer, (), folder)


@contextmanager
def _file_without_name(content: bytes) -> Iterator[int]:
    """A file that only exists as a descriptor; bubblewrap reads it."""
    descriptor = os.memfd_create("agon")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        os.lseek(descriptor, 0, os.SEEK_SET)
        yield descriptor
    finally:
        os.close(descriptor)


@cache
def _bubblewrap(language: Language, limits: SandboxLimits) -> tuple[str, ...]:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        require_sandbox("bubblewrap")
    size = str(limits.tmp_bytes)
    return (
        str(bwrap),
        *_namespaces(),
        "--die-with-parent",
        "--new-session",
        "--clearenv",
        *("--setenv", "PATH", "/usr/bin:/bin"),
        *("--setenv", "HOME", "/tmp"),
        *("--setenv", "LANG", "C.UTF-8"),
        *("--hostname", "sandbox"),
        *_system(),
        *("--proc", "/proc"),
        *_hidden_in_proc(),
        *("--dev", "/dev"),
        *("--size", size, "--perms", "1777", "--tmpfs", "/dev/shm"),
        *("--remount-ro", "/dev"),
        *("--size", size, "--perms", "1777", "--tmpfs", "/tmp"),
        # After /tmp, which would hide an environment that was made there.
        *_runtime(language),
        *("--chdir", "/tmp"),
        *("--perms", "0755", "--dir", "/sandbox"),
    )


def _hidden_in_proc() -> tuple[str, ...]:
    """Parts of /proc that speak of the machine and not of the program."""
    names = ("keys", "key-users", "kallsyms", "modules", "timer_list", "sysrq-trigger")
    found = [f"/proc/{name}" for name in names if os.path.exists(f"/proc/{name}")]
    return tuple(word for path in found for word in ("--ro-bind", "/dev/null", path))


@cache
def can_disable_user_namespaces() -> bool:
    """Whether bubblewrap can forbid user namespaces inside its own: 0.8 or later, and a host that lets it."""
    tried = ["bwrap", "--unshare-user", "--disable-userns", "--ro-bind", "/", "/", "true"]
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


def _namespaces() -> tuple[str, ...]:
    if os.geteuid() != 0:
        disabled = ("--disable-userns",) if can_disable_user_namespaces() else ()
        own = ("--unshare-all", "--unshare-user", *disabled, "--uid", "65534", "--gid", "65534")
        return (*own, "--cap-drop", "ALL")
    separate = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
    # What is needed to stop being root; `setpriv` then drops these as well.
    return (
        *separate,
        "--cap-drop",
        "ALL",
        "--cap-add",
        "CAP_SETUID",
        "--cap-add",
        "CAP_SETGID",
        "--cap-add",
        "CAP_SETPCAP",
    )


def _drop_root() -> list[str]:
    if os.geteuid() != 0:
        return []
    # One user per run, so that a fork bomb uses up its own process limit and not another run's.
    user = str(_FIRST_UID + (os.getpid() % 0x4000) * 0x100 + next(_RUNS) % 0x100)
    return [
        "setpriv",
        "--reuid",
        user,
        "--regid",
        user,
        "--clear-groups",
        "--inh-caps=-all",
        "--bounding-set=-all",
    ]


def _rlimits(limits: SandboxLimits) -> list[str]:
    # The hard CPU limit, one second after the soft one, kills the program.
    return [
        "prlimit",
        f"--as={limits.memory_bytes}",
        f"--cpu={limits.cpu_seconds}:{limits.cpu_seconds + 1}",
        f"--nproc={limits.processes}",
        f"--nofile={limits.open_files}",
        f"--fsize={limits.file_bytes}",
        "--core=0",
        "--",
    ]


@cache
def _system() -> tuple[str, ...]:
    """The system's programs and libraries, read-only."""
    arguments = ["--ro-bind", "/usr", "/usr"]
    for name in ("bin", "lib", "lib32", "lib64", "libx32", "sbin"):
        if os.path.islink(f"/{name}"):
            arguments += ["--symlink", os.readlink(f"/{name}"), f"/{name}"]
        elif os.path.isdir(f"/{name}"):
            arguments += ["--ro-bind", f"/{name}", f"/{name}"]
    arguments += ["--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    # NixOS and Guix keep libraries elsewhere.
    for store in ("/nix/store", "/gnu/store"):
        arguments += ["--ro-bind-try", store, store]
    return tuple(arguments)


@cache
def _runtime(language: Language) -> tuple[str, ...]:
    """What the language needs besides, read-only."""
    arguments: list[str] = []
    for folder in language.runtime():
        if not folder.startswith(("/usr/", "/bin/", "/lib")):
            for parent in _parents(folder):  # created here; bubblewrap would make them readable by root only
                if parent != "/tmp":
                    arguments += ["--perms", "0755", "--dir", parent]
            arguments += ["--ro-bind", folder, folder]
    return tuple(arguments)


def _parents(folder: str) -> list[str]:
    parts = folder.strip("/").split("/")[:-1]
    return ["/" + "/".join(parts[: depth + 1]) for depth in range(len(parts))]
