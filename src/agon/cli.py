"""The command line: one command per job.

`agon COMMAND --help` describes a command. A command is a module of `agon.commands` with `add_arguments(parser)`
and `run(arguments) -> exit code`; it is imported only when it is asked for, so that `agon --help`
answers at once and a light command never loads torch.
"""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import NoReturn

from agon.errors import InputError, unknown
from agon.version import __version__

COMMANDS = {
    "train": "train a pair (or one policy) with any method of the table",
    "tasks": "list the tasks, or look into one: counts, splits, what was left out, samples",
    "plan": "estimate memory, tokens and time of a recipe before anything is downloaded",
    "eval": "evaluate a run or a model: both directions, each adapter alone, the controls",
    "compare": "compare evaluated runs, paired by problem and sample",
    "judge": "judge answers or programs given as JSON lines",
    "methods": "show the table of methods",
    "doctor": "say what this machine has, what is missing and how to fix it",
}


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are our one-sentence errors."""

    def error(self, message: str) -> NoReturn:
        _, stray, given = message.partition("unrecognized arguments: ")
        if stray and given.startswith("-"):
            raise unknown("option", given.split()[0].split("=")[0], self._option_string_actions)
        raise InputError(f"{message[0].upper()}{message[1:]} (see `{self.prog} --help`).")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; bad input is one sentence on standard error and exit code 2."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        return _dispatch(words)
    except InputError as error:
        print(f"agon: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader went away (`agon methods | head -1`). Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        print("agon: interrupted.", file=sys.stderr)
        return 130


def _dispatch(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if words[0] in ("-V", "--version"):
        print(f"agon {__version__}")
        return 0
    name, rest = words[0], words[1:]
    if name not in COMMANDS:
        raise unknown("command", name, COMMANDS)
    command = import_module(f"agon.commands.{name}")
    parser = _parser(name, command)
    try:
        # A command with open-ended options (`agon train --learning_rate 1e-5`) parses them itself.
        if getattr(command, "PARSES_REST", False):
            own, others = _divide(parser, rest)
            arguments = parser.parse_args(own)
            arguments.rest = others
        else:
            arguments = parser.parse_args(rest)
    except SystemExit as leave:  # argparse leaves this way after --help
        return int(leave.code or 0)
    return int(command.run(arguments))


def _divide(parser: argparse.ArgumentParser, words: list[str]) -> tuple[list[str], list[str]]:
    """A command's own words and the open-ended ones; a word belongs to the option before it.

    Argparse would take `coop` of `agon train --method coop` for a recipe.
    """
    own: list[str] = []
    others: list[str] = []
    side = own
    for word in words:
        if word.startswith("-"):
            side = own if word.split("=")[0] in parser._option_string_actions else others
        side.append(word)
    return own, others


def _parser(name: str, command: ModuleType) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"agon {name}",
        description=command.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    return parser


def _overview() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {line}" for name, line in COMMANDS.items())
    return (
        "usage: agon COMMAND [options]\n\n"
        "Agon trains two language models to out-reason each other.\n\n"
        f"{commands}\n\n"
        "`agon COMMAND --help` describes a command; `agon --version` prints the version."
    )


if __name__ == "__main__":
    sys.exit(main())
