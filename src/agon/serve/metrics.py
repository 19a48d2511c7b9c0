"""Counts and times in Prometheus' text format. Nothing here knows whether an answer was right."""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from agon.serve.stages import StageResult

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
Labels = tuple[tuple[str, str], ...]


class Histogram:
    """Observed seconds by label, in buckets."""

    def __init__(self) -> None:
        self._counts: dict[Labels, list[int]] = {}
        self._sums: Counter[Labels] = Counter()

    def observe(self, seconds: float, **labels: str) -> None:
        key = tuple(labels.items())
        counts = self._counts.setdefault(key, [0] * (len(SECONDS) + 1))
        counts[bisect_left(SECONDS, seconds)] += 1
        self._sums[key] += seconds  # type: ignore[assignment]  # a Counter of floats

    def lines(self, name: str) -> Iterator[str]:
        for key, counts in self._counts.items():
            total = 0
            for bound, count in zip([*map(str, SECONDS), "+Inf"], counts, strict=True):
                total += count
                yield _line(f"{name}_bucket", (*key, ("le", bound)), total)
            yield _line(f"{name}_sum", key, round(self._sums[key], 6))
            yield _line(f"{name}_count", key, total)


class Metrics:
    """What a server has done so far."""

    def __init__(self) -> None:
        self.requests: Counter[Labels] = Counter()
        self.tokens: Counter[Labels] = Counter()
        self.cancelled = 0
        self.retries = 0
        self.stage_seconds = Histogram()
        self.first_token_seconds = Histogram()
        self.request_seconds = Histogram()

    def request(self, model: str, status: int) -> None:
        self.requests[("model", model), ("status", str(status))] += 1

    def stage(self, name: str, result: StageResult) -> None:
        self.tokens[("stage", name), ("kind", "prompt")] += result.prompt_tokens
        self.tokens[("stage", name), ("kind", "completion")] += result.tokens
        self.stage_seconds.observe(result.seconds, stage=name)
        if result.first_token_s is not None:
            self.first_token_seconds.observe(result.first_token_s, stage=name)

    def retried(self) -> None:
        self.retries += 1

    def text(self, gauges: Mapping[str, tuple[str, float]]) -> str:
        """Everything, with the present values of these gauges (by name: what it is, its value)."""
        parts: list[tuple[str, str, str, Iterable[str]]] = [
            ("agon_requests_total", "counter", "Requests by model and HTTP status.", _lines(self.requests)),
            ("agon_tokens_total", "counter", "Tokens read and written, by stage.", _lines(self.tokens)),
            (
                "agon_requests_cancelled_total",
                "counter",
                "Requests whose client went away.",
                [f" {self.cancelled}"],
            ),
            (
                "agon_stage_retries_total",
                "counter",
                "Stages that went on at another server.",
                [f" {self.retries}"],
            ),
        ]
        lines = []
        for name, kind, what, values in parts:
            lines += [
                f"# HELP {name} {what}",
                f"# TYPE {name} {kind}",
                *(f"{name}{value}" for value in values),
            ]
        for name, what, histogram in (
            ("agon_stage_seconds", "Seconds of a stage.", self.stage_seconds),
            (
                "agon_stage_first_token_seconds",
                "Seconds to a stage's first token.",
                self.first_token_seconds,
            ),
            ("agon_request_seconds", "Seconds of an answered request.", self.request_seconds),
        ):
            lines += [f"# HELP {name} {what}", f"# TYPE {name} histogram", *histogram.lines(name)]
        for name, (what, value) in gauges.items():
            lines += [f"# HELP {name} {what}", f"# TYPE {name} gauge", f"{name} {value}"]
        return "\n".join(lines) + "\n"


def _lines(counter: Mapping[Labels, int]) -> Iterator[str]:
    for key, value in counter.items():
        yield _line("", key, value)


def _line(name: str, labels: Labels, value: float) -> str:
    inside = ",".join(f'{key}="{each}"' for key, each in labels)
    return f"{name}{{{inside}}} {value}" if inside else f"{name} {value}"
