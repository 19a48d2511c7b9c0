"""How a round's rows are laid out: sorted without bias, without padding, and to the same log-probs."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from agon.train.streams import parts_by_length, parts_in_order, score_in_parts, split_rows
from tests import tiny
from tests.train.build import trainer


def test_every_row_falls_into_one_part_and_windows_are_drawn_by_chance() -> None:
    lengths = torch.arange(64)
    torch.manual_seed(0)
    parts = split_rows(range(64), lengths, parts=8, windows=2)
    assert sorted(torch.cat(parts).tolist()) == list(range(64))
    assert {len(part) for part in parts} == {8}
    first, second = torch.cat(parts[:4]), torch.cat(parts[4:])
    # Sorted within a window, and neither window has the short rows to itself.
    assert first.tolist() == sorted(first.tolist())
    assert second.tolist() == sorted(second.tolist())
    assert min(first.min(), second.min()) < 8
    assert abs(first.float().mean() - second.float().mean()) < 16


def test_in_lines_rows_of_a_group_stay_together() -> None:
    lengths = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    parts = split_rows(range(64), lengths, parts=8, windows=1, in_lines=True)
    assert [part.tolist() for part in parts] == [list(range(start, start + 8)) for start in range(0, 64, 8)]


def test_no_rows_make_empty_parts() -> None:
    assert [len(part) for part in split_rows([], torch.zeros(0), 4, 1)] == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("options", "windows"),
    [
        ({"gradient_accumulation_steps": 4}, 1),
        ({"gradient_accumulation_steps": 2, "steps_per_generation": 4}, 2),
        ({"gradient_accumulation_steps": 4, "loss_type": "bnpo"}, 2),
        ({"gradient_accumulation_steps": 4, "method": "grpo", "loss_type": "bnpo"}, 4),
    ],
)
def test_windows_are_optimizer_steps(tmp_path: Path, options: dict[str, Any], windows: int) -> None:
    made = trainer(tmp_path, **options)
    assert made.args.windows == windows
    made.close()


def test_micro_batches_have_no_column_of_padding(tmp_path: Path) -> None:
    ours = trainer(tmp_path)
    rows = [{"index": index} for index in range(4) for _ in range(ours.args.num_generations)]
    widths = set()
    for batch in ours._play_round(rows):
        for name in ("prompt", "completion"):
            mask = batch[f"{name}_mask"]
            assert batch[f"{name}_ids"].shape == mask.shape
            if batch["weight"]:
                assert mask.any(0).all()
        widths.add((batch["prompt_mask"].shape[1], batch["completion_mask"].shape[1]))
        if "old_per_token_logps" in batch:
            assert batch["old_per_token_logps"].shape == batch["completion_mask"].shape
    assert len(widths) > 1
    ours.close()


def test_scoring_in_parts_gives_the_same_logprobs() -> None:
    torch.manual_seed(0)
    model = tiny.model()
    rows, prompt, completion = 10, 12, 9
    ids = torch.randint(5, 40, (rows, prompt + completion))
    mask = torch.ones_like(ids)
    for row in range(rows):
        mask[row, : row % 7] = 0  # prompts are padded on the left
        mask[row, prompt + 1 + row % 8 :] = 0  # completions on the right
    seen = []

    @torch.no_grad()
    def score(part: torch.Tensor, seen_mask: torch.Tensor, wanted: int) -> torch.Tensor:
        seen.append(part.shape)
        logits = model(input_ids=part, attention_mask=seen_mask).logits[:, :-1].log_softmax(-1)
        return logits.gather(-1, part[:, 1:, None])[..., 0][:, -wanted:]

    whole = score(ids, mask, completion) * mask[:, prompt:]
    seen.clear()
    parts = score_in_parts(score, ids, mask, completion, parts_by_length(mask, 4)) * mask[:, prompt:]
    torch.testing.assert_close(parts, whole, rtol=1e-4, atol=1e-5)
    assert len(seen) == math.ceil(rows / 4)
    assert sum(math.prod(shape) for shape in seen) < ids.numel()


def test_parts_in_order_hold_as_many_rows_as_so_many_tokens_take() -> None:
    lengths = torch.tensor([3, 4, 9, 1, 1, 20, 2])
    mask = (torch.arange(20) < lengths[:, None]).long()
    assert [part.tolist() for part in parts_in_order(mask, 10)] == [[0, 1], [2, 3], [4], [5], [6]]
    assert parts_in_order(mask[:0], 10) == parts_by_length(mask[:0], 2) == []
