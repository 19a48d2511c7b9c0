"""What the page may ask for: one function per question, from the words of a query to plain data.

Runs and sources are named, never given as paths, so a query cannot reach a file that was not opened.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from agon.errors import InputError
from agon.view import details, overview
from agon.view.index import Index
from agon.view.library import Library
from agon.view.pairing import paired
from agon.view.rows import BIT
from agon.view.sources import TRAINING
from agon.view.words import WORDS, parse

Words = Mapping[str, str]
Plain = dict[str, Any]
MOST_PAIRS = 500


def runs(library: Library, words: Words) -> Plain:
    """The open runs with their sources."""
    return {
        "runs": [
            {**overview.facts(run), "sources": [{"name": each.name, "kind": each.kind} for each in _all(run)]}
            for run in library.runs.values()
        ]
    }


def _all(run: Any) -> list[Any]:
    return list(run.sources().values())


def state(library: Library, words: Words) -> Plain:
    """How far a source has come: asked every few seconds while a page is open."""
    index = _index(library, words)
    shot = index.snapshot()
    run = library.run(words.get("run", ""))
    return {
        "count": len(shot.rows),
        "generation": shot.generation,
        "unread": shot.unread,
        "step": int(shot.rows["step"].max()) if len(shot.rows) else None,
        "finished": run.run.finished() if run.trained else True,
        "policies": index.policies.names,
        "plays": [name for name in index.plays.names if name],
    }


def duels(library: Library, words: Words) -> Plain:
    """A page of the list."""
    index = _index(library, words)
    return library.page(index, parse(_filter(words)), _whole(words, "from", 0), _whole(words, "count", 50))


def neighbours(library: Library, words: Words) -> Plain:
    """Where a duel stands in a list: the names before and after it."""
    index = _index(library, words)
    shot, found, _ = library.found(index, parse(_filter(words)), enough=0)
    here = details.find(shot.rows, words.get("id", ""))
    place = np.flatnonzero(found == here)
    if not len(place):
        return {"place": None, "before": None, "after": None, "total": len(found)}
    at = int(place[0])

    def name(number: int) -> str | None:
        return details.name_of(shot.rows[found[number]]) if 0 <= number < len(found) else None

    return {"place": at, "before": name(at - 1), "after": name(at + 1), "total": len(found)}


def duel(library: Library, words: Words) -> Plain:
    """One duel whole."""
    index = _index(library, words)
    rows = index.snapshot().rows
    return details.one(index, rows, details.find(rows, words.get("id", "")))


def raw(library: Library, words: Words) -> Plain:
    """One duel as the run's file has it."""
    index = _index(library, words)
    rows = index.snapshot().rows
    seen = index.seen(rows[details.find(rows, words.get("id", ""))])
    found: Plain = json.loads(seen.duel.to_json())
    return {**found, "play": seen.play} if seen.play else found


def group(library: Library, words: Words) -> Plain:
    """All duels of a problem that were played together."""
    index = _index(library, words)
    rows = index.snapshot().rows
    return details.group(index, rows, details.find(rows, words.get("id", "")))


def curves(library: Library, words: Words) -> Plain:
    """The panels of a run and the figures of its evaluations."""
    run = library.run(words.get("run", ""))
    index = library.index(run.name, TRAINING) if TRAINING in run.sources() else None
    return {
        "facts": overview.facts(run),
        "panels": overview.curves(run, index) if run.trained else [],
        "evaluations": overview.evaluations(run),
        "outcomes": _outcomes(index) if index else {},
    }


def _outcomes(index: Index) -> dict[str, int]:
    """How many duels ended each way."""
    flags = index.snapshot().rows["flags"]
    both = (flags & BIT["challenged"]) != 0
    draft, challenge = ((flags & BIT[f"{side} right"]) != 0 for side in ("draft", "challenge"))
    if not both.any():
        return {"right": int(draft.sum()), "wrong": int((~draft).sum())} if len(flags) else {}
    return {
        "both-right": int((both & draft & challenge).sum()),
        "converted": int((both & ~draft & challenge).sum()),
        "corrupted": int((both & draft & ~challenge).sum()),
        "both-wrong": int((both & ~draft & ~challenge).sum()),
    }


def compare(library: Library, words: Words) -> Plain:
    """Problems that several runs played, with how often each was right."""
    names = [name for name in words.get("runs", "").split("|") if name]
    if len(names) < 2:
        raise InputError("A comparison needs at least two runs: runs=ONE|OTHER.")
    indexes = [library.index(name, words.get("source", "")) for name in names]
    pairs = paired(indexes, parse(_filter(words)), differ=words.get("differ") == "1")
    first = _whole(words, "from", 0)
    unread = sum(index.snapshot().unread for index in indexes)
    page = pairs[first : first + MOST_PAIRS]
    return {"runs": names, "total": len(pairs), "from": first, "unread": unread, "pairs": page}


def _index(library: Library, words: Words) -> Index:
    return library.index(words.get("run", ""), words.get("source", ""))


def _filter(words: Words) -> dict[str, str]:
    return {name: words[name] for name in WORDS if name in words}


def _whole(words: Words, name: str, usual: int) -> int:
    written = words.get(name, "")
    if written and not (written.isascii() and written.isdigit() and len(written) < 10):
        raise InputError(f"{name} must be a whole number, not '{written}'.")
    return int(written) if written else usual


QUESTIONS: dict[str, Callable[[Library, Words], Plain]] = {
    "runs": runs,
    "state": state,
    "duels": duels,
    "neighbours": neighbours,
    "duel": duel,
    "raw": raw,
    "group": group,
    "curves": curves,
    "compare": compare,
}
