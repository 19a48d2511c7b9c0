"""A pool of worker processes that judge answers, each verdict under a deadline.

    with JudgePool("math", workers=4) as pool:
        verdicts = pool.judge_all([(problem, "42"), (problem, "43")])   # in order
        future = pool.submit(problem, "42")                             # while the GPU samples

A worker that hangs, dies or uses too much memory costs its own verdict only. A verdict that takes
longer than usual loses its slot to a fresh worker (a fork, milliseconds), and if it computes it is paused
while other answers wait. So a few hanging answers in a hundred hardly slow down the rest. Its deadline is in
time of its own, without pauses and without waiting for a CPU, so a slow right answer does not starve among
many quick ones. No failure is silent: `pool.counts` says how often each kind happened.

Closing the pool, or the death of its process, kills every worker. Answers that still wait fail.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any

from agon.game.problem import Problem
from agon.game.verdict import Verdict
from agon.judges.judge import Judge
from agon.judges.limits import PoolCounts, limits_of
from agon.judges.pool.dispatcher import Dispatcher
from agon.judges.pool.worker import Job
from agon.judges.registry import as_judge, build, is_own


class JudgePool:
    """Judges answers in worker processes. `judge` is a spec (`"math"`, `"module:object"`), an object
    with a `judge` method, or a plain function `(problem, answer) -> bool | float | Verdict`."""

    def __init__(
        self,
        judge: str | Judge | Callable[..., Any] | Sequence[Callable[..., Any]],
        workers: int = 2,
        deadline: float | None = None,
        memory_bytes: int | None = None,
        patience: float | None = None,
        **options: Any,
    ) -> None:
        self.judge = build(judge, **options) if isinstance(judge, str) else as_judge(judge)
        own = limits_of(self.judge)
        self.limits = replace(
            own,
            deadline=own.deadline if deadline is None else deadline,
            memory_bytes=own.memory_bytes if memory_bytes is None else memory_bytes,
            patience=own.patience if patience is None else patience,
        )
        self._dispatcher = Dispatcher(self.judge, workers, self.limits)
        self._closing = threading.Lock()

    @property
    def reads_completion(self) -> bool:
        """Whether the judge is given whole completions, and not only their answer sections."""
        return bool(getattr(self.judge, "reads_completion", False))

    @property
    def counts(self) -> PoolCounts:
        """How many verdicts so far, and how many of them were timeouts, crashes or errors."""
        return self._dispatcher.counts

    def submit(self, problem: Problem, answer: str) -> Future[Verdict]:
        """Judge in the background."""
        future: Future[Verdict] = Future()
        self._dispatcher.add(Job(problem, answer, future))
        return future

    def judge_all(self, pairs: Iterable[tuple[Problem, str]]) -> list[Verdict]:
        """The verdicts of many answers, in the order given."""
        return [future.result() for future in [self.submit(*pair) for pair in pairs]]

    def close(self) -> None:
        """Kill every worker now; answers that still wait fail."""
        with self._closing:
            self._dispatcher.close()

    def __enter__(self) -> "JudgePool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass(frozen=True)
class BadGold:
    """A problem whose gold answer its judge does not accept."""

    problem: Problem
    verdict: Verdict


def check_golds(pool: JudgePool, problems: Sequence[Problem]) -> list[BadGold]:
    """The problems whose own gold answer would not be accepted: no policy can ever solve them.

    The gold is given the way a policy gives it, in a box; a judge of your own that knows nothing of boxes
    may accept it bare. Programs have tests and no gold, and where a reward function decides there may be none.
    """
    own = is_own(pool.judge)
    golds = [problem for problem in problems if problem.tests is None and (problem.answer or not own)]
    bad = _refused(pool, golds, r"\boxed{%s}")
    if not own:
        return bad
    bare = {each.problem.id for each in _refused(pool, [each.problem for each in bad], "%s")}
    return [each for each in bad if each.problem.id in bare]


def _refused(pool: JudgePool, golds: Sequence[Problem], form: str) -> list[BadGold]:
    verdicts = pool.judge_all((problem, form % problem.answer) for problem in golds)
    return [
        BadGold(problem, verdict)
        for problem, verdict in zip(golds, verdicts, strict=True)
        if not verdict.correct
    ]
