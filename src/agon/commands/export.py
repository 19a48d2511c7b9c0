"""Write a pair for plain vLLM: both adapters, a `vllm serve` command line, and a client of 30 lines.

agon export runs/agon exported           adapters, serve.sh, ask.py
agon export runs/agon exported --merged  and each policy as a whole model
"""

import argparse
from pathlib import Path

from agon.commands.arguments import add_trust
from agon.commands.output import quiet_loading, working
from agon.printing import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_folder", metavar="RUN", help="folder of a run")
    parser.add_argument("folder", metavar="DIR", type=Path, help="a folder that is new or empty")
    parser.add_argument(
        "--merged", action="store_true", help="also each policy merged into the base, as a whole model"
    )
    add_trust(parser)


def run(arguments: argparse.Namespace) -> int:
    with working(f"exporting {arguments.run_folder}"):
        from agon.serve.export import export

        quiet_loading()
        written = export(arguments.run_folder, arguments.folder, arguments.merged, arguments.trust_run_code)
    for path in written:
        say(path)
    return 0
