"""Validation shows the cascade and each adapter alone, in one flat dictionary."""

from typing import Any

import pytest

from agon.arena import Arena
from agon.engines.protocol import Sampling, derive_seed
from agon.evaluate.validate import validate
from agon.game import METHODS
from tests.evaluate.tiny import zero_or_one

SAMPLING = Sampling(max_tokens=3)
VERSIONS = {"A": 0, "B": 0}
PROBLEMS = zero_or_one(40)


def run(
    arena: Arena, policies: tuple[str, ...] = ("A", "B"), method: str = "agon", seed: int = 1, **more: Any
):
    return validate(arena, PROBLEMS, policies, METHODS[method], SAMPLING, VERSIONS, seed, **more)


def test_a_pair_is_seen_in_both_directions_and_alone(arena: Arena) -> None:
    rates = run(arena)
    stage = {"correct", "truncated", "well_formed"}
    cascade = stage | {"converted", "corrupted", "final_length"}
    assert set(rates) == (
        {f"{direction}/{what}" for direction in ("A->B", "B->A") for what in cascade}
        | {f"{policy}/{what}" for policy in "AB" for what in stage | {"length"}}
        | {"agreement", "union", "best", "headline"}
    )
    assert rates["best"] == max(rates["A->B/correct"], rates["B->A/correct"]) == rates["headline"]


def test_the_books_balance(arena: Arena) -> None:
    rates = run(arena, samples=3)
    for drafter, direction in (("A", "A->B"), ("B", "B->A")):
        gained = rates[f"{direction}/converted"] - rates[f"{direction}/corrupted"]
        assert rates[f"{drafter}/correct"] + gained == pytest.approx(rates[f"{direction}/correct"])
    apart = 1 - rates["agreement"]
    assert 2 * rates["union"] == pytest.approx(rates["A/correct"] + rates["B/correct"] + apart)
    assert 0 < rates["A->B/converted"] < 1
    assert 0 < apart < 1


def test_the_rates_are_those_of_the_duels_in_the_arena(arena: Arena) -> None:
    duels = [
        duel
        for played in arena.play(
            PROBLEMS,
            METHODS["coop"],
            drafts=1,
            sampling=SAMPLING,
            versions=VERSIONS,
            seed=derive_seed(1, "B->A", 0),
            players=("B", "A"),
        )
        for duel in played
    ]
    rates = run(arena)
    assert rates["B->A/converted"] == sum(duel.converted for duel in duels) / 40
    assert rates["B/correct"] == sum(duel.draft.correct for duel in duels) / 40
    assert (
        rates["B->A/final_length"]
        == sum(duel.challenge.rollout.length for duel in duels if duel.challenge) / 40
    )


def test_one_policy_reads_itself(arena: Arena) -> None:
    rates = run(arena, ("A",), "grpo")
    assert "A->A/correct" in rates
    assert not any("B" in name for name in rates)
    assert rates["headline"] == rates["A/correct"]


def test_a_single_pass_method_is_judged_by_its_better_adapter(arena: Arena) -> None:
    rates = run(arena, method="hidden")
    assert rates["headline"] == max(rates["A/correct"], rates["B/correct"])
    assert rates["best"] == max(rates["A->B/correct"], rates["B->A/correct"])


def test_the_seed_decides_everything(arena: Arena) -> None:
    assert run(arena) == run(arena)
    assert run(arena) != run(arena, seed=2)
