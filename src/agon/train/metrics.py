"""What a round of duels says about the policies, as numbers for the log."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from agon.game.advantages import has_signal
from agon.game.duel import Duel, Entry
from agon.game.methods import Method
from agon.game.paired import challenge_values


def duel_metrics(duels: Sequence[Duel], group: int, method: Method | None = None) -> dict[str, float]:
    """Per stream: what was earned and how it ended; per duel: conversions, corruptions, agreement.

    `duels` come problem by problem, `group` of them each. `method` says which groups of challenges say
    nothing; without it, those that all earned the same.
    """
    metrics = _stream_metrics("draft", [duel.draft for duel in duels], group)
    challenges = [duel.challenge for duel in duels if duel.challenge is not None]
    if not challenges:
        return metrics
    metrics |= _stream_metrics("challenge", challenges, group)
    if method is not None:
        groups = [duels[start : start + group] for start in range(0, len(duels), group)]
        metrics["challenge/dropped_groups"] = _rate(
            not has_signal(challenge_values(members, method)) for members in groups
        )
    metrics |= {
        "duel/converted": fmean(duel.converted for duel in duels),
        "duel/corrupted": fmean(duel.corrupted for duel in duels),
        "duel/agreement": fmean(
            duel.draft.correct == challenge.correct for duel, challenge in zip(duels, challenges, strict=True)
        ),
    }
    wrong = [duel for duel in duels if not duel.draft.correct]
    if wrong:
        metrics["duel/converted_if_wrong"] = fmean(duel.converted for duel in wrong)
    return metrics


def policy_metrics(duels: Sequence[Duel]) -> dict[str, float]:
    """Each policy's accuracy in whichever role it played."""
    entries = [entry for duel in duels for entry in (duel.draft, duel.challenge) if entry is not None]
    policies = sorted({entry.rollout.policy for entry in entries})
    return {
        f"{policy}/correct": fmean(entry.correct for entry in entries if entry.rollout.policy == policy)
        for policy in policies
    }


def staleness(duels: Sequence[Duel]) -> float:
    """The updates that lie between the policies that sampled and those that are trained, on average."""
    return fmean(
        duel.step - entry.rollout.version
        for duel in duels
        for entry in (duel.draft, duel.challenge)
        if entry is not None
    )


def _stream_metrics(name: str, entries: Sequence[Entry], group: int) -> dict[str, float]:
    groups = [entries[start : start + group] for start in range(0, len(entries), group)]
    metrics = {
        "correct": _rate(entry.correct for entry in entries),
        "well_formed": _rate(entry.well_formed for entry in entries),
        "truncated": _rate(entry.rollout.truncated for entry in entries),
        "judge_failed": _rate(entry.verdict.reason in ("timeout", "error") for entry in entries),
        "length": fmean(entry.rollout.length for entry in entries),
        "dropped_groups": _rate(not has_signal([entry.reward for entry in members]) for members in groups),
    }
    for term in entries[0].terms or {}:
        metrics[f"reward/{term}"] = fmean((entry.terms or {})[term] for entry in entries)
    return {f"{name}/{key}": value for key, value in metrics.items()}


def _rate(outcomes: Iterable[bool]) -> float:
    return fmean(map(float, outcomes))
