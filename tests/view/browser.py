"""A real Chromium for tests, with what its console said."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
MISSING = "needs chromium and chromedriver: scripts/install_browser.sh installs them"
# As root there is no sandbox, and without a network no background requests.
FLAGS = (
    *("--headless=new", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage"),
    *("--hide-scrollbars", "--force-device-scale-factor=1"),
)


@contextmanager
def chromium(*flags: str) -> Iterator[webdriver.Chrome]:
    """A browser with an empty profile, its console kept."""
    with tempfile.TemporaryDirectory(prefix="agon-browser-") as profile:
        options = Options()
        options.binary_location = str(CHROMIUM)
        sandbox = ("--no-sandbox",) if hasattr(os, "geteuid") and os.geteuid() == 0 else ()
        for flag in (*FLAGS, *sandbox, f"--user-data-dir={profile}", *flags):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
        try:
            yield driver
        finally:
            driver.quit()
