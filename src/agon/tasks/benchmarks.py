"""The benchmarks by name: a row of the table says where one comes from and how it becomes problems.

To add one, write a function from a row to a problem (or to the reason for leaving it out) and add a
row to `BENCHMARKS`. What is left out is counted by reason: rows read = problems kept + dropped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from agon.errors import InputError, unknown
from agon.game.markup import boxes
from agon.game.problem import CodeTests, Problem, StdioTest
from agon.tasks.filters import has_several_answers, is_binary
from agon.tasks.sources import Row, Source
from agon.tasks.splits import content_id

Options = Mapping[str, Any]
# A problem, or why the row is not one.
Reading = Problem | str

HELD_OUT = {"train": 3000, "validation": 300, "test": 300}
# A size of None is all that the held-out splits leave.
VALIDATED: dict[str, int | None] = {"train": None, "validation": 300}


@dataclass(frozen=True)
class Benchmark:
    """One benchmark.

    `trained` is divided into the splits of `sizes`; `tested`, where there is one, is the test split
    as its authors published it. `assign` names a row's split where the authors fixed all of them.
    """

    about: str
    judge: str
    problem: Callable[[Row, Options], Reading]
    trained: tuple[Source, ...] = ()
    tested: Source | None = None
    sizes: Mapping[str, int | None] = field(default_factory=dict)
    options: Options = field(default_factory=dict)
    assign: Callable[[Problem], str | None] | None = None
    # Evaluation sets whose n-grams must not occur in training or validation problems.
    decontaminate: tuple[str, ...] = ()
    # Looks at all rows first, and may change the options and say why.
    prepare: Callable[[list[Row], Options], tuple[Options, list[str]]] | None = None


def deepmath_problem(row: Row, options: Options) -> Reading:
    low, high = float(options["min_difficulty"]), float(options["max_difficulty"])
    question, answer = row.text("question"), row.text("final_answer").strip()
    if not low <= _number(row, "difficulty") <= high:
        return f"difficulty outside {low:g} to {high:g}" if low != high else f"difficulty is not {low:g}"
    if not answer:
        return "no answer"
    if is_binary(answer):
        return "binary answer (yes/no, true/false and the like)"
    return Problem(
        content_id("deepmath", question, answer),
        question,
        "deepmath",
        answer,
        metadata={"difficulty": float(row["difficulty"])},
    )


def gsm8k_problem(row: Row, options: Options) -> Reading:
    question = row.text("question")
    _, mark, answer = row.text("answer").rpartition("####")
    if not mark or not answer.strip():
        raise InputError(f"{row.where}: the answer has no final value after '####'.")
    return Problem(content_id("gsm8k", question), question, "gsm8k", answer.strip().replace(",", ""))


def math_problem(row: Row, options: Options) -> Reading:
    problem, answer = row.text("problem"), row.get("answer")
    if answer is None:
        found = list(boxes(row.text("solution")))
        answer = found[-1].content if found else ""
    if not str(answer).strip():
        return "no answer"
    subject = row.get("subject") or row.get("type") or ""
    level = str(row.get("level") or "").removeprefix("Level ")
    return Problem(
        str(row.get("unique_id") or content_id("math", problem)),
        problem,
        "math",
        str(answer).strip(),
        metadata={"subject": subject, "level": level},
    )


def mbpp_problem(row: Row, options: Options) -> Reading:
    """The statement shows one assert, which fixes the function's name and signature; all are run."""
    tests = CodeTests(
        setup=str(row.get("test_setup_code") or ""),
        asserts=(*_texts(row, "test_list"), *_texts(row, "challenge_test_list", optional=True)),
    )
    if not tests.asserts:
        return "no tests"
    statement = row.text("text").strip()
    prompt = f"{statement}\n\nIt must pass tests like this one:\n\n{tests.asserts[0]}"
    number = int(_number(row, "task_id"))
    return Problem(f"mbpp-{number}", prompt, "mbpp", tests=tests, domain="code", metadata={"task_id": number})


def mbpp_split(problem: Problem) -> str | None:
    """The authors' split; the ten problems that they use as few-shot examples belong to none."""
    number = problem.metadata["task_id"]
    for first, split in ((975, None), (601, "train"), (511, "validation"), (11, "test")):
        if number >= first:
            return split
    return None


# The enumeration of the dataset: problems from CodeChef carry a word, those from Codeforces a letter.
DIFFICULTIES = (
    *("UNKNOWN", "EASY", "MEDIUM", "HARD", "HARDER", "HARDEST", "EXTERNAL"),
    *"ABCDEFGHIJKLMNOPQRSTUV",
)
EASY_LETTERS = ("A", "B", "C")


def codecontests_problem(row: Row, options: Options) -> Reading:
    wanted = options["difficulty"]
    label = _difficulty(row)
    if wanted != "any" and label not in wanted.split("+"):
        return f"difficulty is not {wanted.replace('+', ', ')}"
    if row.get("input_file") or row.get("output_file"):
        return "reads or writes a file instead of standard input and output"
    statement = row.text("description")
    if row.get("reference_verified") is False:
        return "several right answers (its reference program does not reproduce the outputs)"
    if "reference_verified" not in row and has_several_answers(statement):
        return "several right answers (the statement says that any is accepted)"
    tests = tuple(_stdio(row))
    if not tests:
        return "no tests"
    name = str(row.get("id") or row.get("name") or content_id("codecontests", statement))
    limit = row.get("time_limit")
    seconds = limit["seconds"] + limit.get("nanos", 0) / 1e9 if isinstance(limit, Mapping) else None
    metadata = {"difficulty": label, **({"time_limit": seconds} if seconds else {})}
    return Problem(
        name, statement, "codecontests", tests=CodeTests(stdio=tests), domain="code", metadata=metadata
    )


def easiest_present(rows: list[Row], options: Options) -> tuple[Options, list[str]]:
    """Where no row carries the word EASY, take the easy letters of Codeforces, and say so."""
    labels = [_difficulty(row) for row in rows]
    wanted = set(options["difficulty"].split("+"))
    if options["difficulty"] != "any" and not wanted <= {*DIFFICULTIES, *labels}:
        raise unknown("difficulty", min(wanted - {*DIFFICULTIES, *labels}), {*labels, "any"})
    if options["difficulty"] != "EASY" or "EASY" in labels:
        return options, []
    held = ", ".join(f"{label} {labels.count(label)}" for label in sorted(set(labels)))
    note = (
        f"No row is labelled EASY (labels here: {held}); "
        f"the easiest letters of Codeforces, {' to '.join((EASY_LETTERS[0], EASY_LETTERS[-1]))}, stand in."
    )
    return {**options, "difficulty": "+".join(EASY_LETTERS)}, [note]


def _difficulty(row: Row) -> str:
    value = row["difficulty"]
    if str(value).isdigit() and int(value) < len(DIFFICULTIES):
        return DIFFICULTIES[int(value)]
    return str(value)


def _stdio(row: Row) -> list[StdioTest]:
    """Every test of a row: a list of objects, or the Hub's three structures of parallel lists."""
    if "tests" in row:
        return [StdioTest(test["input"], test["output"]) for test in row["tests"]]
    groups = [row["public_tests"], row.get("private_tests"), row.get("generated_tests")]
    return [
        StdioTest(given, expected)
        for group in groups
        if group
        for given, expected in zip(group["input"], group["output"], strict=True)
    ]


def _number(row: Row, column: str) -> float:
    try:
        return float(row[column])
    except (TypeError, ValueError):
        raise InputError(f"{row.where}: column '{column}' holds {row[column]!r}, not a number.") from None


def _texts(row: Row, column: str, optional: bool = False) -> list[str]:
    value = (row.get(column) or []) if optional else row[column]
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise InputError(f"{row.where}: column '{column}' is not a list of texts.")
    return value


_DEEPMATH = Source(
    "zwhe99/DeepMath-103K",
    "train",
    ("question", "final_answer", "difficulty"),
    ("deepmath", "deepmath_5k", "DeepMath-103K"),
)
_GSM8K = ("question", "answer")
_MATH = ("problem", "answer", "solution", "level", "type", "subject", "unique_id")
_MBPP = ("text", "task_id", "test_setup_code", "test_list", "challenge_test_list")
_MATH_500 = Source("HuggingFaceH4/MATH-500", "test", _MATH, ("math500", "math-500", "MATH-500"))
_CODECONTESTS = Source(
    "deepmind/code_contests",
    "train",
    (
        *("name", "description", "difficulty", "public_tests", "private_tests", "generated_tests"),
        *("time_limit", "input_file", "output_file"),
    ),
    ("codecontests", "code_contests"),
    files=("problems.jsonl",),
)
_EVALUATION = ("gsm8k", "math-500")

BENCHMARKS: dict[str, Benchmark] = {
    "deepmath-hard": Benchmark(
        "DeepMath-103K of difficulty 8 without binary answers: the paper's training set",
        "math",
        deepmath_problem,
        (_DEEPMATH,),
        sizes=HELD_OUT,
        options={"min_difficulty": 8.0, "max_difficulty": 8.0},
        decontaminate=_EVALUATION,
    ),
    "deepmath": Benchmark(
        "DeepMath-103K of any difficulty range (min_difficulty, max_difficulty)",
        "math",
        deepmath_problem,
        (_DEEPMATH,),
        sizes=HELD_OUT,
        options={"min_difficulty": 0.0, "max_difficulty": 10.0},
        decontaminate=_EVALUATION,
    ),
    "codecontests-easy": Benchmark(
        "CodeContests labelled EASY, judged by every test: the paper's second domain",
        "code",
        codecontests_problem,
        (_CODECONTESTS,),
        sizes=HELD_OUT,
        options={"difficulty": "EASY"},
        prepare=easiest_present,
    ),
    "codecontests": Benchmark(
        "CodeContests of any difficulty (difficulty=A+B, or any)",
        "code",
        codecontests_problem,
        (_CODECONTESTS,),
        sizes=HELD_OUT,
        options={"difficulty": "any"},
        prepare=easiest_present,
    ),
    "gsm8k": Benchmark(
        "grade-school word problems; validation is taken from the training set",
        "math",
        gsm8k_problem,
        (Source("openai/gsm8k", "train", _GSM8K, ("gsm8k",), "main"),),
        Source("openai/gsm8k", "test", _GSM8K, ("gsm8k",), "main"),
        sizes=VALIDATED,
        decontaminate=("math-500",),
    ),
    "math": Benchmark(
        "the MATH training set; validation is taken from it, the test split is MATH-500",
        "math",
        math_problem,
        (Source("DigitalLearningGmbH/MATH-lighteval", "train", _MATH, ("math", "MATH")),),
        _MATH_500,
        sizes=VALIDATED,
        decontaminate=("gsm8k",),
    ),
    "math-500": Benchmark(
        "500 problems of the MATH test set, for evaluation only", "math", math_problem, tested=_MATH_500
    ),
    "mbpp": Benchmark(
        "short Python functions, judged by asserts, in the authors' splits",
        "code",
        mbpp_problem,
        tuple(
            Source("google-research-datasets/mbpp", split, _MBPP, ("mbpp",), "full", files=("MBPP.jsonl",))
            for split in ("train", "validation", "test")
        ),
        assign=mbpp_split,
    ),
}
