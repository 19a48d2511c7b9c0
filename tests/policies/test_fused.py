"""Adapted layers and norms in one function each: PEFT's and transformers' own steps are the oracle."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch import nn

from agon.policies import Pair
from agon.policies.fused import _Adapted
from tests import tiny

IDS = torch.randint(5, 60, (5, 7), generator=torch.Generator().manual_seed(0))
NUMBERS = torch.tensor([[0], [1], [1], [0], [1]])
Gradients = dict[str, torch.Tensor]


def pair_of(dtype: torch.dtype = torch.float32, **changes: Any) -> Pair:
    """Two adapters of visible size that differ, over a base with biases."""
    chosen = LoraConfig(
        r=4, lora_alpha=6, target_modules=["q_proj", "o_proj", "gate_proj", "down_proj"], **changes
    )
    base = tiny.model()
    for module in base.modules():
        if isinstance(module, nn.Linear) and module is not base.lm_head:
            module.bias = nn.Parameter(
                torch.randn(module.out_features, generator=torch.Generator().manual_seed(1))
            )
    for weight in base.parameters():
        weight.data = weight.data.to(dtype)
    model = get_peft_model(base, chosen, adapter_name="A")
    model.add_adapter("B", chosen)
    pair = Pair(model, ("A", "B"))
    for number, name in enumerate("AB"):
        torch.manual_seed(number)
        with torch.no_grad():
            for _, weight in pair.weights(name):
                weight.normal_(std=0.1)
    pair.activate("A")
    return pair


def used(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows by one whenever a layer computes in one function."""
    calls: list[int] = []
    inner = _Adapted.apply

    def counted(*args: Any) -> Any:
        calls.append(1)
        return inner(*args)

    monkeypatch.setattr(_Adapted, "apply", counted)
    return calls


def passed(pair: Pair, around: Callable[[], Any] | None = None) -> tuple[torch.Tensor, Gradients]:
    """Scores, and the gradients of both adapters."""
    pair.model.zero_grad()
    if around:
        with around():
            logits = pair.model(input_ids=IDS).logits
    else:
        logits = pair.model(input_ids=IDS).logits
    logits.float().log_softmax(-1)[..., 3].sum().backward()
    found = {
        key: weight.grad.clone()
        for name in pair.names
        for key, weight in pair.weights(name)
        if weight.grad is not None
    }
    return logits.detach(), found


def assert_alike(
    one: tuple[torch.Tensor, Gradients], other: tuple[torch.Tensor, Gradients], error: float
) -> None:
    assert one[1].keys() == other[1].keys()
    joined = [torch.cat([each[1][key].flatten() for key in other[1]]) for each in (one, other)]
    for first, second in [(one[0], other[0]), joined]:
        assert float((first - second).norm() / second.norm()) < error


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("root", [False, True])
def test_gradients_are_those_of_peft(
    checkpointing: bool, root: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = pair_of(use_rslora=root)
    pair.model.train()
    if checkpointing:
        pair.model.enable_input_require_grads()
        pair.model.gradient_checkpointing_enable()
    expected = passed(pair)
    calls = used(monkeypatch)
    pair.fuse()
    found = passed(pair)
    assert calls
    assert any("lora_A.A" in key for key in found[1])
    assert not any(".B." in key for key in found[1])
    assert_alike(found, expected, 1e-6)


def test_mixed_rows_have_each_adapters_gradient(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pair_of()
    logits = torch.zeros(len(IDS), IDS.shape[1], 0)
    expected: Gradients = {}
    for number, name in enumerate("AB"):
        pair.activate(name)
        rows = NUMBERS[:, 0] == number
        pair.model.zero_grad()
        found = pair.model(input_ids=IDS[rows]).logits
        found.log_softmax(-1)[..., 3].sum().backward()
        expected |= {
            key: weight.grad.clone() for key, weight in pair.weights(name) if weight.grad is not None
        }
        if not logits.shape[2]:
            logits = torch.zeros(*IDS.shape, found.shape[2])
        logits[rows] = found.detach()
    calls = used(monkeypatch)
    pair.activate_rows(NUMBERS)
    assert_alike(passed(pair), (logits, expected), 1e-5)
    assert calls


def test_under_autocast_it_is_as_far_from_the_truth_as_peft_is() -> None:
    """A base in bfloat16 with adapters in float32, as a GPU trains them."""
    truth = passed(pair_of())
    pair = pair_of(torch.bfloat16)
    for name in pair.names:
        for _, weight in pair.weights(name):
            weight.data = weight.data.float()

    def autocast() -> Any:
        return torch.autocast("cpu", torch.bfloat16)

    stock = passed(pair, autocast)
    pair.fuse()
    fused = passed(pair, autocast)
    assert all(each.dtype == torch.float32 for each in fused[1].values())
    exact, ours, theirs = (
        torch.cat([each[1][key].flatten() for key in truth[1]]) for each in (truth, fused, stock)
    )
    assert (ours - exact).norm() < 1.2 * (theirs - exact).norm()


@pytest.mark.parametrize("kind", ["dropout", "precision", "disabled", "adapter names"])
def test_what_is_not_plain_goes_pefts_way(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pair_of(
        torch.bfloat16 if kind == "precision" else torch.float32, lora_dropout=0.5 * (kind == "dropout")
    )
    for _, weight in pair.weights("A"):
        weight.data = weight.data.float()
    pair.model.train()
    calls = used(monkeypatch)

    def run() -> torch.Tensor:
        torch.manual_seed(0)
        if kind == "disabled":
            with pair.model.disable_adapter():
                return pair.model(input_ids=IDS).logits
        if kind == "adapter names":
            pair.model.eval()
            return pair.model(input_ids=IDS, adapter_names=["A", "B", "B", "A", "B"]).logits
        return pair.model(input_ids=IDS).logits

    with torch.no_grad():
        expected = run()
        pair.fuse()
        torch.testing.assert_close(
            run(),
            expected,
            rtol=1e-2 if kind == "precision" else 1e-5,
            atol=1e-2 if kind == "precision" else 1e-5,
        )
    assert not calls


def linear_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    calls: list[int] = []
    inner = nn.functional.linear

    def counted(*args: Any, **kwargs: Any) -> torch.Tensor:
        calls.append(1)
        return inner(*args, **kwargs)

    monkeypatch.setattr(nn.functional, "linear", counted)
    return calls


@pytest.mark.parametrize("policy", ["A", "B", "base"])
def test_sampling_has_base_and_adapter_in_one_matrix(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pair_of()
    pair.model.eval()
    before = pair.fingerprint("base")
    calls = linear_calls(monkeypatch)
    with torch.no_grad():
        with pair.using(policy):
            expected = pair.model(input_ids=IDS).logits
        apart = len(calls)
        with pair.sampling_as(policy):
            found = pair.model(input_ids=IDS).logits
        together = len(calls) - apart
        with pair.using(policy):
            assert torch.equal(pair.model(input_ids=IDS).logits, expected)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    layers = sum(1 for key, _ in pair.weights("A") if "lora_A" in key)
    assert apart - together == (0 if policy == "base" else 2 * layers)
    assert pair.fingerprint("base") == before


@pytest.mark.parametrize("kind", ["half precision", "large", "with gradients"])
def test_what_would_lose_something_keeps_two_matrices(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pair = pair_of(torch.bfloat16 if kind == "half precision" else torch.float32)
    if kind == "large":
        monkeypatch.setattr("agon.policies.fused.MOST_FOLDED", 100)
    calls = linear_calls(monkeypatch)
    sizes: list[int] = []
    for around in (pair.using, pair.sampling_as):
        with around("A"), torch.set_grad_enabled(kind == "with gradients"):
            pair.model(input_ids=IDS)
        sizes.append(len(calls) - sum(sizes))
    assert sizes[0] == sizes[1]
