"""The embedded default: the tiny base that ships with the package, and the recipe of `agon train` without arguments.

`base/README.md` says what the base can do and how `scripts/pretraining` made it.
"""

from pathlib import Path

EMBEDDED = "embedded"


def base_path() -> Path:
    """The folder of the embedded base: config, tokenizer and weights, as `from_pretrained` reads them."""
    return Path(__file__).parent / "base"


def model_path(name: str) -> str:
    """Where a model is loaded from: `embedded` is ours, any other name is a folder or a Hub id."""
    return str(base_path()) if name == EMBEDDED else name


def default_recipe() -> Path:
    """The recipe of `agon train` without arguments."""
    return Path(__file__).parent / "default.yaml"
