"""Figures from samples that were counted by hand."""

from typing import Any

import pytest

from agon.evaluate.arms import arms_for, plays_of, without_draft
from agon.evaluate.metrics import arm_figures, complementarity, grid
from agon.runs.samples import Attempt, Sample

ARMS = {arm.name: arm for arm in arms_for(("A", "B"), controls=False)}


def attempt(policy: str, correct: bool, length: int, read: int | None = None, **more: Any) -> Attempt:
    fields: dict[str, Any] = {
        "truncated": False,
        "well_formed": True,
        "prompt_length": 50 if read is None else 80,
        **more,
    }
    return Attempt(
        policy=policy, text="", length=length, correct=correct, reason="correct" if correct else "wrong", read=read,
        **fields,
    )  # fmt: skip


def duel(
    play: str, problem: str, draft: bool, final: bool, lengths: tuple[int, int], **more: object
) -> Sample:
    drafter, challenger = play.split("->")
    return Sample(
        play,
        problem,
        0,
        (attempt(drafter, draft, lengths[0]),),
        (attempt(challenger, final, lengths[1], 0, **more),),
    )


# Four problems; A->B has one of each transition, B alone solves the second and the third.
SAMPLES = [
    duel("A->B", "1", True, True, (10, 20), leaked=True),
    duel("A->B", "2", False, True, (30, 60), leaked=False, well_formed=False),
    duel("A->B", "3", True, False, (10, 40), leaked=False, truncated=True),
    duel("A->B", "4", False, False, (30, 80), leaked=False),
    duel("B->A", "1", False, True, (1, 1)),
    duel("B->A", "2", True, True, (1, 1)),
    duel("B->A", "3", True, True, (1, 1)),
    duel("B->A", "4", False, False, (1, 1)),
]
PLAYED = {sample.key: sample for sample in SAMPLES}
IDS = ["1", "2", "3", "4"]


def figures(name: str) -> dict[str, Any]:
    arm = ARMS[name]
    apart = without_draft(arm, plays_of(ARMS.values()))
    alone = [[PLAYED[apart.name, problem, 0].drafts[0]] for problem in IDS] if apart else None
    return arm_figures(grid(arm, IDS, 1, PLAYED), alone)


def test_the_cascade_counts_its_transitions() -> None:
    seen = figures("A->B")
    assert {name: seen[name] for name in ("both_right", "converted", "corrupted", "both_wrong")} == {
        "both_right": 0.25,
        "converted": 0.25,
        "corrupted": 0.25,
        "both_wrong": 0.25,
    }
    assert seen["pass@1"] == 0.5
    assert seen["conversion_given_wrong_draft"] == 0.5
    assert seen["corruption_given_right_draft"] == 0.5


def test_conversion_is_set_against_the_same_adapter_without_a_draft() -> None:
    """A's drafts were wrong on problems 2 and 4; B alone solves 2 and not 4."""
    assert figures("A->B")["alone_given_wrong_draft"] == 0.5
    # B's drafts were wrong on 1 and 4; A alone solves 1 and not 4.
    assert figures("B->A")["alone_given_wrong_draft"] == 0.5


def test_tokens_of_both_stages_and_of_the_prompts_are_counted() -> None:
    assert figures("A->B")["tokens"] == {"draft": 20.0, "final": 50.0, "total": 70.0, "prompt": 130.0}
    assert figures("A")["tokens"] == {"draft": 0, "final": 20.0, "total": 20.0, "prompt": 50.0}
    assert figures("majority")["tokens"] == {"draft": 0, "final": 21.0, "total": 21.0, "prompt": 100.0}


def test_lengths_leaks_and_form() -> None:
    seen = figures("A->B")
    assert (seen["final_length"], seen["length_given_right_draft"], seen["length_given_wrong_draft"]) == (
        50,
        30,
        70,
    )
    assert (seen["leaked"], seen["malformed"], seen["truncated"]) == (0.25, 0.25, 0.25)
    assert seen["reasons"] == {"correct": 2, "wrong": 2}
    assert "converted" not in figures("A")


def test_two_attempts_show_their_ceiling() -> None:
    assert figures("majority")["either"] == 0.75


def test_a_rate_of_nothing_is_none() -> None:
    arm = ARMS["A->B"]
    right = {key: duel("A->B", key[1], True, True, (1, 1)) for key in PLAYED if key[0] == "A->B"}
    seen = arm_figures(grid(arm, IDS, 1, right))
    assert seen["conversion_given_wrong_draft"] is None
    assert seen["length_given_wrong_draft"] is None


def test_complementarity() -> None:
    grids = {name: grid(ARMS[name], IDS, 1, PLAYED) for name in "AB"}
    # A is right on 1 and 3, B on 2 and 3.
    assert complementarity(grids["A"], grids["B"]) == {
        "error_correlation": 0.0,
        "union": 0.75,
        "disagreement": 0.5,
    }
    assert complementarity(grids["A"], grids["A"])["error_correlation"] == pytest.approx(1.0)
    always = [[row[0]] for row in grids["A"] if row[0].chosen.correct]
    assert complementarity(always, always)["error_correlation"] is None


def test_several_samples_give_pass_at_k() -> None:
    second = {
        ("A->B", sample.problem, 1): Sample("A->B", sample.problem, 1, sample.drafts, sample.finals)
        for sample in [*SAMPLES[1:4], duel("A->B", "1", False, False, (1, 1))]
        if sample.play == "A->B"
    }
    seen = arm_figures(grid(ARMS["A->B"], IDS, 2, PLAYED | second))
    assert seen["samples"] == 2
    assert seen["pass@1"] == 3 / 8
    assert seen["pass@2"] == 0.5
