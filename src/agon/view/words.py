"""What may be asked of a list of duels, in words: of a query, or of a command line.

`policy`, `reward`, `length`, `truncated`, `malformed` and `failed` look at the side named by `role`, or at
either side where none is named.
"""

import argparse
import math
from collections.abc import Mapping
from dataclasses import dataclass

from agon.errors import InputError, unknown
from agon.game.transition import TRANSITIONS

OUTCOMES = (*(name.replace(" ", "-") for name in TRANSITIONS), "right", "wrong")
MARKS = ("copied", "leaked", "truncated", "malformed", "failed")
SIDES = ("draft", "challenge")
SORTS = ("newest", "oldest", "paid", "long")
LONGEST = 2000  # characters of a value; longer ones are refused
Range = tuple[float, float]


@dataclass(frozen=True)
class Filter:
    """What is wanted of a list. Several outcomes are alternatives, several marks all hold."""

    outcomes: tuple[str, ...] = ()
    marks: tuple[str, ...] = ()
    policy: str = ""
    role: str = ""
    steps: Range | None = None
    reward: Range | None = None
    length: Range | None = None
    problem: str = ""
    play: str = ""
    search: str = ""
    sort: str = "newest"


def parse(words: Mapping[str, str]) -> Filter:
    """A filter from the words of a query or a command line; the first wrong one is refused by name."""
    for name, value in words.items():
        if len(value) > LONGEST:
            raise InputError(f"{name} has {len(value)} characters: at most {LONGEST} can be asked for.")
    return Filter(
        outcomes=_names("outcome", words.get("outcome", ""), OUTCOMES),
        marks=_names("mark", words.get("mark", ""), MARKS),
        policy=words.get("policy", ""),
        role=_one("role", words.get("role", ""), SIDES),
        steps=_range("step", words.get("step", "")),
        reward=_range("reward", words.get("reward", "")),
        length=_range("length", words.get("length", "")),
        problem=words.get("problem", ""),
        play=words.get("play", ""),
        search=words.get("search", ""),
        sort=_one("sort", words.get("sort", ""), SORTS) or SORTS[0],
    )


def _names(what: str, written: str, known: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({_one(what, name, known) for name in written.split(",") if name}))


def _one(what: str, written: str, known: tuple[str, ...]) -> str:
    if written and written not in known:
        raise unknown(what, written, known)
    return written


def _range(what: str, written: str) -> Range | None:
    """`3`, `3..9`, `3..` or `..9`, both ends included.

    >>> _range("step", "3..")
    (3.0, inf)
    """
    if not written:
        return None
    low, dots, high = written.partition("..")
    try:
        first = float(low) if low else -math.inf
        last = (float(high) if high else math.inf) if dots else first
    except ValueError:
        first = last = math.nan
    if math.isnan(first) or math.isnan(last) or not (low or high):
        raise InputError(f"{what} must be a number or a range such as 3..9, not '{written}'.")
    return first, last


# The words of a filter that take a value, with what a command line says of them.
VALUES = {
    "policy": "A or B: duels that it took part in, or had this --role in",
    "step": "a step or a range of them, such as 3 or 3..9",
    "reward": "what was earned, as a range such as 2..3",
    "length": "tokens, as a range such as ..200",
    "problem": "the id of a problem, or words of its beginning",
    "play": "an arm of an evaluation, such as A->B",
    "search": "words in any text of the duel",
}
WORDS = ("outcome", "mark", "role", "sort", *VALUES)


def add_filter(parser: argparse.ArgumentParser) -> None:
    """The options of a command that lists duels."""
    wanted = parser.add_argument_group("which duels")
    for kind, names in (("outcomes", OUTCOMES), ("marks", MARKS)):
        for name in names:
            wanted.add_argument(f"--{name}", action="append_const", dest=kind, const=name, help=HELP[name])
    wanted.add_argument("--role", choices=SIDES, help="look at this side only")
    for name, said in VALUES.items():
        wanted.add_argument(f"--{name}", default="", help=said)
    wanted.add_argument("--sort", choices=SORTS, help="what comes first (default: newest)")


HELP = {
    "both-right": "draft and challenge are right",
    "converted": "the draft is wrong, the challenge right",
    "corrupted": "the draft is right, the challenge wrong",
    "both-wrong": "both are wrong",
    "right": "the final answer is right",
    "wrong": "the final answer is wrong",
    "copied": "the challenge gave the draft's answer again",
    "leaked": "the gold answer can be read off what was shown",
    "truncated": "cut off at the limit of tokens",
    "malformed": "not in the form that was asked for",
    "failed": "the judge timed out or failed",
}


def filter_words(arguments: argparse.Namespace) -> dict[str, str]:
    """What was asked for on a command line, as the words of a query; checked."""
    words = {name: getattr(arguments, name) or "" for name in ("role", "sort", *VALUES)}
    words["outcome"] = ",".join(arguments.outcomes or ())
    words["mark"] = ",".join(arguments.marks or ())
    words = {name: value for name, value in words.items() if value}
    parse(words)
    return words
