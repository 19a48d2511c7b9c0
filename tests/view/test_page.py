"""The page in a real Chromium: what a person does with it, and what a hostile model cannot."""

import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agon.view.export import bundle, write_page
from agon.view.library import Library
from agon.view.server import Viewer
from agon.view.sources import open_runs
from tests.view import make

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
from selenium.webdriver.common.keys import Keys  # noqa: E402

from tests.view.browser import CHROMIUM, DRIVER, MISSING, chromium  # noqa: E402

pytestmark = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason=MISSING)

HOSTILE = (
    "<script>window.owned = 1</script><img src=x onerror='window.owned = 2'><svg onload='window.owned = 3'>"
    "\u202eright to left\u202c \x1b[31m\x00 $\\href{javascript:window.owned=4}{x}$ </div></script><!--"
)
LONG = "x" * 200_000


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    first = make.run(folder / "one", range(6))
    make.run(folder / "two", range(6), seed=5)
    duel = make.duels([6])[0]
    draft = make.entry(
        "A", "5", "5", text=f"<think>{HOSTILE}</think>{HOSTILE}\n{LONG}\n<answer>5</answer>", detail=HOSTILE
    )
    problem = replace(
        duel.problem,
        prompt=f"{HOSTILE} What is $\\frac{{1}}{{2}} + x^2$?",
        id=f"hostile {HOSTILE}",
        answer="5",
    )
    challenge = make.entry(
        "B", HOSTILE, "5", text=f"```python\nprint(1) # {HOSTILE}\n```\n<answer>{HOSTILE}</answer>"
    )
    first.duels().write([replace(duel, problem=problem, draft=draft, shown=HOSTILE, challenge=challenge)])
    return folder


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as driver:
        yield driver


@pytest.fixture(scope="module")
def viewer(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    with Viewer(Library(open_runs([runs / "one", runs / "two"]), cached=False), "127.0.0.1", 0) as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


class Page:
    """The browser with the few things that tests do in it."""

    def __init__(self, driver: Any, url: str) -> None:
        self.driver, self.url = driver, url

    def open(self, link: str = "") -> None:
        self.driver.get("about:blank")
        self.driver.get(self.url + link)

    def js(self, code: str) -> Any:
        return self.driver.execute_script(f"return {code}")

    def until(self, code: str, wanted: Callable[[Any], bool] = bool, seconds: float = 10) -> Any:
        """The value of some JavaScript as soon as it is what is wanted."""
        end = time.monotonic() + seconds
        while True:
            value = self.js(
                f"(() => {{ try {{ return {code} }} catch {{ return null }} }})()"
            )  # not drawn yet
            if value is not None and wanted(value):
                return value
            assert time.monotonic() < end, f"{code} is {value!r}"
            time.sleep(0.03)

    def press(self, *keys: str) -> None:
        self.driver.switch_to.active_element.send_keys(*keys)

    def duel(self) -> str:
        return str(self.until("document.querySelector('.duel')?.dataset.id"))


@pytest.fixture
def page(browser: Any, viewer: Viewer) -> Iterator[Page]:
    """A page whose console must be clean when the test ends."""
    size(browser, 1440, 900)
    yield Page(browser, viewer.url)
    said = [entry["message"] for entry in browser.get_log("browser")]
    assert said == []


def size(driver: Any, width: int, height: int) -> None:
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)


LIST = "#/duels?run=one&source=training"
LINES = "[...document.querySelectorAll('.line')].map((line) => line.dataset.id)"
TITLES = "[...document.querySelectorAll('.line .outcome')].map((line) => line.textContent)"


def test_filter_to_conversions_open_one_and_walk_by_keyboard(page: Page) -> None:
    page.open(LIST)
    page.until("document.querySelector('.list-count').textContent", lambda said: said == "49 duels")
    page.js("document.querySelector('.chip.o-converted').click()")
    page.until("document.querySelector('.list-count').textContent", lambda said: said == "12 of 49 duels")
    assert set(page.js(TITLES)) == {"converted"}
    ids = page.js(LINES)
    page.js("document.querySelector('.line').click()")
    assert page.duel() == ids[0]
    page.press("j")
    page.until("document.querySelector('.duel')?.dataset.id", lambda name: name == ids[1])
    page.press(Keys.ARROW_DOWN)
    page.until("document.querySelector('.duel')?.dataset.id", lambda name: name == ids[2])
    page.press("k")
    page.until("document.querySelector('.duel')?.dataset.id", lambda name: name == ids[1])
    assert page.js("document.querySelector('.line.open').dataset.id") == ids[1]
    assert "correct" in page.js(
        "document.querySelectorAll('.side-card')[1].querySelector('.verdict').textContent"
    )
    assert "conversion +1" in page.js("document.querySelectorAll('.side-card')[1].textContent")
    page.press(Keys.ESCAPE)
    page.until("!document.querySelector('.duel')")


def test_a_link_leads_to_its_duel_with_what_was_withheld_marked(page: Page) -> None:
    page.open(f"{LIST}&outcome=corrupted&id=3.2")
    assert page.duel() == "3.2"
    assert page.until("document.querySelector('.line.open')?.dataset.id") == "3.2"
    assert page.js("document.querySelector('.body .withheld').textContent").startswith("<answer>")
    assert page.js("document.querySelector('.body .shown').textContent") == "Adding them up."
    assert page.js("document.querySelector('details.private').open") is False
    assert page.js("document.querySelector('.read .text').textContent") == "Adding them up."
    page.js("location.reload()")
    assert page.duel() == "3.2"


def test_the_group_is_one_key_away_and_shows_what_each_earned(page: Page) -> None:
    page.open(f"{LIST}&id=2.5")
    page.duel()
    page.press("g")
    page.until("document.querySelectorAll('.group .card').length", lambda count: count == 4)
    rows = page.js(
        "[...document.querySelectorAll('.earnings tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    assert [row[0] for row in rows] == ["2.4", "2.5", "2.6", "2.7"]
    assert [row[3] for row in rows] == ["2.5", "0.5", "2.5", "0.5"]
    assert rows[1][7] == "3.5"
    page.press(Keys.ESCAPE)
    assert page.duel() == "2.5"


def test_words_are_looked_for_in_all_texts(page: Page) -> None:
    page.open(LIST)
    page.until("document.querySelectorAll('.line').length")
    page.press("/")
    page.press("sum-4-1")
    page.until("document.querySelector('.list-count').textContent", lambda said: said == "4 of 49 duels")
    assert "search=sum-4-1" in page.js("location.hash")


def test_two_runs_are_compared_problem_by_problem(page: Page) -> None:
    page.open("#/compare")
    page.until("document.querySelectorAll('.pairs tbody tr').length", lambda count: count == 12)
    assert page.until("document.querySelectorAll('.run-column').length") == 2
    assert page.js("document.querySelectorAll('.run-column .card').length") == 8
    page.js("document.querySelector('#differ').click()")
    page.until("document.querySelector('.compare > p').textContent.includes('differ')")
    assert "differ=1" in page.js("location.hash")


def test_the_overview_draws_curves_and_a_step_leads_to_its_duels(page: Page) -> None:
    page.open()
    page.until("document.querySelectorAll('.panel').length", lambda count: count >= 5)
    assert "12 converted" in page.js("document.querySelector('.counts').textContent")
    picture = page.driver.find_element("css selector", ".chart")
    aside = picture.size["width"] // 2 - 13  # the last step stands at the right end
    webdriver.ActionChains(page.driver).move_to_element_with_offset(picture, aside, 0).click().perform()
    page.until("location.hash", lambda link: "step=5" in link)
    page.until("document.querySelector('.list-count')?.textContent", lambda said: said == "8 of 49 duels")


def test_a_run_that_goes_on_is_followed(browser: Any, tmp_path: Path) -> None:
    run = make.run(tmp_path / "live", range(2))
    with Viewer(Library(open_runs([run.folder]), cached=False), "127.0.0.1", 0) as viewer:
        threading.Thread(target=viewer.serve_forever, daemon=True).start()
        page = Page(browser, viewer.url)
        size(browser, 1440, 900)
        page.open("#/duels?outcome=converted")
        page.until("document.querySelector('.list-count').textContent", lambda said: said == "4 of 16 duels")
        assert "live" in page.until("document.querySelector('#live').textContent")
        make.add(run, [2])
        page.until("document.querySelector('.list-count').textContent", lambda said: said == "6 of 24 duels")
        assert page.until(LINES, lambda ids: ids[0] == "2.5")
        run.write_summary({"finished": True, "steps": 3, "max_steps": 3})
        page.until("!document.querySelector('#live').textContent.includes('live')")
        viewer.shutdown()
    browser.get("about:blank")
    browser.get_log("browser")


def test_a_hostile_duel_is_text_and_nothing_else(page: Page) -> None:
    page.open(f"{LIST}&id=6.0")
    page.duel()
    seen = page.js("document.querySelector('.pane').textContent")
    assert "<script>window.owned = 1</script>" in seen
    assert "<img src=x onerror=" in seen
    assert "U+202E" in seen
    assert "U+001B" in seen
    assert "U+0000" in seen
    assert "\u202e" not in seen
    page.js("document.querySelectorAll('details').forEach((fold) => { fold.open = true })")
    page.js("document.querySelector('button.more').click()")
    assert "x" * 199_000 in page.js("document.querySelector('.pane').textContent")
    assert page.js("document.documentElement.scrollWidth <= innerWidth") is True
    assert (
        page.js("document.querySelectorAll('.pane img, .pane script, .pane a[href^=javascript]').length") == 0
    )
    page.open("#/group?run=one&source=training&id=6.0")
    page.until("document.querySelector('.group .card')")
    assert page.js("window.owned ?? null") is None


def test_mathematics_is_set_and_programs_have_colour(page: Page) -> None:
    page.open(f"{LIST}&id=6.0")
    page.duel()
    assert page.until("document.querySelectorAll('.problem .katex .mfrac').length") == 1
    assert page.js("document.querySelector('pre.code .c-comment').textContent").startswith("# <script>")
    page.press("w")
    page.until("document.querySelectorAll('.problem .katex').length === 0")
    assert "\\frac{1}{2}" in page.js("document.querySelector('.problem').textContent")
    page.press("w")
    page.until("document.querySelectorAll('.problem .katex').length")


def test_the_page_is_dark_where_the_system_is_and_when_asked(page: Page) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    for scheme, colour in (("dark", "rgb(20, 23, 27)"), ("light", "rgb(246, 247, 248)")):
        feature = {"name": "prefers-color-scheme", "value": scheme}
        page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        page.open()
        page.until(ground, colour.__eq__)
    page.until("document.querySelector('#theme')")
    page.press("t")
    page.until(ground, lambda now: now == "rgb(20, 23, 27)")
    page.js("localStorage.clear()")


@pytest.mark.parametrize(
    "link",
    ["", LIST, f"{LIST}&id=1.1", f"{LIST}&id=6.0", "#/group?run=one&source=training&id=1.1", "#/compare"],
)
def test_nothing_is_wider_than_a_phone(link: str, page: Page) -> None:
    size(page.driver, 390, 844)
    page.open(link)
    page.until("document.querySelector('.panel, .line, .duel, .card, .pairs')")
    assert page.js("document.documentElement.scrollWidth") == 390
    if link == f"{LIST}&id=1.1":
        page.duel()
        assert page.js("document.querySelector('.list-pane').offsetHeight") == 0
        page.js("document.querySelector('.back').click()")
        page.until("document.querySelector('.list-pane').offsetHeight")


def test_a_duel_is_copied_as_json(page: Page) -> None:
    page.open(f"{LIST}&id=1.1")
    page.duel()
    grant = {"origin": page.url.rstrip("/"), "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]}
    page.driver.execute_cdp_cmd("Browser.grantPermissions", grant)
    page.press("c")
    page.until("document.querySelector('#said').textContent", lambda said: said == "Copied duel 1.1 as JSON.")
    copied = page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    assert json.loads(copied) == json.loads(make.duels([1])[1].to_json())


def test_an_exported_page_opens_from_disk_and_asks_nobody(browser: Any, runs: Path, tmp_path: Path) -> None:
    target = tmp_path / "duels.html"
    count = write_page(Library(open_runs([runs / "one"]), cached=False), "", {"step": "5..6"}, 100, target)
    assert count == 9
    size(browser, 1440, 900)
    page = Page(browser, target.as_uri())
    page.open(LIST)
    page.until("document.querySelector('.list-count').textContent", lambda said: said == "9 duels")
    page.js("document.querySelector('.chip.o-converted').click()")
    page.until("document.querySelector('.list-count').textContent", lambda said: said == "2 of 9 duels")
    page.press("j")
    assert page.duel() == "5.5"
    page.open(f"{LIST}&id=6.0")
    assert page.duel() == "6.0"
    assert page.until("document.querySelectorAll('.problem math mfrac').length") == 1
    assert page.js("window.owned ?? null") is None
    assert page.js("performance.getEntriesByType('resource').length") == 0
    assert [entry["message"] for entry in browser.get_log("browser")] == []


def test_the_modules_of_the_page_share_no_name() -> None:
    names = re.findall(r"^(?:async )?(?:const|let|function|class) \{? ?(\w+)", bundle(), re.MULTILINE)
    assert sorted(set(names)) == sorted(names)
    assert re.findall(r"^(?:import|export) .*", bundle(), re.MULTILINE) == []
