"""The runs that are open, an index for each of their sources, and what was asked of them last."""

import threading
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from agon.errors import InputError, unknown
from agon.view.details import line
from agon.view.index import Index, Snapshot, cache_folder
from agon.view.query import select
from agon.view.search import Search
from agon.view.sources import Opened, Source
from agon.view.words import Filter, parse

MOST_ROWS = 200  # lines of a list in one answer
SEARCH_SECONDS = 0.4
KEPT = 8  # answers that are kept for the next page of a list
LOOK_EVERY = 0.7  # seconds

Plain = dict[str, Any]


class Library:
    """Open runs. Indexes are made when they are first asked for, and brought up to date in the background."""

    def __init__(self, runs: Sequence[Opened], cached: bool = True) -> None:
        self.runs = {run.name: run for run in runs}
        self._cached = cached
        self._indexes: dict[tuple[str, str], Index] = {}
        self._looked: dict[tuple[str, str], float] = {}
        self._selections: OrderedDict[tuple[Any, ...], np.ndarray] = OrderedDict()
        self._searches: OrderedDict[tuple[Any, ...], Search] = OrderedDict()
        self._lock = threading.RLock()

    def run(self, name: str) -> Opened:
        if name not in self.runs:
            raise unknown("run", name, self.runs)
        return self.runs[name]

    def source(self, run: str, name: str) -> Source:
        found = self.run(run).sources()
        if name not in found:
            raise unknown("source", name, found)
        return found[name]

    def index(self, run: str, name: str, wait: float = 0.5) -> Index:
        """The index of a source, brought up to date for at most `wait` seconds; the rest goes on in the background."""
        with self._lock:
            key = run, name
            if key not in self._indexes:
                source = self.source(run, name)
                self._indexes[key] = Index(source, cache_folder(source) if self._cached else None)
            index = self._indexes[key]
            if time.monotonic() - self._looked.get(key, -LOOK_EVERY) < LOOK_EVERY:
                return index
            self._looked[key] = time.monotonic()
        working = threading.Thread(target=index.refresh, daemon=True)
        working.start()
        working.join(wait)
        return index

    def chosen(self, index: Index, wanted: Filter) -> tuple[Snapshot, np.ndarray]:
        """The rows that pass a filter, its search left aside."""
        shot = index.snapshot()
        key = (id(index), replace(wanted, search=""), shot.generation, len(shot.rows))
        with self._lock:
            if key in self._selections:
                self._selections.move_to_end(key)
                return shot, self._selections[key]
        found = select(index, shot.rows, wanted)
        self._keep(self._selections, key, found)
        return shot, found

    def page(self, index: Index, wanted: Filter, first: int, count: int) -> Plain:
        """Some lines of a list, and how long the list is."""
        if first < 0 or not 0 <= count <= MOST_ROWS:
            raise InputError(f"A page begins at 0 or later and has at most {MOST_ROWS} lines.")
        shot, found, searched = self.found(index, wanted, first + count + 1)
        return {
            "all": len(shot.rows),
            "unread": shot.unread,
            "unreadable": shot.unreadable,
            "searched": searched,
            "total": len(found),
            "from": first,
            "lines": [line(index, shot.rows[number]) for number in found[first : first + count]],
        }

    def found(self, index: Index, wanted: Filter, enough: int) -> tuple[Snapshot, np.ndarray, float]:
        """The rows that pass a filter with its search, as far as it has come, and which share was looked at."""
        shot, chosen = self.chosen(index, wanted)
        if not wanted.search:
            return shot, chosen, 1.0
        key = (id(index), wanted, shot.generation, len(shot.rows))
        with self._lock:
            search = self._searches.get(key) or Search(wanted.search, shot.rows, chosen)
            self._keep(self._searches, key, search)
        search.go_on(index, enough, SEARCH_SECONDS)
        return shot, np.array(search.found, dtype=np.int32), search.looked / max(1, len(chosen))

    def every(self, index: Index, words: Mapping[str, str], limit: int) -> tuple[Snapshot, int, list[int]]:
        """The first rows that pass, with how many do, however long the search takes."""
        wanted = parse(words)
        shot, found, searched = self.found(index, wanted, limit)
        while searched < 1 and len(found) < limit:
            shot, found, searched = self.found(index, wanted, limit)
        return shot, len(found), found[:limit].tolist()

    def _keep(self, place: OrderedDict[tuple[Any, ...], Any], key: tuple[Any, ...], value: Any) -> None:
        with self._lock:
            place[key] = value
            place.move_to_end(key)
            while len(place) > KEPT:
                place.popitem(last=False)
