"""What a warm-up is asked to do, checked without torch."""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agon.errors import InputError
from agon.evaluate.request import EvaluationRequest
from agon.game.dialects import Dialect, dialect

# What decides which solutions are sampled, and what they become; the engine's own options do not.
TRAINING = ("dialect", "per_problem", "epochs", "learning_rate", "batch", "rank", "seed")


@dataclass(frozen=True)
class WarmRequest:
    """The options of `agon warm`, with its defaults."""

    model: str
    task: str
    dialect: str = "think"
    output: Path | None = None
    path: str | None = None
    judge: str | None = None
    sandbox: str | None = None
    problems: int = 800
    samples: int = 4
    per_problem: int = 2
    max_tokens: int = 512
    temperature: float = 0.8
    epochs: float = 2.0
    learning_rate: float = 2e-4
    batch: int = 16
    rank: int = 32
    split: str = "validation"
    limit: int | None = 200
    seed: int = 0
    engine: str = "transformers"
    rows: int = 256
    vllm_kv_cache_bytes: int | None = None
    max_model_len: int | None = None

    @property
    def folder(self) -> Path:
        """Where the model goes: the one asked for, or one named after base and dialect."""
        base = Path(self.model.rstrip("/")).name
        return self.output or Path("warmed") / f"{base}-{self.dialect.replace(':', '-')}"

    @property
    def adapter(self) -> Path:
        """What was learned, before it is merged."""
        return self.folder / "warm" / "adapter"

    @property
    def kind(self) -> Dialect:
        return dialect(self.dialect)

    def check(self) -> None:
        """Refuse the first option that is wrong, before anything is loaded."""
        for refusal in self._refusals():
            raise InputError(refusal)
        EvaluationRequest(
            tasks=[self.task],
            path=self.path,
            split=self.split,
            samples=[self.samples],
            limit=self.limit,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            seed=self.seed,
            output=self.folder,
            engine=self.engine,
            rows=self.rows,
            vllm_kv_cache_bytes=self.vllm_kv_cache_bytes,
            max_model_len=self.max_model_len,
            judge=self.judge,
            sandbox=self.sandbox,
        ).check()

    def _refusals(self) -> Iterator[str]:
        kind = self.kind
        if not kind.private or kind.answer != "block":
            yield (
                f"The dialect '{self.dialect}' has no private reasoning before an <answer> block, so there is "
                "nothing to teach: choose think, gemma or one of your own that has both."
            )
        if self.engine == "vllm-server":
            yield "A warm-up samples by the engine transformers or vllm, not by servers."
        out = self.folder
        if not (out / "warm").is_dir() and (out / "config.json").exists():
            yield f"The folder '{out}' already holds a model that no warm-up made: choose another --output."
        if os.path.isdir(self.model) and out.resolve() == Path(self.model).resolve():
            yield f"The model would be written over its own base '{self.model}': choose another --output."

    def training(self) -> dict[str, Any]:
        """What the trained weights depend on, beside the examples."""
        return {name: asdict(self)[name] for name in TRAINING}
