"""Generated problems: the generators of reasoning-gym.

`gym:chain_sum,min_terms=2,max_terms=3` names a generator and its parameters. Problems come from one
seeded stream; the hash of a question decides its split. So no question is in two splits, and a split
keeps its problems when another one is asked to be larger.

A generator in `UNSAFE` has a scorer that a policy can fool; `gym:boxnet,unsafe=true` takes it all the same.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any

from agon.errors import InputError, unknown
from agon.game.problem import Problem
from agon.tasks.dedup import DUPLICATE, NOT_NEEDED
from agon.tasks.splits import SPLITS, check_size, content_id, hash_fraction
from agon.tasks.task import Task

SIZES = {"train": 2000, "validation": 300, "test": 500}
# The share of all questions that belongs to each split, as the upper end of its range within [0, 1).
UPPER_ENDS = {"train": 0.6, "validation": 0.8, "test": 1.0}
# The library's own default size. Some generators prepare as many items at once, so it stays small.
CHUNK = 500
# Scorers that the judge cannot make safe, and why. It scores these in the sandbox, an answer a process.
UNSAFE = {
    "boxnet": "its scorer skips moves that are not possible, so a list of all moves counts as a plan",
    "composite": "it forwards an answer to the scorers of other datasets, and nobody has inspected which",
}
# A generator that has added no problem for this many items in a row is taken to have no more.
GIVE_UP_AFTER = 2000


def load_gym(name: str, seed: int, options: Mapping[str, Any]) -> Task:
    """A task of generated problems; options are sizes of splits and parameters of the generator."""
    sizes = {split: check_size(split, options.get(split, SIZES[split])) for split in SPLITS}
    parameters = {key: value for key, value in options.items() if key not in (*SPLITS, "unsafe")}
    if name in UNSAFE and options.get("unsafe") is not True:
        raise InputError(
            f"Task 'gym:{name}' is not used for training: {UNSAFE[name]}. "
            f"Write gym:{name},unsafe=true if you want it all the same."
        )
    splits: dict[str, list[Problem]] = {split: [] for split in SPLITS}
    seen: set[str] = set()
    dropped: Counter[str] = Counter()
    since_last_kept = 0
    for entry in _stream(name, parameters, seed):
        question = entry["question"]
        since_last_kept += 1
        if question in seen:
            dropped[DUPLICATE] += 1
        else:
            seen.add(question)
            split = _split_of(question, seed)
            if len(splits[split]) < sizes[split]:
                splits[split].append(_problem(name, parameters, entry))
                since_last_kept = 0
            else:
                dropped[NOT_NEEDED] += 1
        if since_last_kept >= GIVE_UP_AFTER or all(len(splits[each]) >= sizes[each] for each in SPLITS):
            break
    notes = tuple(
        f"The generator has {len(splits[split])} different {split} problems; {sizes[split]} were asked for."
        for split in SPLITS
        if len(splits[split]) < sizes[split]
    )
    if not any(splits.values()):
        raise InputError(f"Task 'gym:{name}' was asked for no problems: give a split a size.")
    chosen = {**parameters, **({"unsafe": True} if name in UNSAFE else {}), **sizes, "seed": seed}
    return Task(f"gym:{name}", "gym", splits, dict(dropped), chosen, notes)


def gym_names() -> list[str]:
    """The names of all generators."""
    from reasoning_gym.factory import DATASETS

    return sorted(DATASETS)


def _split_of(question: str, seed: int) -> str:
    fraction = hash_fraction(question, seed)
    return next(split for split in SPLITS if fraction < UPPER_ENDS[split])


def _stream(name: str, parameters: Mapping[str, Any], seed: int) -> Iterator[dict[str, Any]]:
    """The items of a generator, without end, as plain JSON values."""
    from reasoning_gym.factory import DATASETS, create_dataset

    if name not in DATASETS:
        raise unknown("reasoning-gym task", name, DATASETS)
    known = [field.name for field in fields(DATASETS[name][1]) if field.name not in ("seed", "size")]
    for key in parameters:
        if key not in known:
            raise unknown(f"parameter of gym:{name}", key, [*known, *SPLITS, "unsafe"])
    # An item is drawn with the seed plus its index: chunks that advance the seed by their own length
    # continue one stream. Different seeds start far enough apart that their streams share no item.
    start = seed * 10_000_000 % 2**31
    checked = False
    while True:
        try:
            chunk = create_dataset(name, seed=start, size=CHUNK, **parameters)
        except (AssertionError, TypeError, ValueError) as error:
            raise InputError(f"gym:{name} does not accept these parameters: {error}.") from error
        for index in range(CHUNK):
            entry = _plain(chunk[index])
            if not checked and entry["answer"] is not None:
                _check_scorer(name, chunk, entry)
                checked = True
            yield entry
        start += CHUNK


def _plain(entry: Mapping[str, Any]) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(json.dumps(entry, default=str))
    return plain


def _check_scorer(name: str, chunk: Any, entry: dict[str, Any]) -> None:
    """A scorer that refuses its own answer would call every answer wrong: better to stop here."""
    if chunk.score_answer(entry["answer"], entry) != 1.0:
        raise InputError(
            f"gym:{name} cannot be used: its scorer does not accept its own answer from a stored problem."
        )


def _problem(name: str, parameters: Mapping[str, Any], entry: dict[str, Any]) -> Problem:
    # A puzzle with many solutions has no answer of its own; its scorer decides all the same.
    return Problem(
        content_id(f"gym-{name}", entry["question"]),
        entry["question"],
        f"gym:{name}",
        "" if entry["answer"] is None else str(entry["answer"]),
        metadata={"gym": name, "parameters": dict(parameters), "entry": entry},
    )
