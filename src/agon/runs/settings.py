"""From a run's configuration to what plays it: base, tokenizer, chat and judge.

The one door to a model. Training comes with the configuration it was given, evaluation with the one
that the run saved; both go through here, so a run is evaluated over the base, under the prompts and
by the judge that it was trained with.

A saved configuration is data. What it names of code, of the network or of life without a sandbox is refused here,
unless the person who opened the folder has granted it (`agon.runs.trust`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from agon.engines.chat import Chat
from agon.game.prompts import load_prompts
from agon.judges.judge import Judge
from agon.judges.pool import JudgePool
from agon.judges.registry import options_for
from agon.policies.base import load_base, load_tokenizer
from agon.runs.trust import EVERYTHING, Trust, judge_wishes, model_network, model_wishes


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
    # What whoever gave the configuration has granted: a trainer's own is trusted, a folder's is not.
    trust: Trust = EVERYTHING

    @staticmethod
    def from_config(config: Mapping[str, Any]) -> "RunSettings":
        """The settings of a configuration of one's own; what it lacks or leaves at None has its default."""
        names = [each.name for each in fields(RunSettings) if each.name != "trust"]
        return RunSettings(**{name: config[name] for name in names if config.get(name) is not None})

    @staticmethod
    def from_run(config: Mapping[str, Any], trust: Trust) -> "RunSettings":
        """The settings that a run folder holds, with what was named again in this command in their place."""
        named = {name: value for name, value in trust.named.items() if name not in ("model", "task")}
        return replace(RunSettings.from_config({**config, **named}), trust=trust)

    def refuse_untrusted(self, judge: str) -> None:
        """Refuse what loading the model and judging by this judge ask for and nobody granted."""
        self.trust.refuse(
            [
                *model_wishes(self.trust_remote_code, self.model_init_kwargs),
                *judge_wishes(judge, self.sandbox),
            ]
        )

    def load_base(self, dtype: torch.dtype, device_map: str | None) -> PreTrainedModel:
        self.trust.refuse(model_wishes(self.trust_remote_code, self.model_init_kwargs))
        with self.trust.without_network(model_network(self.model)):
            return load_base(
                self.model,
                dtype=dtype,
                device_map=device_map,
                trust_remote_code=self.trust_remote_code,
                **self.model_init_kwargs,
            )

    def load_tokenizer(self) -> PreTrainedTokenizerBase:
        self.trust.refuse(model_wishes(self.trust_remote_code, self.model_init_kwargs))
        with self.trust.without_network(model_network(self.model)):
            return load_tokenizer(self.model, self.trust_remote_code, self.model_init_kwargs.get("revision"))

    def chat(self, tokenizer: PreTrainedTokenizerBase) -> Chat:
        """How problems become prompts and completions become text."""
        prompts = load_prompts(self.prompts, self.system_prompt)
        return Chat(tokenizer, self.dialect, dict(self.chat_template_kwargs), prompts)

    def open_judge(self, judge: str | Judge | Callable[..., Any] | Sequence[Callable[..., Any]]) -> JudgePool:
        """The worker processes that judge a run's answers."""
        if isinstance(judge, str):
            self.trust.refuse(judge_wishes(judge, self.sandbox))
        options = options_for(judge, sandbox=self.sandbox) if isinstance(judge, str) else {}
        return JudgePool(judge, workers=self.judge_workers, **options)

    def use_threads(self) -> None:
        """Give torch as many threads as the run asks for."""
        if self.torch_threads:
            torch.set_num_threads(self.torch_threads)
