"""Draw one step of Agon: `python scripts/figures/one_step.py` writes docs/figures/one_step.svg."""

from pathlib import Path

TARGET = Path(__file__).parents[2] / "docs" / "figures" / "one_step.svg"
WIDTH, HEIGHT = 960, 420

BLUE, GOLD, GREEN, GREY = "#2f5d9b", "#a8720a", "#2e7d4f", "#5b6470"
FILLS = {BLUE: "#edf3fb", GOLD: "#fdf5e3", GREEN: "#ebf6ef", GREY: "#f5f6f8"}


def box(x: int, y: int, width: int, height: int, colour: str, title: str, *lines: str) -> list[str]:
    """A rounded box with a title and smaller lines under it."""
    middle = x + width // 2
    top = y + height // 2 - 9 * len(lines) + 5
    return [
        f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="10" fill="{FILLS[colour]}"'
        f' stroke="{colour}" stroke-width="1.6"/>',
        text(middle, top, title, size=16, colour=colour, weight="600"),
        *(text(middle, top + 20 + 18 * index, line) for index, line in enumerate(lines)),
    ]


def text(x: int, y: int, words: str, size: int = 13, colour: str = GREY, weight: str = "400") -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" fill="{colour}" font-weight="{weight}"'
        f' text-anchor="middle">{words}</text>'
    )


def arrow(path: str, colour: str, dashed: bool = False) -> str:
    dashes = ' stroke-dasharray="6 5"' if dashed else ""
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.8"{dashes}'
        f' marker-end="url(#{colour[1:]})"/>'
    )


def head(colour: str) -> str:
    return (
        f'<marker id="{colour[1:]}" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7"'
        f' orient="auto-start-reverse"><path d="M0 0 L10 5 L0 10 z" fill="{colour}"/></marker>'
    )


def draw() -> str:
    """The picture as SVG text."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
        ' aria-label="One step of Agon" font-family="Helvetica, Arial, sans-serif">',
        f"<defs>{''.join(map(head, FILLS))}</defs>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="14" fill="#ffffff"/>',
        *box(24, 150, 120, 84, GREY, "problem", "one of a batch"),
        *box(204, 130, 180, 124, BLUE, "A drafts", "N rollouts from", "the plain prompt"),
        *box(556, 130, 180, 124, GOLD, "B challenges", "one rollout per draft,", "told to distrust it"),
        *box(816, 150, 120, 84, GREEN, "judge", "right or wrong?"),
        arrow("M144 192 H198", GREY),
        arrow("M384 192 H550", BLUE),
        text(467, 164, "A's summary,", colour=BLUE),
        text(467, 182, "answer withheld", colour=BLUE),
        arrow("M736 192 H810", GOLD),
        # The drafts are judged too: their outcome decides what a conversion is.
        arrow("M294 254 V292 H876 V240", BLUE),
        text(585, 284, "each draft is judged as well", colour=BLUE),
        # Rewards and updates.
        arrow("M912 234 V308 H335 V318", GREEN),
        arrow("M718 308 V318", GREEN),
        *box(204, 322, 262, 76, BLUE, "A's update", "2 if right, + ½ for form"),
        *box(
            500,
            322,
            436,
            76,
            GOLD,
            "B's update",
            "2 if right, + 1 more where the draft was wrong, + ½ for form",
        ),
        # Rotation.
        arrow("M640 124 V70 H300 V124", GREY, dashed=True),
        text(470, 60, "the next step swaps the roles: B drafts, A challenges"),
        text(480, 30, "one step", size=18, colour="#1d232b", weight="600"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


if __name__ == "__main__":
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(draw(), encoding="utf-8")
    print(TARGET)
