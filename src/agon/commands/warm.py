"""Teach a base without a thinking mode to speak a dialect, from its own right solutions.

  agon warm Qwen/Qwen2.5-0.5B-Instruct --task gsm8k --dialect think
  agon warm models/base --task gsm8k --engine vllm --output models/base-think
  agon train --model models/base-think --task gsm8k

Solutions are sampled and judged; right ones are rewritten as private reasoning, a summary in the base's own
words without the answer, and the answer; TRL's SFT trains on them. The result is a plain model folder with a
card. Printed is what the model wrote before and after: zero-shot, the untrained cascade, the share of
well-formed completions, and how many summaries tell the answer. The same command goes on where it was stopped.
"""

import argparse
import json
import sys
from pathlib import Path

from agon.commands.arguments import number, whole
from agon.commands.output import add_formats, progress_bars, quiet_loading, show_tables, working
from agon.evaluate.request import LARGEST_SEED
from agon.judges.code.sandbox import SANDBOXES
from agon.printing import say
from agon.warm.request import WarmRequest


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL", help="a model: folder or Hub id")
    parser.add_argument("--task", required=True, help="task whose training problems are solved")
    parser.add_argument(
        "--dialect", default="think", help="what is taught: think (default), gemma, module:object"
    )
    parser.add_argument("--output", type=Path, metavar="DIR", help="the model's folder (default: warmed/…)")
    parser.add_argument("--path", help="local copy of the benchmark")
    parser.add_argument("--judge", help="math, code, gym, exact or module:object; the task's otherwise")
    parser.add_argument("--sandbox", choices=SANDBOXES, help="what runs programs")
    parser.add_argument(
        "--problems", type=whole(1), default=800, metavar="N", help="training problems (default 800)"
    )
    parser.add_argument(
        "--samples", type=whole(1), default=4, metavar="K", help="solutions to each (default 4)"
    )
    parser.add_argument(
        "--per-problem", type=whole(1), default=2, metavar="N", help="most that become examples (default 2)"
    )
    parser.add_argument(
        "--max-tokens", type=whole(1), default=512, help="most tokens of a completion (default 512)"
    )
    parser.add_argument("--temperature", type=number(0), default=0.8, help="of the solutions (default 0.8)")
    parser.add_argument(
        "--epochs", type=number(0, above=True), default=2.0, help="passes over the examples (default 2)"
    )
    parser.add_argument(
        "--learning-rate", type=number(0, above=True), default=2e-4, help="of the fine-tuning (default 2e-4)"
    )
    parser.add_argument(
        "--batch", type=whole(1), default=16, help="examples in an optimizer step (default 16)"
    )
    parser.add_argument(
        "--rank", type=whole(1), default=32, help="rank of the adapter that is merged (default 32)"
    )
    parser.add_argument("--split", default="validation", choices=("train", "validation", "test"))
    parser.add_argument(
        "--limit", type=whole(1), default=200, metavar="N", help="problems before and after (default 200)"
    )
    parser.add_argument("--seed", type=whole(0, LARGEST_SEED), default=0)
    parser.add_argument("--engine", default="transformers", help="transformers (default) or vllm")
    parser.add_argument(
        "--rows",
        type=whole(1),
        default=256,
        metavar="N",
        help="completions that transformers samples at once",
    )
    parser.add_argument("--vllm-kv-cache-bytes", type=whole(1), metavar="N", help="bytes of vLLM's cache")
    parser.add_argument(
        "--max-model-len", type=whole(1), metavar="N", help="tokens that vLLM holds of a sequence"
    )
    add_formats(parser)


def run(arguments: argparse.Namespace) -> int:
    asked = {name: value for name, value in vars(arguments).items() if name != "form"}
    request = WarmRequest(**asked)
    request.check()
    try:
        with working(f"reading {arguments.model}"):
            from agon.warm.warm import warm_up

            quiet_loading()
        with progress_bars() as watch:
            result = warm_up(request, watch)
    except KeyboardInterrupt:
        say("agon: interrupted; what was sampled is kept, and the same command goes on.", file=sys.stderr)
        return 130
    if arguments.form == "json":
        say(json.dumps(result, indent=2))
        return 0
    from agon.reports.warm_table import warm_table

    show_tables([warm_table(result)], arguments.form)
    if arguments.form is None:
        # Which dialect of the package a model speaks is seen from its template; one of the user's own has to be named.
        own = f" --dialect {request.dialect}" if ":" in request.dialect else ""
        say(
            f"The model is in {result['output']}: "
            f"agon train --model {result['output']} --task {request.task}{own}"
        )
    return 0
