r"""Judge answers or programs given as JSON lines.

One object a line on standard input, one verdict a line on standard output, in the same order, while
input is still being read:

  agon judge math   {"gold": "1/2", "answer": "0.5"}
                    with --dialect {"gold": …, "text": completion}
  agon judge code   {"program": …, "tests": [{"input": …, "output": …}]}
                    {"program": …, "setup": …, "asserts": ["assert f(1) == 2"]}
  agon judge gym    {"gym": dataset, "entry": {…}, "answer": …}
  agon judge exact  as math; so does module:object, your own judge

  {"correct": true, "reason": "correct", "seconds": 0.01}

A verdict that is not `correct` may carry a sentence in `detail`. A line that cannot be read gets a
verdict with reason `error`; the rest go on.
"""

import argparse
import json
import sys
from typing import Any

from agon.commands.arguments import number, whole
from agon.game.dialects import DIALECTS, dialect
from agon.game.verdict import Verdict
from agon.judges.code.languages import language
from agon.judges.code.sandbox import SANDBOXES
from agon.judges.lines import judge_lines, reader_for
from agon.judges.pool import JudgePool
from agon.judges.registry import options_for
from agon.printing import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("judge", help="math, code, gym, exact, or module:object")
    parser.add_argument(
        "--dialect",
        metavar="NAME",
        help=f"how a whole completion in `text` is written: {', '.join(DIALECTS)} or module:object",
    )
    parser.add_argument("--workers", type=whole(1), default=2, help="worker processes (default 2)")
    parser.add_argument(
        "--deadline",
        type=number(0, above=True),
        help="seconds after which a verdict is a timeout (default: the judge's)",
    )
    parser.add_argument(
        "--memory", type=whole(1), metavar="MIB", help="memory of a worker in MiB (default: the judge's)"
    )
    parser.add_argument(
        "--sandbox",
        choices=SANDBOXES,
        default="bubblewrap",
        help="`none` runs programs with the rights of the user who calls this",
    )
    parser.add_argument("--language", default="python", help="the language of programs (default python)")


def run(args: argparse.Namespace) -> int:
    language(args.language)  # a wrong one is refused also where no program is judged
    if args.dialect is not None:
        dialect(args.dialect)
    options = options_for(args.judge, sandbox=args.sandbox, language=args.language)
    memory = args.memory << 20 if args.memory else None
    with JudgePool(
        args.judge, workers=args.workers, deadline=args.deadline, memory_bytes=memory, **options
    ) as pool:
        if options.get("sandbox") == "none":
            say("agon: programs run without a sandbox, with your rights.", file=sys.stderr)
        if sys.stdin.isatty():
            say("agon: reading JSON lines from the terminal; Ctrl-D ends them.", file=sys.stderr)
        judge_lines(sys.stdin, pool, reader_for(args.judge, args.dialect), _print_verdict)
        counts = pool.counts
    if counts.timeouts or counts.crashes:
        say(f"agon: {counts.timeouts} timeouts, {counts.crashes} crashed workers.", file=sys.stderr)
    return 0


def _print_verdict(verdict: Verdict) -> None:
    fields: dict[str, Any] = {
        "correct": verdict.correct,
        "reason": verdict.reason,
        "seconds": round(verdict.seconds, 6),
    }
    if verdict.score is not None:
        fields["score"] = verdict.score
    if verdict.detail:
        fields["detail"] = verdict.detail
    say(json.dumps(fields), flush=True)
