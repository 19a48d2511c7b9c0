"""Duels in a terminal: a list, one duel, its group. For people on a cluster without a browser."""

from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from agon.printing import console, plain

Plain = dict[str, Any]
COLOURS = {
    "converted": "green",
    "corrupted": "red",
    "both-right": "blue",
    "right": "blue",
    "A": "blue",
    "B": "yellow",
}
STRETCHES = {"withheld": "black on yellow", "private": "dim"}
LONGEST = 4000  # characters of a text, unless all of it is asked for


def overview(
    facts: Plain, outcomes: dict[str, int], evaluations: Sequence[Plain]
) -> Iterator[RenderableType]:
    """What a run is and how its duels ended."""
    told = [
        f"{key} {facts[key]}" for key in ("method", "model", "task", "seed") if facts.get(key) is not None
    ]
    yield Text(plain(f"{facts['name']}: {', '.join(told)}"), style="bold")
    total = sum(outcomes.values())
    if total:
        line = Text()
        for name, count in outcomes.items():
            line.append(
                f"{count:,} {name.replace('-', ' ')} ({100 * count / total:.1f}%)   ", COLOURS.get(name, "")
            )
        yield line
    for one in evaluations:
        headline = next((arm for arm in one["arms"] if arm["name"] == one["headline"]), None)
        if headline and headline["ci95"] and headline["pass@1"] is not None:
            low, high = headline["ci95"]
            yield Text(
                plain(
                    f"{one['name']}: {headline['name']} {100 * headline['pass@1']:.1f}% "
                    f"({100 * low:.1f} to {100 * high:.1f})"
                )
            )


PROBLEM = 2  # the column that gives way


def listing(lines: Sequence[Plain], total: int, everything: int, width: int) -> RenderableType:
    """A list of duels, one line each."""
    head = ("duel", "outcome", "problem", "draft", "challenge", "paid", "tokens")
    start = _same_start([line["title"] for line in lines])
    rows = [[Text(name, "dim") for name in head], *(_cells(line, start) for line in lines)]
    widths = [max(row[column].cell_len for row in rows) for column in range(len(head))]
    widths[PROBLEM] = max(16, min(widths[PROBLEM], width - sum(widths) + widths[PROBLEM] - 2 * len(head)))
    table = Table.grid(padding=(0, 2, 0, 0))
    for name, size in zip(head, widths, strict=True):
        right = name in ("paid", "tokens")
        table.add_column(width=size, justify="right" if right else "left", no_wrap=True, overflow="ellipsis")
    for row in rows:
        table.add_row(*row)
    said = f"{len(lines)} of {total:,} duels" + (f" (of {everything:,})" if everything != total else "")
    return Group(table, Text(said, style="dim"))


def _cells(line: Plain, start: int) -> list[Text]:
    final = line["challenge"] or line["draft"]
    return [
        Text(plain(f"{line['id']} {line['play']}".strip())),
        Text(line["outcome"].replace("-", " "), COLOURS.get(line["outcome"], "")),
        Text(plain(line["title"][start:] or line["problem"])),
        _side(line["draft"]),
        _side(line["challenge"]),
        Text("" if line["play"] else f"{final['reward']:g}"),
        Text(f"{final['length']:,}"),
    ]


def _same_start(titles: Sequence[str]) -> int:
    """How many characters to leave out of titles that all begin with the same words."""
    if len(set(titles)) < 3:
        return 0
    low, high = min(titles), max(titles)
    same = next((at for at, letter in enumerate(low) if letter != high[at : at + 1]), len(low))
    start = low.rfind(" ", 0, same) + 1
    return start if start >= 24 else 0


def _side(side: Plain | None) -> Text:
    if side is None:
        return Text("–", "dim")
    right = "✓" if side["correct"] else "✗"
    text = Text()
    text.append(plain(side["policy"]), f"bold {COLOURS.get(side['policy'], '')}".strip())
    text.append(f" {right} ", "green" if side["correct"] else "red")
    text.append(plain(" ".join((side.get("answer") or side["reason"]).split()))[:24])
    return text


def one(duel: Plain, private: bool = False) -> Iterator[RenderableType]:
    """One duel whole; the private reasoning only where it is asked for."""
    where = f"{duel['play']}, sample {duel['step']}" if duel["play"] else f"step {duel['step']}"
    place = f"{duel['group']['place']} of {duel['group']['size']} in its group"
    marks = "".join(f", {mark}" for mark in duel["marks"])
    yield Rule(
        Text(plain(f"duel {duel['id']}: {duel['outcome'].replace('-', ' ')}{marks}; {where}, {place}")),
        align="left",
    )
    yield Text(plain(f"Problem {duel['problem']['id']}" + _gold(duel)), style="bold")
    yield _body(duel["problem"]["prompt"] or "(an evaluation keeps the problem's name, not its text)")
    yield from _entry("Draft", duel["draft"], bool(duel["play"]), private)
    if duel["challenge"]:
        if duel["shown"] is not None:
            read = f", of draft {duel['read_draft']}" if duel["read_draft"] is not None else ""
            yield Text(plain(f"What {duel['challenge']['policy']} read{read}"), style="bold")
            yield _body(duel["shown_defused"] or "(nothing)")
        yield from _entry("Challenge", duel["challenge"], bool(duel["play"]), private)


def _gold(duel: Plain) -> str:
    return f", gold {duel['problem']['answer']}" if duel["problem"]["answer"] else ""


def _entry(title: str, side: Plain, evaluated: bool, private: bool) -> Iterator[RenderableType]:
    head = Text()
    head.append(f"{title} by {plain(side['policy'])}: ", f"bold {COLOURS.get(side['policy'], '')}".strip())
    head.append("correct" if side["correct"] else side["reason"], "green" if side["correct"] else "red")
    head.append(f", {side['length']:,} tokens" + "".join(f", {mark}" for mark in side["marks"]))
    if not evaluated:
        terms = ", ".join(f"{name} {value:+g}" for name, value in (side["terms"] or {}).items())
        head.append(plain(f", reward {side['reward']:g}" + (f" ({terms})" if terms else "")))
        worth = "unknown" if side["advantage"] is None else f"{side['advantage']:+.3f}"
        head.append(f", advantage {worth}, version {side['version']}")
    yield head
    if side["detail"]:
        yield Padding(Text(plain(side["detail"]), style="dim"), (0, 0, 0, 2))
    text = Text()
    for kind, part in side["stretches"]:
        if kind == "private" and not private:
            text.append(f"[private reasoning, {len(part):,} characters: --private shows it]\n", "dim")
        else:
            text.append(_clipped(part), STRETCHES.get(kind, ""))
    yield Padding(text if text.plain.strip() else Text("(empty)", "dim"), (0, 0, 1, 2))


def _body(text: str) -> RenderableType:
    return Padding(Text(_clipped(text)), (0, 0, 1, 2))


def _clipped(text: str) -> str:
    clean = plain(text)
    return (
        clean
        if len(clean) <= LONGEST
        else f"{clean[:LONGEST]}\n[… {len(clean) - LONGEST:,} characters more]\n"
    )


def screen() -> Console:
    """Rich reads no markup in what is printed here: all of it is `Text`."""
    return console()


def show(parts: Sequence[RenderableType]) -> None:
    where = screen()
    for part in parts:
        where.print(part)
