"""The last conversion of a run, to show after training: the challenger was right where the draft was wrong."""

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from agon.game.duel import Duel
from agon.runs.folder import Run


def show_conversion(run: Run, console: Console) -> None:
    """Print the last conversion of the run, if it has one."""
    duel = last_conversion(run)
    if duel is None or duel.challenge is None:
        return
    challenger = duel.challenge.rollout.policy
    text = Text.assemble(
        ("problem\n", "bold"),
        f"{duel.problem.prompt.strip()}\n\n",
        (f"{duel.drafter} drafts, and is wrong\n", "bold red"),
        f"{duel.draft.rollout.text.strip()}\n\n",
        (f"what {challenger} is shown of it\n", "bold"),
        f"{duel.shown or '(nothing)'}\n\n",
        (f"{challenger} challenges, and is right\n", "bold green"),
        duel.challenge.rollout.text.strip(),
    )
    # A duel keeps the updates that came before it; people count steps from one, as the live view does.
    last = run.read_summary().get("max_steps")
    step = f"step {duel.step + 1}" + (f" of {last}" if last else "")
    console.print(Panel(text, title=f"a conversion, in {step}", title_align="left"))


def last_conversion(run: Run) -> Duel | None:
    """The latest duel in which a wrong draft was followed by a right challenge."""
    found = None
    for duel in run.duels():
        if duel.converted:
            found = duel
    return found
