"""Sampling with transformers: the right tokens, a seed for every request, versions that are checked."""

import random
from dataclasses import replace

import pytest
import torch

from agon.engines.chat import Chat
from agon.engines.protocol import Request, Sampling, derive_seed
from agon.engines.transformers_engine import TransformersEngine, stop_ids
from agon.errors import InputError
from agon.game.rollout import Rollout
from agon.policies import Adapters, Pair
from tests import tiny

WARM = Sampling(max_tokens=16)


@pytest.fixture(scope="module")
def pair() -> Pair:
    return Pair.create(tiny.model(), Adapters(noise=0.2))


@pytest.fixture
def engine(pair: Pair) -> TransformersEngine:
    words = tiny.tokenizer()
    made = TransformersEngine(
        pair, Chat(words, "boxed").decode, stop_ids(pair.model.get_base_model(), words), words.pad_token_id
    )
    for policy in ("A", "B", "base"):
        made.sync(policy, 3)
    return made


def requests(count: int, sampling: Sampling = WARM) -> list[Request]:
    words = tiny.tokenizer()
    return [
        Request(
            key=str(number),
            prompt_ids=tuple(words.encode("what is it? " * (1 + number % 3))),
            policy=("A", "B", "base")[number % 3],
            version=3,
            sampling=sampling,
            seed=derive_seed("test", number),
        )
        for number in range(count)
    ]


def sample(engine: TransformersEngine, wanted: list[Request]) -> dict[str, Rollout]:
    engine.submit(wanted)
    done: dict[str, Rollout] = {}
    while finished := engine.collect():
        done |= {each.request.key: each.rollout for each in finished}
    return done


@pytest.mark.parametrize("policy", ["A", "B", "base"])
def test_greedy_tokens_are_those_of_generate(engine: TransformersEngine, pair: Pair, policy: str) -> None:
    request = Request(
        "x", tuple(tiny.tokenizer().encode("hello there")), policy, 3, Sampling(12, temperature=0.0), 0
    )
    rollout = sample(engine, [request])["x"]
    with pair.using(policy), torch.no_grad():
        written = pair.model.eval().generate(
            input_ids=torch.tensor([request.prompt_ids]), max_new_tokens=12, do_sample=False
        )
    assert list(rollout.token_ids) == written[0, len(request.prompt_ids) :].tolist()


def test_a_rollout_does_not_depend_on_the_rest_of_the_batch(engine: TransformersEngine) -> None:
    wanted = requests(30)
    together = sample(engine, wanted)
    random.Random(0).shuffle(wanted)
    engine._max_rows = 4
    in_small_batches = sample(engine, wanted)
    # The last bit of a log-prob depends on the shape of the batch; what was drawn does not.
    assert {key: each.token_ids for key, each in in_small_batches.items()} == {
        key: each.token_ids for key, each in together.items()
    }
    for key, rollout in together.items():
        assert rollout.logprobs == pytest.approx(in_small_batches[key].logprobs, abs=1e-5)
    assert len({rollout.token_ids for rollout in together.values()}) > 25


def test_requests_that_share_a_prompt_get_different_rollouts(engine: TransformersEngine) -> None:
    one = requests(1)[0]
    same = [Request(str(n), one.prompt_ids, "A", 3, WARM, seed=n) for n in range(8)]
    assert len({rollout.token_ids for rollout in sample(engine, same).values()}) == 8


def test_log_probs_are_those_of_the_model(engine: TransformersEngine, pair: Pair) -> None:
    request = requests(2, Sampling(10, temperature=0.7))[1]
    rollout = sample(engine, [request])["1"]
    ids = torch.tensor([[*request.prompt_ids, *rollout.token_ids]])
    with pair.using("B"), torch.no_grad():
        scores = pair.model.eval()(input_ids=ids).logits[0, len(request.prompt_ids) - 1 : -1] / 0.7
    expected = scores.log_softmax(-1).gather(-1, torch.tensor(rollout.token_ids)[:, None])[:, 0]
    assert torch.allclose(torch.tensor(rollout.logprobs), expected, atol=1e-4)


def test_a_narrow_nucleus_is_greedy(engine: TransformersEngine) -> None:
    narrow, greedy = Sampling(10, top_p=1e-6), Sampling(10, temperature=0.0)
    assert [rollout.token_ids for rollout in sample(engine, requests(6, narrow)).values()] == [
        rollout.token_ids for rollout in sample(engine, requests(6, greedy)).values()
    ]


def test_frequencies_are_those_of_the_distribution(engine: TransformersEngine, pair: Pair) -> None:
    prompt = requests(1)[0].prompt_ids
    many = [Request(str(n), prompt, "A", 3, Sampling(1), derive_seed(n)) for n in range(4000)]
    counts = torch.zeros(len(tiny.tokenizer()))
    for rollout in sample(engine, many).values():
        counts[rollout.token_ids[0]] += 1
    with pair.using("A"), torch.no_grad():
        chances = pair.model.eval()(input_ids=torch.tensor([prompt])).logits[0, -1].softmax(-1)
    reduced_chi_square = (((counts - 4000 * chances) ** 2) / (4000 * chances)).sum() / (len(chances) - 1)
    assert 0.7 < reduced_chi_square < 1.3


def test_finished_rollouts_say_why_they_ended(engine: TransformersEngine) -> None:
    done = sample(engine, requests(60, Sampling(40)))
    reasons = {rollout.finish_reason for rollout in done.values()}
    assert reasons == {"stop", "length"}
    end = tiny.tokenizer().eos_token_id
    for rollout in done.values():
        assert (rollout.token_ids[-1] == end) == (rollout.finish_reason == "stop")
        assert rollout.length == len(rollout.token_ids) == len(rollout.logprobs)
        assert "<|im_end|>" not in rollout.text


def test_a_version_that_was_not_synced_is_refused(engine: TransformersEngine) -> None:
    stale = Request("x", (5, 6), "A", 2, WARM, 0)
    with pytest.raises(InputError, match="is at version 3"):
        engine.submit([stale])
    with pytest.raises(InputError, match="no policy 'C'"):
        engine.sync("C", 0)


def test_training_mode_is_restored(engine: TransformersEngine, pair: Pair) -> None:
    pair.model.train()
    sample(engine, requests(3))
    assert pair.model.training


def test_a_completion_that_ignores_stop_tokens_has_exactly_its_length(engine: TransformersEngine) -> None:
    end = tiny.tokenizer().eos_token_id
    lengths = [1, 7, 40, 40, 12, 3] * 10
    wanted = [
        replace(each, sampling=Sampling(length, ignore_stop=True))
        for each, length in zip(requests(len(lengths)), lengths, strict=True)
    ]
    done = sample(engine, wanted)
    assert [done[str(number)].length for number in range(len(lengths))] == lengths
    assert {rollout.finish_reason for rollout in done.values()} == {"length"}
    assert any(end in rollout.token_ids[:-1] for rollout in done.values())


def test_requests_of_different_lengths_are_sampled_in_one_batch(engine: TransformersEngine) -> None:
    prompt = requests(1)[0].prompt_ids
    engine.submit([Request(str(n), prompt, "A", 3, Sampling(n), derive_seed(n)) for n in range(1, 9)])
    finished = engine.collect()
    assert len(finished) == 8
    assert all(done.rollout.length <= done.request.sampling.max_tokens for done in finished)
    alone = sample(engine, [done.request for done in finished[:1]])
    assert alone["1"].token_ids == finished[0].rollout.token_ids
