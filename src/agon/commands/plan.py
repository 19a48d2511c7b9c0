"""Estimate what a recipe needs before anything is downloaded: memory, tokens, time.

agon plan qwen3-0.6b-deepmath --gpu H100 --gpus 8
agon plan qwen3-4b-deepmath --gpus 8 --engine vllm-server --fsdp true
agon plan qwen2.5-0.5b-gsm8k --max_completion_length 1024 --json

Options that are not the plan's own change the recipe, as in `agon train`.
"""

import argparse
import json

from agon.commands.arguments import whole
from agon.commands.output import working
from agon.planning.estimate import GPUS
from agon.planning.recipe_plan import Hardware, plan_recipe, plan_text
from agon.printing import say

PARSES_REST = True


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("recipe", help="a recipe's name or YAML file")
    parser.add_argument(
        "--gpus", type=whole(1), default=1, metavar="N", help="GPUs that train, a process each (default 1)"
    )
    parser.add_argument(
        "--servers",
        type=whole(1),
        metavar="N",
        help="GPUs that serve beside them, for engine vllm-server (as many as train)",
    )
    parser.add_argument("--gpu", default="H100", help=f"one of {', '.join(GPUS)} (default H100)")
    parser.add_argument(
        "--prompt-tokens", type=whole(1), default=400, metavar="N", help="longest prompt (default 400)"
    )
    parser.add_argument(
        "--problems", type=whole(1), metavar="N", help="training problems, if the task is not ours"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(arguments: argparse.Namespace) -> int:
    # A wrong one is refused before torch is loaded.
    hardware = Hardware(arguments.gpu, arguments.gpus, arguments.servers)
    from agon.train.recipes import build_config, read_request

    asked = read_request(arguments.recipe, arguments.rest)
    with working("loading torch"):
        from agon.train.checkpointing import sizes_for

        what, config = asked.what, build_config(asked.options)
    facts = plan_recipe(
        what.model,
        what.task,
        config,
        hardware,
        arguments.prompt_tokens,
        arguments.problems,
        sizes_for(config, hardware.gpus),
    )
    say(json.dumps(facts, indent=2) if arguments.json else plan_text(facts))
    return 0
