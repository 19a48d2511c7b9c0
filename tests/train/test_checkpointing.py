"""Gradient checkpointing that nobody has decided on follows the plan's arithmetic; what is said, stands."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from agon.planning.architectures import MODELS
from agon.planning.card_fit import MARGIN, fit
from agon.planning.estimate import GIB, GPUS, Workload, memory
from agon.train.checkpointing import choose_checkpointing
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
    found = choose_checkpointing(args, tiny.model().config)
    assert found is not None
    assert args.gradient_checkpointing is False


@pytest.mark.parametrize("said", [True, False])
def test_what_was_said_stands(tmp_path: Path, said: bool) -> None:
    args = config(tmp_path, gradient_checkpointing=said)
    assert choose_checkpointing(args, tiny.model().config) is None
    assert args.gradient_checkpointing is said


def test_a_model_that_cannot_be_planned_keeps_it_on(tmp_path: Path) -> None:
    args = config(tmp_path, gradient_checkpointing=None)
    assert choose_checkpointing(args, SimpleNamespace(to_dict=dict)) is None
    assert args.gradient_checkpointing is True
