"""Rows in one line without padding score as padded rows do, and where a model could not, they stay padded."""

from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel
from trl.trainer.utils import add_fused_lm_head

from agon.policies.attention import ATTENTION, use_own_attention
from agon.train.packing import Line, packed_logps
from tests import tiny
from tests.train.build import trainer

PROMPTS, COMPLETIONS = (3, 1, 6, 2), (5, 7, 1, 0)


def padded_rows() -> tuple[torch.Tensor, torch.Tensor, int]:
    """Prompts padded on the left, completions on the right; the last row has no completion."""
    prompt, completion = max(PROMPTS), max(COMPLETIONS)
    ids = torch.randint(5, 60, (4, prompt + completion), generator=torch.Generator().manual_seed(0))
    columns = torch.arange(prompt + completion)
    starts = torch.tensor([prompt - length for length in PROMPTS])[:, None]
    ends = torch.tensor([prompt + length for length in COMPLETIONS])[:, None]
    return ids, ((columns >= starts) & (columns < ends)).long(), completion


def padded_logps(
    model: PreTrainedModel, ids: torch.Tensor, mask: torch.Tensor, completion: int
) -> torch.Tensor:
    positions = (mask.cumsum(1) - 1).clamp(min=0)
    logits = model(input_ids=ids, attention_mask=mask, position_ids=positions).logits[:, :-1]
    logps = logits.log_softmax(-1).gather(-1, ids[:, 1:, None])[..., 0]
    return logps[:, -completion:]


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama"])
def test_packed_rows_have_the_log_probs_and_gradients_of_padded_ones(kind: str, checkpointing: bool) -> None:
    model = tiny.model(kind).train()
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    ids, mask, completion = padded_rows()
    expected = padded_logps(model, ids, mask, completion)
    scored = mask[:, -completion:].bool()
    expected[scored].square().sum().backward()
    gradients = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    model.zero_grad()

    assert use_own_attention(model)
    add_fused_lm_head(model, outputs=("log_probs", "entropy"))
    found, entropy = packed_logps(model, Line.of(ids, mask, completion))
    assert entropy is not None
    assert entropy.shape == found.shape == expected.shape
    torch.testing.assert_close(found[scored], expected[scored], rtol=1e-5, atol=1e-5)
    found[scored].square().sum().backward()
    for name, weight in model.named_parameters():
        assert (weight.grad - gradients[name]).norm() <= 1e-5 * gradients[name].norm()


def test_a_row_does_not_see_the_rows_before_it() -> None:
    model = tiny.model("qwen3").eval()
    assert use_own_attention(model)
    add_fused_lm_head(model)
    ids, mask, completion = padded_rows()
    other = ids.clone()
    other[0] = other[0].flip(0)
    scored = mask[1:, -completion:].bool()
    with torch.no_grad():
        before, after = (
            packed_logps(model, Line.of(rows, mask, completion))[0][1:][scored] for rows in (ids, other)
        )
    assert torch.equal(before, after)


def test_without_a_line_the_attention_is_the_usual_one() -> None:
    ids, mask, _ = padded_rows()
    model = tiny.model("qwen3").eval()
    with torch.no_grad():
        usual = model(input_ids=ids, attention_mask=mask).logits
        assert use_own_attention(model)
        assert model.config._attn_implementation == ATTENTION
        assert torch.equal(model(input_ids=ids, attention_mask=mask).logits, usual)


@pytest.mark.parametrize("kind", ["gemma4", "qwen3_5"])
def test_models_with_windows_or_recurrent_layers_keep_their_padding(kind: str) -> None:
    assert not use_own_attention(tiny.model(kind))


def rows_of_groups() -> tuple[torch.Tensor, torch.Tensor, int]:
    """Two groups of three rows with one prompt each, and one whose prompts part in the middle."""
    generator = torch.Generator().manual_seed(1)
    whole, other, parting = (torch.randint(5, 60, (length,), generator=generator) for length in (20, 12, 30))
    prompts = (
        [whole] * 3
        + [other] * 3
        + [torch.cat([parting[:12], parting[12:].roll(number)]) for number in range(3)]
    )
    lengths = [5, 7, 1, 6, 2, 3, 4, 7, 7]
    prompt, completion = 30, 7
    ids = torch.randint(5, 60, (9, prompt + completion), generator=generator)
    mask = torch.zeros_like(ids)
    for row, (tokens, length) in enumerate(zip(prompts, lengths, strict=True)):
        ids[row, prompt - len(tokens) : prompt] = tokens
        mask[row, prompt - len(tokens) : prompt + length] = 1
    return ids, mask, completion


@pytest.mark.parametrize("filled_up", [False, True])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("kind", ["qwen2", "qwen3", "llama"])
def test_a_prompt_that_rows_share_is_computed_once(
    kind: str, checkpointing: bool, filled_up: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agon.train.packing.SHORT_ROWS", 512 if filled_up else 0)
    model = tiny.model(kind).train()
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    ids, mask, completion = rows_of_groups()
    expected = padded_logps(model, ids, mask, completion)
    scored = mask[:, -completion:].bool()
    expected[scored].square().sum().backward()
    gradients = {name: weight.grad.clone() for name, weight in model.named_parameters()}
    model.zero_grad()

    line = Line.of(ids, mask, completion)
    assert line.ids.shape[1] == int(mask.sum()) - 2 * 19 - 2 * 11 - 2 * 12
    assert use_own_attention(model)
    add_fused_lm_head(model)
    found, _ = packed_logps(model, line)
    torch.testing.assert_close(found[scored], expected[scored], rtol=1e-5, atol=1e-5)
    found[scored].square().sum().backward()
    for name, weight in model.named_parameters():
        assert (weight.grad - gradients[name]).norm() <= 1e-5 * gradients[name].norm()


def test_many_rows_that_share_nothing_need_no_mask() -> None:
    ids, mask, completion = rows_of_groups()
    line = Line.of(ids, mask, completion, torch.arange(9)[:, None])
    assert line.queries == line.keys
    assert line.square.mask is None
    model = tiny.model("qwen3").eval()
    expected = padded_logps(model, ids, mask, completion)
    assert use_own_attention(model)
    add_fused_lm_head(model)
    scored = mask[:, -completion:].bool()
    found, _ = packed_logps(model, line)
    torch.testing.assert_close(found[scored], expected[scored], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "padding_free", "lines"),
    [("qwen3", None, True), ("qwen3", False, False), ("gemma4", None, False)],
)
def test_on_a_cpu_rows_are_laid_in_lines_unless_told_otherwise(
    kind: str, padding_free: bool | None, lines: bool, tmp_path: Path
) -> None:
    made = trainer(tmp_path, kind, padding_free=padding_free)
    assert made._packs == lines
    made.close()


def test_rows_of_two_policies_share_nothing_with_each_other() -> None:
    ids, mask, completion = rows_of_groups()
    policies = torch.tensor([[0], [0], [1], [1], [1], [1], [0], [1], [1]])
    line = Line.of(ids, mask, completion, policies)
    own = [
        prompt + rest
        for prompt, rest in zip([20, 1, 20, 12, 1, 1, 30, 30, 18], [5, 7, 1, 6, 2, 3, 4, 7, 7], strict=True)
    ]
    assert list(line.queries) == own
