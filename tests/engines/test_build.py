"""Engines by name, where vLLM is installed and where it is not."""

import importlib.util
import subprocess
import sys

import pytest

from agon.engines.build import ENGINES, build_engine, stop_ids_of
from agon.engines.chat import Chat
from agon.engines.options import EngineOptions
from agon.engines.protocol import Request, Sampling
from agon.errors import InputError
from agon.policies import Adapters, Pair
from agon.train import config
from tests import tiny


@pytest.fixture(scope="module")
def pair_and_chat() -> tuple[Pair, Chat]:
    return Pair.create(tiny.model(), Adapters(rank=4)), Chat(tiny.tokenizer(), "boxed")


def test_the_transformers_engine_samples_from_the_pair(pair_and_chat: tuple[Pair, Chat]) -> None:
    pair, chat = pair_and_chat
    engine = build_engine("transformers", pair, chat, "unused")
    assert engine.capabilities.live_weights
    engine.sync("A", 0)
    prompt = chat.encode([{"role": "user", "content": "1?"}])
    engine.submit([Request("one", prompt, "A", 0, Sampling(6), seed=3)])
    (finished,) = engine.collect()
    assert finished.rollout.text == chat.decode(finished.rollout.token_ids)
    assert finished.rollout.length == 6 or finished.rollout.token_ids[-1] in stop_ids_of(pair, chat)


def test_an_unknown_engine_is_named_with_its_nearest(pair_and_chat: tuple[Pair, Chat]) -> None:
    with pytest.raises(InputError, match="Unknown engine 'vlm': did you mean 'vllm'"):
        build_engine("vlm", *pair_and_chat, "unused")


def test_the_configuration_knows_the_same_engines() -> None:
    assert tuple(config.ENGINES) == tuple(ENGINES)


def test_the_list_of_engines_loads_nothing_heavy() -> None:
    code = "import sys, agon.engines.build; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"torch", "transformers", "peft", "vllm"} & set(loaded.stdout.split()) == set()


@pytest.mark.skipif(importlib.util.find_spec("vllm") is not None, reason="vLLM is installed")
def test_without_vllm_the_error_says_how_to_install_it(pair_and_chat: tuple[Pair, Chat]) -> None:
    with pytest.raises(InputError, match=r"pip install 'agon-rl\[vllm\]'"):
        build_engine("vllm", *pair_and_chat, "unused")


def test_servers_need_addresses(pair_and_chat: tuple[Pair, Chat]) -> None:
    with pytest.raises(InputError, match="at least one server"):
        build_engine("vllm-server", *pair_and_chat, "unused")
    with pytest.raises(InputError, match=r"'ftp://x' is not the address of a server"):
        build_engine("vllm-server", *pair_and_chat, "unused", EngineOptions(servers=["ftp://x"]))
