"""What vLLM is started with; needs no vLLM."""

import os
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from agon.engines.options import VllmOptions
from agon.engines.vllm_engine import (
    SMALLEST_UTILIZATION,
    capture_sizes,
    environment_of_child,
    own_card,
    settings,
)
from agon.errors import InputError


def test_every_step_on_a_gpu_has_a_graph() -> None:
    options = VllmOptions(max_num_seqs=300, max_num_batched_tokens=1500)
    chosen = settings(options, rank=16, cuda=True)
    sizes = chosen["compilation_config"]["cudagraph_capture_sizes"]
    assert chosen["max_num_batched_tokens"] == sizes[-1] == 1500


@pytest.mark.parametrize("largest", [1, 3, 100, 512, 2048, 16384])
def test_captured_sizes_grow_by_a_quarter_at_most(largest: int) -> None:
    sizes = capture_sizes(largest)
    assert sizes == sorted(set(sizes))
    assert (sizes[0], sizes[-1]) == (1, largest)
    assert all(later - size <= max(4, size / 4) for size, later in pairwise(sizes))
    assert len(sizes) < 50


def test_without_graphs_none_are_captured_and_a_cpu_has_none() -> None:
    assert "compilation_config" not in settings(VllmOptions(enforce_eager=True), 16, cuda=True)
    assert (
        not {"compilation_config", "max_num_batched_tokens"} & settings(VllmOptions(), 16, cuda=False).keys()
    )


def test_prompts_are_never_split_on_a_cpu_unless_asked_for() -> None:
    """vLLM cannot continue a seeded request whose prompt it has split there."""
    assert settings(VllmOptions(), 16, cuda=False)["enable_chunked_prefill"] is False
    assert "enable_chunked_prefill" not in settings(VllmOptions(), 16, cuda=True)
    asked = VllmOptions(extra={"enable_chunked_prefill": True})
    assert settings(asked, 16, cuda=False)["enable_chunked_prefill"] is True


def test_a_cache_size_in_bytes_asks_for_almost_no_share_of_the_gpu() -> None:
    """vLLM refuses to start if its share of the GPU is not free, even when the cache's size is given."""
    given = settings(VllmOptions(kv_cache_bytes=4 * 10**9), 16, cuda=True)
    assert (given["kv_cache_memory_bytes"], given["gpu_memory_utilization"]) == (
        4 * 10**9,
        SMALLEST_UTILIZATION,
    )
    usual = settings(VllmOptions(gpu_memory_utilization=0.4), 16, cuda=True)
    assert (usual["kv_cache_memory_bytes"], usual["gpu_memory_utilization"]) == (None, 0.4)


def test_the_model_has_its_own_process_on_a_gpu_unless_set_otherwise() -> None:
    def backend(asked: bool | None, cuda: bool) -> str | None:
        return settings(VllmOptions(worker_process=asked), 16, cuda).get("distributed_executor_backend")

    assert [backend(None, cuda) for cuda in (True, False)] == ["mp", None]
    assert [backend(True, cuda) for cuda in (True, False)] == ["mp", "mp"]
    assert [backend(False, cuda) for cuda in (True, False)] == [None, None]


def test_extra_options_are_passed_to_vllm_as_they_are() -> None:
    chosen = settings(VllmOptions(extra={"seed": 7, "max_num_seqs": 3}), 16, cuda=True)
    assert (chosen["seed"], chosen["max_num_seqs"]) == (7, 3)


@pytest.mark.parametrize("name", ["max_num_seqs", "max_num_batched_tokens", "stride"])
def test_a_count_of_zero_is_refused(name: str) -> None:
    """With a stride of zero, for example, the engine would never return anything."""
    zero: dict[str, Any] = {name: 0}
    with pytest.raises(InputError, match=f"{name} must be at least 1, not 0"):
        replace(VllmOptions(), **zero)


def test_an_engine_beside_other_training_processes_has_its_model_in_a_child() -> None:
    assert "distributed_executor_backend" not in settings(VllmOptions(), rank=16, cuda=False)
    assert settings(VllmOptions(), 16, False, in_a_group=True)["distributed_executor_backend"] == "mp"


def test_the_child_sees_its_trainers_card_and_nothing_of_the_launcher(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    launcher = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4", "MASTER_ADDR": "a", "MASTER_PORT": "29500"}
    for name, value in {**launcher, "TORCHELASTIC_USE_AGENT_STORE": "True", "KEPT": "yes"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("VLLM_WORKER_MULTIPROC_METHOD", raising=False)
    before = dict(os.environ)
    with environment_of_child(in_a_group=True):
        inside = dict(os.environ)
    assert not {*launcher, "TORCHELASTIC_USE_AGENT_STORE"} & set(inside)
    assert inside["KEPT"] == "yes"
    assert inside["VLLM_WORKER_MULTIPROC_METHOD"] == "spawn"  # a fork would begin with the trainer's group
    assert dict(os.environ) == before


@pytest.mark.parametrize(
    ("visible", "index", "card"),
    [(None, 3, "3"), ("", 1, "1"), ("4,5,6", 1, "5"), ("GPU-a, GPU-b", 1, "GPU-b")],
)
def test_a_card_is_found_among_those_that_are_visible(visible: str | None, index: int, card: str) -> None:
    assert own_card(visible, index) == card
