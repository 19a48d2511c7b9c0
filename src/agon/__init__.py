"""Agon: train two language models to out-reason each other.

    import agon

    pair = agon.load("runs/first")
    print(pair.ask("What is 17 * 23?"))

The public names are loaded on first use, so that `import agon` and the light commands of the command
line never wait for torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from agon.version import __version__

if TYPE_CHECKING:
    from agon.api import Answer, LoadedPair, Result, compare, evaluate, load, train
    from agon.errors import InputError
    from agon.game.problem import Problem
    from agon.game.verdict import Verdict
    from agon.tasks.task import Task
    from agon.train.config import AgonConfig
    from agon.train.live import LiveView
    from agon.train.trainer import AgonTrainer

__all__ = [
    "AgonConfig",
    "AgonTrainer",
    "Answer",
    "InputError",
    "LiveView",
    "LoadedPair",
    "Problem",
    "Result",
    "Task",
    "Verdict",
    "__version__",
    "compare",
    "evaluate",
    "load",
    "train",
]

_HOME = {
    "AgonConfig": "agon.train.config",
    "AgonTrainer": "agon.train.trainer",
    "Answer": "agon.api",
    "InputError": "agon.errors",
    "LiveView": "agon.train.live",
    "LoadedPair": "agon.api",
    "Problem": "agon.game.problem",
    "Result": "agon.api",
    "Task": "agon.tasks.task",
    "Verdict": "agon.game.verdict",
    "compare": "agon.api",
    "load": "agon.api",
}
# Rooms of the package that are also functions (`agon.callable_room`).
_ROOMS = ("evaluate", "train")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"agon.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'agon' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
