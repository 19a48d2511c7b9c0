"""Fixtures of every test that evaluates: an arena over the tiny pair with real judges, and a run on disk."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from agon.arena import Arena
from agon.engines.chat import Chat
from agon.engines.transformers_engine import TransformersEngine, stop_ids
from agon.judges.pool import JudgePool
from tests.evaluate.tiny import save_base, save_problems, save_run, tiny_pair, tiny_tokenizer

# Models this small lose more than they gain by a second thread.
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def arena() -> Iterator[Arena]:
    pair, tokenizer = tiny_pair(), tiny_tokenizer()
    chat = Chat(tokenizer)
    engine = TransformersEngine(pair, chat.decode, stop_ids(pair.model, tokenizer), tokenizer.pad_token_id)
    for policy in pair.names:
        engine.sync(policy, 0)
    with JudgePool("exact", workers=1) as pool:
        yield Arena(engine, chat, pool)


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_base(tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="session")
def problems(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_problems(tmp_path_factory.mktemp("task") / "bits.jsonl")


@pytest.fixture
def run(tmp_path: Path, base: Path, problems: Path) -> Path:
    """A run of a pair that nobody has evaluated yet."""
    return save_run(tmp_path / "pair", base, problems)
