"""Say what this machine has, what is missing and the command that fixes it.

Exit code 0 means that a training run is possible here, 1 that something it needs is missing. Optional
things (a GPU, vLLM, the sandbox that code tasks run in) are reported and never fail the check.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict

from agon.commands.output import working
from agon.planning.machine import Finding, examine
from agon.printing import console as plain_console
from agon.printing import say


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(arguments: argparse.Namespace) -> int:
    with working("looking around"):
        findings = list(examine())
    ready = all(finding.state != "missing" for finding in findings)
    if arguments.json:
        say(json.dumps({"ready": ready, "findings": [asdict(finding) for finding in findings]}, indent=2))
    else:
        _print_findings(findings, ready)
    return 0 if ready else 1


def _print_findings(findings: Sequence[Finding], ready: bool) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    console = plain_console()
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("", "what", "found", "wanted"):
        table.add_column(heading, overflow="fold")
    marks = {"ok": ("ok", "green"), "optional": ("–", "yellow"), "missing": ("missing", "bold red")}
    for finding in findings:
        mark, style = marks[finding.state]
        name = f"{finding.area}: {finding.name}"
        table.add_row(Text(mark, style), *(Text(cell) for cell in (name, finding.found, finding.wanted)))
    console.print(table)
    for finding in findings:
        if finding.fix:
            console.print(Text(f"{finding.name}: {finding.fix}"), soft_wrap=True)
    verdict = "A training run is possible here." if ready else "A training run is not possible here yet."
    console.print(Text(verdict, "bold green" if ready else "bold red"))
