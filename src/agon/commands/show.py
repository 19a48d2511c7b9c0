"""Look at the duels of a run in the terminal.

  agon show runs/agon                            the run and its newest duels
  agon show runs/agon --converted --step 3..9    those that pass a filter
  agon show runs/agon --duel 3.17                one duel whole
  agon show runs/agon --search "carry the one" --json

What was withheld of a draft is marked in it. `agon view` shows the same on a
local page.
"""

import argparse
import sys

from agon.commands.arguments import whole
from agon.commands.output import working
from agon.view.words import add_filter, filter_words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", help="a folder of `agon train` or of `agon eval --output`")
    parser.add_argument("--duel", metavar="STEP.NUMBER", default="", help="show this one whole")
    parser.add_argument("--group", action="store_true", help="with --duel: all duels of its problem")
    parser.add_argument("--private", action="store_true", help="with --duel: the private reasoning, too")
    parser.add_argument("--source", default="", help="training, or the name of an evaluation")
    parser.add_argument("--limit", type=whole(1, 10000), default=20, help="how many to list (default: 20)")
    parser.add_argument(
        "--json", action="store_true", help="one JSON line per duel, as the run's file has it"
    )
    add_filter(parser)


def run(arguments: argparse.Namespace) -> int:
    from agon.errors import InputError
    from agon.view import api, details, terminal
    from agon.view.library import Library
    from agon.view.sources import open_runs

    words = filter_words(arguments)
    if (arguments.group or arguments.private) and not arguments.duel:
        raise InputError("--group and --private need a --duel STEP.NUMBER.")
    library = Library(open_runs([arguments.run]))
    opened = next(iter(library.runs.values()))
    source = arguments.source or next(iter(opened.sources()), "")
    with working("reading the duels"):
        index = library.index(opened.name, source, wait=1e6)
        shot, found, ids = library.every(index, words, arguments.limit)
        if arguments.duel:
            here = details.find(shot.rows, arguments.duel)
            ids = list(details.group_of(index, shot.rows, shot.rows[here])) if arguments.group else [here]
    if arguments.json:
        for number in ids:
            sys.stdout.write(index.seen(shot.rows[int(number)]).duel.to_json() + "\n")
        return 0
    if arguments.duel:
        duels = [details.one(index, shot.rows, int(number)) for number in ids]
        terminal.show([part for duel in duels for part in terminal.one(duel, arguments.private)])
        return 0
    told = api.curves(library, {"run": opened.name})
    lines = [details.line(index, shot.rows[int(number)]) for number in ids]
    head = terminal.overview(told["facts"], told["outcomes"] if not words else {}, told["evaluations"])
    terminal.show([*head, terminal.listing(lines, found, len(shot.rows), terminal.screen().width)])
    return 0
