"""Train two policies head to head (or one, by a single-policy method).

  agon train                                    the embedded default: a tiny pair on this CPU
  agon train recipes/qwen3-0.6b-deepmath.yaml   a recipe
  agon train RECIPE --method coop --seed 1      a recipe with changes
  agon train --model M --task T --method agon   without a recipe
  agon train --resume runs/NAME                 go on after an interruption

Everything lands in one run folder: configuration, environment, metrics, every duel, checkpoints and
the two adapters as plain PEFT folders. Ctrl-C saves and says how to go on.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agon.errors import InputError

if TYPE_CHECKING:
    from agon.runs.folder import Run

PARSES_REST = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recipe", nargs="?", type=Path, help="YAML file of options; the embedded default if absent"
    )
    parser.add_argument("--resume", type=Path, metavar="RUN", help="go on with an interrupted run")
    parser.epilog = _options() if {"-h", "--help"} & set(sys.argv) else None


def run(arguments: argparse.Namespace) -> int:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    resume = arguments.resume is not None
    if resume and (arguments.recipe is not None or arguments.rest):
        raise InputError("A resumed run keeps its own configuration: give `agon train --resume RUN` alone.")
    from agon.runs.folder import Run

    if resume and Run(arguments.resume).finished():
        _say(f"The run {arguments.resume} has already finished.")
        return 0
    from agon.train.launch import choose_folder, saved_run, train
    from agon.train.recipes import parse_recipe

    if resume:
        what, config = saved_run(arguments.resume)
    else:
        what, config = parse_recipe(arguments.recipe or _default_recipe(arguments.rest), arguments.rest)
        choose_folder(what, config)
    ended = train(what, config, resume)
    if not ended.main_process:
        return 0
    folder = ended.run.folder
    if not ended.finished:
        _say(f"Stopped at step {ended.step} of {ended.max_steps}, nothing lost.")
        _say(f"Go on with: agon train --resume {folder}")
        return 130
    _say(f"Finished. The adapters are in {ended.run.adapters}, everything else beside them in {folder}.")
    if config.final_evaluation:
        _show_what_came_of_it(ended.run, config.final_evaluation)
    return 0


def _default_recipe(words: list[str]) -> Path | None:
    """The embedded default, unless another task was named."""
    from agon.embedded import default_recipe

    named = any(word.split("=")[0] == "--task" for word in words)
    return None if named else default_recipe()


def _show_what_came_of_it(run: "Run", problems: int) -> None:
    """Show a conversion, evaluate the finished run, and say what to do next."""
    from rich.console import Console

    from agon.commands.eval import show_results
    from agon.commands.output import progress_bars
    from agon.evaluate.evaluate import EvaluationRequest, evaluate
    from agon.reports.conversion import show_conversion

    show_conversion(run, Console())
    with progress_bars() as watch:
        results = evaluate(str(run.folder), EvaluationRequest(limit=problems), watch)
    show_results(results)
    print(
        f"""
What next:
  agon eval {run.folder}                 the same on all test problems
  agon train --method grpo                one policy alone, on the same budget
  agon compare {run.folder} runs/OTHER   two runs, paired by problem
  agon train recipes/qwen2.5-0.5b-gsm8k.yaml   a real model, on one GPU with the Hub
Every sample, with its interval and token counts, is in {run.evaluations}."""
    )


def _options() -> str:
    """The options that are ours, with their defaults; TRL's are only pointed to."""
    from agon.train.recipes import own_options

    lines = ["options of a recipe, or of the command line as --key value:"]
    for each in own_options():
        default: Any = each.default
        lines.append(f"  {each.name:<20} {each.metadata['help']} [{default}]")
    lines.append("")
    lines.append("Every option of TRL's GRPOConfig is an option too, for example --learning_rate 1e-5,")
    lines.append("--num_generations 16 (2N: N drafts and N challenges), --max_completion_length 2048,")
    lines.append("--per_device_train_batch_size 8, --eval_strategy steps, --report_to wandb.")
    return "\n".join(lines)


def _say(sentence: str) -> None:
    print(sentence, file=sys.stderr)
