"""The command line: one command per job.

`agon COMMAND --help` describes a command. A command is a module of `agon.commands` with `add_arguments(parser)`
and `run(arguments) -> exit code`; it is imported only when it is asked for, so that `agon --help`
answers at once and a light command never loads torch.
"""

import argparse
import errno
import os
import re
import shlex
import signal
import sys
import textwrap
import traceback
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType, TracebackType
from typing import NoReturn

from agon.errors import InputError, UntrustedRunError, unknown
from agon.faults import machine_fault
from agon.printing import guarded_streams, plain, say
from agon.version import __version__

COMMANDS = {
    "train": "train a pair (or one policy) with any method of the table",
    "tasks": "list the tasks, or look into one: counts, splits, samples",
    "plan": "estimate memory, tokens and time of a recipe before a download",
    "warm": "teach a base to speak a dialect, from its own right solutions",
    "rehearse": "play two steps of a recipe with random weights: memory, hours",
    "sweep": "train and evaluate many runs: methods, seeds, options",
    "eval": "evaluate a run or a model: both directions, adapters, controls",
    "check": "verify a run folder and say what could be resumed",
    "ask": "ask a trained pair a problem and watch both stages",
    "serve": "serve a trained pair to any OpenAI client",
    "export": "write a pair for plain vLLM: adapters, command line, client",
    "compare": "compare evaluated runs, paired by problem and sample",
    "report": "write one page about runs or a sweep, with verdicts",
    "best": "compare the checkpoints of a run on validation",
    "extend": "let a finished run go on for more steps",
    "push": "upload a run's adapters to the Hub, with cards",
    "view": "look at the duels of runs on a local page, live",
    "show": "look at the duels of a run in the terminal",
    "judge": "judge answers or programs given as JSON lines",
    "methods": "show the table of methods",
    "doctor": "say what this machine has, what is missing and how to fix it",
}

LONGEST_WORD = 200  # of what a sentence quotes
COLUMNS = 79  # of a help text


class _Parser(argparse.ArgumentParser):
    """An argument parser whose errors are our one-sentence errors."""

    def error(self, message: str) -> NoReturn:
        _, stray, given = message.partition("unrecognized arguments: ")
        if stray and given.startswith("-"):
            raise unknown("option", given.split()[0].split("=")[0], self._option_string_actions)
        name, colon, wrong = message.removeprefix("argument ").partition(": ")
        if colon and wrong.startswith("must be "):
            raise InputError(f"{name} {wrong}.")
        raise InputError(f"{message[0].upper()}{message[1:]} (see `{self.prog} --help`).")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; bad input is one sentence on standard error and exit code 2.

    An error inside keeps its traceback, after a sentence that says what became of the work.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    with guarded_streams():
        return _main(words)


def _main(words: list[str]) -> int:
    try:
        return _dispatch(words)
    except UntrustedRunError as error:
        command = shlex.join(["agon", *words, *error.words])
        if speaker := _speaker():
            sentence = _one_line(error.sentence)
            say(f"{speaker}: {sentence}; if you trust whoever made it: {command}", file=sys.stderr)
        return 2
    except InputError as error:
        if speaker := _speaker():
            say(f"{speaker}: {_one_line(error)}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        # The reader went away (`agon methods | head -1`). Python would complain again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except KeyboardInterrupt:
        say("agon: interrupted.", file=sys.stderr)
        return 130
    except Exception as error:
        if isinstance(error, OSError) and error.errno == errno.ENAMETOOLONG:
            name = _one_line(error.filename or "a word")
            say(f"agon: '{name}' is too long for the name of a file.", file=sys.stderr)
            return 2
        fault = machine_fault(error, evaluating=words[:1] in (["eval"], ["warm"]))
        if fault:
            say(f"agon: {_one_line(fault)}.", file=sys.stderr)
            return 2
        notes = getattr(error, "__notes__", None) or [
            f"`agon {' '.join(words[:1])}` failed by an error inside; please report it with the lines below."
        ]
        say(f"agon: {' '.join(notes)}", file=sys.stderr, flush=True)
        error.__notes__ = []
        sys.excepthook = _show_traceback
        raise


def _speaker() -> str | None:
    """Who says what was wrong, of several processes that a launcher has started.

    Before they have joined, all processes of a host find the same, and its first one says it.
    """
    local, rank = os.environ.get("LOCAL_RANK", "0"), os.environ.get("RANK", "0")
    torch = sys.modules.get("torch")
    joined = torch is not None and torch.distributed.is_available() and torch.distributed.is_initialized()
    if not joined and local != "0":
        return None
    return "agon" if rank == "0" else f"agon, process {rank}"


def _show_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Python's own, but for what a terminal would obey."""
    sys.stderr.write(plain("".join(traceback.format_exception(kind, error, trace))))


def _one_line(said: object) -> str:
    """A sentence on one line, whatever was quoted in it."""
    words = str(said).split()
    return " ".join(word if len(word) <= LONGEST_WORD else f"{word[:LONGEST_WORD]}…" for word in words)


def _dispatch(words: list[str]) -> int:
    if words[:1] == ["help"] and len(words) > 1:
        words = [words[1], "--help", *words[2:]]
    if not words or words[0] in ("-h", "--help", "help"):
        say(_overview())
        return 0
    if words[0] in ("-V", "--version"):
        say(f"agon {__version__}")
        return 0
    name, rest = words[0], words[1:]
    if name not in COMMANDS:
        raise unknown("command", name, COMMANDS)
    command = import_module(f"agon.commands.{name}")
    parser = _parser(name, command)
    if {"-h", "--help"} & set(rest) and hasattr(command, "epilog"):
        parser.epilog = command.epilog()
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
        # A negative number is a value of the option before it.
        if word.startswith("-") and not re.fullmatch(r"-[\d.]+(e-?\d+)?|-inf|-nan", word):
            side = own if word.split("=")[0] in parser._option_string_actions else others
        side.append(word)
    return own, others


def _parser(name: str, command: ModuleType) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"agon {name}",
        description=_wrapped(command.__doc__ or ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    command.add_arguments(parser)
    return parser


def _wrapped(text: str) -> str:
    """A docstring for a terminal: paragraphs are wrapped, examples stay as they are."""
    parts = text.strip().split("\n\n")
    kept = [any(line.startswith((" ", "agon ")) for line in part.splitlines()) for part in parts]
    return "\n\n".join(
        part if as_is else textwrap.fill(" ".join(part.split()), COLUMNS)
        for part, as_is in zip(parts, kept, strict=True)
    )


def _overview() -> str:
    width = max(map(len, COMMANDS))
    commands = "\n".join(f"  {name:<{width}}  {line}" for name, line in COMMANDS.items())
    return (
        "usage: agon COMMAND [options]\n\n"
        "Agon trains two language models to out-reason each other.\n\n"
        f"{commands}\n\n"
        "`agon help COMMAND` describes a command; `agon --version` prints the version."
    )


if __name__ == "__main__":
    sys.exit(main())
