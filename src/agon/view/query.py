"""The rows of an index that pass a filter, in the order asked for."""

import numpy as np

from agon.view.index import Index
from agon.view.rows import BIT
from agon.view.words import SIDES, Filter, Range


def select(index: Index, rows: np.ndarray, wanted: Filter) -> np.ndarray:
    """The numbers of the rows that pass the filter, in the order asked for; `search` is left to others."""
    passing = np.ones(len(rows), dtype=bool)
    flags = rows["flags"]
    if wanted.outcomes:
        passing &= np.logical_or.reduce([outcome_of(flags, name) for name in wanted.outcomes])
    for mark in wanted.marks:
        passing &= _mark(flags, mark, wanted.role)
    if wanted.policy:
        passing &= _policy(index, rows, wanted)
    elif wanted.role == "challenge":
        passing &= _has(flags, "challenged")
    if wanted.steps:
        passing &= _within(rows["step"], wanted.steps)
    for column, limits in (("reward", wanted.reward), ("length", wanted.length)):
        if limits:
            passing &= _either(rows, wanted.role, column, limits)
    if wanted.problem:
        passing &= _problem(index, rows, wanted.problem)
    if wanted.play:
        number = index.plays.find(wanted.play)
        passing &= rows["play"] == number if number is not None else False
    return _sorted(rows, np.flatnonzero(passing).astype(np.int32), wanted)


def _has(flags: np.ndarray, name: str) -> np.ndarray:
    return (flags & BIT[name]) != 0


def outcome_of(flags: np.ndarray, name: str) -> np.ndarray:
    draft, challenge, both = (
        _has(flags, "draft right"),
        _has(flags, "challenge right"),
        _has(flags, "challenged"),
    )
    if name in ("right", "wrong"):
        final = np.where(both, challenge, draft)
        return final if name == "right" else ~final
    return both & (
        (draft & challenge)
        if name == "both-right"
        else (~draft & challenge)
        if name == "converted"
        else (draft & ~challenge)
        if name == "corrupted"
        else (~draft & ~challenge)
    )


def _mark(flags: np.ndarray, mark: str, role: str) -> np.ndarray:
    if mark in BIT:
        return _has(flags, mark)
    return np.logical_or.reduce([_has(flags, f"{side} {mark}") for side in ((role,) if role else SIDES)])


def _policy(index: Index, rows: np.ndarray, wanted: Filter) -> np.ndarray:
    number = index.policies.find(wanted.policy)
    if number is None:
        return np.zeros(len(rows), dtype=bool)
    column = {"draft": rows["drafter"] == number, "challenge": rows["challenger"] == number}
    column["challenge"] &= _has(rows["flags"], "challenged")
    return column[wanted.role] if wanted.role else column["draft"] | column["challenge"]


def _either(rows: np.ndarray, role: str, column: str, limits: Range) -> np.ndarray:
    """The side named by the role, or either one."""
    draft = _within(rows[f"draft_{column}"], limits)
    challenge = _within(rows[f"challenge_{column}"], limits) & _has(rows["flags"], "challenged")
    return {"draft": draft, "challenge": challenge}.get(role, draft | challenge)


def _within(values: np.ndarray, limits: Range) -> np.ndarray:
    return (values >= limits[0] - 1e-6) & (values <= limits[1] + 1e-6)


def _problem(index: Index, rows: np.ndarray, asked: str) -> np.ndarray:
    """The problem of this id, or those whose id or beginning has these words in it."""
    number = index.number_of(asked)
    if number is not None:
        return rows["problem"] == number
    low = asked.lower()
    named = np.array(
        [low in name.lower() or low in title.lower() for name, title in index.problems], dtype=bool
    )
    return named[rows["problem"]] if len(named) else np.zeros(len(rows), dtype=bool)


def _sorted(rows: np.ndarray, found: np.ndarray, wanted: Filter) -> np.ndarray:
    if wanted.sort == "oldest":
        return found
    found = found[::-1]
    if wanted.sort == "newest":
        return found
    column = "reward" if wanted.sort == "paid" else "length"
    sides = (wanted.role,) if wanted.role else SIDES
    most = np.maximum.reduce([rows[f"{side}_{column}"][found] for side in sides])
    return found[np.argsort(-most.astype(np.float64), kind="stable")]
