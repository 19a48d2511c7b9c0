"""Types of the commands' own options: each reads a word, or says what is allowed and what it was given."""

import argparse
import math
from collections.abc import Callable


def whole(least: int, most: int | None = None) -> Callable[[str], int]:
    """A whole number within bounds."""
    allowed = f"a whole number of at least {least}" + (f" and at most {most}" if most is not None else "")

    def read(written: str) -> int:
        try:
            value = int(written)
        except ValueError:
            raise _wrong(allowed, written) from None
        if value < least or (most is not None and value > most):
            raise _wrong(allowed, written)
        return value

    return read


def number(least: float, most: float | None = None, *, above: bool = False) -> Callable[[str], float]:
    """A finite number of at least `least`, or above it, and up to `most`."""
    allowed = f"a number {'above' if above else 'of at least'} {least:g}"
    allowed += f" and up to {most:g}" if most is not None else ""

    def read(written: str) -> float:
        try:
            value = float(written)
        except ValueError:
            raise _wrong(allowed, written) from None
        outside = value < least or (above and value == least) or (most is not None and value > most)
        if not math.isfinite(value) or outside:
            raise _wrong(allowed, written)
        return value

    return read


def switch(written: str) -> bool:
    """True or false."""
    if written.lower() not in ("true", "false"):
        raise _wrong("true or false", written)
    return written.lower() == "true"


def add_trust(parser: argparse.ArgumentParser) -> None:
    """The word that lets a run folder do more than be read."""
    parser.add_argument(
        "--trust-run-code",
        action="store_true",
        help="let the run's folder name code, switch off the sandbox and reach the network (docs/security.md)",
    )


def add_servers(parser: argparse.ArgumentParser) -> None:
    """Where the servers are that sample."""
    parser.add_argument(
        "--vllm-servers",
        nargs="+",
        default=[],
        metavar="URL",
        help="addresses of `vllm serve` processes for --engine vllm-server; the run's otherwise",
    )


def _wrong(allowed: str, written: str) -> argparse.ArgumentTypeError:
    return argparse.ArgumentTypeError(f"must be {allowed}, not '{written}'")
