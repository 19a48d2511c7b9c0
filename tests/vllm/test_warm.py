"""A warm-up samples by vLLM as well: one engine before the fine-tuning, one after it."""

import json
from pathlib import Path

import pytest

from agon.cli import main
from tests.warm.base import save_base, save_problems


@pytest.mark.exhaustive
def test_a_base_is_warmed_with_vllm(tmp_path: Path) -> None:
    base = save_base(tmp_path / "base", head_dim=32)  # vLLM's CPU attention has no smaller heads
    problems = save_problems(tmp_path / "bits.jsonl")
    sizes = ["--problems", "24", "--samples", "4", "--max-tokens", "24", "--limit", "16", "--judge", "exact"]
    training = ["--epochs", "6", "--batch", "8", "--learning-rate", "1e-2", "--rank", "8"]
    words = ["--task", str(problems), "--engine", "vllm", "--output", str(tmp_path / "out")]
    assert main(["warm", str(base), *words, *sizes, *training]) == 0
    result = json.loads((tmp_path / "out" / "warm" / "warm.json").read_text())
    assert result["engine"] == "vllm"
    assert result["examples"]["drafts"] >= 8
    assert result["stages"]["after"]["well_formed"] > result["stages"]["before, new dialect"]["well_formed"]
