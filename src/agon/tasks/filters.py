"""What disqualifies a row: an answer that a coin flip would find, a statement that accepts several answers."""

import re

_BINARY = {
    *("yes", "no", "true", "false", "correct", "incorrect", "right", "wrong", "possible", "impossible"),
    *("converges", "diverges", "convergent", "divergent", "even", "odd", "positive", "negative"),
}
_WRAPPER = re.compile(r"\\(?:text|mathrm|mathbf|textbf|boxed)\s*\{([^{}]*)\}")
_ANY_ANSWER = re.compile(
    r"(print|output|find|choose|report|return|display|give)s?\s+(out\s+)?any(\s+one)?(\s+of)?\s"
    r"|any\s+(one\s+)?(of\s+them|such|valid|suitable|correct|possible|appropriate)\b"
    r"|(multiple|several|many|more\s+than\s+one)\s+(\w+\s+)?(answer|solution|output|way|sequence|string|permutation)"
    r"|any\s+(answer|solution|order|arrangement|permutation)"
    r"|(absolute|relative)\s+(or\s+(absolute|relative)\s+)?error"
    r"|special\s+judge|interactive\s+problem|in\s+arbitrary\s+order",
    re.IGNORECASE,
)


def is_binary(answer: str) -> bool:
    r"""Whether an answer is one of only two that are possible (yes/no, true/false and the like).

    >>> is_binary(r"\text{Yes}."), is_binary("1")
    (True, False)
    """
    return _WRAPPER.sub(r"\1", answer).strip(" .$!\\()").lower() in _BINARY


def has_several_answers(statement: str) -> bool:
    """Whether the statement of a programming problem itself says that more than one output is accepted.

    A heuristic over the statement's words; it leaves out too many problems rather than too few.
    """
    return _ANY_ANSWER.search(statement) is not None
