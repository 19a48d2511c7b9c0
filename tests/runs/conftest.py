"""The tiny pair, its problems and a run of it, for every test here."""

from tests.evaluate.fixtures import arena, base, problems, run

__all__ = ["arena", "base", "problems", "run"]
