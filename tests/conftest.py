"""Settings for all tests: property tests have no deadline, and repeat themselves exactly in CI."""

import gc
import os

from hypothesis import settings

settings.register_profile("agon", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "agon")


def pytest_collection_finish() -> None:
    """What is loaded now stays loaded: to search its 750,000 objects for garbage again and again took a fifth of the
    time of the tests that train."""
    gc.collect()
    gc.freeze()
