"""The same evaluation on both engines agrees within sampling error."""

import json
from pathlib import Path

import pytest

from agon.cli import main
from agon.engines.options import VllmOptions
from agon.engines.protocol import Sampling
from agon.engines.vllm_engine import VllmEngine
from agon.evaluate.compare import compare, enter
from agon.evaluate.intervals import holm
from tests.evaluate.tiny import save_base, save_problems, save_run
from tests.vllm.tiny import make_tiny, play

PROBLEMS = 500


def evaluated(folder: Path, count: int) -> dict[str, Path]:
    """A pair evaluated on so many problems by each engine: same weights, decoding and seed."""
    base = save_base(folder / "base", head_dim=32)  # vLLM's CPU attention has no smaller heads
    problems = save_problems(folder / "bits.jsonl", count, validation=0)
    run = save_run(folder / "pair", base, problems)
    outputs = {}
    for engine in ("transformers", "vllm"):
        outputs[engine] = folder / engine
        words = [
            "--engine",
            engine,
            "--output",
            str(outputs[engine]),
            "--max-tokens",
            "3",
            "--direction",
            "AB",
        ]
        assert main(["eval", str(run), *words]) == 0
    return outputs


@pytest.mark.exhaustive  # most of a minute
def test_every_arm_agrees_within_sampling_error(tmp_path: Path) -> None:
    outputs = evaluated(tmp_path, PROBLEMS)
    arms = json.loads((outputs["vllm"] / "bits-test" / "result.json").read_text())["arms"]
    contrasts = {}
    for arm in arms:
        entrants = [enter(str(folder), arm=arm) for folder in outputs.values()]
        assert [entrant.result["n"] for entrant in entrants] == [PROBLEMS] * 2
        (contrasts[arm],) = compare(entrants)["contrasts"]
    for arm, row in contrasts.items():
        print(arm, f"{row['difference']:+.3f}", [round(end, 3) for end in row["ci95"]], f"p {row['p']:.2f}")
    assert min(holm([row["p"] for row in contrasts.values()])) > 0.05
    assert len(contrasts) == 7


def test_the_engines_sampled_different_rollouts(tmp_path: Path) -> None:
    """Otherwise the agreement would mean nothing."""
    outputs = evaluated(tmp_path, 40)
    one, other = ((folder / "bits-test" / "samples.jsonl").read_text() for folder in outputs.values())
    assert one != other
    results = [json.loads((folder / "bits-test" / "result.json").read_text()) for folder in outputs.values()]
    assert [result["engine"] for result in results] == ["transformers", "vllm"]
    assert results[0]["arms"]["A"]["pass@1"] > 0.2


def test_without_log_probs_the_same_tokens_are_drawn(tmp_path: Path) -> None:
    tiny = make_tiny(tmp_path / "model")
    warm = Sampling(24, temperature=0.8, top_p=0.95)
    requests = [tiny.request(policy, policy, "one and one?", warm, seed=5) for policy in ("A", "B", "base")]
    drawn = {}
    for logprobs in (False, True):
        options = VllmOptions(
            dtype="float32", max_model_len=256, max_num_seqs=8, enforce_eager=True, logprobs=logprobs
        )
        engine = VllmEngine(str(tiny.path), tiny.pair, tiny.chat.decode, tiny.stop_ids, options)
        for policy in ("A", "B"):
            engine.sync(policy, 0)
        assert engine.capabilities.logprobs == logprobs
        rollouts = play(engine, requests)
        engine.close()
        drawn[logprobs] = {key: rollout.token_ids for key, rollout in rollouts.items()}
        for rollout in rollouts.values():
            assert len(rollout.logprobs) == (len(rollout.token_ids) if logprobs else 0)
    assert drawn[False] == drawn[True]
    assert all(len(tokens) > 1 for tokens in drawn[True].values())
