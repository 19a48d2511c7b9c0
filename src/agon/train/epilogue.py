"""What is shown when a run has finished: one duel in which the challenger was right where the draft was not."""

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from agon.game.duel import Duel
from agon.train.run import Run


def last_conversion(run: Run) -> Duel | None:
    """The latest duel that turned a wrong draft into a right answer."""
    found = None
    for duel in run.duels():
        if duel.converted:
            found = duel
    return found


def show_conversion(run: Run, console: Console) -> None:
    """Print a real conversion of the run, if it has one."""
    duel = last_conversion(run)
    if duel is None or duel.challenge is None:
        return
    story = Text.assemble(
        ("problem\n", "bold"),
        f"{duel.problem.prompt.strip()}\n\n",
        (f"{duel.drafter} drafts, and is wrong\n", "bold red"),
        f"{duel.draft.rollout.text.strip()}\n\n",
        (f"what {duel.challenge.rollout.policy} is shown of it\n", "bold"),
        f"{duel.shown or '(nothing)'}\n\n",
        (f"{duel.challenge.rollout.policy} challenges, and is right\n", "bold green"),
        duel.challenge.rollout.text.strip(),
    )
    console.print(Panel(story, title=f"a conversion, at step {duel.step}", title_align="left"))
