"""The code judge: a program is correct if and only if it passes every test of its problem.

Standard input and output: one sandboxed run per test, stopping at the first that fails. The expected
output stays outside the sandbox; the printed output is compared token by token, and the counts must
agree. Where several outputs are right the problem names a checker (`metadata["checker"]`, see
`checkers.py`); one marked `metadata["needs_checker"]` that names none is not judged, and the verdict
says so.

Functions: the program and the calls of its asserts run in one sandbox; what the calls return comes out
as plain data and is compared outside, or, where an assert is more than `call == literal`, in a second
sandbox that never sees the program. The setup runs before the program, and once more after it if it
needs names that the program defines; what the checks alone need of it is left out (`setup_code.py`).

The program is assumed to be hostile. It may print, forge and monkey-patch whatever it can reach, but
the right answer is nowhere in its reach.

An answer is run as it is, or without its fence if someone hands in a fenced program
(`agon.game.answers.program`).
"""

from dataclasses import dataclass, field

from agon.errors import InputError
from agon.game.answers import program
from agon.game.problem import CodeTests, Problem
from agon.game.verdict import Verdict
from agon.judges.code.checkers import checker
from agon.judges.code.failure import failure
from agon.judges.code.function_tests import judge_functions
from agon.judges.code.languages import language
from agon.judges.code.process import Outcome
from agon.judges.code.sandbox import SandboxKind, SandboxLimits, require_sandbox, run_program
from agon.judges.limits import Limits


@dataclass(frozen=True)
class CodeJudge:
    """Runs programs in the sandbox. `sandbox="none"` is for programs that you trust."""

    sandbox: SandboxKind = "bubblewrap"
    language: str = "python"
    run_limits: SandboxLimits = field(default_factory=SandboxLimits)
    limits: Limits = field(
        default_factory=lambda: Limits(deadline=120.0, wall_factor=2.0, patience=2.0, max_overdue=8)
    )

    def __post_init__(self) -> None:
        require_sandbox(self.sandbox)
        language(self.language)

    def judge(self, problem: Problem, answer: str) -> Verdict:
        if problem.tests is None or not (problem.tests.stdio or problem.tests.asserts):
            return Verdict(False, "error", "The problem has no tests.")
        if problem.metadata.get("needs_checker") and not problem.metadata.get("checker"):
            return Verdict(False, "error", "The problem has several right answers and names no checker.")
        source = program(answer)
        if not source.strip():
            return Verdict(False, "no-answer", "There is no program.")
        if problem.tests.asserts:
            return judge_functions(source, problem.tests, self._run, self.language)
        return self._judge_stdio(source, problem.tests, str(problem.metadata.get("checker") or "tokens"))

    def _judge_stdio(self, source: str, tests: CodeTests, checker_name: str) -> Verdict:
        try:
            accepts = checker(checker_name)
        except InputError as fault:
            return Verdict(False, "error", str(fault))
        for number, test in enumerate(tests.stdio, 1):
            outcome = self._run(source, test.input.encode())
            failed = failure(outcome)
            if failed is not None:
                return Verdict(False, failed.reason, f"Test {number}: {failed.detail}")
            if not accepts(test.input, test.output, outcome.stdout.decode("utf-8", "replace")):
                return Verdict(False, "wrong", f"Test {number}: the output is not the expected one.")
        return Verdict(True, "correct")

    def _run(self, source: str, stdin: bytes) -> Outcome:
        return run_program(source, stdin, language(self.language), self.run_limits, self.sandbox)
