"""What every method pays, as numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.game import METHODS, Outcome, reward, rewards, terms

# (c(a), c(b), b is shorter) in this order, for a challenge that is not well formed.
CASES = [
    (False, False, False),
    (False, False, True),
    (False, True, False),
    (False, True, True),
    (True, False, False),
    (True, False, True),
    (True, True, False),
    (True, True, True),
]
# fmt: off
EXPECTED = {
    #  c(a) c(b)        0 0    0 0    0 1    0 1    1 0    1 0    1 1    1 1
    #  shorter          no     yes    no     yes    no     yes    no     yes
    "grpo":           [ 0.0,   0.0,   2.0,   2.0,   0.0,   0.0,   2.0,   2.0],
    "self-refine":    [ 0.0,   0.0,   2.0,   2.0,   0.0,   0.0,   2.0,   2.0],
    "coop":           [ 0.0,   0.0,   2.0,   2.0,   0.0,   0.0,   2.0,   2.0],
    "agon":           [ 0.0,   0.0,   3.0,   3.0,   0.0,   0.0,   2.0,   2.0],
    "agon-density":   [ 0.0,   0.0,   3.0,   3.0,   0.0,   0.0,   2.0,   2.5],
    "margin":         [ 0.0,   0.0,   3.0,   3.0,  -1.0,  -1.0,   2.0,   2.0],
    "fixed-roles":    [ 0.0,   0.0,   3.0,   3.0,   0.0,   0.0,   2.0,   2.0],
    "shared":         [ 0.0,   0.0,   3.0,   3.0,   0.0,   0.0,   2.0,   2.0],
    "hidden":         [ 0.0,   0.0,   3.0,   3.0,   0.0,   0.0,   2.0,   2.0],
    "shuffled":       [ 0.0,   0.0,   3.0,   3.0,   0.0,   0.0,   2.0,   2.0],
    "coop-pooled":    [ 0.0,   0.0,   2.0,   2.0,   0.0,   0.0,   2.0,   2.0],
    "agon-pooled":    [ 0.0,   0.0,   3.0,   3.0,   0.0,   0.0,   2.0,   2.0],
    "agon-paired":    [ 0.0,   0.0,   3.0,   3.0,   0.0,   0.0,   2.0,   2.0],
}
# fmt: on


def stack_of(name: str) -> rewards.Stack:
    """What the second half of a method's rollouts is paid by; without challenges they are drafts."""
    row = METHODS[name]
    return row.challenge_reward if row.challenges else rewards.DRAFT


def challenge(rival_correct: bool, correct: bool, shorter: bool, well_formed: bool = False) -> Outcome:
    return Outcome(correct, well_formed, 90 if shorter else 110, rival_correct, 100)


outcomes = st.builds(
    Outcome,
    correct=st.booleans(),
    well_formed=st.booleans(),
    length=st.integers(0, 20_000),
    rival_correct=st.booleans(),
    rival_length=st.integers(0, 20_000),
)
methods = st.sampled_from(sorted(METHODS))


def test_the_table_of_rewards_names_every_method() -> None:
    assert set(EXPECTED) == set(METHODS)


@pytest.mark.parametrize("name", EXPECTED)
@pytest.mark.parametrize(("case", "column"), [(case, column) for column, case in enumerate(CASES)])
def test_every_method_pays_what_the_table_says(name: str, case: tuple[bool, bool, bool], column: int) -> None:
    stack, expected = stack_of(name), EXPECTED[name][column]
    assert reward(stack, challenge(*case)) == expected
    assert reward(stack, challenge(*case, well_formed=True)) == expected + 0.5


def test_the_ladder_of_agon_less_the_form_is_exactly_0_2_3() -> None:
    assert {reward(METHODS["agon"].challenge_reward, challenge(*case)) for case in CASES} == {0.0, 2.0, 3.0}


def test_a_draft_is_paid_for_being_right_and_well_formed_alone() -> None:
    paid = {
        (correct, formed): reward(rewards.DRAFT, Outcome(correct, formed))
        for correct in (False, True)
        for formed in (False, True)
    }
    assert paid == {(False, False): 0.0, (False, True): 0.5, (True, False): 2.0, (True, True): 2.5}


@given(outcomes)
def test_a_draft_is_paid_the_same_whatever_its_rival_did(own: Outcome) -> None:
    assert reward(rewards.DRAFT, own) == reward(rewards.DRAFT, Outcome(own.correct, own.well_formed))


@given(outcomes)
def test_the_length_tiebreak_never_pays_a_wrong_answer(own: Outcome) -> None:
    assert rewards.tiebreak(own) in (0.0, 0.5)
    if not own.correct:
        assert rewards.tiebreak(own) == 0.0
        assert reward(rewards.DENSITY, own) == reward(rewards.COMPETITIVE, own)


@given(outcomes)
def test_the_length_tiebreak_pays_only_strictly_shorter_answers(own: Outcome) -> None:
    if own.length >= own.rival_length:
        assert rewards.tiebreak(own) == 0.0


@given(outcomes)
def test_the_length_tiebreak_and_the_conversion_bonus_never_pay_together(own: Outcome) -> None:
    assert rewards.tiebreak(own) * rewards.conversion(own) == 0.0


@given(methods, outcomes)
def test_a_right_answer_always_earns_more_than_a_wrong_one(name: str, own: Outcome) -> None:
    right = Outcome(True, own.well_formed, own.length, own.rival_correct, own.rival_length)
    wrong = Outcome(False, own.well_formed, own.length, own.rival_correct, own.rival_length)
    assert reward(stack_of(name), right) >= reward(stack_of(name), wrong) + 2.0


@given(methods, outcomes)
def test_good_form_is_worth_half_a_point_in_every_method(name: str, own: Outcome) -> None:
    formed = Outcome(own.correct, True, own.length, own.rival_correct, own.rival_length)
    loose = Outcome(own.correct, False, own.length, own.rival_correct, own.rival_length)
    assert reward(stack_of(name), formed) - reward(stack_of(name), loose) == 0.5


@given(methods, outcomes)
def test_a_reward_is_the_sum_of_its_named_terms(name: str, own: Outcome) -> None:
    named = terms(stack_of(name), own)
    assert sum(named.values()) == reward(stack_of(name), own)
    assert {"correctness", "form"} <= set(named)


@given(outcomes)
def test_cooperation_ignores_the_rival_in_the_reward(own: Outcome) -> None:
    alone = Outcome(own.correct, own.well_formed, own.length)
    assert reward(rewards.COOPERATIVE, own) == reward(rewards.COOPERATIVE, alone)
