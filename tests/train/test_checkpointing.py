"""What nobody has decided on follows the plan's arithmetic for the card; what is said, stands."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from agon.errors import InputError
from agon.planning.architectures import LINE_KINDS, MODELS
from agon.planning.card_fit import LINES, MARGIN, SHARED_BY, fit
from agon.planning.estimate import GIB, GPUS, Workload, activations, memory
from agon.policies.attention import FAMILIES
from agon.train import checkpointing
from agon.train.checkpointing import choose_for_card, memory_there, sizes_for
from tests import tiny
from tests.train.build import config

SMALL = MODELS["Qwen/Qwen2.5-0.5B-Instruct"]
WORK = Workload(problems=1000, per_device_train_batch_size=32, max_completion_length=512, engine="vllm")


def test_it_is_off_on_a_large_card_and_on_on_a_small_one() -> None:
    large, small = (fit(SMALL, WORK, int(GPUS[name].memory * GIB)) for name in ("H200", "L4"))
    assert (large.checkpointing, small.checkpointing) == (False, True)
    assert "is off" in str(large)
    assert "is on" in str(small)


def test_what_is_chosen_fits_with_a_margin_and_a_vllm_engine_beside_it() -> None:
    work = replace(WORK, vllm_kv_cache_bytes=8 * GIB)
    needed = memory(SMALL, replace(work, gradient_checkpointing=False)).peak
    needed += 8 * GIB + SMALL.parameters * work.width
    assert fit(SMALL, work, int(needed / MARGIN) - GIB).checkpointing
    assert not fit(SMALL, work, int(needed / MARGIN) + GIB).checkpointing


def test_a_configuration_that_left_it_open_gets_it_off_for_a_tiny_model(tmp_path: Path) -> None:
    args = config(tmp_path, gradient_checkpointing=None)
    found = choose_for_card(args, tiny.model().config)
    assert found is not None
    assert args.gradient_checkpointing is False


@pytest.mark.parametrize("said", [True, False])
def test_what_was_said_stands(tmp_path: Path, said: bool) -> None:
    args = config(tmp_path, gradient_checkpointing=said)
    assert choose_for_card(args, tiny.model().config) is None
    assert args.gradient_checkpointing is said


def test_a_model_that_cannot_be_planned_keeps_it_on(tmp_path: Path) -> None:
    args = config(tmp_path, gradient_checkpointing=None)
    assert choose_for_card(args, SimpleNamespace(to_dict=dict)) is None
    assert args.gradient_checkpointing is True


def test_a_large_card_takes_long_lines_and_a_smaller_one_shorter_ones_before_it_checkpoints() -> None:
    chosen = [
        fit(SMALL, WORK, int(GPUS[name].memory * GIB), sizes=LINES) for name in ("H200", "A100-80", "A100-40")
    ]
    assert [(each.checkpointing, each.tokens) for each in chosen] == [
        (False, 32_768),
        (False, 16_384),
        (False, 8192),
    ]
    assert "up to 32768 tokens" in str(chosen[0])
    assert "micro_batch_tokens" in str(chosen[0])


def test_rows_that_do_not_fit_in_any_line_are_checkpointed_in_long_ones() -> None:
    long = replace(WORK, max_completion_length=15_000)
    found = fit(MODELS["Qwen/Qwen3-4B"], long, int(GPUS["H200"].memory * GIB), sizes=LINES)
    assert (found.checkpointing, found.tokens) == (True, 32_768)


def test_checkpointing_that_was_said_leaves_the_tokens_open() -> None:
    there = int(GPUS["H200"].memory * GIB)
    assert fit(SMALL, WORK, there, checkpointing=True, sizes=LINES).checkpointing
    found = fit(SMALL, WORK, 4 * GIB, checkpointing=False, sizes=LINES)
    assert (found.checkpointing, found.tokens) == (
        False,
        LINES[-1],
    )  # does not fit: the least, as it was said


def test_a_line_is_planned_by_its_tokens_and_a_longer_row_by_its_own() -> None:
    line = replace(WORK, padding_free=True, micro_batch_tokens=4096, gradient_checkpointing=False)
    longer = replace(line, max_completion_length=8192)
    assert activations(SMALL, longer) / activations(SMALL, line) == pytest.approx(
        longer.length / 4096, rel=1e-3
    )
    # 51.4 GB were allocated at the peak of passes of 32,768 tokens (docs/results/step-h200.jsonl).
    planned = memory(SMALL, replace(line, micro_batch_tokens=32_768)).training_peak
    assert planned == pytest.approx(51.4e9, rel=0.03)


def test_models_in_lines_are_those_whose_attention_is_ours() -> None:
    assert LINE_KINDS == FAMILIES
    assert not MODELS["Qwen/Qwen3.5-2B"].in_lines


@pytest.mark.parametrize(
    ("options", "open_sizes"),
    [
        ({}, LINES),
        ({"micro_batch_tokens": 2048}, ()),
        ({"padding_free": False}, ()),
        ({"loss_type": "bnpo"}, ()),
        ({"method": "coop-pooled"}, ()),
    ],
)
def test_tokens_are_chosen_where_nothing_speaks_against_it(
    tmp_path: Path, options: dict[str, object], open_sizes: tuple[int, ...]
) -> None:
    assert sizes_for(config(tmp_path, **options), 1) == open_sizes


def test_several_processes_keep_rows(tmp_path: Path) -> None:
    assert sizes_for(config(tmp_path), 2) == ()


def test_a_gpu_chooses_the_tokens_of_a_micro_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpointing, "one_kernel", lambda device, dtype: True)
    monkeypatch.setattr(checkpointing, "memory_there", lambda config: 64 * GIB)
    args = config(tmp_path, gradient_checkpointing=False)
    found = choose_for_card(args, tiny.model().config)
    assert found is not None
    assert args.micro_batch_tokens == found.tokens == LINES[0]


def test_a_cpu_keeps_micro_batches_of_rows(tmp_path: Path) -> None:
    args = config(tmp_path, gradient_checkpointing=None)
    choose_for_card(args, tiny.model().config)
    assert args.micro_batch_tokens is None


def test_trainings_that_share_a_card_plan_for_their_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    free, whole = 120 * GIB, 140 * GIB
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free, whole))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: GIB)
    args: Any = SimpleNamespace(device=torch.device("cuda"), gradient_checkpointing=None)
    assert memory_there(args) == free + GIB
    monkeypatch.setenv(SHARED_BY, "5")
    assert memory_there(args) == whole // 5
    for wrong in ("0", "many", ""):
        monkeypatch.setenv(SHARED_BY, wrong)
        with pytest.raises(InputError, match="must be a positive whole number"):
            choose_for_card(args, tiny.model().config)
