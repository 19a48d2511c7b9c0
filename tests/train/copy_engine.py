"""An engine with weights of its own, as vLLM has them, on a CPU: adapters reach it by `sync` alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from transformers import PrinterCallback

from agon.engines.protocol import Capabilities, Finished, Request
from agon.engines.transformers_engine import TransformersEngine, stop_ids
from agon.policies.pair import BASE, Pair
from agon.train.trainer import AgonTrainer
from tests import tiny
from tests.train.build import config


class CopyEngine:
    """Samples from a copy of the pair; `deaf_from` is the version from which on syncs are lost in silence."""

    capabilities = Capabilities("copy", streams=False, live_weights=False, logprobs=True)

    def __init__(self, deaf_from: int | None = None) -> None:
        self.deaf_from = deaf_from

    def bind(self, ours: AgonTrainer) -> None:
        self._theirs, words = ours.pair, ours.chat.tokenizer
        # A model of its own: TRL has replaced methods of the trainer's, and a copy would share them.
        self._own = Pair.create(tiny.model(), ours.args.adapters, policies=ours.method.policies)
        self._inner = TransformersEngine(
            self._own, ours.chat.decode, stop_ids(self._own.model, words), words.pad_token_id
        )

    def sync(self, policy: str, version: int) -> None:
        if policy != BASE and (self.deaf_from is None or version < self.deaf_from):
            self._own.restore(policy, self._theirs.snapshot(policy))
        self._inner.sync(policy, version)

    def submit(self, requests: Sequence[Request]) -> None:
        self._inner.submit(requests)

    def collect(self) -> list[Finished]:
        return self._inner.collect()

    def sleep(self) -> None: ...

    def wake(self) -> None: ...

    def close(self) -> None: ...


def copy_trainer(
    folder: Path, deaf_from: int | None = None, *, sampler: CopyEngine | None = None, **options: Any
) -> AgonTrainer:
    """A small trainer whose rollouts come from a copy of its policies."""
    engine = sampler or CopyEngine(deaf_from)
    made = AgonTrainer(
        tiny.model(),
        tiny.task(),
        config(folder, **options),
        processing_class=tiny.tokenizer(),
        engine=engine,
    )
    engine.bind(made)
    made.remove_callback(PrinterCallback)
    return made
