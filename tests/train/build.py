"""A small trainer for tests: the tiny task, a random model, four problems a step."""

from pathlib import Path
from typing import Any

import pytest
from transformers import PrinterCallback

from agon.train.config import AgonConfig
from agon.train.trainer import AgonTrainer
from tests import tiny

OPTIONS: dict[str, Any] = {
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 4,
    "num_generations": 8,
    "max_completion_length": 10,
    "max_steps": 2,
    "learning_rate": 1e-2,
    "lr_scheduler_type": "constant",
    "warmup_steps": 0,
    "gradient_checkpointing": False,
    "save_strategy": "no",
    "dialect": "boxed",
    "use_cpu": True,
    "judge_workers": 1,
    "seed": 1,
}


def config(folder: Path, **options: Any) -> AgonConfig:
    return AgonConfig(output_dir=str(folder), **{**OPTIONS, **options})


def trainer(folder: Path, kind: str = "qwen3", **options: Any) -> AgonTrainer:
    made = AgonTrainer(
        tiny.model(kind), tiny.task(), config(folder, **options), processing_class=tiny.tokenizer()
    )
    made.remove_callback(PrinterCallback)
    return made


def lay_lines(monkeypatch: pytest.MonkeyPatch, wanted: bool) -> None:
    """Lay all rows in lines from now on, however short, or none."""
    shortest = 0 if wanted else 10**9
    monkeypatch.setattr("agon.train.packing.LONG_ROWS", shortest)
    monkeypatch.setattr("agon.train.packing.FULL_LINE", {"cpu": shortest})
