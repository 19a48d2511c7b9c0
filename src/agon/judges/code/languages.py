"""How a program of each language is run. Adding a language is adding a row."""

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

from agon.errors import unknown


@dataclass(frozen=True)
class Language:
    """`command` runs the file at a path; `runtime` lists the folders it needs besides /usr and /lib."""

    name: str
    file_name: str
    command: Callable[[str], tuple[str, ...]]
    runtime: Callable[[], tuple[str, ...]]


@cache
def _python() -> str:
    """The interpreter under any virtual environment: a program gets the bare language, no packages."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def _python_command(path: str) -> tuple[str, ...]:
    # Python prints no integer of more than 4,300 digits unless told to; some answers are longer.
    return (_python(), "-I", "-X", "int_max_str_digits=0", path)


def _python_runtime() -> tuple[str, ...]:
    # A relocated build may keep its library folder away from its interpreter.
    return tuple(dict.fromkeys((sys.base_prefix, sys.base_exec_prefix, os.path.dirname(_python()))))


LANGUAGES = {"python": Language("python", "program.py", _python_command, _python_runtime)}


def language(name: str) -> Language:
    """The language of this name."""
    if name not in LANGUAGES:
        raise unknown("language", name, LANGUAGES)
    return LANGUAGES[name]
