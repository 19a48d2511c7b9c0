"""The one error a user may cause: a sentence that says what was wrong and what to do.

The command line prints the sentence and exits with code 2. Anything else that is raised is a fault
of ours and keeps its traceback.
"""

import traceback
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches

MANY = 20  # names that a sentence lists; reasoning-gym has a hundred generators


class InputError(ValueError):
    """Bad input from a user: an unknown name, a missing file, an impossible combination."""


class UntrustedRunError(InputError):
    """A run folder asks for what only the person at the keyboard may grant; `words` are what would grant it.

    The command line prints the whole command in place of the end of the sentence.
    """

    def __init__(self, sentence: str, words: tuple[str, ...]) -> None:
        super().__init__(f"{sentence}; if you trust whoever made it, say trust_run_code=True.")
        self.sentence = sentence
        self.words = words


def unknown(what: str, given: str, known: Iterable[str]) -> InputError:
    """The error for a name that is not in a closed list; it names the nearest right value.

    >>> str(unknown("method", "argon", ["agon", "coop"]))
    "Unknown method 'argon': did you mean 'agon'?"
    """
    names = sorted(known)
    near = get_close_matches(given, names, n=1, cutoff=0.5)
    shown = names if len(names) <= MANY else [*names[:MANY], f"… ({len(names)} in all)"]
    hint = f"did you mean '{near[0]}'?" if near else f"choose one of {', '.join(shown)}."
    return InputError(f"Unknown {what} '{given}': {hint}")


@contextmanager
def own_code(what: str) -> Iterator[None]:
    """What a user's own module raises becomes one sentence, with the place where it was raised."""
    try:
        yield
    except InputError:
        raise
    except (Exception, SystemExit) as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        file, line = last.filename, last.lineno
        if isinstance(error, SyntaxError) and error.filename:
            file, line = error.filename, error.lineno
        said = (str(error).strip().splitlines() or ["no message"])[0]
        raise InputError(f"{what} raised {type(error).__name__}: {said} ({file}, line {line}).") from error
