"""Recipes: a YAML file of options, overridden from the command line as `--key value`.

The keys are those of `AgonConfig`, plus `model` and `task`. The conventions are TRL's (`TrlParser`);
an unknown key is refused with the nearest right one.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import yaml
from trl import TrlParser

from agon.errors import InputError, unknown
from agon.train.config import AgonConfig


@dataclass
class RunArguments:
    """What is trained on what."""

    model: str = field(
        default="embedded",
        metadata={"help": "Base model: a Hub id, a local folder, or `embedded` for the tiny one we ship."},
    )
    task: str = field(
        default="",
        metadata={"help": "Task by name (`agon tasks` lists them), a local file, or module:object."},
    )


class _Parser(TrlParser):
    def error(self, message: str) -> NoReturn:
        raise InputError(f"{message[0].upper()}{message[1:]} (see `agon train --help`).")


def parse_recipe(recipe: Path | None, words: Sequence[str] = ()) -> tuple[RunArguments, AgonConfig]:
    """The run that a recipe and the command line's overrides ask for."""
    options = read_recipe(recipe) if recipe is not None else {}
    _refuse_unknown_words(words)
    parser = _Parser((RunArguments, AgonConfig), allow_abbrev=False)
    parser.set_defaults_with_config(**options)
    try:
        run, config = parser.parse_args_into_dataclasses(args=list(words), look_for_args_file=False)
    except InputError:
        raise
    except ValueError as error:  # TRL and transformers check their own options this way
        raise InputError(str(error)) from error
    if not run.task:
        raise InputError("Name a task with --task, or give a recipe (see `agon train --help`).")
    return run, config


def read_recipe(recipe: Path) -> dict[str, Any]:
    """The options of a recipe file, each a known one."""
    try:
        options = yaml.safe_load(recipe.read_text())
    except OSError as error:
        raise InputError(f"Cannot read the recipe '{recipe}': {error.strerror}.") from error
    except yaml.YAMLError as error:
        raise InputError(f"The recipe '{recipe}' is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(options, dict):
        raise InputError(f"The recipe '{recipe}' must be a mapping of options, like `learning_rate: 5.0e-5`.")
    for key in options:
        if key not in known_options():
            raise unknown(f"option in the recipe '{recipe}':", str(key), known_options())
    return options


def rebuild(saved: dict[str, Any]) -> tuple[RunArguments, AgonConfig]:
    """The run that a saved `config.yaml` describes."""
    run = RunArguments(model=saved["model"], task=saved["task"])
    names = {each.name for each in dataclasses.fields(AgonConfig) if each.init}
    # TRL derives one of these two from the other and refuses both.
    options = {key: value for key, value in saved.items() if key in names - {"generation_batch_size"}}
    return run, AgonConfig(**options)


def known_options() -> list[str]:
    """Every key that a recipe may have."""
    return [
        each.name for kind in (RunArguments, AgonConfig) for each in dataclasses.fields(kind) if each.init
    ]


def own_options() -> list[dataclasses.Field[Any]]:
    """The options that are not TRL's, for `agon train --help`."""
    inherited = {each.name for kind in AgonConfig.__mro__[1:] for each in _fields_of(kind)}
    chosen = [each for each in _fields_of(AgonConfig) if each.name not in inherited]
    return [*dataclasses.fields(RunArguments), *chosen]


def _fields_of(kind: type) -> Sequence[dataclasses.Field[Any]]:
    return dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()


def _refuse_unknown_words(words: Sequence[str]) -> None:
    known = {*known_options()}
    known |= {f"no_{name}" for name in known}
    for word in words:
        name = word.removeprefix("--").split("=")[0].replace("-", "_")
        if word.startswith("--") and name not in known:
            raise unknown("option", f"--{name}", [f"--{each}" for each in known])
