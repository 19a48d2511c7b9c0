"""Train two policies head to head (or one, by a single-policy method).

  agon train                                   the embedded default
  agon train qwen3-0.6b-deepmath               a recipe by its name
  agon train my-recipe.yaml                    a recipe of your own
  agon train RECIPE --method coop --seed 1     a recipe with changes
  agon train --model M --task T --method agon  without a recipe
  agon train --resume runs/NAME                go on after an interruption

Everything lands in one run folder: configuration, environment, metrics, every
duel, checkpoints and the two adapters as plain PEFT folders. Ctrl-C, SIGTERM
and SIGUSR1 save and say how to go on. Exit codes: 0 finished, 2 wrong input,
3 stopped by itself (judge, engine or numbers failed), 130 Ctrl-C, 143 SIGTERM,
138 SIGUSR1.
"""

import argparse
import json
import os
import sys
import textwrap
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon.commands.arguments import add_trust
from agon.errors import InputError
from agon.printing import console, say

if TYPE_CHECKING:
    from agon.evaluate.load import Load
    from agon.runs.folder import Run
    from agon.runs.trust import Trust
    from agon.train.launch import Ended
    from agon.train.recipes import Request

PARSES_REST = True
COLUMNS = 80


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recipe", nargs="?", help="a recipe's name or YAML file; the embedded default if absent"
    )
    parser.add_argument("--resume", type=Path, metavar="RUN", help="go on with an interrupted run")
    add_trust(parser)
    # What a sweep runs next, in case that the engine of this training can do it: names and words of `agon eval`.
    parser.add_argument("--stages", type=json.loads, default=[], help=argparse.SUPPRESS)


def epilog() -> str:
    """The options that are ours, with their defaults; TRL's are only pointed to."""
    from agon.train.option_table import own_options
    from agon.train.recipes import shipped_recipes

    lines = ["options of a recipe, or of the command line as --key value:"]
    for option in own_options():
        shown = "" if option.default in (None, "") else f" [{option.default}]"
        text = textwrap.wrap(f"{option.help}{shown}", COLUMNS - 25)
        if len(option.name) > 20:
            lines.append(f"  {option.name}")
        else:
            text[0] = f"  {option.name:<20}  {text[0]}"
        lines += [line if line.startswith("  ") else f"{'':<24}{line}" for line in text]
    trl = (
        "Every option of TRL's GRPOConfig is an option too, for example --learning_rate 1e-5, "
        "--num_generations 16 (2N: N drafts and N challenges), --max_completion_length 2048, "
        "--per_device_train_batch_size 8, --eval_strategy steps, --report_to wandb."
    )
    recipes = f"Recipes that come with the package: {', '.join(shipped_recipes())}."
    return "\n".join([*lines, "", *textwrap.wrap(trl, COLUMNS), "", *textwrap.wrap(recipes, COLUMNS)])


def run(arguments: argparse.Namespace) -> int:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    resume = arguments.resume is not None
    trust = _granted(arguments)
    from agon.runs.folder import Run
    from agon.runs.lock import refuse_owned
    from agon.runs.trust import network_wishes
    from agon.train.launch import name_folder, saved_run, train
    from agon.train.recipes import build_config, read_request

    if resume and Run(arguments.resume).finished():
        _say(f"The run {arguments.resume} has already finished.")
        return 0
    if resume and os.environ.get("RANK", "0") == "0":
        refuse_owned(arguments.resume)  # first: its files change while its owner writes them
    asked = saved_run(arguments.resume, trust) if resume else read_request(arguments.recipe, arguments.rest)
    asked.check_here()
    folder = str(arguments.resume) if resume else name_folder(asked.what, asked.options)
    _announce(asked, folder, resume)
    _prepare_worker(asked.options)
    from agon.commands.output import quiet_loading, working

    with working("loading torch"):
        quiet_loading()
        config = build_config({**asked.options, "output_dir": folder})

    def at_end(ended: "Ended", load: "Load | None") -> None:
        run = ended.run
        _say(f"Finished. The adapters are in {run.adapters}, everything else beside them in {run.folder}.")
        if config.final_evaluation:
            _show_what_came_of_it(run, config.final_evaluation, asked, load)
        if load is not None:
            _play_stages(run, arguments.stages, load)
        _say(f"Its report as one page: agon report {run.folder}")

    with trust.without_network(network_wishes({**asked.options, **vars(asked.what)})):
        ended = train(asked.what, config, resume, at_end)
    if ended.finished:
        return 0
    if not ended.main_process:
        return 130
    _say_how_it_stopped(ended)
    return ended.code


def _granted(arguments: argparse.Namespace) -> "Trust":
    """What this command grants a run folder: everything, or the parts that it names again."""
    from agon.runs.trust import EVERYTHING, GRANTED_PARTS, Trust
    from agon.train.option_values import read_words

    if arguments.resume is None:
        if arguments.trust_run_code:
            raise InputError(
                "--trust-run-code is for `agon train --resume RUN`: a new run has no folder yet."
            )
        return EVERYTHING
    named = read_words(arguments.rest)
    if arguments.recipe is not None or not set(named) <= GRANTED_PARTS:
        raise InputError("A resumed run keeps its own configuration: give `agon train --resume RUN` alone.")
    return Trust(str(arguments.resume), arguments.trust_run_code, named)


def _announce(asked: "Request", folder: str, resume: bool) -> None:
    """The first line, before torch is loaded: what is trained and where it goes."""
    from agon.train.processes import Launched

    if not Launched.read().main:
        return
    does = "Going on with" if resume else "Training"
    method = asked.options.get("method", "agon")
    say(
        f"{does} {asked.what.model} on {asked.what.task.split(',')[0]} with {method}, in {folder}", flush=True
    )


def _prepare_worker(options: Mapping[str, Any]) -> None:
    """Where vLLM will run the model in a child process, let that one import what it needs beside this one."""
    from agon.engines import worker_fork
    from agon.train.processes import Launched, engine_of

    asked = options.get("vllm_worker_process")
    wanted = worker_fork.has_gpu() if asked is None else asked
    if wanted and engine_of(options) == "vllm" and Launched.read().processes == 1:
        worker_fork.prepare()


def _say_how_it_stopped(ended: "Ended") -> None:
    from agon.train.launch import lost

    if ended.at_once:
        _say(f"Stopped at once, at step {ended.step} of {ended.max_steps}. {lost(ended.run, ended.step)}")
        return
    if ended.reason:
        _say(f"agon: {ended.reason} {lost(ended.run, ended.step)}")
        return
    _say(f"Stopped at step {ended.step} of {ended.max_steps}, nothing lost.")
    _say(f"Go on with: agon train --resume {ended.run.folder}")


def _show_what_came_of_it(run: "Run", problems: int, asked: "Request", load: "Load | None") -> None:
    """Show a conversion, evaluate the finished run, and say what to do next."""
    from agon.commands.eval import show_results
    from agon.commands.output import progress_bars
    from agon.evaluate.evaluate import EvaluationRequest, evaluate
    from agon.evaluate.load import load_target
    from agon.reports.conversion import show_conversion

    show_conversion(run, console())
    with progress_bars() as watch:
        # What this command has just trained with, it may evaluate with.
        engine = "transformers" if load is None else "vllm"
        request = EvaluationRequest(limit=problems, engine=engine, trust_run_code=True)
        results = evaluate(str(run.folder), request, watch, load or load_target)
    show_results(results)
    say("\n".join(_next_commands(run, asked, engine)))


def _play_stages(run: "Run", stages: Iterable[tuple[str, Sequence[str]]], load: "Load") -> None:
    """Evaluations of a sweep on the engine of this training; one that fails, and those after it, are left to it."""
    from agon.commands import eval as evaluation
    from agon.commands.output import progress_bars
    from agon.evaluate.evaluate import evaluate

    for stage, (_, *words) in stages:
        began = time.monotonic()
        parser = argparse.ArgumentParser()
        evaluation.add_arguments(parser)
        arguments = parser.parse_args(words)
        try:
            with progress_bars() as watch:
                request = replace(evaluation.request_of(arguments), trust_run_code=True)
                evaluate(arguments.target, request, watch, load)
        except Exception as error:
            _say(f"The {stage} evaluation failed on the engine of the training ({error}): it starts its own.")
            return
        run.write_times({**run.read_times(), stage: round(time.monotonic() - began, 1)})


def _next_commands(run: "Run", asked: "Request", engine: str) -> Iterable[str]:
    """Commands that work as printed, one after another."""
    from agon.embedded import EMBEDDED
    from agon.train.launch import name_folder

    other = "coop" if asked.options.get("method") == "grpo" else "grpo"
    yield "\nWhat next:"
    # Samples of two engines are not mixed in one evaluation.
    same = "" if engine == "transformers" else f" --engine {engine}"
    yield f"  agon eval {run.folder}{same}\n      the same on all test problems"
    if asked.what.model == EMBEDDED and "output_dir" not in asked.options:
        second = name_folder(asked.what, {**asked.options, "method": other, "output_dir": None})
        yield f"  agon train --method {other}\n      another method, on the same budget"
        yield f"  agon compare {run.folder} \\\n      {second}\n      then both, paired by problem"
    yield "  agon train qwen2.5-0.5b-gsm8k\n      a real model, on one GPU with the Hub"
    yield f"Every sample, with its interval and token counts, is in\n{run.evaluations}."


def _say(sentence: str) -> None:
    say(sentence, file=sys.stderr)
