"""Where duels are played: problems in, judged duels out."""

from agon.arena.arena import Arena, JudgeLike

__all__ = ["Arena", "JudgeLike"]
