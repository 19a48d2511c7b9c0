"""From a target to something that can play: base, adapters, chat and engine, loaded once for all tasks."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from agon.embedded import model_path
from agon.engines.build import build_engine
from agon.engines.chat import Chat
from agon.engines.options import EngineOptions, ServerOptions, VllmOptions
from agon.engines.protocol import Engine
from agon.errors import InputError
from agon.evaluate.target import Target
from agon.evaluate.vllm_budget import VllmBudget
from agon.game.problem import DOMAINS, Problem
from agon.policies.adapter_files import scale_of
from agon.policies.pair import BASE, Pair
from agon.runs.trust import model_network

# Turns (a problem, the number of a sample) that a streaming engine plays between two writes to disk. The
# last ones of a batch leave most of its rows idle; with 256 to 512 rows, that tail is then a small part.
STREAMED_TURNS = 2048


@dataclass(frozen=True)
class EngineChoice:
    """What samples, and how much it may take."""

    name: str
    budget: VllmBudget
    rows: int = 256
    servers: Sequence[str] = ()
    vllm_extra: Mapping[str, Any] = field(default_factory=dict)  # more options of vllm.LLM

    def __post_init__(self) -> None:
        self.budget.refuse_without_vllm(self.name)


@dataclass(frozen=True)
class LoadedTarget:
    """A target ready to play."""

    target: Target
    pair: Pair
    chat: Chat
    engine: Engine
    batch: int  # turns that are played between two writes to disk

    def fingerprints(self) -> dict[str, str]:
        """What identifies the weights that answer."""
        return {name: self.pair.fingerprint(name) for name in (*self.target.policies, BASE)}

    def prompts(self) -> str:
        """What identifies the prompts that are answered, the model's chat template among them."""
        blanks = [Problem("", "PROBLEM", "", domain=domain) for domain in DOMAINS]
        asked = [self.chat.plain(blank) for blank in blanks]
        asked += [self.chat.challenge(blank, "ATTEMPT") for blank in blanks]
        text = "\x1f".join(map(self.chat.render, asked))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


# `load_target`, or what stands for it where an engine runs already.
Load = Callable[[Target, EngineChoice], AbstractContextManager[LoadedTarget]]


@contextmanager
def load_target(target: Target, choice: EngineChoice) -> Iterator[LoadedTarget]:
    """Load the base and the adapters, and close the engine in the end."""
    refuse_without_weights(target)
    settings = target.settings
    settings.use_threads()
    cuda = torch.cuda.is_available()
    dtype = torch.bfloat16 if cuda and settings.bf16 else torch.float32
    base = settings.load_base(dtype, device_map="auto" if cuda and choice.name == "transformers" else None)
    chat = settings.chat(settings.load_tokenizer())
    if target.run is not None:
        pair = Pair.load(base, target.run.adapters, target.policies)
        _refuse_other_adapters(target, pair)
        target.run.refuse_damaged_adapters()
    else:
        pair = Pair.create(base, policies=1)  # an engine samples from a pair; this one only lends its base
    options = _engine_options(target, choice, dtype, chat, base.config)
    with target.trust.without_network(model_network(target.model)):
        engine = build_engine(choice.name, pair, chat, model_path(target.model), options)
    try:
        yield _synced(target, pair, chat, engine, choice)
    finally:
        engine.close()


def playing_on(engine: Engine, pair: Pair, chat: Chat) -> Load:
    """Loads nothing: the engine of a training that has ended plays, and stays open."""

    @contextmanager
    def load(target: Target, choice: EngineChoice) -> Iterator[LoadedTarget]:
        yield _synced(target, pair, chat, engine, choice)

    return load


def _synced(target: Target, pair: Pair, chat: Chat, engine: Engine, choice: EngineChoice) -> LoadedTarget:
    for policy in target.policies:
        engine.sync(policy, target.versions[policy])
    batch = STREAMED_TURNS if engine.capabilities.streams else choice.rows
    return LoadedTarget(target, pair, chat, engine, batch)


def _engine_options(
    target: Target, choice: EngineChoice, dtype: torch.dtype, chat: Chat, config: Any
) -> EngineOptions:
    vllm = VllmOptions()
    if choice.name == "vllm":
        vllm = VllmOptions(
            dtype=str(dtype).removeprefix("torch."),
            max_model_len=choice.budget.length(chat, config),
            logprobs=False,
            extra=choice.vllm_extra,
        )
        vllm = choice.budget.applied_to(vllm, torch.cuda.is_available())
    return EngineOptions(
        rows=choice.rows,
        vllm=vllm,
        servers=choice.servers or target.config.get("vllm_servers") or (),
        server=ServerOptions(adapter_dir=target.config.get("adapter_dir")),
    )


def _refuse_other_adapters(target: Target, pair: Pair) -> None:
    """Adapters that are not those which the training wrote down are not evaluated as if they were."""
    assert target.run is not None
    recorded = target.summary.get("fingerprints")
    for name in target.policies:
        wanted = recorded.get(name) if isinstance(recorded, dict) else None
        exact = all(weight.dtype == torch.float32 for _, weight in pair.weights(name))
        found = pair.fingerprint(name)
        if wanted is not None and exact and found != wanted:
            raise InputError(
                f"The adapter {name} of '{target.name}' is not the one that its training wrote (fingerprint {found}, "
                f"in summary.json {wanted}): restore it."
            )
        scale, trained = scale_of(target.run.adapters / name), target.config.get("lora_alpha")
        if trained is not None and scale != trained:
            raise InputError(
                f"The adapter {name} of '{target.name}' has lora_alpha {scale!r}, and was trained with {trained!r}: "
                "restore its adapter_config.json."
            )


def refuse_without_weights(target: Target) -> None:
    """A copy of a run's outcomes has its adapters' configurations and nothing that could answer."""
    for policy in target.policies:
        if target.run and not any((target.run.adapters / policy).glob("adapter_model.*")):
            raise InputError(
                f"The run '{target.name}' has no weights in adapters/{policy}: a copy of its outcomes can be "
                "compared, but only the whole run can be evaluated."
            )
