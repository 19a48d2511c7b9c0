"""One server of the embedded pair for all tests here."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from agon.serve.open import ServeOptions
from tests.serve.running import KEY, Running, save_pair, serving


@pytest.fixture(scope="session")
def pair_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_pair(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="session")
def server(pair_run: Path) -> Iterator[Running]:
    with serving(pair_run, ServeOptions(api_key=KEY)) as running:
        yield running
