"""The benchmarks by name: a row of the table says where one comes from and how it becomes problems.

To add one, write a function from a row to a problem in `problems.py` and add a row to `BENCHMARKS`.
What is left out is counted by reason: rows read = problems kept + dropped.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from agon.game.problem import Problem
from agon.tasks.hub import Source
from agon.tasks.problems import (
    Options,
    ProblemOrReason,
    codecontests_problem,
    deepmath_problem,
    gsm8k_problem,
    math_problem,
    mbpp_problem,
    mbpp_split,
    replace_missing_easy_label,
)
from agon.tasks.rows import Row


@dataclass(frozen=True)
class Benchmark:
    """One benchmark.

    The rows of `train_sources` are divided into the splits of `sizes`; `test_source`, where there is
    one, is the test split as its authors published it. `split_of` names a problem's split where the
    authors fixed all of them.
    """

    description: str
    judge: str
    to_problem: Callable[[Row, Options], ProblemOrReason]
    train_sources: tuple[Source, ...] = ()
    test_source: Source | None = None
    # A size of None takes all that the other splits leave.
    sizes: Mapping[str, int | None] = field(default_factory=dict)
    options: Options = field(default_factory=dict)
    split_of: Callable[[Problem], str | None] | None = None
    # Benchmarks whose test problems must share no n-gram with training or validation problems.
    decontaminate: tuple[str, ...] = ()
    # Looks at all rows first; may change the options, and returns notes that say why.
    adjust_options: Callable[[list[Row], Options], tuple[Options, list[str]]] | None = None


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
_ALL_THREE = {"train": 3000, "validation": 300, "test": 300}
_NO_TEST = {"train": None, "validation": 300}

BENCHMARKS: dict[str, Benchmark] = {
    "deepmath-hard": Benchmark(
        "DeepMath-103K of difficulty 8 without binary answers: the paper's training set",
        "math",
        deepmath_problem,
        (_DEEPMATH,),
        sizes=_ALL_THREE,
        options={"min_difficulty": 8.0, "max_difficulty": 8.0},
        decontaminate=_EVALUATION,
    ),
    "deepmath": Benchmark(
        "DeepMath-103K of any difficulty range (min_difficulty, max_difficulty)",
        "math",
        deepmath_problem,
        (_DEEPMATH,),
        sizes=_ALL_THREE,
        options={"min_difficulty": 0.0, "max_difficulty": 10.0},
        decontaminate=_EVALUATION,
    ),
    "codecontests-easy": Benchmark(
        "CodeContests labelled EASY, judged by every test: the paper's second domain",
        "code",
        codecontests_problem,
        (_CODECONTESTS,),
        sizes=_ALL_THREE,
        options={"difficulty": "EASY"},
        adjust_options=replace_missing_easy_label,
    ),
    "codecontests": Benchmark(
        "CodeContests of any difficulty (difficulty=A+B, or any)",
        "code",
        codecontests_problem,
        (_CODECONTESTS,),
        sizes=_ALL_THREE,
        options={"difficulty": "any"},
        adjust_options=replace_missing_easy_label,
    ),
    "gsm8k": Benchmark(
        "grade-school word problems; validation is taken from the training set",
        "math",
        gsm8k_problem,
        (Source("openai/gsm8k", "train", _GSM8K, ("gsm8k",), "main"),),
        Source("openai/gsm8k", "test", _GSM8K, ("gsm8k",), "main"),
        sizes=_NO_TEST,
        decontaminate=("math-500",),
    ),
    "math": Benchmark(
        "the MATH training set; validation is taken from it, the test split is MATH-500",
        "math",
        math_problem,
        (Source("DigitalLearningGmbH/MATH-lighteval", "train", _MATH, ("math", "MATH")),),
        _MATH_500,
        sizes=_NO_TEST,
        decontaminate=("gsm8k",),
    ),
    "math-500": Benchmark(
        "500 problems of the MATH test set, for evaluation only", "math", math_problem, test_source=_MATH_500
    ),
    "mbpp": Benchmark(
        "short Python functions, judged by asserts, in the authors' splits",
        "code",
        mbpp_problem,
        tuple(
            Source("google-research-datasets/mbpp", split, _MBPP, ("mbpp",), "full", files=("MBPP.jsonl",))
            for split in ("train", "validation", "test")
        ),
        split_of=mbpp_split,
    ),
}
