"""The colours of methods, on light and on dark paper, the same in every chart of a page."""

from agon.game.methods import METHODS

# The paper's colours for its three main methods. Each pair is readable as text on its ground (4.5 to 1 and more).
COLOURS: dict[str, tuple[str, str]] = {
    "base": ("#7a7f87", "#9aa2ad"),
    "grpo": ("#4a525d", "#c3cad4"),
    "coop": ("#96640a", "#e0ac4d"),
    "agon": ("#2659a6", "#7fb0f5"),
    "self-refine": ("#2a7449", "#6cc492"),
    "agon-density": ("#6b4fa3", "#b39ae6"),
    "margin": ("#a63d57", "#ee8ba2"),
    "fixed-roles": ("#177a7a", "#5cc7c7"),
    "shared": ("#7a5f2f", "#cdb07a"),
    "hidden": ("#a8480f", "#f09a63"),
    "shuffled": ("#6a6a0e", "#c9c95c"),
    "coop-pooled": ("#2f6f8f", "#79bfe0"),
    "agon-pooled": ("#7a3b93", "#cf97e6"),
    "agon-paired": ("#b02a20", "#f5948c"),
    "other": ("#8b3a8b", "#dd94dd"),
}
GOOD, BAD = ("#23774a", "#63c78f"), ("#a8323e", "#f08c94")


def colour_of(method: str) -> str:
    """The name of a method's colour; methods of one's own share one."""
    return method if method in METHODS and method in COLOURS else "other"
