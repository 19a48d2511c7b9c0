"""A line of code knows its room from its imports: they point one way only."""

import ast
import doctest
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "agon"

# A room may import the rooms of the lines above its own, never one of its own line.
ORDER = [
    {"errors", "embedded", "faults", "printing", "version", "callable_room"},
    {"own_parts"},
    {"game"},
    {"tasks", "judges", "policies"},
    {"engines"},
    {"arena"},
    {"runs"},
    {"evaluate"},
    {"planning"},
    {"train", "reports", "warm"},
    {"lab", "view", "serve", "api"},
    {"commands"},
    {"cli"},
]
RANK = {room: rank for rank, rooms in enumerate(ORDER) for room in rooms}
FILES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE or path.stem != "__init__")
# What stands around the package. Scripts and benchmarks use the rooms, not the command line, and parts
# of the tests; nothing is imported from them but the making of the embedded base.
AROUND = {folder: sorted((ROOT / folder).rglob("*.py")) for folder in ("scripts", "benchmarks", "tests")}
NOT_FOR = {
    "scripts": ("agon.commands", "agon.cli", "benchmarks"),
    "benchmarks": ("agon.commands", "agon.cli", "scripts"),
    "tests": ("scripts", "benchmarks"),
}
TESTED_SCRIPTS = "scripts.pretraining"


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
        if target[0] != "agon" or len(target) < 2 or target[1] == room:
            continue
        if target[1] not in RANK or RANK[target[1]] >= RANK[room]:
            wrong.append(f"{'.'.join(module)}:{line} imports {'.'.join(target)}")
    return wrong


def test_every_room_has_its_place_in_the_order() -> None:
    assert {module_of(path)[1] for path in FILES} <= set(RANK)


def test_the_first_line_of_every_room_says_what_it_is() -> None:
    rooms = [*SOURCE.rglob("__init__.py"), SOURCE / "arena.py", SOURCE / "errors.py"]
    first = {
        path: (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").splitlines() for path in rooms
    }
    assert [path for path, lines in first.items() if not lines or not lines[0].endswith((".", ":"))] == []


def imports_from_outside(path: Path, folder: str) -> list[str]:
    """The imports of a file around the package that are not for it."""
    names = [".".join(target) for _, target in imported(ast.parse(path.read_text("utf-8")), [folder])]
    return [
        name
        for name in names
        if name.startswith(NOT_FOR[folder]) and not name.startswith((f"{folder}.", TESTED_SCRIPTS))
    ]


@pytest.mark.parametrize(
    ("folder", "path"),
    [(folder, path) for folder, paths in AROUND.items() if folder != "tests" for path in paths],
    ids=lambda value: value.name if isinstance(value, Path) else value,
)
def test_scripts_and_benchmarks_use_the_rooms_and_not_the_command_line(folder: str, path: Path) -> None:
    assert imports_from_outside(path, folder) == []


def test_tests_import_nothing_of_scripts_and_benchmarks() -> None:
    """What a test imports is package code; a script is something a person runs."""
    found = {str(path): imports_from_outside(path, "tests") for path in AROUND["tests"]}
    assert {path: names for path, names in found.items() if names} == {}


def test_no_room_imports_from_outside_the_package() -> None:
    outside = ("tests", "scripts", "benchmarks")
    found = [
        f"{path.relative_to(SOURCE)}:{line}"
        for path in FILES
        for line, target in imported(ast.parse(path.read_text("utf-8")), module_of(path)[:-1])
        if target[0] in outside
    ]
    assert found == []


RUN_FILES = ("config.yaml", "task.json", "metrics.jsonl", "summary.json", "result.json", "samples.jsonl")


def test_only_runs_knows_the_files_of_a_run() -> None:
    """As texts of the code; sentences for people may name a file."""
    quoted = {f"'{name}'" for name in RUN_FILES}
    found = []
    for path in [*FILES, *AROUND["scripts"], *AROUND["benchmarks"]]:
        if "runs" in path.relative_to(SOURCE if SOURCE in path.parents else ROOT).parts[:1]:
            continue
        texts = [
            node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Constant)
        ]
        found += [f"{path.name}: {text.value!r}" for text in texts if repr(text.value) in quoted]
    assert found == []


def imports_among(files: list[Path]) -> dict[str, set[str]]:
    """Which module of ours each module imports, at any depth of its code."""
    modules = {".".join(module_of(path)): path for path in files}
    arrows: dict[str, set[str]] = {}
    for name, path in modules.items():
        package = name.split(".") if path.stem == "__init__" else name.split(".")[:-1]
        targets = {".".join(target) for _, target in imported(ast.parse(path.read_text("utf-8")), package)}
        # `from agon.game import duel` names a module, `from agon.game.duel import Duel` something in one.
        homes = {target if target in modules else target.rpartition(".")[0] for target in targets}
        arrows[name] = {home for home in homes if home in modules and home != name}
    return arrows


def test_no_two_modules_import_each_other_by_any_way() -> None:
    arrows = imports_among(FILES)
    order = TopologicalSorter(arrows)
    order.prepare()  # raises CycleError and names the circle


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
        "from agon.version import __version__",
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
def test_the_game_and_the_light_commands_load_nothing_heavy(module: str) -> None:
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
