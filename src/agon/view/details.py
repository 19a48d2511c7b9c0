"""Rows and duels as plain data for a page or a terminal: one line of a list, one duel, its group."""

import re
from statistics import fmean, pstdev
from typing import Any

import numpy as np

from agon.errors import InputError
from agon.game.defuse import defuse
from agon.game.duel import Duel, Entry
from agon.game.transition import transition
from agon.game.verdict import REASONS
from agon.view.index import Index
from agon.view.marking import difference, stretches
from agon.view.rows import BIT, FLAGS, answer_in
from agon.view.sources import Seen

ANSWER = 80  # characters of an answer in a list
MARKS = ("copied", "leaked")

Plain = dict[str, Any]


def name_of(row: np.void) -> str:
    """The name of a duel in links: its step and its number within it, which a resume does not change."""
    return f"{int(row['step'])}.{int(row['ordinal'])}"


def find(rows: np.ndarray, name: str) -> int:
    """The number of the row with this name."""
    if not re.fullmatch(r"\d{1,10}\.\d{1,10}", name):
        raise InputError(f"A duel is named STEP.NUMBER, such as 3.17, not '{name}'.")
    step, ordinal = map(int, name.split("."))
    found = np.flatnonzero(rows["step"] == step)
    found = found[rows["ordinal"][found] == ordinal]
    if not len(found):
        raise InputError(f"There is no duel {name} here.")
    return int(found[0])


def group_of(index: Index, rows: np.ndarray, row: np.void) -> np.ndarray:
    """The rows of the duels that were played for one problem together, in order."""
    found = np.flatnonzero(rows["problem"] == row["problem"])
    column = "step" if index.source.kind == "training" else "play"
    found = found[rows[column][found] == row[column]]
    return found[np.lexsort((rows["index"][found], rows["step"][found]))]


def line(index: Index, row: np.void, texts: bool = True) -> Plain:
    """One line of a list; with `texts`, the two answers are read from the file."""
    flags = {name for name in FLAGS if int(row["flags"]) & BIT[name]}
    problem, title = index.problems[int(row["problem"])]
    challenged = "challenged" in flags
    told: Plain = {
        "id": name_of(row),
        "step": int(row["step"]),
        "index": int(row["index"]),
        "play": index.plays[int(row["play"])],
        "problem": problem,
        "title": title,
        "outcome": (
            transition("draft right" in flags, "challenge right" in flags).replace(" ", "-")
            if challenged
            else ("right" if "draft right" in flags else "wrong")
        ),
        "marks": [mark for mark in MARKS if mark in flags],
        "draft": _side(index, row, "draft", "drafter", flags),
        "challenge": _side(index, row, "challenge", "challenger", flags) if challenged else None,
    }
    if texts:
        try:
            seen = index.seen(row)
        except InputError:
            return told
        for side, entry in (("draft", seen.duel.draft), ("challenge", seen.duel.challenge)):
            if entry is not None and told[side]:
                told[side]["answer"] = _short(_answer(index, seen.duel, entry))
    return told


def _side(index: Index, row: np.void, side: str, player: str, flags: set[str]) -> Plain:
    return {
        "policy": index.policies[int(row[player])],
        "correct": f"{side} right" in flags,
        "reason": REASONS[int(row[f"{side}_reason"])],
        "reward": round(float(row[f"{side}_reward"]), 4),
        "length": int(row[f"{side}_length"]),
        "marks": [mark for mark in ("truncated", "malformed", "failed") if f"{side} {mark}" in flags],
    }


def _short(answer: str | None) -> str | None:
    if answer is None:
        return None
    words = " ".join(answer[: 4 * ANSWER].split())
    return words if len(words) <= ANSWER else words[: ANSWER - 1] + "…"


def _answer(index: Index, duel: Duel, entry: Entry) -> str | None:
    answer = answer_in(entry.rollout.text, index.source.dialect, duel.problem.domain)
    if answer is None:
        return None
    # An answer section of a boxed dialect is the boxes as written.
    box = re.fullmatch(r"\s*\\boxed\s*\{(.*)\}\s*", answer, re.DOTALL)
    return box.group(1) if box and box.group(1).count("{") == box.group(1).count("}") else answer


def one(index: Index, rows: np.ndarray, number: int, group: np.ndarray | None = None) -> Plain:
    """Everything about one duel; `group` are the rows of its group, where they are known."""
    row = rows[number]
    seen = index.seen(row)
    duel, dialect = seen.duel, index.source.dialect
    if group is None:
        group = group_of(index, rows, row)
    told = line(index, row, texts=False)
    draft = _entry(index, duel, duel.draft, _shown_of_draft(index, rows, group, number, seen))
    challenge = _entry(index, duel, duel.challenge, None) if duel.challenge else None
    answers = [side["answer"] for side in (draft, challenge) if side and side["answer"] is not None]
    return {
        **told,
        "problem": {
            "id": duel.problem.id,
            "task": duel.problem.task,
            "prompt": duel.problem.prompt,
            "answer": duel.problem.answer,
            "domain": duel.problem.domain,
        },
        "draft": {**told["draft"], **draft},
        "challenge": {**told["challenge"], **challenge} if challenge else None,
        "shown": duel.shown,
        "shown_defused": defuse(duel.shown) if duel.shown is not None else None,
        "read_draft": _read_draft(index, duel, len(group)),
        "opponent": duel.opponent,
        "difference": difference(*answers) if len(answers) == 2 else None,
        "dialect": dialect,
        "group": {
            "size": len(group),
            "place": int(np.flatnonzero(group == number)[0]) + 1,
            "ids": [name_of(each) for each in rows[group][:512]],
            "draft": _spread(rows["draft_reward"][group]),
            "challenge": _spread(rows["challenge_reward"][group]) if duel.challenge else None,
        },
    }


def _spread(rewards: np.ndarray) -> Plain:
    values = [float(value) for value in rewards]
    return {"mean": round(fmean(values), 4), "deviation": round(pstdev(values), 4), "rewards": values[:512]}


def _read_draft(index: Index, duel: Duel, drafts: int) -> int | None:
    """Which draft of the group the challenge read, where the method has it read another than its own."""
    method = index.source.method
    read = method.draft_read(duel.index, drafts) if method and duel.challenge else None
    return read if read != duel.index else None


def _shown_of_draft(index: Index, rows: np.ndarray, group: np.ndarray, number: int, seen: Seen) -> str | None:
    """What was shown of this draft: to its own challenger, or to the one that read it in its stead."""
    duel, method = seen.duel, index.source.method
    if method is None or _read_draft(index, duel, len(group)) is None:
        return duel.shown
    readers = [
        each for each in group if method.draft_read(int(rows[each]["index"]), len(group)) == duel.index
    ]
    return index.seen(rows[readers[0]]).duel.shown if readers else None


def _entry(index: Index, duel: Duel, entry: Entry, shown: str | None) -> Plain:
    rollout = entry.rollout
    return {
        "version": rollout.version,
        "stretches": stretches(rollout.text, index.source.dialect, shown),
        "answer": _answer(index, duel, entry),
        "detail": entry.verdict.detail,
        "judged_in": entry.verdict.seconds,
        "advantage": round(float(entry.advantage), 4) if entry.advantage is not None else None,
        "terms": dict(entry.terms) if entry.terms is not None else None,
        "prompt_length": rollout.prompt_length,
        "finish": rollout.finish_reason,
    }


def group(index: Index, rows: np.ndarray, number: int, most: int = 64) -> Plain:
    """All duels of a problem side by side, with their texts."""
    row = rows[number]
    members = group_of(index, rows, row)
    duels = [one(index, rows, int(each), members) for each in members[:most]]
    return {"problem": duels[0]["problem"], "size": len(members), "duels": duels, "here": name_of(row)}
