"""How a model family writes: where its reasoning ends and where its answer stands."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

from agon.errors import unknown
from agon.own_parts import is_part, load_part


@dataclass(frozen=True)
class Dialect:
    """One way of writing. A dialect with a private block hides what stands inside `opens`/`closes`.

    `answer` says where the answer stands: in an `<answer>` block, or in the text's boxes (or, for a
    program, its last fenced block).
    """

    name: str
    opens: str
    closes: str
    answer: Literal["block", "box"]
    # What `apply_chat_template` needs to hear so that the model thinks before it answers.
    template: Mapping[str, bool] = field(default_factory=dict)

    @property
    def private(self) -> bool:
        return bool(self.opens)


DIALECTS: dict[str, Dialect] = {
    "think": Dialect("think", "<think>", "</think>", "block", {"enable_thinking": True}),
    # Gemma 4 labels its channel on the opening token's line: <|channel>thought\n … <channel|>
    "gemma": Dialect("gemma", "<|channel>", "<channel|>", "block", {"enable_thinking": True}),
    "boxed": Dialect("boxed", "", "", "box", {}),
}


def dialect(name: str) -> Dialect:
    """The dialect of this name, or the one that `module:object` names; that is then its name."""
    if is_part(name):
        return _own(name)
    if name not in DIALECTS:
        raise unknown("dialect", name, DIALECTS)
    return DIALECTS[name]


@cache  # asked for every rollout
def _own(name: str) -> Dialect:
    found: Dialect = load_part(name, "dialect", Dialect)
    return replace(found, name=name)
