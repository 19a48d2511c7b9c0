"""vLLM in process, against transformers and PEFT on the same weights."""

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from agon.engines.options import VllmOptions
from agon.engines.protocol import Sampling, derive_seed
from agon.engines.vllm_engine import VllmEngine, reserved_rank
from agon.errors import InputError
from tests.vllm.tiny import LONG, Tiny, play

GREEDY = Sampling(24, temperature=0.0)
WARM = Sampling(24, temperature=0.8, top_p=0.95)
EVERYONE = ("A", "B", "base")


@dataclass
class Started:
    """The engine, the folder of its adapters, and what starting it did to the global random generators."""

    engine: VllmEngine
    adapters: Path
    random_before: list[float]
    random_after: list[float]


def random_numbers() -> list[float]:
    return [random.random(), float(np.random.random()), float(torch.rand(1))]


@pytest.fixture(scope="module")
def started(shared_tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Started]:
    adapters = tmp_path_factory.mktemp("adapters")
    options = VllmOptions(
        dtype="float32", max_model_len=1024, max_num_seqs=64, enforce_eager=True, adapter_dir=str(adapters)
    )

    def seed() -> None:
        random.seed(5), np.random.seed(5), torch.manual_seed(5)

    seed()
    before = random_numbers()
    seed()
    engine = VllmEngine(
        str(shared_tiny.path), shared_tiny.pair, shared_tiny.chat.decode, shared_tiny.stop_ids, options
    )
    yield Started(engine, adapters, before, random_numbers())
    engine.close()
    assert list(adapters.iterdir()) == []


@pytest.fixture
def engine(tiny: Tiny, started: Started) -> VllmEngine:
    for policy in ("A", "B"):
        started.engine.sync(policy, 0)
    return started.engine


def test_starting_leaves_the_global_random_generators_as_they_were(started: Started) -> None:
    assert started.random_after == started.random_before


def test_greedy_tokens_of_a_b_and_base_in_one_batch_equal_peft(tiny: Tiny, engine: VllmEngine) -> None:
    texts = ["1+1=?", "what is 7*8?", LONG]
    rollouts = play(
        engine,
        [tiny.request(f"{policy} {text}", policy, text, GREEDY) for text in texts for policy in EVERYONE],
    )
    for text in texts:
        tokens = {policy: list(rollouts[f"{policy} {text}"].token_ids) for policy in EVERYONE}
        assert tokens == {policy: tiny.greedy(policy, text, 24) for policy in EVERYONE}
        # If the three policies agreed, a mix-up would go unnoticed.
        assert len({tuple(ids) for ids in tokens.values()}) == 3


def test_a_sync_takes_effect_on_the_next_request_and_no_prefix_is_stale(
    tiny: Tiny, engine: VllmEngine
) -> None:
    seen = set()
    for version in range(1, 6):
        policy = "A" if version % 2 else "B"
        tiny.change_weights(policy, seed=100 + version)
        engine.sync(policy, version)
        engine.sync("B" if policy == "A" else "A", version)
        # The base is sampled too: a slot that kept old weights would show there.
        requests = [tiny.request(name, name, LONG, GREEDY, version * (name != "base")) for name in EVERYONE]
        rollouts = play(engine, requests)
        for name in EVERYONE:
            assert list(rollouts[name].token_ids) == tiny.greedy(name, LONG, 24), (version, name)
        assert rollouts[policy].version == version
        seen.add(rollouts[policy].token_ids)
    assert len(seen) == 5


def test_a_seed_fixes_the_rollout_whatever_else_is_in_the_batch(tiny: Tiny, engine: VllmEngine) -> None:
    requests = [
        tiny.request(f"{policy}{n}", policy, f"{n}+{n}=?", WARM, seed=derive_seed(policy, n))
        for n in range(6)
        for policy in EVERYONE
    ]
    together = play(engine, requests)
    backwards = play(engine, requests[::-1])
    alone = {key: rollout for request in requests[:6] for key, rollout in play(engine, [request]).items()}
    tokens = {key: rollout.token_ids for key, rollout in together.items()}
    assert {key: rollout.token_ids for key, rollout in backwards.items()} == tokens
    assert {key: rollout.token_ids for key, rollout in alone.items()} == {key: tokens[key] for key in alone}
    other = play(engine, [tiny.request("A0", "A", "0+0=?", WARM, seed=derive_seed("other"))])
    assert other["A0"].token_ids != tokens["A0"]


def test_log_probs_are_those_that_the_trainer_computes(tiny: Tiny, engine: VllmEngine) -> None:
    sampling = Sampling(48, temperature=0.7)
    requests = [
        tiny.request(f"{policy}{n}", policy, f"{n}*{n}=?", sampling, seed=n)
        for n in range(4)
        for policy in EVERYONE
    ]
    rollouts = play(engine, requests)
    for request in requests:
        rollout = rollouts[request.key]
        expected = tiny.logprobs(request.policy, request.prompt_ids, rollout.token_ids, 0.7)
        assert rollout.logprobs == pytest.approx(expected, abs=1e-4)
    # Raw log-probs, without the temperature, would be far off.
    raw = tiny.logprobs("A", requests[0].prompt_ids, rollouts["A0"].token_ids, 1.0)
    assert max(abs(a - b) for a, b in zip(raw, rollouts["A0"].logprobs, strict=True)) > 0.05


def test_truncated_sampling_reports_log_probs_of_the_truncated_distribution(
    tiny: Tiny, engine: VllmEngine
) -> None:
    top_1 = Sampling(8, temperature=1.0, top_k=1)
    rollout = play(engine, [tiny.request("one", "A", "1+1=?", top_1)])["one"]
    assert rollout.logprobs == (0.0,) * rollout.length
    assert list(rollout.token_ids) == tiny.greedy("A", "1+1=?", 8)


def test_a_completion_keeps_its_end_token_and_says_why_it_ended(tiny: Tiny, engine: VllmEngine) -> None:
    hot = Sampling(60, temperature=1.5)
    rollouts = play(engine, [tiny.request(str(n), "B", "1+1=?", hot, seed=n) for n in range(40)]).values()
    assert {rollout.finish_reason for rollout in rollouts} == {"stop", "length"}
    for rollout in rollouts:
        ends = [token in tiny.stop_ids for token in rollout.token_ids]
        assert not any(ends[:-1])
        assert ends[-1] == (rollout.finish_reason == "stop")
        assert rollout.length == len(rollout.token_ids) == len(rollout.logprobs)
        assert rollout.text == tiny.chat.decode(rollout.token_ids)
        assert "<|im_end|>" not in rollout.text


def test_a_request_submitted_later_overtakes_a_long_one(tiny: Tiny, engine: VllmEngine) -> None:
    long, short = Sampling(200, temperature=0.0), Sampling(2, temperature=0.0)
    # A prompt whose completion does not end early.
    text = next(text for text in map(str, range(50)) if len(tiny.greedy("A", text, 200)) == 200)
    engine.submit([tiny.request("long", "A", text, long), tiny.request("draft", "A", text, short)])
    order = []
    while finished := engine.collect():
        order += [done.request.key for done in finished]
        if order[-1] == "draft":
            engine.submit([tiny.request("challenge", "B", text, short)])
    assert order == ["draft", "challenge", "long"]


def test_finished_rollouts_wait_for_more_while_many_are_in_flight(tiny: Tiny, engine: VllmEngine) -> None:
    """With n tokens for the n-th request, one of them ends at every step."""
    text = next(text for text in map(str, range(50)) if len(tiny.greedy("A", text, 60)) == 60)

    def returned(stride: int) -> list[int]:
        usual, engine.stride = engine.stride, stride
        engine.submit([tiny.request(str(n), "A", text, Sampling(n, temperature=0.0)) for n in range(1, 61)])
        sizes = []
        while finished := engine.collect():
            sizes.append(len(finished))
        engine.stride = usual
        return sizes

    assert returned(stride=1) == [1] * 60
    assert returned(stride=3)[:8] == [3] * 8
    # An eighth of what is left: 7 of 60 leave 53, 6 of 53 leave 47, and so on to one at a time.
    assert returned(stride=60) == [7, 6, 6, 5, 4, 4, 4, 3, 3, 2, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1]


def test_a_completion_that_ignores_stop_tokens_has_exactly_its_length(tiny: Tiny, engine: VllmEngine) -> None:
    lengths = [1, 9, 40, 64] * 24
    wanted = [
        tiny.request(str(number), "A", LONG, Sampling(length, temperature=2.0, ignore_stop=True), seed=number)
        for number, length in enumerate(lengths)
    ]
    done = play(engine, wanted)
    assert [done[str(number)].length for number in range(len(lengths))] == lengths
    assert any(set(rollout.token_ids[:-1]) & set(tiny.stop_ids) for rollout in done.values())


def test_a_version_that_was_not_synced_is_refused(tiny: Tiny, engine: VllmEngine) -> None:
    engine.sync("A", 3)
    for version in (2, 4):
        with pytest.raises(InputError, match=rf"'A' is at version 3 .* version {version} was asked for"):
            engine.submit([tiny.request("late", "A", "1+1=?", GREEDY, version)])
    with pytest.raises(InputError, match="'C' was never synced"):
        engine.submit([tiny.request("unknown", "C", "1+1=?", GREEDY)])
    assert engine.collect() == []


def test_weights_do_not_change_under_a_running_request(tiny: Tiny, engine: VllmEngine) -> None:
    engine.submit([tiny.request("running", "A", "1+1=?", GREEDY)])
    with pytest.raises(RuntimeError, match="cannot change while 1 of its requests"):
        engine.sync("A", 1)
    engine.sync("B", 1)  # no request for B is running
    assert [done.request.key for done in engine.collect()] == ["running"]


def test_a_request_that_does_not_fit_is_refused_with_the_length_that_would(
    tiny: Tiny, engine: VllmEngine
) -> None:
    request = tiny.request("big", "A", "1+1=?", Sampling(2000))
    wanted = len(request.prompt_ids) + 2000
    with pytest.raises(InputError, match=rf"max_model_len is 1024; set it to at least {wanted}"):
        engine.submit([tiny.request("small", "A", "1+1=?", GREEDY), request])
    assert engine.collect() == []  # all or none
    with pytest.raises(InputError, match="sleep_mode"):
        engine.sleep()


def test_old_adapters_leave_no_files(tiny: Tiny, engine: VllmEngine, started: Started) -> None:
    for version in range(3):
        engine.sync("A", version)
    saved = [path for path, _, files in os.walk(started.adapters) if "adapter_config.json" in files]
    assert sorted(Path(path).name for path in saved) == ["A", "B"]


def test_ranks_are_rounded_up_to_what_vllm_reserves() -> None:
    assert [reserved_rank(rank) for rank in (1, 4, 16, 17, 300)] == [1, 8, 16, 32, 320]
    with pytest.raises(InputError, match="up to rank 512"):
        reserved_rank(513)
