"""The layers around a program: refused system calls, memory that every limit counts, nothing left behind."""

import os
import shutil
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from agon.game.problem import CodeTests, Problem, StdioTest
from agon.judges.code import CodeJudge
from agon.judges.code.cgroup import cgroup_folder, run_cgroup
from agon.judges.code.languages import language
from agon.judges.code.layers import sandbox_layers
from agon.judges.code.process import Outcome
from agon.judges.code.sandbox import SandboxLimits, run_program
from agon.judges.code.seccomp import REFUSED, seccomp_filter

needs_sandbox = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
LIMITS = SandboxLimits(cpu_seconds=5, wall_seconds=8.0, memory_bytes=256 << 20)
ALLOWED, KILLED, NO_PERMISSION, NO_SUCH_CALL = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
# The kernel's number of the architecture, the column of the table, clone, and calls that programs need.
MACHINES = {
    "x86_64": (0xC000003E, 0, 56, {"read": 0, "execve": 59, "mmap": 9, "futex": 202}),
    "aarch64": (0xC00000B7, 1, 220, {"read": 63, "execve": 221, "mmap": 222, "futex": 98}),
}
CTYPES = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\nlibc.mmap.restype = ctypes.c_void_p\n"


def run(program: str, limits: SandboxLimits = LIMITS) -> Outcome:
    return run_program(program, b"", language("python"), limits)


def decided(rules: bytes, arch: int, number: int, first_argument: int = 0) -> int:
    """What the kernel would say: the filter run on its own small machine."""
    data = struct.pack("=IIQQ", number, arch, 0, first_argument)
    code = list(struct.iter_unpack("=HBBI", rules))
    at, value = 0, 0
    while True:
        kind, yes, no, constant = code[at]
        at += 1
        if kind == 0x06:
            return int(constant)
        if kind == 0x20:
            (value,) = struct.unpack_from("=I", data, constant)
        else:
            taken = {0x15: value == constant, 0x35: value >= constant, 0x45: bool(value & constant)}[kind]
            at += yes if taken else no


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_refuses_what_it_names_and_nothing_else(machine: str) -> None:
    arch, column, clone, needed = MACHINES[machine]
    rules = seccomp_filter(machine)
    assert rules is not None
    refused = {row[column] for row in REFUSED.values()} - {None}
    for number in range(470):
        expected = NO_PERMISSION if number in refused else NO_SUCH_CALL if number == 435 else ALLOWED
        assert decided(rules, arch, number) == expected, number
    assert not refused & set(needed.values())
    assert decided(rules, arch, clone, 0x1200011) == ALLOWED, "fork"
    assert decided(rules, arch, clone, 0x3D0F00) == ALLOWED, "a thread"
    assert decided(rules, arch, clone, 0x10000000) == NO_PERMISSION, "a user namespace"
    assert decided(rules, 0x40000003, 11) == KILLED, "a 32-bit call"
    assert decided(rules, arch, 0x40000000 + 59) == NO_SUCH_CALL


def test_on_another_machine_there_is_no_filter() -> None:
    assert seccomp_filter("riscv64") is None


@needs_sandbox
def test_the_kernel_refuses_what_the_filter_names() -> None:
    column = 1 if os.uname().machine == "aarch64" else 0
    numbers = [row[column] for row in REFUSED.values() if row[column] is not None]
    program = f"{CTYPES}print(*{{(libc.syscall(n, 0, 0, 0, 0, 0), ctypes.get_errno()) for n in {numbers}}})"
    assert run(program).stdout == b"(-1, 1)\n"


@needs_sandbox
@pytest.mark.parametrize(
    "take",
    [
        "import os\nfor i in range(10):\n    f = os.memfd_create('x')\n    os.write(f, bytes(60 << 20))",
        f"{CTYPES}for i in range(10):\n    n = libc.shmget(0, 60 << 20, 0o1600)\n    assert n >= 0",
        f"{CTYPES}assert libc.unshare(0x10020000) == 0\nassert libc.mount(b't', b'/tmp', b'tmpfs', 0, None) == 0",
        "import os, mmap, time\nr, w = os.pipe()\nfor i in range(8):\n    if os.fork() == 0:\n"
        "        m = mmap.mmap(-1, 60 << 20); m.write(bytes(60 << 20))\n"
        "        os.write(w, b'x'); time.sleep(9); os._exit(0)\n"
        "for i in range(8): os.read(r, 1)\ntime.sleep(1)",
        "for i in range(10):\n    open(f'/dev/shm/{i}', 'wb').write(bytes(60 << 20))",
        "import os\nfor i in range(10**6): os.close(os.open(f'/tmp/{i}', os.O_CREAT))",
        "import os\nfor i in range(10**6): os.symlink('x', f'/dev/shm/{i}')",
    ],
    ids=["memfd", "shared memory", "user namespace", "shared pages", "/dev/shm", "a million files", "symbolic links"],
)  # fmt: skip
def test_memory_beyond_the_limit_is_never_right(take: str) -> None:
    """256 MiB are allowed, each program wants more and then prints the answer."""
    tests = CodeTests(stdio=(StdioTest("", "42"),))
    problem = Problem(id="m", prompt="", task="t", domain="code", tests=tests)
    assert CodeJudge(run_limits=LIMITS).judge(problem, f"{take}\nprint(42)").reason == "wrong"


@needs_sandbox
def test_no_key_is_left_in_the_kernel() -> None:
    before = Path("/proc/keys").read_text() if Path("/proc/keys").exists() else ""
    add_key = REFUSED["add_key"][1 if os.uname().machine == "aarch64" else 0]
    run(f"{CTYPES}print(libc.syscall({add_key}, b'user', b'agon-canary', b'x', 1, -4))")
    if before:
        assert "agon-canary" not in Path("/proc/keys").read_text()


@needs_sandbox
def test_a_program_that_waits_for_a_cpu_gets_more_time_and_one_that_sleeps_does_not() -> None:
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"], start_new_session=True) for _ in range(8)
    ]
    try:
        limits = replace(LIMITS, cpu_seconds=3, wall_seconds=2.0)
        works = "import time\nwhile time.process_time() < 0.4: pass\nprint('done')"
        assert run(works, limits).stdout == b"done\n"
        slept = run("import time; time.sleep(60)", limits)
        assert (slept.ending, slept.seconds < 5) == ("timeout", True)
    finally:
        for process in busy:
            process.kill()
            process.wait()


@needs_sandbox
def test_all_processes_together_have_a_limit_on_cpu_time() -> None:
    program = "import os\nfor _ in range(3): os.fork()\nwhile True: pass"
    outcome = run(program, replace(LIMITS, cpu_seconds=1, wall_seconds=30.0))
    assert outcome.seconds < 15
    assert not outcome.ok


@needs_sandbox
def test_every_layer_is_tried_and_what_is_missing_is_named() -> None:
    layers = {layer.name: layer for layer in sandbox_layers()}
    assert all(layer.active for name, layer in layers.items() if "cgroup" not in name), layers
    cgroup = layers["kernel limits (cgroup)"]
    assert cgroup.active == (cgroup_folder()[0] is not None)
    assert cgroup.active or cgroup.found


def test_a_cgroup_that_is_lent_gets_the_limits_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that looks like the kernel's; the real one is used where the host lends it."""
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids")
    monkeypatch.setenv("AGON_CGROUP", str(tmp_path))
    monkeypatch.setattr("agon.judges.code.cgroup._REMOVAL_SECONDS", 0.0)
    cgroup_folder.cache_clear()
    try:
        with run_cgroup(1 << 20, 8) as folder:
            assert folder is not None
            assert (Path(folder) / "memory.max").read_text() == "1048576"
            assert (Path(folder) / "pids.max").read_text() == "16"
        assert (tmp_path / "cgroup.subtree_control").read_text() == "+memory +pids"
    finally:
        cgroup_folder.cache_clear()


@needs_sandbox
def test_where_the_host_lends_a_cgroup_the_kernel_keeps_the_limit() -> None:
    folder, about = cgroup_folder()
    if folder is None:
        pytest.skip(f"no cgroup for runs here: {about}")
    assert run("x = bytearray(200 << 20); print(len(x))", replace(LIMITS, memory_bytes=64 << 20)).ok is False
    assert not [name for name in os.listdir(folder) if name.startswith("agon-")]
