"""The table of methods, row by row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agon.errors import InputError
from agon.game import METHODS, method

# policies, reads, paid against, roles, evaluated as
TABLE = {
    "grpo": (1, "no challenge", "nobody", "solo", "single"),
    "self-refine": (1, "own draft", "nobody", "same", "two-pass"),
    "coop": (2, "rival draft", "nobody", "rotate", "cascade"),
    "agon": (2, "rival draft", "own pair", "rotate", "cascade"),
    "agon-density": (2, "rival draft", "own pair", "rotate", "cascade"),
    "margin": (2, "rival draft", "own pair", "rotate", "cascade"),
    "fixed-roles": (2, "rival draft", "own pair", "fixed", "cascade"),
    "shared": (2, "nothing", "one draft", "rotate", "single"),
    "hidden": (2, "nothing", "own pair", "rotate", "single"),
    "shuffled": (2, "another draft", "own pair", "rotate", "cascade"),
    "coop-pooled": (2, "rival draft", "nobody", "rotate", "cascade"),
    "agon-pooled": (2, "rival draft", "own pair", "rotate", "cascade"),
    "agon-paired": (2, "rival draft", "own pair", "rotate", "cascade"),
}
ROTATING = [name for name, row in TABLE.items() if row[3] == "rotate"]

names = st.sampled_from(sorted(METHODS))
sizes = st.integers(2, 64)


def test_the_table_has_the_methods_in_order() -> None:
    assert list(METHODS) == list(TABLE)


@pytest.mark.parametrize("name", TABLE)
def test_a_row_says_what_the_design_says(name: str) -> None:
    row = method(name)
    assert (row.policies, row.reads, row.paid_against, row.roles, row.evaluated_as) == TABLE[name]


@pytest.mark.parametrize("name", ROTATING)
def test_rotating_methods_swap_the_drafter_every_step(name: str) -> None:
    assert [method(name).players(step) for step in range(4)] == [("A", "B"), ("B", "A")] * 2


def test_with_fixed_roles_a_always_drafts() -> None:
    assert {method("fixed-roles").players(step) for step in range(10)} == {("A", "B")}


@pytest.mark.parametrize("name", ["grpo", "self-refine"])
def test_a_single_policy_plays_both_parts(name: str) -> None:
    assert {method(name).players(step) for step in range(10)} == {("A", "A")}


@given(names, st.integers(0, 10**6))
def test_two_policies_never_play_the_same_part(name: str, step: int) -> None:
    drafter, challenger = method(name).players(step)
    assert (drafter != challenger) == (method(name).policies == 2)


@given(sizes)
def test_a_shuffled_challenge_reads_every_draft_once_and_never_its_own(drafts: int) -> None:
    row = method("shuffled")
    read = [row.draft_read(challenge, drafts) for challenge in range(drafts)]
    assert sorted(index for index in read if index is not None) == list(range(drafts))
    assert all(index != challenge for challenge, index in enumerate(read))


@given(sizes)
def test_a_shuffled_challenge_is_paid_against_its_own_pair(drafts: int) -> None:
    assert [method("shuffled").opponent(challenge) for challenge in range(drafts)] == list(range(drafts))


@given(sizes)
def test_all_challenges_of_a_shared_group_are_paid_against_one_draft(drafts: int) -> None:
    assert {method("shared").opponent(challenge) for challenge in range(drafts)} == {0}


@given(names, sizes)
def test_a_challenge_reads_its_pair_unless_it_reads_nothing_or_another(name: str, drafts: int) -> None:
    row = method(name)
    read = [row.draft_read(challenge, drafts) for challenge in range(drafts)]
    if not row.shows_attempt:
        assert read == [None] * drafts
    elif name != "shuffled":
        assert read == list(range(drafts))


@given(names)
def test_only_grpo_has_no_challenges(name: str) -> None:
    assert method(name).challenges == (name != "grpo")


@pytest.mark.parametrize("name", TABLE)
def test_only_pooled_methods_learn_from_both_and_only_one_has_paired_advantages(name: str) -> None:
    row = method(name)
    assert (row.learns_from == "both") == name.endswith("-pooled")
    assert (row.advantage == "paired") == (name == "agon-paired")


@pytest.mark.parametrize(
    ("name", "like"), [("coop-pooled", "coop"), ("agon-pooled", "agon"), ("agon-paired", "agon")]
)
def test_a_new_row_plays_and_pays_as_the_one_it_is_made_of(name: str, like: str) -> None:
    own, other = method(name), method(like)
    assert (own.challenge_reward, own.draft_reward) == (other.challenge_reward, other.draft_reward)


def test_self_refine_says_whose_control_it_is() -> None:
    assert "SDRL" in method("self-refine").note


def test_an_unknown_method_is_answered_with_the_nearest_one() -> None:
    with pytest.raises(InputError, match="Unknown method 'argon': did you mean 'agon'"):
        method("argon")
