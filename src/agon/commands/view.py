"""Look at the duels of runs on a local page, live while a run trains.

  agon view runs/agon
  agon view runs/agon runs/coop --port 8765      to compare them, too
  agon view runs/agon --export duels.html        one page that opens from disk

Nothing is written but an index in the cache folder, and nothing is fetched from outside.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from agon.commands.arguments import whole
from agon.commands.output import working
from agon.printing import say
from agon.view.words import add_filter, filter_words

if TYPE_CHECKING:
    from agon.view.library import Library


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "runs", metavar="RUN", nargs="+", help="folders of `agon train` or of `agon eval --output`"
    )
    parser.add_argument(
        "--port", type=whole(0, 65535), default=7150, help="0 takes a free one (default: 7150)"
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to listen on; whoever reaches it reads the runs (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--export", metavar="FILE", help="write one HTML page with the duels asked for, and end"
    )
    parser.add_argument("--eval-log", metavar="FILE", help="write them as a log of inspect_ai, and end")
    parser.add_argument(
        "--limit", type=whole(1, 20000), default=500, help="duels to write at most (default: 500)"
    )
    parser.add_argument("--source", default="", help="training, or the name of an evaluation")
    add_filter(parser)


def run(arguments: argparse.Namespace) -> int:
    from agon.view.library import Library
    from agon.view.sources import open_runs

    library = Library(open_runs(arguments.runs))
    words = filter_words(arguments)
    if arguments.export or arguments.eval_log:
        return _write(library, arguments, words)
    return _serve(library, arguments, words)


def _write(library: "Library", arguments: argparse.Namespace, words: dict[str, str]) -> int:
    from agon.view.export import write_page
    from agon.view.inspect_log import write_log

    for target, write in ((arguments.export, write_page), (arguments.eval_log, write_log)):
        if target:
            with working("writing the duels"):
                count = write(library, arguments.source, words, arguments.limit, Path(target))
            say(f"{count} duels in {target}.")
    return 0


def _serve(library: "Library", arguments: argparse.Namespace, words: dict[str, str]) -> int:
    from agon.view.server import Viewer, first_link

    with Viewer(library, arguments.host, arguments.port) as viewer:
        say(f"{viewer.url}{first_link(library, arguments.source, words)}", flush=True)
        say("Ctrl-C ends it.", flush=True)
        try:
            viewer.serve_forever()
        except KeyboardInterrupt:
            say()
    return 0
