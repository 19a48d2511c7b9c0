"""A handful of duels, chosen by a rule and not by taste, word for word.

By default they are the training's own, which a run keeps with their problems: nothing has to be loaded to show them.
Those of test evaluations need the task, whose problems an evaluation only names.
"""

from collections.abc import Iterator, Sequence

from agon.game.duel import Duel
from agon.judges.pool import JudgePool
from agon.reports.page.material import Material
from agon.reports.page.model import Block, Heading, Quote, Section, Text
from agon.reports.quotes import Quote as Example
from agon.reports.quotes import quotes, sources
from agon.runs.records import Record

LAST = 512  # duels of a run, from its end
LONGEST = 1_500  # characters of a text that are shown
KINDS = {"converted": "A conversion", "corrupted": "A corruption", "both wrong": "Both wrong"}


def duels_section(
    material: Material, count: int, of: str = "training", path: str | None = None
) -> Section | None:
    """The shortest examples of each kind, from the first seed of each method that has any."""
    return _of_training(material, count) if of == "training" else _of_tests(material, count, path)


def _of_tests(material: Material, count: int, path: str | None) -> Section:
    blocks: list[Block] = []
    read = [(record, sources(record, path)) for record in _first_seeds(material)]
    with JudgePool("math") as pool:
        for record, evaluations in read:
            found = quotes(evaluations, count, pool)
            if found:
                blocks.append(Heading(record.name))
                blocks += [_test_quote(one) for one in found]
    rule = (
        f"The rule: of each method's first seed and each of its test evaluations, the {count} shortest conversions, "
        "corruptions and copied errors, both sides well formed, no two of one problem."
    )
    return Section("Duels", "duels", (Text(rule), *blocks))


def _test_quote(quote: Example) -> Quote:
    draft, final = quote.exchange.draft, quote.exchange.final
    return Quote(
        f"A {quote.kind}: {quote.where}",
        (
            (f"Problem (gold: {quote.problem.answer})", quote.problem.prompt),
            (f"Draft by {draft.policy}: {draft.reason}", draft.text),
            (f"What {final.policy} was shown", final.shown or ""),
            (f"Challenge by {final.policy}: {final.reason}", final.text),
        ),
    )


def _of_training(material: Material, count: int) -> Section | None:
    blocks: list[Block] = []
    for record in _first_seeds(material):
        found = list(chosen(record.run.duels().last(LAST), count))
        if found:
            blocks.append(Heading(record.name))
            blocks += [_quote(kind, duel) for kind, duel in found]
    if not blocks:
        return None
    rule = (
        f"The rule: of each method's first seed, of the {LAST} duels that were played last, the {count} shortest "
        "conversions, corruptions and duels with two wrong answers, both sides well formed, no two of one problem. "
        f"Texts are cut after {LONGEST:,} characters."
    )
    return Section("Duels", "duels", (Text(rule), *blocks))


def chosen(duels: Sequence[Duel], count: int) -> Iterator[tuple[str, Duel]]:
    """The shortest duels of each kind, the kinds in their order."""
    formed = [
        duel for duel in duels if duel.challenge and duel.draft.well_formed and duel.challenge.well_formed
    ]
    for kind in KINDS:
        shortest = sorted((duel for duel in formed if duel.transition == kind), key=_length)
        per_problem = {duel.problem.id: duel for duel in reversed(shortest)}
        yield from ((kind, duel) for duel in sorted(per_problem.values(), key=_length)[:count])


def _first_seeds(material: Material) -> list[Record]:
    runs = [record for group in material.groups for record in group.begun]
    return list({record.method: record for record in reversed(runs)}.values())[::-1]


def _length(duel: Duel) -> tuple[int, str, int]:
    texts = (
        duel.problem.prompt,
        duel.draft.rollout.text,
        duel.challenge.rollout.text if duel.challenge else "",
    )
    return sum(map(len, texts)), duel.problem.id, duel.index


def _quote(kind: str, duel: Duel) -> Quote:
    assert duel.challenge is not None
    challenger = duel.challenge.rollout.policy
    return Quote(
        f"{KINDS[kind]}, step {duel.step + 1}, problem {duel.problem.id}",
        (
            (f"Problem (gold: {duel.problem.answer})", _cut(duel.problem.prompt)),
            (f"Draft by {duel.drafter}: {duel.draft.verdict.reason}", _cut(duel.draft.rollout.text)),
            (f"What {challenger} was shown", _cut(duel.shown or "(nothing)")),
            (
                f"Challenge by {challenger}: {duel.challenge.verdict.reason}",
                _cut(duel.challenge.rollout.text),
            ),
        ),
    )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} […]"
