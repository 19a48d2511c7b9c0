"""From what a person wrote to the value of an option: words of the command line, values of a YAML file.

Both are read alike, so `learning_rate: 1e-5` (which YAML 1.1 takes for a text) is the number that
`--learning_rate 1e-5` is.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from agon.errors import InputError, unknown
from agon.train.option_checks import fits, refusal
from agon.train.option_table import Option, options

TRUE = frozenset(("yes", "true", "t", "y", "1"))
FALSE = frozenset(("no", "false", "f", "n", "0"))
# Mappings that may also be the path of a JSON file.
JSON_FILES = frozenset(("accelerator_config", "fsdp_config", "deepspeed"))


def read_words(words: Sequence[str]) -> dict[str, Any]:
    """The options on a command line, `--key value`, `--key=value` or `--switch`."""
    given: dict[str, Any] = {}
    for name, values in _by_option(words):
        option, shown = options()[name.removeprefix("--")], f"--{name.removeprefix('--')}"
        if option.kind in ("list", "texts"):
            written: Any = list(values)
        elif not values and option.kind == "switch":
            written = "true"
        elif len(values) == 1:
            written = values[0]
        else:
            found = f"{len(values)}: {' '.join(values)}" if values else "none"
            raise InputError(f"{shown} takes one value; not {found}.")
        given[option.name] = read_value(option, written, shown)
    return given


def read_values(given: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """The options of a YAML file; `where` names the file in a sentence."""
    for key in given:
        if key not in options():
            raise unknown(f"option in {where}:", str(key), options())
    return {key: read_value(options()[key], value, f"{key} in {where}") for key, value in given.items()}


def read_value(option: Option, written: Any, shown: str) -> Any:
    """The value that was meant, or one sentence; `shown` is how the reader wrote the option's name."""
    try:
        value = _READERS[option.kind](option, written) if written is not None else None
    except (TypeError, ValueError, OverflowError, RecursionError):
        raise refusal(option.name, written, shown) from None
    if not fits(option, value):
        raise refusal(option.name, written, shown)
    return value


def _by_option(words: Sequence[str]) -> Iterable[tuple[str, list[str]]]:
    """Each option with the words after it; `--no_KEY` is `--KEY false`."""
    found: list[tuple[str, list[str]]] = []
    for word in words:
        # A negative number is a value, not an option.
        if word.startswith("-") and not _is_number(word):
            name, equals, value = word.partition("=")
            key = name.removeprefix("--").replace("-", "_")
            value_words = [value] if equals else []
            if key.removeprefix("no_") in options() and key not in options():
                key, value_words = key.removeprefix("no_"), [*value_words, "false"]
            if not name.startswith("--") or key not in options():
                raise unknown("option", name, _names())
            found.append((key, value_words))
        elif found:
            found[-1][1].append(word)
        else:
            raise InputError(f"'{word}' stands before any option (see `agon train --help`).")
    return found


def _names() -> list[str]:
    return [f"--{name}" for name in options()]


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def _whole(option: Option, written: Any) -> int:
    if isinstance(written, float) and written == int(written):
        return int(written)
    if isinstance(written, str):
        return int(written)
    return _same(option, written)


def _number(option: Option, written: Any) -> float:
    return float(written) if isinstance(written, str) else _same(option, written)


def _switch(option: Option, written: Any) -> bool:
    if not isinstance(written, str):
        return _same(option, written)
    if written.lower() in TRUE | FALSE:
        return written.lower() in TRUE
    raise ValueError(written)


def _texts(option: Option, written: Any) -> Any:
    """A list of texts; where one text is allowed too, a single word is that text."""
    many = [written] if isinstance(written, str) else written
    if not isinstance(many, list) or not all(isinstance(item, str) for item in many):
        raise ValueError(written)
    return many[0] if option.kind == "texts" and len(many) == 1 else many


def _list(option: Option, written: Any) -> list[Any]:
    if option.name == "reward_weights" and isinstance(written, list):
        return [float(item) for item in written]
    return _texts(option, written)


def _mapping(option: Option, written: Any) -> Any:
    """A mapping, written as JSON on a command line; a few may be the path of a file."""
    if isinstance(written, str):
        if option.name in JSON_FILES and not written.lstrip().startswith("{"):
            written_file = json.loads(_text_of(written))
            if not isinstance(written_file, dict):
                raise ValueError(written)
            return written
        written = json.loads(written)
    if not isinstance(written, dict):
        raise ValueError(written)
    return written


def _text_of(path: str) -> str:
    try:
        return Path(os.path.expanduser(path)).read_text("utf-8")
    except OSError as error:
        raise ValueError(path) from error


def _same(option: Option, written: Any) -> Any:
    return written


def _never(option: Option, written: Any) -> Any:
    raise ValueError(written)


_READERS: Mapping[str, Callable[[Option, Any], Any]] = {
    "whole": _whole,
    "number": _number,
    "switch": _switch,
    "text": _same,
    "choice": _same,
    "texts": _texts,
    "list": _list,
    "mapping": _mapping,
    "object": _never,  # made in Python only
}
