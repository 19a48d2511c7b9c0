"""Judges that misbehave, for the tests of the pool; a worker imports them from here."""

import os
import signal
import time
from dataclasses import dataclass

from agon.game.problem import Problem
from agon.game.verdict import Verdict


def misbehave(problem: Problem, answer: str) -> bool | Verdict:
    """Does what the answer says, and otherwise compares it with the gold."""
    if answer == "hang":
        while True:
            pass
    if answer == "sleep":
        time.sleep(1000)
    if answer == "die":
        os._exit(3)
    if answer == "be killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if answer == "segfault":
        os.kill(os.getpid(), signal.SIGSEGV)
    if answer == "grow":
        kept = []
        while True:
            kept.append(bytes(128 << 20))  # address space only: filling it takes its time
    if answer == "leave":
        raise SystemExit(0)
    if answer == "raise":
        raise ValueError("this judge is broken")
    if answer == "print":
        print("noise on standard output" * 1000, flush=True)
    if answer == "who":
        return Verdict(False, "wrong", str(os.getpid()))
    if answer == "leave a child":
        pid = os.fork()
        if pid == 0:
            time.sleep(1000)
        return Verdict(False, "wrong", str(pid))
    if answer == "work":
        until = time.process_time() + 0.01
        while time.process_time() < until:
            pass
        return True
    if answer == "slow":
        until = time.process_time() + 0.5
        while time.process_time() < until:
            pass
        return True
    if answer == "half a second":
        time.sleep(0.5)
        return True
    return answer == problem.answer


def score(problem: Problem, answer: str) -> float:
    return float(answer)


def confused(problem: Problem, answer: str) -> str:
    return "correct"


@dataclass(frozen=True)
class Shouting:
    """A judge with a method and an option."""

    loud: bool = True

    def judge(self, problem: Problem, answer: str) -> Verdict:
        right = answer == (problem.answer.upper() if self.loud else problem.answer)
        return Verdict(right, "correct" if right else "wrong")


class Unloadable:
    """Fails when it is loaded in a worker."""

    def warm(self) -> None:
        raise RuntimeError("the model file is missing")

    def judge(self, problem: Problem, answer: str) -> Verdict:
        return Verdict(True, "correct")


shouting = Shouting()
NOT_A_JUDGE = 5
