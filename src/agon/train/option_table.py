"""Every option of `agon train` as a table that is read without torch: names, kinds, defaults, help.

`options.json` is made from `AgonConfig` by `scripts/option_table.py`, and a test holds it to it.
"""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

TABLE = Path(__file__).with_name("options.json")


@dataclass(frozen=True)
class Option:
    """One option. `kind` says how its value is written; `help` is there for the options that are not TRL's."""

    name: str
    kind: str
    null: bool
    default: Any
    choices: tuple[str, ...] = ()
    help: str = ""


@cache
def options() -> dict[str, Option]:
    """Every option by its name, `model` and `task` first."""
    rows = json.loads(TABLE.read_text("utf-8"))
    return {row["name"]: Option(**{**row, "choices": tuple(row.get("choices", ()))}) for row in rows}


def own_options() -> list[Option]:
    """The options that are not TRL's, for `agon train --help`."""
    return [option for option in options().values() if option.help]


def defaults() -> dict[str, Any]:
    """What every option is if nobody sets it."""
    return {name: option.default for name, option in options().items()}
