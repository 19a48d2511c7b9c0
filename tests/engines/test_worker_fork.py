"""When `agon train` lets a second process import vLLM beside it (the fork itself: tests/vllm/test_worker.py)."""

from typing import Any

import pytest

from agon.commands.train import _prepare_worker
from agon.engines import worker_fork


@pytest.mark.parametrize(
    ("options", "gpu", "processes", "wanted"),
    [
        ({"engine": "vllm"}, True, 1, True),
        ({"use_vllm": True, "vllm_mode": "colocate"}, True, 1, True),
        ({"engine": "vllm"}, False, 1, False),
        ({"engine": "vllm", "vllm_worker_process": True}, False, 1, True),
        ({"engine": "vllm", "vllm_worker_process": False}, True, 1, False),
        ({"engine": "vllm"}, True, 2, False),
        ({"engine": "vllm-server"}, True, 1, False),
        ({"engine": "transformers"}, True, 1, False),
        ({}, True, 1, False),
    ],
)
def test_it_is_prepared_where_vllm_will_have_a_child_of_its_own(
    options: dict[str, Any], gpu: bool, processes: int, wanted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = []
    monkeypatch.setattr(worker_fork, "has_gpu", lambda: gpu)
    monkeypatch.setattr(worker_fork, "prepare", lambda: prepared.append(True))
    monkeypatch.setenv("WORLD_SIZE", str(processes))
    _prepare_worker(options)
    assert bool(prepared) is wanted


def test_without_it_vllm_starts_its_worker_as_ever() -> None:
    with worker_fork.forked_worker():  # nothing is asked of vLLM, which need not be installed
        pass
