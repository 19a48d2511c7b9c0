"""The arena: every method's duels, whatever order things finish in."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agon.arena import Arena
from agon.engines.chat import Chat
from agon.engines.protocol import Finished, Request, Sampling, check_request
from agon.engines.transformers_engine import TransformersEngine, stop_ids
from agon.game.duel import Duel, Entry
from agon.game.methods import METHODS
from agon.judges.pool import JudgePool
from agon.policies import Adapters, Pair
from tests import tiny

SAMPLING = Sampling(max_tokens=10)
VERSIONS = {"A": 7, "B": 7}
PROBLEMS = tiny.task().splits["train"][:5]


class Hasty(TransformersEngine):
    """Hands back one rollout at a time, the last submitted first: as unlike a barrier as can be."""

    def collect(self) -> list[Finished]:
        if not self._pending:
            return []
        last = self._pending.pop()
        waiting, self._pending = self._pending, [last]
        finished = super().collect()
        self._pending = waiting
        return finished


class Narrow(TransformersEngine):
    """Refuses what does not fit, as vLLM does; of the summaries of these problems, half fit."""

    max_model_len = 410

    def submit(self, requests: Sequence[Request]) -> None:
        for request in requests:
            check_request(request, VERSIONS, self.max_model_len)
        super().submit(requests)


@pytest.fixture(scope="module")
def judge() -> Iterator[JudgePool]:
    with JudgePool("tests.last_box:last_box", workers=1) as pool:
        yield pool


def arena(judge: JudgePool, kind: type[TransformersEngine] = TransformersEngine) -> Arena:
    words = tiny.tokenizer()
    chat = Chat(words, "boxed")
    pair = Pair.create(tiny.model(), Adapters(noise=0.2))
    engine = kind(pair, chat.decode, stop_ids(pair.model.get_base_model(), words), words.pad_token_id)
    for policy, version in VERSIONS.items():
        engine.sync(policy, version)
    return Arena(engine, chat, judge)


def play(of: Arena, name: str, step: int = 0, drafts: int = 4) -> list[list[Duel]]:
    return of.play(PROBLEMS, METHODS[name], drafts=drafts, sampling=SAMPLING, versions=VERSIONS, step=step)


def timeless(duels: Sequence[Sequence[Duel]]) -> list[Duel]:
    """Duels without how long judging took and without log-probs, whose last bit is the batch's."""

    def still(entry: Entry) -> Entry:
        return replace(
            entry,
            verdict=replace(entry.verdict, seconds=0.0),
            rollout=replace(entry.rollout, logprobs=()),
        )

    return [
        replace(duel, draft=still(duel.draft), challenge=still(duel.challenge) if duel.challenge else None)
        for group in duels
        for duel in group
    ]


@pytest.mark.parametrize("name", METHODS)
def test_the_order_of_finishing_changes_nothing(judge: JudgePool, name: str) -> None:
    assert timeless(play(arena(judge), name)) == timeless(play(arena(judge, Hasty), name))


def test_a_challenge_reads_its_own_draft_with_the_answer_withheld(judge: JudgePool) -> None:
    shown = [duel for group in play(arena(judge), "agon") for duel in group]
    assert any("[withheld]" in (duel.shown or "") for duel in shown)
    for duel in shown:
        assert duel.shown is not None
        assert "\\boxed" not in duel.shown
        assert all(part.strip() in duel.draft.rollout.text for part in duel.shown.split("[withheld]"))


def test_shuffled_reads_the_next_draft_and_is_paid_against_its_own(judge: JudgePool) -> None:
    own, next_ones = play(arena(judge), "agon"), play(arena(judge), "shuffled")
    for one, other in zip(own, next_ones, strict=True):
        assert [duel.shown for duel in other] == [duel.shown for duel in one[1:] + one[:1]]
        assert [duel.opponent for duel in other] == [0, 1, 2, 3]


def test_shared_is_paid_against_one_draft(judge: JudgePool) -> None:
    for group in play(arena(judge), "shared"):
        assert [duel.opponent for duel in group] == [0] * 4
        for duel in group:
            assert duel.challenge is not None
            bonus = (duel.challenge.terms or {})["conversion"]
            assert bonus == float(duel.challenge.correct and not group[0].draft.correct)


def test_who_plays_follows_the_step(judge: JudgePool) -> None:
    of = arena(judge)
    for step, (drafter, challenger) in enumerate([("A", "B"), ("B", "A")]):
        for group in play(of, "agon", step=step):
            for duel in group:
                assert duel.challenge is not None
                assert (duel.drafter, duel.challenge.rollout.policy) == (drafter, challenger)
                assert duel.draft.rollout.version == 7


def test_another_step_is_another_draw(judge: JudgePool) -> None:
    of = arena(judge)
    first, again, later = (
        [duel.draft.rollout.text for group in play(of, "grpo", step=step) for duel in group]
        for step in (0, 0, 2)
    )
    assert first == again
    assert first != later


@pytest.mark.parametrize("kind", [TransformersEngine, Hasty])
def test_a_problem_may_be_played_several_times_with_a_seed_each(
    judge: JudgePool, kind: type[TransformersEngine]
) -> None:
    """Each time it gives what it gives alone with that seed, whatever is played beside it."""
    one, other = PROBLEMS[:2]
    turns = [(one, 5), (other, 5), (one, 6), (one, 5)]
    method = METHODS["agon"]
    settings: dict[str, Any] = {"drafts": 3, "sampling": SAMPLING, "versions": VERSIONS}
    together = arena(judge, kind).play(
        [problem for problem, _ in turns], method, seed=[seed for _, seed in turns], **settings
    )
    alone = [arena(judge).play([problem], method, seed=seed, **settings)[0] for problem, seed in turns]
    assert timeless(together) == timeless(alone)
    assert timeless(together[:1]) == timeless(together[3:])
    assert timeless(together[:1]) != timeless(together[2:3])


def test_one_seed_for_all_is_that_seed_for_each(judge: JudgePool) -> None:
    of, method = arena(judge), METHODS["agon"]
    one, each = (
        of.play(PROBLEMS, method, drafts=2, sampling=SAMPLING, versions=VERSIONS, seed=seed)
        for seed in (9, [9] * len(PROBLEMS))
    )
    assert timeless(one) == timeless(each)


@pytest.mark.parametrize("seeds", [[], [1], [1] * 6])
def test_seeds_that_do_not_match_the_problems_are_refused(judge: JudgePool, seeds: list[int]) -> None:
    with pytest.raises(ValueError, match=f"5 problems need as many seeds, or one for all; not {len(seeds)}"):
        arena(judge).play(
            PROBLEMS, METHODS["grpo"], drafts=1, sampling=SAMPLING, versions=VERSIONS, seed=seeds
        )


def test_a_rollout_of_the_wrong_version_is_refused(judge: JudgePool) -> None:
    class Liar(TransformersEngine):
        def collect(self) -> list[Finished]:
            return [replace(done, rollout=replace(done.rollout, version=6)) for done in super().collect()]

    with pytest.raises(RuntimeError, match="at version 7, but the engine answered with A at version 6"):
        play(arena(judge, Liar), "agon")


def test_an_engine_that_stops_early_is_an_error(judge: JudgePool) -> None:
    class Forgetful(TransformersEngine):
        def submit(self, requests: Sequence[Request]) -> None:
            super().submit(requests[:-1])

    with pytest.raises(RuntimeError, match="and stopped"):
        play(arena(judge, Forgetful), "grpo")


def test_cut_off_rollouts_are_told_from_silent_ones(judge: JudgePool) -> None:
    entries = [duel.draft for group in play(arena(judge), "grpo", drafts=12) for duel in group]
    for entry in entries:
        if entry.verdict.reason == "truncated":
            assert entry.rollout.truncated
        if entry.verdict.reason == "no-answer":
            assert not entry.rollout.truncated
    assert {"truncated", "correct", "wrong"} <= {entry.verdict.reason for entry in entries}


def test_a_summary_that_does_not_fit_with_its_challenge_is_shown_as_far_as_it_does(judge: JudgePool) -> None:
    """How long a challenge's prompt gets is only known in mid-run: refusing it would refuse every resume, too."""
    whole, cut = (
        [duel for group in play(arena(judge, kind), "agon") for duel in group]
        for kind in (TransformersEngine, Narrow)
    )
    assert [duel.draft.rollout.text for duel in cut] == [duel.draft.rollout.text for duel in whole]
    lengths = [duel.challenge.rollout.prompt_length for duel in cut if duel.challenge]
    assert max(lengths) <= Narrow.max_model_len - SAMPLING.max_tokens
    shortened = [(one.shown or "", other.shown or "") for one, other in zip(cut, whole, strict=True)]
    assert any(
        one.endswith(" […]") and other.startswith(one[:-4]) for one, other in shortened if one != other
    )
    assert any(one == other for one, other in shortened)
    assert timeless(play(arena(judge, Narrow), "agon")) == timeless([cut])


def test_a_challenge_prompt_stays_within_what_the_model_reads(judge: JudgePool) -> None:
    of = arena(judge)
    assert isinstance(of.engine, TransformersEngine)
    assert of.engine.positions == 2048
    of.engine.positions = 401
    duels = [duel for group in play(of, "agon") for duel in group]
    assert 390 < max(duel.challenge.rollout.prompt_length for duel in duels if duel.challenge) <= 400
