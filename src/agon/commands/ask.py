"""Ask a trained pair a problem and watch both stages: the draft, then the answer of the other.

  agon ask runs/agon "What is 27 + 35 - 11?"
  agon ask runs/agon --model agon-ba < problem.txt

The answer goes to standard output, everything else to standard error.
"""

import argparse
import asyncio
import json
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from agon.commands.arguments import whole
from agon.commands.output import quiet_loading, working
from agon.commands.serve import add_engine_arguments, serve_options
from agon.errors import InputError
from agon.printing import plain as as_text
from agon.printing import say

if TYPE_CHECKING:
    from agon.serve.service import Service

DIM, PLAIN = "\x1b[2m", "\x1b[0m"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_folder", metavar="RUN", help="folder of a run")
    parser.add_argument("problem", nargs="?", help="the problem; read from standard input if left out")
    parser.add_argument(
        "--model", default="agon", help="agon (default), agon-ab, agon-ba, agon-a, agon-b or agon-base"
    )
    parser.add_argument("--system", metavar="TEXT", help="a system prompt for both stages")
    parser.add_argument("--seed", type=whole(0, 2**63 - 1), help="the same seed gives the same answer")
    parser.add_argument("--json", action="store_true", help="print draft, summary shown and answer as JSON")
    add_engine_arguments(parser)


def run(arguments: argparse.Namespace) -> int:
    problem = arguments.problem if arguments.problem is not None else sys.stdin.read()
    if not problem.strip():
        raise InputError("There is no problem to ask: give it after the run, or on standard input.")
    with working(f"loading {arguments.run_folder}"):
        from agon.serve.errors import ApiError
        from agon.serve.open import open_service

        quiet_loading()
    options = serve_options(arguments)
    with open_service(arguments.run_folder, options, arguments.trust_run_code) as opened:
        before = [{"role": "system", "content": arguments.system}] if arguments.system else []
        asked = {
            "model": arguments.model,
            "messages": [*before, {"role": "user", "content": problem}],
            "seed": arguments.seed,
            "stream": True,
        }
        try:
            reply = asyncio.run(_watched(opened.service, asked, quiet=arguments.json))
        except ApiError as error:
            raise InputError(error.message) from error
    if arguments.json:
        say(json.dumps(reply, indent=2))
    return 0


async def _watched(service: "Service", asked: dict[str, Any], quiet: bool) -> dict[str, Any]:
    """Print an answer as it is sampled, and return it."""
    from agon.serve.cascade import Delta
    from agon.serve.replies import Reply
    from agon.serve.schema import ChatRequest
    from agon.serve.stages import Answer

    (ask,) = service.asks(ChatRequest.model_validate(asked))
    reply = Reply(asked["model"], ask.route, service.fingerprint, len(ask.prompt_ids), with_agon=True)
    answers: list[Answer] = []
    dim, plain = (DIM, PLAIN) if sys.stderr.isatty() else ("", "")
    kind = None
    async with aclosing(service.cascade.answer(ask)) as events:
        async for event in events:
            if isinstance(event, Answer):
                answers.append(event)
            elif isinstance(event, Delta) and not quiet:
                if kind == "reasoning" and event.kind == "content":
                    sys.stderr.write("\n\n")
                kind = event.kind
                out = sys.stdout if kind == "content" else sys.stderr
                text = as_text(event.text)
                out.write(f"{dim}{text}{plain}" if out is sys.stderr else text)
                out.flush()
    (answer,) = answers
    if not quiet:
        print(flush=True)
        stages = "; ".join(
            f"{stage.policy} {stage.tokens} tokens in {stage.seconds:.1f} s" for stage in answer.stages
        )
        ran_out = " (ran out of tokens)" if answer.finish_reason == "length" else ""
        sys.stderr.write(f"{dim}{ask.route.name}: {stages}{ran_out}{plain}\n")
    return reply.completion(answers)
