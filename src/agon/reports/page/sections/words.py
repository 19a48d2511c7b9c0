"""What the data says, in words: the answers with their tests, and what stays open."""

from collections.abc import Iterator

from agon.reports.page.claims import open_questions, verdicts
from agon.reports.page.material import Group, Material
from agon.reports.page.model import Block, Heading, Listing, Section, Text
from agon.reports.page.verdicts import Verdict


def answers(material: Material) -> dict[str, list[Verdict]]:
    """The verdicts of every group in which something was tested."""
    return {group.label: verdicts(group) for group in material.groups if group.tested}


def words_section(material: Material, found: dict[str, list[Verdict]]) -> Section:
    blocks = [block for group in material.groups for block in _group(material, group, found)]
    return Section("In words", "words", tuple(blocks))


def _group(material: Material, group: Group, found: dict[str, list[Verdict]]) -> Iterator[Block]:
    if len(material.groups) > 1:
        yield Heading(group.label)
    if group.label not in found:
        yield Text(
            f"No run here was tested, so nothing can be said ({', '.join(f'`{one.name}`' for one in group.entries)})."
        )
        return
    answers = found[group.label]
    yield from (answer.finding() for answer in answers)
    open_ = open_questions(group, answers)
    if open_:
        yield Text("What this data cannot tell:")
        yield Listing(tuple(open_))
