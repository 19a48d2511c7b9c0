"""The arena: problems in, judged duels out, for training, evaluation and serving alike.

A challenge depends on one draft only, so it is submitted the moment that draft has finished, and
drafts are judged in the background while the engine goes on sampling. What a duel contains does not
depend on the order in which things finish: every request's seed is derived from what it is for.
"""

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Protocol

from agon.engines.chat import Chat
from agon.engines.context_length import as_far_as_it_fits, longest_prompt
from agon.engines.protocol import Engine, Finished, Request, Sampling, derive_seed
from agon.game import rewards
from agon.game.duel import Duel, Entry
from agon.game.methods import Method
from agon.game.problem import Problem
from agon.game.rollout import Rollout
from agon.game.transcript import Transcript, split
from agon.game.verdict import Verdict

Seat = tuple[int, str, int]  # problem, role, index within the problem
DRAFT, CHALLENGE = "draft", "challenge"


class JudgeLike(Protocol):
    """What the arena needs of a judge pool."""

    def submit(self, problem: Problem, answer: str) -> "Future[Verdict]": ...


@dataclass
class _Played:
    """What is known of one seat so far."""

    rollout: Rollout
    transcript: Transcript
    verdict: "Future[Verdict]"
    shown: str | None = None


@dataclass
class _Round:
    """One call of `play`: who sits where and what came of it."""

    problems: Sequence[Problem]
    method: Method
    players: tuple[str, str]
    drafts: int
    step: int
    seeds: Sequence[int]  # one per problem
    sampling: Sampling
    versions: Mapping[str, int]
    seats: dict[Seat, _Played] = field(default_factory=dict)
    shown: dict[Seat, str] = field(default_factory=dict)
    plain: dict[int, tuple[int, ...]] = field(default_factory=dict)


class Arena:
    """Plays duels on an engine and has them judged."""

    def __init__(
        self, engine: Engine, chat: Chat, judge: JudgeLike, summary_limit: int | None = None
    ) -> None:
        self.engine = engine
        self.chat = chat
        self._judge = judge
        self._summary_limit = summary_limit

    def play(
        self,
        problems: Sequence[Problem],
        method: Method,
        *,
        drafts: int,
        sampling: Sampling,
        versions: Mapping[str, int],
        step: int = 0,
        seed: int | Sequence[int] = 0,
        players: tuple[str, str] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> list[list[Duel]]:
        """Play `drafts` duels for each problem and return them, problem by problem.

        `versions` names the version of each policy that must answer. `players` overrides who drafts
        and who challenges, as evaluation does; otherwise the method's roles at `step` decide. `seed` is
        one for all, or one per problem: a problem may then stand in `problems` several times.
        """
        return self.sample(
            problems,
            method,
            drafts=drafts,
            sampling=sampling,
            versions=versions,
            step=step,
            seed=seed,
            players=players,
            progress=progress,
        )()

    def sample(
        self,
        problems: Sequence[Problem],
        method: Method,
        *,
        drafts: int,
        sampling: Sampling,
        versions: Mapping[str, int],
        step: int = 0,
        seed: int | Sequence[int] = 0,
        players: tuple[str, str] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Callable[[], list[list[Duel]]]:
        """Sample what `play` plays. What comes back waits for the verdicts that are still open and gives the duels."""
        chosen = players or method.players(step)
        seeds = [seed] * len(problems) if isinstance(seed, int) else seed
        if len(seeds) != len(problems):
            raise ValueError(
                f"{len(problems)} problems need as many seeds, or one for all; not {len(seeds)}."
            )
        table = _Round(problems, method, chosen, drafts, step, seeds, sampling, versions)
        self._submit(table, self._opening(table))
        wanted = len(problems) * drafts * (2 if method.challenges else 1)
        while len(table.seats) < wanted:
            finished = self.engine.collect()
            if not finished:
                raise RuntimeError(
                    f"The engine returned {len(table.seats)} of {wanted} rollouts and stopped."
                )
            follow_ups = [seat for done in finished for seat in self._seat(table, done)]
            self._submit(table, follow_ups)
            if progress:
                progress(len(table.seats), wanted)
        return lambda: [self._duels(table, index) for index in range(len(problems))]

    def _opening(self, table: _Round) -> list[Seat]:
        """What can be sampled at once: the drafts, and challenges that read nothing."""
        roles = [DRAFT]
        if table.method.challenges and not table.method.shows_attempt:
            roles.append(CHALLENGE)
        return [
            (problem, role, index)
            for role in roles
            for problem in range(len(table.problems))
            for index in range(table.drafts)
        ]

    def _submit(self, table: _Round, seats: Sequence[Seat]) -> None:
        requests = []
        for seat, prompt_ids in zip(seats, self._prompts(table, seats), strict=True):
            index, role, number = seat
            problem = table.problems[index]
            policy = table.players[0 if role == DRAFT else 1]
            requests.append(
                Request(
                    key=f"{index}/{role}/{number}",
                    prompt_ids=prompt_ids,
                    policy=policy,
                    version=table.versions[policy],
                    sampling=table.sampling,
                    seed=derive_seed(table.seeds[index], table.step, problem.task, problem.id, role, number),
                )
            )
        if requests:
            self.engine.submit(requests)

    def _prompts(self, table: _Round, seats: Sequence[Seat]) -> list[tuple[int, ...]]:
        """The prompts of these seats; a problem's plain one is the same for all who read nothing."""
        chat = self.chat
        reading = [seat for seat in seats if seat in table.shown]
        messages = [chat.challenge(table.problems[seat[0]], table.shown[seat]) for seat in reading]
        read = dict(zip(reading, chat.encode_all(messages), strict=True))
        longest = longest_prompt(self.engine, table.sampling)
        for seat in reading:
            if longest is not None and len(read[seat]) > longest:
                problem = table.problems[seat[0]]
                table.shown[seat] = as_far_as_it_fits(chat, problem, table.shown[seat], longest)
                read[seat] = chat.encode(chat.challenge(problem, table.shown[seat]))
        new = sorted({seat[0] for seat in seats if seat not in read} - table.plain.keys())
        plain = chat.encode_all([chat.plain(table.problems[index]) for index in new])
        table.plain.update(zip(new, plain, strict=True))
        return [read[seat] if seat in read else table.plain[seat[0]] for seat in seats]

    def _seat(self, table: _Round, done: Finished) -> list[Seat]:
        """Take a rollout in, have it judged, and say which challenges it makes possible."""
        index, role, number = _parse(done.request.key)
        rollout = done.rollout
        if (rollout.policy, rollout.version) != (done.request.policy, done.request.version):
            raise RuntimeError(
                f"Asked for {done.request.policy} at version {done.request.version}, but the engine answered "
                f"with {rollout.policy} at version {rollout.version}."
            )
        prompt_ids = done.request.prompt_ids
        rollout = replace(rollout, prompt_ids=prompt_ids, prompt_length=len(prompt_ids))
        problem = table.problems[index]
        transcript = split(rollout.text, self.chat.dialect.name, problem.domain, self.chat.prefilled)
        seat = (index, role, number)
        verdict = self._verdict(problem, rollout, transcript)
        table.seats[seat] = _Played(rollout, transcript, verdict, table.shown.get(seat))
        if role == CHALLENGE or not table.method.shows_attempt:
            return []
        readers = [
            (index, CHALLENGE, challenge)
            for challenge in range(table.drafts)
            if table.method.draft_read(challenge, table.drafts) == number
        ]
        for reader in readers:
            table.shown[reader] = self.chat.attempt(problem, transcript.shown(self._summary_limit))
        return readers

    def _verdict(self, problem: Problem, rollout: Rollout, transcript: Transcript) -> "Future[Verdict]":
        if getattr(self._judge, "reads_completion", False):
            return self._judge.submit(problem, rollout.text)
        if transcript.answer is not None:
            return self._judge.submit(problem, transcript.answer)
        decided: Future[Verdict] = Future()
        decided.set_result(Verdict(False, "truncated" if rollout.truncated else "no-answer"))
        return decided

    def _duels(self, table: _Round, index: int) -> list[Duel]:
        method, numbers = table.method, range(table.drafts)
        drafts = _paid(
            [self._entry(table, (index, DRAFT, number)) for number in numbers],
            method.draft_reward,
            [None] * table.drafts,
        )
        if not method.challenges:
            return [
                Duel(table.problems[index], draft, table.step, number) for number, draft in enumerate(drafts)
            ]
        challenges = _paid(
            [self._entry(table, (index, CHALLENGE, number)) for number in numbers],
            method.challenge_reward,
            [drafts[method.opponent(number)] for number in numbers],
        )
        return [
            Duel(
                problem=table.problems[index],
                draft=drafts[number],
                step=table.step,
                index=number,
                shown=table.seats[index, CHALLENGE, number].shown,
                challenge=challenges[number],
                opponent=method.opponent(number),
            )
            for number in numbers
        ]

    def _entry(self, table: _Round, seat: Seat) -> Entry:
        played = table.seats[seat]
        return Entry(played.rollout, played.verdict.result(), played.transcript.well_formed)


def _paid(entries: Sequence[Entry], stack: rewards.Stack, rivals: Sequence[Entry | None]) -> list[Entry]:
    """A group's entries with what each earned, in all and by term."""
    outcomes = [
        rewards.Outcome(
            correct=entry.correct,
            well_formed=entry.well_formed,
            length=entry.rollout.length,
            rival_correct=rival.correct if rival else False,
            rival_length=rival.rollout.length if rival else 0,
            score=entry.verdict.grade,
            rival_score=rival.verdict.grade if rival else 0.0,
        )
        for entry, rival in zip(entries, rivals, strict=True)
    ]
    return [
        replace(entry, reward=rewards.reward(stack, outcome), terms=rewards.terms(stack, outcome))
        for entry, outcome in zip(entries, outcomes, strict=True)
    ]


def _parse(key: str) -> Seat:
    index, role, number = key.split("/")
    return int(index), role, int(number)
