"""The pair: two adapters over one base, and nothing frozen by accident."""

from pathlib import Path

import pytest
import torch
from peft import PeftModel
from safetensors.torch import load_file

from agon.errors import InputError
from agon.policies import Adapters, Pair, target_modules
from tests import tiny

IDS = torch.arange(4, 20)[None]


def logits(pair: Pair, policy: str) -> torch.Tensor:
    with pair.using(policy), torch.no_grad():
        return pair.model(input_ids=IDS).logits


def test_a_starts_as_the_base_and_b_close_to_it() -> None:
    pair = Pair.create(tiny.model(), Adapters(noise=0.05))
    base = logits(pair, "base")
    assert torch.equal(logits(pair, "A"), base)
    assert not torch.equal(logits(pair, "B"), base)
    without_noise = Pair.create(tiny.model(), Adapters(noise=0.0))
    assert torch.equal(logits(without_noise, "B"), logits(without_noise, "base"))


def test_a_is_the_same_with_and_without_a_rival() -> None:
    alone, paired = Pair.create(tiny.model(), policies=1), Pair.create(tiny.model(), policies=2)
    assert alone.names == ("A",)
    assert alone.fingerprint("A") == paired.fingerprint("A")


def test_both_adapters_stay_trainable_whichever_is_active() -> None:
    pair = Pair.create(tiny.model())

    def trainable() -> bool:
        return all(weight.requires_grad for name in "AB" for _, weight in pair.weights(name))

    for policy in ("B", "A", "base"):
        with pair.using(policy):
            pass
        assert trainable()
    pair.activate("B")
    assert trainable()
    assert not any(
        weight.requires_grad for key, weight in pair.model.named_parameters() if "lora_" not in key
    )


def test_the_policy_that_was_active_before_is_active_again() -> None:
    pair = Pair.create(tiny.model(), Adapters(noise=0.05))
    pair.activate("B")
    with pair.using("A"):
        assert pair.model.active_adapter == "A"
    assert pair.model.active_adapter == "B"


def test_an_adapter_is_a_plain_peft_folder(tmp_path: Path) -> None:
    pair = Pair.create(tiny.model(), Adapters(noise=0.05))
    pair.save(tmp_path)
    assert {path.name for path in (tmp_path / "B").iterdir()} == {
        "adapter_config.json",
        "adapter_model.safetensors",
    }
    loaded = PeftModel.from_pretrained(tiny.model(), str(tmp_path / "B")).eval()
    with torch.no_grad():
        assert torch.equal(loaded(input_ids=IDS).logits, logits(pair, "B"))
    again = Pair.load(tiny.model(), tmp_path)
    assert [again.fingerprint(name) for name in "AB"] == [pair.fingerprint(name) for name in "AB"]


def test_weights_are_overwritten_in_place(tmp_path: Path) -> None:
    saved, other = (Pair.create(tiny.model(), Adapters(seed=seed, noise=0.05)) for seed in (0, 1))
    saved.save(tmp_path)
    kept = [weight for _, weight in other.weights("B")]
    other.load_weights(tmp_path)
    assert other.fingerprint("B") == saved.fingerprint("B")
    assert all(one is weight for one, (_, weight) in zip(kept, other.weights("B"), strict=True))


def test_a_fingerprint_changes_with_one_weight() -> None:
    pair = Pair.create(tiny.model())
    before = {name: pair.fingerprint(name) for name in ("A", "B", "base")}
    with torch.no_grad():
        pair.weights("B")[0][1].view(-1)[0] += 1e-3
    after = {name: pair.fingerprint(name) for name in ("A", "B", "base")}
    assert [name for name in before if before[name] != after[name]] == ["B"]


def test_distance_is_that_of_the_weight_updates() -> None:
    pair = Pair.create(tiny.model(), Adapters(noise=0.05))
    assert pair.distance() == pytest.approx(1.0)  # A has not moved at all
    with torch.no_grad():
        for (_, one), (_, other) in zip(pair.weights("A"), pair.weights("B"), strict=True):
            one.copy_(other)
    assert pair.distance() == pytest.approx(0.0, abs=1e-3)


def test_a_folder_without_adapters_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No adapters in"):
        Pair.load(tiny.model(), tmp_path)


def test_an_unknown_architecture_is_refused_with_the_known_ones() -> None:
    class Unknown:
        model_type = "mamba9"

    with pytest.raises(InputError, match=r"'mamba9' \(known: llama, qwen2"):
        target_modules(Unknown())


@pytest.mark.parametrize(
    ("kind", "layers"),
    [("qwen3", 14), ("qwen2", 14), ("llama", 14), ("gemma4", 14), ("qwen3_5", 15)],
)
def test_every_projection_of_an_architecture_is_adapted(kind: str, layers: int) -> None:
    pair = Pair.create(tiny.model(kind), policies=1)
    adapted = {key.split(".lora_")[0] for key, _ in pair.weights("A")}
    assert len(adapted) == layers
    if kind == "qwen3_5":  # one delta-net layer: five projections of its own and the three of the MLP
        assert sum("linear_attn" in name for name in adapted) == 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_exported_policy_has_the_bases_precision(tmp_path: Path, dtype: torch.dtype) -> None:
    base = tiny.model("qwen3")
    base.to(dtype=dtype)  # type: ignore[call-arg]
    pair = Pair.create(base, Adapters(rank=4, noise=0.1))
    pair.save_one("B", tmp_path / "saved")
    pair.export("B", tmp_path / "exported")
    saved = load_file(tmp_path / "saved" / "adapter_model.safetensors")
    exported = load_file(tmp_path / "exported" / "adapter_model.safetensors")
    assert saved.keys() == exported.keys()
    for key, weight in saved.items():
        assert exported[key].dtype is dtype
        torch.testing.assert_close(exported[key], weight.to(dtype), rtol=0, atol=0)
    assert Pair.load(tiny.model("qwen3"), _under(tmp_path, "exported", "A")).names == ("A",)


def _under(folder: Path, name: str, policy: str) -> Path:
    """A folder in which that PEFT folder has a policy's name."""
    (folder / "pair").mkdir()
    (folder / name).rename(folder / "pair" / policy)
    return folder / "pair"
