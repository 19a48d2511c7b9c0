"""What a sweep is asked to be: a sweep file, or a recipe with methods and seeds.

    name: rates
    recipes:                         # one or several, each a name or file that `agon train` takes
      - recipe: qwen2.5-0.5b-gsm8k
        name: slow
        options: {learning_rate: 2.0e-5}
      - recipe: qwen2.5-0.5b-gsm8k
        name: two-passes
        methods: [agon]              # in place of the sweep's own
        options: {num_train_epochs: 2}
    methods: [grpo, coop, agon]
    seeds: 3                         # 0, 1 and 2; or a list
    options: {save_steps: 10}        # for every cell
    overrides: {grpo: {learning_rate: 1.0e-4}}
    controls: true                   # evaluate the untrained model too
    evaluate: {splits: [validation, test], samples: 4, transfer: [math-500], options: {engine: vllm}}
    slurm: {partition: gpu, timeout_min: 240}
    ray: {num_gpus: 0.5}

Everything is checked here, without torch; what is wrong is one sentence.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from agon.embedded import EMBEDDED, default_recipe
from agon.errors import InputError, unknown
from agon.evaluate.request import LARGEST_SEED
from agon.game.methods import method
from agon.lab.sweep.evaluation import Evaluation, read_evaluation
from agon.runs.sweep_folder import NAME
from agon.train.option_values import read_values, read_words
from agon.train.recipes import find_recipe, read_recipe

SWEEP_KEYS = (
    *("name", "recipes", "methods", "seeds", "options", "overrides", "controls", "evaluate"),
    *("slurm", "ray"),
)
RECIPE_KEYS = ("recipe", "name", "options", "methods", "seeds", "controls")
# What only a sweep file has: a recipe has options.
MARKS = frozenset(SWEEP_KEYS) - {"name"}
MOST_SEEDS = 1000
# What a cell has of its own, and where it is said.
CELLS_OWN = {"method": "methods", "seed": "seeds", "output_dir": "--output"}


@dataclass(frozen=True)
class Group:
    """Cells that are compared with each other: one recipe, with every option that they share."""

    name: str
    options: dict[str, Any]
    methods: tuple[str, ...]
    seeds: tuple[int, ...]
    controls: bool
    recipe: str | None = None


@dataclass(frozen=True)
class Sweep:
    """A sweep that was asked for, every word of it checked."""

    name: str
    groups: tuple[Group, ...]
    overrides: dict[str, dict[str, Any]] = field(default_factory=dict)
    evaluation: Evaluation = field(default_factory=Evaluation)
    places: dict[str, dict[str, Any]] = field(default_factory=dict)  # options of `slurm` and `ray`


def read_sweep(
    target: str | None,
    words: Sequence[str] = (),
    methods: Sequence[str] = (),
    seeds: Sequence[int] = (),
) -> Sweep:
    """The sweep of a file or of a recipe; what the command line names goes before what is written there."""
    given = _shared(read_words(words), "the command line")
    content, where = _content(target)
    for key in content:
        if key not in SWEEP_KEYS:
            raise unknown(f"key in {where}:", str(key), SWEEP_KEYS)
    entries = _recipes(content.get("recipes"), target if not content else None, where)
    shared = {**_shared(_options(content.get("options"), where), where), **given}
    usual: dict[str, Any] = {
        name: content[name] for name in ("methods", "seeds", "controls") if name in content
    }
    named = {name: list(each) for name, each in (("methods", methods), ("seeds", seeds)) if each}
    groups = tuple(_group({**usual, **entry, **named}, shared, given, where) for entry in entries)
    names = [group.name.casefold() for group in groups]
    for group in groups:
        if names.count(group.name.casefold()) > 1:
            raise InputError(
                f"Two cells of {where} would have one name: two recipes are called '{group.name}'; give each a "
                "name of its own."
            )
    overrides = _overrides(content.get("overrides"), groups, where, bool(methods))
    places = {name: _mapping(content.get(name), f"{name} in {where}") for name in ("slurm", "ray")}
    name = content.get("name") or (_stem(target) if target else groups[0].name)
    return Sweep(
        name=_name(name, f"name in {where}"),
        groups=groups,
        overrides=overrides,
        evaluation=read_evaluation(content.get("evaluate"), f"evaluate in {where}"),
        places=places,
    )


def _content(target: str | None) -> tuple[dict[str, Any], str]:
    """What a sweep file holds and what it is called in a sentence; empty for a recipe."""
    path = None if target is None else Path(target).expanduser()
    if path is None or path.suffix not in (".yaml", ".yml") or not path.is_file():
        return {}, "the sweep"
    try:
        found = yaml.safe_load(path.read_text("utf-8"))
    except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError):
        return {}, "the sweep"  # `read_recipe` says what is wrong with it
    if not isinstance(found, dict) or not MARKS & {str(key) for key in found}:
        return {}, "the sweep"
    return found, f"the sweep '{target}'"


def _recipes(written: Any, target: str | None, where: str) -> list[dict[str, Any]]:
    """The recipes of a sweep, each as a mapping; without any, the one of the command line or the embedded one."""
    if written is None:
        return [{"recipe": target}]
    entries = written if isinstance(written, list) else [written]
    made = [{"recipe": entry} if isinstance(entry, str) else entry for entry in entries]
    if not made or not all(isinstance(entry, dict) for entry in made):
        raise InputError(
            f"recipes in {where} must be a recipe, or a list of recipes, each a name or a mapping with "
            f"{', '.join(RECIPE_KEYS)}; not {_shown(written)}."
        )
    for entry in made:
        for key in entry:
            if key not in RECIPE_KEYS:
                raise unknown(f"key of a recipe in {where}:", str(key), RECIPE_KEYS)
    return made


def _group(
    entry: Mapping[str, Any], shared: Mapping[str, Any], given: Mapping[str, Any], where: str
) -> Group:
    """A group; `shared` are the options of all groups, `given` those of the command line, which come last."""
    recipe, controls = entry.get("recipe"), entry.get("controls", False)
    if recipe is not None and not isinstance(recipe, str):
        raise InputError(f"recipe in {where} must be a name or a file, not {_shown(recipe)}.")
    if not isinstance(controls, bool):
        raise InputError(f"controls in {where} must be yes or no, not {_shown(controls)}.")
    own = _shared(_options(entry.get("options"), where), where)
    # A cell is evaluated by the sweep: the short evaluation at the end of a training would be made twice.
    changes = {"final_evaluation": 0, **shared, **own, **given}
    base: dict[str, Any] = {}
    if recipe is not None:
        base = read_recipe(find_recipe(recipe))
    elif changes.get("model", EMBEDDED) == EMBEDDED:
        base = read_recipe(default_recipe())
    options = {**base, **changes}
    usual = [options.get("method") or "agon"]
    return Group(
        name=_name(
            entry.get("name", "default" if recipe is None else _stem(recipe)), f"name of a recipe in {where}"
        ),
        options={name: value for name, value in options.items() if name not in CELLS_OWN},
        methods=_methods(entry.get("methods", usual), where),
        seeds=_seeds(entry.get("seeds", 1), where),
        controls=controls,
        recipe=recipe,
    )


def _methods(written: Any, where: str) -> tuple[str, ...]:
    names = [written] if isinstance(written, str) else written
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise InputError(
            f"methods in {where} must be names of methods (see `agon methods`), not {_shown(written)}."
        )
    for name in names:
        method(name)  # one that is not there is refused in a sentence
        if names.count(name) > 1:
            raise InputError(f"Two cells of {where} would have one name: the method '{name}' is named twice.")
    return tuple(names)


def _seeds(written: Any, where: str) -> tuple[int, ...]:
    """A number of seeds, counted from 0, or the seeds themselves."""
    if type(written) is int and 1 <= written <= MOST_SEEDS:
        return tuple(range(written))
    fine = isinstance(written, list) and bool(written)
    if not fine or not all(type(seed) is int and 0 <= seed <= LARGEST_SEED for seed in written):
        raise InputError(
            f"seeds in {where} must be how many (1 to {MOST_SEEDS}) or a list of seeds from 0 to {LARGEST_SEED}, "
            f"not {_shown(written)}."
        )
    for seed in written:
        if written.count(seed) > 1:
            raise InputError(f"Two cells of {where} would have one name: the seed {seed} is named twice.")
    return tuple(written)


def _overrides(
    written: Any, groups: Sequence[Group], where: str, named_methods: bool
) -> dict[str, dict[str, Any]]:
    """Options of particular methods; where the command line names others than the file, some may not be there."""
    found = _mapping(written, f"overrides in {where}")
    known = {name for group in groups for name in group.methods}
    for name in found:
        if named_methods:
            method(name)
        elif name not in known:
            raise unknown(f"method in the overrides of {where}:", str(name), known)
    return {name: _shared(_options(changes, where), where) for name, changes in found.items()}


def _options(written: Any, where: str) -> dict[str, Any]:
    """Options of `agon train`, each a known one with a value of its kind."""
    return read_values(_mapping(written, f"options in {where}"), where)


def _shared(options: dict[str, Any], where: str) -> dict[str, Any]:
    for name, place in CELLS_OWN.items():
        if name in options:
            raise InputError(f"{name} in {where} differs from cell to cell: say it with {place}.")
    for name, value in options.items():
        if value is None:
            raise InputError(f"{name} in {where} has no value: leave it out, or give it one.")
    return options


def _mapping(written: Any, what: str) -> dict[str, Any]:
    if written is None:
        return {}
    if not isinstance(written, dict) or not all(isinstance(key, str) for key in written):
        raise InputError(
            f"{what} must be a mapping of options, like `learning_rate: 5.0e-5`; not {_shown(written)}."
        )
    return dict(written)


def _name(written: Any, what: str) -> str:
    if not isinstance(written, str) or not NAME.fullmatch(written):
        raise InputError(
            f"{what} must be letters, digits and . + - _, as it names files; not {_shown(written)}."
        )
    return written


def _stem(path: str) -> str:
    """A name for files, of a file or of a recipe that comes with the package: qwen3-0.6b-deepmath has a dot."""
    stem = Path(path).name.removesuffix(".yaml").removesuffix(".yml").removesuffix(".sweep")
    return re.sub(r"[^\w.+-]", "-", stem)


def _shown(value: Any) -> str:
    return f"'{value}'" if isinstance(value, str) else repr(value)
