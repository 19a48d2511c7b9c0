"""The one error a user may cause: a sentence that says what was wrong and what to do.

The command line prints the sentence and exits with code 2. Anything else that is raised is a fault
of ours and keeps its traceback.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """Bad input from a user: an unknown name, a missing file, an impossible combination."""


def unknown(what: str, given: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not in a closed list; it names the nearest right value.

    >>> str(unknown("method", "argon", ["agon", "coop"]))
    "Unknown method 'argon': did you mean 'agon'?"
    """
    names = sorted(known)
    near = get_close_matches(given, names, n=1, cutoff=0.5)
    hint = f"did you mean '{near[0]}'?" if near else f"choose one of {', '.join(names)}."
    return InputError(f"Unknown {what} '{given}': {hint}")
