"""From a row of a benchmark to a problem: one function per benchmark.

Each returns the problem, or the reason why the row is left out. A row that breaks its dataset's
format raises an InputError with its place.
"""

from collections.abc import Mapping
from typing import Any

from agon.errors import InputError, unknown
from agon.game.markup import boxes
from agon.game.problem import CodeTests, Problem, StdioTest
from agon.tasks.filters import has_several_answers, is_binary
from agon.tasks.rows import Row
from agon.tasks.splits import content_id

Options = Mapping[str, Any]
ProblemOrReason = Problem | str

# The enumeration of CodeContests: problems from CodeChef carry a word, those from Codeforces a letter.
DIFFICULTIES = (
    *("UNKNOWN", "EASY", "MEDIUM", "HARD", "HARDER", "HARDEST", "EXTERNAL"),
    *"ABCDEFGHIJKLMNOPQRSTUV",
)
EASY_LETTERS = ("A", "B", "C")


def deepmath_problem(row: Row, options: Options) -> ProblemOrReason:
    low, high = float(options["min_difficulty"]), float(options["max_difficulty"])
    question, answer = row.text("question"), row.text("final_answer").strip()
    if not low <= row.number("difficulty") <= high:
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


def gsm8k_problem(row: Row, options: Options) -> ProblemOrReason:
    question = row.text("question")
    _, mark, answer = row.text("answer").rpartition("####")
    if not mark or not answer.strip():
        raise InputError(f"{row.where}: the answer has no final value after '####'.")
    return Problem(content_id("gsm8k", question), question, "gsm8k", answer.strip().replace(",", ""))


def math_problem(row: Row, options: Options) -> ProblemOrReason:
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


def mbpp_problem(row: Row, options: Options) -> ProblemOrReason:
    """The statement shows one assert, which fixes the function's name and signature; all are run."""
    tests = CodeTests(
        setup=str(row.get("test_setup_code") or ""),
        asserts=(*row.texts("test_list"), *row.texts("challenge_test_list", optional=True)),
    )
    if not tests.asserts:
        return "no tests"
    statement = row.text("text").strip()
    prompt = f"{statement}\n\nIt must pass tests like this one:\n\n{tests.asserts[0]}"
    number = int(row.number("task_id"))
    return Problem(f"mbpp-{number}", prompt, "mbpp", tests=tests, domain="code", metadata={"task_id": number})


def mbpp_split(problem: Problem) -> str | None:
    """The authors' split; the ten problems that they use as few-shot examples belong to none."""
    number = problem.metadata["task_id"]
    for first, split in ((975, None), (601, "train"), (511, "validation"), (11, "test")):
        if number >= first:
            return split
    return None


def codecontests_problem(row: Row, options: Options) -> ProblemOrReason:
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
    tests = tuple(_stdio_tests(row))
    if not tests:
        return "no tests"
    name = str(row.get("id") or row.get("name") or content_id("codecontests", statement))
    limit = row.get("time_limit")
    seconds = limit["seconds"] + limit.get("nanos", 0) / 1e9 if isinstance(limit, Mapping) else None
    metadata = {"difficulty": label, **({"time_limit": seconds} if seconds else {})}
    return Problem(
        name, statement, "codecontests", tests=CodeTests(stdio=tests), domain="code", metadata=metadata
    )


def replace_missing_easy_label(rows: list[Row], options: Options) -> tuple[Options, list[str]]:
    """Where no row of CodeContests is labelled EASY, take the easy letters of Codeforces, and say so in a note."""
    labels = [_difficulty(row) for row in rows]
    wanted = set(options["difficulty"].split("+"))
    if options["difficulty"] != "any" and not wanted <= {*DIFFICULTIES, *labels}:
        raise unknown("difficulty", min(wanted - {*DIFFICULTIES, *labels}), {*labels, "any"})
    if options["difficulty"] != "EASY" or "EASY" in labels:
        return options, []
    present = ", ".join(f"{label} {labels.count(label)}" for label in sorted(set(labels)))
    note = (
        f"No row is labelled EASY (labels here: {present}); "
        f"the easiest letters of Codeforces, {' to '.join((EASY_LETTERS[0], EASY_LETTERS[-1]))}, are used instead."
    )
    return {**options, "difficulty": "+".join(EASY_LETTERS)}, [note]


def _difficulty(row: Row) -> str:
    value = row["difficulty"]
    if str(value).isdigit() and int(value) < len(DIFFICULTIES):
        return DIFFICULTIES[int(value)]
    return str(value)


def _stdio_tests(row: Row) -> list[StdioTest]:
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
