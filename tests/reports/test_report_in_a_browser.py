"""The report in a real Chromium: from disk, on a phone and on a wide screen, in light and dark, and on paper."""

import base64
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agon.reports.page.build import build_report, write_report
from tests.reports.test_writers import HOSTILE
from tests.view import make

pytest.importorskip("selenium.webdriver", reason="needs selenium")
from tests.view.browser import CHROMIUM, DRIVER, MISSING, chromium

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason=MISSING)
ROOT = Path(__file__).parents[2]
COMMITTED = ROOT / "docs" / "results" / "qwen2.5-coder-0.5b" / "page.html"
BEYOND = """
    const wide = document.documentElement.clientWidth;
    const scrolls = (node) => node && (node.matches('.scroll, .code, .quote pre') || scrolls(node.parentElement));
    return [...document.body.querySelectorAll('*')].filter((node) =>
        node.getBoundingClientRect().right > wide + 1 && !scrolls(node)).map((node) => node.outerHTML.slice(0, 120));
"""


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a run whose texts would like to be markup, and are long."""
    folder = tmp_path_factory.mktemp("hostile") / "run"
    budget = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 4, "max_completion_length": 9}
    run = make.run(folder)
    run.write_config({**make.CONFIG, **budget, "note": HOSTILE})
    run.write_summary({"finished": True, "steps": 3})
    run.write_environment({"gpu": HOSTILE, "engine": "x" * 300})
    duel = make.duels([3])[1]
    draft = make.entry("A", "0", "5", text=f"<think>{HOSTILE}</think>{HOSTILE}{'x' * 900}<answer>0</answer>")
    challenge = make.entry("B", "5", "5", text=f"<think>{HOSTILE}</think>ok<answer>5</answer>")
    run.duels().write([replace(duel, draft=draft, shown=HOSTILE, challenge=challenge)])
    report = build_report([str(folder)], {})
    path = folder / "report.html"
    write_report(report, [path])
    return path


def set_view(browser: Any, width: int, dark: bool) -> None:
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})


def test_the_report_opens_from_disk_fits_every_screen_and_prints(hostile: Path) -> None:
    with chromium() as browser:
        for path in (COMMITTED, hostile):
            grounds = set()
            for width, dark in ((390, False), (1440, True), (1440, False), (390, True)):
                set_view(browser, width, dark)
                browser.get(path.as_uri())
                assert browser.execute_script("return document.documentElement.scrollWidth") == width
                assert browser.execute_script(BEYOND) == []
                grounds.add(browser.execute_script("return getComputedStyle(document.body).backgroundColor"))
                asked = browser.execute_script("return performance.getEntriesByType('resource').length")
                assert asked == 0
            assert len(grounds) == 2
            assert browser.execute_script("return window.owned") is None
            assert (
                browser.execute_script("return document.querySelectorAll('script, img, iframe').length") == 0
            )
            printed = base64.b64decode(browser.execute_cdp_cmd("Page.printToPDF", {})["data"])
            assert printed.startswith(b"%PDF")
            assert len(re.findall(rb"/Type\s*/Page\b", printed)) >= 2
        for link in browser.execute_script(
            "return [...document.querySelectorAll('nav a')].map((a) => a.hash)"
        ):
            assert browser.execute_script("return document.querySelector(arguments[0])", link)
        assert [entry["message"] for entry in browser.get_log("browser")] == []
