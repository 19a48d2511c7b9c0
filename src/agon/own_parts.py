"""Parts of your own by name: `module:object`, from the current folder or from what is installed.

A task, a judge, a method, a term of a reward, a set of prompts and a dialect may all be named this way.
Every one of them is loaded here and nowhere else, so whatever must be asked before code of a user runs
is asked in `load_part`. What was loaded is remembered, and a run records it by name (`loaded_parts`).
"""

import hashlib
import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from agon.errors import InputError, own_code

# The options of a configuration that may name parts. A run folder is data: whoever opens one looks here.
PART_OPTIONS = ("task", "judge", "method", "dialect", "prompts", "draft_reward", "challenge_reward")
_SPEC = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*")
_LOADED: dict[str, dict[str, str]] = {}


def is_part(name: object) -> bool:
    """Whether a name is written as a part of one's own.

    >>> is_part("my_parts:judge"), is_part("math"), is_part("gym:chain_sum,max_terms=3")
    (True, False, False)
    """
    return isinstance(name, str) and _SPEC.fullmatch(name) is not None and not name.startswith("gym:")


def parts_in(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The parts of one's own that a configuration names, each with the option it stands in."""
    for option in PART_OPTIONS:
        value = options.get(option)
        for name in value if isinstance(value, list | tuple) else [value]:
            if is_part(name):
                yield option, str(name)


def load_part(spec: str, what: str, kind: type | None = None) -> Any:
    """The object that `module:object` names; `what` it is meant to be stands in every sentence.

    `kind` is what it must be an instance of, if that is known.
    """
    module_name, _, name = spec.partition(":")
    found = _import(module_name, spec, what)
    for part in name.split("."):
        if not hasattr(found, part):
            raise InputError(
                f"The {what} '{spec}' cannot be imported: the module '{module_name}' has no '{name}'."
            )
        found = getattr(found, part)
    if kind is not None and not isinstance(found, kind):
        raise InputError(f"The {what} '{spec}' must be a {kind.__name__}, not {type(found).__name__}.")
    file = getattr(sys.modules.get(module_name), "__file__", None)
    if file:
        content = Path(file).read_bytes() if Path(file).is_file() else b""
        digest = hashlib.sha256(content).hexdigest()[:16]
        _LOADED[spec] = {"what": what, "file": os.path.abspath(file), "sha256": digest}
    return found


def loaded_parts() -> dict[str, dict[str, str]]:
    """Every part that was loaded so far, by its name: what it is, the file it came from, a hash of it."""
    return {spec: dict(record) for spec, record in _LOADED.items()}


def _import(module: str, spec: str, what: str) -> Any:
    """The module. The current folder comes first, as for `python -m`; a console script does not look there."""
    here = os.getcwd()
    front = here not in sys.path and "" not in sys.path
    if front:
        sys.path.insert(0, here)
    try:
        with own_code(f"The {what} '{spec}'"):
            return import_module(module)
    except InputError as error:
        cause = error.__cause__
        if isinstance(cause, ModuleNotFoundError) and cause.name in (module, module.split(".")[0]):
            raise InputError(
                f"The {what} '{spec}' cannot be imported: there is no module '{module}' in '{here}' or among the "
                "installed ones; run the command in the folder that holds it."
            ) from error
        if isinstance(cause, ImportError):
            raise InputError(f"The {what} '{spec}' cannot be imported: {cause}.") from error
        raise
    finally:
        if front:
            # Behind everything else it shadows nothing, and worker processes still find the module.
            sys.path.remove(here)
            sys.path.append(here)
