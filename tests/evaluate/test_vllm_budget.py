"""What an evaluation takes of a card: what it is given, or what its problems need."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from transformers import Qwen3Config

from agon.arena import Arena
from agon.cli import main
from agon.engines.options import EngineOptions, VllmOptions
from agon.engines.protocol import Engine, Request, Sampling
from agon.engines.transformers_engine import TransformersEngine, stop_ids
from agon.errors import InputError
from agon.evaluate import load, request
from agon.evaluate.arms import arms_for
from agon.evaluate.split_evaluation import SplitEvaluation
from agon.evaluate.vllm_budget import VllmBudget
from tests.evaluate.tiny import tiny_pair, zero_or_one

PROBLEMS = zero_or_one(12)
CONFIG = Qwen3Config(max_position_embeddings=32768)


@pytest.fixture(autouse=True)
def with_vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    """These are questions to a machine that has vLLM."""
    monkeypatch.setattr(request, "installed", lambda package: True)


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[VllmOptions]:
    """The options that vLLM would have been started with; nothing is started."""
    seen: list[VllmOptions] = []

    def instead(name: str, pair: Any, chat: Any, path: str, options: EngineOptions) -> Engine:
        assert name == "vllm"
        seen.append(options.vllm)
        raise InputError("No vLLM here.")

    monkeypatch.setattr(load, "build_engine", instead)
    return seen


def test_what_is_given_reaches_vllm(run: Path, started: list[VllmOptions]) -> None:
    for size in (["--vllm-kv-cache-bytes", "1500000000"], ["--vllm-cache-gb", "1.5"]):
        assert main(["eval", str(run), "--engine", "vllm", *size, "--max-model-len", "900"]) == 2
    assert [(each.kv_cache_bytes, each.max_model_len) for each in started] == [(1_500_000_000, 900)] * 2


def test_without_options_vllm_has_its_share_and_holds_what_the_problems_need(
    run: Path, started: list[VllmOptions]
) -> None:
    for words in ([], ["--max-tokens", "40"]):
        assert main(["eval", str(run), "--engine", "vllm", *words]) == 2
    short, longer = started
    assert short.kv_cache_bytes is longer.kv_cache_bytes is None
    assert short.max_model_len is not None
    assert longer.max_model_len is not None
    assert 3 < short.max_model_len < 2048  # far less than the model could read
    assert longer.max_model_len - short.max_model_len == 3 * (40 - 3)


def test_the_problems_of_the_choice_of_direction_count_too(
    run: Path, tmp_path: Path, started: list[VllmOptions]
) -> None:
    """The run's validation problems are played before a test split of another task."""
    other = tmp_path / "short.jsonl"
    other.write_text('{"id": "one", "problem": "p", "answer": "1", "split": "test"}\n')
    words = ["eval", str(run), "--engine", "vllm", "--task", str(other)]
    assert main(words) == main([*words, "--direction", "AB"]) == 2
    chosen, given = (options.max_model_len or 0 for options in started)
    assert chosen == given + len("p15 g1?") - len("p")  # the longest of bits' validation


class Measuring(TransformersEngine):
    """An engine that remembers the longest sequence it was asked to make room for."""

    longest = 0

    def submit(self, requests: Sequence[Request]) -> None:
        wanted = [len(request.prompt_ids) + request.sampling.max_tokens for request in requests]
        self.longest = max([self.longest, *wanted])
        super().submit(requests)


def test_every_request_of_an_evaluation_fits(arena: Arena, tmp_path: Path) -> None:
    pair, chat = tiny_pair(), arena.chat
    engine = Measuring(pair, chat.decode, stop_ids(pair.model, chat.tokenizer), chat.tokenizer.pad_token_id)
    for policy in pair.names:
        engine.sync(policy, 0)
    sampling, versions = Sampling(max_tokens=8), {"A": 0, "B": 0, "base": 0}
    SplitEvaluation(PROBLEMS, arms_for(("A", "B")), 1, sampling, versions, 0, tmp_path).play(
        Arena(engine, chat, arena._judge)
    )
    room = VllmBudget(sampling.max_tokens, problems=PROBLEMS).length(chat, CONFIG)
    assert room is not None
    assert 8 < engine.longest <= room


def test_a_longer_problem_needs_more_room(arena: Arena) -> None:
    longer = replace(PROBLEMS[0], prompt="p" * 1000)
    short, long = (
        VllmBudget(8, problems=problems).length(arena.chat, CONFIG)
        for problems in (PROBLEMS, [*PROBLEMS, longer])
    )
    assert short is not None
    assert long is not None
    assert long - short == 1000 - max(len(problem.prompt) for problem in PROBLEMS)


def test_what_does_not_fit_the_model_is_left_to_it(arena: Arena) -> None:
    assert VllmBudget(16384, problems=PROBLEMS).length(arena.chat, CONFIG) is None
    assert VllmBudget(8192, problems=PROBLEMS).length(arena.chat, CONFIG) is not None


def test_more_than_the_model_reads_is_refused_unless_it_is_stretched(arena: Arena) -> None:
    with pytest.raises(InputError, match="is 40000, but the model reads 32768 tokens at most"):
        VllmBudget(8, max_model_len=40000).length(arena.chat, CONFIG)
    rope = {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1e6, "original_max_position_embeddings": 32768}
    stretched = Qwen3Config(max_position_embeddings=32768, rope_parameters=rope)
    assert VllmBudget(8, max_model_len=40000).length(arena.chat, stretched) == 40000


def test_a_cache_in_bytes_replaces_the_share_of_the_card() -> None:
    given, usual = (VllmBudget(8, size).applied_to(VllmOptions(), cuda=True) for size in (4 * 10**9, None))
    assert given.kv_cache_bytes == 4 * 10**9
    assert (usual.kv_cache_bytes, usual.gpu_memory_utilization) == (None, 0.85)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--engine", "vllm", "--vllm-kv-cache-bytes", "0"],
            "--vllm-kv-cache-bytes must be above 0, such as 4000000000 for 4 GB, not 0",
        ),
        (["--engine", "vllm", "--vllm-kv-cache-bytes", "-2"], "--vllm-kv-cache-bytes must be above 0"),
        (
            ["--engine", "vllm", "--vllm-cache-gb", "0"],
            "--vllm-cache-gb must be above 0, such as 4 or 0.5, not 0",
        ),
        (["--engine", "vllm", "--vllm-cache-gb", "-2"], "--vllm-cache-gb must be above 0"),
        (["--engine", "vllm", "--vllm-cache-gb", "nan"], "--vllm-cache-gb must be above 0"),
        (["--engine", "vllm", "--vllm-cache-gb", "inf"], "--vllm-cache-gb must be above 0"),
        (["--engine", "vllm", "--max-model-len", "3"], "must be above --max-tokens (3), not 3"),
        (["--engine", "vllm", "--max-model-len", "4096"], "is 4096, but the model reads 2048 tokens at most"),
        (
            ["--vllm-kv-cache-bytes", "4000000000"],
            "--vllm-kv-cache-bytes is for --engine vllm; the engine 'transformers' has no such",
        ),
        (["--max-model-len", "900"], "--max-model-len is for --engine vllm"),
    ],
)
def test_bad_input_is_one_sentence(
    run: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["eval", str(run), *words]) == 2
    error = capsys.readouterr().err.strip().splitlines()
    assert [sentence in line for line in error if line.startswith("agon: ")] == [True]
    assert not (run / "evaluations").exists()
