"""Every way of spreading a run that does not work is refused with a sentence, before anything is loaded."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agon.errors import InputError
from agon.train.option_combinations import check_combinations
from agon.train.option_table import defaults
from agon.train.processes import (
    Launched,
    refuse_other_number,
    refuse_processes,
    refuse_several_gpus,
    refuse_strangers,
    sharding,
)

TWO = {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1"}
SHARDED = {"fsdp": True, "engine": "vllm"}
BY_ACCELERATE = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}


def refuse(options: dict[str, Any], environment: dict[str, str]) -> None:
    refuse_processes({**defaults(), **options}, environment)


@pytest.mark.parametrize(
    ("options", "environment", "sentence"),
    [
        ({"deepspeed": {"zero_optimization": {"stage": 3}}}, {}, "does not take deepspeed: .* use fsdp"),
        ({}, {"ACCELERATE_USE_DEEPSPEED": "true"}, "does not take deepspeed"),
        ({}, {"ACCELERATE_USE_MEGATRON_LM": "true"}, "does not take Megatron-LM"),
        ({}, {"ACCELERATE_USE_PARALLELISM_CONFIG": "true"}, "tensor or context parallelism"),
        ({"vllm_tensor_parallel_size": 2}, {}, "vllm serve MODEL --tensor-parallel-size"),
        (
            {"model_init_kwargs": {"quantization_config": {"load_in_4bit": True}}},
            {},
            "does not take quantization_config",
        ),
        ({"model_init_kwargs": {"load_in_4bit": True}}, {}, "does not take load_in_4bit"),
        ({"fsdp": True}, {}, "fsdp needs engine vllm or vllm-server"),
        ({"fsdp": "true"}, TWO, "fsdp needs engine vllm or vllm-server"),
        (
            {**SHARDED, "fsdp": "full_shard offload"},
            {},
            "fsdp must be true or false, not 'full_shard offload'",
        ),
        ({**SHARDED, "fsdp": ["full_shard"]}, {}, "fsdp must be true or false"),
        ({}, BY_ACCELERATE, "fsdp needs engine vllm or vllm-server"),
        ({**SHARDED, "fsdp_config": {"version": 1}}, {}, "must be version 2, not 1"),
        ({**SHARDED, "fsdp_config": {"fsdp_version": 1}}, {}, "must be version 2, not 1"),
        ({"engine": "vllm"}, {"ACCELERATE_USE_FSDP": "true"}, "must be version 2, not 1"),
        ({**SHARDED, "fp16": True}, {}, "fsdp does not go with fp16"),
        (
            {**SHARDED, "fsdp_config": {"cpu_ram_efficient_loading": True}},
            {},
            "does not go with cpu_ram_efficient_loading",
        ),
        (
            {"engine": "vllm"},
            {**BY_ACCELERATE, "FSDP_CPU_RAM_EFFICIENT_LOADING": "true"},
            "does not go with cpu_ram_efficient_loading",
        ),
        ({**SHARDED, "fsdp_config": {"activation_checkpointing": True}}, {}, "set gradient_checkpointing"),
        ({**SHARDED, "fsdp_config": {"cpu_offload": True}}, {}, "does not go with cpu_offload"),
        ({"engine": "vllm"}, {**BY_ACCELERATE, "FSDP_OFFLOAD_PARAMS": "true"}, "with cpu_offload"),
        ({**SHARDED, "fsdp_config": {"xla": True}}, {}, "does not go with xla"),
        ({**SHARDED, "torch_compile": True}, {}, "does not go with torch_compile"),
        ({**SHARDED, "use_liger_kernel": True}, {}, "does not go with use_liger_kernel"),
        ({**SHARDED, "fsdp_config": "nowhere.json"}, {}, "fsdp_config must be a mapping or a JSON file"),
        ({"engine": "vllm", "vllm_worker_process": False}, TWO, "vllm_worker_process must not be false"),
        (
            {"use_vllm": True, "vllm_mode": "colocate", "vllm_worker_process": False},
            TWO,
            "vllm_worker_process must not be false",
        ),
        ({"ddp_find_unused_parameters": False}, TWO, "ddp_find_unused_parameters must not be false"),
        ({"auto_find_batch_size": True}, TWO, "auto_find_batch_size must be false"),
        ({}, {"WORLD_SIZE": "two"}, "WORLD_SIZE must be a whole number, not 'two'"),
        ({}, {"WORLD_SIZE": "2", "RANK": "2"}, "RANK is 2 of WORLD_SIZE 2"),
        ({}, {"RANK": "1"}, "RANK is 1 of WORLD_SIZE 1"),
        (
            {},
            {"ACCELERATE_MIXED_PRECISION": "no", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"},
            "asked for several processes and has started one",
        ),
    ],
    ids=str,
)
def test_what_does_not_work_is_refused(
    options: dict[str, Any], environment: dict[str, str], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        refuse(options, environment)


@pytest.mark.parametrize(
    ("options", "environment"),
    [
        ({}, {}),
        ({}, TWO),
        ({"engine": "vllm"}, TWO),
        ({"engine": "vllm-server", "vllm_servers": ["http://a:1"]}, TWO),
        (SHARDED, TWO),
        ({"fsdp": "true", "engine": "vllm-server"}, TWO),
        ({"fsdp": "false"}, TWO),
        ({"engine": "vllm-server"}, {**TWO, **BY_ACCELERATE, "FSDP_CPU_RAM_EFFICIENT_LOADING": "false"}),
        ({}, {**TWO, "ACCELERATE_MIXED_PRECISION": "bf16", "MASTER_ADDR": "a", "MASTER_PORT": "1"}),
        ({}, {"ACCELERATE_MIXED_PRECISION": "no", "MASTER_ADDR": "a", "OMPI_COMM_WORLD_SIZE": "2"}),
        ({}, {"ACCELERATE_MIXED_PRECISION": "no"}),
        ({"engine": "vllm", "vllm_worker_process": False}, {}),
        ({"ddp_find_unused_parameters": False}, {}),
    ],
    ids=str,
)
def test_what_works_is_not_refused(options: dict[str, Any], environment: dict[str, str]) -> None:
    refuse(options, environment)


def test_a_plan_refuses_it_too_wherever_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="does not take deepspeed"):
        check_combinations({**defaults(), "deepspeed": {"stage": 3}})
    for name, value in TWO.items():
        monkeypatch.setenv(name, value)
    check_combinations({**defaults(), "ddp_find_unused_parameters": False})


def test_fsdp_is_version_2_unless_another_is_asked_for(tmp_path: Path) -> None:
    assert sharding({}, {}) is None
    assert sharding({"fsdp": True}, {}) == {"version": 2}
    assert sharding({"fsdp": True, "fsdp_config": {"fsdp_version": 1}}, {}) == {"version": 1}
    written = tmp_path / "fsdp.json"
    written.write_text('{"reshard_after_forward": false}')
    assert sharding({"fsdp": True, "fsdp_config": str(written)}, {}) == {
        "version": 2,
        "reshard_after_forward": False,
    }


def test_a_run_goes_on_with_as_many_processes_as_it_was_started_with() -> None:
    refuse_other_number(2, Launched(2))
    with pytest.raises(
        InputError, match=r"started with 2 processes, and this is 1: .* Start as many as before"
    ):
        refuse_other_number(2, Launched(1))
    with pytest.raises(InputError, match="started with 1 process, and this is 2"):
        refuse_other_number(1, Launched(2))


def test_processes_that_did_not_find_one_another_are_refused() -> None:
    refuse_strangers(Launched(2), 2)
    with pytest.raises(
        InputError, match=r"started 2 processes, and 1 of them found together: .* MASTER_ADDR"
    ):
        refuse_strangers(Launched(2), 1)


def test_one_process_that_sees_several_gpus_is_told_what_to_do() -> None:
    refuse_several_gpus(1, 1)
    refuse_several_gpus(8, 8)
    with pytest.raises(InputError, match=r"sees 8 GPUs .* --num_processes 8 .* CUDA_VISIBLE_DEVICES=0"):
        refuse_several_gpus(8, 1)


def test_the_command_line_refuses_it_before_torch_is_loaded(tmp_path: Path) -> None:
    """As accelerate's launcher for CPUs starts it, asked for two processes."""
    code = (
        "import sys; from agon.cli import main; code = main(['train', '--output_dir', 'run']);"
        "assert 'torch' not in sys.modules; sys.exit(code)"
    )
    launcher = {"ACCELERATE_MIXED_PRECISION": "no", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500"}
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **launcher},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert ended.stderr.startswith("agon: accelerate launch was asked for several processes")
    assert "torchrun" in ended.stderr
    assert not (tmp_path / "run").exists()
