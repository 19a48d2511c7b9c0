"""Rows of both policies in one pass: each as under its own adapter, with PEFT's own mixed inference as witness."""

import pytest
import torch
from peft import LoraConfig, get_peft_model

from agon.errors import InputError
from agon.policies import Pair
from tests import tiny

IDS = torch.randint(5, 60, (5, 7), generator=torch.Generator().manual_seed(0))
POLICIES = ["A", "B", "B", "A", "B"]
NUMBERS = torch.tensor([["AB".index(name)] for name in POLICIES])


def pair_of(**changes: object) -> Pair:
    """Two adapters of visible size that differ."""
    chosen = LoraConfig(r=4, lora_alpha=6, target_modules=["q_proj", "down_proj"], **changes)
    model = get_peft_model(tiny.model(), chosen, adapter_name="A")
    model.add_adapter("B", chosen)
    pair = Pair(model, ("A", "B"))
    for number, name in enumerate("AB"):
        torch.manual_seed(number)
        with torch.no_grad():
            for _, weight in pair.weights(name):
                weight.normal_(std=0.1)
    return pair


@pytest.mark.parametrize("root", [False, True])
def test_mixed_rows_are_those_of_peft_itself(root: bool) -> None:
    pair = pair_of(use_rslora=root)
    pair.model.eval()
    with torch.no_grad():
        expected = pair.model(input_ids=IDS, adapter_names=POLICIES).logits
        pair.activate_rows(NUMBERS)
        torch.testing.assert_close(pair.model(input_ids=IDS).logits, expected, rtol=1e-5, atol=1e-5)


def test_the_mix_ends_when_a_policy_is_activated() -> None:
    pair = pair_of()
    pair.model.eval()
    with torch.no_grad():
        pair.activate("A")
        before = pair.model(input_ids=IDS).logits
        pair.activate_rows(NUMBERS)
        assert not torch.equal(pair.model(input_ids=IDS).logits, before)
        with pair.using("A"):
            assert torch.equal(pair.model(input_ids=IDS).logits, before)


def test_dropout_falls_on_mixed_rows_too() -> None:
    pair = pair_of(lora_dropout=0.5)
    pair.model.train()
    pair.activate_rows(NUMBERS)
    torch.manual_seed(0)
    first, second = (pair.model(input_ids=IDS).logits for _ in range(2))
    assert not torch.equal(first, second)


def test_adapters_that_are_not_plain_are_refused() -> None:
    with pytest.raises(InputError, match="plain LoRA"):
        pair_of(use_dora=True).activate_rows(NUMBERS)
