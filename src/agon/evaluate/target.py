"""What is evaluated: a run with its adapters, or a plain model.

A run brings its base, method, task and decoding along, so that `agon eval RUN` needs nothing else.
A plain model has the controls only.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agon.engines.protocol import Sampling
from agon.errors import InputError, UntrustedRunError
from agon.evaluate.request import OWN_TASK
from agon.game.methods import Method, method
from agon.policies.pair import BASE, NAMES, saved_policies
from agon.runs.folder import Run, is_run
from agon.runs.parts import pointing_to_parts
from agon.runs.settings import RunSettings
from agon.runs.trust import (
    EVERYTHING,
    NOTHING,
    Trust,
    folder_wishes,
    part_wishes,
    server_wishes,
    task_network,
    task_wishes,
)
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
    trust: Trust = NOTHING  # what of its records may load code or reach the network

    @property
    def settings(self) -> RunSettings:
        return RunSettings.from_run({**self.config, "model": self.model}, self.trust)

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
        name = str(written or self.task["name"])
        self.trust.refuse(task_wishes(name, {} if written else options))
        try:
            with self.trust.without_network(task_network(name, where)):
                task = load_task(name, path=where, seed=seed, **({} if written else options))
        except UntrustedRunError:
            raise
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
        """The judge named in this command, else the task's; on the run's own task, the one it was trained with."""
        if self.trust.named.get("judge"):
            return str(self.trust.named["judge"])
        own = self.settings.judge if task.name == self.task.get("name") else None
        return str(own or task.judge)

    def named_task(self, name: str, path: str | None) -> Task:
        """A task named in this command; the run's own code, named again, is loaded as the run loaded it."""
        if name == OWN_TASK:
            return self.own_task()
        own = name == self.task.get("spec") and path is None and any(task_wishes(name))
        return self.own_task() if own else load_task(name, path=path)

    def refuse_other_base(self, model: str | None) -> None:
        """A base that was named again must be the run's own."""
        if model is not None and model != self.model:
            raise InputError(
                f"The base of '{self.name}' is '{self.model}': it cannot be evaluated over '{model}'."
            )

    def refuse_untrusted(self, tasks: Sequence[Task], engine: str) -> None:
        """Refuse what the run's records ask for and nobody granted, before anything is loaded."""
        if self.run is not None:
            self.trust.refuse(folder_wishes(self.run.folder))
        if engine == "vllm-server" and not self.trust.named.get("vllm_servers"):
            self.trust.refuse(server_wishes(map(str, self.config.get("vllm_servers") or ())))
        for task in tasks:
            self.judging(task).refuse_untrusted(self.judge_name(task))

    def judging(self, task: Task) -> RunSettings:
        """The settings by which a task is judged: what loaded the task has also granted the judge it names."""
        if self.judge_name(task) != task.judge:
            return self.settings
        granted = replace(self.trust, named={**self.trust.named, "judge": task.judge})
        return replace(self.settings, trust=granted)


def open_target(where: str, trust: Trust = NOTHING) -> Target:
    """The run in a folder, or the model of this name; a folder's records are data but for what `trust` grants."""
    if not is_run(where):
        # Whoever names a model has chosen it; there are no records of somebody else's.
        return replace(_model(where), trust=replace(EVERYTHING, named=trust.named))
    target = read_target(where, trust)
    assert target.run is not None
    target.trust.refuse(part_wishes(target.config))
    with pointing_to_parts(target.run):
        game = method(str(target.config.get("method", "agon")))
    if len(target.policies) < game.policies:
        wanted = " and ".join(f"adapters/{name}" for name in NAMES[: game.policies])
        raise InputError(
            f"The run '{where}' has no trained adapters: expected {wanted}. Finish its training first."
        )
    return replace(target, method=game)


def read_target(where: str, trust: Trust = NOTHING) -> Target:
    """The records of a run, which name parts and load none."""
    run = Run(where)
    config = run.read_config()
    if not config.get("model"):
        raise InputError(f"'{where}' is not a run of agon: its config.yaml names no model.")
    return Target(
        name=run.name,
        model=str(config["model"]),
        run=run,
        policies=saved_policies(run.adapters),
        config=config,
        task=run.read_task(),
        summary=run.read_summary(),
        trust=replace(trust, folder=where),
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
