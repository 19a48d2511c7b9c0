"""The pictures of the viewer in README and docs: real runs, in Chromium.

    python -m scripts.viewer_screenshots                 trains the demo for 24 steps first, about three minutes
    python -m scripts.viewer_screenshots --demo RUN      with a demo run that is there

The overview and the comparison show the committed runs of the small real model (docs/results/qwen2.5-coder-0.5b), whose
evaluations keep answers without texts; duels and groups are the demo's.
"""

import argparse
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path

from agon.view.api import duels
from agon.view.library import Library
from agon.view.server import Viewer
from agon.view.sources import open_runs
from tests.view.browser import chromium

ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs" / "figures"
RUNS = ROOT / "docs" / "results" / "qwen2.5-coder-0.5b" / "runs"
WIDE, PHONE = (1440, 900), (390, 844)


@dataclass(frozen=True)
class Picture:
    """A view, how wide it is seen, and what stands on it when it is drawn."""

    name: str
    link: str
    drawn: str
    size: tuple[int, int] = WIDE
    dark: bool = False


def pictures(duel: str) -> list[Picture]:
    demo, pair = "run=demo&source=training", "agon-s0-lr3e-4|coop-s0-lr3e-4"
    one = f"#/duels?{demo}&outcome=converted&id={duel}"
    return [
        Picture("viewer-duel", one, ".duel .body"),
        Picture("viewer-group", f"#/group?{demo}&id={duel}", ".card .body"),
        Picture("viewer-overview", "#/overview?run=agon-s0-lr3e-4", ".evaluation"),
        Picture(
            "viewer-compare",
            f"#/compare?runs={pair}&source=gsm8k-test&play=A->B&differ=1",
            ".run-column .card",
        ),
        Picture("viewer-phone", one, ".duel .body", PHONE),
        Picture("viewer-phone-list", f"#/duels?{demo}", ".line .answer", PHONE, dark=True),
    ]


def demo_run(folder: Path) -> Path:
    """The embedded default, cut short."""
    words = ["train", "--max_steps", "24", "--final_evaluation", "60", "--output_dir", str(folder)]
    subprocess.run([sys.executable, "-m", "agon.cli", *words], check=True)
    return folder


def take(demo: Path, out: Path) -> None:
    # The page names a run by its folder.
    shown = [demo, RUNS / "agon-s0-lr3e-4", RUNS / "coop-s0-lr3e-4"]
    library = Library(open_runs(shown), cached=False)
    library.index("demo", "training", wait=60)
    (line,) = duels(library, {"run": "demo", "source": "training", "outcome": "converted", "count": "1"})[
        "lines"
    ]
    with Viewer(library, "127.0.0.1", 0) as viewer, chromium() as browser:
        threading.Thread(target=viewer.serve_forever, daemon=True).start()
        for picture in pictures(line["id"]):
            width, height = picture.size
            scheme = {"name": "prefers-color-scheme", "value": "dark" if picture.dark else "light"}
            metrics = {
                "width": width,
                "height": height,
                "deviceScaleFactor": 1,
                "mobile": picture.size == PHONE,
            }
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
            browser.get("about:blank")
            browser.get(viewer.url + picture.link)
            until = time.monotonic() + 60
            while not browser.execute_script("return document.querySelector(arguments[0])", picture.drawn):
                if time.monotonic() > until:
                    sys.exit(f"{picture.name} was not drawn: there is no {picture.drawn}.")
                time.sleep(0.05)
            browser.execute_async_script("document.fonts.ready.then(() => setTimeout(arguments[0], 600))")
            browser.save_screenshot(str(out / f"{picture.name}.png"))
            print(out / f"{picture.name}.png")
        said = [entry["message"] for entry in browser.get_log("browser")]
        if said:
            sys.exit("\n".join(said))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--demo", type=Path, help="a run of the embedded default, in a folder named demo")
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="agon-pictures-") as folder:
        take(arguments.demo or demo_run(Path(folder) / "demo"), arguments.out)


if __name__ == "__main__":
    main()
