"""A run at a glance: its facts, its curves, its evaluations. Steps count from 0, as the duels' steps do."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from agon.errors import InputError
from agon.runs.evaluations import EvaluationFolder
from agon.view.index import Index
from agon.view.rows import BIT
from agon.view.sources import Opened

Plain = dict[str, Any]
Points = list[tuple[int, float]]
SHARE, TOKENS, REWARD = "share", "tokens", "reward"


def facts(opened: Opened) -> Plain:
    """What a run is, in a few words."""
    config = opened.config
    told = {key: config.get(key) for key in ("method", "model", "task", "seed", "learning_rate")}
    summary = opened.run.read_summary() if opened.trained else {}
    steps = _metrics(opened)[-1:] if opened.trained else []
    return {
        "name": opened.name,
        "trained": opened.trained,
        **told,
        "group": _group(opened),
        "policies": opened.method.policies if opened.method else None,
        "formula": opened.method.formula if opened.method else None,
        "finished": bool(summary.get("finished")) if opened.trained else True,
        "step": steps[0]["step"] if steps else 0,
        "max_steps": summary.get("max_steps"),
        "seconds": summary.get("seconds"),
        "note": opened.run.read_note(),
    }


def _group(opened: Opened) -> int | None:
    """Duels of one problem; a method without challenges plays one group of 2N."""
    rollouts = opened.config.get("num_generations")
    if not rollouts or opened.method is None:
        return None
    return int(rollouts) // (2 if opened.method.challenges else 1)


def curves(opened: Opened, index: Index | None) -> list[Plain]:
    """Panels of lines over the steps; those that have no point are left out."""
    lines = [line for line in _metrics(opened) if "loss" in line]
    method = opened.method

    def series(key: str, steps: Iterable[Plain] = lines) -> Points:
        return [(line["step"] - 1, float(line[key])) for line in steps if _is_number(line.get(key))]

    def played(policy: str, role: int) -> list[Plain]:
        """The steps at which a policy had this role: 0 drafts, 1 challenges."""
        return [line for line in lines if method and method.players(line["step"] - 1)[role] == policy]

    policies = ("A", "B") if method and method.policies == 2 else ("A",)
    right = [_line(f"{name} drafts", series("draft/correct", played(name, 0)), name) for name in policies]
    if method and method.challenges:
        challenges = (series("challenge/correct", played(name, 1)) for name in policies)
        right += [
            _line(f"{name} challenges", points, name, dashed=True)
            for name, points in zip(policies, challenges, strict=True)
        ]
    sides = (("drafts", "draft", False), ("challenges", "challenge", True))
    terms = sorted({key for line in lines for key in line if "/reward/" in key})
    panels = [
        _panel("Right", SHARE, right),
        _panel(
            "What reading a draft did",
            SHARE,
            [
                _line("cascade right", series("challenge/correct"), "cascade"),
                _line("converted", series("duel/converted"), "good"),
                _line("corrupted", series("duel/corrupted"), "bad"),
            ],
        ),
        _panel("Length, tokens", TOKENS, [_stream(series, *side, "length") for side in sides]),
        _panel(
            "Reward by term",
            REWARD,
            [
                _line(_term(key), series(key), key.split("/")[-1], dashed=key.startswith("challenge"))
                for key in terms
            ],
        ),
        _panel("Dropped groups", SHARE, [_stream(series, *side, "dropped_groups") for side in sides]),
        _panel("Truncated", SHARE, [_stream(series, *side, "truncated") for side in sides]),
        _panel("Copied and leaked", SHARE, _marked(index)),
        _panel("Validation, right", SHARE, _validated(opened, policies)),
    ]
    return [panel for panel in panels if panel["lines"]]


def _validated(opened: Opened, policies: Sequence[str]) -> list[Plain]:
    """Accuracy on held-out problems, where training looked at them: each policy alone, and the cascade."""
    plays = {
        **{f"{name} alone": (f"eval_{name}/correct", name) for name in policies},
        "cascade, better direction": ("eval_best", "cascade"),
    }
    lines = _metrics(opened)
    return [
        _line(
            label,
            [(line["step"] - 1, float(line[key])) for line in lines if _is_number(line.get(key))],
            colour,
        )
        for label, (key, colour) in plays.items()
    ]


def _stream(series: Any, label: str, side: str, dashed: bool, key: str) -> Plain:
    return _line(label, series(f"{side}/{key}"), side, dashed)


def _term(key: str) -> str:
    side, _, term = key.split("/", 2)
    return f"{term}, {side}s"


def _marked(index: Index | None) -> list[Plain]:
    """Shares by step that the log of metrics does not have, from the rows."""
    if index is None:
        return []
    rows = index.snapshot().rows
    rows = rows[(rows["flags"] & BIT["challenged"]) != 0]
    if not len(rows):
        return []
    steps, place = np.unique(rows["step"], return_inverse=True)
    every = np.bincount(place)
    found = []
    for mark, colour in (("copied", "copied"), ("leaked", "bad")):
        share = np.bincount(place, weights=(rows["flags"] & BIT[mark]) != 0) / every
        found.append(_line(mark, list(zip(steps.tolist(), share.tolist(), strict=True)), colour))
    return found


def _line(label: str, points: Points, colour: str, dashed: bool = False) -> Plain:
    return {"label": label, "points": points, "colour": colour, "dashed": dashed}


def _panel(title: str, unit: str, lines: Sequence[Plain]) -> Plain:
    return {"title": title, "unit": unit, "lines": [line for line in lines if line["points"]]}


FIGURES = ("pass@1", "n", "samples", "converted", "corrupted", "leaked", "truncated", "malformed")


def evaluations(opened: Opened) -> list[Plain]:
    """The figures of each evaluation, arm by arm, with their intervals; one without a result is still going."""
    found = []
    for name, source in opened.sources().items():
        if source.evaluation is None:
            continue
        result = _result(source.evaluation)
        arms = _mapping(result.get("arms"))
        found.append(
            {
                "name": name,
                "task": source.task,
                "headline": result.get("headline"),
                "arms": [
                    {
                        "name": arm,
                        **{key: _figure(figures.get(key)) for key in FIGURES},
                        "ci95": _interval(figures.get("ci95")),
                        "tokens": _figure(_mapping(figures.get("tokens")).get("total")),
                    }
                    for arm, figures in arms.items()
                    if isinstance(figures, dict)
                ],
            }
        )
    return found


def _result(evaluation: EvaluationFolder) -> Plain:
    try:
        return evaluation.read_result()
    except InputError:
        return {}


def _metrics(opened: Opened) -> list[Plain]:
    """The lines that name their step."""
    return [line for line in opened.run.read_metrics() if type(line["step"]) is int]


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _figure(value: Any) -> float | None:
    """A figure of a file that anybody may have written."""
    return value if _is_number(value) else None


def _interval(value: Any) -> list[float] | None:
    return value if isinstance(value, list) and len(value) == 2 and all(map(_is_number, value)) else None


def _mapping(value: Any) -> Plain:
    return value if isinstance(value, dict) else {}
