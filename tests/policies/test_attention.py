"""Our own attention: one new token of every row, its heads asking together, gets what `sdpa` gives."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from transformers import AttentionInterface

from agon.policies.attention import attention, use_own_attention, without_masks
from tests import tiny


@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama"])
@pytest.mark.parametrize("padding", [0, 3])
def test_a_new_token_is_scored_as_by_sdpa(kind: str, padding: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.model(kind).eval()
    ids = torch.randint(5, 60, (3, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, :padding] = 0
    positions = (mask.cumsum(1) - 1).clamp(min=0)

    def last_token() -> torch.Tensor:
        with torch.inference_mode():
            begun = model(input_ids=ids[:, :-1], attention_mask=mask[:, :-1], position_ids=positions[:, :-1])
            logits: torch.Tensor = model(
                input_ids=ids[:, -1:],
                attention_mask=mask,
                position_ids=positions[:, -1:],
                past_key_values=begun.past_key_values,
            ).logits
        return logits

    expected = last_token()
    asked: list[int] = []

    def watched(module: torch.nn.Module, query: torch.Tensor, *rest: object, **named: object) -> object:
        asked.append(query.shape[2])
        return attention(module, query, *rest, **named)  # type: ignore[arg-type]

    assert use_own_attention(model)
    monkeypatch.setitem(AttentionInterface._global_mapping, "agon", watched)
    torch.testing.assert_close(last_token(), expected, rtol=1e-5, atol=1e-5)
    assert set(asked) == {8, 1}


def test_query_heads_that_share_keys_ask_for_their_own() -> None:
    """Four heads over two of keys: heads 0 and 1 ask the first, 2 and 3 the second."""

    class Layer(torch.nn.Module):
        num_key_value_groups = 2

    generator = torch.Generator().manual_seed(0)
    query = torch.randn(2, 4, 1, 6, generator=generator)
    key, value = (torch.randn(2, 2, 5, 6, generator=generator) for _ in range(2))
    found, _ = attention(Layer().eval(), query, key, value, None, scaling=0.3)
    weights = (query @ key.repeat_interleave(2, 1).transpose(2, 3) * 0.3).softmax(-1)
    torch.testing.assert_close(found, (weights @ value.repeat_interleave(2, 1)).transpose(1, 2))


def test_a_line_in_one_thread_leaves_the_masks_of_another_alone() -> None:
    """A round may be sampled from a copy of the base while another trains."""
    model = tiny.model("qwen3").eval()
    assert use_own_attention(model)
    ids = torch.randint(5, 60, (2, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, :4] = 0

    @torch.inference_mode()
    def logits() -> torch.Tensor:
        found: torch.Tensor = model(input_ids=ids, attention_mask=mask).logits
        return found

    expected = logits()
    with without_masks(), ThreadPoolExecutor(1) as other:
        assert not torch.equal(logits(), expected)
        assert torch.equal(other.submit(logits).result(), expected)
