"""Settings for all tests: property tests have no deadline, and repeat themselves exactly in CI."""

import os

from hypothesis import settings

settings.register_profile("agon", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "agon")
