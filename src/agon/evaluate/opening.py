"""From a subject to something that can play: base, adapters, chat and engine, loaded once for all tasks."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import AutoTokenizer
from trl.trainer.utils import create_model_from_path

from agon.embedded import EMBEDDED, model_path
from agon.engines.build import EngineOptions, build_engine
from agon.engines.chat import Chat
from agon.engines.protocol import Engine
from agon.engines.vllm_engine import VllmOptions
from agon.errors import InputError, unknown
from agon.evaluate.room import Room
from agon.evaluate.subject import MAX_TOKENS, Subject
from agon.game.problem import DOMAINS, Problem
from agon.game.prompts import challenger_prompt, plain_prompt
from agon.judges.pool import JudgePool
from agon.policies.pair import BASE, Pair
from agon.tasks import Task

ENGINES = ("transformers", "vllm")
# Turns (a problem, the number of a sample) that vLLM plays between two writes to disk. The last ones of a
# batch leave most of its rows idle; with 256 to 512 rows, that tail is then a small part of a batch.
VLLM_BATCH = 2048


@dataclass(frozen=True)
class Opened:
    """A subject ready to play."""

    subject: Subject
    pair: Pair
    chat: Chat
    engine: Engine
    batch: int  # turns that are played between two writes to disk

    def fingerprints(self) -> dict[str, str]:
        """What identifies the weights that answer."""
        return {name: self.pair.fingerprint(name) for name in (*self.subject.policies, BASE)}

    def prompts(self) -> str:
        """What identifies the prompts that are answered, the model's chat template among them."""
        blanks = [Problem("", "PROBLEM", "", domain=domain) for domain in DOMAINS]
        asked = [plain_prompt(blank, self.chat.dialect.name) for blank in blanks]
        asked += [challenger_prompt(blank, "ATTEMPT", self.chat.dialect.name) for blank in blanks]
        text = "\x1f".join(map(self.chat.render, asked))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@contextmanager
def opened(
    subject: Subject, engine_name: str = "transformers", rows: int = 256, room: Room | None = None
) -> Iterator[Opened]:
    """Load the base and the adapters, and close the engine in the end. `room` is for vLLM."""
    if engine_name not in ENGINES:
        raise unknown("engine", engine_name, ENGINES)
    if rows < 1:
        raise InputError(f"--rows must be at least 1, not {rows}.")
    if room is not None:
        room.refuse_without_vllm(engine_name)
    _refuse_weightless(subject)
    if threads := subject.config.get("torch_threads"):
        torch.set_num_threads(threads)
    path = model_path(subject.model)
    cuda = torch.cuda.is_available()
    dtype = torch.bfloat16 if cuda else torch.float32
    try:
        base = create_model_from_path(
            path,
            dtype=dtype,
            device_map="auto" if cuda and engine_name == "transformers" else None,
        )
        tokenizer = AutoTokenizer.from_pretrained(path, padding_side="left")
    except (OSError, ValueError) as error:
        raise InputError(
            f"Cannot load the model '{subject.model}': {str(error).splitlines()[0]} "
            f"Give a run's folder, a model's folder, a Hub id or '{EMBEDDED}'."
        ) from error
    if subject.adapters is not None:
        pair = Pair.load(base, subject.adapters, subject.policies)
    else:
        pair = Pair.create(base, policies=1)  # an engine samples from a pair; this one only lends its base
    chat = Chat(tokenizer, subject.config.get("dialect"))
    options = EngineOptions(rows=rows)
    if engine_name == "vllm":
        options = replace(options, vllm=_vllm_options(dtype, room or Room(MAX_TOKENS), chat, base.config))
    engine = build_engine(engine_name, pair, chat, path, options)
    try:
        for policy in subject.policies:
            engine.sync(policy, 0)
        yield Opened(subject, pair, chat, engine, VLLM_BATCH if engine_name == "vllm" else rows)
    finally:
        engine.close()


def _refuse_weightless(subject: Subject) -> None:
    """A copy of a run's outcomes has its adapters' configurations and nothing that could answer."""
    for policy in subject.policies:
        if subject.adapters and not any((subject.adapters / policy).glob("adapter_model.*")):
            raise InputError(
                f"The run '{subject.name}' has no weights in adapters/{policy}: a copy of its outcomes can be "
                "compared, but only the whole run can be evaluated."
            )


def judge_name(subject: Subject, task: Task) -> str:
    """The judge that the task names; on the run's own task, the one that the run was trained with."""
    own = subject.config.get("judge") if task.name == subject.task.get("name") else None
    return str(own or task.judge)


def judge_for(subject: Subject, task: Task) -> JudgePool:
    chosen = judge_name(subject, task)
    options = {"sandbox": subject.config.get("sandbox", "bubblewrap")} if chosen == "code" else {}
    return JudgePool(chosen, workers=int(subject.config.get("judge_workers", 2)), **options)


def _vllm_options(dtype: torch.dtype, room: Room, chat: Chat, config: Any) -> VllmOptions:
    cuda = torch.cuda.is_available()
    options = VllmOptions(
        dtype=str(dtype).removeprefix("torch."),
        max_model_len=room.length(chat, config),
        logprobs=False,
        # vLLM rewinds a seeded request's generator when it cuts a prompt in two, which torch has for CUDA only.
        extra={} if cuda else {"enable_chunked_prefill": False},
    )
    return room.share(options, cuda)
