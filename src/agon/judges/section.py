r"""From an answer section to the one answer it gives.

The rules: the last box counts; boxes that differ are a hedge and score zero; a box that never closes
is no answer; a section without a box is taken whole; an empty one is no answer.
"""

from collections.abc import Callable

from agon.game.markup import boxes
from agon.game.verdict import Verdict


def candidate(section: str, same: Callable[[str, str], bool]) -> str | Verdict:
    r"""The answer of a section, or the verdict that there is none. `same` decides if boxes differ.

    >>> candidate(r"so \boxed{41}, or \boxed{42}", str.__eq__).detail
    'The answer section holds 2 boxes that differ.'
    """
    found = list(boxes(section))
    if not found:
        return section.strip() or Verdict(False, "no-answer", "The answer section is empty.")
    if not found[-1].closed:
        return Verdict(False, "no-answer", "The last box never closes.")
    contents = list(dict.fromkeys(box.content.strip() for box in found))
    last = contents[-1] if len(contents) == 1 else found[-1].content.strip()
    if len(contents) > 10 or not all(same(other, last) for other in contents if other != last):
        return Verdict(False, "wrong", f"The answer section holds {len(contents)} boxes that differ.")
    return last or Verdict(False, "no-answer", "The box is empty.")
