"""A line of code knows its room from its imports: they point one way only."""

import ast
import doctest
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "agon"

# A room may import the rooms of the lines above its own, never one of its own line.
ORDER = [
    {"errors"},
    {"game"},
    {"tasks", "judges", "policies", "embedded"},
    {"engines"},
    {"arena"},
    {"evaluate"},
    {"train"},
    {"lab", "serve"},
    {"verbs"},
    {"cli"},
]
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem != "__init__")


def module_of(path: Path) -> list[str]:
    parts = ["agon", *path.relative_to(SOURCE).with_suffix("").parts]
    return parts[:-1] if parts[-1] == "__init__" else parts


def imported(tree: ast.AST, package: list[str]) -> Iterator[tuple[int, list[str]]]:
    """Every module of ours that a file imports, at any depth, with the line that does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name.split(".")
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = base + (node.module.split(".") if node.module else [])
            for alias in node.names:
                yield node.lineno, [*base, alias.name]


def wrong_imports(source: str, module: list[str], is_package: bool = False) -> list[str]:
    """The imports of a module that do not point its way."""
    room = module[1]
    package = module if is_package else module[:-1]
    wrong = []
    for line, target in imported(ast.parse(source), package):
        if target[0] != "agon" or len(target) < 2 or target[1] in (room, "__version__"):
            continue
        if target[1] not in RANK or RANK[target[1]] >= RANK[room]:
            wrong.append(f"{'.'.join(module)}:{line} imports {'.'.join(target)}")
    return wrong


def test_every_room_has_its_place_in_the_order() -> None:
    assert {module_of(path)[1] for path in FILES} <= set(RANK)


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    assert wrong_imports(path.read_text("utf-8"), module_of(path), path.stem == "__init__") == []


@pytest.mark.parametrize(
    "line",
    [
        "import agon.train.trainer",
        "from agon.arena import Arena",
        "from agon import engines",
        "from agon.judges.pool import Pool",
        "from ..judges import pool",
        "def later():\n    from agon.cli import main",
        "from agon import AgonTrainer",
    ],
)
def test_an_import_against_the_order_is_noticed(line: str) -> None:
    assert len(wrong_imports(line, ["agon", "tasks", "sources"])) == 1


@pytest.mark.parametrize(
    "line",
    [
        "from agon.game import Problem",
        "from agon.errors import InputError",
        "from agon import __version__",
        "from .splits import split",
        "from ..game import duel",
        "import agon",
        "import torch",
    ],
)
def test_an_import_along_the_order_is_allowed(line: str) -> None:
    assert wrong_imports(line, ["agon", "tasks", "sources"]) == []


HEAVY = {"torch", "transformers", "trl", "datasets", "numpy", "peft", "accelerate", "vllm", "scipy", "sympy"}


@pytest.mark.parametrize("module", ["agon", "agon.game", "agon.cli", "agon.commands.methods"])
def test_the_game_and_the_light_verbs_load_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY & {name.split(".")[0] for name in loaded.stdout.split()} == set()


GAME = sorted(path.stem for path in (SOURCE / "game").glob("*.py") if path.stem != "__init__")


@pytest.mark.parametrize("module", [*(f"agon.game.{stem}" for stem in GAME), "agon.errors"])
def test_examples_in_docstrings_run(module: str) -> None:
    assert doctest.testmod(import_module(module)).failed == 0


def test_the_game_shows_examples() -> None:
    finder = doctest.DocTestFinder()
    modules = [import_module(f"agon.game.{stem}") for stem in GAME]
    assert sum(len(test.examples) for module in modules for test in finder.find(module)) >= 4
