"""The code judge: a program is correct if and only if it passes every test of its problem.

Standard input and output: one sandboxed run per test, stopping at the first that fails. The expected
output stays out here; what was printed is compared token by token, and the counts must agree. Where
several outputs are right the problem names a checker (`metadata["checker"]`, see `checkers.py`); one
marked `metadata["needs_checker"]` without any is not judged, and the verdict says so.

Functions: the program and the calls of its asserts run in one sandbox; what the calls return comes out
as plain data and is compared outside, or, where an assert is more than `call == literal`, in a second
sandbox that never sees the program. The setup runs before the program, and once more after it if it
needs names that the program defines.

The program is hostile by assumption. It may print, forge and monkey-patch as it likes: nothing that it
can reach knows the right answer.
"""

from dataclasses import dataclass, field

from agon.errors import InputError
from agon.game.markup import fences
from agon.game.problem import CodeTests, Problem
from agon.game.verdict import Verdict
from agon.judges.checkers import checker
from agon.judges.failure import failure
from agon.judges.functions import judge_functions
from agon.judges.languages import language
from agon.judges.limits import Limits
from agon.judges.process import Outcome
from agon.judges.sandbox import SandboxKind, SandboxLimits, require_sandbox, run_program


@dataclass(frozen=True)
class CodeJudge:
    """Runs programs in the sandbox. `sandbox="none"` is for those who know what they run."""

    sandbox: SandboxKind = "bubblewrap"
    language: str = "python"
    run_limits: SandboxLimits = field(default_factory=SandboxLimits)
    limits: Limits = field(default_factory=lambda: Limits(deadline=120.0, patience=2.0, aside=8))

    def __post_init__(self) -> None:
        require_sandbox(self.sandbox)
        language(self.language)

    def judge(self, problem: Problem, answer: str) -> Verdict:
        if problem.tests is None or not (problem.tests.stdio or problem.tests.asserts):
            return Verdict(False, "error", "The problem has no tests.")
        if problem.metadata.get("needs_checker") and not problem.metadata.get("checker"):
            return Verdict(False, "error", "The problem has several right answers and names no checker.")
        program = program_of(answer)
        if not program.strip():
            return Verdict(False, "no-answer", "There is no program.")
        if problem.tests.asserts:
            return judge_functions(program, problem.tests, self._run, self.language)
        return self._judge_stdio(program, problem.tests, str(problem.metadata.get("checker") or "tokens"))

    def _judge_stdio(self, program: str, tests: CodeTests, checker_name: str) -> Verdict:
        try:
            accepts = checker(checker_name)
        except InputError as fault:
            return Verdict(False, "error", str(fault))
        for number, test in enumerate(tests.stdio, 1):
            outcome = self._run(program, test.input.encode())
            failed = failure(outcome)
            if failed is not None:
                return Verdict(False, failed.reason, f"Test {number}: {failed.detail}")
            if not accepts(test.input, test.output, outcome.stdout.decode("utf-8", "replace")):
                return Verdict(False, "wrong", f"Test {number}: the output is not the expected one.")
        return Verdict(True, "correct")

    def _run(self, program: str, stdin: bytes) -> Outcome:
        return run_program(program, stdin, language(self.language), self.run_limits, self.sandbox)


def program_of(answer: str) -> str:
    """The program of an answer section: its last fenced block, or all of it."""
    blocks = list(fences(answer))
    return blocks[-1].content if blocks else answer
