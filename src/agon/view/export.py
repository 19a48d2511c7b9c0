"""One HTML file with a slice of a run's duels: it opens from disk and asks nobody for anything.

The modules of the page are put behind each other into one script, the data into a block that is no script, and a
policy of its own lets nothing run but those scripts, named by their sums. Mathematics is set as MathML, which
browsers draw with their own fonts.
"""

import base64
import hashlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agon.errors import InputError
from agon.runs.files import write_text
from agon.view import api, details
from agon.view.library import Library
from agon.view.server import STATIC, as_json

# In the order of their imports; only the last one does something when it is read.
MODULES = (
    "dom",
    "api",
    "route",
    "code",
    "text",
    "chart",
    "list",
    "filters",
    "duel",
    "group",
    "overview",
    "compare",
    "main",
)


def write_page(library: Library, source: str, words: Mapping[str, str], limit: int, target: Path) -> int:
    """Write the page and return how many duels are in it."""
    data = collect(library, source, words, limit)
    write_text(target, page(data))
    return len(data["lines"])


def collect(library: Library, source: str, words: Mapping[str, str], limit: int) -> dict[str, Any]:
    """The first duels that pass the filter, with all that a page shows of them."""
    if len(library.runs) != 1:
        raise InputError("One run at a time can be written to a file: give one RUN.")
    run = next(iter(library.runs))
    source = source or next(iter(library.run(run).sources()))
    index = library.index(run, source, wait=1e6)
    shot, _, chosen = library.every(index, words, limit)
    facts = api.runs(library, {})["runs"]
    facts[0]["sources"] = [one for one in facts[0]["sources"] if one["name"] == source]
    place = {"run": run, "source": source}
    return {
        "runs": facts,
        "curves": api.curves(library, place),
        "state": {**api.state(library, place), "count": len(chosen), "finished": True},
        "lines": [details.line(index, shot.rows[number]) for number in chosen],
        "duels": {details.name_of(shot.rows[n]): details.one(index, shot.rows, n) for n in chosen},
    }


def page(data: Mapping[str, Any]) -> str:
    """The page as text; whatever stands in the data cannot end its block."""
    style = _static("style.css")
    scripts = [_static("katex/katex.min.js"), bundle()]
    allowed = " ".join(f"'sha256-{_sum(script)}'" for script in scripts)
    policy = (
        f"default-src 'none'; script-src {allowed}; style-src 'sha256-{_sum(style)}'; base-uri 'none'; "
        "form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    carried = as_json(data).decode().replace("<", "\\u003c").replace("\u2028", "\\u2028")
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Agon: duels</title>\n<style>{style}</style>\n</head>\n<body>\n"
        '<header id="top"></header>\n<main id="page"></main>\n<dialog id="help"></dialog>\n'
        '<div id="said" role="status" aria-live="polite"></div>\n'
        f'<script type="application/json" id="carried">{carried}</script>\n'
        f'<script>{scripts[0]}</script>\n<script type="module">{scripts[1]}</script>\n</body>\n</html>\n'
    )


def bundle() -> str:
    """The modules of the page as one."""
    parts = []
    for name in MODULES:
        text = re.sub(r'^import .* from "\./\w+\.js";\n', "", _static(f"{name}.js"), flags=re.MULTILINE)
        parts.append(
            re.sub(r"^export (?=(?:async )?(?:function|const|let|class)\b)", "", text, flags=re.MULTILINE)
        )
    return "\n".join(parts)


def _static(name: str) -> str:
    return (STATIC / name).read_text("utf-8")


def _sum(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
