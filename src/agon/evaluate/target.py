"""What is evaluated: a run with its adapters, or a plain model.

A run brings its base, method, task and decoding along, so that `agon eval RUN` needs nothing else.
A plain model has the controls only.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agon.engines.protocol import Sampling
from agon.errors import InputError
from agon.game.methods import Method, method
from agon.policies.pair import BASE, NAMES, saved_policies
from agon.runs.folder import Run, is_run
from agon.runs.parts import pointing_to_parts
from agon.runs.settings import RunSettings
from agon.tasks import Task, load_task
from agon.tasks.stored import load_stored

# The paper's decoding, and the completion cap of a run that names none.
TEMPERATURE, TOP_P, MAX_TOKENS = 0.6, 0.95, 2048


@dataclass(frozen=True)
class Target:
    """A base model, and the adapters of a run over it where there is one."""

    name: str
    model: str
    run: Run | None = None
    policies: tuple[str, ...] = ()
    method: Method | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    task: Mapping[str, Any] = field(default_factory=dict)
    summary: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> RunSettings:
        return RunSettings.from_config({**self.config, "model": self.model})

    @property
    def versions(self) -> dict[str, int]:
        return dict.fromkeys((*self.policies, BASE), 0)

    def sampling(
        self, temperature: float | None = None, top_p: float | None = None, max_tokens: int | None = None
    ) -> Sampling:
        """The decoding asked for, else the one that the run validated with, else the paper's."""
        given = {
            "temperature": (temperature, "eval_temperature", TEMPERATURE),
            "top_p": (top_p, "eval_top_p", TOP_P),
            "max_tokens": (max_tokens, "max_completion_length", MAX_TOKENS),
        }
        chosen: dict[str, Any] = {
            name: next(value for value in (asked, self.config.get(key), default) if value is not None)
            for name, (asked, key, default) in given.items()
        }
        if not chosen["temperature"] >= 0 or not 0 < chosen["top_p"] <= 1 or chosen["max_tokens"] < 1:
            raise InputError(
                "Decoding needs a temperature of at least 0, a top-p above 0 and up to 1, and at least one token; "
                f"not {chosen['temperature']:g}, {chosen['top_p']:g} and {chosen['max_tokens']}."
            )
        return Sampling(**chosen)

    def own_task(self) -> Task:
        """The task that the run was trained on, problem for problem."""
        if not self.task:
            raise InputError(f"'{self.name}' has no task of its own: give one with --task.")
        if not self.task.get("name"):
            raise InputError(f"The task.json of '{self.name}' names no task: give one with --task.")
        if self.task.get("stored") and self.run is not None:
            return self._unchanged(load_stored(self.run.problems))
        options = {key: value for key, value in (self.task.get("options") or {}).items() if key != "seed"}
        # The name as it was written for the training run says more than the task's own (a file's path).
        written = self.task.get("spec")
        where, seed = self.task.get("path"), int(self.task.get("seed", 0))
        try:
            task = (
                load_task(written, path=where, seed=seed)
                if written
                else load_task(self.task["name"], path=where, seed=seed, **options)
            )
        except InputError as error:
            raise InputError(
                f"The task '{self.task['name']}' of the run '{self.name}' cannot be loaded by its name ({error}) "
                "Name a task with --task and a direction with --direction."
            ) from error
        return self._unchanged(task)

    def _unchanged(self, task: Task) -> Task:
        """The task, if its problems are those that the run was trained with."""
        for split, fingerprint in self.task.get("fingerprints", {}).items():
            if task.fingerprint(split) != fingerprint:
                raise InputError(
                    f"The {split} problems of '{task.name}' are not those that '{self.name}' was trained with "
                    f"(fingerprint {task.fingerprint(split)}, in the run {fingerprint}); restore the data."
                )
        return task

    def judge_name(self, task: Task) -> str:
        """The judge that the task names; on the run's own task, the one that the run was trained with."""
        own = self.settings.judge if task.name == self.task.get("name") else None
        return str(own or task.judge)


def open_target(where: str) -> Target:
    """The run in a folder, or the model of this name."""
    if not is_run(where):
        return _model(where)
    run = Run(where)
    config = run.read_config()
    if not config.get("model"):
        raise InputError(f"'{where}' is not a run of agon: its config.yaml names no model.")
    policies = saved_policies(run.adapters)
    with pointing_to_parts(run):
        game = method(str(config.get("method", "agon")))
    if len(policies) < game.policies:
        wanted = " and ".join(f"adapters/{name}" for name in NAMES[: game.policies])
        raise InputError(
            f"The run '{where}' has no trained adapters: expected {wanted}. Finish its training first."
        )
    return Target(
        name=run.name,
        model=str(config["model"]),
        run=run,
        policies=policies,
        method=game,
        config=config,
        task=run.read_task(),
        summary=run.read_summary(),
    )


def _model(where: str) -> Target:
    folder = Path(os.path.expanduser(where))
    if not where.strip() or folder.is_file():
        raise InputError(
            f"'{where}' is neither a run nor a model: give a run's folder, a model's folder or a Hub id."
        )
    if folder.is_dir() and not (folder / "config.json").is_file():
        raise InputError(
            f"'{where}' is neither a run (no config.yaml) nor a model (no config.json); "
            "give a run's folder, a model's folder or a Hub id."
        )
    if not folder.is_dir() and (where.count("/") > 1 or where.startswith((".", "/", "~", "runs/"))):
        raise InputError(f"There is no folder '{where}': give a run's folder, a model's folder or a Hub id.")
    return Target(name=where, model=where)
