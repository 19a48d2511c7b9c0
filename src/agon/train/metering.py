"""A trainer that measures: metrics of each stream under its name, duels into the run folder, memory by phase."""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from accelerate.utils import gather_object
from trl import GRPOTrainer

from agon.game.duel import Duel
from agon.judges.limits import PoolCounts
from agon.printing import plain
from agon.runs.files import finite
from agon.train.metrics import duel_metrics, policy_metrics, staleness


class MeteringTrainer(GRPOTrainer):
    """Writes down what a round was, and lets TRL's metrics of two streams stand side by side."""

    def _record(self, duels: Sequence[Duel], seconds: float) -> None:
        """Everybody's duels into the metrics, and on the main process into the run folder."""
        everyone: list[Duel] = gather_object([duel.for_log() for duel in duels])
        self.on_warning(self._judge_health.check(everyone, self.judge.counts.timeout_share))
        tokens = sum(duel.draft.rollout.length for duel in everyone) + sum(
            duel.challenge.rollout.length for duel in everyone if duel.challenge
        )
        measured = {
            **duel_metrics(everyone, self.args.group_size, self.method),
            **policy_metrics(everyone),
            "pair/distance": self.pair.distance(),
            "judge/timeout_share": sum(gather_object([self.judge.counts]), PoolCounts()).timeout_share,
            "time/sampling": seconds,
            "time/tokens_per_second": tokens / seconds,
        }
        if self.args.sample_ahead:
            measured["staleness"] = staleness(everyone)
        for name, value in measured.items():
            self._metrics["train"][name].append(value)
        if self.args.log_duels and self.accelerator.is_main_process:
            self.run.duels(self.args.duels_max_mb).write(everyone)

    @contextmanager
    def _metrics_of(self, stream: str) -> Iterator[None]:
        """Let TRL write its metrics for one stream under the stream's name."""
        mode = "train" if self.model.training else "eval"
        ours = self._metrics[mode]
        theirs: dict[str, list[float]] = defaultdict(list)
        self._metrics[mode] = theirs
        try:
            yield
        finally:
            self._metrics[mode] = ours
            for name, values in theirs.items():
                if name == "num_tokens":  # a running total
                    ours[name] = values
                else:
                    ours[f"{stream}/{name}"].extend(values)

    def _note_memory(self, phase: str) -> None:
        """The most GPU memory that a phase of the step had allocated, in GB."""
        if torch.cuda.is_available() and self.accelerator.device.type == "cuda":
            self._metrics["train"][f"memory/{phase}"].append(torch.cuda.max_memory_allocated() / 1e9)
            torch.cuda.reset_peak_memory_stats()

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:
            self._note_memory("training")
        took = self._metrics["train"].pop("step_time", None)
        if took:
            self._metrics["train"]["time/step"] = took
        for texts in (self._logs["prompt"], self._logs["completion"]) if self.log_completions else ():
            shown = list(map(plain, texts))  # TRL prints them
            texts.clear()
            texts.extend(shown)
        skipped = self._metrics["train"].pop("skipped_steps", None)
        if skipped:  # a count, where TRL would write the mean
            logs["skipped_steps"] = sum(skipped)
        for values in self._metrics["train"].values():
            values[:] = [
                value if math.isfinite(value) else math.nan for value in values
            ]  # TRL leaves NaN out
        logs.update(finite(logs))
        super().log(logs, start_time)
