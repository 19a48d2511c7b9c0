"""A filter of system calls for the sandbox: what no program of a puzzle needs is refused by the kernel.

Refused: keys, tracing, other processes' memory, io_uring, namespaces, mounts, BPF, page-fault handlers,
performance counters, memory that no limit counts (memfd, System V shared memory, message queues), kernel
modules, clocks, and calls of another architecture. A refused call fails with "operation not permitted", so a
program that merely tries goes on. Threads, forks, files, pipes and sockets work as ever.

The filter is a small program for the kernel's own machine (classic BPF), assembled here, so it needs no
library; bubblewrap loads it (`--seccomp`). Numbers are those of the kernel's tables for x86-64 and arm64;
on another machine there is no filter, and `agon doctor` says so.
"""

import platform
import struct
from dataclasses import dataclass

_EPERM, _ENOSYS = 1, 38
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_ERRNO = 0x00050000
# Offsets in the kernel's `struct seccomp_data`.
_NUMBER_AT, _ARCH_AT, _FIRST_ARGUMENT_AT = 0, 4, 16
# Instructions: load a word, jump if equal, jump if at least, jump if any bit is set, return.
_LOAD, _IF_EQUAL, _IF_AT_LEAST, _IF_ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
# CLONE_NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_NEW_NAMESPACES = 0x80 | 0x20000 | 0x2000000 | 0x4000000 | 0x8000000 | 0x10000000 | 0x20000000 | 0x40000000

# name: (x86-64, arm64); None where the machine has no such call.
REFUSED: dict[str, tuple[int | None, int | None]] = {
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "bpf": (321, 280),
    "userfaultfd": (323, 282),
    "perf_event_open": (298, 241),
    "fanotify_init": (300, 262),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "msgget": (68, 186),
    "semget": (64, 190),
    "mq_open": (240, 180),
    "mbind": (237, 235),
    "set_mempolicy": (238, 237),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "remap_file_pages": (216, 234),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "syslog": (103, 116),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "personality": (135, 92),
    "vhangup": (153, 58),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
}


@dataclass(frozen=True)
class _Machine:
    column: int
    arch: int  # the kernel's AUDIT_ARCH_ number
    clone: int
    clone3: int = 435


_MACHINES = {"x86_64": _Machine(0, 0xC000003E, 56), "aarch64": _Machine(1, 0xC00000B7, 220)}
_X32_CALLS = 0x40000000  # x86-64's 32-bit pointers: the same calls under other numbers


def seccomp_filter(machine: str | None = None) -> bytes | None:
    """The filter for this machine as bubblewrap reads it, or None if there is none for it."""
    found = _MACHINES.get(machine or platform.machine())
    if found is None:
        return None
    numbers = [number for row in REFUSED.values() if (number := row[found.column]) is not None]
    code = [
        (_LOAD, 0, 0, _ARCH_AT),
        (_IF_EQUAL, 1, 0, found.arch),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_IF_AT_LEAST, 0, 1, _X32_CALLS),
        (_RETURN, 0, 0, _ERRNO | _ENOSYS),
        # The C library tries clone3 first and takes clone if there is none; only clone's flags can be read.
        (_IF_EQUAL, 0, 1, found.clone3),
        (_RETURN, 0, 0, _ERRNO | _ENOSYS),
        (_IF_EQUAL, 0, 4, found.clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_AT),
        (_IF_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, _ERRNO | _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    for number in numbers:
        code += [(_IF_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | _EPERM)]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)
