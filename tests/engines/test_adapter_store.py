"""What engines outside the trainer are given: new folders that PEFT can load."""

from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import PreTrainedModel

from agon.engines.adapter_store import AdapterStore, largest_rank
from agon.policies import Adapters, Pair
from tests import tiny


@pytest.fixture
def pair() -> Pair:
    return Pair.create(tiny.model(), Adapters(rank=4, noise=0.1))


def logits(model: PreTrainedModel | PeftModel) -> torch.Tensor:
    with torch.inference_mode():
        return model(input_ids=torch.tensor([[3, 7, 9]])).logits


def test_a_published_adapter_holds_the_policys_current_weights(pair: Pair, tmp_path: Path) -> None:
    store = AdapterStore(pair, tmp_path)
    adapter = store.publish("B", 3)
    loaded = PeftModel.from_pretrained(tiny.model(), adapter.path)
    with pair.using("B"):
        expected = logits(pair.model)
    assert torch.equal(logits(loaded), expected)
    assert not torch.equal(expected, logits(tiny.model()))


def test_the_base_as_an_adapter_changes_nothing(pair: Pair, tmp_path: Path) -> None:
    store = AdapterStore(pair, tmp_path)
    adapter = store.publish_base()
    assert adapter.policy == "base"
    assert torch.equal(logits(PeftModel.from_pretrained(tiny.model(), adapter.path)), logits(tiny.model()))


def test_no_two_adapters_share_a_name_an_id_or_a_path(pair: Pair, tmp_path: Path) -> None:
    # The same version twice as well: an evaluation may sync weights that were loaded from a checkpoint.
    stores = [AdapterStore(pair, tmp_path), AdapterStore(pair, tmp_path)]
    adapters = [store.publish(policy, 0) for store in stores for policy in ("A", "B", "A")]
    assert len({adapter.name for adapter in adapters}) == 6
    assert len({adapter.path for adapter in adapters}) == 6
    assert [adapter.lora_id for adapter in adapters[:3]] == [1, 2, 3]
    assert stores[0].owns(adapters[0].name)
    assert not stores[0].owns(adapters[-1].name)


def test_a_closed_store_leaves_nothing_behind(pair: Pair, tmp_path: Path) -> None:
    store = AdapterStore(pair, tmp_path / "made")
    store.remove(store.publish("A", 0))
    kept = store.publish("A", 1)
    assert [path.name for path in (tmp_path / "made").glob("*/*")] == [kept.name]
    store.close()
    assert list((tmp_path / "made").iterdir()) == []


def test_the_largest_rank_is_that_of_the_adapters(pair: Pair) -> None:
    assert largest_rank(pair) == 4
