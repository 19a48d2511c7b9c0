"""Agon from Python, on a card.

    import agon

    pair = agon.load("runs/first")                  # or a Hub id
    answer = pair.ask("What is 17 * 23?")           # the cascade
    duel = pair.duel("What is 17 * 23?", answer="391")
    result = agon.evaluate("runs/first", task="math-500", samples=4)
    agon.compare(["runs/first", "runs/coop"])
    run = agon.train("qwen2.5-0.5b-gsm8k", method="coop")

Each name is what the command line calls it, and means the same.
"""

import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, overload

from agon.arena import Arena, JudgeLike
from agon.errors import InputError
from agon.evaluate.compare import compare as compare_entrants
from agon.evaluate.compare import enter_all
from agon.evaluate.evaluate import evaluate as evaluate_target
from agon.evaluate.load import EngineChoice, LoadedTarget, load_target
from agon.evaluate.request import EvaluationRequest
from agon.evaluate.target import Target, open_target
from agon.evaluate.vllm_budget import VllmBudget
from agon.game.duel import Duel
from agon.game.methods import METHODS
from agon.game.problem import Problem
from agon.game.transcript import public_part, split
from agon.game.verdict import Verdict
from agon.policies.pair import BASE
from agon.reports.evaluation_tables import compare_tables, result_table
from agon.reports.tables import Table, markdown
from agon.runs.folder import Run, is_run
from agon.runs.trust import all_or_nothing
from agon.tasks.splits import content_id

Where = str | Path | Run
_HUB_ID = re.compile(r"[\w][\w.-]*/[\w][\w.-]*")
# What must come with the adapters for a repository of the Hub to be opened as a run.
RUN_FILES = ["*.yaml", "*.json", "adapters/**", "problems/**", "evaluations/**/result.json"]


@dataclass(frozen=True)
class Answer:
    """What the cascade answered.

    `text` is what it says, private reasoning left out; `answer` the answer section alone, None if there is none;
    `draft` all that the first policy wrote and `summary` what the second was shown of it; `tokens` counts what
    both generated.
    """

    text: str
    answer: str | None
    draft: str
    summary: str
    tokens: int
    direction: str
    well_formed: bool

    def __str__(self) -> str:
        return self.text


class Result(dict[str, Any]):
    """A result as `agon eval --json` or `agon compare --json` prints it; as text it is the table."""

    def __init__(self, figures: Mapping[str, Any], tables: Callable[[], Sequence[Table]]) -> None:
        super().__init__(figures)
        self._tables = tables

    def __str__(self) -> str:
        return "\n\n".join(markdown(table) for table in self._tables())

    def _repr_markdown_(self) -> str:
        return str(self)


class LoadedPair:
    """A trained pair, ready to answer; `load` makes one. It holds the base until it is closed."""

    def __init__(self, target: Target, loaded: LoadedTarget, resources: ExitStack) -> None:
        self._target = target
        self._loaded = loaded
        self._resources = resources
        self.name = target.name
        self.model = target.model
        self.policies = target.policies
        self.direction = _direction(target)

    def ask(
        self,
        problem: str | Problem,
        *,
        direction: str | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        max_tokens: int | None = None,
        seed: int = 0,
    ) -> Answer:
        """Answer one problem by the cascade: one policy drafts, the other reads its summary and answers."""
        asked = _problem(problem, None)
        sampling = (temperature, top_p, max_tokens)
        duel = self._play(asked, _Unjudged(), direction, sampling, seed)
        assert duel.challenge is not None
        chat, final = self._loaded.chat, duel.challenge.rollout
        transcript = split(final.text, chat.dialect.name, asked.domain, chat.prefilled)
        return Answer(
            text=public_part(final.text, chat.dialect.name, chat.prefilled).strip(),
            answer=transcript.answer,
            draft=duel.draft.rollout.text,
            summary=duel.shown or "",
            tokens=duel.draft.rollout.length + final.length,
            direction=direction or self.direction,
            well_formed=transcript.well_formed,
        )

    def duel(
        self,
        problem: str | Problem,
        answer: str | None = None,
        judge: str | Callable[..., Any] = "math",
        *,
        direction: str | None = None,
        temperature: float | None = None,
        top_p: float | None = None,
        max_tokens: int | None = None,
        seed: int = 0,
    ) -> Duel:
        """Play one duel on a problem whose answer is known, and have both sides judged."""
        asked = _problem(problem, answer)
        with self._target.settings.open_judge(judge) as judges:
            return self._play(asked, judges, direction, (temperature, top_p, max_tokens), seed)

    def fingerprints(self) -> dict[str, str]:
        """Hashes of the weights that answer: each policy's, and the base's."""
        return self._loaded.fingerprints()

    def close(self) -> None:
        """Let go of the base and the engine."""
        self._resources.close()

    def __enter__(self) -> "LoadedPair":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<{self.name}: {', '.join(self.policies) or BASE} over {self.model}, {self.direction}>"

    def _play(
        self,
        problem: Problem,
        judge: JudgeLike,
        direction: str | None,
        decoding: tuple[float | None, float | None, int | None],
        seed: int,
    ) -> Duel:
        drafter, challenger = _players(direction or self.direction, self.policies)
        arena = Arena(self._loaded.engine, self._loaded.chat, judge, self._target.settings.summary_limit)
        ((duel,),) = arena.play(
            [problem],
            METHODS["coop"],
            drafts=1,
            sampling=self._target.sampling(*decoding),
            versions=self._target.versions,
            seed=seed,
            players=(drafter, challenger),
        )
        return duel


def load(where: Where, engine: str = "auto", trust_run_code: bool = False) -> LoadedPair:
    """Open a run (its folder, or a repository of the Hub that `agon push` made) or a plain model.

    `engine` is what samples: transformers, vllm, or auto (vLLM where it is installed beside a GPU). The pair
    answers in the direction that the run's evaluation chose on validation, else A drafts. A folder is data:
    code that only it names is run with `trust_run_code` alone.
    """
    folder = _local(where)
    target = open_target(folder, all_or_nothing(folder, trust_run_code))
    target.refuse_untrusted((), _engine(engine))
    resources = ExitStack()
    choice = EngineChoice(_engine(engine), VllmBudget(target.sampling().max_tokens))
    loaded = resources.enter_context(load_target(target, choice))
    return LoadedPair(target, loaded, resources)


@overload
def evaluate(
    where: Where, task: str | None = None, samples: int | Sequence[int] = 1, **options: Any
) -> Result: ...


@overload
def evaluate(
    where: Where, task: list[str] | tuple[str, ...], samples: int | Sequence[int] = 1, **options: Any
) -> list[Result]: ...


def evaluate(
    where: Where,
    task: str | list[str] | tuple[str, ...] | None = None,
    samples: int | Sequence[int] = 1,
    **options: Any,
) -> Result | list[Result]:
    """Evaluate a run or a model as `agon eval` does; one result, or one for each of several tasks.

    `options` are those of `agon eval`: split, direction, controls, limit, temperature, top_p, max_tokens, seed,
    output, engine, and `judge`, which may be a function here.
    """
    several = not (task is None or isinstance(task, str))
    tasks = [] if task is None else [task] if isinstance(task, str) else list(task)
    counts = (samples,) if isinstance(samples, int) else tuple(samples)
    if options.get("output") is not None:
        options["output"] = Path(options["output"])
    try:
        request = EvaluationRequest(tasks=tasks, samples=counts, **options)
    except TypeError as error:
        raise InputError(f"agon.evaluate: {str(error).partition('() ')[2]}.") from error
    results = [_result(figures) for figures in evaluate_target(_local(where), request)]
    return results if several else results[0]


def compare(
    runs: Sequence[Where],
    task: str | None = None,
    split: str = "test",
    arm: str = "headline",
    contrasts: Sequence[tuple[str, str]] = (),
) -> Result:
    """Compare evaluated runs, paired by problem and sample, as `agon compare` does."""
    if len(runs) < 2:
        raise InputError(f"A comparison needs at least two runs, not {len(runs)}.")
    entrants = enter_all([str(_folder(run)) for run in runs], task, split, arm)
    found = compare_entrants(entrants, list(contrasts))
    return Result(found, lambda: list(compare_tables(found)))


def train(
    recipe: str | Path | None = None,
    *,
    resume: Where | None = None,
    trust_run_code: bool = False,
    **options: Any,
) -> Path:
    """Train as `agon train` does, live view included, and return the folder of the run.

    Without a recipe: the embedded default. `options` are those of `agon train --help`, `model` and `task` too.
    `trust_run_code` lets the folder of a resumed run name code of its own.
    """
    from agon.train.launch import name_folder, saved_run
    from agon.train.launch import train as run_training
    from agon.train.recipes import build_config, request_of

    if resume is not None:
        if recipe is not None or options:
            raise InputError("A resumed run keeps its own configuration: give `resume` alone.")
        folder = str(_folder(resume))
        asked = saved_run(Path(folder), all_or_nothing(folder, trust_run_code))
    else:
        asked = request_of(recipe, options)
        folder = name_folder(asked.what, asked.options)
    asked.check_here()
    config = build_config({**asked.options, "output_dir": folder})
    return run_training(asked.what, config, resume is not None).run.folder


class _Unjudged:
    """A judge for problems that nobody knows the answer of."""

    def submit(self, problem: Problem, answer: str) -> "Future[Verdict]":
        decided: Future[Verdict] = Future()
        decided.set_result(Verdict(False, "no-answer", "Nobody judged this."))
        return decided


def _problem(problem: str | Problem, answer: str | None) -> Problem:
    if isinstance(problem, Problem):
        return problem
    return Problem(content_id("asked", problem), problem, "asked", answer or "")


def _players(direction: str, policies: Sequence[str]) -> tuple[str, str]:
    drafter, arrow, challenger = direction.partition("->")
    known = policies or (BASE,)
    if not arrow or drafter not in known or challenger not in known:
        ways = " or ".join(f"{one}->{other}" for one in known for other in known if one != other) or (
            f"{known[0]}->{known[0]}"
        )
        raise InputError(f"There is no direction '{direction}' here: {ways}.")
    return drafter, challenger


def _direction(target: Target) -> str:
    """The direction that an evaluation of the run chose on validation; otherwise the first policy drafts."""
    known = target.policies or (BASE,)
    usual = f"{known[0]}->{known[-1]}"
    if target.run is None:
        return usual
    for evaluation in target.run.evaluated("test"):
        chosen = evaluation.read_result().get("direction")
        if isinstance(chosen, str) and set(chosen.split("->")) <= set(known):
            return chosen
    return usual


def _folder(where: Where) -> Path | str:
    return where.folder if isinstance(where, Run) else where


def _local(where: Where) -> str:
    """A folder as it is; a repository of the Hub that holds a run is fetched, without code, and read from there."""
    name = str(_folder(where))
    if is_run(name) or Path(name).exists() or not _HUB_ID.fullmatch(name):
        return name
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fetched = snapshot_download(name, allow_patterns=RUN_FILES)
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError):
        return name  # a plain model, or nothing: whoever loads it says what is wrong
    return fetched if is_run(fetched) else name


def _engine(name: str) -> str:
    if name != "auto":
        return name
    import torch

    return "vllm" if torch.cuda.is_available() and find_spec("vllm") is not None else "transformers"


def _result(figures: Mapping[str, Any]) -> Result:
    return Result(figures, lambda: [result_table(figures)])
