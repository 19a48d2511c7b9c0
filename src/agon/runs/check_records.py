"""The lines of a run, checked: whole, valid, in order, none missing or twice, and duels that give their metrics."""

import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any, NoReturn

from agon.game.duel import Duel
from agon.game.methods import METHODS, Method
from agon.runs.duel_log import DuelLog

# Metrics are means in float32.
CLOSE = {"rel_tol": 1e-4, "abs_tol": 1e-5}
Sink = list[str]


@dataclass(frozen=True)
class Records:
    """What a run's lines must agree with. Lines after step `certain` of an unfinished run would be cut off."""

    config: Mapping[str, Any]
    processes: int
    certain: int
    finished: bool

    def unusable(self) -> str:
        """Why duels cannot be held against these records; nothing if they can."""
        counts = {
            name: self.config.get(name)
            for name in ("gradient_accumulation_steps", "per_device_train_batch_size")
        }
        counts |= {name: self.config.get(name) or 1 for name in ("steps_per_generation", "num_iterations")}
        counts["the number of processes"] = self.processes
        for name, value in counts.items():
            if type(value) is not int or value < 1:
                return f"The duels cannot be checked: {name} is {value!r} in the run's records."
        return "" if self.steps_per_round else "The duels cannot be checked: a round has less than one step."

    @property
    def method(self) -> Method:
        return METHODS[str(self.config["method"])]

    @property
    def steps_per_round(self) -> int:
        generated = int(self.config.get("steps_per_generation") or self._accumulated)
        return generated * int(self.config.get("num_iterations") or 1) // self._accumulated

    @property
    def _accumulated(self) -> int:
        return int(self.config["gradient_accumulation_steps"])

    @property
    def duels_per_round(self) -> int:
        generated = int(self.config.get("steps_per_generation") or self._accumulated)
        rollouts = int(self.config["per_device_train_batch_size"]) * generated * self.processes
        return rollouts // (2 if self.method.challenges else 1)

    def versions(self, step: int) -> set[int]:
        """The versions that a step's rollouts may be of: its own, or that of the round before if sampled ahead."""
        ahead = self.config.get("sample_ahead") is True and step >= self.steps_per_round
        return {step, step - self.steps_per_round} if ahead else {step}

    @property
    def logged_every(self) -> int | None:
        """The steps between two lines of metrics; None where that cannot be told."""
        every = self.config.get("logging_steps", 1)
        steps = self.config.get("logging_strategy", "steps") == "steps"
        return int(every) if steps and isinstance(every, int | float) and every >= 1 else None


def strict_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | None, str]]:
    """Each line's number, its object if it is one, and what is wrong with it otherwise."""
    if not path.is_file():
        yield 1, None, "cannot be read: the file is no plain file"
        return
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            if not raw.endswith(b"\n"):
                yield number, None, "is cut off"
                continue
            try:
                found = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
            except (ValueError, RecursionError):
                yield number, None, "is not JSON"
                continue
            yield number, *((found, "") if isinstance(found, dict) else (None, "holds no object"))


def check_whole_lines(path: Path, name: str) -> Iterator[str]:
    """Findings about the lines of a file of which nothing else is known."""
    if path.is_file():
        for number, _, wrong in strict_lines(path):
            if wrong:
                yield f"Line {number} of {name} {wrong}."


def check_metrics(path: Path, records: Records, findings: Sink, notes: Sink) -> dict[int, dict[str, Any]]:
    """Check the metrics; returns the lines of optimizer steps by their step."""
    losses: dict[int, dict[str, Any]] = {}
    validations: Counter[int] = Counter()
    if not path.is_file():
        if records.certain:
            findings.append("metrics.jsonl is missing.")
        return losses
    last = 0
    for number, line, wrong in strict_lines(path):
        step = line.get("step") if line else None
        if line is None or type(step) is not int:
            tail = line is None and wrong == "is cut off" and not records.finished
            (notes if tail else findings).append(f"Line {number} of metrics.jsonl {wrong or 'has no step'}.")
            continue
        if "loss" not in line:
            validations[step] += 1
            continue
        sink = findings if step <= records.certain else notes
        if step in losses:
            sink.append(f"metrics.jsonl has step {step} twice.")
        elif step < last:
            sink.append(f"metrics.jsonl has step {step} after step {last}.")
        elif records.logged_every and step - last > records.logged_every:
            sink.append(f"metrics.jsonl has no line between steps {last} and {step}.")
        losses[step], last = line, max(last, step)
    findings += [
        f"metrics.jsonl has the validation of step {step} {times} times."
        for step, times in validations.items()
        if times > 1
    ]
    if records.logged_every == 1 and last < records.certain:
        findings.append(f"metrics.jsonl ends at step {last}, before step {records.certain}.")
    if last > records.certain:
        notes.append(f"metrics.jsonl goes on to step {last}; a resumed run cuts it off at {records.certain}.")
    return losses


@dataclass
class _Played:
    """What the duels of one round add up to."""

    count: int = 0
    rewards: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    correct: dict[str, list[bool]] = field(default_factory=lambda: defaultdict(list))
    wrong: str = ""


def check_duels(
    log: DuelLog, records: Records, losses: Mapping[int, Mapping[str, Any]], findings: Sink, notes: Sink
) -> None:
    """Check the duels by themselves and against the metrics of their steps."""
    rounds = _read_rounds(log, records, findings, notes)
    each = records.steps_per_round
    files = [int(path.stem) for path in log.files() if path.stem.isdigit()]
    rotated = files != list(range(len(files)))  # the middle was dropped to keep within the limit
    last = max(rounds, default=-each) // each * each + each  # the first round after all that are there
    if not rotated:
        findings += [
            f"The duels of step {step} are missing."
            for step in range(0, min(last, records.certain), each)
            if step not in rounds
        ]
        if last < records.certain:
            findings.append(f"The duels of step {last} are missing, and so are all after it.")
    for step, played in sorted(rounds.items()):
        if step >= records.certain:
            if records.finished:
                findings.append(f"There are duels of step {step}, after the end.")
            continue
        if played.count != records.duels_per_round and not rotated:
            findings.append(f"Step {step} has {played.count} duels instead of {records.duels_per_round}.")
        elif played.wrong:
            findings.append(f"Step {step} has a duel {played.wrong}.")
        elif step % each:
            findings.append(f"There are duels of step {step}, and a round lasts {each} steps.")
        elif each == 1 and records.logged_every == 1 and played.count == records.duels_per_round:
            findings += _against_metrics(step, played, losses.get(step + 1, {}))
    newest = max(rounds, default=-1)
    if newest >= records.certain and not records.finished:
        notes.append(
            f"The duels go on to step {newest}; a resumed run cuts them off before {records.certain}."
        )


def _read_rounds(log: DuelLog, records: Records, findings: Sink, notes: Sink) -> dict[int, _Played]:
    rounds: dict[int, _Played] = defaultdict(_Played)
    last = 0
    files = log.files()
    for path in files:
        for number, line, wrong in strict_lines(path):
            where = f"Line {number} of duels/{path.name}"
            if line is None:
                tail = wrong == "is cut off" and path == files[-1] and not records.finished
                (notes if tail else findings).append(f"{where} {wrong}.")
                continue
            try:
                duel = Duel.from_json(json.dumps(line))
                _add(rounds[duel.step], duel, records)
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                findings.append(f"{where} is not a duel ({type(error).__name__}).")
                continue
            if duel.step < last:
                findings.append(f"{where} is of step {duel.step}, after step {last}.")
            last = max(last, duel.step)
    return rounds


def _add(played: _Played, duel: Duel, records: Records) -> None:
    played.count += 1
    players = records.method.players(duel.step // records.steps_per_round)
    for name, player, entry in zip(
        ("draft", "challenge"), players, (duel.draft, duel.challenge), strict=True
    ):
        if entry is None:
            continue
        played.rewards[name].append(entry.reward)
        played.correct[name].append(entry.correct)
        if entry.rollout.version not in records.versions(duel.step):
            played.wrong = f"whose {name} was sampled at version {entry.rollout.version}"
        elif entry.rollout.policy != player:
            played.wrong = f"whose {name} is by {entry.rollout.policy}, and it was {player}'s turn"


def _against_metrics(step: int, played: _Played, line: Mapping[str, Any]) -> Iterator[str]:
    """The means that the metrics of a step give and its duels do not."""
    for metric, by_stream in (("reward", played.rewards), ("correct", played.correct)):
        for stream, values in by_stream.items():
            said = line.get(f"{stream}/{metric}")
            if not isinstance(said, int | float):
                continue
            mean = _mean(values)
            if mean is not None and not math.isclose(said, mean, **CLOSE):
                yield f"The metrics of step {step + 1} say {stream}/{metric} {said:.4g}, its duels {mean:.4g}."


def _mean(values: list[Any]) -> float | None:
    numbers = [float(value) for value in values if value is not None]
    return fmean(numbers) if len(numbers) == len(values) else None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
