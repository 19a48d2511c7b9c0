"""An arena over the tiny pair, with real judges."""

from collections.abc import Iterator

import pytest

from agon.arena import Arena
from agon.engines.chat import Chat
from agon.engines.transformers_engine import TransformersEngine, stop_ids
from agon.judges.pool import JudgePool
from tests.evaluate.tiny import tiny_pair, tiny_tokenizer


@pytest.fixture(scope="session")
def arena() -> Iterator[Arena]:
    pair, tokenizer = tiny_pair(), tiny_tokenizer()
    chat = Chat(tokenizer)
    engine = TransformersEngine(pair, chat.decode, stop_ids(pair.model, tokenizer), tokenizer.pad_token_id)
    for policy in pair.names:
        engine.sync(policy, 0)
    with JudgePool("exact", workers=1) as pool:
        yield Arena(engine, chat, pool)
