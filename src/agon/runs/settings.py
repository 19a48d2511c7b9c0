"""From a run's configuration to what plays it: base, tokenizer, chat and judge.

The one door to a model. Training comes with the configuration it was given, evaluation with the one
that the run saved; both go through here, so a run is evaluated over the base, under the prompts and
by the judge that it was trained with.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from agon.engines.chat import Chat
from agon.game.prompts import load_prompts
from agon.judges.judge import Judge
from agon.judges.pool import JudgePool
from agon.judges.registry import options_for
from agon.policies.base import load_base, load_tokenizer


@dataclass(frozen=True)
class RunSettings:
    """The options of a configuration that decide what is loaded and asked; the names are theirs."""

    model: str
    dialect: str | None = None
    chat_template_kwargs: Mapping[str, Any] = field(default_factory=dict)
    trust_remote_code: bool = False
    model_init_kwargs: Mapping[str, Any] = field(default_factory=dict)
    bf16: bool = True
    torch_threads: int | None = None
    summary_limit: int | None = None
    prompts: str | None = None
    system_prompt: str | None = None
    judge: str | None = None
    judge_workers: int = 2
    sandbox: str = "bubblewrap"

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> "RunSettings":
        """The settings of a whole configuration; what it lacks or leaves at None has its default."""
        names = [each.name for each in fields(RunSettings)]
        return RunSettings(**{name: config[name] for name in names if config.get(name) is not None})

    def load_base(self, dtype: torch.dtype, device_map: str | None) -> PreTrainedModel:
        return load_base(
            self.model,
            dtype=dtype,
            device_map=device_map,
            trust_remote_code=self.trust_remote_code,
            **self.model_init_kwargs,
        )

    def load_tokenizer(self) -> PreTrainedTokenizerBase:
        return load_tokenizer(self.model, self.trust_remote_code, self.model_init_kwargs.get("revision"))

    def chat(self, tokenizer: PreTrainedTokenizerBase) -> Chat:
        """How problems become prompts and completions become text."""
        prompts = load_prompts(self.prompts, self.system_prompt)
        return Chat(tokenizer, self.dialect, dict(self.chat_template_kwargs), prompts)

    def open_judge(self, judge: str | Judge | Callable[..., Any] | Sequence[Callable[..., Any]]) -> JudgePool:
        """The worker processes that judge a run's answers."""
        options = options_for(judge, sandbox=self.sandbox) if isinstance(judge, str) else {}
        return JudgePool(judge, workers=self.judge_workers, **options)

    def use_threads(self) -> None:
        """Give torch as many threads as the run asks for."""
        if self.torch_threads:
            torch.set_num_threads(self.torch_threads)
