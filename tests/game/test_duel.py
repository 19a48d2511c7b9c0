"""A duel travels as one JSON line and comes back the same."""

import json

from hypothesis import given
from hypothesis import strategies as st

from agon.game import REASONS, CodeTests, Duel, Entry, Problem, Rollout, StdioTest, Verdict

# Lone surrogates included: a byte-level tokenizer can decode to them.
texts = st.text(st.characters(exclude_categories=()), max_size=40)
# A problem with half a character is refused.
whole = st.text(max_size=40)
floats = st.floats(allow_nan=False)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
verdicts = st.builds(
    lambda reason, detail, seconds: Verdict(reason == "correct", reason, detail, seconds),
    st.sampled_from(REASONS),
    texts,
    st.floats(0, 1e6),
)
rollouts = st.builds(
    Rollout,
    text=texts,
    length=st.integers(0, 10**6),
    finish_reason=st.sampled_from(["stop", "length"]),
    policy=st.sampled_from(["A", "B", "base"]),
    version=st.integers(0, 10**9),
    token_ids=st.lists(st.integers(0, 300_000), max_size=5).map(tuple),
    logprobs=st.lists(floats, max_size=5).map(tuple),
)
entries = st.builds(
    Entry,
    rollout=rollouts,
    verdict=verdicts,
    well_formed=st.booleans(),
    reward=floats,
    advantage=floats,
    terms=st.none() | st.dictionaries(texts, floats, max_size=3),
)
tests = st.builds(
    CodeTests,
    stdio=st.lists(st.builds(StdioTest, whole, whole), max_size=2).map(tuple),
    setup=whole,
    asserts=st.lists(whole, max_size=2).map(tuple),
)
problems = st.builds(
    Problem,
    id=whole,
    prompt=whole,
    task=whole,
    answer=whole,
    tests=st.none() | tests,
    domain=st.sampled_from(["math", "code"]),
    metadata=st.dictionaries(texts, plain, max_size=3),
)
duels = st.builds(
    Duel,
    problem=problems,
    draft=entries,
    step=st.integers(0, 10**9),
    index=st.integers(0, 100),
    shown=st.none() | texts,
    challenge=st.none() | entries,
    opponent=st.none() | st.integers(0, 100),
)


@given(duels)
def test_a_duel_survives_json_without_loss(duel: Duel) -> None:
    assert Duel.from_json(duel.to_json()) == duel


@given(duels)
def test_a_duel_is_one_line_of_ascii(duel: Duel) -> None:
    line = duel.to_json()
    assert line.isascii()
    assert len(line.splitlines()) == 1


@given(duels)
def test_a_log_line_keeps_everything_but_tokens_and_tests(duel: Duel) -> None:
    full, bare = json.loads(duel.to_json()), json.loads(duel.for_log().to_json())
    full["problem"]["tests"] = None
    for entry in filter(None, (full["draft"], full["challenge"])):
        entry["rollout"] |= {"token_ids": [], "logprobs": []}
    assert bare == full


@given(duels)
def test_a_duel_converts_or_corrupts_but_never_both(duel: Duel) -> None:
    right = duel.challenge is not None and duel.challenge.correct
    assert duel.converted == (right and not duel.draft.correct)
    assert duel.corrupted == (duel.challenge is not None and not right and duel.draft.correct)
    assert not (duel.converted and duel.corrupted)


@given(duels)
def test_the_drafter_is_whoever_wrote_the_draft(duel: Duel) -> None:
    assert duel.drafter == duel.draft.rollout.policy


@given(rollouts)
def test_a_rollout_is_truncated_when_it_ran_out_of_length(rollout: Rollout) -> None:
    assert rollout.truncated == (rollout.finish_reason == "length")
    assert rollout.without_tokens().length == rollout.length
