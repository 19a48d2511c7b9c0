"""Engines by name, where vLLM is installed and where it is not."""

import importlib.util

import pytest

from agon.engines.build import ENGINES, EngineOptions, build_engine, stop_ids_of
from agon.engines.chat import Chat
from agon.engines.protocol import Request, Sampling
from agon.errors import InputError
from agon.policies import Adapters, Pair
from agon.train import config
from tests import tiny


@pytest.fixture(scope="module")
def parts() -> tuple[Pair, Chat]:
    return Pair.create(tiny.model(), Adapters(rank=4)), Chat(tiny.tokenizer(), "boxed")


def test_the_transformers_engine_samples_from_the_pair(parts: tuple[Pair, Chat]) -> None:
    pair, chat = parts
    engine = build_engine("transformers", pair, chat, "unused")
    assert engine.capabilities.live_weights
    engine.sync("A", 0)
    prompt = chat.encode([{"role": "user", "content": "1?"}])
    engine.submit([Request("one", prompt, "A", 0, Sampling(6), seed=3)])
    (finished,) = engine.collect()
    assert finished.rollout.text == chat.decode(finished.rollout.token_ids)
    assert finished.rollout.length == 6 or finished.rollout.token_ids[-1] in stop_ids_of(pair, chat)


def test_an_unknown_engine_is_named_with_its_nearest(parts: tuple[Pair, Chat]) -> None:
    with pytest.raises(InputError, match="Unknown engine 'vlm': did you mean 'vllm'"):
        build_engine("vlm", *parts, "unused")


def test_the_configuration_knows_the_same_engines() -> None:
    assert tuple(config.ENGINES) == tuple(ENGINES)


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_vllm_the_error_says_how_to_install_it(parts: tuple[Pair, Chat]) -> None:
    with pytest.raises(InputError, match=r"pip install 'agon-rl\[vllm\]'"):
        build_engine("vllm", *parts, "unused")


def test_servers_need_addresses(parts: tuple[Pair, Chat]) -> None:
    with pytest.raises(InputError, match="at least one server"):
        build_engine("vllm-server", *parts, "unused")
    with pytest.raises(InputError, match=r"'ftp://x' is not the address of a server"):
        build_engine("vllm-server", *parts, "unused", EngineOptions(servers=["ftp://x"]))
