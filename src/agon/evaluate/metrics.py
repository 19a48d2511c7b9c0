"""From samples to figures. Rates are fractions; a rate of nothing is None."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import StatisticsError, correlation, fmean
from typing import Any

import numpy as np

from agon.evaluate.arms import Answer, Arm, answer
from agon.evaluate.intervals import accuracy_interval, pass_at_k
from agon.game.transition import TRANSITIONS, transition
from agon.runs.samples import Attempt, Sample, SampleKey

Grid = list[list[Answer]]  # by problem, then by sample
Figures = dict[str, Any]


def grid(arm: Arm, problems: Sequence[str], samples: int, played: Mapping[SampleKey, Sample]) -> Grid:
    """An arm's answers, problem by problem."""
    return [[answer(arm, problem, number, played) for number in range(samples)] for problem in problems]


def correctness(answers: Grid) -> np.ndarray:
    """`correct[problem, sample]`."""
    return np.array([[each.chosen.correct for each in row] for row in answers], dtype=bool)


def arm_figures(answers: Grid, without_draft: Sequence[Sequence[Attempt]] | None = None) -> Figures:
    """The figures of one arm; `without_draft` has attempts of its final policy that had read nothing."""
    correct = correctness(answers)
    flat = [each for row in answers for each in row]
    attempts = [attempt for each in flat for attempt in each.attempts]
    problems, samples = correct.shape
    figures: Figures = {
        "n": problems,
        "samples": samples,
        "pass@1": float(correct.mean()),
        "ci95": list(accuracy_interval(correct)),
    }
    if samples > 1:
        rate, interval = pass_at_k(correct)
        figures |= {f"pass@{samples}": rate, f"pass@{samples}_ci95": list(interval)}
    figures |= {
        "tokens": _tokens(flat),
        "final_length": fmean(attempt.length for attempt in attempts),
        "truncated": fmean(attempt.truncated for attempt in attempts),
        "malformed": fmean(not attempt.well_formed for attempt in attempts),
        "reasons": dict(sorted(Counter(attempt.reason for attempt in attempts).items())),
    }
    if len(flat[0].attempts) > 1:
        # The ceiling of any way to choose between the attempts.
        figures["either"] = fmean(any(attempt.correct for attempt in each.attempts) for each in flat)
    if flat[0].readings:
        figures |= _reading(answers, without_draft)
    return figures


def _tokens(answers: Sequence[Answer]) -> Figures:
    """Mean tokens per answer: what was written in each stage, and what was read as prompt."""
    drafts = fmean(sum(draft.length for draft in each.drafts) for each in answers)
    final = fmean(sum(attempt.length for attempt in each.attempts) for each in answers)
    prompt = fmean(sum(attempt.prompt_length for attempt in each.drafts + each.attempts) for each in answers)
    return {"draft": drafts, "final": final, "total": drafts + final, "prompt": prompt}


def _reading(answers: Grid, without_draft: Sequence[Sequence[Attempt]] | None) -> Figures:
    """What reading a draft did: transitions, lengths, leaks."""
    pairs = [pair for row in answers for each in row for pair in each.readings]
    counts = Counter(transition(draft.correct, final.correct) for draft, final in pairs)
    wrong = [final for draft, final in pairs if not draft.correct]
    right = [final for draft, final in pairs if draft.correct]
    figures: Figures = {
        **{name.replace(" ", "_"): counts[name] / len(pairs) for name in TRANSITIONS},
        "conversion_given_wrong_draft": _rate(final.correct for final in wrong),
        "corruption_given_right_draft": _rate(not final.correct for final in right),
        "length_given_right_draft": _rate(final.length for final in right),
        "length_given_wrong_draft": _rate(final.length for final in wrong),
        "leaked": _rate(bool(final.leaked) for _, final in pairs),
    }
    if without_draft is not None:
        figures["alone_given_wrong_draft"] = _rate(
            alone.correct
            for row, others in zip(answers, without_draft, strict=True)
            for each, alone in zip(row, others, strict=True)
            if not each.readings[0][0].correct
        )
    return figures


def complementarity(first: Grid, second: Grid) -> Figures:
    """How differently two policies fail, each alone on the same problems."""
    pairs = [
        (one.chosen.correct, other.chosen.correct)
        for row, others in zip(first, second, strict=True)
        for one, other in zip(row, others, strict=True)
    ]
    try:
        errors: float | None = correlation(*zip(*[(not a, not b) for a, b in pairs], strict=True))
    except StatisticsError:  # one of them is always right or always wrong, or there is one problem
        errors = None
    return {
        "error_correlation": errors,
        "union": fmean(a or b for a, b in pairs),
        "disagreement": fmean(a != b for a, b in pairs),
    }


def _rate(values: Iterable[float]) -> float | None:
    listed = list(values)
    return fmean(listed) if listed else None
