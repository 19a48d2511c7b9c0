"""List the tasks, or look into one: counts, splits, what was left out, samples.

agon tasks
agon tasks gsm8k --show 2
agon tasks deepmath-hard --path data/ --model Qwen/Qwen3-0.6B
agon tasks gym:chain_sum,min_terms=2,max_terms=3
agon tasks problems.jsonl --json
"""

import argparse
import json

from agon.commands.arguments import whole
from agon.commands.output import working
from agon.game.dialects import DIALECTS, dialect
from agon.printing import say
from agon.reports.task_overview import PromptRenderer, as_text, catalogue, catalogue_text, overview
from agon.tasks import load_task
from agon.tasks.load import check_name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", nargs="?", metavar="NAME", help="a task, with options after commas")
    parser.add_argument("--path", help="a local copy of the benchmark instead of the Hub")
    parser.add_argument("--seed", type=whole(0), default=0, help="the seed of the split (default 0)")
    parser.add_argument("--show", type=whole(0), default=1, metavar="N", help="samples to show (default 1)")
    parser.add_argument("--model", metavar="ID", help="a model whose chat template renders the prompts")
    parser.add_argument(
        "--dialect",
        metavar="NAME",
        help=f"{', '.join(DIALECTS)} or module:object, instead of the one the template implies",
    )
    parser.add_argument(
        "--golds", action="store_true", help="judge the gold answers of a benchmark too (a file's always are)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")


def run(arguments: argparse.Namespace) -> int:
    if arguments.name is None:
        say(json.dumps(catalogue(), indent=2) if arguments.json else catalogue_text())
        return 0
    check_name(arguments.name, arguments.path)
    if arguments.dialect is not None:
        dialect(arguments.dialect)
    with working(f"reading {arguments.name.split(',')[0]}"):
        task = load_task(arguments.name, arguments.path, arguments.seed)
        renderer = PromptRenderer(arguments.model, arguments.dialect)
        facts = overview(task, renderer, arguments.show, judge_golds=arguments.golds)
    say(json.dumps(facts, indent=2, ensure_ascii=False) if arguments.json else as_text(facts))
    return 0
