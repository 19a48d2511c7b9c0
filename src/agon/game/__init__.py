"""The method itself, as pure functions: no torch, no I/O, ten minutes to read.

Start with `methods` (the table), then `rewards` and `advantages`; `transcript` and `prompts` say
what a rival may see and how it is framed, `answers` what the answer is; `duel` is the record of what
happened.
"""

from agon.game.advantages import group_advantages, has_signal
from agon.game.dialects import DIALECTS, Dialect, dialect
from agon.game.duel import Duel, Entry
from agon.game.methods import METHODS, Method, method
from agon.game.problem import CodeTests, Problem, StdioTest
from agon.game.prompts import challenger_prompt, plain_prompt
from agon.game.rewards import Outcome, reward, terms
from agon.game.rollout import Rollout
from agon.game.transcript import Transcript, leaks, split
from agon.game.transition import TRANSITIONS, Transition, transition
from agon.game.verdict import REASONS, Verdict

__all__ = [
    "DIALECTS",
    "METHODS",
    "REASONS",
    "TRANSITIONS",
    "CodeTests",
    "Dialect",
    "Duel",
    "Entry",
    "Method",
    "Outcome",
    "Problem",
    "Rollout",
    "StdioTest",
    "Transcript",
    "Transition",
    "Verdict",
    "challenger_prompt",
    "dialect",
    "group_advantages",
    "has_signal",
    "leaks",
    "method",
    "plain_prompt",
    "reward",
    "split",
    "terms",
    "transition",
]
