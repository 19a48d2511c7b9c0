"""The pictures of the report in README and docs: the committed page of the small real model, in Chromium.

python -m scripts.report_screenshots
"""

import argparse
import base64
from dataclasses import dataclass
from pathlib import Path

from tests.view.browser import chromium

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "results" / "qwen2.5-coder-0.5b" / "page.html"
OUT = ROOT / "docs" / "figures"
WIDTH = 1280


@dataclass(frozen=True)
class Picture:
    """A part of the page, from a place in it, as high as it is shown."""

    name: str
    section: str
    height: int
    dark: bool = False


PICTURES = (
    Picture("report-words", "", 760),
    Picture("report-figures", "tokens", 1000, dark=True),
)


def take(page: Path, out: Path) -> None:
    with chromium() as browser:
        for picture in PICTURES:
            scheme = {"name": "prefers-color-scheme", "value": "dark" if picture.dark else "light"}
            metrics = {"width": WIDTH, "height": 900, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
            browser.get(page.as_uri())
            where = f"document.getElementById({picture.section!r})" if picture.section else "document.body"
            top = browser.execute_script(f"return {where}.getBoundingClientRect().top + window.scrollY")
            clip = {"x": 0, "y": top, "width": WIDTH, "height": picture.height, "scale": 1}
            taken = browser.execute_cdp_cmd(
                "Page.captureScreenshot", {"captureBeyondViewport": True, "clip": clip}
            )
            (out / f"{picture.name}.png").write_bytes(base64.b64decode(taken["data"]))
            print(out / f"{picture.name}.png")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=OUT)
    take(PAGE, parser.parse_args().out)


if __name__ == "__main__":
    main()
