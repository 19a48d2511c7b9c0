"""A problem: what is asked and what decides whether an answer is right."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, get_args

from agon.errors import InputError

Domain = Literal["math", "code"]
DOMAINS: tuple[Domain, ...] = get_args(Domain)


def is_text(value: Any) -> bool:
    """Whether a text can be written down: JSON can name half of a character, which no encoding has."""
    try:
        return not isinstance(value, str) or value.isascii() or len(value.encode()) > 0
    except UnicodeEncodeError:
        return False


@dataclass(frozen=True)
class StdioTest:
    """One run of a program: what it reads and what it must print."""

    input: str
    output: str


@dataclass(frozen=True)
class CodeTests:
    """The tests of a program: stdin/stdout pairs, or asserts over the functions it defines."""

    stdio: tuple[StdioTest, ...] = ()
    setup: str = ""
    asserts: tuple[str, ...] = ()

    @staticmethod
    def from_dict(fields: Mapping[str, Any]) -> "CodeTests":
        return CodeTests(
            stdio=tuple(StdioTest(**test) for test in fields.get("stdio", ())),
            setup=fields.get("setup", ""),
            asserts=tuple(fields.get("asserts", ())),
        )


@dataclass(frozen=True)
class Problem:
    """One problem of a task. `answer` is the gold of a math problem, `tests` those of a program.

    `metadata` holds plain JSON values that a judge may need (the entry of a reasoning-gym task, the
    name of a checker) or that reports group by (difficulty, subject). Where the problem is the last
    message of a conversation, `metadata["conversation"]` holds those before it; the columns of a
    dataset, for a reward function that asks for them, are in `metadata["columns"]`.
    """

    id: str
    prompt: str
    task: str
    answer: str = ""
    tests: CodeTests | None = None
    domain: Domain = "math"
    metadata: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        texts = [self.id, self.prompt, self.task, self.answer]
        if self.tests is not None:
            texts += [self.tests.setup, *self.tests.asserts]
            texts += [text for test in self.tests.stdio for text in (test.input, test.output)]
        if not all(map(is_text, texts)):
            shown = self.id.encode(errors="replace").decode()
            raise InputError(
                f"The problem '{shown}' holds half a character (a lone surrogate): leave it out."
            )

    @property
    def conversation(self) -> Sequence[Mapping[str, str]]:
        """The messages before the problem; none where it stands alone."""
        before: Sequence[Mapping[str, str]] = self.metadata.get("conversation") or ()
        return before

    def without_tests(self) -> "Problem":
        """The same problem for a log line; the tests of a program can be megabytes."""
        return replace(self, tests=None)

    def to_dict(self) -> dict[str, Any]:
        tests = asdict(self.tests) if self.tests is not None else None
        return {**vars(self), "tests": tests, "metadata": dict(self.metadata)}

    @staticmethod
    def from_dict(fields: Mapping[str, Any]) -> "Problem":
        tests = fields.get("tests")
        return Problem(**{**fields, "tests": CodeTests.from_dict(tests) if tests is not None else None})
