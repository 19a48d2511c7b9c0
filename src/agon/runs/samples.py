"""What an evaluation sampled, one record per problem and sample, and the file that keeps it.

A sample of a play holds its drafts and its finals, each with its text, lengths and verdict. The file
has one JSON line per sample. Lines are appended whole; a line cut short by a kill is left out when
the file is read and cut off before the next is added, and only what is missing is played. Where there
is no `samples.jsonl`, `samples.jsonl.gz` is read in its place and never added to.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from agon.errors import InputError
from agon.game.problem import Problem
from agon.runs.files import refuse_unless_file

SampleKey = tuple[str, str, int]  # play, problem, number of the sample
Turn = tuple[Problem, int]  # a problem and the number of the sample
NOT_ANSWERED = ("no-answer", "truncated")


@dataclass(frozen=True)
class Attempt:
    """One completion of a sample. `read` is the number of the draft it was shown, if any."""

    policy: str
    text: str
    length: int
    prompt_length: int
    truncated: bool
    well_formed: bool
    correct: bool
    reason: str
    read: int | None = None
    shown: str | None = None
    leaked: bool | None = None

    @property
    def answered(self) -> bool:
        return self.reason not in NOT_ANSWERED


@dataclass(frozen=True)
class Sample:
    """The drafts and finals of one problem in one play; a play of one stage has no finals."""

    play: str
    problem: str
    number: int
    drafts: tuple[Attempt, ...]
    finals: tuple[Attempt, ...] = ()

    @property
    def key(self) -> SampleKey:
        return self.play, self.problem, self.number

    def to_json(self) -> str:
        return json.dumps(asdict(self), ensure_ascii=True, separators=(",", ":"))

    @staticmethod
    def from_json(line: str) -> "Sample":
        fields = json.loads(line)
        stages = {
            stage: tuple(Attempt(**attempt) for attempt in fields[stage]) for stage in ("drafts", "finals")
        }
        return Sample(**{**fields, **stages})


class SampleFile:
    """Samples on disk. Appending a batch is one write, so a kill loses at most the batch in play."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.samples: dict[SampleKey, Sample] = {}
        self._size = 0  # of the whole lines; reading never changes a file that somebody may be writing
        packed = path.with_name(path.name + ".gz")
        self.packed = packed if packed.exists() and not path.exists() else None
        if (self.packed or path).exists():
            refuse_unless_file(self.packed or path)
        if self.packed:
            self._take(self.packed, _unpacked(self.packed))
        elif path.exists():
            self._take(path, self._whole_lines())

    def refuse_packed(self) -> None:
        """Packed samples are a finished record, perhaps without its texts."""
        if self.packed:
            raise InputError(
                f"{self.packed} is only read, never added to: choose another --output, or put samples.jsonl "
                "back beside it."
            )

    def _whole_lines(self) -> bytes:
        content = self.path.read_bytes()
        self._size = content.rfind(b"\n") + 1
        return content[: self._size]

    def _take(self, path: Path, content: bytes) -> None:
        for number, line in enumerate(content.splitlines(), start=1):
            try:
                sample = Sample.from_json(line.decode())
                self.samples[sample.key] = sample
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise InputError(
                    f"Line {number} of {path} is not a sample ({error}); remove the line or the file."
                ) from error

    def missing(self, play: str, turns: Iterable[Turn]) -> list[Turn]:
        """The turns that this play has no sample of."""
        return [turn for turn in turns if (play, turn[0].id, turn[1]) not in self.samples]

    def append(self, samples: Sequence[Sample]) -> None:
        self.refuse_packed()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        lines = "".join(sample.to_json() + "\n" for sample in samples).encode()
        with self.path.open("ab", buffering=0) as file:
            file.truncate(self._size)  # a line that a kill or a full disk cut off
            left = memoryview(lines)
            try:
                while left:  # a disk that is nearly full takes a part
                    left = left[file.write(left) :]
                os.fsync(file.fileno())
            except OSError:
                with suppress(OSError):
                    file.truncate(self._size)
                raise
        self._size += len(lines)
        self.samples.update((sample.key, sample) for sample in samples)


def _unpacked(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a whole gzip file ({error}); restore or remove it.") from error
