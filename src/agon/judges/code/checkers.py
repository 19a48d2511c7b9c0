"""When printed output is right: a checker is a function of input, expected and printed output.

A problem names its checker in `metadata["checker"]`: one of the table, or `module:function` of your
own. It runs in the judge's worker, outside the sandbox, so it must treat the printed output as text only.
"""

import math
import re
from collections.abc import Callable
from decimal import Decimal
from importlib import import_module

from agon.errors import InputError, unknown

_WHOLE = re.compile(r"[+-]?[0-9]{1,4000}")
Checker = Callable[[str, str, str], bool]


def same_tokens(stdin: str, expected: str, printed: str) -> bool:
    """The same tokens in the same order, and equally many; white space does not matter."""
    return printed.split() == expected.split()


def same_tokens_any_case(stdin: str, expected: str, printed: str) -> bool:
    """As `tokens`, for problems that accept YES, Yes and yes."""
    return printed.lower().split() == expected.lower().split()


def same_lines_any_order(stdin: str, expected: str, printed: str) -> bool:
    """The same lines, in any order."""
    return sorted(line.split() for line in printed.strip().splitlines()) == sorted(
        line.split() for line in expected.strip().splitlines()
    )


def close_numbers(stdin: str, expected: str, printed: str) -> bool:
    """As `tokens`, numbers within a relative error of 1e-6; whole numbers exactly.

    Near zero the relative error is too strict for rounded output, so half a unit in the last decimal of the
    expected number is allowed as well, and 1e-6 where exactly 0 is expected."""
    wanted, found = expected.split(), printed.split()
    return len(wanted) == len(found) and all(map(_close, wanted, found))


def _close(expected: str, printed: str) -> bool:
    if expected == printed:
        return True
    try:
        first, second = float(expected), float(printed)
    except (ValueError, OverflowError):
        return False
    if _WHOLE.fullmatch(expected) and first:
        # `5.0000001` may stand for 5, but 1000000000 is not 1000000007, however it is written.
        whole = _WHOLE.fullmatch(printed)
        return (
            int(expected) == int(printed) if whole else math.isclose(first, second, rel_tol=0, abs_tol=1e-6)
        )
    exponent = Decimal(expected).as_tuple().exponent
    last_place = 0.5 * 10.0 ** max(-300, min(0, exponent)) if isinstance(exponent, int) else 0.0
    return math.isclose(first, second, rel_tol=1e-6, abs_tol=min(1e-6, last_place) if first else 1e-6)


CHECKERS: dict[str, Checker] = {
    "tokens": same_tokens,
    "tokens-any-case": same_tokens_any_case,
    "lines-any-order": same_lines_any_order,
    "close-numbers": close_numbers,
}


def checker(name: str) -> Checker:
    """The checker of this name, or the one that `module:function` names."""
    if name in CHECKERS:
        return CHECKERS[name]
    module, colon, function = name.partition(":")
    if not colon:
        raise unknown("checker", name, [*CHECKERS, "module:function"])
    try:
        found: Checker = getattr(import_module(module), function)
    except (ImportError, AttributeError) as fault:
        raise InputError(f"The checker '{name}' cannot be loaded: {fault}.") from fault
    return found
