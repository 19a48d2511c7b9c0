"""What is played, what is reported, and who stands for whom."""

from typing import Any

import pytest

from agon.errors import InputError
from agon.evaluate.arms import MOA, SELF_CASCADE, answer, arms_for, plays_of, vote, without_draft
from agon.runs.samples import Attempt, Sample


def attempt(policy: str, reason: str = "wrong", read: int | None = None, length: int = 10) -> Attempt:
    return Attempt(policy, "", length, 100, reason == "truncated", True, reason == "correct", reason, read)


def names(*policies: str, **more: Any) -> list[str]:
    return [arm.name for arm in arms_for(policies, **more)]


def test_a_pair_has_both_directions_each_adapter_and_every_control() -> None:
    assert names("A", "B") == ["A->B", "B->A", "A", "B", "zero-shot", "self-cascade", "moa", "majority"]


def test_one_policy_reads_itself_and_a_bare_model_has_the_controls() -> None:
    assert names("A") == ["A->A", "A", "zero-shot", "self-cascade", "moa", "majority"]
    assert names() == ["zero-shot", "self-cascade", "moa", "majority"]


def test_nothing_is_sampled_twice_for_the_arms_of_a_pair() -> None:
    """Ten rollouts per problem for eight arms: each adapter alone, zero-shot and majority are free."""
    plays = plays_of(arms_for(("A", "B")))
    assert [play.name for play in plays] == ["A->B", "B->A", "self-cascade", "moa"]
    assert sum(play.rollouts for play in plays) == 10


def test_one_direction_still_shows_both_adapters_alone() -> None:
    arms = arms_for(("A", "B"), "A->B", controls=False)
    assert [arm.name for arm in arms] == ["A->B", "A", "B", "majority"]
    assert [(play.name, play.rollouts) for play in plays_of(arms)] == [("A->B", 2), ("B", 1)]


def test_a_direction_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match="Unknown direction 'B->C'"):
        arms_for(("A", "B"), "B->C")


def test_the_policy_without_a_draft_is_sampled_apart_from_the_drafts_it_read() -> None:
    """Or the attempts on wrong drafts of a policy that reads itself would all be wrong by selection."""
    for policies in (("A", "B"), ("A",), ()):
        arms = arms_for(policies)
        for arm in arms:
            apart = without_draft(arm, plays_of(arms))
            if arm.cascade:
                assert apart is not None
                assert apart not in arm.plays
                assert apart.drafter == arm.policy
            else:
                assert apart is None


def test_an_adapter_alone_is_its_draft_in_the_cascade() -> None:
    cascade, _, alone, *_ = arms_for(("A", "B"))
    sample = Sample("A->B", "p", 0, (attempt("A", "wrong", length=7),), (attempt("B", "correct", 0, 5),))
    played = {sample.key: sample}
    assert answer(alone, "p", 0, played).chosen.policy == "A"
    both = answer(cascade, "p", 0, played)
    assert (both.chosen.policy, both.chosen.correct) == ("B", True)
    assert [(draft.length, final.length) for draft, final in both.readings] == [(7, 5)]


def test_the_two_of_moa_read_each_other() -> None:
    moa = next(arm for arm in arms_for(()) if arm.name == "moa")
    drafts = (attempt("base", length=1), attempt("base", length=2))
    assert [MOA.method.draft_read(number, 2) for number in range(2)] == [1, 0]
    sample = Sample("moa", "p", 0, drafts, (attempt("base", read=1), attempt("base", read=0)))
    assert [draft.length for draft, _ in answer(moa, "p", 0, {sample.key: sample}).readings] == [2, 1]


def test_a_vote_goes_to_whoever_answered() -> None:
    silent, right = attempt("A", "truncated"), attempt("B", "correct")
    for problem in range(20):
        assert vote([silent, right], problem) is right
        assert vote([silent, silent], problem) is silent


def test_a_tie_is_settled_by_a_coin_that_favours_nobody_and_remembers() -> None:
    one, other = attempt("A", "wrong"), attempt("B", "correct")
    chosen = [vote([one, other], "majority", problem, 0).policy for problem in range(400)]
    assert chosen == [vote([one, other], "majority", problem, 0).policy for problem in range(400)]
    assert 160 < chosen.count("A") < 240  # four standard deviations of a fair coin


def test_the_base_is_the_same_policy_in_all_controls() -> None:
    assert {SELF_CASCADE.drafter, SELF_CASCADE.challenger, MOA.drafter, MOA.challenger} == {"base"}
