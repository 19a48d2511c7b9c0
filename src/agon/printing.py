"""Where text leaves for a terminal: problems, drafts, golds, names and files are data, never commands to it.

A terminal obeys control characters: they move the cursor over what was printed, retitle windows, write the clipboard
(OSC 52), and turn text around (bidirectional overrides). Everything that this package prints goes through `say` or a
`console()`, which show such characters instead of sending them; a test refuses any other way out. What other libraries
print (progress bars, warnings, tracebacks) passes `guarded_streams` while a command runs, which lets through no more
than they need: colours, the carriage return, and one line up.
"""

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

# Control characters but the line feed; lone surrogates, which no terminal's encoding has; the characters that order
# text by direction, and other invisible ones. The joiners stay: Persian, Hindi and many emoji are written with them.
_INVISIBLE = (
    "\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff"
    "\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufffe\uffff\U000e0000-\U000e0fff"
)
_CONTROL = re.compile(f"[{_INVISIBLE}]")
# What progress bars and coloured logs of other libraries are made of.
_BAR = re.compile(r"\x1b\[(?:\d{1,3}(?:;\d{1,3})*)?m|\x1b\[A|\x1b\[2?K|\r|\t")


def plain(text: object) -> str:
    r"""The text with every character that a terminal would obey written out; line feeds stay, a tab is four spaces.

    >>> plain("a\x1b]52;c;Zm9v\x07b\tc")
    'a\\u001b]52;c;Zm9v\\u0007b    c'
    """
    return _CONTROL.sub(_written_out, str(text).replace("\t", "    "))


def one_line(text: object) -> str:
    """The same on one line."""
    return " ".join(plain(text).split())


def _written_out(found: re.Match[str]) -> str:
    # As JSON writes them, so that a JSON text stays one.
    return json.dumps(found[0])[1:-1] if found[0] != "\x7f" else "\\u007f"


def say(
    *texts: object, sep: str = " ", end: str = "\n", file: TextIO | None = None, flush: bool = False
) -> None:
    """`print`, for text that may hold anything."""
    print(sep.join(map(plain, texts)), end=end, file=file, flush=flush)


def console(file: TextIO | None = None, stderr: bool = False) -> "Console":
    """A rich console whose own styles are the only control characters it sends, and to which text is no markup."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment

    class PlainConsole(Console):
        """Every segment that is not rich's own control passes `plain`, whatever it was rendered from."""

        def render(
            self, renderable: RenderableType, options: ConsoleOptions | None = None
        ) -> Iterator[Segment]:
            for segment in super().render(renderable, options):
                safe = segment.control or segment.text == plain(segment.text)
                yield segment if safe else Segment(plain(segment.text), segment.style)

    target = file or (sys.stderr if stderr else sys.stdout)
    return PlainConsole(file=getattr(target, "unguarded", target), markup=False, emoji=False, highlight=False)


class GuardedStream:
    """A text stream that shows control characters instead of sending them, but for those of progress bars."""

    def __init__(self, unguarded: TextIO) -> None:
        self.unguarded = unguarded

    def write(self, text: str) -> int:
        kept, end = [], 0
        for bar in _BAR.finditer(text):
            kept += [plain(text[end : bar.start()]), bar[0]]
            end = bar.end()
        self.unguarded.write("".join([*kept, plain(text[end:])]))
        return len(text)

    def writelines(self, lines: list[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.unguarded, name)


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Guard standard output and error for the length of a command."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (GuardedStream(stream) for stream in before)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before
