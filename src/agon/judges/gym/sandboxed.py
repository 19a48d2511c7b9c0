"""Scoring with a scorer that nobody has inspected: in the sandbox, a fresh process for one answer.

The scorer may execute the answer. It then runs without network, files or neighbours, under the limits of a
program, and reports a number on standard output. An answer that is executed can write that number itself,
so such a dataset says nothing about hostile answers; but it cannot touch the verdict of another answer.
Importing reasoning-gym takes about two seconds, which every answer pays here.
"""

import json
import math
import os
import sys
from collections.abc import Mapping
from functools import cache
from typing import Any

from agon.errors import InputError
from agon.game.verdict import Verdict
from agon.judges.code.failure import failure
from agon.judges.code.languages import Language, language
from agon.judges.code.sandbox import SandboxLimits, require_sandbox, run_program

_LIMITS = SandboxLimits(cpu_seconds=20, wall_seconds=60.0, memory_bytes=4 << 30)
_SCORE = """
import json, os, sys
sys.path[:0] = {paths!r}
request = json.loads({request!r})
out = os.dup(1)
os.dup2(2, 1)
import reasoning_gym
dataset = reasoning_gym.create_dataset(request["name"], size=1, seed=0, **request["parameters"])
score = float(dataset.score_answer(request["answer"], request["entry"]))
os.write(out, json.dumps(score).encode())
os._exit(0)
"""


def score_in_sandbox(
    name: str, parameters: Mapping[str, Any], entry: Mapping[str, Any], answer: str
) -> float | Verdict:
    """The score that the library's scorer gives, or the verdict if it gives none."""
    try:
        require_sandbox("bubblewrap")
    except InputError as fault:
        return Verdict(False, "error", f"The scorer of {name} is only run in a sandbox. {fault}")
    request = json.dumps({"name": name, "parameters": parameters, "entry": entry, "answer": answer})
    program = _SCORE.format(paths=list(_packages()), request=request)
    outcome = run_program(program, b"", _with_packages(), _LIMITS)
    failed = failure(outcome)
    if failed is not None:  # an unknown dataset, a scorer that raises, an answer that ends its process
        return Verdict(False, "timeout" if failed.reason == "timeout" else "error", failed.detail)
    try:
        score = json.loads(outcome.stdout)
    except ValueError:
        score = None
    if not isinstance(score, float) or not math.isfinite(score):
        return Verdict(False, "error", f"The scorer of {name} gave no score.")
    return score


@cache
def _packages() -> tuple[str, ...]:
    """Where this process finds installed packages."""
    return tuple(path for path in sys.path if path.endswith("-packages") and os.path.isdir(path))


@cache
def _with_packages() -> Language:
    bare = language("python")
    return Language(
        "python with packages", bare.file_name, bare.command, lambda: (*bare.runtime(), *_packages())
    )
