"""Recipes: a YAML file of options, overridden from the command line as `--key value`.

The keys are those of `AgonConfig`, plus `model` and `task`. `read_request` checks every word, value and
file without loading torch; `build_config` makes the configuration of what it has found.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from agon.embedded import EMBEDDED, default_recipe
from agon.errors import InputError, unknown
from agon.train.option_checks import check_options
from agon.train.option_combinations import check_combinations, check_here
from agon.train.option_table import defaults, options
from agon.train.option_values import read_value, read_values, read_words

if TYPE_CHECKING:
    from agon.train.config import AgonConfig

RECIPES = Path(__file__).parents[1] / "recipes"


@dataclass
class RunArguments:
    """What is trained on what."""

    model: str = field(
        default=EMBEDDED,
        metadata={"help": "Base model: a Hub id, a local folder, or `embedded` for the tiny one we ship."},
    )
    task: str = field(
        default="",
        metadata={"help": "Task by name (`agon tasks` lists them), a local file, or module:object."},
    )


@dataclass(frozen=True)
class Request:
    """A run that was asked for: what is trained on what, and the options that were given."""

    what: RunArguments
    options: Mapping[str, Any]

    def check_here(self) -> None:
        """Refuse a run that this machine cannot make: packages, files, the task, a judge of one's own."""
        check_here({**defaults(), **self.options, "model": self.what.model, "task": self.what.task})


def shipped_recipes() -> list[str]:
    """The names of the recipes that come with the package."""
    return sorted(path.stem for path in RECIPES.glob("*.yaml"))


def find_recipe(name: str | Path) -> Path:
    """A recipe's file: a path that exists, else the recipe of this name that comes with the package.

    `qwen3-0.6b-deepmath` and `recipes/qwen3-0.6b-deepmath.yaml` are the same one.
    """
    given = Path(os.path.expanduser(name))
    if given.exists() or given == Path():
        return given
    shipped = RECIPES / f"{given.name.removesuffix('.yaml')}.yaml"
    if shipped.is_file() and str(given.parent) in (".", "recipes"):
        return shipped
    if given.suffix in (".yaml", ".yml") or len(given.parts) > 1:
        raise InputError(f"Cannot read the recipe '{name}': No such file or directory.")
    raise unknown("recipe", str(name), shipped_recipes())


def read_request(recipe: str | Path | None, words: Sequence[str] = ()) -> Request:
    """The run that a recipe and the command line's overrides ask for, every option of it checked.

    Without a recipe, the embedded base has the options of its own recipe, any other model the defaults.
    """
    return _requested(recipe, read_words(words))


def request_of(recipe: str | Path | None, given: Mapping[str, Any]) -> Request:
    """The same with options that were given in Python."""
    return _requested(recipe, read_values(given, "agon.train"))


def _requested(recipe: str | Path | None, given: Mapping[str, Any]) -> Request:
    if recipe is not None:
        chosen = {**read_recipe(find_recipe(recipe)), **given}
    elif given.get("model", EMBEDDED) == EMBEDDED:
        chosen = {**read_recipe(default_recipe()), **given}
    else:
        chosen = dict(given)
    return request_from(chosen)


def request_from(options: Mapping[str, Any]) -> Request:
    """The run of these options and of no recipe besides, every option of it checked."""
    chosen = dict(options)
    if not chosen.get("task"):
        model = f" for --model {chosen['model']}" if "model" in chosen else ""
        raise InputError(
            f"Name a task{model} with --task, such as --task gsm8k, or give a recipe (`agon tasks` lists the tasks)."
        )
    _check(chosen)
    what = RunArguments(chosen.pop("model", EMBEDDED), chosen.pop("task"))
    return Request(what, chosen)


def parse_recipe(recipe: str | Path | None, words: Sequence[str] = ()) -> "tuple[RunArguments, AgonConfig]":
    """The run that a recipe and the command line's overrides ask for."""
    asked = read_request(recipe, words)
    return asked.what, build_config(asked.options)


def build_config(given: Mapping[str, Any]) -> "AgonConfig":
    """The configuration with these options; whatever it does not accept is one sentence."""
    from agon.train.config import AgonConfig

    try:
        return AgonConfig(**given)
    except InputError:
        raise
    # TRL and transformers check their own options, and what those need, in these ways.
    except (
        ValueError,
        TypeError,
        KeyError,
        ImportError,
        OSError,
        AssertionError,
        NotImplementedError,
    ) as error:
        raise InputError(" ".join(str(error).split())) from error


def read_recipe(recipe: Path) -> dict[str, Any]:
    """The options of a recipe file, each a known one with a value of its kind."""
    where = f"the recipe '{recipe}'"
    return read_values(_read_yaml(recipe, where), where)


def _read_yaml(path: Path, where: str) -> dict[Any, Any]:
    try:
        found = yaml.safe_load(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"Cannot read {where}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"Cannot read {where}: it is not text.") from error
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"{where[0].upper()}{where[1:]} is not YAML: {said}") from error
    if not isinstance(found, dict):
        raise InputError(
            f"{where[0].upper()}{where[1:]} must be a mapping of options, like `learning_rate: 5.0e-5`."
        )
    return found


def read_saved(saved: Mapping[str, Any], where: str) -> Request:
    """The run that a saved `config.yaml` describes; what is in it besides options is left out."""
    # TRL derives one of these two from the other and refuses both.
    names = [name for name in options() if name in saved and name != "generation_batch_size"]
    chosen = {name: _saved_value(name, saved[name], f"{name} in {where}") for name in names}
    for name in ("model", "task"):
        if not chosen.get(name):
            raise InputError(f"{where} is not the configuration of a run: it has no {name}.")
    _check(chosen, lambda name: f"{name} in {where}")
    what = RunArguments(chosen.pop("model"), chosen.pop("task"))
    return Request(what, chosen)


def _saved_value(name: str, value: Any, shown: str) -> Any:
    option = options()[name]
    if value in ([], {}, "") and option.kind in ("texts", "list", "mapping", "text", "object"):
        return value  # what transformers makes of an option that nobody set
    return read_value(option, value, shown)


def _check(chosen: Mapping[str, Any], show: Callable[[str], str] = str) -> None:
    everything = {**defaults(), **chosen}
    check_options(everything, show)
    check_combinations(everything)
