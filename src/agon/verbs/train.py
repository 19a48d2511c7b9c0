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
    from agon.train.config import AgonConfig
    from agon.train.recipes import RunArguments
    from agon.train.run import Run

PARSES_REST = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "recipe", nargs="?", type=Path, help="YAML file of options; the embedded default if absent"
    )
    parser.add_argument("--resume", type=Path, metavar="RUN", help="go on with an interrupted run")
    parser.epilog = _options() if {"-h", "--help"} & set(sys.argv) else None


def run(arguments: argparse.Namespace) -> int:
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if arguments.resume is not None:
        return _resume(arguments)
    from agon.train.recipes import parse_recipe

    recipe = arguments.recipe
    if recipe is None and not any(word.split("=")[0] == "--task" for word in arguments.rest):
        from agon.embedded import default_recipe

        recipe = default_recipe()
    what, config = parse_recipe(recipe, arguments.rest)
    _choose_folder(what, config)
    return _train(what, config, resume=False)


def _resume(arguments: argparse.Namespace) -> int:
    from agon.train.recipes import rebuild
    from agon.train.run import Run

    if arguments.recipe is not None or arguments.rest:
        raise InputError("A resumed run keeps its own configuration: give `agon train --resume RUN` alone.")
    saved = Run(arguments.resume).read_config()
    if Run(arguments.resume).finished():
        _say(f"The run {arguments.resume} has already finished.")
        return 0
    what, config = rebuild({**saved, "output_dir": str(arguments.resume)})
    return _train(what, config, resume=True)


def _train(what: "RunArguments", config: "AgonConfig", resume: bool) -> int:
    from transformers import PrinterCallback

    from agon.train.live import LiveView
    from agon.train.trainer import AgonTrainer

    view = LiveView()
    trainer = AgonTrainer(model=what.model, task=what.task, args=config, callbacks=[view])
    trainer.remove_callback(PrinterCallback)
    trainer.on_sampling = view.sampling
    try:
        trainer.train(resume_from_checkpoint=resume)
    finally:
        trainer.close()
    if not trainer.is_world_process_zero():
        return 0
    folder = trainer.run.folder
    if trainer.state.global_step < trainer.state.max_steps:
        _say(f"Stopped at step {trainer.state.global_step} of {trainer.state.max_steps}, nothing lost.")
        _say(f"Go on with: agon train --resume {folder}")
        return 130
    _say(f"Finished. The adapters are in {folder / 'adapters'}, everything else beside them in {folder}.")
    return _close(trainer.run, config) if config.final_evaluation else 0


def _close(run: "Run", config: "AgonConfig") -> int:
    """Show a conversion, evaluate the finished run, and say what to do next."""
    from rich.console import Console

    from agon.train.epilogue import show_conversion
    from agon.verbs import eval as evaluation

    show_conversion(run, Console())
    parser = argparse.ArgumentParser()
    evaluation.add_arguments(parser)
    if code := evaluation.run(parser.parse_args([str(run.folder), "--limit", str(config.final_evaluation)])):
        return code
    print(
        f"""
What next:
  agon eval {run.folder}                 the same on all test problems
  agon train --method grpo                one policy alone, on the same budget
  agon compare {run.folder} runs/OTHER   two runs, paired by problem
  agon train recipes/qwen2.5-0.5b-gsm8k.yaml   a real model, on one GPU with the Hub
Every sample, with its interval and token counts, is in {run.folder / "evaluations"}."""
    )
    return 0


def _choose_folder(what: "RunArguments", config: "AgonConfig") -> None:
    """Name the run after what it is, unless it was named; never write into another run."""
    if config.output_dir and config.output_dir != "trainer_output":
        if (Path(config.output_dir) / "config.yaml").exists():
            raise InputError(
                f"'{config.output_dir}' already holds a run: go on with `agon train --resume {config.output_dir}`, "
                "or choose another --output_dir."
            )
        return
    parts = [Path(what.model).name, what.task.split(",")[0], config.method, f"s{config.seed}"]
    name = "-".join(parts).replace("/", "-").replace(":", "-").lower()
    taken, number = Path("runs") / name, 1
    while taken.exists():
        number += 1
        taken = Path("runs") / f"{name}-{number}"
    config.output_dir = str(taken)


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
