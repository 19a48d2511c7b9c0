"""The parts a trainer is put together from: base, tokenizer, task, judge, engine."""

from typing import Any

import torch
from datasets import Dataset
from transformers import AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer.utils import create_model_from_path

from agon.embedded import EMBEDDED, model_path
from agon.engines.build import build_engine
from agon.engines.chat import Chat
from agon.engines.protocol import Engine
from agon.errors import InputError
from agon.judges.judge import Judge
from agon.judges.pool import JudgePool
from agon.policies.pair import Pair
from agon.tasks import Task, load_task, task_from_dataset
from agon.train.config import AgonConfig


def load_base(model: str | PreTrainedModel, args: AgonConfig) -> tuple[PreTrainedModel, str]:
    """The frozen base and its name: a Hub id, a local folder, or `embedded` for the one we ship."""
    if not isinstance(model, str):
        return model, model.config.name_or_path or "model"
    path = model_path(model)
    options = dict(args.model_init_kwargs or {})
    # A base that is never updated may as well live in the precision that computes fastest.
    options.setdefault("dtype", torch.bfloat16 if args.bf16 else torch.float32)
    options.setdefault("trust_remote_code", args.trust_remote_code)
    if args.distributed_state is not None and args.world_size > 1:
        options["device_map"] = None
    try:
        return create_model_from_path(path, **options), model
    except OSError as error:
        raise InputError(
            f"Cannot load the model '{model}': {str(error).splitlines()[0]} Give a Hub id, a local folder, or "
            f"'{EMBEDDED}'."
        ) from error


def load_tokenizer(model: str, args: AgonConfig) -> PreTrainedTokenizerBase:
    """The base's tokenizer, padding on the left as generation needs it."""
    return AutoTokenizer.from_pretrained(
        model_path(model),
        padding_side="left",
        truncation_side="left",
        trust_remote_code=args.trust_remote_code,
    )


def resolve_task(task: str | Task | Dataset, judge: Any, args: AgonConfig) -> Task:
    """A task from its name, from a dataset with a judge, or as it is."""
    if isinstance(task, Task):
        return task
    if isinstance(task, str):
        return load_task(task, path=args.task_path, seed=args.task_seed)
    if judge is None and args.judge is None:
        raise InputError(
            "A dataset needs a judge: pass `judge='math'`, `'exact'`, an object with a `judge` method, or a function."
        )
    named = judge if isinstance(judge, str) else args.judge or "own"
    return task_from_dataset(task, named)


def make_judge(task: Task, judge: str | Judge | None, args: AgonConfig) -> JudgePool:
    """The pool of judges that the caller, the configuration or else the task names."""
    chosen = judge or args.judge or task.judge
    options: dict[str, Any] = {"sandbox": args.sandbox} if chosen == "code" else {}
    return JudgePool(chosen, workers=args.judge_workers, **options)


def make_engine(args: AgonConfig, pair: Pair, chat: Chat, model: str) -> Engine:
    """The engine that the configuration names."""
    return build_engine(args.engine, pair, chat, model_path(model), args.engine_options)
