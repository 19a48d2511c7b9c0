"""A room of the package that can be called: `agon.evaluate(…)` is a function and `agon.evaluate.compare` a module.

Python makes a subpackage an attribute of its package, so the two cannot have one name unless the subpackage
itself can be called. What it calls is named, not imported: the room does not depend on it.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class CallableRoom(ModuleType):
    """A module that passes a call on to a function of `agon.api`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = getattr(import_module("agon.api"), self.__name__.rpartition(".")[2])
        return function(*args, **kwargs)


def make_callable(module: str) -> None:
    """Let a module be called as the function of its name in `agon.api`."""
    sys.modules[module].__class__ = CallableRoom
