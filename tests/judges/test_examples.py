"""The examples in the docstrings of the judges run."""

import doctest
import pkgutil
from importlib import import_module

import pytest

import agon.judges

MODULES = sorted(module.name for module in pkgutil.walk_packages(agon.judges.__path__, "agon.judges."))


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_run(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0


def test_the_judges_show_examples() -> None:
    finder = doctest.DocTestFinder()
    assert sum(len(test.examples) for name in MODULES for test in finder.find(import_module(name))) >= 7
