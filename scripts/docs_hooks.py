"""What mkdocs asks of us while it builds the site.

What a block of code needs besides this machine stands in a comment before it, and is shown to a reader.
Pages link to files of the repository, which are not part of the site: there such a link is its text alone.
The table of options is made from the one that `agon train --help` reads.
"""

import re
from pathlib import Path
from typing import Any

from agon.train.option_table import own_options

_NEEDS = re.compile(r"<!-- needs: ([^>]+) -->")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)#\s]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """A page's text as the site shows it."""
    docs = Path(config["docs_dir"]).resolve()
    here = Path(page.file.abs_src_path).parent

    def shown(link: re.Match[str]) -> str:
        text, target = link[1], link[2]
        if "://" in target:
            return link[0]
        place = (here / target).resolve()
        is_page = place.is_relative_to(docs) and place.is_file() and place.suffix in (".md", ".svg", ".png")
        return link[0] if is_page else text

    markdown = _NEEDS.sub(r"*Needs \1:*\n", markdown)
    return _LINK.sub(shown, markdown).replace("OPTIONS_TABLE", options_table())


def options_table() -> str:
    """The options that are not TRL's, with their defaults."""
    rows = ["| option | default | what it is |", "| --- | --- | --- |"]
    for option in own_options():
        default = "" if option.default in (None, "") else f"`{option.default}`"
        rows.append(f"| `{option.name}` | {default} | {option.help.replace('|', chr(92) + '|')} |")
    return "\n".join(rows)
