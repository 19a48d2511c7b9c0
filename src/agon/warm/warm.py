"""`warm_up`: from a base to a model that speaks a dialect, with what it wrote before and after.

1. Solutions to training problems are sampled from the base in its own dialect, and one more after reading each of
   them; all are judged.
2. The base summarises right ones in its own words; a summary that tells the answer is not used.
3. They become examples (`agon.warm.examples`), and a base is fine-tuned on them (`agon.warm.finetune`).
4. Zero-shot and the untrained cascade, in the own dialect and the new one, before and after.

Whatever was sampled is kept in the folder's `warm/`; the same command goes on where it was stopped. The fine-tuning
itself begins again.
"""

import gc
import hashlib
import shutil
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import torch

from agon.engines.chat import Chat, pick_dialect
from agon.engines.context_length import refuse_long_prompts
from agon.engines.protocol import Sampling
from agon.errors import InputError
from agon.evaluate.evaluate import Watch, unwatched
from agon.evaluate.intervals import contrast
from agon.evaluate.load import EngineChoice, LoadedTarget, load_target
from agon.evaluate.split_evaluation import first
from agon.evaluate.target import TEMPERATURE, TOP_P, Target, open_target
from agon.evaluate.vllm_budget import VllmBudget
from agon.game.problem import Problem
from agon.runs.files import read_json, write_json, write_text
from agon.runs.folder import is_run
from agon.runs.lock import owned
from agon.runs.trust import EVERYTHING
from agon.tasks import Task, load_task
from agon.warm.card import card
from agon.warm.examples import Example, Solution, build
from agon.warm.finetune import finetune, merge
from agon.warm.request import WarmRequest
from agon.warm.sampling import SELF_CASCADE, ZERO_SHOT, Split, Stage, evaluated, solutions, summaries

TRIES = 2  # summaries that are asked for before lines of the solution stand in
FEWEST = 8  # examples
BEFORE, UNTAUGHT, AFTER = "before", "before, new dialect", "after"


def warm_up(request: WarmRequest, watch: Watch = unwatched) -> dict[str, Any]:
    """Make the model and return what was measured; the same is in the folder's `warm/warm.json`."""
    request.check()
    target = _opened(request.model, request)
    task = load_task(request.task, path=request.path)
    task.problems("train")
    task.problems(request.split)  # an empty split is refused before the model is loaded
    with owned(request.folder, "warm-up"):
        return _warm_up(request, target, task, watch)


def _warm_up(request: WarmRequest, target: Target, task: Task, watch: Watch) -> dict[str, Any]:
    work, began = request.folder / "warm", time.monotonic()
    seconds: dict[str, float] = {}
    with load_target(target, _engine(request, task)) as loaded:
        own = _own_dialect(loaded, request)
        taught = replace(loaded, chat=Chat(loaded.chat.tokenizer, request.dialect))
        for chat in (loaded.chat, taught.chat):
            refuse_long_prompts(chat, _played(request, task), loaded.pair.model.config)
        held_out = partial(_held_out, request, task)
        stages = {
            BEFORE: evaluated(loaded, held_out("before"), watch(f"before, {own}")),
            UNTAUGHT: evaluated(taught, held_out("before-new-dialect"), watch(f"before, {request.dialect}")),
        }
        seconds["before"] = _lap(began, seconds)
        found = solutions(loaded, _training_part(request, task), watch("solutions"))
        said = summaries(
            loaded,
            _summarised(found, request.per_problem),
            request.kind,
            request.seed,
            TRIES,
            work / "summaries.jsonl",
            watch("summaries"),
        )
        seconds["sampling"] = _lap(began, seconds)
        examples, counts = build(
            found, said, own, request.dialect, taught.chat.prefilled, request.per_problem
        )
        chat = taught.chat
    del loaded, taught
    _free()
    if len(examples) < FEWEST:
        right = sum(each.correct for each in found)
        raise InputError(
            f"Only {len(examples)} examples came of {len(found)} attempts, {right} of them right: sample more with "
            f"--problems or --samples, or choose an easier task (at least {FEWEST} are needed)."
        )
    loss = _trained(request, target, examples, chat)
    _free()
    seconds["training"] = _lap(began, seconds)
    with load_target(_opened(str(request.folder), request), _engine(request, task)) as loaded:
        warmed = replace(loaded, chat=Chat(loaded.chat.tokenizer, request.dialect))
        stages[AFTER] = evaluated(warmed, held_out("after"), watch(f"after, {request.dialect}"))
    seconds["after"] = _lap(began, seconds)
    result = {
        "model": request.model,
        "task": task.name,
        "dialect": request.dialect,
        "own_dialect": own,
        "output": str(request.folder),
        "split": request.split,
        "n": len(first(task, request.split, request.limit).problems(request.split)),
        "engine": request.engine,
        "training": {**request.training(), "loss": loss},
        "examples": {**_counted(found, examples), **counts},
        "stages": {name: stage.to_dict() for name, stage in stages.items()},
        "contrasts": _contrasts(stages),
        "seconds": seconds,
    }
    write_json(work / "warm.json", result)
    write_text(request.folder / "README.md", card(result))
    return result


def _opened(model: str, request: WarmRequest) -> Target:
    if is_run(model):
        raise InputError(f"'{model}' is a run: a warm-up takes a model, over which a run is trained then.")
    named = {"judge": request.judge, "sandbox": request.sandbox}
    trust = replace(EVERYTHING, named={key: value for key, value in named.items() if value})
    return open_target(model, trust)


def _own_dialect(loaded: LoadedTarget, request: WarmRequest) -> str:
    own = pick_dialect(loaded.chat.tokenizer)
    if own == request.dialect:
        raise InputError(
            f"By its chat template '{request.model}' speaks the dialect '{own}' already: train it as it is."
        )
    return own


def _played(request: WarmRequest, task: Task) -> list[Problem]:
    """All problems that the base is asked."""
    return [
        *first(task, "train", request.problems).problems("train"),
        *first(task, request.split, request.limit).problems(request.split),
    ]


def _engine(request: WarmRequest, task: Task) -> EngineChoice:
    budget = VllmBudget(request.max_tokens, request.vllm_kv_cache_bytes, request.max_model_len)
    if request.engine == "vllm":
        budget = replace(budget, problems=_played(request, task))
    return EngineChoice(request.engine, budget, request.rows)


def _training_part(request: WarmRequest, task: Task) -> Split:
    sampling = Sampling(request.max_tokens, request.temperature)
    folder = request.folder / "warm" / "cascades"
    return Split(
        task, "train", request.problems, request.samples, sampling, request.seed, folder, request.judge
    )


def _held_out(request: WarmRequest, task: Task, name: str) -> Split:
    sampling = Sampling(request.max_tokens, TEMPERATURE, TOP_P)
    folder = request.folder / "warm" / name
    return Split(task, request.split, request.limit, 1, sampling, request.seed, folder, request.judge)


def _summarised(found: Sequence[Solution], per_problem: int) -> list[Solution]:
    """The solutions whose summaries are used: those that become examples."""
    chosen: list[Solution] = []
    taken: dict[tuple[str, bool], int] = {}
    for each in found:
        kind = (each.problem.id, each.shown is None)
        if each.teachable and taken.get(kind, 0) < per_problem:
            taken[kind] = taken.get(kind, 0) + 1
            chosen.append(each)
    return chosen


def _trained(request: WarmRequest, target: Target, examples: Sequence[Example], chat: Chat) -> float:
    """Train, unless the folder holds what these examples and options gave: the model, or at least its adapter."""
    rows = [[each.problem.id, each.completion, each.shown] for each in examples]
    made_of = {
        "examples": hashlib.sha256(repr(rows).encode()).hexdigest()[:16],
        "model": target.model,
        **request.training(),
    }
    file = request.folder / "warm" / "trained.json"
    known = read_json(file)
    if {**known, "loss": None} == {**made_of, "loss": None}:
        if (request.folder / "config.json").is_file():
            return float(known["loss"])
        if request.adapter.is_dir():
            merge(target.settings, chat, request)
            return float(known["loss"])
    with suppress(FileNotFoundError):
        file.unlink()
    shutil.rmtree(request.folder / "warm" / "after", ignore_errors=True)  # what other weights wrote
    write_json(
        request.folder / "warm" / "examples.json",
        [{key: value for key, value in asdict(each).items() if key != "problem"} | {"problem": each.problem.id}
         for each in examples],
    )  # fmt: skip
    loss = finetune(target.settings, examples, chat, request)
    _free()
    merge(target.settings, chat, request)
    write_json(file, {**made_of, "loss": loss})
    return loss


def _counted(found: Sequence[Solution], examples: Sequence[Example]) -> dict[str, int]:
    drafts = [each for each in found if each.shown is None]
    return {
        "solutions": len(drafts),
        "right": sum(each.correct for each in drafts),
        "problems": len({each.problem.id for each in examples}),
        "drafts": sum(each.shown is None for each in examples),
    }


def _contrasts(stages: Mapping[str, Stage]) -> dict[str, Any]:
    """What changed, paired by problem: zero-shot against before, and the cascade against zero-shot."""
    before, after = stages[BEFORE].correct, stages[AFTER].correct
    return {
        "after - before, zero-shot": asdict(contrast(after[ZERO_SHOT.name], before[ZERO_SHOT.name])),
        "cascade - zero-shot, after": asdict(contrast(after[SELF_CASCADE.name], after[ZERO_SHOT.name])),
    }


def _lap(began: float, seconds: Mapping[str, float]) -> float:
    return round(time.monotonic() - began - sum(seconds.values()), 1)


def _free() -> None:
    """Give back what a model held, before the next one is loaded."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
