"""What engines outside the trainer are given: fresh folders that PEFT can load."""

from pathlib import Path

import pytest
import torch
from peft import PeftModel
from transformers import PreTrainedModel

from agon.engines.editions import Shelf, check_request, largest_rank
from agon.engines.protocol import Request, Sampling
from agon.errors import InputError
from agon.policies import Adapters, Pair
from tests import tiny


@pytest.fixture
def pair() -> Pair:
    return Pair.create(tiny.model(), Adapters(rank=4, noise=0.1))


def logits(model: PreTrainedModel | PeftModel) -> torch.Tensor:
    with torch.inference_mode():
        return model(input_ids=torch.tensor([[3, 7, 9]])).logits


def test_an_edition_holds_the_policys_present_weights(pair: Pair, tmp_path: Path) -> None:
    shelf = Shelf(pair, tmp_path)
    edition = shelf.publish("B", 3)
    loaded = PeftModel.from_pretrained(tiny.model(), edition.path)
    with pair.speaking("B"):
        expected = logits(pair.model)
    assert torch.equal(logits(loaded), expected)
    assert not torch.equal(expected, logits(tiny.model()))


def test_the_base_as_an_adapter_changes_nothing(pair: Pair, tmp_path: Path) -> None:
    shelf = Shelf(pair, tmp_path)
    edition = shelf.publish_base()
    assert edition.policy == "base"
    assert torch.equal(logits(PeftModel.from_pretrained(tiny.model(), edition.path)), logits(tiny.model()))


def test_no_two_editions_share_a_name_a_number_or_a_path(pair: Pair, tmp_path: Path) -> None:
    # The same version twice as well: an evaluation may sync weights that were loaded from a checkpoint.
    shelves = [Shelf(pair, tmp_path), Shelf(pair, tmp_path)]
    editions = [shelf.publish(policy, 0) for shelf in shelves for policy in ("A", "B", "A")]
    assert len({edition.name for edition in editions}) == 6
    assert len({edition.path for edition in editions}) == 6
    assert [edition.number for edition in editions[:3]] == [1, 2, 3]
    assert shelves[0].owns(editions[0].name)
    assert not shelves[0].owns(editions[-1].name)


def test_a_closed_shelf_leaves_nothing_behind(pair: Pair, tmp_path: Path) -> None:
    shelf = Shelf(pair, tmp_path / "made")
    shelf.withdraw(shelf.publish("A", 0))
    kept = shelf.publish("A", 1)
    assert [path.name for path in (tmp_path / "made").glob("*/*")] == [kept.name]
    shelf.close()
    assert list((tmp_path / "made").iterdir()) == []


def test_requests_that_an_engine_cannot_answer_are_refused(pair: Pair) -> None:
    def request(
        policy: str = "A", version: int = 2, prompt: tuple[int, ...] = (1, 2), room: int = 8
    ) -> Request:
        return Request("key", prompt, policy, version, Sampling(room), 0)

    held = {"A": 2, "base": 0}
    check_request(request(), held, max_model_len=10)
    for wrong, reason in (
        (request(version=1), "'A' is at version 2 in this engine, but version 1"),
        (request(policy="B"), "'B' was never synced"),
        (request(prompt=()), "empty prompt"),
        (request(room=9), "set it to at least 11"),
    ):
        with pytest.raises(InputError, match=reason):
            check_request(wrong, held, max_model_len=10)


def test_the_largest_rank_is_that_of_the_adapters(pair: Pair) -> None:
    assert largest_rank(pair) == 4
