"""The embedded default: a tiny base reasoner that ships with the package, and how it was made.

`traces` says how it reasons, `tokenizer` how it reads, `pretrain` makes it from nothing
(`python -m agon.embedded.pretrain`), and `quality` measures what a base must have before it is worth
training: `base/README.md` holds the figures.
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
