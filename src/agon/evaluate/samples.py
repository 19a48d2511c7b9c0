"""What was sampled, one record per problem and sample, and the file that keeps it.

A sample of a play holds its drafts and its finals, each with its text, lengths and verdict. The file
has one JSON line per sample. Lines are appended whole; a line cut short by a kill is dropped when
the file is opened again, and only what is missing is played. Where there is no `samples.jsonl`,
`samples.jsonl.gz` is read in its place and never added to.
"""

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from agon.engines.chat import Chat
from agon.engines.protocol import derive_seed
from agon.errors import InputError
from agon.game.duel import Duel, Entry
from agon.game.methods import Method
from agon.game.problem import Problem
from agon.game.prompts import challenger_prompt, plain_prompt
from agon.game.transcript import leaks

Key = tuple[str, str, int]  # play, problem, number of the sample
Turn = tuple[Problem, int]  # a problem and the number of the sample
NO_VOTE = ("no-answer", "truncated")


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
        return self.reason not in NO_VOTE


@dataclass(frozen=True)
class Sample:
    """The drafts and finals of one problem in one play; a play of one stage has no finals."""

    play: str
    problem: str
    number: int
    drafts: tuple[Attempt, ...]
    finals: tuple[Attempt, ...] = ()

    @property
    def key(self) -> Key:
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


def sample_of(play: str, number: int, method: Method, duels: Sequence[Duel], chat: Chat) -> Sample:
    """The duels that the arena played for one problem, as one sample."""
    problem = duels[0].problem
    plain = len(chat.encode(plain_prompt(problem, chat.dialect.name)))
    drafts = tuple(_attempt(duel.draft, plain) for duel in duels)
    finals = tuple(
        _final(duel.challenge, problem, duel.shown, method.draft_read(duel.index, len(duels)), plain, chat)
        for duel in duels
        if duel.challenge is not None
    )
    return Sample(play, problem.id, number, drafts, finals)


def vote(attempts: Sequence[Attempt], *coin: object) -> Attempt:
    """The attempt that stands for all of them: a seeded coin among those that gave an answer.

    Two votes have no majority unless they agree, and then either may stand for both. So this is
    majority of two with ties settled by a coin; it beats one attempt only where one gave no answer.
    """
    voters = [attempt for attempt in attempts if attempt.answered] or list(attempts)
    return voters[derive_seed("coin", *coin) % len(voters)]


class SampleFile:
    """Samples on disk. Appending a batch is one write, so a kill loses at most the batch in play."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.samples: dict[Key, Sample] = {}
        packed = path.with_name(path.name + ".gz")
        self.packed = packed if packed.exists() and not path.exists() else None
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
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.truncate(self.path, whole)
        return content[:whole]

    def _take(self, path: Path, content: bytes) -> None:
        for number, line in enumerate(content.splitlines(), start=1):
            try:
                sample = Sample.from_json(line.decode())
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    f"Line {number} of {path} is not a sample ({error}); remove the line or the file."
                ) from error
            self.samples[sample.key] = sample

    def missing(self, play: str, turns: Iterable[Turn]) -> list[Turn]:
        """The turns that this play has no sample of."""
        return [turn for turn in turns if (play, turn[0].id, turn[1]) not in self.samples]

    def append(self, samples: Sequence[Sample]) -> None:
        self.refuse_packed()
        lines = "".join(sample.to_json() + "\n" for sample in samples)
        with self.path.open("ab", buffering=0) as file:
            file.write(lines.encode())
            os.fsync(file.fileno())
        self.samples.update((sample.key, sample) for sample in samples)


def _unpacked(path: Path) -> bytes:
    try:
        return gzip.decompress(path.read_bytes())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InputError(f"{path} is not a whole gzip file ({error}); restore or remove it.") from error


def _attempt(entry: Entry, prompt_length: int, **reading: Any) -> Attempt:
    rollout = entry.rollout
    return Attempt(
        policy=rollout.policy,
        text=rollout.text,
        length=rollout.length,
        prompt_length=prompt_length,
        truncated=rollout.truncated,
        well_formed=entry.well_formed,
        correct=entry.correct,
        reason=entry.verdict.reason,
        **reading,
    )


def _final(
    entry: Entry, problem: Problem, shown: str | None, read: int | None, plain: int, chat: Chat
) -> Attempt:
    if shown is None:
        return _attempt(entry, plain)
    prompt = challenger_prompt(problem, shown, chat.dialect.name, chat.control_tokens)
    reading: Mapping[str, Any] = {"read": read, "shown": shown, "leaked": leaks(shown, problem.answer)}
    return _attempt(entry, len(chat.encode(prompt)), **reading)
