"""What reading a draft did: the four ways a draft and the answer written after it can end.

The one definition of a conversion and a corruption; rewards, duels, metrics and reports all ask here.
"""

from typing import Literal, get_args

Transition = Literal["both right", "converted", "corrupted", "both wrong"]
TRANSITIONS: tuple[Transition, ...] = get_args(Transition)


def transition(draft_correct: bool, answer_correct: bool) -> Transition:
    """How a draft and the answer after it ended.

    >>> transition(draft_correct=False, answer_correct=True)
    'converted'
    """
    if draft_correct:
        return "both right" if answer_correct else "corrupted"
    return "converted" if answer_correct else "both wrong"
