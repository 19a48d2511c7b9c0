"""Where pairs of a trained and a fresh adapter start: scripts/gpu/second_model/start_d.py."""

import runpy
from pathlib import Path

import pytest
from safetensors.torch import load_file
from transformers import Qwen3ForCausalLM

from agon.policies import Pair
from tests.evaluate.tiny import save_base, save_problems, save_run

SCRIPT = Path(__file__).parents[2] / "scripts" / "gpu" / "second_model" / "start_d.py"


def test_a_is_the_trained_adapter_and_b_a_fresh_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base, problems = save_base(tmp_path / "base"), save_problems(tmp_path / "bits.jsonl")
    run, folder = save_run(tmp_path / "grpo", base, problems, "grpo", seed=5), tmp_path / "start"
    trained = run / "adapters" / "A" / "adapter_model.safetensors"
    monkeypatch.setattr("sys.argv", [str(SCRIPT), str(run), str(folder)])
    runpy.run_path(str(SCRIPT), run_name="__main__")
    expected, found = load_file(trained), load_file(folder / "A" / trained.name)
    assert found.keys() == expected.keys()
    assert all(found[key].equal(expected[key]) for key in expected)
    pair = Pair.load(Qwen3ForCausalLM.from_pretrained(base), folder)
    assert pair.names == ("A", "B")
    assert all(weight.abs().max() < 0.01 for key, weight in pair.weights("B") if "lora_B" in key)
